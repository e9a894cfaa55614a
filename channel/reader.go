package channel

import (
	"errors"
	"sync"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// endpoint is what the transport sees of a Peer.
type endpoint Peer

func (e *endpoint) Receive(f frame.Frame)                      { (*Peer)(e).receive(f) }
func (e *endpoint) Append(b []byte) ([]byte, frame.Type, bool) { return (*Peer)(e).append(b) }
func (e *endpoint) Written()                                   { (*Peer)(e).written() }
func (e *endpoint) Closed(cause error)                         { (*Peer)(e).closed(cause) }

// count raises a counter of p.stats.
func (p *Peer) count(n *uint64) {
	p.mu.Lock()
	*n++
	p.mu.Unlock()
}

// receive takes one frame through the checks of the ledger's A11, steps 2 and
// 4 to 10: the first that fails decides. It runs on the reading goroutine and
// waits for nothing.
func (p *Peer) receive(f frame.Frame) {
	t := disco.Type(f.Type)
	request := t == disco.TypeQuery || t == disco.TypeSubscribe
	if !p.info.Advertised || request && !p.info.PeerAdvertised { // §2; such a request cannot be answered
		p.count(&p.stats.Unadvertised)
		return
	}
	payload, err := frame.Peel(f.Payload)
	switch {
	case errors.Is(err, frame.ErrBridgeEnvelope): // foreign traffic never rides here (§2, C45)
		p.count(&p.stats.BridgeOnDiscovery)
		return
	case errors.Is(err, frame.ErrCriticalTLV):
		p.count(&p.stats.CriticalTLV)
		if p.info.Generation >= 3 { // C64
			p.tr.Abort(frame.CodeUnknownCriticalTLV, err)
		}
		return
	}
	if !t.Known() {
		p.count(&p.stats.UnknownType) // C33
		return
	}
	p.framesIn[t-disco.TypeQuery].Add(1)
	if p.cfg.Disabled&FeatureDiscovery != 0 { // before anything decodes (ACP-03)
		if !request {
			p.count(&p.stats.Disabled)
			return
		}
		corr, ok := disco.ScanCorr(payload)
		p.refuse(corr, ok, disco.CodeNotAdvertised)
		return
	}
	undecodable := err != nil || f.Flags&(frame.FlagCOMP|frame.FlagFRAG) != 0 // a truncated TLV; C34
	if undecodable || (request || t == disco.TypeUnsubscribe) && len(payload) > p.lim.MaxRequestLen {
		p.malformed(t, &disco.PayloadError{Code: disco.CodeMalformedPayload})
		return
	}
	switch t {
	case disco.TypeQuery:
		q, err := disco.ParseQuery(payload, &p.opts)
		if err != nil {
			p.malformed(t, err)
			return
		}
		p.query(q)
	case disco.TypeSubscribe:
		s, err := disco.ParseSubscribe(payload, &p.opts)
		if err != nil {
			p.malformed(t, err)
			return
		}
		p.subscribe(s)
	case disco.TypeUnsubscribe:
		u, err := disco.ParseUnsubscribe(payload, &p.opts)
		if err != nil {
			p.malformed(t, err)
			return
		}
		p.unsubscribe(u.Corr)
	case disco.TypeResult:
		p.result(payload)
	case disco.TypeError:
		e, err := disco.ParseError(payload, &p.opts)
		if err != nil {
			p.malformed(t, err)
			return
		}
		p.errorMsg(e)
	case disco.TypeUpdate:
		p.update(payload)
	case disco.TypeAnnounce:
		a, err := disco.ParseAnnounce(payload, &p.opts)
		if err != nil {
			p.malformed(t, err)
			return
		}
		p.announced(a)
	}
}

// malformed deals with a payload that cannot be read: a request is refused with
// the fault's code; whatever else it was, nothing is sent [C4]. A reply that
// names one of our exchanges fails it.
func (p *Peer) malformed(t disco.Type, err error) {
	p.count(&p.stats.Malformed)
	p.logFault(t, err)
	var pe *disco.PayloadError
	if !errors.As(err, &pe) {
		pe = &disco.PayloadError{Code: disco.CodeOf(err)}
	}
	switch t {
	case disco.TypeQuery, disco.TypeSubscribe:
		p.refuse(pe.Corr, pe.HasCorr, pe.Code)
	case disco.TypeResult, disco.TypeError, disco.TypeUpdate:
		p.mu.Lock()
		defer p.mu.Unlock()
		x := p.own.find(number(&p.own, pe.Corr))
		switch s, ok := x.(*Subscription); {
		case !pe.HasCorr || x == nil:
		case t == disco.TypeUpdate && ok:
			s.resync(err) // a change was lost [C36]
		case t != disco.TypeUpdate:
			x.refused(err)
		}
	}
}

// refuse queues a DISCO_ERROR for a request, under its corr where that could be
// read.
func (p *Peer) refuse(corr disco.Corr, hasCorr bool, code disco.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuseLocked(corr, hasCorr, code)
}

// refuseLocked is refuse with p.mu held.
func (p *Peer) refuseLocked(corr disco.Corr, hasCorr bool, code disco.Code) {
	if !hasCorr && !p.corrless.take(time.Now()) {
		p.stats.SuppressedErrors++
		return
	}
	p.stats.ErrorsOut[code]++
	p.send(&refusal{corr, hasCorr, code})
}

// A refusal is a DISCO_ERROR to send (§9).
type refusal struct {
	corr    disco.Corr
	hasCorr bool
	code    disco.Code
}

// result takes a RESULT to the exchange that its corr names (§4.2).
func (p *Peer) result(payload []byte) {
	known := p.expected(payload)
	r, err := disco.ParseResultAhead(payload, &p.opts, known, p.ahead)
	giveBack(known)
	if err != nil {
		p.malformed(disco.TypeResult, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := number(&p.own, r.Corr)
	x := p.own.find(n)
	if x == nil {
		p.unasked(n, true)
		return
	}
	p.stats.Skipped += uint64(len(r.Skipped))
	x.result(r)
}

// expected returns what the page of a listing probably has: what the last one of the
// same filter had after the record that came last. With it a listing of 10,000
// takes half as long. It is nil for none, and to be given back.
func (p *Peer) expected(payload []byte) []record.Record {
	corr, n := disco.ResultHead(payload)
	if n == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.own.find(number(&p.own, corr)).(*listing)
	if !ok || l.matcher != p.listed {
		return nil
	}
	known := expectations.Get().(*[record.MaxKnown]record.Record)
	return p.cache.AppendListed(known[:0], l.last, min(n, record.MaxKnown))
}

var expectations = sync.Pool{New: func() any { return new([record.MaxKnown]record.Record) }}

func giveBack(known []record.Record) {
	if known != nil {
		clear(known)
		expectations.Put((*[record.MaxKnown]record.Record)(known[:record.MaxKnown]))
	}
}

// ahead looks at a RESULT that is about to be copied.
func (p *Peer) ahead(v disco.ResultView) {
	if v.Complete {
		return
	}
	p.mu.Lock()
	l, ok := p.own.find(number(&p.own, v.Corr)).(*listing)
	ok = ok && l.ahead(&v)
	p.mu.Unlock()
	if t, can := p.tr.(flusher); ok && can {
		t.Flush()
	}
}

// errorMsg takes a DISCO_ERROR to the exchange that its corr names. One without
// a corr matches nothing [C4].
func (p *Peer) errorMsg(e disco.ErrorMsg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Code.Known() {
		p.stats.ErrorsIn[e.Code]++
	} else {
		p.stats.ErrorsIn[0]++
	}
	if !e.HasCorr {
		p.stats.UncorrelatedError++
		return
	}
	n := number(&p.own, e.Corr)
	x := p.own.find(n)
	if x == nil {
		p.unasked(n, false)
		return
	}
	x.refused(&disco.PeerError{Code: e.Code, Reason: e.Reason, Corr: e.Corr})
}

// update takes an UPDATE to the subscription that its corr names (§7.2).
func (p *Peer) update(payload []byte) {
	u, err := p.updates.Parse(payload, &p.opts)
	switch {
	case errors.Is(err, disco.ErrEmptyUpdate): // N19: nothing is lost [C36]
		p.count(&p.stats.EmptyUpdate)
		return
	case err != nil:
		p.malformed(disco.TypeUpdate, err)
		return
	}
	p.mu.Lock()
	n := number(&p.own, u.Corr)
	if s, ok := p.own.find(n).(*Subscription); ok {
		s.update(&u, len(payload))
	} else {
		p.unasked(n, false)
	}
	p.mu.Unlock()
}

// unasked counts a reply that nobody waits for [C23]. A RESULT more than there
// were QUERYs under its corr shows that the peer pushes pages [C1]. p.mu is
// held.
func (p *Peer) unasked(number uint64, result bool) {
	r := p.retired.find(number)
	if r == nil {
		p.stats.Bogus++
		return
	}
	p.stats.Late++
	if result {
		if r.got++; r.asked > 0 && r.got > r.asked {
			p.pusher = true
		}
	}
}
