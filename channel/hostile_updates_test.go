package channel

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// This file has the failures seen elsewhere that concern subscriptions, updates
// and what is learned.

// follows starts a subscription on a link and returns its corr.
func follows(t *testing.T, p *Peer, l *link, f record.Filter, handler func(Event)) (*Subscription, string) {
	t.Helper()
	sub, err := p.Subscribe(f, handler)
	if err != nil {
		t.Fatal(err)
	}
	return sub, l.lastCorr()
}

// at is a tool at a revision.
func at(id, name string, revision uint64) record.Record { return tool(id, name).WithRevision(revision) }

// Covers: F29, DISC-2-04, C23
func TestF29UpdateWhileAReplyIsDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		var ev recorder
		_, corr := follows(t, p, l, record.Filter{}, ev.handle)
		l.put(result, resultOf(corr, ""))
		c := start(p, Query{})
		synctest.Wait()
		list := l.lastCorr()
		l.put(update, updateOf(corr, []record.Record{at("t1", "a", 1)}))
		want(t, "the UPDATE", ev.take(), "synced", "added t1/1")
		l.put(announce, announceOf(at("t2", "b", 1)))
		if _, confirmed, ok := p.Lookup("t2"); !ok || confirmed || c.done {
			t.Errorf("the ANNOUNCE: %v, %v, %v", confirmed, ok, c.done)
		}
		l.put(result, resultOf(list, "", at("t3", "c", 1)))
		synctest.Wait()
		if !c.done || c.err != nil || len(c.list.Records) != 1 || p.Stats().Cached != 3 {
			t.Errorf("the RESULT: %v", c.err)
		}
	})
}

// Covers: F31, DISC-8-05, DISC-8-07
func TestF31OldQueueNewState(t *testing.T) {
	t.Log("the library does not connect again by itself: who does, opens a new peer; disco-probe watch is tested with its reset")
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var old, now recorder
		p, l := linked(t, Config{})
		sub, corr := follows(t, p, l, record.Filter{}, func(e Event) {
			old.handle(e)
			if e.Kind == EventSynced {
				<-release
			}
		})
		l.put(result, resultOf(corr, ""))
		for i := range 50 {
			l.put(update, updateOf(corr, []record.Record{at(fmt.Sprint("t", i), "a", 1)}))
		}
		want(t, "blocked", old.take(), "synced")
		if sub.Len() != 50 {
			t.Errorf("%d records in the view", sub.Len())
		}
		l.end(errStalled)
		if sub.Len() != 0 || sub.Err() != errStalled {
			t.Errorf("after the cut: %d records, %v", sub.Len(), sub.Err())
		}

		p, l = linked(t, Config{}) // to a peer with another set
		sub, corr = follows(t, p, l, record.Filter{}, now.handle)
		l.put(result, resultOf(corr, "", at("x1", "b", 1)))
		close(release)
		want(t, "none of the 50, but the end", old.take(), "ended")
		want(t, "the new set alone", now.take(), "snapshot x1/1", "synced")
		if sub.Len() != 1 {
			t.Errorf("%d records in the new view", sub.Len())
		}
	})
}

// Covers: F32, DISC-8-05, DGP-18.2-01, DASP-006-03
func TestF32GoneDuringAnOutage(t *testing.T) {
	t.Log("the library does not connect again by itself: record.Diff tells whoever does what is gone")
	bubble(t, func(t *testing.T) {
		a, b := at("a", "x", 1), at("b", "x", 1)
		p, l := linked(t, Config{})
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", a, b))
		before := sub.Records()
		l.end(errStalled)
		if _, ok := sub.Get("a"); ok || len(before) != 2 {
			t.Error("still in the view after the cut")
		}
		if _, _, ok := p.Lookup("a"); ok {
			t.Error("still learned after the cut")
		}
		p, l = linked(t, Config{})
		sub, corr = follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", b))
		var gone []record.ID
		for was, now := range record.Diff(before, sub.Records()) {
			if now.IsZero() {
				gone = append(gone, was.ID())
			} else {
				t.Errorf("%v became %v", was.ID(), now.ID())
			}
		}
		if len(gone) != 1 || gone[0] != "a" {
			t.Errorf("gone: %v", gone)
		}
	})
}

// Covers: F34, DISC-7.2-05, DISC-7.2-06, DISC-7.2-08
func TestF34FilteredWithdrawals(t *testing.T) {
	const gone = "0105:a3001901050141050381427431" // of t1
	for name, filter := range map[string]string{"none": "a200190104014105", "kinds": "a300190104014105028103",
		"protocols": "a300190104014105038101", "prefix": "a300190104014105046161", "all": "a5001901040141050281030381010461" + "61"} {
		bubble(t, func(t *testing.T) {
			set := newSet(t, tool("t1", "a"))
			_, l := linked(t, Config{Hub: hub(t, set)})
			l.putHex(subscribe_, filter)
			l.takeAll()
			withdraw(t, set, "t1")
			want(t, name+": it matched", l.takeAll(), gone)
			if name == "none" || name == "kinds" {
				return // nothing below is outside these
			}
			put(t, set, toolOn("t2", "b", 2)) // never matched
			withdraw(t, set, "t2")
			want(t, name+": it never did", l.takeAll())
			put(t, set, tool("t1", "a"))
			l.takeAll()
			put(t, set, toolOn("t1", "b", 2)) // stops matching
			withdraw(t, set, "t1")
			want(t, name+": it did before", l.takeAll(), gone)
		})
	}
}

// Covers: F35, DISC-7.2-02, C24
func TestF35SubscribingAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(3)...)
		_, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(subscribe_, v10)
		first := l.take()
		l.putHex(unsubscribe, v13)
		l.putHex(subscribe_, v10)
		want(t, "the whole snapshot again", l.takeAll(), first)
		l.putHex(subscribe_, "a30019010401410604616e") // prefix "n": matches nothing yet
		want(t, "an empty one", l.takeAll(), "0101:a400190101014106028003f5")
		put(t, set, tool("x", "new"))
		if got := l.takeAll(); len(got) != 2 || !strings.HasPrefix(got[1], "0105:a300190105014106") {
			t.Errorf("a match that comes later: %v", got)
		}

		// As subscriber: what was under way for the one before does not count.
		p, l := linked(t, Config{})
		sub, old := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(old, ""))
		sub.Unsubscribe()
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(update, updateOf(old, []record.Record{at("t1", "a", 1)}))
		l.put(result, resultOf(corr, "", at("t2", "a", 1)))
		if _, ok := sub.Get("t1"); ok || sub.Len() != 1 || p.Stats().Late != 1 {
			t.Errorf("%d records, Late = %d", sub.Len(), p.Stats().Late)
		}
	})
}

// Covers: F36, DISC-6.1-02
func TestF36NoFilterAndEmptyFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(2)...)
		for range 2 { // and again on a new association
			_, l := linked(t, Config{Hub: hub(t, set)})
			l.putHex(subscribe_, "a200190104014105")
			if f := l.take(); !strings.Contains(f, "0282") {
				t.Errorf("without filter: %s", f)
			}
			l.putHex(unsubscribe, v13)
			l.putHex(subscribe_, "a3001901040141050280")
			want(t, "with an empty one", l.takeAll(), "0101:a400190101014105028003f5")
			put(t, set, tool("t9", "x"))
			withdraw(t, set, "t9")
			want(t, "never an UPDATE", l.takeAll())
		}
		p, l := linked(t, Config{})
		follows(t, p, l, record.Filter{}, nil)
		if _, err := p.Subscribe(record.Filter{Kinds: []record.Kind{}}, nil); err != nil {
			t.Fatal(err)
		}
		if f := l.take(); !strings.HasSuffix(f, "0280") || !strings.HasPrefix(f, "0104:a3") {
			t.Errorf("ours: %s", f)
		}
	})
}

// Covers: F38, C31, DGP-22-05
func TestF38FarBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(100)...)
		p, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(subscribe_, "a200190104014105")
		l.takeAll()
		for i := range 2000 {
			put(t, set, tool(fmt.Sprintf("t%05d", i%100), fmt.Sprint("x", i)))
		}
		if m := p.Stats().Memory; m > 200<<10 {
			t.Errorf("%d octets held for 100 records", m)
		}
		got := l.takeAll()
		u, err := disco.ParseUpdate(unhex(got[0][5:]), nil)
		if err != nil || len(got) != 1 || len(u.Added) != 100 || len(u.Withdrawn) != 0 {
			t.Errorf("%d frames, %d records: %v", len(got), len(u.Added), err)
		}
	})
}

// Covers: F39, C15, DGP-22-02
func TestF39SyncedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		synced := func(ev *recorder) (n int) {
			for _, e := range ev.take() {
				if e == "synced" {
					n++
				}
			}
			return n
		}
		set := newSet(t)
		a, _ := pair(t, Config{}, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
		var empty, churn recorder
		if _, err := a.Subscribe(record.Filter{}, empty.handle); err != nil {
			t.Fatal(err)
		}
		if n := synced(&empty); n != 1 {
			t.Errorf("an empty set: %d", n)
		}
		for i := range 200 { // unrelated to the filter
			if i == 100 {
				if _, err := a.Subscribe(record.Filter{NamePrefix: "none", HasPrefix: true, Kinds: []record.Kind{4}}, churn.handle); err != nil {
					t.Fatal(err)
				}
			}
			put(t, set, tool(fmt.Sprint("t", i%7), fmt.Sprint("x", i)))
		}
		if n := synced(&churn); n != 1 {
			t.Errorf("under churn: %d", n)
		}

		// Everything is withdrawn while the snapshot is paged.
		set = newSet(t, many(7)...)
		p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
		q, lq := linked(t, Config{})
		var ev recorder
		sub, corr := follows(t, q, lq, record.Filter{}, ev.handle)
		l.put(subscribe_, encoded(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: disco.Corr(unhex(corr))})))
		for i := 0; ; i++ {
			typ, f := l.takeRaw()
			if f == nil {
				break
			}
			lq.put(typ, f)
			if i == 1 {
				var ids []record.ID
				for _, r := range many(7) {
					ids = append(ids, r.ID())
				}
				withdraw(t, set, ids...)
			}
		}
		if n := synced(&ev); n != 1 || sub.Len() != 0 || p.Stats().Unsent != 0 {
			t.Errorf("withdrawn meanwhile: %d, %d records", n, sub.Len())
		}
	})
}

// Covers: F40, C31, DISC-7.2-08
func TestF40Storm(t *testing.T) {
	t.Log("an importer that is polled on each change notice is left to the work that builds one")
	bubble(t, func(t *testing.T) {
		set := newSet(t)
		_, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(subscribe_, v10)
		l.takeAll()
		put(t, set, many(1000)...)
		if n := len(l.takeAll()); n != 1 {
			t.Errorf("1000 puts in one transaction: %d UPDATEs", n)
		}
		put(t, set, many(1000)...)
		want(t, "the same again", l.takeAll())
		for i := range 64 {
			put(t, set, tool("t1", fmt.Sprint("x", i)))
		}
		if n := len(l.takeAll()); n != 64 {
			t.Errorf("64 changes: %d UPDATEs", n)
		}
		n := 10_000
		if raced {
			n = 1000
		}
		for i := range n {
			put(t, set, tool("t1", fmt.Sprint("y", i)))
		}
		if got := l.takeAll(); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("%x", fmt.Sprint("y", n-1))) {
			t.Errorf("%d changes: %d UPDATEs", n, len(got))
		}
	})
	bubble(t, func(t *testing.T) { // with a minimum interval: 20 a second at the most
		set := newSet(t)
		var ev recorder
		a, _ := pair(t, Config{}, Config{Hub: hub(t, set), Limits: Limits{MinUpdateInterval: 50 * time.Millisecond}})
		if _, err := a.Subscribe(record.Filter{}, ev.handle); err != nil {
			t.Fatal(err)
		}
		ev.take()
		for i := range 1000 {
			put(t, set, tool("t1", fmt.Sprint("y", i)))
			time.Sleep(time.Millisecond) // of the bubble
		}
		later(time.Second)
		got := ev.take()
		if len(got) < 15 || len(got) > 22 || got[len(got)-1] != "replaced t1/1000" {
			t.Errorf("%d UPDATEs in a second, the last %v", len(got), got[len(got)-1])
		}
	})
}

// Covers: F42, DISC-8-03, DISC-8-05, DISC-8-07
func TestF42RevisionsPerAssociation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", at("a", "x", 500)))
		l.put(update, updateOf(corr, []record.Record{at("a", "y", 3)}))
		l.put(announce, announceOf(at("a", "y", 3)))
		if r, _ := sub.Get("a"); r.Revision() != 500 || p.Stats().StaleRevision != 2 {
			t.Errorf("revision %d, StaleRevision = %d", r.Revision(), p.Stats().StaleRevision)
		}
		l.end(errStalled)
		p, l = linked(t, Config{})
		sub, corr = follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", at("a", "y", 3)))
		if r, _ := sub.Get("a"); r.Revision() != 3 || p.Stats().StaleRevision != 0 {
			t.Errorf("on a new association: revision %d", r.Revision())
		}
	})
}

// Covers: F43, DISC-8-06
func TestF43ConnectedAndDeaf(t *testing.T) {
	t.Log("the library does not connect again by itself; disco-probe watch does, and is tested for it")
	bubble(t, func(t *testing.T) {
		set := newSet(t, at("t1", "a", 1))
		h := hub(t, set)
		release := make(chan struct{})
		var old, now recorder
		a, b := pair(t, Config{}, Config{Hub: h})
		sub, err := a.Subscribe(record.Filter{}, func(e Event) {
			old.handle(e)
			if e.Kind == EventSynced {
				<-release // not reading
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.Close() // it restarts while the watch is idle
		synctest.Wait()
		if err := sub.WaitSynced(t.Context()); err == nil || !sub.Stale() {
			t.Errorf("nobody is told: %v", err)
		}
		close(release)
		want(t, "the end is told", old.take(), "snapshot t1/1", "synced", "ended")
		a, _ = pair(t, Config{}, Config{Hub: h})
		if _, err := a.Subscribe(record.Filter{}, now.handle); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, set, tool("t1", "b"))
		want(t, "the change arrives", now.take(), "snapshot t1/1", "synced", "replaced t1/2")
	})
}

// Covers: F44, DISC-8-05, C20
func TestF44ReconnectStorm(t *testing.T) {
	t.Log("how often to dial is the dialler's: disco-probe's full jitter is tested there; this is what the peers keep, and say")
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(5)...)
		h := subscribe.NewHub(set)
		defer h.Close()
		n := 100
		for i := range n {
			cfg := Config{Hub: h}
			if i%2 == 0 {
				cfg.Disabled = FeatureSubscriptions
			}
			a, b := pair(t, Config{}, cfg)
			sub, err := a.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 4 {
			case 1: // before the answer
			default:
				synctest.Wait()
			}
			b.Close()
			a.Close()
			if i%2 == 0 && !Temporary(sub.Err()) {
				t.Errorf("a refusal that asks to come back later: %v", sub.Err())
			}
			if st := b.Stats(); st.Subscriptions+st.Snapshots+st.Unanswered+st.Unsent != 0 || st.Memory != 0 {
				t.Fatalf("left: %+v", st)
			}
		}
		if h.Len() != 0 {
			t.Errorf("%d subscriptions are left", h.Len())
		}
	})
}

// Covers: F45, C9, DISC-5-05, DISC-5-06, DGP-8-01
func TestF45OneBadRecord(t *testing.T) {
	const pairOf = "a400410a0103020104a20061740101" + "a400410b0109020104a0" // 0a is fine, 0b of kind 9
	bubble(t, func(t *testing.T) {
		var told []Announcement
		p, l := linked(t, Config{OnAnnounce: func(a Announcement) { told = append(told, a) }})
		l.putHex(announce, "a2001901030282"+pairOf)
		synctest.Wait()
		if st := p.Stats(); st.Cached != 1 || st.Skipped != 1 || len(told) != 1 || len(told[0].Skipped) != 1 || told[0].Skipped[0] != (record.Skipped{ID: "\x0b", Kind: 9}) {
			t.Errorf("ANNOUNCE: %+v, %v", st, told)
		}
		for _, tolerant := range []bool{true, false} {
			c := start(p, Query{Tolerant: tolerant})
			synctest.Wait()
			l.putHex(result, "a4001901010150"+l.lastCorr()+"0282"+pairOf+"03f5")
			synctest.Wait()
			switch {
			case tolerant && (c.err != nil || len(c.list.Records) != 1 || len(c.list.Skipped) != 1):
				t.Errorf("tolerant: %v", c.err)
			case !tolerant && (!errors.Is(c.err, ErrUnknownKind) || !strings.Contains(c.err.Error(), "0b")):
				t.Errorf("not tolerant: %v", c.err)
			}
			want(t, "it is not asked again", l.takeAll())
		}
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, ""))
		l.putHex(update, "a3001901050150"+corr+"0282"+pairOf)
		if sub.Len() != 1 || !sub.Partial() || sub.Stale() {
			t.Errorf("UPDATE: %d records, partial: %v, stale: %v", sub.Len(), sub.Partial(), sub.Stale())
		}
		want(t, "nothing is sent", l.takeAll())
	})
}

// Covers: F47, DISC-10-03, DISC-10-05, DGP-19.3-03, DGP-12-01, DGP-18.1-02
func TestF47OnePeersViewForAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := four(t)
		h := hub(t, set)
		_, all := linked(t, Config{Hub: h})
		_, tools := linked(t, Config{Hub: h, Visible: func(r record.Record) bool { return r.Kind() == record.KindTool }})
		all.putHex(query, v1)
		tools.putHex(query, v1)
		wantAll, wantTools := all.take(), tools.take()
		if wantAll == wantTools || strings.Contains(wantTools, "427031") {
			t.Fatalf("one view: %s", wantTools)
		}
		for range 1000 {
			all.putHex(query, v1)
			tools.putHex(query, v1)
			if a, b := all.take(), tools.take(); a != wantAll || b != wantTools {
				t.Fatalf("got %s, %s", a, b)
			}
			later(20 * time.Millisecond)
		}
		all.putHex(subscribe_, "a200190104014105")
		tools.putHex(subscribe_, "a200190104014105")
		all.takeAll()
		tools.takeAll()
		put(t, set, must(record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC, Methods: []string{"x"}}.Record()))
		if n := len(all.takeAll()); n != 1 {
			t.Errorf("%d UPDATEs to the peer that sees all", n)
		}
		want(t, "to the other", tools.takeAll())
		put(t, set, tool("t1", "git.diff"))
		if a, b := all.takeAll(), tools.takeAll(); len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Errorf("%v, %v", a, b)
		}
	})
}

// Covers: F48, C55, DISC-10-04, DASP-010-05
func TestF48HiddenSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shown := false
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(20)...)), Visible: func(r record.Record) bool { return shown && r.ID() == "t00007" }})
		_, empty := linked(t, Config{})
		for typ, payloads := range map[string][]string{"query": {v1, "a3001901000141010" + "46a746f6f6c2e3030303037"}, "subscribe": {"a200190104014105"}} {
			for _, payload := range payloads {
				for _, x := range []*link{l, empty} {
					if typ == "query" {
						x.putHex(query, payload)
					} else {
						x.putHex(subscribe_, payload)
					}
				}
				got := l.takeAll()
				want(t, "as an empty set", got, empty.takeAll()...)
				if len(got) != 1 || !strings.HasSuffix(got[0], "028003f5") {
					t.Errorf("%s: %v", payload, got)
				}
			}
		}
		shown = true
		p.Refresh()
		if got := l.takeAll(); len(got) != 1 || !strings.HasPrefix(got[0], "0105:a3001901050141050281a400467430303030370") {
			t.Errorf("one becomes visible: %v", got)
		}
	})
}

// Covers: F49, C38, DISC-5.4-02, DISC-5.4-03, DISC-5.4-04, DGP-8-02
func TestF49Dangling(t *testing.T) {
	bubble(t, func(t *testing.T) {
		agent := must(record.Agent{ID: "a1", AgentID: "g", Protocols: []uint64{1}, Tools: []record.ID{"\x01", "\x02"}}.Record())
		p, l := linked(t, Config{})
		_, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", at("\x01", "a", 1), agent))
		if ids := p.Dangling(agent); len(ids) != 1 || ids[0] != "\x02" {
			t.Errorf("dangling: %x", ids)
		}
		l.put(update, updateOf(corr, nil, "\x01"))
		if ids := p.Dangling(agent); len(ids) != 2 || p.Stats().Cached != 1 {
			t.Errorf("after the withdrawal: %x, %d records", ids, p.Stats().Cached)
		}
		q, l := linked(t, Config{})
		c := start(q, Query{Filter: record.Filter{Kinds: []record.Kind{record.KindAgent}}})
		synctest.Wait()
		l.put(result, resultOf(l.lastCorr(), "", agent)) // no tool is sent at all
		synctest.Wait()
		if c.err != nil || len(q.Dangling(agent)) != 2 || len(q.Cached()) != 1 {
			t.Errorf("agents alone: %v, %d records", c.err, len(q.Cached()))
		}
		set := newSet(t, tool("\x01", "a"))
		if err := set.Update(func(tx *record.Tx) error { return tx.Put(agent) }); err == nil {
			t.Error("published with a reference that dangles")
		}
		put(t, set, tool("\x02", "b"), agent)
		if err := set.Update(func(tx *record.Tx) error { return tx.Withdraw("\x02") }); err == nil {
			t.Error("withdrawn while an agent names it")
		}
	})
}
