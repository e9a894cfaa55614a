package subscribe

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/record"
)

// A change that concerns many associations is flushed by the relay, each once; one
// that concerns few wakes their writers. The publisher waits for neither.
func TestRelay(t *testing.T) {
	for _, n := range []int{1, crowd - 1, crowd, 10 * crowd} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet()
				h := NewHub(set)
				defer h.Close()
				hold := make(chan struct{})
				var woken, flushed atomic.Int64
				subs := make([]*subscriber, n)
				for i := range subs {
					o := NewOutbox(func() { woken.Add(1) })
					o.SetFlush(func() { <-hold; flushed.Add(1) })
					subs[i] = subscribeTo(t, h, o, fmt.Sprint(i), record.Filter{}, Options{})
					drain(t, o, all, subs[i])
				}
				woken.Store(0)
				put(t, set, tool(t, "t1", "a", 1)) // returns, although nobody is flushed
				put(t, set, tool(t, "t1", "b", 1)) // they have been told
				synctest.Wait()
				if flushed.Load() != 0 {
					t.Error("flushed by the publisher")
				}
				close(hold)
				synctest.Wait()
				wantWoken, wantFlushed := int64(n), int64(0)
				if n >= crowd {
					wantWoken, wantFlushed = 0, int64(n)
				}
				if woken.Load() != wantWoken || flushed.Load() != wantFlushed {
					t.Errorf("%d woken, %d flushed", woken.Load(), flushed.Load())
				}
				if h.relay.running != 0 || h.relay.waiting != nil {
					t.Errorf("%d goroutines, %d outboxes left", h.relay.running, len(h.relay.waiting))
				}
			})
		})
	}
}

// Without SetFlush the relay wakes.
func TestRelayWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet()
		h := NewHub(set)
		defer h.Close()
		var woken atomic.Int64
		const n = 2 * crowd
		for i := range n {
			o := NewOutbox(func() { woken.Add(1) })
			x := subscribeTo(t, h, o, fmt.Sprint(i), record.Filter{}, Options{})
			drain(t, o, all, x)
		}
		woken.Store(0)
		put(t, set, tool(t, "t1", "a", 1))
		synctest.Wait()
		if woken.Load() != n {
			t.Errorf("%d of %d woken", woken.Load(), n)
		}
	})
}
