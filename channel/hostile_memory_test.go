package channel

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// Covers: DISC-10-08, DISC-10-10, DASP-011-01
//
// A hostile peer leans on one bound after the other for a minute. What is held
// for it afterwards, measured and not only counted, is within MaxPeerMemory and
// a constant.
func TestMemoryIsBounded(t *testing.T) {
	const (
		limit    = 8 << 20 // octets: MaxPeerMemory
		constant = 5 << 20 // octets: one frame under way, the tests' own, tables of fixed size
	)
	blocked := func(t *testing.T) (wait func(), release func()) {
		c := make(chan struct{})
		return func() { <-c }, func() { close(c) }
	}
	for _, c := range []struct {
		name string
		lean func(t *testing.T) (p *Peer, done func())
	}{
		{"records announced", func(t *testing.T) (*Peer, func()) {
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
		{"a slow handler of replacements", func(t *testing.T) (*Peer, func()) {
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
		{"a slow handler of withdrawals", func(t *testing.T) (*Peer, func()) {
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
		{"a slow handler of snapshots that begin anew", func(t *testing.T) (*Peer, func()) {
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
		{"pages of which a little matches, told to a slow handler", func(t *testing.T) (*Peer, func()) {
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
		{"announcements told to a slow handler", func(t *testing.T) (*Peer, func()) {
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
		{"a listing of which a little matches", func(t *testing.T) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{Filter: record.Filter{NamePrefix: "y", HasPrefix: true}})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				l.put(result, resultOf(l.lastCorr(), "aa", big("t0", 1<<20), tool(fmt.Sprint("t", 100+i), "y")))
				later(time.Second)
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
		{"listings that are learned", func(t *testing.T) (*Peer, func()) {
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
		{"a listing of replacements", func(t *testing.T) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				id := record.ID(fmt.Sprint("t", 100+i))
				l.put(result, resultOf(l.lastCorr(), "aa", big(string(id), 1<<20), tool(string(id), "y").WithRevision(1)))
				later(time.Second)
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
		{"listings of the smallest records, in disorder", func(t *testing.T) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for range 3 {
				start(p, Query{})
				synctest.Wait()
				corr := l.lastCorr()
				for i := range 10 {
					var recs []record.Record
					for k := range 9000 {
						recs = append(recs, tool(fmt.Sprintf("%05x", 100_000-9000*i-k), ""))
					}
					l.put(result, resultOf(corr, "aa", recs...))
				}
			}
			return p, func() {}
		}},
		{"the smallest records announced", func(t *testing.T) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			for i := range 12 {
				var recs []record.Record
				for k := range 9000 {
					recs = append(recs, tool(fmt.Sprintf("%05x", 9000*i+k), ""))
				}
				l.put(announce, announceOf(recs...))
			}
			return p, func() {}
		}},
		{"a tolerant listing of unknown kinds", func(t *testing.T) (*Peer, func()) {
			p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: limit}})
			c := start(p, Query{Tolerant: true})
			synctest.Wait()
			for i := 0; i < 60 && !c.done; i++ {
				l.put(result, strangers(l.lastCorr(), "aa", 20_000, tool(fmt.Sprint("t", 100+i), "y")))
				later(time.Second)
			}
			if !errors.Is(c.err, ErrLimit) {
				t.Errorf("the listing ended with %v", c.err)
			}
			return p, func() {}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				before := heapInUse()
				p, done := c.lean(t)
				synctest.Wait()
				held, counted := heapInUse()-before, p.Stats().Memory
				t.Logf("%d KiB held, %d KiB counted", held>>10, counted>>10)
				if held > limit+constant {
					t.Errorf("%d MiB held", held>>20)
				}
				if counted > limit+constant || counted < 0 {
					t.Errorf("%d KiB counted", counted>>10)
				}
				done()
				runtime.KeepAlive(p)
			})
		})
	}
}
