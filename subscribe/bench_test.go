package subscribe

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// bigSet is a set of n tools.
func bigSet(t testing.TB, n int) *record.Set {
	s := newSet()
	update(t, s, func(tx *record.Tx) {
		for i := range n {
			var id [8]byte
			binary.BigEndian.PutUint64(id[:], uint64(i)*0x9e3779b97f4a7c15)
			tx.Put(tool(t, record.ID(id[:]), fmt.Sprintf("svc%03d.item_%d", i%500, i), uint64(1+i%6)))
		}
	})
	return s
}

// One record of 100,000 changes with 10,000 subscriptions; and the matching of
// that record to 10,000 filters, once.
func BenchmarkPublish(b *testing.B) {
	x := newTenThousand(b)
	defer x.h.Close()
	b.Run("match once", func(b *testing.B) {
		facts := x.labels[0].Facts()
		n := 0
		for b.Loop() {
			n = 0
			for i := range x.matchers {
				if x.matchers[i].Match(facts) {
					n++
				}
			}
		}
		b.ReportMetric(float64(n), "matches")
	})
	for _, c := range []struct {
		name     string
		versions []record.Record
	}{{"update of a label", x.labels}, {"update of a protocol_id", x.moves}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if err := x.set.Update(func(tx *record.Tx) error { return tx.Put(c.versions[i%64]) }); err != nil {
					b.Fatal(err)
				}
				if i%32 == 0 {
					b.StopTimer()
					x.drain()
					b.StartTimer()
				}
			}
		})
	}
}

// Assembling an UPDATE of one record for each of 10,000 subscriptions.
func BenchmarkAppendFrame(b *testing.B) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	const n = 10_000
	for i := range n {
		h.Subscribe(o, disco.Corr(fmt.Sprintf("correlation-%04d", i)), record.Filter{}, Options{})
	}
	page := record.Page{MaxRecords: 1024, MaxLen: 256 << 10}
	out := make([]byte, 0, 1<<10)
	cursor := func(*record.Snapshot, record.Position) disco.Cursor { return "" }
	drainAll := func() (frames int) {
		for s := o.Next(); s != nil; s = o.Next() {
			out, _, _ = s.AppendFrame(out[:0], page, cursor)
			frames++
		}
		return frames
	}
	drainAll()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		put(b, set, tool(b, "t1", fmt.Sprint("some.tool_", i), 1))
		b.StartTimer()
		if got := drainAll(); got != n {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/frame")
}

// Covers: DISC-10-06
func TestSubscriptionIsSmall(t *testing.T) {
	if raced {
		t.Skip("sizes differ under race")
	}
	const n = 10_000
	set := bigSet(t, 100)
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	subs := make([]*Subscription, n)
	page := record.Page{}
	var out []byte
	corrs := make([]disco.Corr, n)
	for i := range corrs {
		corrs[i] = disco.Corr(fmt.Sprintf("correlation-%04d", i))
	}
	goroutines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what other tests left behind, finalizers and all
	runtime.ReadMemStats(&before)
	for i := range subs {
		subs[i] = h.Subscribe(o, corrs[i], record.Filter{Kinds: []record.Kind{record.KindTool}}, Options{})
	}
	for s := o.Next(); s != nil; s = o.Next() {
		out, _, _ = s.AppendFrame(out[:0], page, nil)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / n
	t.Logf("%d octets a subscription, counted as %d", each, o.Memory()/n)
	if each > 400 || each > o.Memory()/n || runtime.NumGoroutine() > goroutines {
		t.Errorf("%d octets a subscription, counted as %d; %d goroutines, %d before", each, o.Memory()/n, runtime.NumGoroutine(), goroutines)
	}
	runtime.KeepAlive(subs)
}

// An UPDATE costs its writer no allocation, and its publisher none for each
// subscription.
func TestUpdateAllocations(t *testing.T) {
	if raced {
		t.Skip("allocates otherwise under race")
	}
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	subs := make([]*Subscription, 500)
	for i := range subs {
		subs[i] = h.Subscribe(o, disco.Corr(fmt.Sprint(i)), record.Filter{}, Options{})
	}
	out := make([]byte, 0, 1<<10)
	page := record.Page{MaxRecords: 1024, MaxLen: 256 << 10}
	next := func() {
		if s := o.Next(); s != nil {
			out, _, _ = s.AppendFrame(out[:0], page, nil)
		}
	}
	for range subs {
		next()
	}
	a, b := tool(t, "t1", "a", 1), tool(t, "t1", "b", 1)
	put(t, set, a)
	if got := testing.AllocsPerRun(400, next); got > 0 {
		t.Errorf("%v allocations an UPDATE", got)
	}
	i := 0
	if got := testing.AllocsPerRun(20, func() {
		i++
		r := a
		if i%2 == 0 {
			r = b
		}
		if err := set.Update(func(tx *record.Tx) error { return tx.Put(r) }); err != nil {
			t.Fatal(err)
		}
		for o.Next() != nil {
			next()
		}
	}); got > 100 {
		t.Errorf("%v allocations for a change that concerns 500 subscriptions", got)
	}
}
