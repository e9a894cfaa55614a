package record

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// policy is what a peer may see; safe for concurrent use.
type policy struct {
	mu     sync.Mutex
	hidden map[ID]bool
	panics map[ID]bool
	labels map[string]bool // hidden too
}

func (p *policy) visible(r Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panics[r.ID()] {
		panic("policy")
	}
	label, _ := r.Label()
	return !p.hidden[r.ID()] && !p.labels[label]
}

func (p *policy) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// sees is what it comes to, by the plain reading of C38.
func (p *policy) sees(all oracle) oracle {
	look := func(r Record) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		label, _ := r.Label()
		return !p.hidden[r.ID()] && !p.panics[r.ID()] && !p.labels[label]
	}
	out := oracle{}
	for id, r := range all {
		ok := look(r)
		if a, is := r.Agent(); is {
			for _, tool := range a.Tools {
				ok = ok && look(all[tool])
			}
		}
		if ok {
			out[id] = r
		}
	}
	return out
}

// follower keeps a copy of a source by its changes alone.
type follower struct {
	t    *testing.T
	have oracle
	last *Snapshot
	told int
}

func follow(t *testing.T, src Source) *follower {
	f := &follower{t: t, have: oracle{}}
	base, _ := src.Watch(func(c *Change) {
		f.told++
		f.last = c.After
		if len(c.Deltas) == 0 {
			t.Error("a change of nothing")
		}
		for i, d := range c.Deltas {
			if i > 0 && c.Deltas[i-1].ID >= d.ID {
				t.Error("deltas do not ascend")
			}
			if d.Was != f.have[d.ID] || d.Was == d.Now {
				t.Errorf("%v: had %q, told was %q, now %q", d.ID, f.have[d.ID].s, d.Was.s, d.Now.s)
			}
			if !d.Was.IsZero() && d.WasFacts != d.Was.Facts() || d.Was.IsZero() && d.WasFacts != (Facts{}) ||
				!d.Now.IsZero() && d.NowFacts != d.Now.Facts() || d.Now.IsZero() && d.NowFacts != (Facts{}) {
				t.Errorf("%v: facts", d.ID)
			}
			if f.have[d.ID] = d.Now; d.Now.IsZero() {
				delete(f.have, d.ID)
			}
		}
	})
	for r := range base.All() {
		f.have[r.ID()] = r
	}
	f.last = base
	return f
}

func (f *follower) check(src Source, want oracle) {
	f.t.Helper()
	if !maps.Equal(f.have, want) {
		f.t.Fatalf("follows %d records, want %d", len(f.have), len(want))
	}
	if !slices.Equal(slices.Collect(f.last.All()), want.sorted()) {
		f.t.Fatal("After is not what the changes led to")
	}
	checkSnapshot(f.t, rand.New(rand.NewPCG(1, 1)), src.Snapshot(), want.sorted())
}

// Covers: DISC-10-03, DASP-002-02, DASP-010-01, DGP-22-04, C38, C53, DGP-12-01, DGP-18.1-02
func TestProjectionAgainstAPlainMap(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, 100+seed, []int{15, 120, 900}[seed])
			p := &policy{hidden: map[ID]bool{}, panics: map[ID]bool{}, labels: map[string]bool{}}
			for range 20 {
				w.step(20)
			}
			p.hidden[w.ids[0]] = true
			proj := Project(w.set, p.visible)
			defer proj.Close()
			f := follow(t, proj)
			for i := range steps(120) {
				if i%3 == 0 {
					p.set(func() {
						id := w.ids[w.rng.IntN(len(w.ids))]
						p.hidden[id] = !p.hidden[id]
						id = w.ids[w.rng.IntN(len(w.ids))]
						p.panics[id] = w.rng.IntN(2) == 0
					})
					before := proj.Snapshot()
					proj.Refresh()
					for r := range before.All() {
						if _, still := w.want[r.ID()]; still && p.sees(w.want)[r.ID()].IsZero() && before.Disclosure() == proj.Snapshot().Disclosure() {
							t.Fatal("something is hidden, and Disclosure has not risen")
						}
					}
				}
				if i == 24 { // by contents, which change without a Refresh
					p.set(func() { p.labels["label 1"] = true })
					proj.Refresh()
				}
				w.step(1 + w.rng.IntN(1+w.rng.IntN(40)))
				if i%8 == 0 {
					f.check(proj, p.sees(w.want))
				}
			}
			f.check(proj, p.sees(w.want))
			for _, r := range w.want {
				if want := !p.sees(w.want)[r.ID()].IsZero(); proj.Visible(r) != want {
					t.Fatalf("Visible(%v) = %v", r.ID(), !want)
				}
			}
		})
	}
}

// F48: a hidden set is an empty set.
//
// Covers: DISC-10-04, C53, C55
func TestF48HiddenSet(t *testing.T) {
	s := testSet(t, 20)
	all := Project(s, nil)
	if all.Snapshot().Len() != 0 || all.Snapshot().Digest() != NewSet(SetConfig{}).Digest() {
		t.Error("without a hook something is visible")
	}
	show := ID("")
	p := Project(s, func(r Record) bool { return r.ID() == show })
	f := follow(t, p)
	f.check(p, oracle{})
	show = testID(3)
	p.Refresh()
	r, _ := s.Snapshot().Get(show)
	f.check(p, oracle{show: r}) // at its present revision
	if f.told != 1 {
		t.Errorf("told %d times", f.told)
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(relabel(r, "other")) })
	r, _ = s.Snapshot().Get(show)
	f.check(p, oracle{show: r})
	updateSet(t, s, func(tx *Tx) { tx.Put(relabel(testRecord(t, 5), "hidden as before")) })
	if f.told != 2 {
		t.Errorf("told %d times", f.told)
	}
	p.Close()
	p.Close()
	updateSet(t, s, func(tx *Tx) { tx.Put(relabel(r, "after Close")) })
	if f.told != 2 {
		t.Error("told after Close")
	}
}

// What hides is told apart from what is withdrawn, and counted.
//
// Covers: DASP-010-03, C53, DGP-19.3-02
func TestHides(t *testing.T) {
	s := NewSet(carryAll())
	show := true
	p := Project(s, func(r Record) bool { label, _ := r.Label(); return show && label != "secret" })
	defer p.Close()
	var last *Change
	_, stop := p.Watch(func(c *Change) { last = c })
	defer stop()
	r := simpleTool(t, "t1", "n", 1)
	for _, step := range []struct {
		name  string
		do    func()
		hides bool
	}{
		{"added", func() { updateSet(t, s, func(tx *Tx) { tx.Put(r) }) }, false},
		{"replaced", func() { updateSet(t, s, func(tx *Tx) { tx.Put(relabel(r, "public")) }) }, false},
		{"replaced by what is hidden", func() { updateSet(t, s, func(tx *Tx) { tx.Put(relabel(r, "secret")) }) }, true},
		{"shown", func() { updateSet(t, s, func(tx *Tx) { tx.Put(r) }) }, false},
		{"hidden", func() { show = false; p.Refresh() }, true},
		{"shown again", func() { show = true; p.Refresh() }, false},
		{"withdrawn", func() { updateSet(t, s, func(tx *Tx) { tx.Withdraw("t1") }) }, false},
	} {
		before := p.Snapshot().Disclosure()
		last = nil
		step.do()
		if last == nil || last.Hides != step.hides || (p.Snapshot().Disclosure() > before) != step.hides {
			t.Fatalf("%s: %+v, disclosure %d after %d", step.name, last, p.Snapshot().Disclosure(), before)
		}
	}
	before := p.Snapshot()
	if p.Refresh(); p.Snapshot().Disclosure() != before.Disclosure() {
		t.Error("a Refresh that hides nothing counts")
	}
}

// F47: two peers of one set do not see each other's views.
func TestF47PeersApart(t *testing.T) {
	s := testSet(t, 300)
	tools := Project(s, func(r Record) bool { return r.Kind() == KindTool })
	others := Project(s, func(r Record) bool { return r.Kind() != KindTool })
	for i := range 100 {
		updateSet(t, s, func(tx *Tx) { tx.Put(relabel(testRecord(t, i), fmt.Sprint(i%3))) })
		for r := range tools.Snapshot().All() {
			if r.Kind() != KindTool {
				t.Fatal("not a tool")
			}
		}
		for r := range others.Snapshot().All() {
			if k := r.Kind(); k == KindTool || k == KindAgent {
				t.Fatal(k) // agents name tools, which are hidden here
			}
		}
	}
	if tools.Snapshot().Len()+others.Snapshot().Len() >= s.Len() || others.Snapshot().Len() == 0 {
		t.Errorf("%d + %d of %d", tools.Snapshot().Len(), others.Snapshot().Len(), s.Len())
	}
}

// A projection that hides little shares nearly all memory with its source.
func TestProjectionSharesChunks(t *testing.T) {
	s := testSet(t, 5000)
	all := Project(s, func(Record) bool { return true })
	some := Project(s, func(r Record) bool { return r.ID() != testID(1234) })
	for i := range 50 {
		updateSet(t, s, func(tx *Tx) { tx.Put(relabel(testRecord(t, 7*i), "x")) })
	}
	if head, _ := same(s.Snapshot().chunks, all.Snapshot().chunks); head != len(s.Snapshot().chunks) {
		t.Error("a projection that hides nothing has chunks of its own")
	}
	if n := lost(some.Snapshot().chunks, s.Snapshot().chunks); n > maxChunkLen {
		t.Errorf("a projection that hides one record has %d octets of its own", n)
	}
}

// Refreshes and updates race; the source does not wait, and the follower ends
// where the policy says.
func TestProjectionConcurrently(t *testing.T) {
	s := testSet(t, 400)
	p := &policy{hidden: map[ID]bool{}}
	proj := Project(s, p.visible)
	f := follow(t, proj)
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := range steps(150) {
				updateSet(t, s, func(tx *Tx) { tx.Put(relabel(testRecord(t, (i*7+g)%400), fmt.Sprint(g, i))) })
			}
		})
		wg.Go(func() {
			for i := range 60 {
				p.set(func() { p.hidden[testID((i*11+g)%400)] = i%2 == 0 })
				proj.Refresh()
			}
		})
		wg.Go(func() {
			for range 100 {
				_, stop := proj.Watch(func(*Change) {})
				proj.Visible(testRecord(t, g))
				stop()
			}
		})
	}
	wg.Wait()
	proj.Refresh()
	all := oracle{}
	for r := range s.Snapshot().All() {
		all[r.ID()] = r
	}
	f.check(proj, p.sees(all))
}
