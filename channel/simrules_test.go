package channel

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// simRules watches every frame of one association, at the end that gives it and
// at the end that takes it, and says which rule one breaks.
type simRules struct {
	lim  Limits // of both ends, with defaults
	push [2]bool

	mu    sync.Mutex
	fault error // the first
	now   int   // rises when everything that was handed over has had its effect
	sides [2]simSide

	damaged bool // frames came twice or cannot be read, from some time on
}

// A simSide is one end: what it asked, and what it was asked.
type simSide struct {
	out, in [7]uint64 // frames, by type

	asked   map[disco.Corr]*simAsked
	cursors map[disco.Cursor]bool // that it was given

	open   map[disco.Corr]bool        // QUERYs that it owes an answer
	subs   map[disco.Corr]*simServed  // subscriptions that it serves
	issued map[disco.Cursor]record.ID // cursors that it gave, and the last record before each
	chain  map[disco.Corr]record.ID   // the last record sent under a corr
	bad    map[disco.Corr]int         // of requests that it could not read, or that came when the corr was in use: how many

	announcing int // Announce calls so far

	hidden func(record.Record) bool // nil: cannot be told just now
}

// simAsked is a corr of this side.
type simAsked struct {
	sub             bool
	filter          record.Filter
	tolerant        bool
	sent, got       int
	cursor          disco.Cursor
	hasCursor, done bool
	doneAt          int // when
	unsubscribed    bool
}

// simServed is a subscription as its responder ought to see it.
type simServed struct {
	acknowledged, whole bool
	cancelled           bool
	at                  int // when

	told  map[record.ID]bool // records that it was shown and that were not withdrawn
	ahead bool               // it may have been shown others by a QUERY
}

func newSimRules(lim Limits, push [2]bool) *simRules {
	r := &simRules{lim: lim.withDefaults(), push: push}
	for i := range r.sides {
		r.sides[i] = simSide{
			asked: map[disco.Corr]*simAsked{}, cursors: map[disco.Cursor]bool{}, open: map[disco.Corr]bool{},
			subs: map[disco.Corr]*simServed{}, issued: map[disco.Cursor]record.ID{}, chain: map[disco.Corr]record.ID{},
			bad: map[disco.Corr]int{},
		}
	}
	return r
}

// tap is for channeltest.Tap on the end of a side.
func (r *simRules) tap(side channeltest.Side) func(bool, frame.Frame) {
	return func(sent bool, f frame.Frame) {
		r.mu.Lock()
		defer r.mu.Unlock()
		err := r.sides[side].see(r, side, sent, f)
		if *simTrace {
			corr, _ := disco.ScanCorr(f.Payload)
			fmt.Printf("%v %v sent=%-5v %v %.24s… %d octets\n", time.Now().Format("05.000"), side, sent, disco.Type(f.Type), corr, len(f.Payload))
		}
		if err != nil && r.fault == nil {
			what := "takes"
			if sent {
				what = "gives"
			}
			r.fault = fmt.Errorf("%v %s %v %x: %w", side, what, disco.Type(f.Type), f.Payload, err)
		}
	}
}

// shows holds records that the side sends against what it hides.
func (s *simSide) shows(recs []record.Record) error {
	for _, rec := range recs {
		if s.hidden != nil && s.hidden(rec) {
			return fmt.Errorf("%s is hidden", rec.ID())
		}
	}
	return nil
}

// rest says that all that was handed over has had its effect.
func (r *simRules) rest() {
	r.mu.Lock()
	r.now++
	r.mu.Unlock()
}

func (r *simRules) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

func (s *simSide) see(r *simRules, side channeltest.Side, sent bool, f frame.Frame) error {
	t := disco.Type(f.Type)
	if !t.Known() {
		return fmt.Errorf("no type of the channel")
	}
	if !sent {
		s.in[t-disco.TypeQuery]++
		err := s.takes(r, t, f.Payload)
		if err != nil && r.damaged {
			return nil
		}
		return err
	}
	s.out[t-disco.TypeQuery]++
	if len(f.Payload) > r.lim.MaxFrameLen {
		return fmt.Errorf("%d octets, MaxFrameLen is %d", len(f.Payload), r.lim.MaxFrameLen)
	}
	return s.gives(r, side, t, f.Payload)
}

var simStrict = disco.Options{Generation: 3}

// again reports whether the payload is what appending its message gives.
func again(payload []byte, out []byte, err error) error {
	if err == nil && !bytes.Equal(out, payload) {
		err = fmt.Errorf("not the one encoding: %x", out)
	}
	return err
}

// ascending reports whether records ascend, from after an id on, and fit a page.
func (r *simRules) onPage(recs []record.Record, after record.ID) error {
	octets := 0
	for i, rec := range recs {
		if rec.ID() <= after && (i > 0 || after != "") {
			return fmt.Errorf("record %s after %s", rec.ID(), after)
		}
		after = rec.ID()
		octets += rec.Len()
	}
	return r.fits(len(recs), octets)
}

func (r *simRules) fits(n, octets int) error {
	if n > r.lim.MaxPageRecords || n > 1 && octets > r.lim.MaxPageLen {
		return fmt.Errorf("a page of %d records, %d octets", n, octets)
	}
	return nil
}

// gives takes what the side sends.
func (s *simSide) gives(r *simRules, side channeltest.Side, t disco.Type, b []byte) error {
	switch t {
	case disco.TypeQuery:
		q, err := disco.ParseQuery(b, &simStrict)
		if err != nil {
			return err
		}
		out, err := disco.AppendQuery(nil, &q)
		if err := again(b, out, err); err != nil {
			return err
		}
		a := s.asked[q.Corr]
		switch {
		case a == nil && q.HasCursor && !s.cursors[q.Cursor]:
			return fmt.Errorf("a cursor that it was not given")
		case a == nil:
			a = &simAsked{filter: q.Filter, tolerant: q.Tolerant}
			s.asked[q.Corr] = a
		case a.sub || !q.HasCursor:
			return fmt.Errorf("corr used again")
		case a.done && a.doneAt < r.now: // one may be on its way out
			return fmt.Errorf("follow-up of a chain that has ended")
		case !a.hasCursor && !a.done || a.hasCursor && a.cursor != q.Cursor && !r.push[side.Other()] && !r.damaged: // another page may have come meanwhile
			return fmt.Errorf("not the cursor that came last")
		case !a.filter.Equal(q.Filter) || a.tolerant != q.Tolerant:
			return fmt.Errorf("a follow-up with another filter")
		case a.sent > a.got:
			return fmt.Errorf("corr of an outstanding QUERY")
		}
		a.sent++
	case disco.TypeSubscribe:
		q, err := disco.ParseSubscribe(b, &simStrict)
		if err != nil {
			return err
		}
		out, err := disco.AppendSubscribe(nil, &q)
		if err := again(b, out, err); err != nil {
			return err
		}
		if s.asked[q.Corr] != nil {
			return fmt.Errorf("corr used again")
		}
		s.asked[q.Corr] = &simAsked{sub: true, sent: 1, filter: q.Filter}
	case disco.TypeUnsubscribe:
		q, err := disco.ParseUnsubscribe(b, &simStrict)
		if err != nil {
			return err
		}
		out, err := disco.AppendUnsubscribe(nil, &q)
		if err := again(b, out, err); err != nil {
			return err
		}
		a := s.asked[q.Corr]
		switch {
		case a == nil: // SUBSCRIBE was taken back before it left
			s.asked[q.Corr] = &simAsked{sub: true, unsubscribed: true}
		case !a.sub || a.unsubscribed:
			return fmt.Errorf("nothing to unsubscribe")
		default:
			a.unsubscribed = true
		}
	case disco.TypeResult:
		return s.answers(r, side, b)
	case disco.TypeError:
		return s.refuses(r, b)
	case disco.TypeUpdate:
		return s.updates(r, b)
	case disco.TypeAnnounce:
		a, err := disco.ParseAnnounce(b, &simStrict)
		if err != nil {
			return err
		}
		out, err := disco.AppendAnnounce(nil, &a)
		if err := again(b, out, err); err != nil {
			return err
		}
		octets := 0
		for _, rec := range a.Records {
			octets += rec.Len()
		}
		switch {
		case a.HasCorr || len(a.Records) == 0:
			return fmt.Errorf("with a corr, or without records")
		case s.announcing == 0:
			return fmt.Errorf("nobody announced anything")
		}
		return r.fits(len(a.Records), octets)
	}
	return nil
}

// answers takes a RESULT that the side sends.
func (s *simSide) answers(r *simRules, side channeltest.Side, b []byte) error {
	p, err := disco.ParseResult(b, &simStrict)
	if err != nil {
		return err
	}
	out, err := disco.AppendResult(nil, &p)
	if err := again(b, out, err); err != nil {
		return err
	}
	if len(p.Records) == 0 && !p.Complete {
		return fmt.Errorf("an empty page that is not the last")
	}
	if err := s.shows(p.Records); err != nil {
		return err
	}
	last := s.chain[p.Corr]
	// It may answer a follow-up that came when the corr was in use: one not absorbed
	// after all, or the second of two that pages have led to which nobody asked for.
	again := s.bad[p.Corr] > 0 && (r.push[side] || r.damaged)
	if again {
		last = ""
	}
	if err := r.onPage(p.Records, last); err != nil {
		return err
	}
	if n := len(p.Records); n > 0 {
		last = p.Records[n-1].ID()
	}
	if p.HasCursor {
		if was, ok := s.issued[p.Cursor]; ok && was != last {
			return fmt.Errorf("a cursor of another place")
		}
		s.issued[p.Cursor] = last
	}
	sub := s.subs[p.Corr]
	switch {
	case sub != nil && s.open[p.Corr]:
		return fmt.Errorf("BUG: corr of a query and of a subscription")
	case sub != nil:
		if err := s.live(r, sub, !sub.acknowledged); err != nil {
			return err
		}
		if sub.whole {
			return fmt.Errorf("a page after the last")
		}
		sub.acknowledged, sub.whole = true, p.Complete
		for _, rec := range p.Records {
			sub.told[rec.ID()] = true
		}
		s.chain[p.Corr] = last
	case !s.open[p.Corr] && again:
	case !s.open[p.Corr]:
		return fmt.Errorf("an answer to nothing")
	case r.push[side] && !p.Complete:
		s.chain[p.Corr] = last
	default:
		delete(s.open, p.Corr)
		delete(s.chain, p.Corr)
	}
	return nil
}

// live reports whether a frame of the subscription may be sent. One that was
// cancelled just now may not have been stopped yet; but for the acknowledgement.
func (s *simSide) live(r *simRules, sub *simServed, acknowledgement bool) error {
	if sub.cancelled && sub.at < r.now && !acknowledgement {
		return fmt.Errorf("after UNSUBSCRIBE")
	}
	return nil
}

// refuses takes a DISCO_ERROR that the side sends.
func (s *simSide) refuses(r *simRules, b []byte) error {
	e, err := disco.ParseError(b, &simStrict)
	if err != nil {
		return err
	}
	out, err := disco.AppendError(nil, &e)
	if err := again(b, out, err); err != nil {
		return err
	}
	sub := s.subs[e.Corr]
	switch {
	case !e.HasCorr && !r.damaged:
		return fmt.Errorf("without a corr")
	case s.open[e.Corr]:
		delete(s.open, e.Corr)
		delete(s.chain, e.Corr)
	case sub != nil && !sub.acknowledged:
		delete(s.subs, e.Corr)
	case s.bad[e.Corr] > 0:
		s.bad[e.Corr]--
	default:
		return fmt.Errorf("a refusal of nothing")
	}
	return nil
}

// updates takes an UPDATE that the side sends.
func (s *simSide) updates(r *simRules, b []byte) error {
	u, err := disco.ParseUpdate(b, &simStrict)
	if err != nil {
		return err
	}
	out, err := disco.AppendUpdate(nil, &u)
	if err := again(b, out, err); err != nil {
		return err
	}
	sub := s.subs[u.Corr]
	switch {
	case sub == nil || !sub.whole:
		return fmt.Errorf("without a subscription, or before its snapshot")
	case len(u.Added)+len(u.Withdrawn) == 0:
		return fmt.Errorf("with nothing in it")
	}
	if err := s.live(r, sub, false); err != nil {
		return err
	}
	if err := s.shows(u.Added); err != nil {
		return err
	}
	octets := 0
	seen := map[record.ID]bool{}
	after := record.ID("")
	for _, rec := range u.Added {
		if rec.ID() <= after {
			return fmt.Errorf("added does not ascend")
		}
		after = rec.ID()
		seen[after] = true
		sub.told[after] = true
		octets += rec.Len()
	}
	after = ""
	for _, id := range u.Withdrawn {
		if id <= after || seen[id] {
			return fmt.Errorf("withdrawn does not ascend, or is added too")
		}
		if !sub.told[id] && !sub.ahead {
			return fmt.Errorf("%s is withdrawn, and was never told", id)
		}
		delete(sub.told, id)
		after = id
		octets += 1 + len(id) // ids are short here
	}
	return r.fits(len(u.Added)+len(u.Withdrawn), octets)
}

// takes takes what the side is about to be handed.
func (s *simSide) takes(r *simRules, t disco.Type, b []byte) error {
	asked := func(c disco.Corr) (*simAsked, error) {
		if a := s.asked[c]; a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("under a corr that was never used")
	}
	opt := disco.Options{Tolerant: true}
	switch t {
	case disco.TypeQuery:
		q, err := disco.ParseQuery(b, &opt)
		if err != nil {
			s.unread(b)
			return err
		}
		if s.open[q.Corr] || s.subs[q.Corr] != nil {
			if !r.damaged && !r.push[0] && !r.push[1] {
				return fmt.Errorf("corr in use")
			}
			s.bad[q.Corr]++ // each may be refused
			return nil
		}
		s.open[q.Corr] = true
		delete(s.chain, q.Corr)
		for _, sub := range s.subs {
			sub.ahead = sub.ahead || q.HasCursor
		}
		if last, ok := s.issued[q.Cursor]; ok && q.HasCursor {
			s.chain[q.Corr] = last
		}
	case disco.TypeSubscribe:
		q, err := disco.ParseSubscribe(b, &opt)
		if err != nil {
			s.unread(b)
			return err
		}
		if s.subs[q.Corr] == nil {
			s.subs[q.Corr] = &simServed{told: map[record.ID]bool{}}
		} else {
			s.bad[q.Corr]++
		}
	case disco.TypeUnsubscribe:
		q, err := disco.ParseUnsubscribe(b, &opt)
		if err != nil {
			return err
		}
		if sub := s.subs[q.Corr]; sub != nil && !sub.cancelled {
			sub.cancelled, sub.at = true, r.now
		}
	case disco.TypeResult:
		p, err := disco.ParseResult(b, &opt)
		if err != nil {
			return err
		}
		a, err := asked(p.Corr)
		if err != nil {
			return err
		}
		a.got++
		a.cursor, a.hasCursor, a.done, a.doneAt = p.Cursor, p.HasCursor, p.Complete, r.now
		if p.HasCursor {
			s.cursors[p.Cursor] = true
		}
	case disco.TypeError:
		e, err := disco.ParseError(b, &opt)
		if err != nil || !e.HasCorr {
			return err
		}
		a, err := asked(e.Corr)
		if err != nil {
			return err
		}
		a.got++
		a.done, a.doneAt = true, r.now
	case disco.TypeUpdate:
		u, err := disco.ParseUpdate(b, &opt)
		if err != nil {
			return err
		}
		_, err = asked(u.Corr)
		return err
	}
	return nil
}

// unread notes a request that cannot be read: it is refused.
func (s *simSide) unread(b []byte) {
	if c, ok := disco.ScanCorr(b); ok {
		s.bad[c]++
	}
}
