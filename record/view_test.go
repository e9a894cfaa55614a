package record

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// checkCache counts everything in a cache and its views from the beginning.
func checkCache(t *testing.T, c *Cache, views []*View) {
	t.Helper()
	refs, holders := map[*version]int32{}, map[ID]int32{}
	n, octets := 0, 0
	for id, e := range c.entries {
		if e.now == nil && e.views == 0 {
			t.Fatalf("an entry of nothing: %v", id)
		}
		if e.now != nil {
			n, octets = n+1, octets+e.now.rec.Len()
			refs[e.now]++
			if e.now.rec.ID() != id {
				t.Fatal("another id")
			}
		}
	}
	for _, x := range c.trail {
		refs[x.v]++
	}
	for _, v := range views {
		last, num := ID(""), 0
		for k, run := range v.runs {
			if len(run) == 0 || len(run) > maxRun {
				t.Fatalf("run %d of %d records", k, len(run))
			}
			for _, x := range run {
				if x.rec.ID() <= last {
					t.Fatal("not in order")
				}
				last, num = x.rec.ID(), num+1
				refs[x]++
				holders[last]++
			}
		}
		if num != v.n {
			t.Fatalf("%d records, counted as %d", num, v.n)
		}
	}
	alive := 0
	for x, want := range refs {
		if alive += x.rec.Len(); x.refs != want {
			t.Fatalf("%d references, counted as %d", want, x.refs)
		}
	}
	for id, e := range c.entries {
		if e.views != holders[id] {
			t.Fatalf("%d views hold %v, counted as %d", holders[id], id, e.views)
		}
	}
	for id := range c.announced {
		if e := c.entries[id]; e == nil || e.now == nil {
			t.Fatalf("%v is announced, and not there", id)
		}
	}
	if n != c.n || octets != c.octets || alive != c.alive || len(refs) != c.versions {
		t.Fatalf("%d records of %d octets, %d versions of %d; counted as %d, %d, %d, %d",
			n, octets, len(refs), alive, c.n, c.octets, c.versions, c.alive)
	}
	if c.n > c.lim.MaxRecords || c.octets > c.lim.MaxLen || len(c.order) > c.lim.MaxTombstones || len(c.tombs) > len(c.order) {
		t.Fatalf("%d records, %d octets, %d tombstones", c.n, c.octets, len(c.order))
	}
}

// Covers: DISC-7.2-09, DISC-8-02, DISC-8-03, DISC-8-05, DISC-10-10, C16, C17, C18, C56
func TestCacheAndViewsAgainstPlainMaps(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := NewCache(CacheLimits{MaxRecords: []int{5, 60, 1000}[seed%3], MaxLen: 1 << 20, MaxTombstones: 20})
		filters := []Matcher{Filter{}.Matcher(), Filter{Kinds: []Kind{KindTool}}.Matcher()}
		var views []*View
		var want []map[ID]Record
		var began []Epoch
		for i := range steps(6000) {
			id := fmt.Sprintf("t%02d", rng.IntN(40))
			r := learnedTool(t, id, fmt.Sprint(rng.IntN(3)), uint64(1+rng.IntN(5)))
			switch op := rng.IntN(20); {
			case op == 0 && len(views) < 5:
				views = append(views, c.NewView(filters[rng.IntN(2)]))
				want = append(want, map[ID]Record{})
			case op == 1 && len(views) > 0:
				k := rng.IntN(len(views))
				views[k].Close()
				views[k].Close()
				if views[k].Len() != 0 {
					t.Fatal("closed, and not empty")
				}
				views, want = slices.Delete(views, k, k+1), slices.Delete(want, k, k+1)
			case op == 2:
				began = append(began, c.Epoch())
			case op == 3:
				c.Announce(r)
			case op == 4 && len(began) > 0:
				before, _, had := c.Lookup(ID(id))
				switch o := c.Learn(r, began[rng.IntN(len(began))]); {
				case o == Added && had, o == Replaced && (!had || r.Revision() <= before.Revision()):
					t.Fatalf("outcome %d, over %v", o, before.Revision())
				}
			case op < 12 && len(views) > 0:
				k := rng.IntN(len(views))
				held, ok := want[k][ID(id)]
				var now, was Record
				var o Outcome
				if page := rng.IntN(2) == 0 && !views[k].whole; page {
					was, o = views[k].Page(r)
					if _, gone := views[k].gone[ID(id)]; o == Stale && !ok && !gone {
						t.Fatal("a page is ignored for no reason")
					}
					now, _ = views[k].Get(ID(id))
				} else {
					now, was, o = views[k].Add(refOf(t, r))
					if !ok && o != Added {
						t.Fatalf("an UPDATE inserts at any revision: %d", o)
					}
				}
				switch {
				case was != held:
					t.Fatal("was")
				case o == Added && ok, o == Replaced && r.Revision() <= held.Revision(), o == Conflict && (r.Revision() != held.Revision() || r == held), o == Same && r != held:
					t.Fatalf("outcome %d of revision %d over %d", o, r.Revision(), held.Revision())
				}
				if o == Added || o == Replaced {
					held = r
					want[k][ID(id)] = r
				}
				if now != held {
					t.Fatalf("now %q, want %q", now.s, held.s)
				}
			case len(views) > 0:
				k := rng.IntN(len(views))
				was, ok := views[k].Withdraw([]byte(id))
				if was != want[k][ID(id)] || ok == was.IsZero() {
					t.Fatal("withdrew another")
				}
				delete(want[k], ID(id))
				_, _, known := c.Lookup(ID(id))
				others := slices.ContainsFunc(want, func(m map[ID]Record) bool { return !m[ID(id)].IsZero() })
				if known && (views[k].all || !others) {
					t.Fatal("withdrawn, and still known")
				}
			}
			if len(views) > 0 && rng.IntN(100) == 0 {
				views[rng.IntN(len(views))].Whole()
			}
			if i%50 == 0 {
				checkCache(t, c, views)
				for k, v := range views {
					if !slices.Equal(v.Records(), oracle(want[k]).sorted()) || v.Len() != len(want[k]) {
						t.Fatal("the view is not what a map holds")
					}
				}
			}
		}
		c.Clear()
		checkCache(t, c, views)
		if c.Len() != 0 || len(c.tombs) != 0 {
			t.Fatal("cleared, and not empty")
		}
		for _, v := range views {
			v.Close()
		}
		if checkCache(t, c, nil); c.alive != 0 || len(c.entries) != 0 {
			t.Fatalf("%d octets alive at the end", c.alive)
		}
	}
}

// Records come and go in any order without all others moving.
func TestViewOfManyRecords(t *testing.T) {
	n := steps(20_000)
	rng := rand.New(rand.NewPCG(1, 9))
	for _, order := range []string{"ascending", "descending", "random"} {
		c := NewCache(CacheLimits{MaxRecords: n, MaxLen: 1 << 30})
		v := c.NewView(Matcher{})
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i
		}
		switch order {
		case "descending":
			slices.Reverse(ids)
		case "random":
			rng.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		want := map[ID]Record{}
		for _, i := range ids {
			r := learnedTool(t, fmt.Sprintf("%06d", i), "a", 1)
			v.Page(r)
			want[r.ID()] = r
		}
		v.Whole()
		if len(v.runs) > 2*n/(maxRun/2) {
			t.Errorf("%s: %d runs", order, len(v.runs))
		}
		checkCache(t, c, []*View{v})
		rng.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, i := range ids[:n*9/10] {
			id := ID(fmt.Sprintf("%06d", i))
			if was, ok := v.Withdraw([]byte(id)); !ok || was != want[id] {
				t.Fatal("withdrew another")
			}
			delete(want, id)
		}
		if !slices.Equal(v.Records(), oracle(want).sorted()) || v.Digest() != Digest(slices.Values(oracle(want).sorted())) {
			t.Fatalf("%s: not what a map holds", order)
		}
		checkCache(t, c, []*View{v})
	}
}

// F42: within an association a lower revision is old, whatever it says; the
// next one knows nothing of it.
//
// Covers: DISC-8-03, DISC-8-05, DISC-8-07
func TestF42CounterRestarts(t *testing.T) {
	c := NewCache(roomy)
	if c.Learn(learnedTool(t, "0a", "a", 500), c.Epoch()); c.Learn(learnedTool(t, "0a", "b", 3), c.Epoch()) != Stale {
		t.Error("r3 after r500 is taken")
	}
	if c = NewCache(roomy); c.Learn(learnedTool(t, "0a", "b", 3), c.Epoch()) != Added {
		t.Error("a new association remembers")
	}
}

// F16: what is announced stops at the limits, and goes first when there is no
// room for what was asked for.
//
// Covers: DISC-7.1-03, DISC-10-10, C56
func TestF16AnnouncedGoesFirst(t *testing.T) {
	c := NewCache(CacheLimits{MaxRecords: 50, MaxLen: 1 << 20, MaxTombstones: 10})
	for i := range 1000 {
		want := Added
		if i >= 50 {
			want = Refused
		}
		if o := c.Announce(learnedTool(t, fmt.Sprint("n", i), "a", 1)); o != want {
			t.Fatalf("announced record %d: %d", i, o)
		}
	}
	for i := range 60 {
		want := Added
		if i >= 50 {
			want = Refused
		}
		if o := c.Learn(learnedTool(t, fmt.Sprint("t", i), "a", 1), c.Epoch()); o != want {
			t.Fatalf("listed record %d: %d", i, o)
		}
	}
	if len(c.announced) > 0 || c.Len() != 50 {
		t.Errorf("%d announced of %d", len(c.announced), c.Len())
	}
	checkCache(t, c, nil)
	long := c.lim.MaxLen - c.octets
	if o := c.Learn(learnedTool(t, "t1", string(make([]byte, long)), 2), c.Epoch()); o != Refused {
		t.Errorf("a replacement beyond MaxLen: %d", o)
	}
	if r, _, _ := c.Lookup("t1"); r.Revision() != 1 {
		t.Error("what is held is gone")
	}
}

// Covers: C17
func TestForgottenTombstones(t *testing.T) {
	c := NewCache(CacheLimits{MaxRecords: 100, MaxLen: 1 << 20, MaxTombstones: 3})
	all := c.NewView(Filter{}.Matcher())
	all.Whole()
	began := c.Epoch()
	for i := range 5 {
		id := fmt.Sprint("t", i)
		all.Add(refOf(t, learnedTool(t, id, "a", 1)))
		all.Withdraw([]byte(id))
	}
	for i := range 5 { // remembered or not
		if o := c.Learn(learnedTool(t, fmt.Sprint("t", i), "a", 1), began); o != Stale {
			t.Errorf("t%d came back with an older listing: %d", i, o)
		}
	}
	if o := c.Learn(learnedTool(t, "t0", "a", 1), c.Epoch()); o != Added {
		t.Errorf("a later listing: %d", o)
	}
	began = c.Epoch()
	all.Withdraw([]byte("u1")) // never seen: nothing tells its revision
	if o := c.Learn(learnedTool(t, "u1", "a", 9), began); o != Stale {
		t.Errorf("u1 came with an older listing: %d", o)
	}
	if o := c.Announce(learnedTool(t, "u1", "a", 1)); o != Added {
		t.Errorf("an ANNOUNCE inserts at any revision: %d", o)
	}
	c.Announce(learnedTool(t, "u2", "a", 1))
	all.Withdraw([]byte("u2")) // of everything, though the view never had it
	if _, _, ok := c.Lookup("u2"); ok {
		t.Error("u2 is withdrawn, and still known")
	}
}

// Covers: C17, C36
func TestViewThatForgets(t *testing.T) {
	c := NewCache(CacheLimits{MaxRecords: 100, MaxLen: 1 << 20, MaxTombstones: 3})
	v := c.NewView(Matcher{})
	for i := range 4 {
		if v.Lossy() {
			t.Fatalf("lossy after %d withdrawals", i)
		}
		v.Withdraw([]byte(fmt.Sprint("t", i)))
		v.Withdraw([]byte(fmt.Sprint("t", i)))
	}
	if !v.Lossy() {
		t.Error("not lossy")
	}
	w := c.NewView(Matcher{})
	w.Whole()
	for i := range 10 {
		w.Withdraw([]byte(fmt.Sprint("t", i)))
	}
	if w.Lossy() || w.gone != nil {
		t.Error("nothing needs to be remembered after the snapshot")
	}
}

// A record that the cache has costs no allocation, in whichever view it comes;
// one that is new costs its octets.
func TestViewAllocatesLittle(t *testing.T) {
	if raced {
		t.Skip("allocates otherwise under race")
	}
	c := NewCache(roomy)
	var views []*View
	for range 200 {
		views = append(views, c.NewView(Matcher{}))
	}
	r := testRecord(t, 1)
	a, b := refOf(t, r.WithRevision(1)), refOf(t, r.WithRevision(2))
	for _, v := range views {
		v.Add(a)
	}
	views[0].Add(b)
	i := 0
	if got := testing.AllocsPerRun(100, func() { // replaced by what another view has
		i++
		if _, _, o := views[i].Add(b); o != Replaced {
			t.Fatal(o)
		}
	}); got > 0 {
		t.Errorf("%v allocations for a record that the cache has", got)
	}
	if got := testing.AllocsPerRun(100, func() {
		if _, _, o := views[1].Add(b); o != Same {
			t.Fatal(o)
		}
		if _, _, o := views[1].Add(a); o != Stale {
			t.Fatal(o)
		}
		c.Learn(r.WithRevision(2), 0)
	}); got > 3 { // of WithRevision
		t.Errorf("%v allocations for records that are held", got)
	}
}

// A view of one record, which the cache shares with others, stays small.
func TestViewIsSmall(t *testing.T) {
	if raced {
		t.Skip("sizes differ under race")
	}
	const n = 10_000
	c := NewCache(roomy)
	r := refOf(t, testRecord(t, 1))
	views := make([]*View, n)
	m := Matcher{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range views {
		views[i] = c.NewView(m)
		views[i].Add(r)
		views[i].Whole()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(after.TotalAlloc-before.TotalAlloc) / n
	t.Logf("%d octets a view of one shared record; Memory says %d", each, views[0].Memory())
	if each > 200 {
		t.Errorf("%d octets", each)
	}
	runtime.KeepAlive(views)
}

func BenchmarkView(b *testing.B) {
	const n = 100_000
	refs := make([]Ref, n)
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = testRecord(b, i)
		refs[i] = refOf(b, recs[i].WithRevision(2))
	}
	ascending := slices.Clone(recs)
	slices.SortFunc(ascending, func(a, b Record) int { return compareID(a.ID(), b.ID()) })
	lim := CacheLimits{MaxRecords: n, MaxLen: 1 << 30}
	b.Run("page, ascending", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v := NewCache(lim).NewView(Matcher{})
			for _, r := range ascending {
				v.Page(r)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
	b.Run("page, no order", func(b *testing.B) {
		for b.Loop() {
			v := NewCache(lim).NewView(Matcher{})
			for _, r := range recs {
				v.Page(r)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
	v := NewCache(lim).NewView(Matcher{})
	for _, r := range ascending {
		v.Page(r)
	}
	b.Run("replace", func(b *testing.B) {
		revs := [2][]Ref{refs[:64], nil}
		rev := uint64(3)
		for b.Loop() {
			for i := range revs[0] {
				v.Add(refs[i])
			}
			b.StopTimer()
			for i := range revs[0] {
				refs[i] = refOf(b, recs[i].WithRevision(rev))
			}
			rev++
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/record")
	})
}

// What a view's room for one record held goes when the view outgrows it: it is
// counted no more.
func TestViewHoldsNothingOutgrown(t *testing.T) {
	for _, ids := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b", "c"}} {
		c := NewCache(CacheLimits{MaxRecords: 10, MaxLen: 1 << 20})
		v := c.NewView(Matcher{})
		for _, id := range ids {
			v.Page(learnedTool(t, id, "n", 1))
		}
		if v.one[0] != nil {
			t.Errorf("%v: the first is held beside the run", ids)
		}
		for _, id := range ids {
			v.Withdraw([]byte(id))
		}
		if v.one[0] != nil || v.Len() != 0 || len(v.runs) != 0 {
			t.Errorf("%v: %d records, %d runs after all are gone", ids, v.Len(), len(v.runs))
		}
		v.Page(learnedTool(t, "d", "n", 1))
		if got := v.Records(); len(got) != 1 || got[0].ID() != "d" {
			t.Errorf("%v: %v", ids, got)
		}
		v.Withdraw([]byte("d"))
		if v.one[0] != nil {
			t.Errorf("%v: what was withdrawn is held", ids)
		}
	}
}
