package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Covers: C9, DISC-5-06
func TestList(t *testing.T) {
	const tool, class = "a400410a0103020104a20061740101", "a400410c0102020304a10001"
	const unknown, another = "a400410b0109020704a16161f6", "a40042616201187b020004a0"
	long := "a500410d010302010379" + "03e8" + strings.Repeat("61", 1000) + "04a20061740101"
	tests := []struct {
		name    string
		records []string
	}{
		{"none", nil},
		{"one", []string{tool}},
		{"all known", []string{tool, class, long, tool}},
		{"first unknown", []string{unknown, tool}},
		{"last unknown", []string{class, another}},
		{"mixed", []string{tool, unknown, class, another, long, unknown}},
		{"all unknown", []string{unknown, another}},
	}
	var marks record.Marks
	for _, tt := range tests {
		b := dcbor.AppendArray([]byte{0xff, 0xff}, len(tt.records))
		b = append(b, unhex(t, strings.Join(tt.records, ""))...)
		end := len(b)
		b = append(b, 0xf5)
		for _, marks := range []*record.Marks{nil, &marks} {
			l, next := record.ScanList(b, 2, dcbor.Generation3, marks)
			if next != end {
				t.Fatalf("%s: ends at %d, want %d: %v", tt.name, next, end, dcbor.Fault(min(next, -1)))
			}
			records, skipped, tail := l.Own(marks, []byte("one"), nil, []byte("two"))
			if l.Len() != len(records) || l.NumSkipped() != len(skipped) || tail != "onetwo" {
				t.Errorf("%s: %d records, %d skipped, tail %q", tt.name, len(records), len(skipped), tail)
			}
			var want []record.Record
			var wantSkipped []record.Skipped
			for k, s := range tt.records {
				switch s {
				case unknown:
					wantSkipped = append(wantSkipped, record.Skipped{ID: "\x0b", Kind: 9})
				case another:
					wantSkipped = append(wantSkipped, record.Skipped{ID: "ab", Kind: 123})
				default:
					want = append(want, parse(t, s))
				}
				kind, _ := dcbor.Head(b, record.KindAt(b, 2, k))
				if want := map[string]uint64{tool: 3, class: 2, long: 3, unknown: 9, another: 123}[s]; kind != want {
					t.Errorf("%s: record %d is of kind %d, want %d", tt.name, k, kind, want)
				}
			}
			if !slices.Equal(records, want) || !slices.Equal(skipped, wantSkipped) {
				t.Errorf("%s:\n got %x %v\nwant %x %v", tt.name, records, skipped, want, wantSkipped)
			}
			i := 0
			for r := range l.All() {
				if r.Record() != want[i] || r.Revision() != want[i].Revision() || string(r.Octets()) != want[i].Octets() {
					t.Errorf("%s: record %d is %x", tt.name, i, r.Octets())
				}
				i++
			}
			for k, r := range l.Skipped() {
				if tt.records[k] != unknown && tt.records[k] != another || r.Kind().Known() {
					t.Errorf("%s: skipped %d", tt.name, k)
				}
			}
			for range l.All() {
				break
			}
			for range l.Skipped() {
				break
			}
		}
	}
}

// Every record in a list, in turn, with an octet of it spoiled.
func TestListRefuses(t *testing.T) {
	b := unhex(t, "83a400410a0103020104a20061740101a400410b0109020704a16161f6a400410c0102020304a10001")
	if _, next := record.ScanList(b, 0, dcbor.Generation2, nil); next != len(b) {
		t.Fatal(dcbor.Fault(next))
	}
	for n := range len(b) {
		if l, next := record.ScanList(b[:n], 0, dcbor.Generation2, nil); next >= 0 || l.Len() != 0 {
			t.Errorf("the first %d octets are a list", n)
		}
	}
	for _, octets := range []string{"f6", "05", "81f6", "8105", "8180", "9fff", "9bffffffffffffffff", "81a0", "81a400410a0103020104a0"} {
		if _, next := record.ScanList(unhex(t, octets), 0, dcbor.Generation2, nil); next >= 0 {
			t.Errorf("%s is a list", octets)
		}
	}
	if _, next := record.ScanList(b, dcbor.Fail(3, dcbor.Empty), dcbor.Generation2, nil); next != dcbor.Fail(3, dcbor.Empty) {
		t.Error("a list behind a fault does not hand it on")
	}
}

// Covers: DISC-5-02
func TestIDs(t *testing.T) {
	b := unhex(t, "83410a5820"+strings.Repeat("62", 32)+"410a"+"f5")
	ids, next := record.ScanIDs(b, 0)
	if next != len(b)-1 || ids.Len() != 3 {
		t.Fatalf("%d ids up to %d", ids.Len(), next)
	}
	want := []record.ID{"\x0a", record.ID(strings.Repeat("b", 32)), "\x0a"}
	if got := ids.Cut(string(ids.Octets())); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	var got []record.ID
	for id := range ids.All() {
		got = append(got, record.ID(id))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for range ids.All() {
		break
	}
	if ids, next := record.ScanIDs(unhex(t, "80"), 0); next != 1 || ids.Len() != 0 || len(ids.Cut("")) != 0 {
		t.Error("no ids")
	}
	for _, octets := range []string{"8140", "815821" + strings.Repeat("62", 33), "816161", "81f6", "8201", "9fff", "a0", "f6", "", "82410a"} {
		if _, next := record.ScanIDs(unhex(t, octets), 0); next >= 0 {
			t.Errorf("%s are ids", octets)
		}
	}
}
