package dcbor

import (
	"math"
	"strings"
	"testing"
)

// read applies a reader to the whole of an input.
type read func(b []byte, i int) (next int)

func readUint(max uint64) read {
	return func(b []byte, i int) int { _, i = Uint(b, i, max); return i }
}

func readBytes(min, max int) read {
	return func(b []byte, i int) int { _, i = Bytes(b, i, min, max); return i }
}

// Covers: DISC-4.1-06, DISC-4.1-08, C28, C29
func TestReaders(t *testing.T) {
	anyUint := readUint(math.MaxUint64)
	text := func(b []byte, i int) int { _, i = Text(b, i); return i }
	boolean := func(b []byte, i int) int { _, i = Bool(b, i); return i }
	array := func(b []byte, i int) int { _, i = Array(b, i); return i }
	pairs := func(b []byte, i int) int { _, i = Map(b, i); return i }
	tests := []struct {
		name   string
		read   read
		octets string
		want   Rule // 0: read to the end, or as much of it as a head is
	}{
		{"uint 0", anyUint, "00", 0},
		{"uint 23", anyUint, "17", 0},
		{"uint 24", anyUint, "1818", 0},
		{"uint 23 in two octets", anyUint, "1817", ShortestForm},
		{"uint 256", anyUint, "190100", 0},
		{"uint 255 in three octets", anyUint, "1900ff", ShortestForm},
		{"uint 65536", anyUint, "1a00010000", 0},
		{"uint 65535 in five octets", anyUint, "1a0000ffff", ShortestForm},
		{"uint 2^32", anyUint, "1b0000000100000000", 0},
		{"uint 2^32-1 in nine octets", anyUint, "1b00000000ffffffff", ShortestForm},
		{"uint 2^64-1", anyUint, "1bffffffffffffffff", 0},
		{"uint of reserved form", anyUint, "1c", ShortestForm},
		{"uint of indefinite length", anyUint, "1f", Indefinite},
		{"uint at its bound", readUint(255), "18ff", 0},
		{"uint above it", readUint(255), "190100", Range},
		{"short uint above its bound", readUint(3), "04", Range},
		{"negative for uint", anyUint, "20", WrongType},
		{"null for uint", anyUint, "f6", WrongType},
		{"tag for uint", anyUint, "c101", WrongType},
		{"float for uint", anyUint, "f93c00", WrongType},
		{"nothing for uint", anyUint, "", Truncated},
		{"half a head", anyUint, "19", Truncated},
		{"half an argument", anyUint, "1b00000001", Truncated},
		{"bytes", readBytes(1, 2), "4101", 0},
		{"bytes at the bound", readBytes(1, 2), "420102", 0},
		{"bytes above it", readBytes(1, 2), "43010203", Range},
		{"no bytes", readBytes(1, 2), "40", Empty},
		{"no bytes allowed", readBytes(0, 2), "40", 0},
		{"text for bytes", readBytes(1, 2), "6161", WrongType},
		{"array for bytes", readBytes(1, 2), "8101", WrongType},
		{"bytes of indefinite length", readBytes(1, 2), "5f4101ff", Indefinite},
		{"bytes with a long head", readBytes(1, 2), "580101", ShortestForm},
		{"bytes cut short", readBytes(1, 9), "4301", Truncated},
		{"2^63 bytes", readBytes(0, math.MaxInt), "5b7fffffffffffffff", Truncated},
		{"2^64-1 bytes", readBytes(0, math.MaxInt), "5bffffffffffffffff", Truncated},
		{"text", text, "63e6b0b4", 0},
		{"text with NUL", text, "6100", 0},
		{"long text", text, "7818" + strings.Repeat("61", 24), 0},
		{"text with a long head", text, "780161", ShortestForm},
		{"text not UTF-8", text, "61ff", UTF8},
		{"text overlong", text, "62c0ae", UTF8},
		{"text with a surrogate", text, "63eda080", UTF8},
		{"long text not UTF-8 at its start", text, "69ff" + strings.Repeat("61", 8), UTF8},
		{"long text not UTF-8 at its end", text, "69" + strings.Repeat("61", 8) + "c3", UTF8},
		{"text of indefinite length", text, "7f6161ff", Indefinite},
		{"text cut short", text, "6361", Truncated},
		{"bytes for text", text, "4161", WrongType},
		{"false", boolean, "f4", 0},
		{"true", boolean, "f5", 0},
		{"null for a Boolean", boolean, "f6", WrongType},
		{"1 for a Boolean", boolean, "01", WrongType},
		{"true in two octets", boolean, "f815", WrongType},
		{"nothing for a Boolean", boolean, "", Truncated},
		{"array", array, "80", 0},
		{"array of more than there is", array, "8201", Truncated},
		{"array of 2^64-1", array, "9bffffffffffffffff", Truncated},
		{"array of indefinite length", array, "9fff", Indefinite},
		{"map for an array", array, "a0", WrongType},
		{"map", pairs, "a0", 0},
		{"map of more than there is", pairs, "a100", Truncated},
		{"map of 2^63", pairs, "bb8000000000000000", Truncated},
		{"array for a map", pairs, "80", WrongType},
	}
	for _, tt := range tests {
		b := unhex(t, tt.octets)
		err := Done(b, tt.read(b, 0))
		if tt.want == 0 && err != nil || tt.want != 0 && (err == nil || err.Rule != tt.want || err.Offset != 0) {
			t.Errorf("%s: %s: got %v, want %v at octet 0", tt.name, tt.octets, err, tt.want)
		}
		failed := Fail(7, Depth)
		if got := tt.read(b, failed); got != failed {
			t.Errorf("%s: a reader behind a fault returns %d, want that fault, %d", tt.name, got, failed)
		}
	}
}

// readCode reads {1: uint, ? 2: text}, and any greater key.
func readCode(b []byte, m Mode) *Error {
	n, i := Map(b, 0)
	_, i = Uint(b, Key(b, i, 1), math.MaxUint64)
	n--
	if Has(b, i, n, 2) {
		_, i = Text(b, i+1)
		n--
	}
	return Done(b, Rest(b, i, n, 2, 1, m))
}

// Covers: DISC-4.1-02, DISC-4.1-04, DISC-4.1-07, DISC-4.1-10, DISC-4.1-11, C11
func TestMapReaders(t *testing.T) {
	tests := []struct {
		name, octets string
		want         Rule
		offset       int
	}{
		{"required alone", "a10105", 0, 0},
		{"both", "a20105026161", 0, 0},
		{"unknown key", "a2010518636178", 0, 0},
		{"greatest key", "a201051bffffffffffffffff00", 0, 0},
		{"unknown keys ascending", "a3010503000400", 0, 0},
		{"required missing", "a1026161", Missing, 1},
		{"no pairs", "a0", Missing, 1},
		{"no pairs, and what follows looks like one", "a00105", Missing, 3},
		{"known key after a greater one", "a301050300026161", KeyOrder, 5},
		{"optional key twice", "a30105026161026161", DuplicateKey, 6},
		{"required key twice", "a201050105", KeyOrder, 3},
		{"unknown keys descending", "a3010504000300", KeyOrder, 5},
		{"unknown key twice", "a3010504000400", DuplicateKey, 5},
		{"negative key", "a201052000", NegativeKey, 3},
		{"key -2^64", "a201053bffffffffffffffff00", NegativeKey, 3},
		{"text key", "a20105613200", KeyType, 3},
		{"byte string key", "a20105413200", KeyType, 3},
		{"unknown key in a long form", "a20105180300", ShortestForm, 3},
		{"known key in a long form", "a21801050300", Missing, 1},
		{"octets after", "a1010500", Trailing, 3},
		{"pair cut off", "a2010503", Truncated, 0},
		{"value cut off", "a20105036361", Truncated, 4},
	}
	for _, tt := range tests {
		for _, m := range []Mode{Generation2, Generation3} {
			err := readCode(unhex(t, tt.octets), m)
			if tt.want == 0 && err == nil {
				continue
			}
			if err == nil || *err != (Error{tt.want, tt.offset}) {
				t.Errorf("%s: %s, generation %d: got %v, want %v at octet %d", tt.name, tt.octets, m, err, tt.want, tt.offset)
			}
		}
	}
}
