package quic

import (
	"sync"
	"time"
)

// A deadline is a time that can be waited for and moved, as net.Pipe has it.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{} // closed when it has passed; never nil
}

func newDeadline() *deadline { return &deadline{passed: make(chan struct{})} }

// set moves the deadline; the zero time is none. Who waits learns of it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // the timer's function is under way, or done
	}
	d.timer = nil
	over := isClosed(d.passed)
	if t.IsZero() || time.Until(t) > 0 {
		if over {
			d.passed = make(chan struct{})
		}
		if !t.IsZero() {
			passed := d.passed
			d.timer = time.AfterFunc(time.Until(t), func() { close(passed) })
		}
		return
	}
	if !over {
		close(d.passed)
	}
}

// wait returns what is closed when the deadline passes.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// isClosed reports whether c is closed, when nothing is ever sent on it.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
