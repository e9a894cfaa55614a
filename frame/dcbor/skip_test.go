package dcbor

import (
	"math"
	"strings"
	"testing"
)

// Covers: DISC-4.1-06, C12, DGP-15-01
func TestSkip(t *testing.T) {
	tests := []struct {
		name, octets string
		g2           Rule // 0: accepted
		g3           Rule
		offset       int
	}{
		{"integers", "83001b00000001000000003bffffffffffffffff", 0, 0, 0},
		{"negative, not shortest", "3817", ShortestForm, ShortestForm, 0},
		{"byte string", "4101", 0, 0, 0},
		{"text", "63e6b0b4", 0, 0, 0},
		{"text not UTF-8", "61ff", UTF8, UTF8, 0},
		{"text not UTF-8 within", "820061ff", UTF8, UTF8, 2},
		{"array", "8301820203820405", 0, 0, 0},
		{"array without its last", "821820", Truncated, Truncated, 0},
		{"array without its last, nested", "82821820", Truncated, Truncated, 1},
		{"element cut off", "820118", Truncated, Truncated, 2},
		{"map", "a201020304", 0, 0, 0},
		{"map of mixed keys", "a41818002000410000616100", 0, 0, 0},
		{"map, 24 before -1", "a218180020f5", 0, 0, 0},
		{"map, -1 before 24 (length first)", "a220f5181800", KeyOrder, KeyOrder, 3},
		{"map, keys descending", "a202000100", KeyOrder, KeyOrder, 3},
		{"map, key twice", "a201000100", DuplicateKey, DuplicateKey, 3},
		{"map, key twice apart", "a3010002000100", KeyOrder, KeyOrder, 5},
		{"map, aa before b (the other way length first)", "a262616100616200", KeyOrder, KeyOrder, 5},
		{"map, text keys", "a2616100616200", 0, 0, 0},
		{"map, array keys", "a2810100810200", 0, 0, 0},
		{"map without its last value", "a2010218", Truncated, Truncated, 0},
		{"indefinite array", "9fff", Indefinite, Indefinite, 0},
		{"indefinite map", "bfff", Indefinite, Indefinite, 0},
		{"indefinite text", "7f6161ff", Indefinite, Indefinite, 0},
		{"indefinite bytes", "5f4101ff", Indefinite, Indefinite, 0},
		{"break", "ff", Indefinite, Indefinite, 0},
		{"break in an array", "81ff", Indefinite, Indefinite, 1},
		{"reserved head", "1c", ShortestForm, ShortestForm, 0},
		{"reserved tag", "dc00", ShortestForm, ShortestForm, 0},
		{"reserved simple value", "fc", SimpleValue, SimpleValue, 0},
		{"false", "f4", 0, 0, 0},
		{"true", "f5", 0, 0, 0},
		{"null", "f6", 0, 0, 0},
		{"undefined", "f7", 0, 0, 0},
		{"simple 0", "e0", 0, 0, 0},
		{"simple 16", "f0", 0, 0, 0},
		{"simple 32", "f820", 0, 0, 0},
		{"simple 255", "f8ff", 0, 0, 0},
		{"simple 31 in two octets", "f81f", SimpleValue, SimpleValue, 0},
		{"true in two octets", "f815", SimpleValue, SimpleValue, 0},
		{"simple cut off", "f8", Truncated, Truncated, 0},
		{"half 1.5", "f93e00", 0, FloatForm, 0},
		{"half -0", "f98000", 0, FloatForm, 0},
		{"half infinity", "f97c00", 0, FloatForm, 0},
		{"half smallest subnormal", "f90001", 0, FloatForm, 0},
		{"half NaN", "f97e00", 0, FloatForm, 0},
		{"half NaN with another payload", "f97e01", FloatForm, FloatForm, 0},
		{"half NaN, negative", "f9fe00", FloatForm, FloatForm, 0},
		{"half NaN, signalling", "f97c01", FloatForm, FloatForm, 0},
		{"single 100000", "fa47c35000", 0, FloatForm, 0},
		{"single 3.4028234663852886e+38", "fa7f7fffff", 0, FloatForm, 0},
		{"single 1.5", "fa3fc00000", FloatForm, FloatForm, 0},
		{"single 0", "fa00000000", FloatForm, FloatForm, 0},
		{"single infinity", "fa7f800000", FloatForm, FloatForm, 0},
		{"single NaN", "fa7fc00000", FloatForm, FloatForm, 0},
		{"single NaN that no half holds", "fa7fc00001", FloatForm, FloatForm, 0},
		{"single 2^-24, a half's smallest", "fa33800000", FloatForm, FloatForm, 0},
		{"single 2^-25", "fa33000000", 0, FloatForm, 0},
		{"single 1.5*2^-24", "fa33c00000", 0, FloatForm, 0},
		{"single 1.5*2^-23", "fa34400000", FloatForm, FloatForm, 0},
		{"single 65504", "fa477fe000", FloatForm, FloatForm, 0},
		{"single 65536", "fa47800000", 0, FloatForm, 0},
		{"single subnormal", "fa00000001", 0, FloatForm, 0},
		{"double 1.1", "fb3ff199999999999a", 0, FloatForm, 0},
		{"double 1e300", "fb7e37e43c8800759c", 0, FloatForm, 0},
		{"double 1.5", "fb3ff8000000000000", FloatForm, FloatForm, 0},
		{"double 100000", "fb40f86a0000000000", FloatForm, FloatForm, 0},
		{"double NaN", "fb7ff8000000000000", FloatForm, FloatForm, 0},
		{"double NaN that no single holds", "fb7ff8000000000001", FloatForm, FloatForm, 0},
		{"double infinity", "fb7ff0000000000000", FloatForm, FloatForm, 0},
		{"half cut off", "f93e", Truncated, Truncated, 0},
		{"double cut off", "fb3ff1999999", Truncated, Truncated, 0},
		{"tag", "c11a514b67b0", 0, WrongType, 0},
		{"tag in a long form", "d81701", ShortestForm, ShortestForm, 0},
		{"tag without content", "c1", Truncated, WrongType, 0},
		{"tag of a wrong item", "c16161", 0, WrongType, 0},
		{"tag within", "81c100", 0, WrongType, 1},
		{"bignum 2^64", "c249010000000000000000", 0, WrongType, 0},
		{"bignum 2^64-1", "c248ffffffffffffffff", ShortestForm, WrongType, 0},
		{"bignum of nine octets with a zero in front", "c24900ffffffffffffffff", ShortestForm, WrongType, 0},
		{"bignum of none", "c240", ShortestForm, WrongType, 0},
		{"negative bignum -2^64-1", "c349010000000000000000", 0, WrongType, 0},
		{"negative bignum -2^64", "c348ffffffffffffffff", ShortestForm, WrongType, 0},
		{"bignum tag of no byte string", "c200", 0, WrongType, 0},
		{"nothing", "", Truncated, Truncated, 0},
	}
	for _, tt := range tests {
		b := unhex(t, tt.octets)
		for m, want := range map[Mode]Rule{Generation2: tt.g2, Generation3: tt.g3} {
			err := Done(b, Skip(b, 0, 1, m))
			if want == 0 && err == nil {
				continue
			}
			if err == nil || *err != (Error{want, tt.offset}) {
				t.Errorf("%s: %s, generation %d: got %v, want %v at octet %d", tt.name, tt.octets, m, err, want, tt.offset)
			}
		}
	}
}

// Every half is in shortest form but the NaNs other than f97e00; every single
// and double that a half equals is not.
// Covers: C12
func TestFloatsExhaustively(t *testing.T) {
	for h := range uint32(1 << 16) {
		exp, frac := int(h>>10&31), h&0x3ff
		b := []byte{0xf9, byte(h >> 8), byte(h)}
		nan := exp == 31 && frac != 0
		if got, want := Skip(b, 0, 1, Generation2) == 3, !nan || h == 0x7e00; got != want {
			t.Fatalf("half %04x: accepted %v, want %v", h, got, want)
		}
		if nan {
			continue
		}
		v := math.Ldexp(float64(frac), -24)
		switch {
		case exp == 31:
			v = math.Inf(1)
		case exp > 0:
			v = math.Ldexp(float64(1024+frac), exp-25)
		}
		if h>>15 == 1 {
			v = -v
		}
		if !fitsHalf(float32(v)) {
			t.Fatalf("half %04x = %v is said not to fit a half", h, v)
		}
		if next := math.Nextafter32(float32(v), math.MaxFloat32); !math.IsInf(v, 1) && fitsHalf(next) {
			t.Fatalf("single %v, next to half %04x, is said to fit a half", next, h)
		}
	}
}

// Covers: C12, DISC-4.1-06
func TestDepth(t *testing.T) {
	for _, open := range []string{"81", "a100", "c1"} {
		in := func(n int) []byte { return unhex(t, strings.Repeat(open, n)+"00") }
		for _, depth := range []int{1, 3, 8} {
			fits := MaxDepth - depth + 1
			if next := Skip(in(fits), 0, depth, Generation2); next < 0 {
				t.Errorf("%d times %s from depth %d: %v", fits, open, depth, Fault(next))
			}
			b := in(fits + 1)
			err := Fault(Skip(b, 0, depth, Generation2))
			if want := len(open) / 2 * fits; err == nil || *err != (Error{Depth, want}) {
				t.Errorf("%d times %s from depth %d: got %v, want depth at octet %d", fits+1, open, depth, err, want)
			}
			if next := SkipLenient(b, 0, depth); next >= 0 {
				t.Errorf("%d times %s from depth %d: well-formed", fits+1, open, depth)
			}
		}
	}
	if err := Fault(Skip(unhex(t, strings.Repeat("81", 100_000)), 0, 1, Generation2)); err == nil || err.Rule != Depth {
		t.Errorf("100,000 levels: %v", err)
	}
}

// Covers: C12, DASP-011-01
func TestCheck(t *testing.T) {
	tests := []struct {
		name, octets string
		items        int
		want         Rule
		offset       int
	}{
		{"a map", "a10001", 3, 0, 0},
		{"nothing", "", 3, Truncated, 0},
		{"no map", "05", 3, NotMap, 0},
		{"no map, and not even an item", "1817", 3, NotMap, 0},
		{"octets after", "a1000100", 9, Trailing, 3},
		{"indefinite", "bf0001ff", 9, Indefinite, 0},
		{"items at the limit", "a10083010203", 6, 0, 0},
		{"an item too many", "a10083010203", 5, Limit, 5},
		{"strings are one item", "a1004401020304", 3, 0, 0},
		{"a fault before the limit", "a100811817", 2, ShortestForm, 3},
	}
	for _, tt := range tests {
		err := Check(unhex(t, tt.octets), 1, Generation2, tt.items)
		if tt.want == 0 && err == nil {
			continue
		}
		if err == nil || *err != (Error{tt.want, tt.offset}) {
			t.Errorf("%s: %s: got %v, want %v at octet %d", tt.name, tt.octets, err, tt.want, tt.offset)
		}
	}
}

// Covers: DASP-011-01, F05
func TestNoAllocation(t *testing.T) {
	inputs := [][]byte{
		unhex(t, "9bffffffffffffffff"), unhex(t, "9a7fffffff"), unhex(t, "5b7fffffffffffffff"), unhex(t, "bb7fffffffffffffff00"),
		unhex(t, "a2616100616200"), unhex(t, strings.Repeat("81", 200)+"00"), unhex(t, "83f93e00c249010000000000000000f820"),
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, b := range inputs {
			Skip(b, 0, 1, Generation2)
			SkipLenient(b, 0, 1)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHeadAndNext(t *testing.T) {
	items := []string{"00", "1818", "190100", "1a00010000", "1bffffffffffffffff", "20", "4101", "5818" + strings.Repeat("00", 24),
		"63e6b0b4", "80", "8301820203820405", "a201020304", "c11a514b67b0", "f4", "f820", "f93e00", "fb3ff199999999999a"}
	all := unhex(t, strings.Join(items, ""))
	i := 0
	for _, item := range items {
		end := i + len(item)/2
		if got := Next(all, i); got != end {
			t.Errorf("%s: Next goes to %d, want %d", item, got, end)
		}
		if got := Next(string(all), i); got != end {
			t.Errorf("%s: Next of a string goes to %d, want %d", item, got, end)
		}
		i = end
	}
	if n, next := Head(all, 1); n != 24 || next != 3 {
		t.Errorf("Head: %d, %d", n, next)
	}
}
