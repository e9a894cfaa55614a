package channel

import "sync"

// calls runs callbacks. Whoever has some is queued and runs on one of at most
// MaxCallbacks goroutines, which are started when there is work and end when
// there is none; the callbacks of one caller run one after another.
type calls struct {
	queue   fifo[caller]
	running int       // goroutines
	inside  int       // of which inside the user's code
	idle    sync.Cond // running == inside
}

// A caller has callbacks to run. It is in the queue, or running, at most once.
type caller interface {
	// call runs one batch of callbacks; more reports that others wait. It is
	// called with the peer's mutex held, and frees it around the user's code.
	call() (more bool)
}

// schedule queues a caller that is neither queued nor running. p.mu is held.
func (p *Peer) schedule(c caller) {
	p.calls.queue.push(c)
	if p.calls.running < p.lim.MaxCallbacks {
		p.calls.running++
		go p.runCalls()
	}
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
