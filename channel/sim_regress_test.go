package channel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/record"
)

// Faults that the simulation found, each as the shortest course of events.

// A record that was hidden and is shown again has the revision it had [C53]: no
// Replaced, which promises a greater one, may come of it when events are merged.
//
// Covers: C31, C53
func TestMergedEventsOfARecordShownAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "a"), tool("t2", "a"))
		hidden := false
		a, b := pair(t, Config{Limits: Limits{MaxQueuedEvents: 1}},
			Config{Hub: hub(t, set), Visible: func(r record.Record) bool { return !hidden || r.ID() != "t1" }})
		var events []Event
		gate := make(chan bool)
		sub, err := a.Subscribe(record.Filter{}, func(e Event) {
			events = append(events, e)
			if e.Kind == EventReplaced {
				<-gate
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, set, tool("t2", "b"))
		synctest.Wait() // the handler waits
		for _, hidden = range []bool{true, false} {
			b.Refresh()
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		if got := events[4:]; len(got) != 2 || got[0].Kind != EventWithdrawn || got[1].Kind != EventAdded || got[1].Record.Revision() != 1 {
			t.Errorf("told: %+v", got)
		}
		if n := sub.Len(); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}

// byHand is a pair of peers whose frames the test moves.
func byHand(t *testing.T, ca, cb Config) (a, b *Peer, l *channeltest.Link) {
	t.Helper()
	l = channeltest.NewLink(channeltest.Info(), channeltest.Info()).ByHand()
	ta, tb := l.Ends()
	var err error
	if a, err = New(ta, ca); err != nil {
		t.Fatal(err)
	}
	if b, err = New(tb, cb); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b, l
}

// carry moves one frame from a side to the other.
func carry(t *testing.T, l *channeltest.Link, from channeltest.Side) {
	t.Helper()
	synctest.Wait()
	if l.Take(from, 1) != 1 || l.Deliver(from.Other(), 1) != 1 {
		t.Fatalf("%v has no frame", from)
	}
	synctest.Wait()
}

// A page that the subscriber asked for overtakes the one that is pushed: what is
// on it has been told, so that hiding it has to be told too [C15, C53].
//
// Covers: C15, C53
func TestHiddenAfterItWasPulled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hidden := false
		a, b, l := byHand(t, Config{}, Config{Hub: hub(t, newSet(t, tool("t1", "a"), tool("t2", "a"))), Limits: Limits{MaxPageRecords: 1},
			Visible: func(r record.Record) bool { return !hidden || r.ID() != "t2" }})
		sub, err := a.Subscribe(record.Filter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		carry(t, l, channeltest.A) // SUBSCRIBE
		carry(t, l, channeltest.B) // the first page
		later(2 * time.Second)
		carry(t, l, channeltest.A) // QUERY for the second
		carry(t, l, channeltest.B) // which goes before the one that is pushed
		if n := sub.Len(); n != 2 || sub.Stale() {
			t.Fatalf("%d records, stale: %v", n, sub.Stale())
		}
		hidden = true
		b.Refresh()
		for range 5 {
			l.Take(channeltest.B, 1)
			l.Deliver(channeltest.A, 1)
			l.Take(channeltest.A, 1)
			l.Deliver(channeltest.B, 1)
			synctest.Wait()
		}
		if _, ok := sub.Get("t2"); ok {
			t.Error("what is hidden is still shown")
		}
	})
}

// What is announced when the association opens is what the peer may see when it
// is sent, as far as it fits a frame.
//
// Covers: C42, C53, C56
func TestAnnounceOnOpenLeavesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		long := strings.Repeat("l", 2000)
		set := newSet(t, tool("t1", "a"), tool("t2", "a"), tool("t3", "a"),
			must(record.Tool{ID: "t4", Name: "a", ProtocolID: 1, SchemaRef: &long}.Record()))
		hidden := false
		a, b, l := byHand(t, Config{}, Config{Hub: hub(t, set), AnnounceOnOpen: true,
			Limits:  Limits{MaxPageRecords: 1, MaxFrameLen: 2048},
			Visible: func(r record.Record) bool { return !hidden || r.ID() == "t1" || r.ID() == "t4" }})
		carry(t, l, channeltest.B)
		hidden = true
		b.Refresh()
		l.Take(channeltest.B, 10)
		l.Deliver(channeltest.A, 10)
		if got := a.Cached(); len(got) != 1 || got[0].ID() != "t1" {
			t.Errorf("announced %v", simNames(got))
		}
	})
}

// pulling is a peer whose subscription has the first of the pages p1, p2, … (each
// with a cursor of its own) and asks for the second.
func pulling(t *testing.T) (sub *Subscription, s *channeltest.Script, push func(n int), pulled string) {
	t.Helper()
	p, s := scripted(t, Config{})
	sub, err := p.Subscribe(record.Filter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	corr := corrOf(t, came(s)[0])
	push = func(n int) { s.SendHex(result, numberedPage(corr, n)) }
	push(1)
	want(t, "the first page", came(s))
	later(2 * time.Second)
	q := came(s)
	if len(q) != 1 {
		t.Fatalf("sent %v", q)
	}
	pulled = corrOf(t, q[0])
	want(t, "the second is asked for", q, "0100:a3001901000150"+pulled+"064101")
	return sub, s, push, pulled
}

func numberedPage(corr string, n int) string {
	return page(corr, fmt.Sprintf("41%02x", n), tool(fmt.Sprintf("t%02d", n), "a"))
}

// A page that was asked for and comes after later ones were pushed is no reason to
// read those again: eight of them would have ended the subscription [C44].
//
// Covers: C15, C44
func TestPulledPageThatIsOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sub, s, push, pulled := pulling(t)
		for n := 2; n <= 20; n++ {
			push(n)
		}
		s.SendHex(result, numberedPage(pulled, 2))
		want(t, "nothing is asked for", came(s))
		later(2 * time.Second)
		q := came(s)
		if len(q) != 1 {
			t.Fatalf("sent %v", q)
		}
		want(t, "what comes next", q, "0100:a3001901000150"+corrOf(t, q[0])+"064114")
		if n := sub.Len(); n != 20 || sub.Err() != nil {
			t.Errorf("%d records, %v", n, sub.Err())
		}
	})
}

// A peer over whose rate we are is asked again later: the subscription is not
// begun anew, which costs it more [C20].
//
// Covers: C15, C20
func TestThrottledPull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sub, s, _, pulled := pulling(t)
		for range 3 {
			s.SendHex(errorMsg, errorFor(pulled, 7))
			want(t, "later", came(s))
			later(2 * time.Second)
			q := came(s)
			if len(q) != 1 {
				t.Fatalf("sent %v", q)
			}
			pulled = corrOf(t, q[0])
			want(t, "the same page", q, "0100:a3001901000150"+pulled+"064101")
		}
		s.SendHex(result, page(pulled, "", tool("t02", "a")))
		want(t, "the end", came(s))
		if n := sub.Len(); n != 2 || sub.Stale() {
			t.Errorf("%d records, stale: %v", n, sub.Stale())
		}
	})
}
