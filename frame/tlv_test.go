package frame

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// V1 of the golden payloads: a DISCO_QUERY without a filter.
const v1 = "a200190100014101"

func TestTLV(t *testing.T) {
	tests := []struct {
		name, hex string
		typ       uint16
		value     string
	}{
		{"PathChallenge", "00150020" + strings.Repeat("11", 32), TagPathChallenge, strings.Repeat("11", 32)},
		{"KeyUpdateMarker", "001700080000000000000001", TagKeyUpdateMarker, "0000000000000001"},
		{"empty", "7f000000", 0x7F00, ""},
		{"critical", "80010001aa", 0x8001, "aa"},
		{"longest", "0012ffff" + strings.Repeat("00", 65535), 0x12, strings.Repeat("00", 65535)},
	}
	for _, tt := range tests {
		wire, value := unhex(t, tt.hex), unhex(t, tt.value)
		if got := AppendTLV([]byte("prefix"), tt.typ, value); !bytes.Equal(got, append([]byte("prefix"), wire...)) {
			t.Errorf("%s: AppendTLV = %x, want %s after the prefix", tt.name, got, tt.hex)
		}
		tlv, rest, err := ParseTLV(append(wire, "rest"...))
		if err != nil || tlv.Type != tt.typ || !bytes.Equal(tlv.Value, value) || string(rest) != "rest" {
			t.Errorf("%s: ParseTLV = %+v, %q, %v", tt.name, tlv, rest, err)
		}
		for n := range min(len(wire), 8) {
			if _, _, err := ParseTLV(wire[:n]); !errors.Is(err, ErrTruncatedTLV) {
				t.Errorf("%s: first %d octets: error %v, want ErrTruncatedTLV", tt.name, n, err)
			}
		}
		if _, _, err := ParseTLV(wire[:len(wire)-1]); !errors.Is(err, ErrTruncatedTLV) {
			t.Errorf("%s: last octet missing: error %v, want ErrTruncatedTLV", tt.name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("AppendTLV took a value of 65536 octets; its length does not fit")
		}
	}()
	AppendTLV(nil, 1, make([]byte, 65536))
}

// Covers: CORE-4.1-01, CORE-4.4-01, CORE-4.4-02, C14
func TestPeel(t *testing.T) {
	ignorable := strings.Repeat("7f000001aa", MaxTLVs)
	tests := []struct {
		name, in, want string
		err            error
	}{
		{"no TLV", v1, v1, nil},
		{"unknown TLV, high bit clear", "7f000001aa" + v1, v1, nil},
		{"known TLVs", "0012000401020304" + "00180001ff" + v1, v1, nil},
		{"type 0", "00000000" + v1, v1, nil},
		{"unknown TLV, high bit set", "80010000" + v1, "", ErrCriticalTLV},
		{"critical behind an ignored one", "7f000001aac0010000" + v1, "", ErrCriticalTLV},
		{"last critical type", "ffff0000" + v1, "", ErrCriticalTLV},
		{"type 9fff", "9fff0000", "", ErrCriticalTLV},
		{"type a001 is a map head", "a0010000" + v1, "a0010000" + v1, nil},
		{"type bfff is a map head", "bfff0000" + v1, "bfff0000" + v1, nil},
		{"critical type, truncated: a body", "8001000401", "8001000401", nil},
		{"an array", "80", "80", nil},
		{"f6", "f6", "f6", nil},
		{"TLV head truncated", "7f0000", "", ErrTruncatedTLV},
		{"TLV value truncated", "7f000002aa", "", ErrTruncatedTLV},
		{"N1, an integer", "05", "", ErrTruncatedTLV},
		{"bridge envelope", "001000140101", "", ErrTruncatedTLV},
		{"bridge envelope, whole", "001000020101" + v1, "", ErrBridgeEnvelope},
		{"bridge envelope behind an ignored TLV", "7f000001aa001000020101" + v1, "", ErrBridgeEnvelope},
		{"safety label alone", "0013000100" + v1, v1, nil},
		{"nothing", "", "", nil},
		{"TLVs only", "7f000001aa", "", nil},
		{"64 TLVs", ignorable + v1, v1, nil},
		{"65 TLVs", ignorable + "7f000001aa" + v1, "", ErrTooManyTLVs},
	}
	for _, tt := range tests {
		got, err := Peel(unhex(t, tt.in))
		if !errors.Is(err, tt.err) || !bytes.Equal(got, unhex(t, tt.want)) {
			t.Errorf("%s: Peel = %x, %v, want %s, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func FuzzPeel(f *testing.F) {
	f.Add(unhex(f, v1))
	f.Add(unhex(f, "7f000001aa80010000"+v1))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := Peel(b)
		if err != nil {
			if body != nil {
				t.Errorf("body %x along with %v", body, err)
			}
			return
		}
		if !bytes.HasSuffix(b, body) {
			t.Fatalf("body %x is no suffix of %x", body, b)
		}
		if again, err := Peel(body); err != nil || !bytes.Equal(again, body) {
			t.Errorf("peeled again: %x, %v, want %x as it is", again, err, body)
		}
		for rest := b[:len(b)-len(body)]; len(rest) > 0; {
			tlv, r, err := ParseTLV(rest)
			if err != nil || TLVCritical(tlv.Type) || tlv.Type == TagBridgeEnvelope {
				t.Fatalf("stepped over TLV %#x (%v)", tlv.Type, err)
			}
			rest = r
		}
	})
}
