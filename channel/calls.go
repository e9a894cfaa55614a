package channel

import (
	"sync"
	"time"
)

// calls runs callbacks. Whoever has some is queued and runs on one of at most
// MaxCallbacks goroutines, which are started when there is work and end when
// there is none; the callbacks of one caller run one after another.
type calls struct {
	queue   fifo[caller]
	running int       // goroutines
	inside  int       // of which inside the user's code
	idle    sync.Cond // running == inside

	moved   bool // a caller had its turn since the watch was set
	watch   *time.Timer
	watched bool // watch runs
}

// A second goroutine is started when this many callers wait for each that runs, or
// the first has waited this long. One for each caller, as long as there may be
// more, takes a tenth of the time of a change for 10,000 subscriptions.
const (
	callBacklog  = 16
	callPatience = time.Millisecond
)

// A caller has callbacks to run. It is in the queue, or running, at most once.
type caller interface {
	// call runs one batch of callbacks; more reports that others wait. It is
	// called with the peer's mutex held, and frees it around the user's code.
	call() (more bool)
}

// schedule queues a caller that is neither queued nor running. p.mu is held.
func (p *Peer) schedule(c caller) {
	q := &p.calls
	q.queue.push(c)
	switch {
	case q.running >= p.lim.MaxCallbacks:
	case q.running == 0 || q.queue.len() > callBacklog*q.running:
		q.running++
		go p.runCalls()
	case !q.watched:
		p.watchCalls()
	}
}

// watchCalls has checkCalls look whether those who wait have their turn. p.mu is
// held.
func (p *Peer) watchCalls() {
	q := &p.calls
	q.watched, q.moved = true, false
	setTimer(&q.watch, callPatience, p.checkCalls)
}

func (p *Peer) checkCalls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.calls
	q.watched = false
	if q.queue.len() == 0 || q.running >= p.lim.MaxCallbacks {
		return
	}
	if !q.moved {
		q.running++
		go p.runCalls()
	}
	p.watchCalls()
}

func (p *Peer) runCalls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.calls
	for {
		c, ok := q.queue.pop()
		if !ok {
			break
		}
		q.moved = true
		if c.call() {
			q.queue.push(c)
		}
	}
	q.running--
	q.idle.Broadcast()
}

// outside runs f, which is the user's, with the mutex free. p.mu is held.
func (p *Peer) outside(f func()) {
	p.calls.inside++
	p.calls.idle.Broadcast()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.calls.inside--
	}()
	f()
}

// wait waits until no goroutine is left but inside the user's code. The mutex
// is held.
func (c *calls) wait() {
	for c.running > c.inside {
		c.idle.Wait()
	}
}
