package disco

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Covers: DISC-10-08
func TestAllocationBudgets(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations differ under the race detector")
	}
	update := unhex(t, "a4001901050141050281a4004274310103020204a300676769742e6c6f67010102000382427432427433")
	query := unhex(t, accepted[1].octets)
	one, many := corpusPayload(t, 1), corpusPayload(t, 1000)
	huge := corpusPayload(t, 3000) // more than Marks remember
	result := corpusResult(t, 1000)
	buf := make([]byte, 0, len(many)+MaxResultHeadLen+16)
	stored := many[len(many)/2:] // any octets will do
	var head [MaxResultHeadLen]byte
	o := &Options{Generation: 3}
	tests := []struct {
		name string
		max  float64
		f    func() error
	}{
		{"ParseResultView", 0, func() error { _, err := ParseResultView(many, o); return err }},
		{"ParseResult of 1", 2, func() error { _, err := ParseResult(one, o); return err }},
		{"ParseResult of 1000", 2, func() error { _, err := ParseResult(many, o); return err }},
		{"ParseResult of 3000", 2, func() error { _, err := ParseResult(huge, o); return err }},
		{"a walk over a ResultView", 0, func() error {
			v, err := ParseResultView(many, o)
			n := uint64(0)
			for r := range v.Records.All() {
				n += r.Revision() + uint64(r.Kind()) + uint64(len(r.ID()))
			}
			for range v.Records.Skipped() {
				n++
			}
			if n == 0 {
				return fmt.Errorf("no records")
			}
			return err
		}},
		{"a walk over an UpdateView", 0, func() error {
			v, err := ParseUpdateView(update, o)
			n := 0
			for r := range v.Added.All() {
				n += len(r.Octets())
			}
			for id := range v.Withdrawn.All() {
				n += len(id)
			}
			if n != 24+2*2 {
				return fmt.Errorf("%d octets", n)
			}
			return err
		}},
		{"ParseUpdate", 3, func() error { _, err := ParseUpdate(update, o); return err }},
		{"ParseQuery", 4, func() error { _, err := ParseQuery(query, o); return err }},
		{"AppendResult", 0, func() error { _, err := AppendResult(buf, result); return err }},
		{"a RESULT from stored octets", 0, func() error {
			b := append(AppendResultHead(buf, result.Corr, 500, false), stored...)
			AppendResultTail(b, false, "0123456789abcdef")
			PutResultHead(head[:], result.Corr, 500, false)
			return nil
		}},
		{"an UPDATE from stored octets", 0, func() error {
			b := AppendUpdateHead(buf, result.Corr, true, true)
			b = append(AppendAdded(b, 500), stored...)
			dcbor.AppendBytes(AppendWithdrawn(b, 1), result.Records[0].ID())
			return nil
		}},
		{"AppendQuery", 0, func() error {
			_, err := AppendQuery(buf, &Query{Corr: "c", Filter: record.Filter{Kinds: []record.Kind{3, 4}, NamePrefix: "x", HasPrefix: true}})
			return err
		}},
		{"ScanCorr that finds none", 0, func() error { ScanCorr(many[:len(many)-1]); return nil }},
	}
	for _, tt := range tests {
		if err := tt.f(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if n := testing.AllocsPerRun(20, func() { tt.f() }); n > tt.max {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, n, tt.max)
		}
	}
}

// heapOf returns the octets allocated by f.
func heapOf(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// smallest returns a payload of 1 MiB: head, an array of as many times each as
// there is room for, and tail, all in hex.
func smallest(t testing.TB, head, each, tail string) []byte {
	n := (1<<20 - len(head)/2 - len(tail)/2) / (len(each) / 2)
	b := dcbor.AppendArray(unhex(t, head), n)
	return append(append(b, bytes.Repeat(unhex(t, each), n)...), unhex(t, tail)...)
}

// hostilePayloads are of 1 MiB, made to have the most of them kept.
func hostilePayloads(t testing.TB) []struct {
	name   string
	typ    Type
	octets []byte
} {
	return []struct {
		name   string
		typ    Type
		octets []byte
	}{
		{"smallest records", TypeResult, smallest(t, "a40019010101410102", "a40041780102020004a10000", "03f5")},
		{"smallest records, the last refused", TypeResult, smallest(t, "a40019010101410102", "a40041780102020004a10000", "03f6")},
		{"smallest skipped records", TypeResult, smallest(t, "a40019010101410102", "a40041780109020004a0", "03f5")},
		{"smallest skipped records in ANNOUNCE", TypeAnnounce, smallest(t, "a20019010302", "a40041780109020004a0", "")},
		{"kinds", TypeQuery, smallest(t, "a30019010001410102", "03", "")},
		{"an unknown value, refused at its end", TypeQuery, smallest(t, "a30019010001410107", "1801", "")},
	}
}

// Covers: DASP-011-01, F05, F07
func TestHeapBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations differ under the race detector")
	}
	type test struct {
		name   string
		typ    Type
		octets []byte
		factor uint64 // octets allocated for each that came, but for 64 KiB
	}
	tests := []test{
		{"array of 2^64-1", TypeQuery, unhex(t, "a300190100014101029bffffffffffffffff"), 3},
		{"array of 2^31-1", TypeQuery, unhex(t, "a300190100014101029a7fffffff"), 3},
		{"corr of 2^63-1", TypeQuery, unhex(t, "a200190100015b7fffffffffffffff"), 3},
		{"records of 2^32-1", TypeResult, unhex(t, "a400190101014101029affffffff"), 3},
		{"withdrawn of 2^32-1", TypeUpdate, unhex(t, "a300190105014101039affffffff"), 3},
		{"100,000 levels", TypeQuery, unhex(t, "a30019010001410102"+strings.Repeat("81", 100_000)), 3},
		{"200 levels in an unknown key", TypeQuery, unhex(t, "a30019010001410107"+strings.Repeat("81", 200)+"00"), 3},
	}
	for _, h := range hostilePayloads(t) {
		tests = append(tests, test{h.name, h.typ, h.octets, 3})
	}
	withdrawn := smallest(t, "a30019010501410103", "4101", "")
	tests = append(tests, test{"smallest withdrawn ids", TypeUpdate, withdrawn, 10})
	for _, tt := range tests {
		for _, tolerant := range []bool{false, true} {
			o := &Options{Tolerant: tolerant}
			got := heapOf(func() { parseOnly(tt.typ, tt.octets, o) })
			if most := tt.factor*uint64(len(tt.octets)) + 64<<10; got > most {
				t.Errorf("%s, tolerant %v: %d octets allocated for %d", tt.name, tolerant, got, len(tt.octets))
			}
		}
	}
	if got := heapOf(func() { ParseUpdateView(withdrawn, nil) }); got > 1024 {
		t.Errorf("ParseUpdateView of ids: %d octets allocated", got)
	}
}

func parseOnly(typ Type, b []byte, o *Options) {
	switch typ {
	case TypeQuery:
		ParseQuery(b, o)
	case TypeResult:
		ParseResult(b, o)
	case TypeAnnounce:
		ParseAnnounce(b, o)
	case TypeUpdate:
		ParseUpdate(b, o)
	}
}

// What was parsed owns its memory: the buffer may be used again.
func TestParsedOwnsItsMemory(t *testing.T) {
	for _, v := range accepted {
		b := unhex(t, v.octets)
		again, err := reuse(v.typ, b)
		if err != nil || hex.EncodeToString(again) != v.octets {
			t.Errorf("%s: %x, %v", v.name, again, err)
		}
	}
}

// reuse parses b, overwrites it and appends the message.
func reuse(typ Type, b []byte) ([]byte, error) {
	switch typ {
	case TypeQuery:
		v, _ := ParseQuery(b, nil)
		clear(b)
		return AppendQuery(nil, &v)
	case TypeResult:
		v, _ := ParseResult(b, nil)
		clear(b)
		return AppendResult(nil, &v)
	case TypeError:
		v, _ := ParseError(b, nil)
		clear(b)
		return AppendError(nil, &v)
	case TypeAnnounce:
		v, _ := ParseAnnounce(b, nil)
		clear(b)
		return AppendAnnounce(nil, &v)
	case TypeSubscribe:
		v, _ := ParseSubscribe(b, nil)
		clear(b)
		return AppendSubscribe(nil, &v)
	case TypeUpdate:
		v, _ := ParseUpdate(b, nil)
		clear(b)
		return AppendUpdate(nil, &v)
	}
	v, _ := ParseUnsubscribe(b, nil)
	clear(b)
	return AppendUnsubscribe(nil, &v)
}
