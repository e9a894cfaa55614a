package dcbor

import "testing"

// What is well-formed, from RFC 8949 appendix F and by hand.
// Covers: C4
func TestSkipLenient(t *testing.T) {
	for _, octets := range []string{
		"00", "1817", "1b0000000000000000", "3b0000000000000000", "40", "580101", "60", "61ff", "80", "980101",
		"9fff", "9f01820203ff", "bfff", "bf01020304ff", "5fff", "5f41014102ff", "7f6161ff", "7f61c361b6ff", "c100", "d80100",
		"a201010101", "f4", "f7", "e0", "f820", "f8ff", "f97e01", "fa3fc00000", "fb3ff8000000000000", "c2420001", "bb0000000000000000",
	} {
		b := unhex(t, octets)
		if next := SkipLenient(b, 0, 1); next != len(b) {
			t.Errorf("%s: %d, %v", octets, next, Fault(min(next, -1)))
		}
	}
	for _, octets := range []string{
		"", "18", "19", "1a", "1b", "1901", "1a0102", "1b01020304050607", "38", "58", "78", "98", "9a01ff00", "b8", "d8", "f8", "f900", "fa0000", "fb000000",
		"41", "61", "5affffffff00", "5bffffffffffffffff010203", "7affffffff00", "7b7fffffffffffffff010203",
		"81", "818181818181818181", "8200", "a1", "a20102", "a100", "a2000000", "c0",
		"5f4100", "7f6100", "9f", "9f0102", "bf", "bf01020102", "819f", "9f8000", "9f9f9f9f9fffffffff", "9f819f819f9fffffff",
		"1c", "1d", "1e", "3c", "5c", "7d", "9e", "bc", "dd", "fc", "fd", "fe", "1f", "3f", "df", "df00",
		"f800", "f81f", "f814", "5f00ff", "5f21ff", "5f6100ff", "5f80ff", "5fa0ff", "5fc000ff", "5fe0ff", "7f4100ff", "5f5f4100ffff", "7f7f6100ffff",
		"ff", "81ff", "8200ff", "a1ff", "a1ff00", "a100ff", "a20000ff", "9f81ff", "9f829f819f9fffffffff", "bf00ff", "bf000000ff",
	} {
		b := unhex(t, octets)
		if next := SkipLenient(b, 0, 1); next >= 0 {
			t.Errorf("%s: well-formed up to %d", octets, next)
		}
	}
}
