package channel

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// heapInUse is what is reachable now, in octets.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// big is a tool whose record has about n octets.
func big(id string, n int) record.Record { return tool(id, strings.Repeat("x", n)) }

// encoded is what an append function returns.
func encoded(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func resultOf(corr, cursor string, recs ...record.Record) []byte {
	return encoded(disco.AppendResult(nil, &disco.Result{Corr: disco.Corr(unhex(corr)), Records: recs,
		Complete: cursor == "", HasCursor: cursor != "", Cursor: disco.Cursor(cursor)}))
}

func updateOf(corr string, added []record.Record, withdrawn ...record.ID) []byte {
	return encoded(disco.AppendUpdate(nil, &disco.Update{Corr: disco.Corr(unhex(corr)), Added: added, Withdrawn: withdrawn}))
}

func announceOf(recs ...record.Record) []byte {
	return encoded(disco.AppendAnnounce(nil, &disco.Announce{Records: recs}))
}

// strangers is a RESULT with n records of a kind that nobody knows, in ascending
// order, and one that is known.
func strangers(corr, cursor string, n int, known record.Record) []byte {
	b := disco.AppendResultHead(nil, disco.Corr(unhex(corr)), n+1, cursor == "")
	b = known.AppendTo(appendStrangers(b, n))
	return disco.AppendResultTail(b, cursor == "", disco.Cursor(cursor))
}

func strangeAnnouncement(n int) []byte {
	return appendStrangers(disco.AppendAnnounceHead(nil, n), n)
}

func appendStrangers(b []byte, n int) []byte {
	for i := range n {
		b = append(b, 0xa4, 0)
		b = dcbor.AppendBytes(b, fmt.Sprintf("%08x", i))
		b = append(b, 1, 9, 2, 0, 4, 0xa0)
	}
	return b
}

// lastCorr is the corr of our newest request that waits on the link.
func (l *link) lastCorr() string {
	l.t.Helper()
	out := l.takeAll()
	if len(out) == 0 {
		l.t.Fatal("the peer asks for nothing")
	}
	return corrOf(l.t, out[len(out)-1])
}

// meter measures what is held since before, at its greatest.
type meter struct{ before, held, counted int }

func (m *meter) look(p *Peer) {
	synctest.Wait()
	m.held = max(m.held, heapInUse()-m.before)
	m.counted = max(m.counted, p.Stats().Memory)
	runtime.KeepAlive(p)
}

// Covers: DISC-10-08, DISC-10-10, DASP-011-01
//
// A hostile peer leans on one bound after the other for a minute. What is held
// for it afterwards, measured and not only counted, is within MaxPeerMemory and
// a constant.
func TestMemoryIsBounded(t *testing.T) {
	if raced {
		t.Skip("memory is another under race, and this slow")
	}
	const (
		limit    = 8 << 20 // octets: MaxPeerMemory
		constant = 5 << 20 // octets: one frame under way, the tests' own, tables of fixed size
	)
	blocked := func(t *testing.T) (wait func(), release func()) {
		c := make(chan struct{})
		return func() { <-c }, func() { close(c) }
	}
	small := sync.OnceValue(func() (recs []record.Record) {
		for i := range 60_000 {
			recs = append(recs, tool(fmt.Sprintf("%05x", i), ""))
		}
		return recs
	})
	for _, c := range []struct {
		name string
		lean func(t *testing.T, m *meter) (p *Peer, done func())
	}{
		{"records announced", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for i := range 60 {
				var recs []record.Record
				for k := range 200 {
					recs = append(recs, big(fmt.Sprint("t", i*1000+k), 5000))
				}
				l.put(announce, announceOf(recs...))
				later(time.Second)
			}
			if p.Stats().AnnounceRefused == 0 {
				t.Error("none was refused")
			}
			return p, func() {}
		}},
		{"a slow handler of replacements", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			wait, release := blocked(t)
			if _, err := p.Subscribe(record.Filter{}, func(Event) { wait() }); err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			l.put(result, resultOf(corr, "", big("t1", 100)))
			for i := range 60 {
				l.put(update, updateOf(corr, []record.Record{big("t1", 1<<20).WithRevision(uint64(i + 2))}))
				later(time.Second)
			}
			if p.Stats().MergedEvents == 0 || p.Stats().Own != 1 {
				t.Errorf("not merged in time: %+v", p.Stats())
			}
			return p, release
		}},
		{"a slow handler of withdrawals", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			wait, release := blocked(t)
			if _, err := p.Subscribe(record.Filter{}, func(Event) { wait() }); err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			l.put(result, resultOf(corr, ""))
			for i := range 60 {
				id := fmt.Sprint("t", i)
				l.put(update, updateOf(corr, []record.Record{big(id, 1<<20)}))
				l.put(update, updateOf(corr, nil, record.ID(id)))
				later(time.Second)
			}
			return p, release
		}},
		{"a slow handler of snapshots that begin anew", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit, ResyncInterval: time.Second}})
			wait, release := blocked(t)
			if _, err := p.Subscribe(record.Filter{}, func(Event) { wait() }); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				corr := l.lastCorr()
				var recs []record.Record
				for k := range 20 {
					recs = append(recs, big(fmt.Sprint("t", 10+k), 50_000))
				}
				l.put(result, resultOf(corr, "", recs...))
				l.putHex(update, "a3001901050150"+corr+"02f6")
				later(time.Second)
			}
			if p.Stats().Own != 1 {
				t.Errorf("the subscription ended: %+v", p.Stats())
			}
			return p, release
		}},
		{"pages of which a little matches, told to a slow handler", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			wait, release := blocked(t)
			if _, err := p.Subscribe(record.Filter{NamePrefix: "y", HasPrefix: true}, func(Event) { wait() }); err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			for i := range 60 {
				l.put(result, resultOf(corr, "aa", big("t0", 1<<20), tool(fmt.Sprint("t", 100+i), "y")))
				later(time.Second)
			}
			return p, release
		}},
		{"announcements told to a slow handler", func(t *testing.T, m *meter) (*Peer, func()) {
			wait, release := blocked(t)
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}, OnAnnounce: func(Announcement) { wait() }})
			for range 60 {
				l.put(announce, announceOf(big("t1", 1<<20)))
				l.put(announce, strangeAnnouncement(20_000))
				later(time.Second)
			}
			if p.Stats().UntoldAnnouncements == 0 {
				t.Error("all were queued")
			}
			return p, release
		}},
		{"a listing of which a little matches", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{Filter: record.Filter{NamePrefix: "y", HasPrefix: true}})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				l.put(result, resultOf(l.lastCorr(), "aa", big("t0", 1<<20), tool(fmt.Sprint("t", 100+i), "y")))
				later(time.Second)
				if i == 4 {
					m.look(p)
				}
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
		{"listings that are learned", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for i := range 6 {
				c := start(p, Query{})
				synctest.Wait()
				var recs []record.Record
				for k := range 30 {
					recs = append(recs, big(fmt.Sprint("t", i*100+k), 100_000))
				}
				l.put(result, resultOf(l.lastCorr(), "", recs...))
				synctest.Wait()
				if c.err != nil && !errors.Is(c.err, ErrLimit) {
					t.Error(c.err)
				}
			}
			return p, func() {}
		}},
		{"a listing of replacements", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				id := record.ID(fmt.Sprint("t", 100+i))
				l.put(result, resultOf(l.lastCorr(), "aa", big(string(id), 1<<20), tool(string(id), "y").WithRevision(1)))
				later(time.Second)
				if i == 4 {
					m.look(p)
				}
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
		{"listings of the smallest records, in disorder", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for range 3 {
				start(p, Query{})
				synctest.Wait()
				corr := l.lastCorr()
				for i := 27_000; i > 0; i -= 9000 {
					recs := slices.Clone(small()[i-9000 : i])
					slices.Reverse(recs)
					l.put(result, resultOf(corr, "aa", recs...))
				}
			}
			return p, func() {}
		}},
		{"the smallest records announced", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for i := range 40 {
				l.put(announce, announceOf(small()[i*1500:(i+1)*1500]...))
			}
			return p, func() {}
		}},
		{"a snapshot without end", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			sub, err := p.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			for i := range 60 {
				l.put(result, resultOf(corr, "aa", big(fmt.Sprint("t", i), 1<<20)))
				later(time.Second)
				if i == 5 {
					m.look(p)
				}
			}
			if !errors.Is(sub.Err(), ErrLimit) {
				t.Errorf("the subscription ended with %v", sub.Err())
			}
			return p, func() {}
		}},
		{"additions without end", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			sub, err := p.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			l.put(result, resultOf(corr, ""))
			for i := range 60 {
				l.put(update, updateOf(corr, small()[i*1000:(i+1)*1000]))
				later(time.Second)
				if i == 40 {
					m.look(p)
				}
			}
			if !errors.Is(sub.Err(), ErrLimit) {
				t.Errorf("the subscription ended with %v", sub.Err())
			}
			return p, func() {}
		}},
		{"withdrawals without end", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit, ResyncInterval: time.Second}})
			if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
				t.Fatal(err)
			}
			var ids []record.ID
			for _, r := range small()[:5000] {
				ids = append(ids, r.ID())
			}
			for range 60 {
				corr := l.lastCorr()
				l.put(result, resultOf(corr, "aa"))
				l.put(update, updateOf(corr, small()[:5000]))
				l.put(update, updateOf(corr, nil, ids...))
				later(time.Second) // more than is remembered: it begins anew
			}
			if p.Stats().Resyncs != 60 {
				t.Errorf("%d resyncs", p.Stats().Resyncs)
			}
			return p, func() {}
		}},
		{"requests whose answers are not read", func(t *testing.T, m *meter) (*Peer, func()) {
			set := newSet(t, many(2000)...)
			p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPeerMemory: limit, QueryRate: -1, StallTimeout: -1}})
			for i := range 3000 {
				l.putHex(subscribe_, fmt.Sprintf("a2001901040142%04x", i))
				l.putHex(unsubscribe, fmt.Sprintf("a2001901060142%04x", i))
				l.putHex(query, fmt.Sprintf("a2001901000142%04x", i))
				if i%50 == 0 {
					put(t, set, tool("t00000", fmt.Sprint("x", i)))
					later(time.Second)
				}
				if i == 300 {
					m.look(p)
				}
			}
			if l.why() != errUnsent {
				t.Errorf("ended with %v", l.why())
			}
			return p, func() {}
		}},
		{"listings of a set that changes", func(t *testing.T, m *meter) (*Peer, func()) {
			set := newSet(t)
			p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPeerMemory: limit, MaxPageRecords: 1}})
			for i := range 60 {
				var recs []record.Record
				for k := range 20 {
					recs = append(recs, big(fmt.Sprint("t", k), 40_000+i))
				}
				put(t, set, recs...)
				l.putHex(query, v1)
				l.takeAll()
				later(time.Second)
			}
			return p, func() {}
		}},
		{"listings of a large set that changes", func(t *testing.T, m *meter) (*Peer, func()) {
			set := newSet(t)
			p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPeerMemory: limit, MaxPageRecords: 1}})
			change := func(i int) {
				var recs []record.Record
				for k := range 70 {
					recs = append(recs, big(fmt.Sprint("t", 100+k), 45_000+i))
				}
				put(t, set, recs...)
				later(time.Second)
			}
			var cur string
			for i := range 16 { // 3 MiB each
				change(i)
				if i%2 == 0 {
					l.putHex(query, v1)
					cur = cursorOf(t, l.take())
				}
			}
			m.look(p)
			l.putHex(query, "a3001901000141010650"+cur)
			cursorOf(t, l.take()) // the newest goes on
			if n := p.Stats().Snapshots; n < 1 || n > 2 {
				t.Errorf("%d snapshots are kept", n)
			}
			return p, func() {}
		}},
		{"a tolerant listing of unknown kinds", func(t *testing.T, m *meter) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{Tolerant: true})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				l.put(result, strangers(l.lastCorr(), "aa", 20_000, tool(fmt.Sprint("t", 100+i), "y")))
				later(time.Second)
				if i == 4 {
					m.look(p)
				}
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := &meter{before: heapInUse()}
				p, done := c.lean(t, m)
				m.look(p)
				t.Logf("%d KiB held, %d KiB counted", m.held>>10, m.counted>>10)
				if m.held > limit+constant {
					t.Errorf("%d MiB held", m.held>>20)
				}
				if m.counted > limit+constant || m.counted < 0 {
					t.Errorf("%d KiB counted", m.counted>>10)
				}
				done()
			})
		})
	}
}
