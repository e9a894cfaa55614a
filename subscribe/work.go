package subscribe

import (
	"slices"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// state is what the merged changes come to for one record_id: what the peer has
// been told and what there is.
type state struct {
	was int           // octets of the record that the peer was told of; 0: none
	now record.Record // that matches; zero: none
}

// What waits costs, beyond its octets, roughly.
const (
	changeLen = 8
	stateLen  = 120
)

// merge takes up to n changes out of the queue, oldest first, into the net
// state. box.mu is held.
func (s *Subscription) merge(n int) {
	if s.net == nil {
		s.net = make(map[record.ID]state)
	}
	for ; n > 0 && len(s.queue) > 0; n-- {
		c := s.pop()
		octets := fold(s.net, c.Change, &s.matcher)
		s.netLen += octets
		s.box.charge(s, octets-changeLen)
		s.box.unshare(c)
	}
}

// fold makes a change part of a net state and returns by how many octets that
// has grown.
func fold(net map[record.ID]state, c *record.Change, m *record.Matcher) (octets int) {
	for i := range c.Deltas {
		d := &c.Deltas[i]
		was, now := d.Matches(m)
		if !was && !now {
			continue
		}
		st, ok := net[d.ID]
		if !ok && was {
			st.was = d.Was.Len()
		}
		if st.now = (record.Record{}); now {
			st.now = d.Now
		}
		octets += settle(net, d.ID, st)
	}
	return octets
}

// settle sets the net state of a record_id, and returns by how many octets that has
// grown. One that is as if nothing had happened is dropped: what came and went
// is not told.
func settle(net map[record.ID]state, id record.ID, st state) (octets int) {
	if old, ok := net[id]; ok {
		octets -= stateLen + len(id) + old.now.Len()
	}
	if st.was == 0 && st.now.IsZero() {
		delete(net, id)
		return octets
	}
	net[id] = st
	return octets + stateLen + len(id) + st.now.Len()
}

// before puts what is not sent of w into the net state, as having happened
// before all that is in it. box.mu is held.
func (s *Subscription) before(w *work) {
	s.merge(len(s.queue))
	octets := 0
	for k := range w.len() {
		id, st := w.at(k, &s.matcher)
		if sent := k < w.added && w.adds(st) || k < w.withdrawn && w.withdraws(st); sent || st == (state{}) {
			continue
		}
		if later, ok := s.net[id]; ok {
			st.now = later.now
		}
		octets += settle(s.net, id, st)
	}
	s.netLen += octets
	s.box.charge(s, octets)
	s.finish(w)
}

// finish gives back what w was charged for. box.mu is held.
func (s *Subscription) finish(w *work) {
	if s.held > 0 { // else it has left, and all of it was given back
		s.box.charge(s, -w.octets)
	}
	if w.one != nil {
		s.box.unshare(w.one)
	}
	for _, c := range w.queue {
		s.box.unshare(c)
	}
}

// pop takes the oldest change out of the queue. box.mu is held.
func (s *Subscription) pop() *shared {
	c := s.queue[0]
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil // an idle subscription keeps no room but for one
	}
	return c
}

// small returns what is next where that is one change of one small record, nil
// otherwise. It is encoded in less time than the mutex takes to be given back and
// taken again: that is a third of BenchmarkAppendFrame. box.mu is held.
func (s *Subscription) small() *shared {
	const maxLen = 1 << 10
	if s.rest != nil || s.net != nil || s.minInterval > 0 {
		return nil
	}
	c := s.queue[0]
	if len(c.Deltas) > 1 || c.Deltas[0].Now.Len() > maxLen {
		return nil
	}
	return c
}

// take returns what to send next, to be prepared. box.mu is held.
func (s *Subscription) take(page record.Page) (w work) {
	if w := s.rest; w != nil {
		s.rest = nil
		if w.hides == s.hides {
			return *w
		}
		s.before(w)
	}
	w = work{hides: s.hides, maxRecordLen: page.MaxRecordLen}
	if s.net == nil && (s.minInterval <= 0 || len(s.queue) == 1) {
		w.one = s.pop()
		w.change, w.octets = w.one.Change, changeLen
		return w
	}
	w.merges, w.net, w.octets = true, s.net, s.netLen
	s.net, s.netLen = nil, 0
	for len(s.queue) > 0 {
		w.queue = append(w.queue, s.pop())
		w.octets += changeLen
	}
	return w
}

// work is what UPDATEs are made of: one change, or a net state. Its records are
// sent before its withdrawals.
type work struct {
	change           *record.Change      // one, or
	merges           bool                // more, to be prepared:
	net              map[record.ID]state // what was merged already, and
	queue            []*shared           // what came later, are made
	items            []item              // ascending
	one              *shared             // that change is
	added, withdrawn int                 // where to go on looking for each
	octets           int                 // that it was charged for
	hides            int                 // Subscription.hides when it was taken
	maxRecordLen     int                 // of the page
}

type item struct {
	id record.ID
	state
}

func (w *work) len() int {
	if w.change != nil {
		return len(w.change.Deltas)
	}
	return len(w.items)
}

// at returns the k-th record_id and what happened to it in the subscriber's
// eyes; the zero state for nothing.
func (w *work) at(k int, m *record.Matcher) (id record.ID, st state) {
	if w.change == nil {
		return w.items[k].id, w.items[k].state
	}
	d := &w.change.Deltas[k]
	was, now := d.Matches(m)
	if was {
		st.was = d.Was.Len()
	}
	if now {
		st.now = d.Now
	}
	return d.ID, st
}

// prepare makes items of what is to be merged. It needs no lock.
func (w *work) prepare(m *record.Matcher) {
	if !w.merges {
		return
	}
	if w.net == nil {
		w.net = make(map[record.ID]state)
	}
	for _, c := range w.queue {
		fold(w.net, c.Change, m)
	}
	w.items = make([]item, 0, len(w.net))
	for id, st := range w.net {
		w.items = append(w.items, item{id, st})
	}
	slices.SortFunc(w.items, func(a, b item) int { return strings.Compare(string(a.id), string(b.id)) })
	w.merges, w.net = false, nil
}

// adds and withdraws report what a state means to the subscriber. A record that
// is too long to be sent is as good as none.
func (w *work) adds(st state) bool { return !st.now.IsZero() && w.fits(st.now.Len()) }

func (w *work) withdraws(st state) bool { return st.was > 0 && w.fits(st.was) && !w.adds(st) }

func (w *work) fits(n int) bool { return w.maxRecordLen <= 0 || n <= w.maxRecordLen }

func (w *work) done() bool { return w.added == w.len() && w.withdrawn == w.len() }

// append appends the next UPDATE; t is 0 if there is nothing to tell.
func (w *work) append(b []byte, corr disco.Corr, m *record.Matcher, page record.Page) (out []byte, t disco.Type) {
	if w.change != nil && len(w.change.Deltas) == 1 { // nearly every UPDATE
		return w.appendOne(b, corr, m)
	}
	room := room{page: page}
	var numAdded, numWithdrawn int
	added, withdrawn := w.added, w.withdrawn
	for ; added < w.len(); added++ {
		if _, st := w.at(added, m); w.adds(st) {
			if !room.take(st.now.Len()) {
				break
			}
			numAdded++
		}
	}
	for ; added == w.len() && withdrawn < w.len(); withdrawn++ {
		if id, st := w.at(withdrawn, m); w.withdraws(st) {
			if !room.take(dcbor.HeadLen(uint64(len(id))) + len(id)) {
				break
			}
			numWithdrawn++
		}
	}
	if numAdded+numWithdrawn > 0 {
		t = disco.TypeUpdate
		b = disco.AppendUpdateHead(b, corr, numAdded > 0, numWithdrawn > 0)
	}
	if numAdded > 0 {
		b = disco.AppendAdded(b, numAdded)
		for k := w.added; k < added; k++ {
			if _, st := w.at(k, m); w.adds(st) {
				b = st.now.AppendTo(b)
			}
		}
	}
	if numWithdrawn > 0 {
		b = disco.AppendWithdrawn(b, numWithdrawn)
		for k := w.withdrawn; k < withdrawn; k++ {
			if id, st := w.at(k, m); w.withdraws(st) {
				b = dcbor.AppendBytes(b, id)
			}
		}
	}
	w.added, w.withdrawn = added, withdrawn
	return b, t
}

// appendOne is append for one change of one record, which needs no look at the
// page: the first item has room.
func (w *work) appendOne(b []byte, corr disco.Corr, m *record.Matcher) (out []byte, t disco.Type) {
	id, st := w.at(0, m)
	w.added, w.withdrawn = 1, 1
	switch {
	case w.adds(st):
		b = disco.AppendAdded(disco.AppendUpdateHead(b, corr, true, false), 1)
		return st.now.AppendTo(b), disco.TypeUpdate
	case w.withdraws(st):
		b = disco.AppendWithdrawn(disco.AppendUpdateHead(b, corr, false, true), 1)
		return dcbor.AppendBytes(b, id), disco.TypeUpdate
	}
	return b, 0
}

// room is what is taken of a page.
type room struct {
	page      record.Page
	n, octets int
}

// take makes place for an item of n octets and reports whether there is any.
// The first has.
func (r *room) take(n int) bool {
	if r.n > 0 && (r.page.MaxRecords > 0 && r.n >= r.page.MaxRecords || r.page.MaxLen > 0 && r.octets+n > r.page.MaxLen) {
		return false
	}
	r.n, r.octets = r.n+1, r.octets+n
	return true
}
