package frame

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Sizes in octets.
const (
	HeaderLen   = 36       // core §4.2
	AADLen      = 21       // header octets 0–20: what the CRC covers and the AEAD authenticates
	TagLen      = 16       // of either AEAD
	MaxFrameLen = 16 << 20 // header included; longer is refused before it is buffered
)

// Version is the header layout version. It is 2 in every crypto generation.
const Version = 2

const magic = 0x4E50414D // "NPAM"

// Flags are the low four bits of header octet 4 (core §4.3).
type Flags uint8

// URG and FRAG exist in crypto generation 2 alone; generation 3 reserves both
// bits and rejects a frame that sets one. COMP has no algorithm in either.
const (
	FlagURG  Flags = 1
	FlagENC  Flags = 2
	FlagCOMP Flags = 4
	FlagFRAG Flags = 8

	flagsMask Flags = 0x0F
)

// ReservedFlags3 is the mask of the flags that crypto generation 3 reserves.
// Generation 2 reserves none.
const ReservedFlags3 = FlagURG | FlagFRAG

// String returns names joined with "|", and "0" for none.
func (f Flags) String() string {
	if f == 0 {
		return "0"
	}
	var parts []string
	for _, n := range [...]struct {
		f    Flags
		name string
	}{{FlagURG, "URG"}, {FlagENC, "ENC"}, {FlagCOMP, "COMP"}, {FlagFRAG, "FRAG"}} {
		if f&n.f != 0 {
			parts = append(parts, n.name)
		}
	}
	if rest := f &^ flagsMask; rest != 0 {
		parts = append(parts, hexNum(uint64(rest), 2))
	}
	return strings.Join(parts, "|")
}

// A Header is the fixed part of a frame (core §4.2). All integers are
// big-endian on the wire.
//
//	octets  field           rule
//	0–3     magic           4E 50 41 4D
//	4       version, flags  high nibble 2, low nibble Flags
//	5–6     frame type
//	7–8     channel
//	9–16    sequence        per (channel, direction), from 0
//	17–20   payload length  octets after the header: body and tag
//	21–24   CRC32C          over octets 0–20
//	25–35   reserved        zero
type Header struct {
	Flags      Flags
	Type       Type
	Channel    ChannelID
	Seq        uint64
	PayloadLen uint32 // octets
}

// AppendHeader appends the 36 octets of h to b.
func AppendHeader(b []byte, h Header) []byte {
	var a [HeaderLen]byte
	PutHeader(a[:], h)
	return append(b, a[:]...)
}

// PutHeader writes h, its checksum and the reserved zeros into b[:HeaderLen].
// Flags beyond the low four bits are not representable and are cut off. It
// panics if b is shorter.
func PutHeader(b []byte, h Header) {
	_ = b[HeaderLen-1]
	binary.BigEndian.PutUint32(b[0:], magic)
	b[4] = Version<<4 | byte(h.Flags&flagsMask)
	binary.BigEndian.PutUint16(b[5:], uint16(h.Type))
	binary.BigEndian.PutUint16(b[7:], uint16(h.Channel))
	binary.BigEndian.PutUint64(b[9:], h.Seq)
	binary.BigEndian.PutUint32(b[17:], h.PayloadLen)
	binary.BigEndian.PutUint32(b[AADLen:], CRC32C(b[:AADLen]))
	clear(b[25:HeaderLen])
}

// payloadLen returns the field of a header that may not have been checked.
func payloadLen(b []byte) uint32 { return binary.BigEndian.Uint32(b[17:]) }

// ParseHeader reads the header at the start of b; what follows it is not looked
// at. The checks are made in this order, and the first that fails names the
// error: length (ErrShort), CRC32C before any other field is used (core §4.2:
// ErrChecksum), magic (ErrMagic), version (ErrVersion), reserved octets
// (ErrReserved), header plus payload within MaxFrameLen (ErrTooLong). Which
// flags are reserved depends on the crypto generation and is left to the caller.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, ErrShort
	}
	b = b[:HeaderLen]
	switch {
	case binary.BigEndian.Uint32(b[AADLen:]) != CRC32C(b[:AADLen]):
		return Header{}, ErrChecksum
	case binary.BigEndian.Uint32(b[0:]) != magic:
		return Header{}, ErrMagic
	case b[4]>>4 != Version:
		return Header{}, ErrVersion
	case binary.BigEndian.Uint64(b[25:])|binary.BigEndian.Uint64(b[28:]) != 0:
		return Header{}, ErrReserved
	}
	h := Header{
		Flags:      Flags(b[4]) & flagsMask,
		Type:       Type(binary.BigEndian.Uint16(b[5:])),
		Channel:    ChannelID(binary.BigEndian.Uint16(b[7:])),
		Seq:        binary.BigEndian.Uint64(b[9:]),
		PayloadLen: payloadLen(b),
	}
	if h.PayloadLen > MaxFrameLen-HeaderLen {
		return Header{}, ErrTooLong
	}
	return h, nil
}

// CRC32C returns the Castagnoli checksum (polynomial 0x1EDC6F41) of b.
func CRC32C(b []byte) uint32 {
	// MakeTable returns the same table for this polynomial at every call.
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}
