package channel

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
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

// This file has each kind of abuse as a whole, beyond the failures seen
// elsewhere.

// Covers: DISC-10-06, DISC-10-07, C20
//
// A peer that asks as fast as it can: what it reads it gets, within the rate and
// the limits; if it does not read, it loses the association and nobody else does.
func TestHostileFloods(t *testing.T) {
	for name, payload := range map[string]string{"queries": "a2001901000142%04x", "subscriptions": "a2001901040142%04x", "malformed": "a300190100014%c%04x2000"} {
		for _, reads := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				set := newSet(t, many(3)...)
				p, l := linked(t, Config{Hub: hub(t, set)})
				typ := query
				if name == "subscriptions" {
					typ = subscribe_
				}
				for i := range 5000 {
					if name == "malformed" {
						l.putHex(typ, fmt.Sprintf(payload, '2', i))
					} else {
						l.putHex(typ, fmt.Sprintf(payload, i))
					}
					if reads {
						l.takeRaw()
					}
				}
				synctest.Wait()
				st := p.Stats()
				switch {
				case reads && (l.why() != nil || st.Unanswered != 0 || st.Unsent != 0):
					t.Errorf("%s, read: ended %v, %+v", name, l.why(), st)
				case reads && name == "queries" && st.FramesOut[1] != 100, reads && name == "subscriptions" && st.Subscriptions != 64,
					reads && name == "malformed" && st.ErrorsOut[1] != 5000:
					t.Errorf("%s, read: %+v", name, st)
				case !reads && l.why() != errUnsent:
					t.Errorf("%s, unread: ended %v", name, l.why())
				}
				if st.Memory > 100_000 {
					t.Errorf("%s: %d octets held", name, st.Memory)
				}
			})
		}
	}
}

// Covers: DISC-10-06, DISC-7.3-03
//
// Subscriptions are opened and cancelled without end, in either direction.
func TestHostileChurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(50)...)
		h := hub(t, set)
		p, l := linked(t, Config{Hub: h, Limits: Limits{QueryRate: -1, MaxPageRecords: 3}})
		q, lq := linked(t, Config{})
		for i := range 2000 {
			corr := fmt.Sprintf("%04x", i%300)
			l.putHex(subscribe_, "a2001901040142"+corr)
			if i%3 > 0 {
				l.takeRaw()
			}
			if i%5 == 0 {
				put(t, set, tool("t00001", fmt.Sprint("x", i)))
			}
			if i%7 == 0 {
				l.takeAll()
			}
			l.putHex(unsubscribe, "a2001901060142"+corr, "a2001901060142"+corr)
			sub, corr := follows(t, q, lq, record.Filter{}, func(Event) {})
			if i%2 == 0 {
				lq.put(result, resultOf(corr, "aa", tool("t1", "a")))
				lq.put(update, updateOf(corr, []record.Record{tool("t2", "b")}, "t1"))
			}
			sub.Unsubscribe()
			lq.put(update, updateOf(corr, []record.Record{tool("t3", "b")}))
		}
		l.takeAll()
		synctest.Wait()
		if st := p.Stats(); st.Subscriptions+st.Unanswered+st.Unsent != 0 || h.Len() != 0 || p.outbox.Memory() != 0 {
			t.Errorf("%d subscriptions in the hub, %d octets, %+v", h.Len(), p.outbox.Memory(), st)
		}
		if st := q.Stats(); st.Own+st.Outstanding != 0 || q.holds() != 0 || st.Late != 2000 || len(q.retired.ring) != 1024 {
			t.Errorf("%d octets held, %+v", q.holds(), st)
		}
		if l.why() != nil || lq.why() != nil {
			t.Errorf("ended: %v, %v", l.why(), lq.why())
		}
	})
}

// Covers: C1, C21, C24, DISC-4.2-04, DISC-4.3-01, DISC-4.3-02
//
// One corr, whatever state it is in.
func TestHostileCorrInEveryPhase(t *testing.T) {
	const q, s, x = "a200190100014105", "a200190104014105", "a200190106014105"
	more := func(cur string) string { return "a3001901000141050650" + cur }
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(4)...)
		p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
		step := func(why string, frames, duplicates int, do func()) []string {
			t.Helper()
			before := p.Stats().DuplicateCorr
			do()
			got := l.takeAll()
			if n := int(p.Stats().DuplicateCorr - before); len(got) != frames || n != duplicates {
				t.Errorf("%s: %d frames, want %d; %d duplicates, want %d: %v", why, len(got), frames, n, duplicates, got)
			}
			return got
		}
		var cur string
		first := step("asked twice before the answer", 1, 3, func() { l.putHex(query, q, q); l.putHex(subscribe_, s); l.putHex(query, q) })
		cur = cursorOf(t, first[0])
		step("a follow-up under the finished corr, twice before its answer", 1, 1, func() { l.putHex(query, more(cur), more(cur)) })
		step("a new query under the finished corr", 1, 0, func() { l.putHex(query, q) })
		step("a subscription under a chain's corr", 2, 0, func() { l.putHex(subscribe_, s) })
		step("a follow-up under a live corr", 0, 1, func() { l.putHex(query, more(cur)) })
		step("a query and a subscription under a live corr", 0, 2, func() { l.putHex(query, q); l.putHex(subscribe_, s) })
		step("an UPDATE all the same", 1, 0, func() { put(t, set, tool("t00001", "x")) })
		step("free once it is cancelled", 1, 0, func() { l.putHex(unsubscribe, x); l.putHex(query, q) })
		step("UNSUBSCRIBE while a query is out", 1, 0, func() { l.putHex(query, q); l.putHex(unsubscribe, x) })
		step("subscribed, cancelled and asked before anything is read", 2, 0, func() { l.putHex(subscribe_, s); l.putHex(unsubscribe, x); l.putHex(query, q) })
		step("malformed under a live corr", 3, 0, func() { l.putHex(subscribe_, s); l.putHex(query, "a3001901000141052000") })
		step("which lives", 1, 0, func() { put(t, set, tool("t00001", "y")) })
		if st := p.Stats(); st.Subscriptions != 1 || st.Unanswered != 0 || st.IdleUnsubscribe != 1 {
			t.Errorf("%+v", st)
		}
	})
	// As requester: replies under a corr in each phase.
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		c := start(p, Query{})
		synctest.Wait()
		corr := l.lastCorr()
		l.put(update, updateOf(corr, []record.Record{tool("x", "a")})) // no subscription
		l.put(result, resultOf(corr, "", tool("t1", "a")))
		l.put(result, resultOf(corr, "aa", tool("x", "a"))) // done
		l.putHex(errorMsg, errorFor(corr, 5))
		l.put(update, updateOf(corr, nil, "t1"))
		synctest.Wait()
		if st := p.Stats(); c.err != nil || len(c.list.Records) != 1 || st.Late != 3 || st.Bogus != 1 || st.Outstanding != 0 || st.Restarts != 0 {
			t.Errorf("a query's: %v, %+v", c.err, st)
		}
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(update, updateOf(corr, []record.Record{tool("x", "a")})) // early
		l.put(result, resultOf(corr, "", tool("t1", "a")))
		l.put(result, resultOf(corr, "", tool("x", "a"))) // live
		l.put(result, resultOf(corr, "aa", tool("x", "a")))
		if st := p.Stats(); sub.Len() != 1 || st.EarlyUpdate != 1 || st.Late != 5 || sub.Stale() {
			t.Errorf("a subscription's: %d records, %+v", sub.Len(), st)
		}
		l.putHex(errorMsg, errorFor(corr, 5))
		if sub.Err() == nil || sub.Len() != 0 {
			t.Error("an ERROR does not end it")
		}
		want(t, "but it is told off", l.takeAll(), "0106:a2001901060150"+corr)
	})
}

// Covers: C1, C17, C18, C19, C40, C41, C44, DISC-8-03, DISC-8-04
//
// Pages that contradict each other, themselves and the order.
func TestHostilePages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		filter := record.Filter{Kinds: []record.Kind{record.KindTool}}
		c := start(p, Query{Filter: filter})
		synctest.Wait()
		sub, snap := follows(t, p, l, filter, nil)
		other := must(record.Carriage{ID: "c1", CarriageClass: record.ClassJSONRPC}.Record())
		pages := [][]record.Record{
			{at("t3", "c", 3), at("t1", "a", 3), at("t1", "double", 3)}, // out of order, and twice
			{at("t2", "b", 1), at("t1", "older", 2), other},             // an older one, and one nobody asked for
			{at("t1", "same", 3), at("t3", "newer", 4)},                 // another at the same revision, and a newer one
			{}, // nothing
			{at("t3", "newer", 4), at("t2", "b", 1), at("t0", "last", 1)}, // mostly seen
		}
		list := ""
		for i, recs := range pages {
			cursor := "aa"
			if i == len(pages)-1 {
				cursor = ""
			}
			if list == "" {
				list = fmt.Sprintf("%x", string(p.anyListing()))
			}
			l.put(result, resultOf(list, cursor, recs...))
			l.put(result, resultOf(snap, cursor, recs...))
			synctest.Wait()
			l.takeAll()
		}
		want := "t0/last t1/a t2/b t3/newer"
		names := func(recs []record.Record) string {
			var s []string
			for _, r := range recs {
				name, _ := r.Name()
				s = append(s, string(r.ID())+"/"+name)
			}
			return strings.Join(s, " ")
		}
		if c.err != nil || names(c.list.Records) != want {
			t.Fatalf("listed: %v, %+v", c.err, c.list)
		}
		if got := names(sub.Records()); got != want || sub.Stale() {
			t.Errorf("in the view: %s", got)
		}
		if st := p.Stats(); st.Overbroad != 2 || st.RevisionConflict == 0 || st.StaleRevision == 0 || st.DuplicateRecord == 0 {
			t.Errorf("%+v", st)
		}
		l.put(result, resultOf(list, "", at("t9", "x", 1))) // more, after the end
		l.put(result, resultOf(snap, "", at("t9", "x", 1)))
		if sub.Len() != 4 || p.Stats().Late != 2 {
			t.Errorf("after the end: %d records, Late = %d", sub.Len(), p.Stats().Late)
		}
	})
}

// anyListing is the corr of a listing under way.
func (p *Peer) anyListing() disco.Corr {
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, x := range p.own.all() {
		if _, ok := x.(*listing); ok {
			return p.own.corr(number)
		}
	}
	return ""
}

// Covers: C22, C23, DISC-3-06
//
// UPDATEs, RESULTs and ERRORs under corrs that were never ours, are done, or are
// the peer's own.
func TestHostileReplies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(2)...))})
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", tool("t1", "a")))
		l.putHex(subscribe_, v10)
		l.takeAll()
		before := sub.Digest()
		wrong := []string{"05", strings.Repeat("00", 16), corr[:30], corr + "00", strings.Repeat("ab", 64)} // 05 is its own
		for _, c := range wrong {
			l.put(update, updateOf(c, []record.Record{tool("x", "a")}, "t1"))
			l.put(result, resultOf(c, "", tool("x", "a")))
			l.put(errorMsg, encoded(disco.AppendError(nil, &disco.ErrorMsg{Corr: disco.Corr(unhex(c)), HasCorr: true, Code: 6})))
			l.putHex(unsubscribe, "a200190106015820"+strings.Repeat("cd", 32))
		}
		l.putHex(errorMsg, "a2001901020206") // none at all
		want(t, "silence", l.takeAll())
		st := p.Stats()
		if sub.Digest() != before || sub.Err() != nil || st.Bogus != uint64(3*len(wrong)) || st.UncorrelatedError != 1 || st.Subscriptions != 1 || st.Cached != 1 {
			t.Errorf("%v, %+v", sub.Err(), st)
		}
	})
}

// Covers: C12, C28, DASP-011-01, DISC-10-08
//
// Giant values in known and in ignored places.
func TestHostileGiants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		giant := strings.Repeat("x", 4<<20)
		head := func(major byte) []byte { return []byte{major<<5 | 26, 0, 0x40, 0, 0} }
		p, l := linked(t, Config{Limits: Limits{MaxCacheLen: 6 << 20, UncorrelatedErrors: 1000}})
		for name, c := range map[string]struct {
			typ    frame.Type
			before string // the giant's payload up to it, and
			major  byte   // its type, and
			after  string // what follows
			known  int    // records learned
		}{
			"ignored text in an ANNOUNCE":   {announce, "a3001901030280" + "07", 3, "", 0},
			"ignored bytes in an ANNOUNCE":  {announce, "a3001901030280" + "07", 2, "", 0},
			"a tool's name":                 {announce, "a2001901030281a4004274310103020104a200", 3, "0101", 1},
			"an ignored value of a record":  {announce, "a2001901030281a5004274310103020204a20060010109", 2, "", 1},
			"a corr":                        {announce, "a300190103" + "01", 2, "0280", 0},
			"an id":                         {announce, "a2001901030281a400", 2, "0103020104a200600101", 0},
			"bytes where a name should be":  {announce, "a2001901030281a4004274310103020104a200", 2, "0101", 0},
			"an ERROR's reason":             {errorMsg, "a300190102020103", 3, "", 0},
			"an ERROR's reason, and a corr": {errorMsg, "a400190102014101020103", 3, "", 0},
			"a cursor":                      {result, "a5001901010141010280" + "03f404", 2, "", 0},
			"a cursor that is ignored":      {result, "a5001901010141010280" + "03f504", 2, "", 0},
			"an id that is withdrawn":       {update, "a300190105014105" + "0381", 2, "", 0},
		} {
			payload := append(append(append(unhex(c.before), head(c.major)...), giant...), unhex(c.after)...)
			if c.known > 0 { // its record is copied twice
				l.put(c.typ, payload)
			} else {
				l.handled(name, c.typ, payload)
			}
			if n := p.Stats().Cached; n != c.known && n != 1 {
				t.Errorf("%s: %d learned", name, n)
			}
			want(t, name, l.takeAll())
		}
		for _, q := range []string{"a300190100014101" + "04", "a300190100014101" + "07", "a20019010001"} { // requests are short
			l.handled("a request", query, append(append(unhex(q), head(2)...), giant...))
			want(t, q, l.takeAll(), errorFrame("", 1))
		}
		if l.why() != nil || p.Stats().Memory > 7<<20 {
			t.Errorf("ended: %v, %d octets", l.why(), p.Stats().Memory)
		}
	})
}

// golden payloads, one of each type at least, that inflate tampers with.
var tampered = map[frame.Type][]string{
	query:       {v1, "a6001901000141020282030403810104646769742e05f5", "a400190100014103028103065000112233445566778899aabbccddeeff"},
	result:      {v4, v6, "a5001901010141010281a4004274310103020104a300676769742e6c6f670101020003f4045000112233445566778899aabbccddeeff"},
	errorMsg:    {"a3001901020141010204", "a400190102014103020503657374616c65"},
	announce:    {"a2001901030281a4004270310101020104a200010101"},
	subscribe_:  {v10},
	update:      {v11, v12},
	unsubscribe: {v13},
}

// Covers: F05, DASP-011-01, DISC-4.1-06
//
// Every head of every golden payload declares more than there is: nothing is
// allocated for it, nothing is learned, and the peer goes on.
func TestHostileCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, four(t)), Limits: Limits{UncorrelatedErrors: 1 << 20, QueryRate: -1}})
		n := 0
		for typ, payloads := range tampered {
			for _, payload := range payloads {
				whole := unhex(payload)
				for i := range whole {
					for major := byte(2); major <= 5; major++ {
						for _, count := range []string{"1bffffffffffffffff", "1b7fffffffffffffff", "1affffffff", "1a00100000", "19ffff"} {
							b := unhex(count)
							b[0] |= major << 5
							l.handled(payload, typ, append(append(whole[:i:i], b...), whole[i+1:]...))
							n++
						}
					}
					l.takeAll()
				}
			}
		}
		st := p.Stats()
		if st.Malformed < uint64(n)*9/10 || st.Cached+st.Subscriptions+st.Unanswered != 0 || l.why() != nil {
			t.Errorf("%d of %d are malformed, %+v, ended: %v", st.Malformed, n, st, l.why())
		}
	})
}

// Covers: DISC-4.2-03, DISC-5-02, DISC-5.4-01, C2
//
// Each printed bound at its value and one beyond.
func TestHostileBounds(t *testing.T) {
	bytesOf := func(n int) string { // a byte string of n octets
		switch {
		case n < 24:
			return fmt.Sprintf("%02x", 0x40+n) + strings.Repeat("61", n)
		case n < 256:
			return fmt.Sprintf("58%02x", n) + strings.Repeat("61", n)
		}
		return fmt.Sprintf("59%04x", n) + strings.Repeat("61", n)
	}
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 1000}})
		for n, ok := range map[int]bool{0: false, 1: true, 64: true, 65: false} {
			l.putHex(query, "a20019010001"+bytesOf(n))
			if got := strings.HasPrefix(l.take(), "0101:"); got != ok {
				t.Errorf("a corr of %d octets: %v", n, got)
			}
		}
		learned := func(payload string) bool {
			before := p.Stats().Cached
			l.putHex(announce, "a2001901030281"+payload)
			return p.Stats().Cached > before
		}
		for n, ok := range map[int]bool{0: false, 1: true, 32: true, 33: false} {
			if got := learned("a400" + bytesOf(n) + "0103020104a200600101"); got != ok {
				t.Errorf("a record_id of %d octets: %v", n, got)
			}
			if got := learned(fmt.Sprintf("a40042%04x0104020104a300416701810102", n) + "81" + bytesOf(n)); got != ok {
				t.Errorf("a reference of %d octets: %v", n, got)
			}
		}
		for n, ok := range map[int]bool{0: false, 1: true, 64: true, 65: false} {
			if got := learned(fmt.Sprintf("a40043%06x0104020104a200", n) + bytesOf(n) + "018101"); got != ok {
				t.Errorf("an agent_id of %d octets: %v", n, got)
			}
		}
		for id, ok := range map[string]bool{"00": true, "18ff": true, "190100": false} {
			if got := learned("a40044" + fmt.Sprintf("%08x", len(id)*1000+int(id[2%len(id)])) + "0103020104a2006001" + id); got != ok {
				t.Errorf("protocol_id %s: %v", id, got)
			}
		}
		for n, ok := range map[int]bool{0: true, 1024: true, 1025: false} {
			c := start(p, Query{})
			synctest.Wait()
			l.putHex(result, "a5001901010150"+l.lastCorr()+"028003f404"+bytesOf(n))
			synctest.Wait()
			if got := !c.done; got != ok {
				t.Errorf("a cursor of %d octets: %v", n, c.err)
			}
			l.takeAll()
		}
	})
}

// Covers: DISC-10-08, C31
//
// A reader stops. For less than the stall timeout, it has missed nothing when it
// goes on; for a minute, it has lost the association.
func TestHostileReaderStops(t *testing.T) {
	for pause, lives := range map[time.Duration]bool{29 * time.Second: true, time.Minute: false} {
		bubble(t, func(t *testing.T) {
			set := newSet(t, many(10)...)
			cfg := Config{Hub: hub(t, set)}
			w := channeltest.NewWire()
			w.BA.Room(4 << 10)
			a, b, _ := associated(t, w, nil, nil, Config{}, &cfg)
			sub, err := a.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.BA.Stall()
			for i := range int(pause / time.Second) {
				for k := range 10 {
					put(t, set, tool(fmt.Sprintf("t%05d", k), fmt.Sprintf("%0500d", i)))
				}
				later(time.Second)
			}
			later(time.Second - 1)
			w.BA.Resume()
			later(time.Second)
			if lives && (sub.Digest() != set.Digest() || sub.Stale() || b.Stats().Unsent != 0) {
				t.Errorf("%v: it is not where the set is: %v", pause, sub.Err())
			}
			if ended := b.Stats().Subscriptions == 0; ended == lives {
				t.Errorf("%v: ended: %v", pause, ended)
			}
			if !lives {
				if err := b.Wait(); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("%v: %v", pause, err)
				}
			}
		})
	}
}

// Covers: DISC-4.3-06, DISC-8-05
//
// Close from inside callbacks, twice, from many goroutines, and from both ends at
// once; whatever else goes on, all of it returns.
func TestHostileClose(t *testing.T) {
	for kind := EventSnapshot; kind <= EventEnded; kind++ {
		bubble(t, func(t *testing.T) {
			set := newSet(t, many(3)...)
			a, b := pair(t, Config{}, Config{Hub: hub(t, set)})
			closed := 0
			sub, err := a.Subscribe(record.Filter{}, func(e Event) {
				if e.Kind == kind {
					a.Close()
					a.Close()
					closed++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			put(t, set, tool("t00001", "x"), tool("t9", "y"))
			withdraw(t, set, "t00002")
			synctest.Wait()
			if kind == EventReset {
				a.mu.Lock()
				sub.resync(io.ErrUnexpectedEOF)
				a.mu.Unlock()
			}
			if kind == EventEnded {
				sub.Unsubscribe()
			}
			synctest.Wait()
			if closed == 0 || a.Wait() != ErrClosed || b.Wait() == nil {
				t.Errorf("from %v: %d times, %v", kind, closed, a.life.cause)
			}
		})
	}
	bubble(t, func(t *testing.T) { // from both ends, by many, over an association
		set := newSet(t, many(30)...)
		cfg := Config{Hub: hub(t, set), OnAnnounce: func(Announcement) {}}
		a, b, _ := associated(t, channeltest.NewWire(), nil, nil, Config{Hub: cfg.Hub}, &cfg)
		var wg sync.WaitGroup
		for range 4 {
			for _, p := range []*Peer{a, b} {
				wg.Go(func() { _, _ = p.Query(t.Context(), Query{}) })
				wg.Go(func() { _, _ = p.Announce(t.Context(), many(30)) })
				wg.Go(func() {
					if sub, err := p.Subscribe(record.Filter{}, func(Event) { p.Close() }); err == nil {
						_ = sub.WaitSynced(t.Context())
					}
				})
				wg.Go(func() { p.Close() })
			}
		}
		wg.Wait()
		for _, p := range []*Peer{a, b} {
			if _, err := p.Query(t.Context(), Query{}); err == nil {
				t.Error("a query after the end")
			}
			if _, err := p.Subscribe(record.Filter{}, nil); err == nil {
				t.Error("a subscription after the end")
			}
			if err := p.Wait(); err != ErrClosed && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			if p.holds() != 0 {
				t.Errorf("%d octets are held", p.holds())
			}
		}
	})
	bubble(t, func(t *testing.T) { // from where announcements are told
		var p *Peer
		p, l := linked(t, Config{OnAnnounce: func(Announcement) { p.Close() }})
		l.put(announce, announceOf(many(2)...))
		synctest.Wait()
		if p.Wait() != ErrClosed || p.holds() != 0 {
			t.Errorf("%v, %d octets held", p.Wait(), p.holds())
		}
	})
}

// Covers: DISC-3-06, DISC-7.1-01, DISC-7.3-02, C4
//
// Anything at all, in any order: nothing is answered that must not be, the books
// balance, and the peer answers the next request.
func TestHostileNoise(t *testing.T) {
	seeds := 60
	if raced {
		seeds = 10
	}
	for seed := range uint64(seeds) {
		bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			set := four(t)
			p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 1, UncorrelatedErrors: 1000, QueryRate: -1, ResyncInterval: time.Second, StallTimeout: -1}})
			var corrs []string
			var subs []*Subscription
			ask := func() {
				for _, f := range l.takeAll() {
					if strings.HasPrefix(f, "0100:") || strings.HasPrefix(f, "0104:") {
						corrs = append(corrs, corrOf(t, f))
					}
				}
			}
			for range 150 {
				switch rng.IntN(12) {
				case 0:
					start(p, Query{Tolerant: rng.IntN(2) == 0})
					synctest.Wait()
				case 1:
					if sub, err := p.Subscribe(record.Filter{}, func(Event) {}); err == nil {
						subs = append(subs, sub)
					}
				case 2:
					if len(subs) > 0 {
						subs[rng.IntN(len(subs))].Unsubscribe()
					}
				case 3:
					put(t, set, tool("t1", fmt.Sprint("x", rng.IntN(5))))
				case 4:
					later(time.Duration(rng.IntN(3000)) * time.Millisecond)
				case 5:
					ask()
				case 6, 7, 8: // under a corr of ours
					if len(corrs) == 0 {
						continue
					}
					corr := corrs[rng.IntN(len(corrs))]
					r := at(fmt.Sprint("t", rng.IntN(4)), fmt.Sprint("n", rng.IntN(3)), uint64(rng.IntN(4)))
					switch rng.IntN(6) {
					case 0:
						l.put(result, resultOf(corr, []string{"", "aa"}[rng.IntN(2)], r))
					case 1:
						l.put(update, updateOf(corr, []record.Record{r}, record.ID(fmt.Sprint("t", rng.IntN(4)))))
					case 2:
						l.putHex(errorMsg, errorFor(corr, byte(1+rng.IntN(8))))
					case 3:
						l.putHex(update, "a3001901050150"+corr+"02f6")
					case 4:
						l.put(update, updateOf(corr, nil, record.ID(fmt.Sprint("t", rng.IntN(4)))))
					case 5:
						l.putHex(result, "a4001901010150"+corr+"02f603f5")
					}
				default: // a golden payload with something altered, under some type
					types := []frame.Type{query, result, errorMsg, announce, subscribe_, update, unsubscribe, 0x107, 0x30}
					typ := types[rng.IntN(len(types))]
					from := tampered[types[rng.IntN(7)]]
					b := unhex(from[rng.IntN(len(from))])
					for range rng.IntN(3) {
						b[rng.IntN(len(b))] = byte(rng.IntN(256))
					}
					before := p.Stats()
					l.put(typ, b)
					if st := p.Stats(); typ != query && typ != subscribe_ && (st.ErrorsOut != before.ErrorsOut || st.Unanswered > before.Unanswered) {
						t.Fatalf("seed %d: type %#x is answered", seed, typ)
					}
				}
				synctest.Wait()
				if st := p.Stats(); st.Memory < 0 || p.holds() < 0 || l.why() != nil {
					t.Fatalf("seed %d: %d octets held, ended %v", seed, p.holds(), l.why())
				}
			}
			for _, s := range subs {
				s.Unsubscribe()
			}
			later(time.Minute) // every query has timed out
			l.takeAll()
			later(time.Minute)
			l.takeAll()
			if st := p.Stats(); p.holds() != 0 || st.Own+st.Outstanding+st.Unanswered+st.Unsent != 0 {
				t.Errorf("seed %d: %d octets held, %+v", seed, p.holds(), st)
			}
			l.putHex(query, "a200190100014277aa")
			if f := l.take(); !strings.Contains(f, "014277aa") {
				t.Errorf("seed %d: no answer: %s", seed, f)
			}
		})
		if t.Failed() {
			return
		}
	}
}
