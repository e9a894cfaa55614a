package subscribe

import (
	"sync"
	"time"

	"github.com/npamp/disco/record"
)

// An Outbox is what one association has to send of its subscriptions, of
// whichever hub: a line of those that have something, first come first served.
type Outbox struct {
	wake, flush func()

	mu     sync.Mutex
	first  *Subscription // the line, by Subscription.next
	last   *Subscription
	called bool          // wake was called, and Next has not returned nil since
	all    *Subscription // every subscription that has something to keep, by later and earlier
	held   int           // octets that they keep
	paging int           // how many of all have a snapshot to send

	unacknowledged int // how many of all have not given their first RESULT

	newest *shared // of what waits; for share
}

// NewOutbox returns an empty outbox. wake is called when there is something new
// to send, or to set a timer for (see Deadline), and the writer had taken all
// before. It must not block, nor call the source, the hub or the outbox.
func NewOutbox(wake func()) *Outbox { return &Outbox{wake: wake, flush: wake} }

// SetFlush sets what is called instead of wake where a change concerns the
// subscriptions of many associations: it may take its time to send what there is,
// but not wait for the peer. Call it before the first Subscribe.
func (o *Outbox) SetFlush(flush func()) { o.flush = flush }

// Next returns the subscription whose turn it is, or nil if none has anything to
// send now. It is for AppendFrame, which moves it to the end of the line.
func (o *Outbox) Next() *Subscription {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := o.first; s != nil; s = s.next {
		if s.wait() <= 0 {
			return s
		}
	}
	o.called = false
	return nil
}

// Deadline returns when the first of the subscriptions that MinInterval holds
// back has its turn, and whether there is one. Call it after Next has returned
// nil, and Next again when that time has come.
func (o *Outbox) Deadline() (t time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := o.first; s != nil; s = s.next {
		if !ok || s.due.Before(t) {
			t, ok = s.due, true
		}
	}
	return t, ok
}

// Memory returns roughly what the association's subscriptions keep, in octets:
// themselves, the changes that wait in their queues, each once, what these came
// to where they were merged, and what their snapshots keep that the source has
// no use for any more.
func (o *Outbox) Memory() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.held
	left := o.paging // newest first, so they are found soon
	for s := o.all; s != nil && left > 0; s = s.later {
		if s.pages != nil {
			n += s.pages.snapshot.Held()
			left--
		}
	}
	return n
}

// Close cancels all its subscriptions and drops what there was to send. The
// outbox is not to be used any more.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.all != nil {
		s := o.all
		s.acknowledged()
		o.pull(s)
		if s.cancelled {
			s.leave()
			continue
		}
		o.mu.Unlock()
		s.Cancel()
		o.mu.Lock()
	}
}

// Unacknowledged returns the number of subscriptions, cancelled ones too, whose
// first RESULT has not been given. A peer that subscribes and cancels without
// reading makes no others pile up.
func (o *Outbox) Unacknowledged() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unacknowledged
}

// add takes in a new subscription and reports whether to call wake.
func (o *Outbox) add(s *Subscription) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.later = o.all; s.later != nil {
		s.later.earlier = s
	}
	o.all = s
	o.paging++
	o.unacknowledged++
	o.charge(s, subscriptionLen+len(s.corr))
	return o.push(s)
}

// forget takes a cancelled one out. o.mu is held, as in all below.
func (o *Outbox) forget(s *Subscription) {
	if s.pages != nil {
		o.paging--
	}
	if s.earlier != nil {
		s.earlier.later = s.later
	} else {
		o.all = s.later
	}
	if s.later != nil {
		s.later.earlier = s.earlier
	}
	s.earlier, s.later = nil, nil
}

// push puts the subscription at the end of the line, unless it is in it, and
// reports whether to call wake.
func (o *Outbox) push(s *Subscription) bool {
	if !s.inLine {
		s.inLine = true
		if o.last == nil {
			o.first = s
		} else {
			o.last.next = s
		}
		o.last = s
	}
	wake := !o.called
	o.called = true
	return wake
}

// pull takes the subscription out of the line, if it is in it.
func (o *Outbox) pull(s *Subscription) {
	if !s.inLine {
		return
	}
	var before *Subscription
	for x := o.first; x != s; x = x.next {
		before = x
	}
	if before == nil {
		o.first = s.next
	} else {
		before.next = s.next
	}
	if o.last == s {
		o.last = before
	}
	s.next, s.inLine = nil, false
}

// charge accounts for n octets more that s keeps, or less.
func (o *Outbox) charge(s *Subscription, n int) {
	s.held += n
	o.held += n
}

// shared is a change that waits in queues of one outbox, which is charged for it
// once.
type shared struct {
	*record.Change
	users int // subscriptions that have it; none: Change is nil
}

// share returns what stands for the change in a queue. Those who share it ask
// one after the other, so that only the newest has to be looked at.
func (o *Outbox) share(c *record.Change) *shared {
	switch x := o.newest; {
	case x == nil || x.users > 0 && x.Change != c:
		o.newest = &shared{Change: c}
		o.held += c.Octets()
	case x.users == 0:
		x.Change = c
		o.held += c.Octets()
	}
	o.newest.users++
	return o.newest
}

// unshare gives back what share returned.
func (o *Outbox) unshare(x *shared) {
	if x.users--; x.users == 0 {
		o.held -= x.Octets()
		x.Change = nil
	}
}
