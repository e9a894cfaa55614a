package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/record"
)

// A link that was idle owes nothing: the time without progress begins when
// something waits for it.
func TestStallIsCountedFromWhenSomethingWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		l.putHex(query, v1)
		l.takeAll()
		later(29 * time.Second)
		l.putHex(query, v1)
		l.give()
		later(29 * time.Second)
		if l.why() != nil {
			t.Fatalf("ended after 29 s: %v", l.why())
		}
		later(2 * time.Second)
		if !errors.Is(l.why(), errStalled) || p.Wait() != errStalled {
			t.Errorf("after 31 s: %v", l.why())
		}
	})
}

// Whatever phase an announcement is in when the association ends, the call
// returns with the cause.
func TestAnnounceEndsWithTheAssociation(t *testing.T) {
	for name, phase := range map[string]func(*link){
		"queued": func(*link) {}, "given": func(l *link) { l.give() }, "one written": func(l *link) { l.take() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, l := linked(t, Config{Limits: Limits{MaxPageRecords: 1}})
				var err error
				go func() { _, err = p.Announce(context.Background(), []record.Record{tool("t1", "a"), tool("t2", "b")}) }()
				synctest.Wait()
				phase(l)
				l.end(errStalled)
				synctest.Wait()
				if err != errStalled {
					t.Errorf("Announce returned %v", err)
				}
			})
		})
	}
}

// However many frames an announcement takes, they wait for the link as one, so
// that a large one does not end the association as a peer's unread replies do.
func TestLargeAnnouncementWaitsAsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxPageRecords: 2, MaxUnsent: 3}})
		frames, err := 0, errors.New("none")
		go func() { frames, err = p.Announce(context.Background(), many(9)) }()
		synctest.Wait()
		if n := p.Stats().Unsent; n != 1 {
			t.Errorf("%d wait", n)
		}
		out := l.takeAll()
		synctest.Wait()
		if len(out) != 5 || frames != 5 || err != nil || l.why() != nil {
			t.Errorf("%d frames, Announce returned %d, %v; ended: %v", len(out), frames, err, l.why())
		}
	})
}

// No payload passes MaxFrameLen, whatever a page may hold.
func TestNoPayloadPassesMaxFrameLen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const max = 2000
		set := newSet(t, many(100)...)
		p, l := linked(t, Config{Hub: hub(t, set), AnnounceOnOpen: true, PushPages: true, Limits: Limits{MaxFrameLen: max}})
		longest := strings.Repeat("cc", 64)
		l.putHex(query, "a200190100015840"+longest)
		l.putHex(subscribe_, "a20019010401583f"+longest[2:])
		seen := l.takeAll()
		put(t, set, many(200)[100:]...) // one change
		seen = append(seen, l.takeAll()...)
		var ids []record.ID
		for _, r := range many(200) {
			ids = append(ids, r.ID())
		}
		withdraw(t, set, ids...)
		seen = append(seen, l.takeAll()...)
		types := map[string]int{}
		for _, f := range seen {
			types[f[:4]]++
			if n := (len(f) - 5) / 2; n > max {
				t.Errorf("a payload of %d octets, type %s", n, f[:4])
			}
		}
		if types["0101"] < 4 || types["0103"] < 2 || types["0105"] < 3 || p.Stats().Unsent != 0 {
			t.Errorf("frames: %v", types)
		}
	})
}

// A subscription that waits to be asked for afresh is nowhere on the wire, and
// ends with the association all the same; it counts among ours.
func TestStaleSubscriptionEndsWithTheAssociation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxOwnSubscriptions: 1}})
		var ev recorder
		sub, err := p.Subscribe(record.Filter{}, ev.handle)
		if err != nil {
			t.Fatal(err)
		}
		var waited error
		go func() { waited = sub.WaitSynced(context.Background()) }()
		for range 2 {
			out := l.takeAll()
			corr := corrOf(t, out[len(out)-1])
			l.putHex(result, page(corr, "41aa", tool("t1", "a")))
			l.putHex(update, "a3001901050150"+corr+"02f6")
		}
		if _, err := p.Subscribe(record.Filter{}, nil); !errors.Is(err, ErrLimit) || p.Stats().Own != 1 {
			t.Errorf("a second subscription: %v, %d", err, p.Stats().Own)
		}
		ev.take()
		l.end(errStalled)
		want(t, "the end", ev.take(), "ended")
		if sub.Err() != errStalled || waited != errStalled || sub.Len() != 0 || p.Stats().Own != 0 {
			t.Errorf("%v, %v, %d, %+v", sub.Err(), waited, sub.Len(), p.Stats())
		}
	})
}

// What is accounted for a subscription goes with it, whatever it went through.
func TestSubscriptionsLeaveNothingHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{ResyncInterval: time.Millisecond}})
		for range 3 {
			sub, err := p.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				out := l.takeAll()
				corr := corrOf(t, out[len(out)-1])
				l.putHex(result, page(corr, "41aa", many(20)...))
				l.putHex(update, "a3001901050150"+corr+"0382423031423032") // withdrawn before they came
				l.putHex(result, page(corr, "", many(30)[20:]...))
				if sub.Len() != 30 {
					t.Fatalf("%d records", sub.Len())
				}
				l.putHex(update, "a3001901050150"+corr+"02f6") // cannot be read
				later(time.Second)
			}
			sub.Unsubscribe()
			if p.holds() != 0 {
				t.Fatalf("%d octets are held for nothing", p.holds())
			}
		}
	})
}

// More withdrawals during a snapshot than are remembered, and a later page could
// bring a withdrawn record back: the snapshot begins anew.
//
// Covers: C17, C36
func TestForgottenWithdrawalsBeginAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxTombstones: 4}})
		var ev recorder
		sub, _ := p.Subscribe(record.Filter{}, ev.handle)
		corr := l.lastCorr()
		l.put(result, resultOf(corr, "aa", tool("t0", "a")))
		l.put(update, updateOf(corr, nil, "t1", "t2", "t3", "t4"))
		want(t, "four are remembered", l.takeAll())
		l.put(update, updateOf(corr, nil, "t5"))
		l.put(result, resultOf(corr, "", tool("t5", "gone")))
		synctest.Wait()
		out := l.takeAll()
		if len(out) != 2 || out[0] != "0106:a2001901060150"+corr || sub.Len() != 1 {
			t.Fatalf("a fifth: %v, %d records", out, sub.Len())
		}
		want(t, "nothing came back", ev.take(), "snapshot t0/0", "reset")
	})
}

// A listing that the peer does not go on with is dropped in time, although the
// peer sends nothing more.
//
// Covers: C2, DISC-10-08
func TestIdleListingsExpire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(5)...)), Limits: Limits{MaxPageRecords: 2}})
		var first string
		for range 3 { // begun at 0, 20 and 40 s
			l.putHex(query, v1)
			if cur := cursorOf(t, l.take()); first == "" {
				first = cur
			}
			later(20*time.Second - 1)
		}
		l.putHex(query, "a3001901000141010650"+first) // read again just in time
		l.takeAll()
		for left := 3; left >= 0; left-- { // at 60, 81, 102 and 123 s
			if n := p.Stats().Snapshots; n != left {
				t.Errorf("%d listings are left, want %d", n, left)
			}
			later(21 * time.Second)
		}
	})
}

// Requests that were taken on and not answered are bounded, subscriptions that
// were given up before their first RESULT among them.
func TestUnreadSubscriptionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{QueryRate: -1, MaxUnanswered: 3}})
		l.putHex(query, v1)
		for range 2 {
			l.putHex(subscribe_, "a200190104014105")
			l.putHex(unsubscribe, v13)
		}
		if n := p.Stats().Unanswered; n != 3 {
			t.Errorf("%d unanswered", n)
		}
		l.putHex(subscribe_, "a200190104014106")
		l.putHex(query, "a200190100014107")
		if n := p.Stats().Overloaded; n != 2 {
			t.Errorf("Overloaded = %d", n)
		}
		ack := "0101:a400190101014105028003f5"
		want(t, "what is owed", l.takeAll(), "0101:"+v4, errorFrame("06", 6), errorFrame("07", 7), ack, ack)
		l.putHex(subscribe_, "a200190104014106")
		want(t, "room again", l.takeAll(), "0101:a400190101014106028003f5")
	})
}

// The cursor of a page belongs to the subscription that the page is of, not to
// one that took its corr over.
//
// Covers: C3, C15, C24
func TestCursorOfACorrThatWasTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := linked(t, Config{Hub: hub(t, four(t)), Limits: Limits{MaxPageRecords: 1}})
		l.putHex(subscribe_, "a200190104014105") // everything
		l.putHex(unsubscribe, v13)
		l.putHex(subscribe_, v10) // tools alone
		cur := cursorOf(t, l.take())
		l.takeAll()
		l.putHex(query, "a4001901000141010281030650"+cur)
		want(t, "with the other's filter", l.takeAll(), errorFrame("01", 5))
	})
}

// Who reads just enough not to stall, and leaves what his subscriptions owe him
// unread, loses the association at MaxPeerMemory; who reads does not.
//
// Covers: DISC-10-08
func TestUnreadUpdatesEndTheAssociation(t *testing.T) {
	for _, reads := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			set := newSet(t)
			p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPeerMemory: 800 << 10}})
			for i := range 8 {
				l.putHex(subscribe_, fmt.Sprintf("a2001901040141%02x", i))
			}
			l.takeAll()
			for i := range 50 {
				var recs []record.Record
				for k := range 4 {
					recs = append(recs, big(fmt.Sprint("t", k), 25_000+i))
				}
				put(t, set, recs...) // 200 KiB with what was
				for l.takeRaw(); reads && p.outbox.Memory() > 300<<10; l.takeRaw() {
				}
				later(time.Second)
				if i == 30 && l.why() != nil {
					t.Fatalf("ended after %d s: %v", i, l.why())
				}
			}
			if ended := l.why(); reads && ended != nil || !reads && ended != errUnread {
				t.Errorf("reads: %v, ended: %v, %d KiB unread", reads, ended, p.outbox.Memory()>>10)
			}
		})
	}
}

// What MinUpdateInterval holds back is watched, too.
func TestHeldBackUpdatesEndTheAssociation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t)
		_, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPeerMemory: 1 << 20, MinUpdateInterval: time.Hour}})
		l.putHex(subscribe_, v10)
		for i := range 90 {
			l.takeAll()
			put(t, set, big(fmt.Sprint("t", i), 40_000))
			later(time.Second)
		}
		if l.why() != errUnread {
			t.Errorf("ended: %v", l.why())
		}
	})
}

// What no peer may be sent is refused before anything is written.
//
// Covers: C19, DISC-7.1-04
func TestAnnounceRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Limits: Limits{MaxFrameLen: 1000}})
		a := tool("t1", "a")
		for name, recs := range map[string][]record.Record{
			"the zero record": {a, {}},
			"one id twice":    {a, tool("t1", "b")},
			"too long":        {a, big("t2", 1000)},
		} {
			if n, err := p.Announce(context.Background(), recs); n != 0 || err == nil {
				t.Errorf("%s: %d frames, %v", name, n, err)
			}
		}
		if n, err := p.Announce(context.Background(), nil); n != 0 || err != nil {
			t.Errorf("nothing: %d frames, %v", n, err)
		}
		want(t, "nothing is written", came(s))
	})
}

// Announcements come while an earlier one is being told.
//
// Covers: C25
func TestAnnouncementsWhileOneIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []int
		release := make(chan struct{})
		p, l := linked(t, Config{Limits: Limits{MaxQueuedEvents: 3}, OnAnnounce: func(a Announcement) {
			told = append(told, len(a.Records))
			<-release
		}})
		for i := range 6 {
			l.put(announce, announceOf(many(i+1)...))
			synctest.Wait()
		}
		if n := p.Stats().UntoldAnnouncements; n != 2 {
			t.Errorf("%d were not told of, want 2", n)
		}
		close(release)
		synctest.Wait()
		if !slices.Equal(told, []int{1, 2, 3, 4}) || p.holds() != 0 {
			t.Errorf("told of %v, %d octets held", told, p.holds())
		}
	})
}

// What was given up before it was sent is not sent, and does not count against
// MaxUnsent.
func TestRequestsGivenUpDoNotCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxUnsent: 3, StallTimeout: -1}})
		c := start(p, Query{})
		synctest.Wait()
		for range 100 {
			sub, err := p.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			sub.Unsubscribe()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.Query(ctx, Query{}); err != context.Canceled {
				t.Fatal(err)
			}
		}
		if n := p.Stats().Unsent; n > 3 || l.why() != nil {
			t.Fatalf("%d unsent, ended: %v", n, l.why())
		}
		if got := l.takeAll(); len(got) != 1 || c.done {
			t.Errorf("sent %v", got)
		}
	})
}

// A result that is there wins over a context that is done.
func TestReadyResultWins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 {
			p, l := linked(t, Config{Limits: Limits{MaxUnsent: 1}})
			l.putHex(query, v1)
			if _, err := p.Announce(ctx, many(1)); err != errUnsent {
				t.Fatalf("Announce: %v", err)
			}
		}
	})
}

// The answer to QueryPage may come before the call goes on: no further page is
// asked for.
//
// Covers: C1
func TestQueryPageAsksOnce(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T) {
			cb := Config{Hub: hub(t, newSet(t, many(6)...)), Limits: Limits{MaxPageRecords: 2}}
			a, b := pair(t, Config{}, cb)
			page, err := a.QueryPage(t.Context(), Query{})
			synctest.Wait()
			if err != nil || page.Complete || len(page.Records) != 2 || b.Stats().FramesIn[0] != 1 {
				t.Errorf("%v, %d QUERYs", err, b.Stats().FramesIn[0])
			}
		})
	}
}
