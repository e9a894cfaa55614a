package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A cache that listings are learned into place by place holds what one holds
// that looks every record up.
//
// Covers: DISC-8-02, C17, C18
func TestLearnListedIsLearn(t *testing.T) {
	hits := 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 11))
		lim := CacheLimits{MaxRecords: []int{12, 1000}[seed%2], MaxLen: 1 << 20, MaxTombstones: 10}
		listed, plain := NewCache(lim), NewCache(lim)
		views := []*View{listed.NewView(Matcher{}), plain.NewView(Matcher{})}
		list := func() (recs []Record) { // mostly what was there before
			for i := range 5 + rng.IntN(20) {
				revision := uint64(1)
				if rng.IntN(30) == 0 {
					revision += uint64(rng.IntN(3))
				}
				recs = append(recs, learnedTool(t, fmt.Sprintf("t%02d", i), fmt.Sprint(rng.IntN(40)/39), revision))
			}
			return recs
		}
		for range steps(400) {
			switch rng.IntN(6) {
			case 0:
				r := learnedTool(t, fmt.Sprintf("t%02d", rng.IntN(25)), "a", uint64(rng.IntN(4)))
				if a, b := listed.Announce(r), plain.Announce(r); a != b {
					t.Fatalf("announced: %d, want %d", a, b)
				}
			case 1:
				id := []byte(fmt.Sprintf("t%02d", rng.IntN(25)))
				views[0].Withdraw(id)
				views[1].Withdraw(id)
			case 2:
				ref := refOf(t, learnedTool(t, fmt.Sprintf("t%02d", rng.IntN(25)), "b", uint64(1+rng.IntN(4))))
				views[0].Add(ref)
				views[1].Add(ref)
			default:
				began := []Epoch{listed.Epoch(), 0}[rng.IntN(2)]
				recs := list()
				if rng.IntN(2) == 0 {
					listed.Expect(len(recs))
				}
				for i, r := range recs {
					if i < len(listed.trail) && listed.trail[i].v.rec == r {
						hits++
					}
					if a, b := listed.LearnListed(i, r, began), plain.Learn(r, began); a != b {
						t.Fatalf("learned %v: %d, want %d", r.ID(), a, b)
					}
				}
				listed.EndListed(len(recs))
				if len(listed.trail) > len(recs) {
					t.Fatalf("a trail of %d after %d records", len(listed.trail), len(recs))
				}
			}
			checkCache(t, listed, views[:1])
			if lim.MaxRecords == 1000 { // else it is the map's order that decides what is evicted
				for id := range listed.entries {
					a, ca, oka := listed.Lookup(id)
					if b, cb, okb := plain.Lookup(id); a != b || ca != cb || oka != okb {
						t.Fatalf("%v: %q %v, want %q %v", id, a.s, ca, b.s, cb)
					}
				}
				if listed.Len() != plain.Len() {
					t.Fatalf("%d records, want %d", listed.Len(), plain.Len())
				}
			} else { // go on from the same contents
				listed.Clear()
				plain.Clear()
				if listed.trail != nil || listed.Len() != 0 {
					t.Fatal("cleared, and not empty")
				}
			}
		}
	}
	if hits == 0 {
		t.Error("no record was found in its place")
	}
}

// A listing that was learned before, by its ids and by its places.
func BenchmarkLearn(b *testing.B) {
	const n = 100_000
	recs := slices.Collect(testSet(b, n).Snapshot().All())
	c := NewCache(CacheLimits{MaxRecords: n, MaxLen: 1 << 30})
	learn := map[string]func(){
		"by id": func() {
			for _, r := range recs {
				c.Learn(r, 0)
			}
		},
		"by place": func() {
			for i, r := range recs {
				c.LearnListed(i, r, 0)
			}
			c.EndListed(n)
		},
	}
	for name, f := range learn {
		b.Run(name, func(b *testing.B) {
			f()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

// What a listing had is told from any place on.
func TestAppendListed(t *testing.T) {
	c := NewCache(CacheLimits{MaxRecords: 100, MaxLen: 1 << 20})
	if got := c.AppendListed(nil, "", 10); len(got) > 0 || c.NumListed() > 0 {
		t.Errorf("of no listing: %v", got)
	}
	var recs []Record
	for i := range 20 {
		recs = append(recs, learnedTool(t, fmt.Sprintf("t%02d", i), "a", 1))
	}
	c.Expect(math.MaxInt)
	if n := c.Memory(); n > 100*100 {
		t.Errorf("%d octets for 100 records to come", n)
	}
	for i, r := range recs {
		c.LearnListed(i, r, 0)
	}
	c.EndListed(len(recs))
	if c.NumListed() != len(recs) {
		t.Errorf("%d records", c.NumListed())
	}
	between := ID(string(recs[4].ID()) + "\x00")
	for _, x := range []struct {
		after ID
		n     int
		want  []Record
	}{
		{"", 3, recs[:3]}, {"", 100, recs}, {"", 0, nil},
		{recs[0].ID(), 2, recs[1:3]}, {recs[17].ID(), 10, recs[18:]}, {recs[19].ID(), 10, nil},
		{between, 1, recs[5:6]}, {"\x00", 1, recs[:1]}, {"\xff", 1, nil},
	} {
		if got := c.AppendListed(nil, x.after, x.n); !slices.Equal(got, x.want) {
			t.Errorf("%d after %x: %x, want %x", x.n, x.after, got, x.want)
		}
	}
}

// What there is no room for is not copied.
func TestRefusedIsNotCopied(t *testing.T) {
	c := NewCache(CacheLimits{MaxRecords: 1, MaxLen: 1 << 20})
	c.Learn(learnedTool(t, "t1", "a", 1), 0)
	r := learnedTool(t, "t2", "b", 1)
	if n := testing.AllocsPerRun(100, func() {
		if o := c.Learn(r, 0); o != Refused {
			t.Errorf("%d", o)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
