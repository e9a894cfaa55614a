package record

import (
	"fmt"
	"testing"
)

var benchFilters = []struct {
	name string
	f    Filter
}{
	{"kind", Filter{Kinds: []Kind{KindAgent}}},
	{"protocol", Filter{ProtocolIDs: []uint64{2}}},
	{"prefix", Filter{NamePrefix: "svc04", HasPrefix: true}},
	{"all", Filter{Kinds: []Kind{KindTool, KindAgent}, ProtocolIDs: []uint64{1, 2}, NamePrefix: "svc04", HasPrefix: true}},
}

// Match by index, each match visited, and the linear scan of the same octets.
func BenchmarkMatch(b *testing.B) {
	s := testSet(b, 100_000).Snapshot()
	for _, f := range benchFilters {
		m := f.f.Matcher()
		b.Run("index/"+f.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = 0
				for range s.Match(&m) {
					n++
				}
			}
			b.ReportMetric(float64(n), "matches")
		})
		b.Run("linear/"+f.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = 0
				for r := range s.All() {
					if m.MatchRecord(r) {
						n++
					}
				}
			}
			b.ReportMetric(float64(n), "matches")
		})
	}
}

// A page of 500 of 100,000, and one copy of as many octets.
func BenchmarkPage(b *testing.B) {
	s := testSet(b, 100_000).Snapshot()
	out := make([]byte, 0, 1<<20)
	from := Position{chunk: int32(len(s.chunks) / 2)}
	b.Run("unfiltered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out, _, _, _ = s.AppendPage(out[:0], nil, from, 500, 256<<10)
		}
	})
	one := string(out)
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			out = append(out[:0], one...)
		}
	})
	for _, f := range benchFilters {
		m := f.f.Matcher()
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				out, _, _, _ = s.AppendPage(out[:0], &m, from, 500, 256<<10)
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			if testing.Short() && n > 100_000 {
				b.Skip("short")
			}
			s := testSet(b, n)
			recs := make([][2]Record, 64)
			for i := range recs {
				id := testID(i * (n / 64))
				old, _ := s.Snapshot().Get(id)
				for k := range 2 {
					recs[i][k] = built(b, relabel(old, fmt.Sprint("label ", k)), nil)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				r := recs[i%64][i/64%2]
				if err := s.Update(func(tx *Tx) error { return tx.Put(r) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// relabel returns the record with another label.
func relabel(r Record, label string) Record {
	var out Record
	if t, ok := r.Tool(); ok {
		t.Label = &label
		out, _ = t.Record()
	}
	if a, ok := r.Agent(); ok {
		a.Label = &label
		out, _ = a.Record()
	}
	if p, ok := r.Protocol(); ok {
		p.Label = &label
		out, _ = p.Record()
	}
	return out
}
