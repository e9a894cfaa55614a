package main

import (
	"fmt"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// A fault is a rule that a recorded frame breaks.
type fault struct{ rule, why string }

// An exchange is what a recording has shown of one association so far.
type exchange struct {
	generation int
	next       map[keyUse]uint64          // the next sequence number under each key
	asked      [2]map[disco.Corr]*request // by who asked: the peer, us
	closed     [2]bool                    // CLOSE was sent, by whom
	contents   [2]map[revised]record.Record
	faults     []fault // of the frame that is looked at
}

// A keyUse is one key: a direction of a channel in one epoch.
type keyUse struct {
	sent           bool
	channel        frame.ChannelID
	ratchet, epoch uint64
}

// A revised is a record_id at a revision (§8: one content).
type revised struct {
	id  record.ID
	rev uint64
}

// A request is a QUERY or SUBSCRIBE and what came of it.
type request struct {
	typ      disco.Type
	filter   record.Filter
	tolerant bool
	cursor   disco.Cursor // of the last page, which was not the last of the listing
	paged    bool         // there is such a page
	answered bool         // a QUERY: in whole; a SUBSCRIBE: by its first page
	synced   bool         // a SUBSCRIBE: by its last page
	ended    bool         // refused or, a SUBSCRIBE, given up
	view     map[record.ID]uint64
	high     map[record.ID]uint64
}

func newRequest(t disco.Type) *request {
	return &request{typ: t, view: map[record.ID]uint64{}, high: map[record.ID]uint64{}}
}

func newExchange(generation int) *exchange {
	x := &exchange{generation: generation, next: map[keyUse]uint64{}}
	for i := range x.asked {
		x.asked[i], x.contents[i] = map[disco.Corr]*request{}, map[revised]record.Record{}
	}
	return x
}

func side(sent bool) int {
	if sent {
		return 1
	}
	return 0
}

func (x *exchange) fault(rule, format string, args ...any) {
	x.faults = append(x.faults, fault{rule, fmt.Sprintf(format, args...)})
}

// unanswered returns how many requests have no answer, or not all of it.
func (x *exchange) unanswered() (n int) {
	for _, m := range x.asked {
		for _, q := range m {
			if !q.ended && !q.answered {
				n++
			}
		}
	}
	return n
}

// check holds a frame to the rules and returns those that it breaks.
func (x *exchange) check(r *recorded) []fault {
	x.faults = nil
	h := r.Header
	x.sequence(r)
	if x.closed[side(r.Sent)] && h.Type != frame.TypeCloseAck {
		x.fault("after-close", "its sender had sent CLOSE")
	}
	if h.Type == frame.TypeClose && (h.Channel == frame.ChannelControl || x.generation == 2) {
		x.closed[side(r.Sent)] = true
	}
	corr, has := frameCorr(h, r.Plaintext)
	if corr != r.corr {
		x.fault("recording", "its line says corr %v", r.corr)
	}
	if isDiscovery(h) {
		x.discovery(r, corr, has)
	}
	return x.faults
}

// sequence checks that the frames under one key are numbered from 0 (core §4.2).
func (x *exchange) sequence(r *recorded) {
	h := r.Header
	if isHandshake(h) {
		if h.Seq != 0 {
			x.fault("sequence", "a flight has number 0")
		}
		return
	}
	key := keyUse{r.Sent, h.Channel, r.Ratchet, r.Epoch}
	want := x.next[key]
	if refused := h.Type == frame.TypeError && h.Seq == 1 && want == 0; refused {
		return // under the handshake key, after SERVER_AUTH
	}
	if h.Seq != want {
		x.fault("sequence", "number %d is the next under this key", want)
	}
	x.next[key] = h.Seq + 1
}

// discovery checks a frame of the Discovery channel.
func (x *exchange) discovery(r *recorded, corr disco.Corr, has bool) {
	t := disco.Type(r.Header.Type)
	if !t.Known() {
		x.fault("frame-type", "0x%04x is none of Discovery's", uint16(t))
		return
	}
	if want := frame.FlagENC; r.Header.Flags != want {
		x.fault("flags", "%v, want %v", r.Header.Flags, want)
	}
	body, err := frame.Peel(r.Plaintext)
	if err != nil {
		x.fault("tlv", "%v", err)
		return
	}
	// The one who asked is the other side for an answer.
	q := x.asked[side(!r.Sent)][corr]
	o := &disco.Options{Generation: x.generation, Tolerant: q == nil || q.typ == disco.TypeSubscribe || q.tolerant}
	m, refusal := judge(t, body, o)
	if refusal != nil {
		x.fault(refusal.Rule, "%s (§%s)", strings.TrimPrefix(refusal.Error(), "disco: "), refusal.Section)
	}
	if !has {
		corr = ""
	}
	switch t {
	case disco.TypeQuery, disco.TypeSubscribe:
		if refusal == nil {
			x.request(r.Sent, t, corr, body, o)
		} else if has && x.asked[side(r.Sent)][corr] == nil {
			x.asked[side(r.Sent)][corr] = newRequest(t) // it may be refused under its corr
		}
	case disco.TypeUnsubscribe:
		if s := x.asked[side(r.Sent)][corr]; s != nil && s.typ == disco.TypeSubscribe {
			s.ended = true
		}
	case disco.TypeAnnounce:
		if has {
			x.fault("announce-corr", "an ANNOUNCE stands alone (§4.2)")
		}
		x.same(r.Sent, m.records)
	case disco.TypeResult, disco.TypeError, disco.TypeUpdate:
		x.answer(r, t, corr, has, q, refusal == nil, body, o, m)
	}
}

// request takes a QUERY or SUBSCRIBE.
func (x *exchange) request(sent bool, t disco.Type, corr disco.Corr, body []byte, o *disco.Options) {
	asked := x.asked[side(sent)]
	q := newRequest(t)
	var cursor disco.Cursor
	var follows bool
	if t == disco.TypeQuery {
		p, _ := disco.ParseQuery(body, o)
		q.filter, q.tolerant, cursor, follows = p.Filter, p.Tolerant, p.Cursor, p.HasCursor
	} else {
		p, _ := disco.ParseSubscribe(body, o)
		q.filter = p.Filter
	}
	old := asked[corr]
	switch {
	case old == nil || old.ended || old.answered && old.typ == disco.TypeQuery && !follows:
	case follows && old.typ == disco.TypeQuery && old.paged && cursor == old.cursor:
		if !q.filter.Normalize().Equal(old.filter.Normalize()) || q.tolerant != old.tolerant {
			x.fault("filter-changed", "a follow-up asks as the first request did (§6.2)")
		}
	case follows && old.typ == disco.TypeQuery && old.answered:
	default:
		x.fault("corr-reused", "corr %v is in use (§4.3)", corr)
		return // the first request goes on [C21]
	}
	asked[corr] = q
}

// answer takes a RESULT, ERROR or UPDATE. q is the request under its corr.
func (x *exchange) answer(r *recorded, t disco.Type, corr disco.Corr, has bool, q *request, parsed bool, body []byte, o *disco.Options, m message) {
	switch {
	case t == disco.TypeError && !has:
		return // to a request whose corr could not be read [C4]
	case q == nil:
		x.fault("unasked", "nothing was asked under corr %v", corr)
		return
	case t == disco.TypeUpdate && q.typ != disco.TypeSubscribe:
		x.fault("unasked", "corr %v is no subscription", corr)
		return
	case q.ended && q.typ == disco.TypeSubscribe:
		return // given up while it was under way, or refused
	case q.ended || q.answered && q.typ == disco.TypeQuery:
		x.fault("answered-again", "corr %v has its answer (§4.3)", corr)
		return
	}
	x.same(r.Sent, m.records)
	f := q.filter.Matcher()
	for _, rec := range m.records {
		if !f.MatchRecord(rec) {
			x.fault("filter", "record %v is outside of it (§6.1)", rec.ID())
		}
	}
	switch {
	case t == disco.TypeError:
		q.ended = true
	case !parsed:
	case t == disco.TypeResult && q.synced:
		x.fault("answered-again", "corr %v has its whole snapshot (§7.2)", corr)
	case t == disco.TypeResult:
		p, _ := disco.ParseResult(body, o)
		q.paged, q.cursor = !p.Complete, p.Cursor
		q.answered = p.Complete || q.typ == disco.TypeSubscribe
		q.synced = p.Complete && q.typ == disco.TypeSubscribe
		if q.typ == disco.TypeSubscribe {
			x.view(q, p.Records, nil, true)
		}
	case t == disco.TypeUpdate:
		p, _ := disco.ParseUpdate(body, o)
		x.view(q, p.Added, p.Withdrawn, false)
	}
}

// view applies records to what a subscription shows, and checks that revisions
// rise (§8).
func (x *exchange) view(q *request, added []record.Record, withdrawn []record.ID, snapshot bool) {
	for _, rec := range added {
		id, rev := rec.ID(), rec.Revision()
		had, has := q.view[id]
		switch {
		case has && rev <= had && !snapshot:
			x.fault("revision", "record %v at %d replaces %d (§8)", id, rev, had)
		case rev < q.high[id]:
			x.fault("revision", "record %v comes at %d after %d (§8)", id, rev, q.high[id])
		}
		q.view[id], q.high[id] = rev, max(rev, q.high[id])
	}
	for _, id := range withdrawn {
		delete(q.view, id)
	}
}

// same checks that one revision of a record has one content (§8).
func (x *exchange) same(sent bool, records []record.Record) {
	seen := make(map[record.ID]bool, len(records))
	for _, rec := range records {
		key := revised{rec.ID(), rec.Revision()}
		if old, ok := x.contents[side(sent)][key]; ok && old != rec {
			x.fault("revision", "record %v has other contents at revision %d than before (§8)", key.id, key.rev)
		}
		x.contents[side(sent)][key] = rec
		if seen[key.id] {
			x.fault("record-id", "record %v stands twice (§5)", key.id)
		}
		seen[key.id] = true
	}
}
