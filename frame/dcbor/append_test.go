package dcbor

import (
	"bytes"
	"encoding/hex"
	"math"
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

// Covers: DISC-4.1-05
func TestAppend(t *testing.T) {
	tests := []struct {
		name string
		got  func(b []byte) []byte
		want string // by hand, and from RFC 8949 appendix A
	}{
		{"0", func(b []byte) []byte { return AppendUint(b, 0) }, "00"},
		{"23", func(b []byte) []byte { return AppendUint(b, 23) }, "17"},
		{"24", func(b []byte) []byte { return AppendUint(b, 24) }, "1818"},
		{"255", func(b []byte) []byte { return AppendUint(b, 255) }, "18ff"},
		{"256", func(b []byte) []byte { return AppendUint(b, 256) }, "190100"},
		{"65535", func(b []byte) []byte { return AppendUint(b, 65535) }, "19ffff"},
		{"65536", func(b []byte) []byte { return AppendUint(b, 65536) }, "1a00010000"},
		{"2^32-1", func(b []byte) []byte { return AppendUint(b, math.MaxUint32) }, "1affffffff"},
		{"2^32", func(b []byte) []byte { return AppendUint(b, 1<<32) }, "1b0000000100000000"},
		{"2^64-1", func(b []byte) []byte { return AppendUint(b, math.MaxUint64) }, "1bffffffffffffffff"},
		{"bytes", func(b []byte) []byte { return AppendBytes(b, "\x01\x02\x03\x04") }, "4401020304"},
		{"bytes of a slice", func(b []byte) []byte { return AppendBytes(b, []byte{1}) }, "4101"},
		{"no bytes", func(b []byte) []byte { return AppendBytes(b, "") }, "40"},
		{"text", func(b []byte) []byte { return AppendText(b, "IETF") }, "6449455446"},
		{"text beyond ASCII", func(b []byte) []byte { return AppendText(b, "水") }, "63e6b0b4"},
		{"false", func(b []byte) []byte { return AppendBool(b, false) }, "f4"},
		{"true", func(b []byte) []byte { return AppendBool(b, true) }, "f5"},
		{"array", func(b []byte) []byte { return AppendArray(b, 25) }, "9819"},
		{"map", func(b []byte) []byte { return AppendMap(b, 2) }, "a2"},
	}
	for _, tt := range tests {
		before := []byte("before")
		if got := hex.EncodeToString(bytes.TrimPrefix(tt.got(before), []byte("before"))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, n := range []uint64{0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, 1 << 32, math.MaxUint64} {
		if got, want := HeadLen(n), len(AppendUint(nil, n)); got != want {
			t.Errorf("HeadLen(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestRuleNames(t *testing.T) {
	seen := map[string]bool{}
	for r := Truncated; r < numRules; r++ {
		name := r.String()
		if name == "" || name[0] == 'r' && name[:4] == "rule" || seen[name] {
			t.Errorf("rule %d is called %q", r, name)
		}
		seen[name] = true
		if e := Fault(Fail(1<<24, r)); e.Rule != r || e.Offset != 1<<24 {
			t.Errorf("Fault(Fail(1<<24, %v)) = %v", r, e)
		}
	}
	if got, want := (&Error{ShortestForm, 2}).Error(), "dcbor: shortest-form at octet 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if first := Fail(3, UTF8); Fail(first, Range) != first {
		t.Error("a second fault replaces the first")
	}
}
