package record_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

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
	for _, tt := range tests {
		b := dcbor.AppendArray([]byte{0xff, 0xff}, len(tt.records))
		b = append(b, unhex(t, strings.Join(tt.records, ""))...)
		end := len(b)
		b = append(b, 0xf5)
		for _, marks := range []*record.Marks{nil, new(record.Marks)} {
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

// What is known changes nothing but whose memory a record is in.
func TestListKnown(t *testing.T) {
	rec := func(id byte, revision int) record.Record {
		return parse(t, fmt.Sprintf("a40041%02x010302%02x04a20061740101", id, revision))
	}
	all := func(n int) (v []record.Record) {
		for i := range n {
			v = append(v, rec(byte(i), 1))
		}
		return v
	}
	without := func(v []record.Record, from, to int) []record.Record { return slices.Delete(slices.Clone(v), from, to) }
	replaced := func(v []record.Record, i int) []record.Record {
		v = slices.Clone(v)
		v[i] = rec(byte(i), 2)
		return v
	}
	reversed := func(v []record.Record) []record.Record {
		v = slices.Clone(v)
		slices.Reverse(v)
		return v
	}
	var many []record.Record
	for i := range 1100 {
		many = append(many, parse(t, fmt.Sprintf("a40042%04x0103020104a20061740101", i)))
	}
	long := func(id byte, n int) record.Record {
		return parse(t, fmt.Sprintf("a50041%02x010302010379%04x%s04a20061740101", id, n, strings.Repeat("61", n)))
	}
	tests := []struct {
		name        string
		list, known []record.Record
		shared      int
	}{
		{"nothing known", all(20), nil, 0},
		{"all", all(20), all(20), 20},
		{"less than all", all(20), all(7), 7},
		{"more than all", all(7), all(20), 7},
		{"some left out", all(20), without(all(20), 5, 9), 16},
		{"some withdrawn", without(all(20), 5, 9), all(20), 15},
		{"the first withdrawn", without(all(20), 0, 3), all(20), 16},
		{"the first new", all(20), without(all(20), 0, 3), 17},
		{"one replaced", replaced(all(20), 6), all(20), 19},
		{"too many new ones", all(40), without(all(40), 3, 35), 3},
		{"others", all(20)[:10], all(20)[10:], 0},
		{"out of order", reversed(all(20)), all(20), 0},
		{"known out of order", all(20), reversed(all(20)), 0},
		{"more than a page", many, many, 1024},
		{"a long one", []record.Record{long(1, 65500), long(2, 65535), long(3, 300)}, []record.Record{long(1, 65500), long(2, 65535), long(3, 300)}, 2},
	}
	for _, tt := range tests {
		b := dcbor.AppendArray(nil, len(tt.list))
		for _, r := range tt.list {
			b = r.AppendTo(b)
		}
		marks := record.Marks{Known: tt.known}
		l, next := record.ScanList(b, 0, dcbor.Generation3, &marks)
		if next != len(b) {
			t.Fatalf("%s: %v", tt.name, dcbor.Fault(min(next, -1)))
		}
		got, skipped, tail := l.Own(&marks, []byte("tail"))
		if !slices.Equal(got, tt.list) || len(skipped) > 0 || tail != "tail" {
			t.Errorf("%s: got %x, want %x; tail %q", tt.name, got, tt.list, tail)
		}
		clear(b)
		if !slices.Equal(got, tt.list) {
			t.Errorf("%s: aliases the payload", tt.name)
		}
		shared := 0
		for _, r := range got {
			if slices.ContainsFunc(tt.known, func(k record.Record) bool {
				return unsafe.StringData(k.Octets()) == unsafe.StringData(r.Octets())
			}) {
				shared++
			}
		}
		if shared != tt.shared {
			t.Errorf("%s: %d records share the known ones' memory, want %d", tt.name, shared, tt.shared)
		}
	}
}

// A known record that comes is no reason to take what is wrong after it.
func TestListKnownRefuses(t *testing.T) {
	b := unhex(t, "82a400410a0103020104a20061740101a400410c0102020304a10001")
	known := []record.Record{parse(t, "a400410a0103020104a20061740101"), parse(t, "a400410c0102020304a10001")}
	for i := range b {
		for _, octet := range []byte{0x00, 0xff, b[i] + 1, b[i] ^ 0x80} {
			bad := bytes.Clone(b)
			bad[i] = octet
			_, want := record.ScanList(bad, 0, dcbor.Generation3, nil)
			if _, got := record.ScanList(bad, 0, dcbor.Generation3, &record.Marks{Known: known}); got != want {
				t.Errorf("%x: %d, want %d", bad, got, want)
			}
		}
		_, want := record.ScanList(b[:i], 0, dcbor.Generation3, nil)
		if _, got := record.ScanList(b[:i], 0, dcbor.Generation3, &record.Marks{Known: known}); got != want {
			t.Errorf("the first %d octets: %d, want %d", i, got, want)
		}
	}
	unknown := "a400410b0109020704a16161f6"
	b = unhex(t, "83"+"a400410a0103020104a20061740101"+unknown+"a400410c0102020304a10001")
	marks := record.Marks{Known: known}
	l, next := record.ScanList(b, 0, dcbor.Generation3, &marks)
	records, skipped, tail := l.Own(&marks, []byte("tail"))
	if next != len(b) || !slices.Equal(records, known) || len(skipped) != 1 || skipped[0].ID != "\x0b" || tail != "tail" {
		t.Errorf("with one of an unknown kind: %x %v %q", records, skipped, tail)
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
