package subscribe

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// Whatever changes in whatever order, and however slowly the links take it,
// every view comes to the filtered set, octet for octet.
//
// Covers: DISC-4.2-05, DISC-7.2-01, DISC-7.2-02, DISC-7.2-03, DISC-7.2-04, DISC-7.2-05, DISC-7.2-06, DISC-7.2-07, DISC-7.2-08, DISC-6.2-02, DGP-22-02, DGP-22-05, C15, C31, C41, C42, C53
func TestViewsComeToTheFilteredSet(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newChurn(t, seed, []int{8, 40, 300}[seed%3])
			c.step(40)
			hidden := map[record.ID]bool{}
			var src record.Source = c.set
			refresh := func() {}
			if seed%2 == 1 {
				p := record.Project(c.set, func(r record.Record) bool { return !hidden[r.ID()] })
				defer p.Close()
				src, refresh = p, p.Refresh
			}
			h := NewHub(src)
			defer h.Close()
			type link struct {
				o  *Outbox
				xs []*subscriber
			}
			links := make([]link, 4)
			corr := 0
			for i := range links {
				links[i].o = NewOutbox(func() {})
			}
			subscribe := func(l *link) {
				corr++
				x := subscribeTo(t, h, l.o, fmt.Sprint(corr), randomFilter(c.rng), Options{MaxQueued: 1 + c.rng.IntN(8)})
				x.page = record.Page{MaxRecords: 1 + c.rng.IntN(20), MaxLen: 30 + c.rng.IntN(2000)}
				l.xs = append(l.xs, x)
			}
			n := 600
			if raced {
				n = 200
			}
			for i := range n {
				l := &links[c.rng.IntN(len(links))]
				switch c.rng.IntN(10) {
				case 0:
					if len(l.xs) < 6 {
						subscribe(l)
					}
				case 1:
					if len(l.xs) > 0 {
						k := c.rng.IntN(len(l.xs))
						x := l.xs[k]
						x.s.Cancel()
						if typ, more := x.frame(); more || typ == disco.TypeUpdate || typ == disco.TypeResult && x.results > 1 {
							t.Fatalf("%v after Cancel, more %v, RESULT %d", typ, more, x.results)
						}
						l.xs = slices.Delete(l.xs, k, k+1)
					}
				case 2, 3, 4:
					drain(t, l.o, c.rng.IntN(30), l.xs...)
				case 5:
					id := c.ids[c.rng.IntN(len(c.ids))]
					hidden[id] = !hidden[id]
					refresh()
				default:
					c.step(1 + c.rng.IntN(1+c.rng.IntN(60)))
				}
				if i%100 == 99 {
					for _, l := range links {
						drain(t, l.o, all, l.xs...)
						for _, x := range l.xs {
							x.check(src)
						}
						if len(l.xs) == 0 && l.o.held != 0 || l.o.held < 0 {
							t.Fatalf("%d octets held for %d subscriptions", l.o.held, len(l.xs))
						}
						for _, x := range l.xs {
							if want := subscriptionLen + len(x.s.corr); x.s.held != want {
								t.Fatalf("an idle subscription is charged %d octets, want %d", x.s.held, want)
							}
						}
					}
				}
			}
		})
	}
}

// A frame that was made after Refresh returned shows nothing that it hid, not
// of the snapshot and not of what waited.
//
// Covers: DASP-010-03, C53
func TestHiddenIsGoneAtOnce(t *testing.T) {
	for _, waiting := range []string{"snapshot", "queue", "net state", "rest of a change"} {
		t.Run(waiting, func(t *testing.T) {
			set := newSet()
			var hidden atomic.Bool
			p := record.Project(set, func(r record.Record) bool { return !hidden.Load() || r.ID()[0] != 'h' })
			h := NewHub(p)
			defer h.Close()
			o := NewOutbox(func() {})
			var recs []record.Record
			for i := range 10 {
				recs = append(recs, tool(t, record.ID(fmt.Sprint("a", i)), "a", 1), tool(t, record.ID(fmt.Sprint("h", i)), "h", 1))
			}
			if waiting == "snapshot" {
				put(t, set, recs...)
			}
			x := subscribeTo(t, h, o, "1", record.Filter{}, Options{MaxQueued: 3})
			x.page.MaxRecords = 12
			drain(t, o, 1, x) // the first page of the snapshot
			switch waiting {
			case "queue":
				put(t, set, recs[:10]...)
				put(t, set, recs[10:]...)
			case "net state":
				for _, r := range recs {
					put(t, set, r)
				}
			case "rest of a change":
				put(t, set, recs...)
				drain(t, o, 1, x)
			}
			shown := len(x.view)
			hidden.Store(true)
			p.Refresh()
			for s := o.Next(); s != nil; s = o.Next() {
				b, _, _ := s.AppendFrame(nil, x.page, func(*record.Snapshot, record.Position) disco.Cursor { return "" })
				if slices.Contains(b, 'h') {
					if u, err := disco.ParseUpdate(b, nil); err != nil || len(u.Added) > 0 {
						t.Fatalf("%x shows what is hidden", b)
					}
				}
				if r, err := disco.ParseResult(b, nil); err == nil {
					for _, r := range r.Records {
						x.view[r.ID()] = r
					}
					x.synced = r.Complete
				}
				if u, err := disco.ParseUpdate(b, nil); err == nil {
					for _, r := range u.Added {
						x.view[r.ID()] = r
					}
					for _, id := range u.Withdrawn {
						delete(x.view, id)
					}
				}
			}
			x.synced = true
			x.check(p)
			if waiting != "queue" && waiting != "net state" && shown == 0 {
				t.Error("nothing was shown before")
			}
		})
	}
}

// A snapshot of which all the rest is hidden, twice over, is not begun again.
func TestHiddenToTheEnd(t *testing.T) {
	set := newSet()
	var hidden atomic.Value
	hidden.Store("")
	p := record.Project(set, func(r record.Record) bool { return string(r.ID()) < "t5" || hidden.Load() == "" })
	h := NewHub(p)
	defer h.Close()
	for i := range 10 {
		put(t, set, tool(t, record.ID(fmt.Sprint("t", i)), "a", 1))
	}
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	x.page.MaxRecords = 5
	drain(t, o, 1, x)
	for _, s := range []string{"t5", "", "t5"} {
		hidden.Store(s)
		p.Refresh()
	}
	put(t, set, tool(t, "t1", "b", 1), tool(t, "t40", "b", 1))
	if drain(t, o, all, x); x.results != 2 {
		t.Errorf("%d pages", x.results)
	}
	x.check(p)
}

// F34: a withdrawal reaches exactly those who had the record.
//
// Covers: DISC-7.2-05, DISC-7.2-06, DISC-7.2-08
func TestF34Withdrawals(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "\x05", record.Filter{ProtocolIDs: []uint64{1}}, Options{})
	drain(t, o, all, x)
	step := func(why string, updates int) {
		t.Helper()
		before := x.updates
		if drain(t, o, all, x); x.updates-before != updates {
			t.Fatalf("%s: %d UPDATEs, want %d", why, x.updates-before, updates)
		}
		x.check(set)
	}
	put(t, set, tool(t, "t1", "a", 1))
	step("a match", 1)
	put(t, set, tool(t, "t1", "a", 1))
	step("the same again", 0)
	put(t, set, tool(t, "t1", "a", 2))
	step("it leaves the filter", 1)
	withdraw(t, set, "t1")
	step("withdrawn, and gone already", 0)
	put(t, set, tool(t, "t2", "a", 2))
	withdraw(t, set, "t2")
	step("one that never matched", 0)
	put(t, set, tool(t, "t1", "a", 1))
	step("back", 1)
	withdraw(t, set, "t1")
	step("withdrawn", 1)
}

// F35: every subscription gets its snapshot, whatever was sent before; F36: an
// empty filter is not an absent one.
//
// Covers: DISC-7.2-02, DISC-6.2-07, C15, C24
func TestF35F36Snapshots(t *testing.T) {
	set := newSet()
	put(t, set, tool(t, "t1", "a", 1), tool(t, "t2", "b", 2))
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	none := record.Filter{Kinds: []record.Kind{}}
	for range 3 {
		x := subscribeTo(t, h, o, "\x05", record.Filter{}, Options{})
		drain(t, o, all, x)
		x.check(set)
		put(t, set, tool(t, "t1", fmt.Sprint("n", x.results, h.Len()), 1))
		x.s.Cancel()
		x.s.Cancel()
		if o.Next() != nil || h.Len() != 0 {
			t.Fatal("something waits after Cancel")
		}
		y := subscribeTo(t, h, o, "\x05", none, Options{})
		put(t, set, tool(t, "t3", fmt.Sprint(h.Len()), 1))
		if n := drain(t, o, all, y); n != 1 || y.results != 1 || len(y.view) != 0 {
			t.Fatalf("%d frames, %d RESULTs of %d records", n, y.results, len(y.view))
		}
		y.s.Cancel()
	}
	late := subscribeTo(t, h, o, "\x05", record.Filter{NamePrefix: "zz", HasPrefix: true}, Options{})
	drain(t, o, all, late)
	put(t, set, tool(t, "t9", "zz9", 1))
	drain(t, o, all, late)
	if late.updates != 1 || len(late.view) != 1 {
		t.Errorf("a later match: %d UPDATEs", late.updates)
	}
}

// C24: an UNSUBSCRIBE that comes before the acknowledgement does not take it
// away, and takes all the rest.
//
// Covers: DISC-4.3-05, DISC-7.2-02, C24
func TestCancelBeforeTheFirstPage(t *testing.T) {
	set := newSet()
	put(t, set, tool(t, "t1", "a", 1), tool(t, "t2", "a", 1), tool(t, "t3", "a", 1))
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "\x05", record.Filter{}, Options{})
	x.page.MaxRecords = 2
	put(t, set, tool(t, "t1", "b", 1))
	x.s.Cancel()
	if n := drain(t, o, all, x); n != 1 || x.results != 1 || x.synced {
		t.Fatalf("%d frames, %d RESULTs, complete %v", n, x.results, x.synced)
	}
	y := subscribeTo(t, h, o, "\x05", record.Filter{}, Options{})
	y.page.MaxRecords = 2
	drain(t, o, 1, y)
	y.s.Cancel()
	if n := drain(t, o, all, y); n != 0 {
		t.Fatalf("%d frames after a cancel in the middle of the snapshot", n)
	}
	if o.held != 0 || o.all != nil || o.first != nil {
		t.Errorf("%d octets held", o.held)
	}
}

// F39: the true page comes exactly once, even if there is nothing to show, and
// everything goes meanwhile.
//
// Covers: DISC-6.2-02, DISC-6.2-07, C15
func TestF39TruePage(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	empty := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	if n := drain(t, o, all, empty); n != 1 || !empty.synced {
		t.Fatalf("%d frames for an empty set", n)
	}
	for i := range 100 {
		put(t, set, tool(t, record.ID(fmt.Sprint("t", i)), "a", 1))
	}
	x := subscribeTo(t, h, o, "2", record.Filter{}, Options{})
	x.page.MaxRecords = 10
	none := subscribeTo(t, h, o, "3", record.Filter{NamePrefix: "zz", HasPrefix: true}, Options{})
	drain(t, o, 4, x, none, empty)
	for i := range 100 {
		withdraw(t, set, record.ID(fmt.Sprint("t", i)))
	}
	drain(t, o, all, x, none, empty)
	for _, x := range []*subscriber{x, none, empty} {
		x.check(set) // synced, once: a RESULT after that is fatal
	}
	if none.results != 1 || none.updates != 0 {
		t.Errorf("%d RESULTs, %d UPDATEs for one who sees nothing", none.results, none.updates)
	}
}

// F40, C31: each change while at most 64 wait, merged beyond, the last value
// last.
//
// Covers: C31, DISC-7.2-08
func TestF40C31Merging(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "1", record.Filter{NamePrefix: "a", HasPrefix: true}, Options{})
	drain(t, o, all, x)
	update(t, set, func(tx *record.Tx) {
		for i := range 1000 {
			tx.Put(tool(t, record.ID(fmt.Sprint("t", i)), "a", 1))
		}
	})
	if drain(t, o, all, x); x.updates != 1 {
		t.Fatalf("one transaction: %d UPDATEs", x.updates)
	}
	for i := range 64 {
		put(t, set, tool(t, "t1", fmt.Sprint("a", i), 1))
	}
	x.updates = 0
	if drain(t, o, all, x); x.updates != 64 {
		t.Fatalf("64 that wait: %d UPDATEs", x.updates)
	}
	for i := range 65 {
		put(t, set, tool(t, "t1", fmt.Sprint("ab", i), 1))
		put(t, set, tool(t, "t2", fmt.Sprint("b", i), 1)) // does not concern it, but for the first
	}
	put(t, set, tool(t, "new", "a", 1))
	withdraw(t, set, "new") // came and went
	withdraw(t, set, "t3")
	put(t, set, tool(t, "t3", "a again", 1))
	x.updates = 0
	if drain(t, o, all, x); x.updates != 1 || x.revision["new"] != 0 {
		t.Fatalf("more than 64 that wait: %d UPDATEs", x.updates)
	}
	x.check(set)
	if name, _ := x.view["t1"].Name(); name != "ab64" {
		t.Errorf("the last value is %q", name)
	}
	for i := range 100 { // a net state of nothing is not sent
		put(t, set, tool(t, record.ID(fmt.Sprint("x", i)), "a", 1))
	}
	for i := range 100 {
		withdraw(t, set, record.ID(fmt.Sprint("x", i)))
	}
	if n := drain(t, o, all, x); n != 0 {
		t.Errorf("%d frames of nothing", n)
	}
	x.check(set)
}

// F40: with a minimum interval of 50 ms, at most 20 UPDATEs a second, the first
// at once and the last value last.
func TestF40MinInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet()
		h := NewHub(set)
		defer h.Close()
		wakes := 0
		o := NewOutbox(func() { wakes++ })
		x := subscribeTo(t, h, o, "1", record.Filter{}, Options{MinInterval: 50 * time.Millisecond})
		free := subscribeTo(t, h, o, "2", record.Filter{}, Options{})
		drain(t, o, all, x, free)
		if _, ok := o.Deadline(); ok {
			t.Error("a deadline with nothing to send")
		}
		start := time.Now()
		put(t, set, tool(t, "t1", "first", 1))
		if drain(t, o, all, x, free); x.updates != 1 {
			t.Fatal("the first does not go out at once")
		}
		var next *time.Timer
		for i := range 1000 {
			put(t, set, tool(t, "t1", fmt.Sprint(i), 1))
			drain(t, o, all, x, free)
			at, ok := o.Deadline()
			if !ok || at.Sub(start)%(50*time.Millisecond) != 0 || wakes == 0 {
				t.Fatalf("deadline %v, %v", at.Sub(start), ok)
			}
			wakes = 0
			if next == nil {
				next = time.AfterFunc(time.Until(at), func() {})
			}
			<-time.After(time.Millisecond)
			drain(t, o, all, x, free)
		}
		next.Stop()
		if x.updates < 19 || x.updates > 22 || free.updates != 1001 {
			t.Errorf("%d UPDATEs in a second, %d without the interval", x.updates, free.updates)
		}
		at, _ := o.Deadline()
		<-time.After(time.Until(at))
		drain(t, o, all, x, free)
		x.check(set)
	})
}

// F38: who is far behind costs the others nothing, and catches up by its live
// set, not by what happened.
func TestF38CatchingUp(t *testing.T) {
	n := 100_000
	if raced || testing.Short() {
		n = 10_000
	}
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	slow, quick := NewOutbox(func() {}), NewOutbox(func() {})
	x := subscribeTo(t, h, slow, "1", record.Filter{}, Options{})
	y := subscribeTo(t, h, quick, "1", record.Filter{}, Options{})
	drain(t, slow, all, x)
	drain(t, quick, all, y)
	var versions [100][2]record.Record
	for i := range versions {
		for k := range 2 {
			versions[i][k] = tool(t, record.ID(fmt.Sprint("t", i)), fmt.Sprint(k), 1)
		}
	}
	for i := range n {
		put(t, set, versions[i%100][i/100%2])
		if i%1000 == 0 {
			drain(t, quick, all, y)
		}
	}
	if got := slow.Memory(); got > 200<<10 {
		t.Errorf("%d octets held for a subscriber that is %d changes behind on 100 records", got, n)
	}
	if drain(t, slow, all, x); x.updates != 1 {
		t.Errorf("caught up in %d UPDATEs", x.updates)
	}
	drain(t, quick, all, y)
	x.check(set)
	y.check(set)
}

// F47: interleaved peers each get their own view.
//
// Covers: DISC-10-03, DGP-19.3-03
func TestF47Views(t *testing.T) {
	set := newSet()
	tools := record.Project(set, func(r record.Record) bool { return r.Kind() == record.KindTool })
	defer tools.Close()
	everything, restricted := NewHub(set), NewHub(tools)
	defer everything.Close()
	defer restricted.Close()
	c := newChurn(t, 47, 100)
	c.set = set
	a, b := NewOutbox(func() {}), NewOutbox(func() {})
	x := subscribeTo(t, everything, a, "same", record.Filter{}, Options{})
	y := subscribeTo(t, restricted, b, "same", record.Filter{}, Options{})
	for range 300 {
		c.step(5)
		drain(t, a, c.rng.IntN(3), x)
		drain(t, b, c.rng.IntN(3), y)
	}
	drain(t, a, all, x)
	drain(t, b, all, y)
	x.check(set)
	y.check(tools)
	for id, r := range y.view {
		if r.Kind() != record.KindTool {
			t.Errorf("%v is shown", id)
		}
	}
}

// F70: what does not fit goes out as consecutive UPDATEs, withdrawals last; a
// record that is too long to be sent at all is withdrawn.
//
// Covers: C30, C31, C42
func TestF70LargeChange(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	drain(t, o, all, x)
	c := func(name string) {
		update(t, set, func(tx *record.Tx) {
			for i := range 3000 {
				id := record.ID(fmt.Sprintf("t%04d", i))
				if i%3 == 0 && name == "b" {
					tx.Withdraw(id)
				} else {
					tx.Put(tool(t, id, name, 1))
				}
			}
		})
	}
	c("a")
	if n := drain(t, o, all, x); n != 3 {
		t.Errorf("3000 records in %d UPDATEs", n)
	}
	c("b")
	if n := drain(t, o, all, x); n != 3 { // 2000 + 1000
		t.Errorf("2000 records and 1000 ids in %d UPDATEs", n)
	}
	x.check(set)
	x.page.MaxRecordLen = 100
	put(t, set, tool(t, "t0001", string(make([]byte, 200)), 1))
	drain(t, o, all, x)
	if _, shown := x.view["t0001"]; shown {
		t.Error("a record that became too long is still shown")
	}
	put(t, set, tool(t, "t0001", "short", 1))
	drain(t, o, all, x)
	x.check(set)
}

// Subscriptions of one outbox take turns.
func TestFairness(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	var xs []*subscriber
	for i := range 5 {
		xs = append(xs, subscribeTo(t, h, o, fmt.Sprint(i), record.Filter{}, Options{}))
	}
	for i := range 10 {
		put(t, set, tool(t, "t1", fmt.Sprint(i), 1))
	}
	for range 11 {
		for _, x := range xs {
			if s := o.Next(); s != x.s {
				t.Fatalf("the turn of %v, want %v", s.Corr(), x.s.Corr())
			}
			x.frame()
		}
	}
	if o.Next() != nil {
		t.Error("more than an acknowledgement and ten UPDATEs each")
	}
}

func TestWake(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	wakes := 0
	o := NewOutbox(func() { wakes++ })
	woken := func(why string, want int) {
		t.Helper()
		if wakes != want {
			t.Fatalf("%s: woken %d times, want %d", why, wakes, want)
		}
		wakes = 0
	}
	x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	y := subscribeTo(t, h, o, "2", record.Filter{NamePrefix: "y", HasPrefix: true}, Options{})
	woken("two subscriptions", 1)
	drain(t, o, all, x, y)
	put(t, set, tool(t, "t1", "a", 1))
	put(t, set, tool(t, "t1", "b", 1))
	woken("two changes", 1)
	o.Next() // not nil: the writer goes on
	put(t, set, tool(t, "t1", "y", 1))
	woken("a change while the writer is at it", 0)
	drain(t, o, all, x, y)
	put(t, set, tool(t, "t1", "y2", 1))
	woken("after all was taken", 1)
	x.s.Cancel()
	y.s.Cancel()
	put(t, set, tool(t, "t1", "y3", 1))
	woken("after the end", 0)
}

// Covers: DISC-4.3-06, DISC-8-05
func TestClose(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	a, b := NewOutbox(func() {}), NewOutbox(func() {})
	var xs []*subscriber
	for i := range 10 {
		xs = append(xs, subscribeTo(t, h, a, fmt.Sprint(i), record.Filter{}, Options{}), subscribeTo(t, h, b, fmt.Sprint(i), record.Filter{}, Options{}))
	}
	put(t, set, tool(t, "t1", "a", 1))
	drain(t, a, 13, xs...)
	a.Close()
	a.Close()
	if a.Next() != nil || a.Memory() != 0 || h.Len() != 10 {
		t.Errorf("%d octets held, %d subscriptions in the hub", a.Memory(), h.Len())
	}
	put(t, set, tool(t, "t1", "b", 1))
	if a.Next() != nil || b.Next() == nil {
		t.Error("the wrong one is closed")
	}
	h.Close()
	h.Close()
	put(t, set, tool(t, "t1", "c", 1))
	if n := drain(t, b, all, xs...); n != 10 || h.Len() != 0 || b.Memory() != 0 { // the acknowledgements
		t.Errorf("%d frames, %d subscriptions, %d octets", n, h.Len(), b.Memory())
	}
	if h.Source() != record.Source(set) {
		t.Error("Source")
	}
}

// F56, F57: publishers race with subscribing and cancelling; after Cancel no
// UPDATE comes.
//
// Covers: DISC-4.3-05, DISC-7.3-01, DISC-7.3-03, C24
func TestF56F57CancelRaces(t *testing.T) {
	rounds := 100_000
	if raced || testing.Short() {
		rounds = 2000
	}
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	var stop atomic.Bool
	var publishers, subscribers sync.WaitGroup
	for p := range 4 {
		publishers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				put(t, set, tool(t, record.ID(fmt.Sprint("t", p, i%5)), fmt.Sprint(i), 1))
			}
		})
	}
	for range 4 {
		subscribers.Go(func() {
			o := NewOutbox(func() {})
			var b []byte
			cursor := func(*record.Snapshot, record.Position) disco.Cursor { return "c" }
			for i := range rounds / 4 {
				s := h.Subscribe(o, "\x05", record.Filter{}, Options{MaxQueued: 2})
				acknowledged := false
				for range i % 4 {
					if x := o.Next(); x != nil {
						var typ disco.Type
						if b, typ, _ = x.AppendFrame(b[:0], record.Page{MaxRecords: 3}, cursor); typ == disco.TypeUpdate && !acknowledged {
							t.Error("an UPDATE before the acknowledgement")
						}
						acknowledged = acknowledged || typ == disco.TypeResult
					}
				}
				var twice sync.WaitGroup
				twice.Go(s.Cancel)
				s.Cancel()
				twice.Wait()
				for x := o.Next(); x != nil; x = o.Next() {
					var typ disco.Type
					if b, typ, _ = x.AppendFrame(b[:0], record.Page{MaxRecords: 3}, cursor); typ == disco.TypeUpdate || typ == disco.TypeResult && acknowledged {
						t.Errorf("%v after Cancel", typ)
					}
				}
			}
			if o.Memory() != 0 {
				t.Errorf("%d octets held at the end", o.Memory())
			}
		})
	}
	subscribers.Wait()
	stop.Store(true)
	publishers.Wait()
	if h.Len() != 0 {
		t.Errorf("%d subscriptions left", h.Len())
	}
}

// Thousands of changes race with SUBSCRIBE, with writers of different speed and
// with visibility; every view ends as its source.
//
// Covers: DGP-22-02, C15
func TestChangesRaceWithSubscribe(t *testing.T) {
	n := 4000
	if raced || testing.Short() {
		n = 800
	}
	set := newSet()
	var hidden atomic.Int64
	p := record.Project(set, func(r record.Record) bool { return int64(r.ID()[0]) != hidden.Load() })
	defer p.Close()
	var wg sync.WaitGroup
	var done atomic.Bool
	for w := range 2 {
		wg.Go(func() {
			c := newChurn(t, uint64(w), 60)
			c.set = set
			for range n / 2 {
				c.step(3)
			}
			done.Store(true)
		})
	}
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			hidden.Store(int64('a' + i%26))
			p.Refresh()
		}
		hidden.Store(0)
		p.Refresh()
	})
	hubs := []*Hub{NewHub(set), NewHub(p)}
	type end struct {
		o  *Outbox
		xs []*subscriber
	}
	ends := make([]end, 4)
	for i := range ends {
		wake := make(chan struct{}, 1)
		e := &ends[i]
		e.o = NewOutbox(func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		wg.Go(func() {
			for k := range 20 {
				f := record.Filter{}
				if k%2 == 1 {
					f.ProtocolIDs = []uint64{1}
				}
				x := subscribeTo(t, hubs[i%2], e.o, fmt.Sprint(k), f, Options{MaxQueued: 4})
				x.page.MaxRecords = 7
				e.xs = append(e.xs, x)
				drain(t, e.o, 10, e.xs...)
			}
			for !done.Load() {
				select {
				case <-wake:
				default:
				}
				drain(t, e.o, all, e.xs...)
			}
		})
	}
	wg.Wait()
	for i, e := range ends {
		drain(t, e.o, all, e.xs...)
		for _, x := range e.xs {
			x.check(hubs[i%2].Source())
		}
	}
}

// What a snapshot keeps is counted as long as it is to be sent, and no longer.
func TestMemoryOfSnapshots(t *testing.T) {
	set := newSet()
	update(t, set, func(tx *record.Tx) {
		for i := range 10 {
			tx.Put(tool(t, record.ID(fmt.Sprint("t", i)), fmt.Sprint("tool.", i), 1))
		}
	})
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	page := record.Page{MaxRecords: 4}
	cursor := func(*record.Snapshot, record.Position) disco.Cursor { return "c" }
	sent := h.Subscribe(o, "sent", record.Filter{}, Options{})
	for range 3 {
		sent.AppendFrame(nil, page, cursor)
	}
	h.Subscribe(o, "half", record.Filter{}, Options{}).AppendFrame(nil, page, cursor)
	gone := h.Subscribe(o, "gone", record.Filter{}, Options{})
	idle := o.Memory()
	update(t, set, func(tx *record.Tx) { tx.Put(tool(t, "t0", "changed", 1)) })
	sent.AppendFrame(nil, page, cursor) // its UPDATE, so that no queue of it is counted
	if n := o.Memory(); n <= idle {
		t.Errorf("%d octets with two snapshots that the set has left behind, %d before", n, idle)
	}
	gone.Cancel()
	if o.paging != 2 {
		t.Errorf("paging = %d, want 2: the first page is owed", o.paging)
	}
	gone.AppendFrame(nil, page, cursor)
	if o.paging != 1 {
		t.Errorf("paging = %d, want 1", o.paging)
	}
	o.Close()
	if n := o.Memory(); n != 0 || o.paging != 0 {
		t.Errorf("after Close: %d octets, paging = %d", n, o.paging)
	}
}

// A subscription that is cancelled before its first RESULT was given is owed
// that, and counts as long as it is: who subscribes and cancels without reading
// is seen to make them pile up.
func TestUnacknowledged(t *testing.T) {
	h := NewHub(newSet())
	defer h.Close()
	o := NewOutbox(func() {})
	live := h.Subscribe(o, "live", record.Filter{}, Options{})
	for range 100 {
		h.Subscribe(o, "gone", record.Filter{}, Options{}).Cancel()
	}
	if n, m := o.Unacknowledged(), o.Memory(); n != 101 || m < 101*subscriptionLen {
		t.Errorf("%d unacknowledged, %d octets", n, m)
	}
	for range 50 {
		if s := o.Next(); s == nil {
			t.Fatal("nothing to send")
		} else if _, typ, more := s.AppendFrame(nil, record.Page{}, nil); typ != disco.TypeResult || more {
			t.Fatalf("%v, %v", typ, more)
		}
	}
	if n, m := o.Unacknowledged(), o.Memory(); n != 51 || m != 52*subscriptionLen+52*len("live") {
		t.Errorf("after 50: %d unacknowledged, %d octets, want %d", n, m, 52*(subscriptionLen+4))
	}
	live.Cancel()
	o.Close()
	if n, m := o.Unacknowledged(), o.Memory(); n != 0 || m != 0 || o.Next() != nil {
		t.Errorf("after Close: %d unacknowledged, %d octets", n, m)
	}
}

// A change that waits for many subscriptions of an association is held once, and
// charged once, until the last of them has it.
func TestSharedChangesAreChargedOnce(t *testing.T) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	page := record.Page{MaxRecords: 1024}
	var subs []*Subscription
	for i := range 64 {
		s := h.Subscribe(o, disco.Corr(fmt.Sprint(i)), record.Filter{}, Options{})
		s.AppendFrame(nil, page, nil)
		subs = append(subs, s)
	}
	idle := o.Memory()
	for k := range 3 {
		update(t, set, func(tx *record.Tx) {
			for i := range 1000 {
				tx.Put(tool(t, record.ID(fmt.Sprint("t", i)), fmt.Sprint("tool.", k), 1))
			}
		})
	}
	three := o.Memory() - idle
	if three < 3*1000*50 || three > 3*1000*1000 {
		t.Errorf("%d octets for three changes of 1000 records", three)
	}
	for i, s := range subs {
		switch {
		case i == 0: // has one change still
			s.AppendFrame(nil, page, nil)
			s.AppendFrame(nil, page, nil)
		case i%2 == 0:
			s.Cancel()
		default:
			for more := true; more; {
				_, _, more = s.AppendFrame(nil, page, nil)
			}
		}
	}
	if one := o.Memory() - idle; one < 1000*50 || one > three/2 {
		t.Errorf("%d octets for the last change, %d for three", one, three)
	}
	subs[0].AppendFrame(nil, page, nil)
	if n, want := o.Memory(), idle*33/64; n > want {
		t.Errorf("%d octets for 33 subscriptions, want %d", n, want)
	}
}
