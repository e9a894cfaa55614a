package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// zeros is the reserved tail of every header.
const zeros = "0000000000000000000000"

// headers come from outside this package: the public PING vector, W2 and W4,
// and the frames of crypto generation 3 that two independent computations agree
// on.
var headers = []struct {
	name string
	hex  string
	h    Header
}{
	{"PING on Control", "4e50414d20000100000000000000000000000000000d880c25" + zeros,
		Header{Type: TypePing}},
	{"W2: DISCO_QUERY", "4e50414d2201000010000000000000000000000018be53c687" + zeros,
		Header{Flags: FlagENC, Type: 0x0100, Channel: ChannelDiscovery, PayloadLen: 24}},
	{"W4: DISCO_RESULT", "4e50414d220101001000000000000000000000001c1e47ac99" + zeros,
		Header{Flags: FlagENC, Type: 0x0101, Channel: ChannelDiscovery, PayloadLen: 28}},
	{"CLOSE", "4e50414d22000300000000000000000000000000106d0289f6" + zeros,
		Header{Flags: FlagENC, Type: TypeClose, PayloadLen: 16}},
	{"CLOSE_ACK", "4e50414d22000400000000000000000000000000105e460c00" + zeros,
		Header{Flags: FlagENC, Type: TypeCloseAck, PayloadLen: 16}},
	{"ERROR", "4e50414d22000500000000000000000000000000150c39e51d" + zeros,
		Header{Flags: FlagENC, Type: TypeError, PayloadLen: 21}},
	{"KEY_UPDATE", "4e50414d220006001000000000000000000000001cdf0f2491" + zeros,
		Header{Flags: FlagENC, Type: TypeKeyUpdate, Channel: ChannelDiscovery, PayloadLen: 28}},
	{"FLOW_UPDATE", "4e50414d22000a0000000000000000000000000018b2165f23" + zeros,
		Header{Flags: FlagENC, Type: TypeFlowUpdate, PayloadLen: 24}},
	{"recorded: seq 6", "4e50414d220006001000000000000000060000001c4f684579" + zeros,
		Header{Flags: FlagENC, Type: TypeKeyUpdate, Channel: ChannelDiscovery, Seq: 6, PayloadLen: 28}},
}

// Covers: CORE-4.2-01
func TestHeader(t *testing.T) {
	for _, tt := range headers {
		want := unhex(t, tt.hex)
		if got := AppendHeader([]byte("prefix"), tt.h); !bytes.Equal(got, append([]byte("prefix"), want...)) {
			t.Errorf("%s: AppendHeader\n got %x\nwant %x after the prefix", tt.name, got, want)
		}
		if got, err := ParseHeader(append(want, 0xFF)); err != nil || got != tt.h {
			t.Errorf("%s: ParseHeader = %+v, %v, want %+v", tt.name, got, err, tt.h)
		}
		dirty := bytes.Repeat([]byte{0xAA}, HeaderLen+1)
		PutHeader(dirty, tt.h)
		if !bytes.Equal(dirty, append(want[:HeaderLen:HeaderLen], 0xAA)) {
			t.Errorf("%s: PutHeader over old octets gave %x", tt.name, dirty)
		}
	}
}

// Every field at its limits, at the offsets of core §4.2.
//
// Covers: CORE-4.2-01, CORE-4.3-01
func TestHeaderFields(t *testing.T) {
	h := Header{Flags: 0xF, Type: 0xFEDC, Channel: 0xBA98, Seq: 0x0123456789ABCDEF, PayloadLen: MaxFrameLen - HeaderLen}
	b := AppendHeader(nil, h)
	if want := unhex(t, "4e50414d2ffedcba980123456789abcdef00ffffdc"); !bytes.Equal(b[:AADLen], want) {
		t.Errorf("octets 0–20 = %x, want %x", b[:AADLen], want)
	}
	if got, err := ParseHeader(b); err != nil || got != h {
		t.Errorf("ParseHeader = %+v, %v, want %+v", got, err, h)
	}
	if PutHeader(b, Header{Flags: 0xF2}); b[4] != 0x22 {
		t.Errorf("octet 4 with flags 0xF2 = %#x, want 0x22: flags must not reach the version", b[4])
	}
}

// Each check has faults of every later kind behind it, so that the order shows.
//
// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05
func TestParseHeaderOrder(t *testing.T) {
	base := AppendHeader(nil, Header{Type: TypePing})
	fix := func(b []byte) { binary.BigEndian.PutUint32(b[AADLen:], CRC32C(b[:AADLen])) }
	badLen := func(b []byte) { binary.BigEndian.PutUint32(b[17:], MaxFrameLen-HeaderLen+1) }
	tests := []struct {
		name string
		make func(b []byte) []byte
		want error
	}{
		{"short", func(b []byte) []byte { b[0], b[21] = 'X', 'X'; return b[:35] }, ErrShort},
		{"empty", func(b []byte) []byte { return nil }, ErrShort},
		{"checksum", func(b []byte) []byte { b[0], b[4], b[24], b[25] = 'X', 0x30, b[24]^1, 1; badLen(b); return b }, ErrChecksum},
		{"magic", func(b []byte) []byte { b[0], b[4], b[25] = 'X', 0x30, 1; badLen(b); fix(b); return b }, ErrMagic},
		{"version", func(b []byte) []byte { b[4], b[25] = 0x30, 1; badLen(b); fix(b); return b }, ErrVersion},
		{"version 1", func(b []byte) []byte { b[4] = 0x10; fix(b); return b }, ErrVersion},
		{"reserved", func(b []byte) []byte { b[30] = 1; badLen(b); fix(b); return b }, ErrReserved},
		{"too long", func(b []byte) []byte { badLen(b); fix(b); return b }, ErrTooLong},
		{"longest", func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[17:], MaxFrameLen-HeaderLen)
			fix(b)
			return b
		}, nil},
	}
	for _, tt := range tests {
		if _, err := ParseHeader(tt.make(bytes.Clone(base))); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
	for i := 25; i < HeaderLen; i++ {
		b := bytes.Clone(base)
		b[i] = 0x80
		if _, err := ParseHeader(b); !errors.Is(err, ErrReserved) {
			t.Errorf("octet %d not zero: error %v, want ErrReserved", i, err)
		}
	}
	for i := range AADLen * 8 {
		b := bytes.Clone(base)
		b[i/8] ^= 1 << (i % 8)
		if _, err := ParseHeader(b); !errors.Is(err, ErrChecksum) {
			t.Errorf("bit %d flipped: error %v, want ErrChecksum before any other", i, err)
		}
	}
}

func TestFlagsString(t *testing.T) {
	for f, want := range map[Flags]string{0: "0", FlagENC: "ENC", FlagURG | FlagENC | FlagCOMP | FlagFRAG: "URG|ENC|COMP|FRAG", 0x12: "ENC|0x10"} {
		if got := f.String(); got != want {
			t.Errorf("Flags(%d) = %q, want %q", f, got, want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	for _, h := range headers {
		f.Add(unhex(f, h.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			if h != (Header{}) {
				t.Errorf("%+v along with %v, want the zero value", h, err)
			}
			return
		}
		if got := AppendHeader(nil, h); !bytes.Equal(got, b[:HeaderLen]) {
			t.Errorf("parsed and appended again: %x, was %x", got, b[:HeaderLen])
		}
	})
}
