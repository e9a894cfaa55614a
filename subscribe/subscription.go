package subscribe

import (
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A Subscription is one peer's subscription with us (§7.2): the snapshot that is
// still to be sent, and the changes since.
type Subscription struct {
	// What a change needs comes first: of thousands of subscriptions each is in no
	// cache.
	box     *Outbox
	corr    disco.Corr
	matcher record.Matcher

	// Guarded by box.mu.
	next           *Subscription // in line
	inLine         bool
	unacknowledged bool // the first RESULT has not been given
	cancelled      bool
	ahead          bool      // the peer may have more of pages than was given
	queue          []*shared // that wait, oldest first
	one            [1]*shared
	held           int                 // octets, see Outbox.charge
	pages          *pages              // until the last was given
	net            map[record.ID]state // what waited longest, merged
	rest           *work               // of a change that took more than one UPDATE; the writer's

	minInterval    time.Duration // not guarded
	maxQueued      int           // not guarded
	due            time.Time     // of the next UPDATE, with minInterval
	netLen         int           // octets that net is charged
	hides          int           // how often something waiting had to be hidden
	later, earlier *Subscription // of all

	hub *Hub
	at  int // in hub.subs; negative when cancelled; guarded by hub.mu
}

// subscriptionLen is about what one costs with its place in the hub, in octets.
const subscriptionLen = 384

// pages is a snapshot that is being sent.
type pages struct {
	snapshot *record.Snapshot
	pos      record.Position
}

// Corr returns the subscription's corr.
func (s *Subscription) Corr() disco.Corr { return s.corr }

// Cancel ends the subscription and drops what waits, but for the first RESULT,
// which still acknowledges it if it was not given yet [C24]. No UPDATE is given
// once Cancel has returned (§7.3). It is idempotent.
func (s *Subscription) Cancel() {
	s.hub.remove(s)
	s.purge()
}

func (s *Subscription) purge() {
	o := s.box
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.cancelled {
		return
	}
	s.cancelled = true
	for _, c := range s.queue {
		o.unshare(c)
	}
	s.queue, s.one, s.net, s.netLen = nil, [1]*shared{}, nil, 0
	o.charge(s, subscriptionLen+len(s.corr)-s.held)
	if !s.unacknowledged {
		s.leave()
		o.pull(s)
	}
}

// acknowledged notes that the first RESULT needs no more to be given. box.mu is
// held.
func (s *Subscription) acknowledged() {
	if s.unacknowledged {
		s.unacknowledged = false
		s.box.unacknowledged--
	}
}

// leave takes a cancelled subscription out of its outbox, which keeps nothing of
// it any more. box.mu is held.
func (s *Subscription) leave() {
	s.box.forget(s)
	s.box.charge(s, -s.held)
	s.pages = nil
	if s.rest != nil {
		s.finish(s.rest)
		s.rest = nil
	}
}

// wait returns how long the subscription's turn is held back. box.mu is held.
func (s *Subscription) wait() time.Duration {
	if s.minInterval <= 0 || s.pages != nil || s.rest != nil { // a zero due is long past
		return 0
	}
	return time.Until(s.due)
}

// enqueue takes a change that concerns the subscription, or one that hides
// something, and reports whether to call wake.
func (s *Subscription) enqueue(c *record.Change) bool {
	o := s.box
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.cancelled {
		return false
	}
	if c.Hides {
		s.hides++ // what is being encoded just now is made anew
		if s.done() && !concerns(c, &s.matcher) {
			return false
		}
	}
	if s.queue == nil {
		s.queue = s.one[:0]
	}
	s.queue = append(s.queue, o.share(c))
	o.charge(s, changeLen)
	switch {
	case c.Hides: // all that waits is merged before any of it is sent
		s.merge(len(s.queue))
		s.turn(c.After)
	case s.net != nil || len(s.queue) > s.maxQueued:
		s.merge(2) // so that the queue gets shorter, and no publisher pays for all of it at once
	}
	return o.push(s)
}

func concerns(c *record.Change, m *record.Matcher) bool {
	for i := range c.Deltas {
		if was, now := c.Deltas[i].Matches(m); was || now {
			return true
		}
	}
	return false
}

// turn makes a snapshot that is being sent go on with another version, from the
// record that would have been next. The changes that led there are not told of
// that record and those after it, for their pages show the outcome. box.mu is
// held, and nothing is in the queue.
func (s *Subscription) turn(after *record.Snapshot) {
	if s.pages == nil {
		return
	}
	if s.pages.pos.Done() { // an empty last page is due: what comes now is told after it
		s.pages.snapshot = after
		return
	}
	var from record.ID // before all, unless there is a next record
	if r, ok := s.pages.snapshot.At(s.pages.pos); ok {
		from = r.ID()
	}
	*s.pages = pages{after, after.Before(from)}
	if s.ahead {
		return // it may have been told of that record and those after it, as they were
	}
	octets := 0
	for id := range s.net {
		if id >= from {
			octets += settle(s.net, id, state{})
		}
	}
	s.netLen += octets
	s.box.charge(s, octets)
}

// Ahead says that the peer may get pages of the snapshot, if that is the one being
// sent, besides those that AppendFrame gives: by a QUERY with a cursor [C15]. It
// is called before such a page is made. What is hidden later is then told as
// withdrawn wherever the snapshot has got to.
func (s *Subscription) Ahead(of *record.Snapshot) {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	if s.pages != nil && s.pages.snapshot == of {
		s.ahead = true
	}
}

// A CursorFunc returns a cursor by which a QUERY with the subscription's filter
// gets what comes after a page of its snapshot [C15].
type CursorFunc func(*record.Snapshot, record.Position) disco.Cursor

// AppendFrame appends the subscription's next frame: a RESULT with a page of its
// snapshot, or an UPDATE. t is 0, and out is b, where there is nothing to send
// any more; more tells whether another frame waits, held back or not. cursor is
// called for each page but the last. The page bounds hold for UPDATEs too, each
// id counting as a record; what is longer than MaxRecordLen is treated as if it
// did not match. It belongs to the outbox's writer, and allocates nothing for an
// UPDATE that fits.
func (s *Subscription) AppendFrame(b []byte, page record.Page, cursor CursorFunc) (out []byte, t disco.Type, more bool) {
	o := s.box
	o.mu.Lock()
	o.pull(s)
	for t == 0 && !s.done() {
		if s.pages != nil {
			out, t = s.appendResult(b, page, cursor)
		} else {
			out, t = s.appendUpdate(b, page)
		}
	}
	if s.cancelled && s.held > 0 {
		s.leave()
	}
	if more = !s.done(); more {
		o.push(s) // the caller goes on: no need to wake it
	}
	o.mu.Unlock()
	if t == 0 {
		return b, 0, more
	}
	return out, t, more
}

// done reports whether nothing waits. box.mu is held.
func (s *Subscription) done() bool {
	if s.cancelled {
		return !s.unacknowledged
	}
	return s.pages == nil && s.rest == nil && len(s.queue) == 0 && s.net == nil
}

// appendResult appends the next page of the snapshot. box.mu is held, but not
// for the encoding; t is 0 if that was in vain.
func (s *Subscription) appendResult(b []byte, page record.Page, cursor CursorFunc) (out []byte, t disco.Type) {
	if s.cancelled { // it is told of nothing any more: what there is now acknowledges it
		*s.pages = pages{snapshot: s.hub.source.Snapshot()}
	}
	from := *s.pages
	s.box.mu.Unlock()
	n, _, next := from.snapshot.Page(&s.matcher, from.pos, page)
	last := next.Done()
	var cur disco.Cursor
	if !last {
		cur = cursor(from.snapshot, next)
	}
	b = disco.AppendResultHead(b, s.corr, n, last)
	b = from.snapshot.AppendRange(b, &s.matcher, from.pos, next, page.MaxRecordLen)
	b = disco.AppendResultTail(b, last, cur)
	s.box.mu.Lock()
	switch {
	case s.pages == nil || *s.pages != from, // cancelled, or something on it was hidden meanwhile
		s.cancelled && s.hub.source.Snapshot().Disclosure() != from.snapshot.Disclosure():
		return nil, 0
	}
	s.acknowledged()
	if s.pages.pos = next; last {
		s.pages = nil
		s.box.paging--
	}
	return b, disco.TypeResult
}

// appendUpdate appends an UPDATE of what waits. box.mu is held, but not for
// encoding more than little; t is 0 if that was in vain, or there was nothing to tell.
func (s *Subscription) appendUpdate(b []byte, page record.Page) (out []byte, t disco.Type) {
	if c := s.small(); c != nil {
		w := work{change: c.Change, maxRecordLen: page.MaxRecordLen}
		out, t = w.appendOne(b, s.corr, &s.matcher)
		s.pop()
		s.box.charge(s, -changeLen)
		s.box.unshare(c)
		return out, t
	}
	w := s.take(page)
	s.box.mu.Unlock()
	w.prepare(&s.matcher)
	added, withdrawn := w.added, w.withdrawn
	out, t = w.append(b, s.corr, &s.matcher, page)
	s.box.mu.Lock()
	switch {
	case s.cancelled:
		s.finish(&w)
		return nil, 0
	case s.hides != w.hides: // what was encoded may have been hidden meanwhile
		w.added, w.withdrawn = added, withdrawn
		s.before(&w)
		return nil, 0
	case w.done():
		s.finish(&w)
	default:
		rest := w // here, for it escapes
		s.rest = &rest
	}
	if s.minInterval > 0 && s.rest == nil && t != 0 {
		s.due = time.Now().Add(s.minInterval)
	}
	return out, t
}
