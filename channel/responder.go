package channel

import (
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// An answer is a QUERY that was taken on and has its RESULT to come.
type answer struct {
	corr     disco.Corr
	filter   record.Filter // normalised
	tolerant bool
	chain    *chain // nil until the first page is made
	own      chain  // what it is then, unless the QUERY came with a cursor
	pos      record.Position
}

// query takes a QUERY that was read without fault: step 12 of the ledger's A11.
func (p *Peer) query(q disco.Query) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.closing {
		return
	}
	if a := p.answering[q.Corr]; a != nil && a.chain != nil && q.HasCursor && p.cfg.PushPages {
		p.stats.AbsorbedFollowUps++ // pages of this chain are being pushed [C21]
		return
	}
	if p.answering[q.Corr] != nil || p.subs[q.Corr] != nil {
		p.stats.DuplicateCorr++ // an ERROR would end the other exchange [C21]
		return
	}
	refuse := func(code disco.Code) { p.refuseLocked(q.Corr, true, code) }
	m, live := mark{}, false
	if q.HasCursor {
		m, live = p.cursors.find(q.Cursor, now)
	}
	rate := &p.queries
	if live {
		rate = &p.pages
	}
	if !rate.take(now) {
		p.stats.RateLimited++
		refuse(disco.CodeNotAdvertised) // C20
		return
	}
	if p.unanswered() >= p.lim.MaxUnanswered {
		p.stats.Overloaded++
		refuse(disco.CodeNotAdvertised)
		return
	}
	if p.filterDisabled(q.Filter) || q.HasTolerant && p.cfg.Disabled&FeatureTolerant != 0 ||
		q.HasCursor && p.cfg.Disabled&FeatureCursor != 0 {
		refuse(disco.CodeFilterUnsupported) // §9: never ignored
		return
	}
	a := &answer{corr: q.Corr, filter: q.Filter.Normalize(), tolerant: q.Tolerant}
	if q.HasCursor {
		if !live || m.chain.tolerant != a.tolerant || !m.chain.filter.Equal(a.filter) { // C2, C3
			p.stats.StaleCursors++
			refuse(disco.CodeStaleCursor)
			return
		}
		a.chain, a.pos = m.chain, m.pos
	}
	p.answering[a.corr] = a
	p.send(a)
}

// unanswered is how many of the peer's requests were taken on and have no answer
// yet. p.mu is held.
func (p *Peer) unanswered() int { return len(p.answering) + p.outbox.Unacknowledged() }

// filterDisabled reports whether f uses a filter key that is switched off here.
func (p *Peer) filterDisabled(f record.Filter) bool {
	return f.Kinds != nil && p.cfg.Disabled&FeatureKinds != 0 ||
		f.ProtocolIDs != nil && p.cfg.Disabled&FeatureProtocolIDs != 0 ||
		f.HasPrefix && p.cfg.Disabled&FeatureNamePrefix != 0
}

// resultOverhead is the most octets of a RESULT that are not records, and of an
// UPDATE or ANNOUNCE.
const resultOverhead = 256

// page bounds the pages we send [C42].
func (p *Peer) page() record.Page {
	return record.Page{
		MaxRecords:   p.lim.MaxPageRecords,
		MaxLen:       min(p.lim.MaxPageLen, p.lim.MaxFrameLen-resultOverhead),
		MaxRecordLen: p.lim.MaxFrameLen - resultOverhead,
	}
}

// snapshot is what the peer may see now.
func (p *Peer) snapshot() *record.Snapshot { return p.hub.Source().Snapshot() }

// frame makes the RESULT, or the refusal of one.
func (a *answer) frame(p *Peer, b []byte) ([]byte, disco.Type, bool) {
	p.overtake(a.chain)
	p.mu.Unlock()
	out, c, next, code := a.records(p, b)
	p.mu.Lock()
	a.chain = c
	if code != 0 {
		return a.refuse(p, b, code)
	}
	var cur disco.Cursor
	if !next.Done() {
		cur = p.issue(c, next)
	}
	a.pos = next
	if p.cfg.PushPages && !next.Done() && p.answering[a.corr] == a {
		p.send(a)
	} else {
		delete(p.answering, a.corr)
	}
	return disco.AppendResultTail(out, next.Done(), cur), disco.TypeResult, true
}

// records makes the RESULT up to its records, with the peer's mutex free, and
// returns of which chain it is.
func (a *answer) records(p *Peer, b []byte) (out []byte, c *chain, next record.Position, code disco.Code) {
	now := p.snapshot()
	page := p.page()
	switch c = a.chain; {
	case c == nil:
		a.own = chain{snapshot: now, filter: a.filter, tolerant: a.tolerant, matcher: a.filter.Matcher()}
		if !a.tolerant && !faithful(now, &a.own.matcher, page.MaxRecordLen) { // §6.3: never drop silently
			return nil, nil, next, disco.CodeUnknownRecordKind
		}
		c = &a.own
	case c.snapshot.Disclosure() < now.Disclosure():
		// Something was hidden meanwhile: never show it, nor a smaller page
		// (DASP-010-03).
		return nil, c, next, disco.CodeStaleCursor
	}
	n, _, next := c.snapshot.Page(&c.matcher, a.pos, page)
	b = disco.AppendResultHead(b, a.corr, n, next.Done())
	return c.snapshot.AppendRange(b, &c.matcher, a.pos, next, page.MaxRecordLen), c, next, 0
}

// overtake tells the subscriptions whose snapshot the chain is that a page of it
// is about to be sent besides their own. Whatever is hidden before they know is
// found by who asks for the present snapshot afterwards.
func (p *Peer) overtake(c *chain) {
	if c == nil || !c.pushed {
		return
	}
	for _, s := range p.subs {
		s.Ahead(c.snapshot)
	}
}

// refuse makes a DISCO_ERROR in place of the RESULT. p.mu is held.
func (a *answer) refuse(p *Peer, b []byte, code disco.Code) ([]byte, disco.Type, bool) {
	if code == disco.CodeStaleCursor {
		p.cursors.drop(a.chain)
		p.stats.StaleCursors++
	}
	p.stats.ErrorsOut[code]++
	delete(p.answering, a.corr)
	return (&refusal{a.corr, true, code}).frame(p, b)
}

// faithful reports whether everything that matches can be represented (§6.3):
// whether it fits into a frame.
func faithful(s *record.Snapshot, m *record.Matcher, maxLen int) bool {
	if s.Longest() <= maxLen {
		return true
	}
	for r := range s.Match(m) {
		if r.Len() > maxLen {
			return false
		}
	}
	return true
}

// subscribe takes a SUBSCRIBE (§7.2): from here on the hub keeps it, and its
// pages and UPDATEs are made when the link has room.
func (p *Peer) subscribe(q disco.Subscribe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.closing {
		return
	}
	if p.answering[q.Corr] != nil || p.subs[q.Corr] != nil {
		p.stats.DuplicateCorr++ // C21
		return
	}
	code := disco.Code(0)
	switch filter := q.Filter.Normalize(); {
	case !p.queries.take(time.Now()):
		p.stats.RateLimited++
		code = disco.CodeSubscriptionRefused
	case p.unanswered() >= p.lim.MaxUnanswered:
		p.stats.Overloaded++
		code = disco.CodeSubscriptionRefused
	case p.filterDisabled(filter):
		code = disco.CodeFilterUnsupported
	case p.cfg.Disabled&FeatureSubscriptions != 0 || len(p.subs) >= p.lim.MaxSubscriptions || p.crowded(0):
		p.stats.SubsRefused++
		code = disco.CodeSubscriptionRefused
	case !p.couldFollow(filter):
		code = disco.CodeUnknownRecordKind // C30
	default:
		p.subs[q.Corr] = p.follow(q.Corr, filter)
		return
	}
	p.refuseLocked(q.Corr, true, code)
}

// follow starts a subscription with the hub. p.mu is held.
func (p *Peer) follow(c disco.Corr, f record.Filter) *subscription {
	p.followed = true
	return &subscription{
		Subscription: p.hub.Subscribe(p.outbox, c, f, subscribe.Options{
			MaxQueued:   p.lim.MaxQueuedUpdates,
			MinInterval: p.lim.MinUpdateInterval,
		}),
		filter: f,
	}
}

// A subscription is one of the peer's, with us.
type subscription struct {
	*subscribe.Subscription
	filter record.Filter // normalised
}

// snapshotCursor makes the cursor of a page of the subscription p.paging, by
// which a QUERY with the same filter gets the pages after it [C15]. That of one
// that was cancelled meanwhile is stale from the beginning.
func (p *Peer) snapshotCursor(snap *record.Snapshot, pos record.Position) disco.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.subs[p.paging.Corr()]
	if s == nil || s.Subscription != p.paging {
		return newCursor()
	}
	c := p.cursors.of(snap, s.filter)
	c.pushed = true
	return p.issue(c, pos)
}

// couldFollow reports whether the snapshot of a subscription is faithful.
func (p *Peer) couldFollow(f record.Filter) bool {
	m := f.Matcher()
	return faithful(p.snapshot(), &m, p.page().MaxRecordLen)
}

// unsubscribe takes an UNSUBSCRIBE: silently, whatever it names (§7.3).
func (p *Peer) unsubscribe(c disco.Corr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.subs[c]
	if s == nil {
		p.stats.IdleUnsubscribe++
		return
	}
	delete(p.subs, c)
	s.Cancel()
}

// reasons are what goes into DISCO_ERROR for people: one constant a code, that
// says nothing of the request or of policy (DASP-010-02).
var reasons = [...]string{
	disco.CodeMalformedPayload:    "payload is not as section 4 asks",
	disco.CodeKindMismatch:        "frame_kind is not the frame type",
	disco.CodeUnknownRecordKind:   "a matching record cannot be represented",
	disco.CodeFilterUnsupported:   "a filter key is not supported here",
	disco.CodeStaleCursor:         "cursor is not known here",
	disco.CodeSubscriptionRefused: "no subscription now",
	disco.CodeNotAdvertised:       "not now",
}

// frame makes the DISCO_ERROR.
func (r *refusal) frame(_ *Peer, b []byte) ([]byte, disco.Type, bool) {
	out, err := disco.AppendError(b, &disco.ErrorMsg{
		Corr: r.corr, HasCorr: r.hasCorr, Code: r.code,
		Reason: reasons[r.code], HasReason: true,
	})
	if err != nil {
		panic("BUG: channel: " + err.Error())
	}
	return out, disco.TypeError, true
}
