package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// This file has the failures seen elsewhere that concern correlation,
// concurrency, closing, abuse and text.

// Covers: F51, C21, DISC-4.2-04
func TestF51DuplicateInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "a"))
		p, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(query, v1, v1)
		l.putHex(subscribe_, "a200190104014101")
		if got := l.takeAll(); len(got) != 1 || !strings.HasPrefix(got[0], "0101:a4001901010141010281") {
			t.Errorf("one QUERY, one RESULT: %v", got)
		}
		l.putHex(subscribe_, v10)
		l.takeAll()
		l.putHex(query, "a200190100014105")
		l.putHex(subscribe_, "a200190104014105") // another filter
		want(t, "a live corr", l.takeAll())
		if st := p.Stats(); st.DuplicateCorr != 4 || st.Subscriptions != 1 || st.Unanswered != 0 {
			t.Errorf("%+v", st)
		}
		put(t, set, tool("t1", "b"))
		if n := len(l.takeAll()); n != 1 {
			t.Errorf("%d UPDATEs", n)
		}
		l.putHex(unsubscribe, v13)
		put(t, set, tool("t1", "c"))
		want(t, "one UNSUBSCRIBE ends it", l.takeAll())
		if st := p.Stats(); st.Subscriptions != 0 || st.Memory != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Covers: F52, C22, DISC-2-04
func TestF52SameCorrInBothDirections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// The peer uses the very corrs that we use.
		p, l := linked(t, Config{Hub: hub(t, newSet(t, tool("ours", "a")))})
		c := start(p, Query{})
		synctest.Wait()
		corr := l.lastCorr()
		l.putHex(query, "a2001901000150"+corr)
		if f := l.take(); !strings.HasPrefix(f, "0101:a4001901010150"+corr+"0281") || c.done {
			t.Errorf("theirs: %s", f)
		}
		l.put(result, resultOf(corr, "", tool("theirs", "b")))
		synctest.Wait()
		if c.err != nil || len(c.list.Records) != 1 || c.list.Records[0].ID() != "theirs" {
			t.Errorf("ours: %v", c.err)
		}
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.putHex(subscribe_, "a2001901040150"+corr)
		l.put(result, resultOf(corr, "", tool("theirs", "b")))
		if n := len(l.takeAll()); n != 1 || sub.Len() != 1 {
			t.Errorf("%d snapshots, %d records", n, sub.Len())
		}
		l.putHex(unsubscribe, "a2001901060150"+corr) // theirs
		l.put(update, updateOf(corr, []record.Record{tool("more", "c")}))
		if st := p.Stats(); sub.Len() != 2 || st.Own != 1 || st.Subscriptions != 0 {
			t.Errorf("%d records, %+v", sub.Len(), st)
		}
		l.putHex(errorMsg, errorFor(corr, 6)) // ends ours
		if sub.Err() == nil || p.Stats().Own != 0 {
			t.Error("ours lives on")
		}
	})
	bubble(t, func(t *testing.T) {
		sa, sb := newSet(t, tool("ta", "a")), newSet(t, tool("tb", "b"))
		a, b := pair(t, Config{Hub: hub(t, sa)}, Config{Hub: hub(t, sb)})
		a.mu.Lock()
		b.own = a.own // from here on both count alike
		a.mu.Unlock()
		ca, cb := start(a, Query{}), start(b, Query{})
		subA, _ := a.Subscribe(record.Filter{}, nil)
		subB, _ := b.Subscribe(record.Filter{}, nil)
		synctest.Wait()
		if ca.err != nil || cb.err != nil || ca.list.Records[0].ID() != "tb" || cb.list.Records[0].ID() != "ta" {
			t.Fatal(ca.err, cb.err)
		}
		subA.Unsubscribe()
		synctest.Wait()
		put(t, sa, tool("ta2", "c"))
		put(t, sb, tool("tb2", "c"))
		synctest.Wait()
		if subA.Len() != 0 || subB.Len() != 2 {
			t.Errorf("%d, %d records", subA.Len(), subB.Len())
		}
	})
}

// Covers: F53, C23, C49
func TestF53SilentPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		s.Reply(func(f channeltest.Frame) []channeltest.Frame { // under another corr
			corr := corrOf(t, f.String())
			return []channeltest.Frame{{Type: result, Payload: unhex(page(corr[2:]+corr[:2], ""))}}
		})
		n, batch := 20_000, 1000
		if raced {
			n = 2000
		}
		for range n / batch {
			var wg sync.WaitGroup
			for range batch {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					if _, err := p.Query(ctx, Query{}); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		synctest.Wait()
		p.mu.Lock()
		own, retired := p.own.n, len(p.retired.ring)
		p.mu.Unlock()
		if st := p.Stats(); own != 0 || retired != 1024 || st.Memory != 0 || st.Unsent != 0 || st.Bogus != uint64(n) {
			t.Errorf("%d in flight, %d retired, %+v", own, retired, st)
		}
	})
}

// Covers: F56, DISC-7.3-03, DASP-009-01
func TestF56PublishersAgainstSubscribers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(5)...)
		h := hub(t, set)
		a, b := pair(t, Config{Limits: Limits{MaxOwnSubscriptions: 100}}, Config{Hub: h, Limits: Limits{QueryRate: -1, MaxSubscriptions: 100, MaxUnanswered: 10_000, MaxUnsent: 100_000}})
		rounds := 400
		if raced {
			rounds = 60
		}
		var wg sync.WaitGroup
		for k := range 8 {
			wg.Go(func() {
				for i := range rounds {
					put(t, set, tool(fmt.Sprintf("t%05d", i%5), fmt.Sprint("x", k, i)))
				}
			})
			wg.Go(func() {
				for i := range rounds {
					sub, err := a.Subscribe(record.Filter{}, func(Event) {})
					if err != nil {
						t.Error(err)
						return
					}
					if i%3 == 0 {
						if err := sub.WaitSynced(t.Context()); err != nil {
							t.Error(err)
							return
						}
					}
					sub.Unsubscribe()
					sub.Unsubscribe()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if st := b.Stats(); st.Subscriptions != 0 || st.Memory != 0 || h.Len() != 0 {
			t.Errorf("%+v", st)
		}
		if st := a.Stats(); st.Own != 0 || a.holds() != 0 {
			t.Errorf("%+v", st)
		}
		p, l := linked(t, Config{})
		l.putHex(unsubscribe, v13, v13)
		want(t, "an unknown corr", l.takeAll())
		if n := p.Stats().IdleUnsubscribe; n != 2 {
			t.Errorf("IdleUnsubscribe = %d", n)
		}
	})
}

// Covers: F57, DISC-4.3-05, DISC-7.3-01, C24
func TestF57UpdatesAfterUnsubscribe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t)
		_, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(subscribe_, v10)
		l.takeAll()
		for i := range 50 {
			put(t, set, tool("t1", fmt.Sprint("x", i)))
		}
		l.take() // one of them is under way
		l.putHex(unsubscribe, v13)
		l.putHex(query, "a200190100014105")
		if got := l.takeAll(); len(got) != 1 || !strings.HasPrefix(got[0], "0101:") {
			t.Errorf("after UNSUBSCRIBE: %v", got)
		}

		// As subscriber: what was under way is dropped, and completes nothing.
		p, l := linked(t, Config{})
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "aa"))
		sub.Unsubscribe()
		c := start(p, Query{})
		synctest.Wait()
		list := l.lastCorr()
		l.put(update, updateOf(corr, []record.Record{tool("t1", "a")}))
		l.put(result, resultOf(corr, "", tool("t1", "a")))
		l.put(update, updateOf(list, []record.Record{tool("t1", "a")})) // a QUERY's corr takes none
		synctest.Wait()
		if st := p.Stats(); c.done || st.Late != 2 || st.Bogus != 1 || st.Cached != 0 {
			t.Errorf("done: %v, %+v", c.done, st)
		}
		l.put(result, resultOf(list, ""))
		synctest.Wait()
		if !c.done || c.err != nil {
			t.Error(c.err)
		}
	})
}

// Covers: F58, CORE-5-06
func TestF58BothWriteAndNobodyReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		recs := make([]record.Record, 0, 250)
		for i := range 250 {
			recs = append(recs, big(fmt.Sprintf("t%05d", i), 20_000)) // 5 MiB
		}
		if raced {
			recs = recs[:50]
		}
		w := channeltest.NewWire()
		w.AB.Room(10 << 10)
		w.BA.Room(10 << 10)
		cb := Config{Hub: hub(t, newSet(t, recs...))}
		a, b, _ := associated(t, w, nil, nil, Config{Hub: hub(t, newSet(t, recs...))}, &cb)
		ca, cb1 := start(a, Query{}), start(b, Query{})
		subA, _ := a.Subscribe(record.Filter{}, nil)
		subB, _ := b.Subscribe(record.Filter{}, nil)
		synctest.Wait()
		later(time.Minute)
		if !ca.done || !cb1.done || ca.err != nil || cb1.err != nil || len(ca.list.Records) != len(recs) || subA.Len() != len(recs) || subB.Len() != len(recs) {
			t.Errorf("%v, %v; %d, %d", ca.err, cb1.err, subA.Len(), subB.Len())
		}
	})
}

// Covers: F60, DISC-4.3-06, DISC-8-05
func TestF60AbandonedWatchers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(3)...)
		h := subscribe.NewHub(set)
		defer h.Close()
		baseline := runtime.NumGoroutine()
		n := 5000
		if raced {
			n = 500
		}
		a, b := pair(t, Config{Limits: Limits{MaxOwnSubscriptions: 10_000}}, Config{Hub: h, Limits: Limits{QueryRate: -1, MaxUnanswered: 10_000, MaxSubscriptions: 10_000, MaxUnsent: 20_000}})
		blocked := make(chan struct{})
		for range n {
			ctx, cancel := context.WithCancel(t.Context())
			sub, err := a.Subscribe(record.Filter{}, func(Event) { <-blocked }) // never read
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := sub.WaitSynced(ctx); err != nil && err != context.Canceled {
				t.Error(err)
			}
			sub.Unsubscribe()
		}
		synctest.Wait()
		if st := b.Stats(); st.Subscriptions != 0 || h.Len() != 0 {
			t.Errorf("%d subscriptions are left", st.Subscriptions)
		}
		if g := runtime.NumGoroutine() - baseline; g > 20 {
			t.Errorf("%d goroutines", g)
		}
		sub, err := a.Subscribe(record.Filter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, set, tool("t9", "x"))
		synctest.Wait()
		if sub.Len() != 4 {
			t.Errorf("a new watch has %d records", sub.Len())
		}
		close(blocked)
		a.Close()
		b.Close()
		for range n / 5 { // associations that vanish
			p, l := linked(t, Config{Hub: h})
			l.putHex(subscribe_, v10)
			l.putHex(query, v1)
			l.end(io.ErrUnexpectedEOF)
			if st := p.Stats(); st.Subscriptions+st.Unanswered+st.Unsent != 0 {
				t.Fatalf("%+v", st)
			}
		}
		synctest.Wait()
		if h.Len() != 0 || runtime.NumGoroutine() > baseline+20 {
			t.Errorf("%d subscriptions, %d goroutines are left", h.Len(), runtime.NumGoroutine()-baseline)
		}
	})
}

// Covers: F61, DISC-10-07, C20
func TestF61HealthyAndFlooding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		other, lo := linked(t, Config{})
		n := 13_500 // 45 a second for five minutes
		if raced {
			n = 1350
		}
		for i := range n {
			l.putHex(query, v1)
			l.takeRaw()
			if i%4500 == 4499 {
				later(10 * time.Second) // idle, then a burst
				for k := range 100 {
					l.putHex(query, fmt.Sprintf("a20019010001410%x", k%10))
					l.takeRaw()
				}
				later(2 * time.Second)
			}
			time.Sleep(time.Second / 45) // of the bubble
		}
		if st := p.Stats(); st.RateLimited != 0 || st.ErrorsOut != [8]uint64{} {
			t.Errorf("healthy: %d refused", st.RateLimited)
		}
		for range 5000 { // 100 times the rate, for a second
			lo.putHex(query, v1)
			lo.takeRaw()
			time.Sleep(time.Second / 5000)
		}
		if st := other.Stats(); st.RateLimited < 4800 || st.FramesOut[1] > 151 || lo.why() != nil {
			t.Errorf("flooding: %d refused, %d answered, ended: %v", st.RateLimited, st.FramesOut[1], lo.why())
		}
		l.putHex(query, v1)
		want(t, "the others are not affected", l.takeAll(), "0101:"+v4)

		// The requester backs off: between pages by itself, before the first the
		// caller is told that it may come again.
		q, lq := linked(t, Config{})
		c := start(q, Query{})
		synctest.Wait()
		lq.putHex(errorMsg, errorFor(lq.lastCorr(), 7))
		synctest.Wait()
		if !Temporary(c.err) {
			t.Errorf("refused at once: %v", c.err)
		}
		c = start(q, Query{})
		synctest.Wait()
		lq.put(result, resultOf(lq.lastCorr(), "aa", tool("t1", "a")))
		waited := time.Duration(0)
		for range 3 {
			synctest.Wait()
			lq.putHex(errorMsg, errorFor(lq.lastCorr(), 7))
			synctest.Wait()
			want(t, "not at once", lq.takeAll())
			for q.Stats().Outstanding == 0 {
				later(10 * time.Millisecond)
				waited += 10 * time.Millisecond
			}
		}
		lq.put(result, resultOf(lq.lastCorr(), "", tool("t2", "a")))
		synctest.Wait()
		if c.err != nil || len(c.list.Records) != 2 || waited < 300*time.Millisecond {
			t.Errorf("after %v: %v", waited, c.err)
		}
	})
}

// Covers: F62, DISC-10-08, DISC-10-09, C20, C42, DASP-011-03
func TestF62ManyListings(t *testing.T) {
	if raced {
		t.Skip("measures memory")
	}
	bubble(t, func(t *testing.T) {
		const peers = 50
		recs := make([]record.Record, 0, 20_000)
		for i := range cap(recs) {
			recs = append(recs, tool(fmt.Sprintf("t%06d", i), "a.name.of.some.length"))
		}
		set := newSet(t, recs...)
		h := hub(t, set)
		before := heapInUse()
		var links []*link
		var held []*Peer
		for range peers {
			p, l := linked(t, Config{Hub: h})
			for i := range 4 {
				l.putHex(query, fmt.Sprintf("a2001901000141%02x", i))
				l.putHex(subscribe_, fmt.Sprintf("a2001901040142%02x00", i))
			}
			links, held = append(links, l), append(held, p)
		}
		if n := heapInUse() - before; n > 2<<20 {
			t.Errorf("%d KiB for %d listings and as many subscriptions", n>>10, 4*peers)
		}
		octets := 0
		for range 2 {
			for _, l := range links {
				_, b := l.takeRaw()
				if len(b) > 256<<10+resultOverhead || len(b) < 10_000 {
					t.Fatalf("a page of %d octets", len(b))
				}
				octets += len(b)
			}
		}
		if n := heapInUse() - before; n > 4<<20 {
			t.Errorf("%d KiB after a page or two of %d KiB together", n>>10, octets>>10)
		}
		// A small query does not wait for the pages of the large ones.
		small := links[0]
		small.putHex(query, "a300190100014177028101")
		for i := 0; ; i++ {
			if f := small.take(); strings.HasPrefix(f, "0101:a400190101014177") {
				if i > 4 {
					t.Errorf("%d frames went first", i)
				}
				break
			}
		}
		runtime.KeepAlive(held)
	})
}

// Covers: F66, DISC-10-05, DASP-015-01, DASP-010-02
func TestF66PeersTextInLogs(t *testing.T) {
	t.Log("what is shown to people is disco-probe's, and tested there: TestDecodeHostileText")
	bubble(t, func(t *testing.T) {
		const evil = "1b5d303b78076f6be280ae" // an OSC title and a bidi override
		var log strings.Builder
		set := newSet(t, tool("t1", "secret.name"))
		p, l := linked(t, Config{Hub: hub(t, set), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		l.putHex(query, "a3001901000141010462c0ae", "a40019010001410104"+"6b"+evil+"2000")
		l.putHex(announce, "a2001901030281a400410a0103020104a2006b"+evil+"0101", "a2001901030281a400410a0103020104a2006b"+evil+"0161")
		c := start(p, Query{})
		synctest.Wait()
		l.putHex(errorMsg, "a4001901020150"+l.lastCorr()+"0204"+"036b"+evil)
		synctest.Wait()
		for _, r := range log.String() {
			if r < ' ' && r != '\n' || r >= 0x7f {
				t.Fatalf("the log has %q: %s", r, log.String())
			}
		}
		if log.Len() == 0 || strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "ok") {
			t.Errorf("log: %s", log.String())
		}
		var pe *disco.PeerError
		if !errors.As(c.err, &pe) || pe.Reason != string(unhex(evil)) {
			t.Errorf("the true text is lost: %v", c.err)
		}
		if r, _, ok := p.Lookup("\x0a"); !ok {
			t.Error("the record is refused for its text")
		} else if name, _ := r.Name(); name != string(unhex(evil)) {
			t.Errorf("name %q", name)
		}
	})
}

// Covers: F67, DISC-5-09, C26, DASP-002-03
func TestF67EqualNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nfc, nfd := "caf\u00e9", "cafe\u0301"
		set := newSet(t, tool("a", "search"), tool("b", "search"), tool("c", "Search"), tool("d", nfc), tool("e", nfd))
		a, _ := pair(t, Config{}, Config{Hub: hub(t, set)})
		for prefix, n := range map[string]int{"": 5, "search": 2, "Search": 1, "sea": 2, nfc: 1, nfd: 1, "caf": 2, "cafe": 1} {
			list, err := a.Query(t.Context(), Query{Filter: record.Filter{NamePrefix: prefix, HasPrefix: true}})
			if err != nil || len(list.Records) != n {
				t.Errorf("%q: %v", prefix, err)
			}
			later(time.Second)
		}
		if a.Stats().Cached != 5 {
			t.Errorf("%d learned", a.Stats().Cached)
		}
	})
}

// Covers: F70, C30, DASP-011-02, DGP-12-03
func TestF70LargeRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		methods := make([]string, 10_000)
		for i := range methods {
			methods[i] = fmt.Sprintf("some/method/or/other/%08d", i)
		}
		large := must(record.Protocol{ID: "p", ProtocolID: 1, CarriageClass: record.ClassJSONRPC, Methods: methods}.Record()) // 300 KiB
		small := append(many(50), tool("zz", "z"))
		set := newSet(t, small...)
		_, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(subscribe_, "a200190104014105")
		l.takeAll()
		before := set.Digest()
		err := set.Update(func(tx *record.Tx) error { return tx.Put(large) })
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(48<<10)) || set.Digest() != before {
			t.Errorf("published: %v", err)
		}
		want(t, "no subscriber sees anything", l.takeAll())

		set = record.NewSet(record.SetConfig{Carries: carries, MaxRecordLen: 4 << 20})
		put(t, set, small...)
		put(t, set, large)
		_, l = linked(t, Config{Hub: hub(t, set), PushPages: true, Limits: Limits{MaxPageLen: 64 << 10}})
		l.putHex(query, v1)
		l.putHex(subscribe_, "a200190104014105")
		alone, records := 0, 0
		for _, f := range l.takeAll() {
			r, err := disco.ParseResult(unhex(f[5:]), nil)
			if err != nil {
				t.Fatal(err)
			}
			if records += len(r.Records); len(r.Records) == 1 && r.Records[0].ID() == "p" {
				alone++
			}
		}
		if alone != 2 || records != 2*52 {
			t.Errorf("%d pages of its own, %d records", alone, records)
		}
		put(t, set, must(record.Protocol{ID: "p", ProtocolID: 1, CarriageClass: record.ClassJSONRPC, Methods: methods[1:]}.Record()))
		if got := l.takeAll(); len(got) != 1 || len(got[0]) < 2*290_000 {
			t.Errorf("replaced by a large one: %d UPDATEs", len(got))
		}
		// Beyond the frame cap it cannot be represented.
		p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageLen: 64 << 10, MaxFrameLen: 128 << 10}})
		l.putHex(query, v1)
		l.putHex(subscribe_, "a200190104014105")
		want(t, "refused", l.takeAll(), errorFrame("01", 3), errorFrame("05", 3))
		l.putHex(query, "a30019010001410105f5", "a300190100014102028103")
		got := l.takeAll()
		for i, n := range []int{51, 51} {
			r, err := disco.ParseResult(unhex(got[i][5:]), nil)
			if err != nil || len(r.Records) != n || !r.Complete {
				t.Errorf("left out: %d records, complete: %v, %v", len(r.Records), r.Complete, err)
			}
		}
		l.putHex(subscribe_, "a300190104014106028103") // tools alone
		l.takeAll()
		put(t, set, big("t00001", 200_000)) // a small one becomes too large under a live subscription
		u, err := disco.ParseUpdate(unhex(l.take()[5:]), nil)
		if err != nil || len(u.Withdrawn) != 1 || u.Withdrawn[0] != "t00001" || p.Stats().Subscriptions != 1 {
			t.Errorf("%v, %v", u.Withdrawn, err)
		}
	})
}
