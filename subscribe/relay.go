package subscribe

import (
	"runtime"
	"sync"
)

// A relay has the outboxes that one change woke send what they have, on a few
// goroutines of its own. Waking the writer of each of 1,000 associations has 1,000
// more goroutines run, each with memory that is in no cache: a fifth of the time of
// a change for one subscription on each (BenchmarkFanOut of package channel).
type relay struct {
	mu      sync.Mutex
	waiting []*Outbox // flushed from the front
	running int       // goroutines
}

// crowd is how many outboxes have to be woken at once for the relay to do it. Fewer
// are told sooner by their own writers.
const crowd = 64

// flush takes over the outboxes. It does not wait.
func (r *relay) flush(os []*Outbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, os...)
	for most := max(1, runtime.GOMAXPROCS(0)/2); r.running < most; r.running++ { // as many are left to those who receive
		go r.run()
	}
}

func (r *relay) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		o := r.waiting[0]
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		o.flush()
		r.mu.Lock()
	}
	r.waiting = nil
	r.running--
}
