package record

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
)

// learnedTool is a tool record at a revision; contents differ by name.
func learnedTool(t testing.TB, id, name string, revision uint64) Record {
	r, err := Tool{ID: ID(id), Revision: revision, Name: name, ProtocolID: 1}.Record()
	return built(t, r, err)
}

// refOf is the record as it stands in a payload.
func refOf(t testing.TB, r Record) Ref {
	b := r.AppendTo(dcbor.AppendArray(nil, 1))
	l, i := ScanList(b, 0, dcbor.Generation2, nil)
	if i != len(b) {
		t.Fatal("not a list")
	}
	for ref := range l.All() {
		return ref
	}
	panic("unreachable")
}

var roomy = CacheLimits{MaxRecords: 1000, MaxLen: 1 << 20, MaxTombstones: 10}

// Covers: DISC-5-08, DISC-8-02, DISC-8-03, DISC-5-09, C18, C56, DGP-22-03
func TestCacheRevisionRule(t *testing.T) {
	for name, take := range map[string]func(*Cache, Record) Outcome{
		"RESULT":   func(c *Cache, r Record) Outcome { return c.Learn(r, c.Epoch()) },
		"ANNOUNCE": func(c *Cache, r Record) Outcome { return c.Announce(r) },
		"UPDATE": func(c *Cache, r Record) Outcome {
			_, o := c.take(source{ref: refOf(t, r)}, c.Epoch(), true)
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache(roomy)
			for _, step := range []struct {
				rec  Record
				want Outcome
				held uint64
			}{
				{learnedTool(t, "t1", "a", 1), Added, 1},
				{learnedTool(t, "t1", "a", 2), Replaced, 2},
				{learnedTool(t, "t1", "a", 2), Same, 2},
				{learnedTool(t, "t1", "b", 2), Conflict, 2},
				{learnedTool(t, "t1", "c", 1), Stale, 2},
				{learnedTool(t, "t1", "d", 1<<63), Replaced, 1 << 63},
				{learnedTool(t, "t1", "e", 1<<64-1), Replaced, 1<<64 - 1},
			} {
				if o := take(c, step.rec); o != step.want {
					t.Fatalf("revision %d: outcome %d, want %d", step.rec.Revision(), o, step.want)
				}
				r, confirmed, ok := c.Lookup("t1")
				if !ok || r.Revision() != step.held || confirmed != (name != "ANNOUNCE") {
					t.Fatalf("held: %v at %d, confirmed %v", ok, r.Revision(), confirmed)
				}
			}
			if c.Len() != 1 {
				t.Errorf("%d records", c.Len())
			}
		})
	}
	c := NewCache(roomy)
	r := learnedTool(t, "t1", "a", 1)
	c.Announce(r)
	c.Learn(r, c.Epoch())
	if _, confirmed, _ := c.Lookup("t1"); !confirmed {
		t.Error("a RESULT with the same record does not confirm it")
	}
	label := "one label"
	for _, id := range []ID{"u1", "u2"} { // a label names nothing
		r, err := Tool{ID: id, Label: &label, Name: "x", ProtocolID: 1}.Record()
		c.Learn(built(t, r, err), c.Epoch())
	}
	if c.Len() != 3 {
		t.Errorf("%d records, want 3", c.Len())
	}
}

// Covers: DISC-8-04
func TestAbsenceIsNoWithdrawal(t *testing.T) {
	c := NewCache(roomy)
	v := c.NewView(Matcher{})
	for _, id := range []string{"t1", "t2"} {
		v.Page(learnedTool(t, id, "a", 1))
	}
	v.Whole()
	c.Learn(learnedTool(t, "t2", "b", 2), c.Epoch())
	c.Announce(learnedTool(t, "t2", "c", 3))
	if _, _, ok := c.Lookup("t1"); !ok || v.Len() != 2 {
		t.Error("t1 is gone though nobody withdrew it")
	}
}

// Covers: C16, C17
func TestCacheWithdrawal(t *testing.T) {
	c := NewCache(roomy)
	kinds := Filter{Kinds: []Kind{KindTool}}.Matcher()
	everything := Filter{}.Matcher()
	a, b, all := c.NewView(kinds), c.NewView(kinds), c.NewView(everything)
	began := c.Epoch()
	for _, v := range []*View{a, b} {
		v.Page(learnedTool(t, "t1", "a", 5))
		v.Whole()
	}
	all.Whole()
	a.Withdraw([]byte("t1"))
	if _, _, ok := c.Lookup("t1"); !ok {
		t.Fatal("another live view holds t1")
	}
	b.Withdraw([]byte("t1"))
	if _, _, ok := c.Lookup("t1"); ok {
		t.Fatal("no view holds t1 any more")
	}
	if o := c.Learn(learnedTool(t, "t1", "a", 5), began); o != Stale {
		t.Errorf("a listing from before brought it back: %d", o)
	}
	if o := c.Learn(learnedTool(t, "t1", "a", 6), began); o != Added {
		t.Errorf("a greater revision of a listing from before: %d", o)
	}
	a.Add(refOf(t, learnedTool(t, "t1", "a", 6)))
	all.Add(refOf(t, learnedTool(t, "t1", "a", 6)))
	all.Withdraw([]byte("t1")) // of everything: gone, whoever holds it
	if _, _, ok := c.Lookup("t1"); ok {
		t.Error("the view of everything withdrew it")
	}
	if o := c.Learn(learnedTool(t, "t1", "a", 1), c.Epoch()); o != Added {
		t.Errorf("a later listing may number from the start: %d", o)
	}
	for i := range 20 { // tombstones are few
		id := fmt.Sprint("x", i)
		all.Add(refOf(t, learnedTool(t, id, "a", 1)))
		all.Withdraw([]byte(id))
	}
	if o := c.Learn(learnedTool(t, "x0", "a", 1), began); o != Stale {
		t.Errorf("a listing older than what is forgotten brought a record back: %d", o)
	}
	if o := c.Learn(learnedTool(t, "x0", "a", 1), c.Epoch()); o != Added {
		t.Errorf("a later listing: %d", o)
	}
	if o := c.Learn(learnedTool(t, "x19", "a", 1), began); o != Stale {
		t.Errorf("the latest tombstone is gone: %d", o)
	}
}

// Covers: C17, C19
func TestViewDuringSnapshot(t *testing.T) {
	v := NewCache(roomy).NewView(Matcher{})
	v.Page(learnedTool(t, "t1", "a", 5))
	v.Withdraw([]byte("t1"))
	v.Withdraw([]byte("t2")) // not seen yet
	for _, id := range []string{"t1", "t2"} {
		if _, o := v.Page(learnedTool(t, id, "a", 5)); o != Stale {
			t.Errorf("%s came back with an older page: %d", id, o)
		}
	}
	if _, _, o := v.Add(refOf(t, learnedTool(t, "t2", "a", 1))); o != Added {
		t.Errorf("an UPDATE inserts at any revision: %d", o)
	}
	v.Whole()
	if _, o := v.Page(learnedTool(t, "t1", "a", 1)); o != Added {
		t.Errorf("nothing is remembered after the snapshot: %d", o)
	}
}

// Covers: DISC-10-10
func TestCacheLimits(t *testing.T) {
	one := learnedTool(t, "t1", "a", 1)
	c := NewCache(CacheLimits{MaxRecords: 2, MaxLen: 10 * one.Len()})
	for i, want := range []Outcome{Added, Added, Refused} {
		if o := c.Learn(learnedTool(t, fmt.Sprint("t", i), "a", 1), 0); o != want {
			t.Errorf("record %d: %d, want %d", i, o, want)
		}
	}
	if o := c.Learn(learnedTool(t, "t1", "a", 2), 0); o != Replaced {
		t.Errorf("a replacement at the limit: %d", o)
	}
	v := c.NewView(Matcher{})
	if _, o := v.Page(learnedTool(t, "t9", "a", 1)); o != Added || v.Len() != 1 {
		t.Errorf("a view holds what the cache has no room for: %d", o)
	}
	c = NewCache(CacheLimits{MaxRecords: 10, MaxLen: 2 * one.Len()})
	for i, want := range []Outcome{Added, Added, Refused} {
		if o := c.Learn(learnedTool(t, fmt.Sprint("t", i), "a", 1), 0); o != want {
			t.Errorf("record %d by octets: %d, want %d", i, o, want)
		}
	}
	if c.Clear(); c.Len() != 0 || c.Memory() != 0 {
		t.Errorf("cleared: %d records, %d octets", c.Len(), c.Memory())
	}
}

// Covers: DISC-5.4-03, DISC-5.4-04, DGP-8-02
func TestDanglingReferences(t *testing.T) {
	c := NewCache(roomy)
	v := c.NewView(Matcher{})
	r, err := Agent{ID: "a1", AgentID: "g", Protocols: []uint64{1}, Tools: []ID{"p1", "t9"}}.Record()
	agent := built(t, r, err)
	r, err = Protocol{ID: "p1", ProtocolID: 1, CarriageClass: ClassJSONRPC}.Record()
	v.Page(agent)
	v.Page(built(t, r, err))
	for name, f := range map[string]func(Record) []ID{"cache": c.Dangling, "view": v.Dangling} {
		if got := f(agent); !slices.Equal(got, []ID{"p1", "t9"}) {
			t.Errorf("%s: dangling %v, want p1 (no tool) and t9 (not there)", name, got)
		}
	}
	if c.Len() != 2 || v.Len() != 2 {
		t.Error("something was made up")
	}
	v.Add(refOf(t, learnedTool(t, "t9", "x", 1)))
	if got := v.Dangling(agent); !slices.Equal(got, []ID{"p1"}) {
		t.Errorf("after t9 came: %v", got)
	}
}

// Covers: DISC-7.2-09, DISC-5-07
func TestViewAgainstMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	c := NewCache(roomy)
	v := c.NewView(Matcher{})
	v.Whole()
	held := map[ID]Record{}
	for range 5000 {
		id := fmt.Sprintf("t%02d", rnd.IntN(50))
		if rnd.IntN(3) == 0 {
			was, ok := v.Withdraw([]byte(id))
			if h := held[ID(id)]; ok != !h.IsZero() || was != h {
				t.Fatalf("withdrew %v, held %v", was, h)
			}
			delete(held, ID(id))
			continue
		}
		r := learnedTool(t, id, fmt.Sprint(rnd.IntN(3)), uint64(rnd.IntN(5)))
		_, _, o := v.Add(refOf(t, r))
		h, ok := held[ID(id)]
		if want := !ok || r.Revision() > h.Revision(); want != (o == Added || o == Replaced) {
			t.Fatalf("revision %d over %d: %d", r.Revision(), h.Revision(), o)
		} else if want {
			held[ID(id)] = r
		}
	}
	want := slices.SortedFunc(maps.Values(held), func(a, b Record) int { return slices.Compare([]byte(a.ID()), []byte(b.ID())) })
	if !slices.Equal(v.Records(), want) || v.Digest() != Digest(slices.Values(want)) {
		t.Error("the view is not what a map would hold")
	}
	v.Close()
	for _, e := range c.entries {
		if e.views != 0 {
			t.Fatal("a closed view still counts")
		}
	}
}

// Covers: DISC-6.1-06
func TestMatchRefIsMatch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		r := testRecord(t, i)
		f := Filter{}
		if rnd.IntN(2) == 0 {
			f.Kinds = []Kind{Kind(rnd.IntN(6))}
		}
		if rnd.IntN(2) == 0 {
			f.ProtocolIDs = []uint64{uint64(rnd.IntN(8)), 0x40}
		}
		if rnd.IntN(2) == 0 {
			f.HasPrefix, f.NamePrefix = true, "svc0"
		}
		m := f.Matcher()
		if m.MatchRef(refOf(t, r)) != m.MatchRecord(r) {
			t.Fatalf("%+v: %v", f, r)
		}
	}
}

func TestDiff(t *testing.T) {
	a := []Record{learnedTool(t, "t1", "a", 1), learnedTool(t, "t2", "a", 1), learnedTool(t, "t3", "a", 1)}
	b := []Record{learnedTool(t, "t0", "a", 1), learnedTool(t, "t2", "b", 2), learnedTool(t, "t3", "a", 1)}
	var got []string
	for was, now := range Diff(a, b) {
		s := ""
		if !was.IsZero() {
			s += "-" + string(was.ID())
		}
		if !now.IsZero() {
			s += "+" + string(now.ID())
		}
		got = append(got, s)
	}
	if want := []string{"+t0", "-t1", "-t2+t2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
