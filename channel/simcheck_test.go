package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

// ---- what an end shows to who asks

// other is the end that answers this one.
func (e *simEnd) other() *simEnd { return e.link.ends[e.side.Other()] }

// state returns the record with the id in a version, zero for none, as far as it
// matches and can be sent.
func (e *simEnd) state(version int, f record.Filter, id record.ID) record.Record {
	v := e.versions[version]
	i, ok := slices.BinarySearchFunc(v, id, func(r record.Record, id record.ID) int {
		switch got := r.ID(); {
		case got < id:
			return -1
		case got > id:
			return 1
		}
		return 0
	})
	if !ok || !simMatches(f, v[i]) || !e.sendable(v[i]) {
		return record.Record{}
	}
	return v[i]
}

func (e *simEnd) sendable(r record.Record) bool {
	return r.Len() <= e.link.s.lim.MaxFrameLen-resultOverhead
}

// matching returns what of a version matches, and whether all of it can be sent.
func (e *simEnd) matching(version int, f record.Filter) (recs []record.Record, whole bool) {
	whole = true
	for _, r := range e.versions[version] {
		if !simMatches(f, r) {
			continue
		}
		if !e.sendable(r) {
			whole = false
			continue
		}
		recs = append(recs, r)
	}
	return recs, whole
}

// showed reports whether the end showed the record, as it is, at any time.
func (e *simEnd) showed(r record.Record) bool {
	for v := range e.versions {
		if e.state(v, record.Filter{}, r.ID()) == r {
			return true
		}
	}
	return false
}

// A simTrack follows what one view says of each record through the versions of
// what is shown: it never goes back.
type simTrack struct {
	end    *simEnd // that shows
	filter record.Filter
	at     []int // by simIndex
}

func newSimTrack(end *simEnd, f record.Filter) *simTrack {
	t := &simTrack{end: end, filter: f, at: make([]int, end.link.s.cfg.records)}
	for i := range t.at {
		t.at[i] = end.latest()
	}
	return t
}

// goesTo reports whether the record was like that at some moment that is not
// before the last one.
func (t *simTrack) goesTo(id record.ID, r record.Record) bool {
	i := simIndex(id)
	for v := t.at[i]; v <= t.end.latest(); v++ {
		if t.end.state(v, t.filter, id) == r {
			t.at[i] = v
			return true
		}
	}
	return false
}

// ---- calls

// A simCall is a Query, QueryPage, Records or Announce under way.
type simCall struct {
	end      *simEnd // of who asks
	kind     int
	query    Query
	began    int // the version shown then
	since    time.Time
	cancel   context.CancelFunc
	canceled bool

	mu   sync.Mutex
	done bool
	list []record.Record
	all  bool // list is the whole
	err  error

	over bool // seen to be done
}

func (c *simCall) String() string {
	return fmt.Sprintf("%s of %v, filter %+v, tolerant %v", [...]string{"Query", "QueryPage", "Records", "Announce"}[c.kind],
		c.end, c.query.Filter, c.query.Tolerant)
}

func (s *sim) newCall(e *simEnd, kind int, run func(context.Context, *simCall)) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &simCall{end: e, kind: kind, began: e.other().latest(), since: time.Now(), cancel: cancel}
	s.calls = append(s.calls, c)
	go run(ctx, c)
}

func (c *simCall) finish(list []record.Record, all bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.all, c.err, c.done = list, all, err, true
}

func (c *simCall) stop() {
	c.canceled = true
	c.cancel()
}

func (s *sim) query(a, b, c int) {
	e := s.links.at(a).ends[b%2]
	q := Query{Filter: simFilters[c%len(simFilters)], Tolerant: c%7 == 0}
	kind := c % 3
	s.newCall(e, kind, func(ctx context.Context, c *simCall) {
		switch kind {
		case 0:
			l, err := e.peer.Query(ctx, q)
			if err != nil {
				c.finish(nil, false, err)
				return
			}
			c.finish(l.Records, true, nil)
		case 1:
			p, err := e.peer.QueryPage(ctx, q)
			if err != nil {
				c.finish(nil, false, err)
				return
			}
			c.finish(p.Records, p.Complete, nil)
		case 2:
			var list []record.Record
			for r, err := range e.peer.Records(ctx, q) {
				if err != nil {
					c.finish(list, false, err)
					return
				}
				list = append(list, r)
			}
			c.finish(list, true, nil)
		}
	})
	s.calls[len(s.calls)-1].query = q
}

func (s *sim) announce(a, b, c int) {
	l := s.links.at(a)
	e := l.ends[b%2]
	recs := e.versions[e.latest()]
	if n := len(recs); n > 0 {
		recs = recs[:1+c%n]
	}
	recs = slices.DeleteFunc(slices.Clone(recs), func(r record.Record) bool { return !e.sendable(r) })
	l.rules.mu.Lock()
	l.rules.sides[b%2].announcing++
	l.rules.mu.Unlock()
	s.newCall(e, 3, func(ctx context.Context, c *simCall) {
		_, err := e.peer.Announce(ctx, recs)
		c.finish(nil, false, err)
	})
}

func (s *sim) cancel(a, _, _ int) {
	if len(s.calls) > 0 {
		s.calls[a%len(s.calls)].stop()
	}
}

// returned looks at a call that has.
func (s *sim) returned(c *simCall) {
	shows := c.end.other()
	if c.err != nil && !s.excused(c.err, c.end, c.since) && !(c.canceled && errors.Is(c.err, context.Canceled)) {
		s.fail("%v: %v", c, c.err)
		return
	}
	if c.kind == 3 || c.err != nil && len(c.list) == 0 {
		return
	}
	for v := c.began; v <= shows.latest(); v++ {
		want, whole := shows.matching(v, c.query.Filter)
		if !whole && !c.query.Tolerant {
			continue
		}
		if c.all && slices.Equal(c.list, want) ||
			!c.all && len(c.list) <= len(want) && slices.Equal(c.list, want[:len(c.list)]) {
			return
		}
	}
	last, _ := shows.matching(shows.latest(), c.query.Filter)
	s.fail("%v: %v (all: %v) was at no moment from version %d to %d, which is %v",
		c, simNames(c.list), c.all, c.began, shows.latest(), simNames(last))
}

// excused reports whether an error is what may come here.
func (s *sim) excused(err error, e *simEnd, since time.Time) bool {
	l := e.link
	over := l.over || l.ends[0].closing() || l.ends[1].closing() // whether it had to end is looked at in ended
	answers := e.other().peer.Stats()
	lim := &s.lim
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return over
	case errors.Is(err, errUnsent) && lim.MaxUnsent < 100:
		return true // the end follows
	case errors.Is(err, errStalled), errors.Is(err, errUnsent), errors.Is(err, errUnread), errors.Is(err, association.ErrWriteTimeout):
		return over
	case errors.Is(err, ErrNotAdvertised):
		return s.cfg.disabled == FeatureDiscovery && e.side == channeltest.B
	case errors.Is(err, ErrTimeout):
		return time.Since(since) >= lim.RequestTimeout
	case errors.Is(err, ErrLimit):
		return s.cfg.limits == 3 || s.cfg.limits == 4 || lim.MaxBarren > 0 && l.doubled
	}
	var malformed *disco.PayloadError
	if errors.As(err, &malformed) {
		return l.spoiled
	}
	switch disco.CodeOf(err) {
	case disco.CodeMalformedPayload:
		return l.spoiled
	case disco.CodeUnknownRecordKind:
		return lim.MaxFrameLen < 1200
	case disco.CodeFilterUnsupported:
		return s.cfg.disabled != 0
	case disco.CodeStaleCursor:
		return answers.StaleCursors > 0
	case disco.CodeSubscriptionRefused:
		return answers.SubsRefused+answers.RateLimited+answers.Overloaded > 0 || s.cfg.disabled != 0
	case disco.CodeNotAdvertised:
		return answers.RateLimited+answers.Overloaded > 0 || s.cfg.disabled == FeatureDiscovery
	}
	return over // the transport's own
}

// ---- subscriptions

// A simSub is a subscription, and what it has told.
type simSub struct {
	end    *simEnd
	filter record.Filter
	mode   int
	sub    *Subscription
	self   atomic.Pointer[Subscription]
	since  time.Time
	quit   atomic.Bool // it was given up

	mu     sync.Mutex
	gate   chan bool // closed: the handler may go on
	events []Event
	heard  int // events so far

	seen   *simTrack // of the view
	heeded *simTrack // of the events
	model  map[record.ID]record.Record
	synced bool
	told   bool // of its end
}

const (
	modePlain  = iota
	modeSlow   // the handler waits to be let go
	modeNosy   // it calls methods
	modeQuits  // it unsubscribes
	modeCloses // it closes the peer
	numModes
)

func (u *simSub) String() string {
	return fmt.Sprintf("subscription of %v, filter %+v, mode %d", u.end, u.filter, u.mode)
}

func (s *sim) subscribe(a, b, c int) {
	e := s.links.at(a).ends[b%2]
	u := &simSub{end: e, filter: simFilters[c%len(simFilters)], since: time.Now(), model: map[record.ID]record.Record{}}
	if m := c / 11 % 12; m < numModes {
		u.mode = m
	}
	if u.mode == modeCloses && c%5 > 0 {
		u.mode = modePlain
	}
	u.gate = make(chan bool)
	u.free(u.mode != modeSlow)
	shows := e.other()
	u.seen, u.heeded = newSimTrack(shows, u.filter), newSimTrack(shows, u.filter)
	sub, err := e.peer.Subscribe(u.filter, u.handle)
	if err != nil {
		if full := e.peer.Stats().Own >= s.lim.MaxOwnSubscriptions && errors.Is(err, ErrLimit); !full && !s.excused(err, e, u.since) {
			s.fail("%v: %v", u, err)
		}
		return
	}
	u.sub = sub
	u.self.Store(sub)
	s.subs = append(s.subs, u)
}

func (u *simSub) handle(e Event) {
	u.mu.Lock()
	u.events = append(u.events, e)
	u.heard++
	n, gate := u.heard, u.gate
	u.mu.Unlock()
	<-gate
	sub, p := u.self.Load(), u.end.peer
	if sub == nil {
		return
	}
	switch u.mode {
	case modeNosy:
		sub.Len()
		sub.Digest()
		p.Stats()
		p.Lookup(e.ID)
		p.Cached()
		sub.Err()
	case modeQuits:
		if n > 3 {
			u.quit.Store(true)
			sub.Unsubscribe()
		}
	case modeCloses:
		if n == 5 {
			u.quit.Store(true) // see check
			p.Close()
		}
	}
}

// free lets the handler go on, from now on or, if it is slow, up to now.
func (u *simSub) free(forGood bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.gate:
	default:
		close(u.gate)
	}
	if !forGood {
		u.gate = make(chan bool)
	}
}

func (s *sim) unsubscribe(a, _, _ int) {
	if len(s.subs) > 0 {
		u := s.subs[a%len(s.subs)]
		u.quit.Store(true)
		u.sub.Unsubscribe()
	}
}

func (s *sim) release(a, _, c int) {
	if len(s.subs) > 0 {
		s.subs[a%len(s.subs)].free(c%2 == 0)
	}
}

// follow takes what a subscription has told since the last time.
func (s *sim) follow(u *simSub) {
	u.mu.Lock()
	events := u.events
	u.events = nil
	u.mu.Unlock()
	wrong := func(e Event, why string) {
		s.fail("%v: %v %s@%d (was %d): %s", u, e.Kind, e.ID, revisionOf(e.Record), e.Was, why)
	}
	for _, e := range events {
		was, held := u.model[e.ID]
		switch {
		case u.told:
			wrong(e, "after the end")
			return
		case e.Kind == EventSnapshot && u.synced:
			wrong(e, "after Synced")
		case e.Kind == EventSnapshot, e.Kind == EventAdded:
			if held {
				wrong(e, "it was there")
			}
		case e.Kind == EventReplaced:
			if !held || was.Revision() != e.Was || e.Record.Revision() <= e.Was {
				wrong(e, fmt.Sprintf("held is %d", revisionOf(was)))
			}
		case e.Kind == EventWithdrawn:
			if !held || was.Revision() != e.Was {
				wrong(e, fmt.Sprintf("held is %d", revisionOf(was)))
			}
		}
		switch e.Kind {
		case EventSnapshot, EventAdded, EventReplaced:
			if !u.heeded.goesTo(e.ID, e.Record) {
				wrong(e, "it was never like that, or has been followed by something else")
			}
			u.model[e.ID] = e.Record
		case EventWithdrawn:
			if !u.heeded.goesTo(e.ID, record.Record{}) {
				wrong(e, "it was always there")
			}
			delete(u.model, e.ID)
		case EventSynced:
			if u.synced {
				wrong(e, "twice")
			}
			u.synced = true
		case EventReset:
			clear(u.model)
			u.synced = false
			refused := u.end.other().peer.Stats()
			if !u.end.link.spoiled && refused.StaleCursors+refused.RateLimited+refused.Overloaded == 0 && s.cfg.disabled != FeatureCursor {
				wrong(e, "nothing was lost: "+fmt.Sprint(e.Err))
			}
		case EventEnded:
			u.told = true
			if e.Err != u.sub.Err() {
				wrong(e, fmt.Sprint("another end than ", u.sub.Err()))
			}
			if !(errors.Is(e.Err, ErrUnsubscribed) && u.quit.Load()) && !s.excused(e.Err, u.end, u.since) {
				wrong(e, e.Err.Error())
			}
		}
	}
	if u.sub.Err() != nil {
		if n := u.sub.Len(); n != 0 {
			s.fail("%v has ended and shows %d records", u, n)
		}
		return
	}
	live := !u.sub.Stale()
	recs := u.sub.Records()
	if live && u.sub.Stale() {
		return // it changes just now
	}
	for i := range s.cfg.records {
		id, now := simID(i), record.Record{}
		if len(recs) > 0 && recs[0].ID() == id {
			now, recs = recs[0], recs[1:]
		} else if !live {
			continue // it may be still to come
		}
		if !u.seen.goesTo(id, now) {
			s.fail("%v shows %s@%d: it was never like that, or has been followed by something else", u, id, revisionOf(now))
		}
	}
	if len(recs) > 0 {
		s.fail("%v: records twice, or not in order: %v", u, simNames(recs))
	}
}

func revisionOf(r record.Record) uint64 {
	if r.IsZero() {
		return 0
	}
	return r.Revision()
}

// ---- all of it

// collect takes what calls and subscriptions have come to.
func (s *sim) collect() {
	for _, c := range s.calls {
		c.mu.Lock()
		done := c.done
		c.mu.Unlock()
		if done && !c.over {
			c.over = true
			c.cancel()
			s.returned(c)
		}
	}
	for _, u := range s.subs {
		s.follow(u)
	}
}

// compare compares, at rest, what all ends know with what is shown to them.
func (s *sim) compare() {
	for _, u := range s.subs {
		if !u.end.link.live() || u.sub.Err() != nil {
			continue
		}
		shows := u.end.other()
		want, _ := shows.matching(shows.latest(), u.filter)
		if got := u.sub.Records(); !slices.Equal(got, want) {
			s.fail("%v shows %v, not %v", u, simNames(got), simNames(want))
		}
		if u.sub.Digest() != record.Digest(slices.Values(want)) || u.sub.Len() != len(want) || u.sub.Stale() {
			s.fail("%v: digest, length or state", u)
		}
		if !u.synced || len(u.model) != len(want) {
			s.fail("%v: events came to %d records (synced: %v), not %d", u, len(u.model), u.synced, len(want))
		}
		for _, r := range want {
			if u.model[r.ID()] != r {
				s.fail("%v: events came to %s@%d, not %d", u, r.ID(), revisionOf(u.model[r.ID()]), r.Revision())
			}
			if got, ok := u.sub.Get(r.ID()); !ok || got != r {
				s.fail("%v: Get(%s)", u, r.ID())
			}
		}
	}
	for _, l := range s.links {
		if !l.live() {
			continue
		}
		for i, e := range l.ends {
			for _, r := range e.peer.Cached() {
				if !e.other().showed(r) {
					s.fail("%v has learned %s@%d, which was never shown to it", e, r.ID(), r.Revision())
				}
			}
			if err := l.balance(e, &l.rules.sides[i], &l.rules.sides[1-i]); err != nil {
				s.fail("%v, at rest: %v", e, err)
			}
		}
	}
	for i, n := range s.nodes {
		subs := 0
		for _, e := range n.ends {
			if e.peer.mine == nil {
				subs += e.peer.Stats().Subscriptions
			} else if k := e.peer.hub.Len(); k != e.peer.Stats().Subscriptions {
				s.fail("%v: its hub has %d subscriptions, it has %d", e, k, e.peer.Stats().Subscriptions)
			}
		}
		if k := n.hub.Len(); k != subs {
			s.fail("the hub of node %d has %d subscriptions, its peers %d", i, k, subs)
		}
	}
}

// balance holds the counters of an end against what was seen on the way.
func (l *simLink) balance(e *simEnd, mine, others *simSide) error {
	st, other := e.peer.Stats(), e.other().peer.Stats()
	l.rules.mu.Lock()
	defer l.rules.mu.Unlock()
	clean := !l.rules.damaged
	sum := func(n []uint64) (t uint64) {
		for _, v := range n {
			t += v
		}
		return t
	}
	for what, wrong := range map[string]bool{
		"FramesOut":                   st.FramesOut != mine.out,
		"FramesIn":                    st.FramesIn != mine.in,
		"frames under way":            clean && mine.out != others.in,
		"Outstanding":                 st.Outstanding != 0,
		"Unanswered":                  st.Unanswered != 0,
		"Unsent":                      st.Unsent != 0,
		"ErrorsOut":                   sum(st.ErrorsOut[:]) != st.FramesOut[disco.TypeError-disco.TypeQuery],
		"ErrorsIn":                    clean && sum(st.ErrorsIn[:]) != st.FramesIn[disco.TypeError-disco.TypeQuery],
		"Own and Subscriptions":       clean && st.Own != other.Subscriptions,
		"Malformed":                   clean && st.Malformed != 0,
		"DuplicateCorr":               clean && st.DuplicateCorr != 0,
		"Bogus":                       clean && l.s.lim.MaxRetired >= 1000 && st.Bogus != 0,
		"UncorrelatedError":           clean && st.UncorrelatedError != 0,
		"EarlyUpdate, EmptyUpdate":    clean && st.EarlyUpdate+st.EmptyUpdate != 0,
		"Overbroad, RevisionConflict": st.Overbroad+st.RevisionConflict != 0,
		"DuplicateRecord":             clean && !l.rules.push[0] && st.DuplicateRecord != 0,
		"Snapshots":                   st.Snapshots > l.s.lim.MaxSnapshots,
		"Cached":                      st.Cached != len(e.peer.Cached()) || st.Cached > l.s.lim.MaxCacheRecords,
		"announcements": clean && l.s.lim.MaxQueuedEvents > 1000 && l.s.cfg.disabled != FeatureDiscovery &&
			uint64(e.told.Load())+st.UntoldAnnouncements != st.FramesIn[disco.TypeAnnounce-disco.TypeQuery],
	} {
		if wrong {
			return fmt.Errorf("%s: %+v", what, st)
		}
	}
	for corr := range mine.open {
		return fmt.Errorf("no answer to QUERY %v", corr)
	}
	if clean {
		served := 0
		for corr, sub := range mine.subs {
			if !sub.acknowledged {
				return fmt.Errorf("no answer to SUBSCRIBE %v", corr)
			}
			if !sub.cancelled {
				served++
			}
		}
		if served != st.Subscriptions {
			return fmt.Errorf("%d subscriptions were not cancelled: %+v", served, st)
		}
	}
	return e.held()
}

// held holds the octets accounted for against those that are there.
func (e *simEnd) held() error {
	p := e.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, x := range p.own.all() {
		if s, ok := x.(*Subscription); ok {
			n += s.view.Memory()
			if s.next != nil {
				n += s.next.Memory()
			}
		}
	}
	for s := range p.stale {
		n += s.view.Memory()
		if s.next != nil {
			n += s.next.Memory()
		}
	}
	if p.held != n {
		return fmt.Errorf("accounted for %d octets in views, there are %d", p.held, n)
	}
	return nil
}

// check waits until nothing moves and takes what has happened.
func (s *sim) check() {
	synctest.Wait()
	for _, l := range s.links {
		l.rules.rest()
		if err := l.rules.err(); err != nil {
			s.fail("%v", err)
		}
		for _, e := range l.ends {
			select {
			case <-e.peer.Done():
				l.ended()
			default:
			}
		}
	}
	s.collect()
}

// ended takes the end of an association that may not have been asked for.
func (l *simLink) ended() {
	if l.over {
		l.dead = true
		return
	}
	for _, u := range l.s.subs {
		if u.end.link == l && u.mode == modeCloses && u.quit.Load() {
			l.over, l.dead = true, true
			return
		}
	}
	done := 0
	var causes []error
	for _, e := range l.ends {
		select {
		case <-e.peer.Done():
		default:
			continue
		}
		done++
		err := e.peer.Wait()
		causes = append(causes, err)
		if errors.Is(err, errUnsent) && l.s.lim.MaxUnsent < 100 || errors.Is(err, errUnread) && l.s.lim.MaxPeerMemory < 1<<20 ||
			(errors.Is(err, errStalled) || errors.Is(err, association.ErrWriteTimeout)) && (!l.s.cfg.over || l.slowed) {
			l.over, l.dead = true, true // and so for the other end, which knows less
			return
		}
	}
	if done == 2 {
		l.s.fail("link %d ended: %v", slices.Index(l.s.links, l), causes)
		l.over, l.dead = true, true
	}
}
