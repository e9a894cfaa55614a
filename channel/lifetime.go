package channel

import (
	"errors"

	"github.com/npamp/disco/frame"
)

// lifetime is open until the transport says that the association has ended.
// The cause is set once, before done is closed.
type lifetime struct {
	closing bool  // Close was called, or the end came: nothing new is taken on
	cause   error // set with closing, or by the transport
	done    chan struct{}
}

func (l *lifetime) init() { l.done = make(chan struct{}) }

// Close ends the association, and with it everything that was learned or asked
// on it (§8). What is queued is not sent. It is idempotent and returns within a
// second or so, when every goroutine has gone but those inside a callback of
// the caller's, which end when it returns; so a callback may call it.
func (p *Peer) Close() error {
	p.mu.Lock()
	p.life.closing = true
	p.mu.Unlock()
	err := p.tr.Close()
	<-p.life.done
	p.mu.Lock()
	p.calls.wait()
	p.mu.Unlock()
	return err
}

// Done is closed when the association has ended.
func (p *Peer) Done() <-chan struct{} { return p.life.done }

// Wait blocks until the association has ended and returns the first cause:
// ErrClosed after Close, io.EOF when the peer ended it in order, and otherwise
// what went wrong.
func (p *Peer) Wait() error {
	<-p.life.done
	return p.life.cause
}

// closed is Endpoint.Closed: it ends every exchange, forgets all state, and
// lets Wait return.
func (p *Peer) closed(cause error) {
	if errors.Is(cause, frame.ErrClosed) {
		cause = ErrClosed
	}
	p.mu.Lock()
	p.life.closing = true
	p.life.cause = cause
	for number, x := range p.own.all() {
		p.own.end(number)
		x.ended(cause)
	}
	for s := range p.stale {
		s.ended(cause)
	}
	for corr, s := range p.subs {
		delete(p.subs, corr)
		s.Cancel()
	}
	p.outbox.Close()
	clear(p.answering)
	p.cursors.dropAll()
	p.cache.Clear()
	for it, ok := p.out.pop(); ok; it, ok = p.out.pop() {
		if a, ok := it.(*announcement); ok {
			a.end(cause)
		}
	}
	for _, w := range p.writes {
		w.done <- cause
	}
	p.writes = nil
	for _, t := range p.timers() {
		t.Stop()
	}
	p.mu.Unlock()
	p.closeViews()
	close(p.life.done)
}

// closeViews ends what was made for this peer alone.
func (p *Peer) closeViews() {
	if p.ownHub {
		p.hub.Close()
	}
	if p.mine != nil {
		p.mine.Close()
	}
}

// closedCause is the error of a call that comes too late. p.mu is held.
func (p *Peer) closedCause() error {
	if p.life.cause != nil {
		return p.life.cause
	}
	return ErrClosed
}
