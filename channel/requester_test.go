package channel

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// A call is a Query under way.
type call struct {
	list *Listing
	err  error
	done bool
}

// start runs Query in the bubble.
func start(p *Peer, q Query) *call {
	c := new(call)
	go func() {
		c.list, c.err = p.Query(context.Background(), q)
		c.done = true
	}()
	return c
}

// corrOf cuts the corr out of a frame of ours, which has 16 octets.
func corrOf(t *testing.T, f string) string {
	t.Helper()
	i := strings.Index(f, "0150")
	if i < 0 {
		t.Fatalf("no corr in %s", f)
	}
	return f[i+4 : i+4+32]
}

// page is a RESULT under a corr of 16 octets: records in hex, and a cursor in
// hex, or "" for the last page.
func page(corr, cursor string, recs ...record.Record) string {
	n := fmt.Sprintf("%02x", 0x80+len(recs))
	var b strings.Builder
	for _, r := range recs {
		b.WriteString(hex.EncodeToString([]byte(r.Octets())))
	}
	if cursor == "" {
		return "a4001901010150" + corr + "02" + n + b.String() + "03f5"
	}
	return "a5001901010150" + corr + "02" + n + b.String() + "03f404" + cursor
}

// errorFor is a DISCO_ERROR without reason under a corr of 16 octets.
func errorFor(corr string, code byte) string {
	return fmt.Sprintf("a3001901020150%s02%02x", corr, code)
}

// Covers: DISC-2-05, DISC-4.2-06, DISC-4.3-01, C23
func TestRepliesAreMatchedByCorr(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		calls := []*call{start(p, Query{}), start(p, Query{}), start(p, Query{})}
		sent := came(s)
		if len(sent) != 3 {
			t.Fatalf("sent %v", sent)
		}
		for _, i := range []int{2, 0, 1} {
			s.SendHex(result, page(corrOf(t, sent[i]), "", tool(fmt.Sprint("t", i), "x")))
		}
		want(t, "nothing in return", came(s))
		seen := map[record.ID]bool{}
		for _, c := range calls {
			if !c.done || c.err != nil || len(c.list.Records) != 1 {
				t.Fatalf("call: %+v", c)
			}
			seen[c.list.Records[0].ID()] = true
		}
		if len(seen) != 3 {
			t.Errorf("answers: %v", seen)
		}
		s.SendHex(result, page(corrOf(t, sent[0]), "")) // its corr is consumed
		s.SendHex(result, page(strings.Repeat("ab", 16), ""))
		came(s)
		if st := p.Stats(); st.Late != 1 || st.Bogus != 1 || st.Outstanding != 0 {
			t.Errorf("Late = %d, Bogus = %d, Outstanding = %d", st.Late, st.Bogus, st.Outstanding)
		}
	})
}

// Covers: DISC-6.2-05, C1, C3, C44, DASP-005-06
func TestFollowUps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{Filter: record.Filter{Kinds: []record.Kind{3}}, Tolerant: true})
		q := came(s)[0]
		corr := corrOf(t, q)
		want(t, "the query", []string{q}, "0100:a4001901000150"+corr+"02810305f5")
		s.SendHex(result, page(corr, "40", tool("t1", "a"))) // an empty cursor is one (F20)
		want(t, "the same corr, the empty cursor", came(s), "0100:a5001901000150"+corr+"02810305f50640")
		s.SendHex(result, page(corr, "41aa")) // an empty page is not the end (F26)
		want(t, "on", came(s), "0100:a5001901000150"+corr+"02810305f50641aa")
		s.SendHex(result, page(corr, "41aa", tool("t2", "b"))) // the same cursor again is no loop (F19)
		came(s)
		s.SendHex(result, page(corr, "", tool("t1", "a"), tool("t3", "c"))) // seen twice
		came(s)
		if !c.done || c.err != nil || len(c.list.Records) != 3 || c.list.Pages != 4 {
			t.Fatalf("got %+v, %v", c.list, c.err)
		}
	})
}

// Covers: C1
func TestFreshCorrAfterMalformed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		corr := corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "41aa", tool("t1", "a")))
		came(s)
		s.SendHex(errorMsg, errorFor(corr, 1))
		again := came(s)
		fresh := corrOf(t, again[0])
		if fresh == corr {
			t.Fatal("the same corr once more")
		}
		want(t, "the same follow-up", again, "0100:a3001901000150"+fresh+"0641aa")
		s.SendHex(result, page(fresh, "", tool("t2", "b")))
		came(s)
		if !c.done || c.err != nil || len(c.list.Records) != 2 {
			t.Fatalf("got %+v, %v", c.list, c.err)
		}
	})
}

// Covers: C1
func TestPushingPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		corr := corrOf(t, came(s)[0])
		s.Send(channeltest.Frame{Type: result, Payload: unhex(page(corr, "41aa", tool("t1", "a")))},
			channeltest.Frame{Type: result, Payload: unhex(page(corr, "41bb", tool("t2", "b")))},
			channeltest.Frame{Type: result, Payload: unhex(page(corr, "", tool("t3", "c")))})
		came(s)
		if !c.done || c.err != nil || len(c.list.Records) != 3 {
			t.Fatalf("got %+v, %v", c.list, c.err)
		}
		s.SendHex(result, page(corr, "41bb", tool("t2", "b"))) // the answers to our follow-ups
		s.SendHex(result, page(corr, "", tool("t3", "c")))
		came(s)
		if !p.Stats().Pusher {
			t.Fatal("not taken for a pusher")
		}
		c = start(p, Query{})
		corr = corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "41aa", tool("t1", "a")))
		want(t, "no follow-up", came(s))
		later(2 * time.Second)
		want(t, "but after a stall", came(s), "0100:a3001901000150"+corr+"0641aa")
		s.SendHex(result, page(corr, "", tool("t2", "b")))
		came(s)
		if !c.done || c.err != nil || len(c.list.Records) != 2 {
			t.Fatalf("got %+v, %v", c.list, c.err)
		}
	})
}

// Covers: DGP-22-06, DASP-005-07, C2
func TestStaleCursorStartsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		for range 3 { // the first run, and two more
			corr := corrOf(t, came(s)[0])
			s.SendHex(result, page(corr, "41aa", tool("t1", "a")))
			came(s)
			s.SendHex(errorMsg, errorFor(corr, 5))
		}
		came(s)
		var ie *IncompleteError
		if !c.done || !errors.As(c.err, &ie) || !errors.Is(c.err, ErrIncomplete) || disco.CodeOf(c.err) != disco.CodeStaleCursor {
			t.Fatalf("got %v", c.err)
		}
		if st := p.Stats(); st.Restarts != 2 || st.Cached != 0 {
			t.Errorf("Restarts = %d, Cached = %d", st.Restarts, st.Cached)
		}
	})
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		corr := corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "41aa", tool("t1", "a")))
		came(s)
		s.SendHex(errorMsg, errorFor(corr, 5))
		corr = corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "", tool("t2", "b")))
		came(s)
		if c.err != nil || len(c.list.Records) != 1 || c.list.Records[0].ID() != "t2" {
			t.Fatalf("spliced: %+v, %v", c.list, c.err)
		}
	})
}

// Covers: DISC-9-02, DISC-9-03
func TestCodeDecidesAndReasonDoesNot(t *testing.T) {
	for code, reason := range map[byte]string{4: "ok", 99: "StaleCursor", 7: ""} {
		bubble(t, func(t *testing.T) {
			p, s := scripted(t, Config{})
			c := start(p, Query{})
			corr := corrOf(t, came(s)[0])
			head := fmt.Sprintf("%02x", code)
			if code > 23 {
				head = "18" + head
			}
			s.SendHex(errorMsg, fmt.Sprintf("a4001901020150%s02%s03%02x%x", corr, head, 0x60+len(reason), reason))
			want(t, "nothing sent", came(s))
			var pe *disco.PeerError
			if !errors.As(c.err, &pe) || pe.Code != disco.Code(code) || pe.Reason != reason {
				t.Errorf("code %d: got %v", code, c.err)
			}
			if Temporary(c.err) != (code == 7) {
				t.Errorf("Temporary(%v) = %v", c.err, Temporary(c.err))
			}
		})
	}
}

// A code is 64 bits wide, and an index into nothing until it is known.
//
// Covers: DISC-9-03
func TestEveryCodeIsCounted(t *testing.T) {
	for code, at := range map[string]int{"00": 0, "07": 7, "08": 0, "1b7fffffffffffffff": 0, "1b8000000000000000": 0, "1bffffffffffffffff": 0} {
		bubble(t, func(t *testing.T) {
			p, s := scripted(t, Config{})
			s.SendHex(errorMsg, "a300190102014101"+"02"+code)
			want(t, "silence", came(s))
			if n := p.Stats().ErrorsIn[at]; n != 1 {
				t.Errorf("code %s: ErrorsIn[%d] = %d", code, at, n)
			}
		})
	}
}

// Covers: DISC-5-05, DISC-5-06, C9
func TestUnknownKinds(t *testing.T) {
	const x = "a4004278310109020104a0" // x1 of kind 9
	res := func(corr string) string {
		return "a4001901010150" + corr + "0282" + x + hex.EncodeToString([]byte(tool("t1", "a").Octets())) + "03f5"
	}
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		s.SendHex(result, res(corrOf(t, came(s)[0])))
		want(t, "no frame", came(s))
		if !errors.Is(c.err, ErrUnknownKind) {
			t.Errorf("not tolerant: %v", c.err)
		}
		c = start(p, Query{Tolerant: true})
		s.SendHex(result, res(corrOf(t, came(s)[0])))
		came(s)
		if c.err != nil || len(c.list.Records) != 1 || len(c.list.Skipped) != 1 || c.list.Skipped[0] != (record.Skipped{ID: "x1", Kind: 9}) {
			t.Errorf("tolerant: %+v, %v", c.list, c.err)
		}
	})
}

// Covers: DISC-4.1-06, DISC-4.1-07, DISC-4.2-02, DISC-6.2-03, DISC-10-10, C44
func TestBadReplies(t *testing.T) {
	for name, payload := range map[string]string{
		"N23 no complete":  "a3001901010150%s0280",
		"N20 no cursor":    "a4001901010150%s028003f4",
		"kind mismatch":    "a4001901020150%s028003f5",
		"records null":     "a4001901010150%s02f603f5",
		"record null":      "a4001901010150%s0281f603f5",
		"protocol_id 256":  "a4001901010150%s0281a4004270310101020104a200190100010103f5",
		"agent without":    "a4001901010150%s0281a4004261310104020104a200426167018003f5",
		"negative key":     "a4001901010150%s0281a5004270310101020104a200010101200903f5",
		"trailing octet":   "a4001901010150%s028003f500",
		"non-shortest key": "a4001901010150%s02801803f5",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, s := scripted(t, Config{})
				c := start(p, Query{})
				s.SendHex(result, fmt.Sprintf(payload, corrOf(t, came(s)[0])))
				want(t, "no frame", came(s))
				var pe *disco.PayloadError
				if !c.done || !errors.As(c.err, &pe) {
					t.Fatalf("got %v", c.err)
				}
				if st := p.Stats(); st.Cached != 0 || st.Outstanding != 0 {
					t.Errorf("Cached = %d, Outstanding = %d", st.Cached, st.Outstanding)
				}
			})
		})
	}
}

// Covers: C44, DISC-10-10, DASP-005-06
func TestEnumerationBounds(t *testing.T) {
	lim := Limits{MaxPages: 20, MaxListRecords: 10, MaxListLen: 4000, MaxBarren: 3}
	for name, next := range map[string]func(i int) []record.Record{
		"MaxBarren":      func(int) []record.Record { return []record.Record{tool("t", "x")} },
		"MaxListRecords": func(i int) []record.Record { return []record.Record{tool(fmt.Sprint("t", 1000+i), "x")} },
		"MaxListLen": func(i int) []record.Record {
			return []record.Record{tool(fmt.Sprint("t", 1000+i), strings.Repeat("x", 900))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, s := scripted(t, Config{Limits: lim})
				c := start(p, Query{})
				for i := 0; i < 30 && !c.done; i++ {
					sent := came(s)
					if len(sent) == 0 {
						break
					}
					s.SendHex(result, page(corrOf(t, sent[0]), "41aa", next(i)...))
					synctest.Wait()
				}
				if !errors.Is(c.err, ErrLimit) || !strings.Contains(fmt.Sprint(c.err), name) {
					t.Fatalf("got %v", c.err)
				}
				if st := p.Stats(); st.Outstanding != 0 || st.Memory > 10_000 {
					t.Errorf("Outstanding = %d, Memory = %d", st.Outstanding, st.Memory)
				}
			})
		})
	}
}

// Covers: C49, DASP-013-02, C23
func TestTimeoutAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		c := start(p, Query{})
		corr := corrOf(t, came(s)[0])
		later(10 * time.Second)
		if !errors.Is(c.err, ErrTimeout) {
			t.Fatalf("got %v", c.err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var err error
		go func() { _, err = p.Query(ctx, Query{}) }()
		again := corrOf(t, came(s)[0])
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		s.SendHex(result, page(corr, ""))
		s.SendHex(result, page(again, ""))
		want(t, "nothing for late ones", came(s))
		if st := p.Stats(); st.Late != 2 || st.Outstanding != 0 || st.Pusher {
			t.Errorf("%+v", st)
		}
	})
}

// Nobody asks where no answer could come, or would not be looked at.
//
// Covers: DISC-2-01, CORE-5-01, C8, C13, ACP-01
func TestRequestsNeedBothEnds(t *testing.T) {
	for name, f := range map[string]func(*Config, *frame.Info){
		"ours":     func(_ *Config, i *frame.Info) { i.Advertised = false },
		"theirs":   func(_ *Config, i *frame.Info) { i.PeerAdvertised = false },
		"disabled": func(c *Config, _ *frame.Info) { c.Disabled = FeatureDiscovery },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var cfg Config
				f(&cfg, new(frame.Info))
				p, s := scripted(t, cfg, func(i *frame.Info) { f(new(Config), i) })
				_, err := p.Query(context.Background(), Query{})
				_, err2 := p.Subscribe(record.Filter{}, nil)
				_, err3 := p.Announce(context.Background(), []record.Record{tool("t", "x")})
				if err != ErrNotAdvertised || err2 != ErrNotAdvertised || err3 != ErrNotAdvertised {
					t.Errorf("got %v, %v, %v", err, err2, err3)
				}
				want(t, "zero frames", came(s))
			})
		})
	}
}

// Covers: DISC-4.2-04, DISC-4.3-02
func TestCorrsAreNeverRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, _ := scripted(t, Config{})
		seen := make(map[disco.Corr]bool)
		for range 1_000_000 {
			p.mu.Lock()
			k := p.own.begin(new(listing))
			c := p.own.corr(k)
			p.own.end(k)
			p.mu.Unlock()
			if seen[c] {
				t.Fatalf("%s twice", c)
			}
			seen[c] = true
		}
	})
}

// recorder keeps the events of a subscription.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) handle(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take returns "kind id/revision" of each event since the last call.
func (r *recorder) take() (out []string) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		s := e.Kind.String()
		if e.ID != "" {
			s += " " + string(e.ID)
		}
		if !e.Record.IsZero() {
			s += fmt.Sprint("/", e.Record.Revision())
		}
		out = append(out, s)
	}
	r.events = nil
	return out
}

// Covers: DISC-7.2-09, DISC-8-02, DISC-8-03, DISC-7.2-08, C9, C15, C17, C18, C19, C40
func TestSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		var ev recorder
		sub, err := p.Subscribe(record.Filter{Kinds: []record.Kind{3}}, ev.handle)
		if err != nil {
			t.Fatal(err)
		}
		sent := came(s)
		corr := corrOf(t, sent[0])
		want(t, "SUBSCRIBE", sent, "0104:a3001901040150"+corr+"028103")
		upd := func(added []record.Record, withdrawn ...string) {
			b := "a%d001901050150" + corr
			n := 2
			if len(added) > 0 {
				n++
				b += fmt.Sprintf("02%02x", 0x80+len(added))
				for _, r := range added {
					b += hex.EncodeToString([]byte(r.Octets()))
				}
			}
			if len(withdrawn) > 0 {
				n++
				b += fmt.Sprintf("03%02x", 0x80+len(withdrawn))
				for _, id := range withdrawn {
					b += fmt.Sprintf("%02x%x", 0x40+len(id), id)
				}
			}
			s.SendHex(update, fmt.Sprintf(b, n))
		}
		rev := func(r record.Record, n uint64) record.Record { return r.WithRevision(n) }
		upd([]record.Record{tool("t0", "early")})
		want(t, "before the first RESULT", ev.take())
		s.SendHex(result, page(corr, "41aa", rev(tool("t1", "a"), 1)))
		want(t, "a page", ev.take(), "snapshot t1/1")
		s.SendHex(result, page(corr, "", rev(tool("t2", "b"), 5)))
		want(t, "the last", ev.take(), "snapshot t2/5", "synced")
		upd([]record.Record{rev(tool("t1", "a2"), 2)})
		want(t, "greater", ev.take(), "replaced t1/2")
		upd([]record.Record{rev(tool("t1", "old"), 1), rev(tool("t1", "other"), 2)})
		want(t, "not greater", ev.take())
		upd([]record.Record{rev(tool("t3", "c"), 1)}, "t2", "t9")
		want(t, "in and out", ev.take(), "added t3/1", "withdrawn t2")
		upd([]record.Record{rev(tool("t2", "b"), 1)})
		want(t, "back at any revision", ev.take(), "added t2/1")
		upd([]record.Record{rev(tool("t4", "d"), 1)}, "t4")
		if _, ok := sub.Get("t4"); ok {
			t.Error("added and withdrawn in one frame, and still there")
		}
		ev.take()
		upd([]record.Record{must(record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: 1}.Record())})
		want(t, "outside the filter", ev.take())
		s.SendHex(update, "a2001901050150"+corr)
		want(t, "nothing in it", ev.take())
		want(t, "nothing was sent", came(s))
		if ids := fmt.Sprint(sub.Len(), sub.Stale()); ids != "3 false" {
			t.Errorf("view: %s", ids)
		}
		st := p.Stats()
		if st.EarlyUpdate != 1 || st.StaleRevision != 1 || st.RevisionConflict != 1 || st.Overbroad != 1 || st.EmptyUpdate != 1 {
			t.Errorf("%+v", st)
		}
		sub.Unsubscribe()
		sub.Unsubscribe()
		want(t, "UNSUBSCRIBE once", came(s), "0106:a2001901060150"+corr)
		want(t, "the last event", ev.take(), "ended")
		if !errors.Is(sub.Err(), ErrUnsubscribed) || sub.Len() != 0 {
			t.Errorf("Err() = %v, Len() = %d", sub.Err(), sub.Len())
		}
		upd([]record.Record{tool("t5", "e")})
		want(t, "after the end", ev.take())
	})
}

// Covers: C36, DGP-22-05
func TestResync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		var ev recorder
		sub, _ := p.Subscribe(record.Filter{}, ev.handle)
		corr := corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "", tool("t1", "a"), tool("t2", "b")))
		ev.take()
		s.SendHex(update, "a3001901050150"+corr+"02f6") // added is null
		sent := came(s)
		if len(sent) != 2 {
			t.Fatalf("sent %v", sent)
		}
		want(t, "the old one ends", sent[:1], "0106:a2001901060150"+corr)
		fresh := corrOf(t, sent[1])
		if !sub.Stale() || sub.Len() != 2 {
			t.Errorf("Stale() = %v, Len() = %d", sub.Stale(), sub.Len())
		}
		s.SendHex(result, page(fresh, "", tool("t2", "b"), tool("t3", "c")))
		want(t, "a new snapshot", ev.take(), "reset", "snapshot t2/0", "snapshot t3/0", "synced")
		if _, ok := sub.Get("t1"); ok || sub.Stale() {
			t.Error("t1 outlived the new snapshot")
		}
		s.SendHex(update, "a3001901050150"+fresh+"02f6")
		if sent := came(s); len(sent) != 1 {
			t.Fatalf("a second attempt at once: %v", sent)
		}
		later(5 * time.Second)
		if sent := came(s); len(sent) != 1 || !strings.HasPrefix(sent[0], "0104:") {
			t.Fatalf("after 5 s: %v", sent)
		}
		if n := p.Stats().Resyncs; n != 2 {
			t.Errorf("Resyncs = %d", n)
		}
		sub.Unsubscribe()
	})
}

// Covers: C37, C15, C49
func TestSubscriptionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		var ev recorder
		sub, _ := p.Subscribe(record.Filter{}, ev.handle)
		corr := corrOf(t, came(s)[0])
		s.SendHex(errorMsg, errorFor(corr, 6))
		want(t, "a refusal needs no UNSUBSCRIBE", came(s))
		if !Temporary(sub.Err()) || sub.WaitSynced(context.Background()) != sub.Err() {
			t.Errorf("Err() = %v", sub.Err())
		}
		sub, _ = p.Subscribe(record.Filter{}, ev.handle)
		corr = corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, ""))
		came(s)
		s.SendHex(errorMsg, errorFor(corr, 3))
		want(t, "an error on a live one", came(s), "0106:a2001901060150"+corr)
		if disco.CodeOf(sub.Err()) != 3 {
			t.Errorf("Err() = %v", sub.Err())
		}
		sub, _ = p.Subscribe(record.Filter{}, ev.handle)
		corr = corrOf(t, came(s)[0])
		later(10 * time.Second)
		want(t, "no answer", came(s), "0106:a2001901060150"+corr)
		if !errors.Is(sub.Err(), ErrTimeout) {
			t.Errorf("Err() = %v", sub.Err())
		}
		if st := p.Stats(); st.Own != 0 || st.Outstanding != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Covers: C15
func TestPageThatIsNotPushedIsPulled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		var ev recorder
		sub, _ := p.Subscribe(record.Filter{Kinds: []record.Kind{3}}, ev.handle)
		corr := corrOf(t, came(s)[0])
		s.SendHex(result, page(corr, "41aa", tool("t1", "a")))
		want(t, "nothing yet", came(s))
		later(2 * time.Second)
		sent := came(s)
		pull := corrOf(t, sent[0])
		want(t, "a QUERY with the cursor", sent, "0100:a4001901000150"+pull+"0281030641aa")
		s.SendHex(result, page(pull, "41bb", tool("t2", "b")))
		sent = came(s)
		pull = corrOf(t, sent[0])
		want(t, "and the next at once", sent, "0100:a4001901000150"+pull+"0281030641bb")
		s.SendHex(result, page(pull, "", tool("t3", "c")))
		want(t, "one view", ev.take(), "snapshot t1/0", "snapshot t2/0", "snapshot t3/0", "synced")
		if p.Stats().Pulls != 2 || sub.Len() != 3 {
			t.Errorf("Pulls = %d, Len = %d", p.Stats().Pulls, sub.Len())
		}
		sub.Unsubscribe()
	})
}

// Covers: DISC-2-04, DISC-4.2-05, C22
func TestBothDirectionsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, Config{Hub: hub(t, newSet(t, tool("ta", "a")))}, Config{Hub: hub(t, newSet(t, many(3000)...))})
		ca, cb := start(a, Query{}), start(b, Query{})
		synctest.Wait()
		if ca.err != nil || cb.err != nil || len(ca.list.Records) != 3000 || len(cb.list.Records) != 1 {
			t.Fatalf("%v, %v", ca.err, cb.err)
		}
		if ca.list.Pages != 3 {
			t.Errorf("%d pages", ca.list.Pages)
		}
	})
}

// Covers: DISC-7.1-01, DISC-7.1-02, DISC-7.1-03, DISC-7.1-04, DISC-4.2-07, C25, C56
func TestAnnounce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got []Announcement
		a, _ := scripted(t, Config{})
		n, err := a.Announce(context.Background(), []record.Record{tool("t1", "a")})
		if n != 1 || err != nil || a.Stats().Outstanding != 0 {
			t.Fatalf("%d, %v", n, err)
		}
		p, s := scripted(t, Config{OnAnnounce: func(a Announcement) { got = append(got, a) }})
		s.SendHex(announce, "a2001901030281a4004270310101020104a200010101")
		s.SendHex(announce, "a300190103014101"+"0281a4004270320101020104a200010101") // with a corr
		s.SendHex(announce, "a2001901030280")
		want(t, "silence", came(s))
		r, confirmed, ok := p.Lookup("p1")
		if !ok || confirmed || r.ID() != "p1" {
			t.Errorf("Lookup: %v, %v, %v", r, confirmed, ok)
		}
		if len(got) != 3 || p.Stats().AnnounceCorr != 1 || p.Stats().Cached != 2 {
			t.Errorf("%d announcements, %+v", len(got), p.Stats())
		}
		c := start(p, Query{})
		s.SendHex(result, page(corrOf(t, came(s)[0]), ""))
		came(s)
		if len(c.list.Records) != 0 {
			t.Error("a query was answered from the cache")
		}
		if _, _, ok := p.Lookup("p1"); !ok {
			t.Error("absence from a RESULT is no withdrawal (§8)")
		}
	})
}

// Covers: DISC-8-05, CORE-4.2-04
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, Config{}, Config{Hub: hub(t, four(t))})
		var ev recorder
		sub, _ := a.Subscribe(record.Filter{}, func(e Event) {
			ev.handle(e)
			if e.Kind == EventSynced {
				a.Close() // from inside a callback
				a.Close()
			}
		})
		want(t, "events", ev.take(), "snapshot a1/1", "snapshot c1/1", "snapshot p1/1", "snapshot t1/1", "synced", "ended")
		if a.Wait() != ErrClosed || b.Wait() == nil || sub.Len() != 0 {
			t.Errorf("%v, %v, %d", a.Wait(), b.Wait(), sub.Len())
		}
		if _, err := a.Query(context.Background(), Query{}); err != ErrClosed {
			t.Errorf("Query after Close: %v", err)
		}
		if st := b.Stats(); st.Subscriptions != 0 {
			t.Errorf("%d subscriptions left with the other end", st.Subscriptions)
		}
	})
}
