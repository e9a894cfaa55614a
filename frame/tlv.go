package frame

import "encoding/binary"

// Limits of TLVs.
const (
	MaxTLVs     = 64     // in one plaintext
	MaxTLVValue = 0xFFFF // octets
	tlvHeadLen  = 4
)

// TLV types in use (core §4.4). 0x0E, 0x0F and 0x11 are unassigned; a type from
// 0x8000 up must be understood by the receiver or the frame is rejected.
const (
	TagProfileOffer      uint16 = 0x01 // one octet a profile
	TagProfileSelect     uint16 = 0x02 // 1 octet
	TagKEMOffer          uint16 = 0x03 // two octets a KEM
	TagKEMSelect         uint16 = 0x04 // 2 octets
	TagSigOffer          uint16 = 0x05 // two octets a signature scheme
	TagSigSelect         uint16 = 0x06 // 2 octets
	TagKEMShare          uint16 = 0x07 // 1216 octets for X25519MLKEM768
	TagKEMCiphertext     uint16 = 0x08 // 1120 octets for X25519MLKEM768
	TagIdentityKey       uint16 = 0x09 // 32 octets for Ed25519
	TagCertVerify        uint16 = 0x0A // signature scheme (2) ‖ signature
	TagFinished          uint16 = 0x0B // hash length
	TagAEADOffer         uint16 = 0x0C // two octets a suite
	TagAEADSelect        uint16 = 0x0D // 2 octets at Standard
	TagBridgeEnvelope    uint16 = 0x10 // NPAMP-BRIDGE §4
	TagOpaqueContentType uint16 = 0x12 // generation 3; AnomalyCharge (32) in generation 2
	TagSafetyLabel       uint16 = 0x13 // NPAMP-BRIDGE §7
	TagPathChallenge     uint16 = 0x15 // 32 octets; unused in generation 3
	TagPathResponse      uint16 = 0x16 // 64 octets; unused in generation 3
	TagKeyUpdateMarker   uint16 = 0x17 // epoch, 8 octets
	TagProtectionMode    uint16 = 0x18 // 1 octet, no defined value
	TagRatchetGeneration uint16 = 0x19 // 8 octets
)

// TLVCritical reports whether a receiver that does not know typ must reject the
// frame (core §4.4).
func TLVCritical(typ uint16) bool { return typ&0x8000 != 0 }

// A TLV is one extension item (core §4.4): Type (2), Length (2), Value.
type TLV struct {
	Type  uint16
	Value []byte
}

// AppendTLV appends one TLV. It panics if value is longer than MaxTLVValue.
func AppendTLV(b []byte, typ uint16, value []byte) []byte {
	if len(value) > MaxTLVValue {
		panic("BUG: frame: TLV value longer than 65535 octets")
	}
	b = binary.BigEndian.AppendUint16(b, typ)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// ParseTLV reads the TLV at the start of b and returns it with what follows;
// both alias b. It accepts every type, critical ones too. The error is
// ErrTruncatedTLV.
func ParseTLV(b []byte) (tlv TLV, rest []byte, err error) {
	if len(b) < tlvHeadLen {
		return TLV{}, nil, ErrTruncatedTLV
	}
	end := tlvHeadLen + int(binary.BigEndian.Uint16(b[2:]))
	if len(b) < end {
		return TLV{}, nil, ErrTruncatedTLV
	}
	return TLV{binary.BigEndian.Uint16(b), b[tlvHeadLen:end:end]}, b[end:], nil
}

// Peel steps over the TLVs at the start of an opened plaintext and returns the
// body behind them, which aliases b and may be empty. Known and unknown types
// below 0x8000 are stepped over alike; the package notes say how TLVs and body
// are told apart. The errors are
//
//	ErrTruncatedTLV    a TLV that does not fit: the payload is malformed
//	ErrTooManyTLVs     more than MaxTLVs: likewise
//	ErrCriticalTLV     an unknown TLV that must be understood (core §4.4)
//	ErrBridgeEnvelope  traffic of channel 0x000D, whatever the header says
func Peel(b []byte) (payload []byte, err error) {
	for n := 0; len(b) > 0; n++ {
		if b[0] >= 0xA0 && b[0] <= 0xBF {
			break // a CBOR map
		}
		tlv, rest, err := ParseTLV(b)
		switch {
		case err != nil && b[0] >= 0x80:
			return b, nil // no TLV either: a body, to be judged as one
		case err != nil:
			return nil, err
		case n == MaxTLVs:
			return nil, ErrTooManyTLVs
		case TLVCritical(tlv.Type):
			return nil, ErrCriticalTLV
		case tlv.Type == TagBridgeEnvelope:
			return nil, ErrBridgeEnvelope
		}
		b = rest
	}
	return b, nil
}
