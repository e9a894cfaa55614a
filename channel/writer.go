package channel

import (
	"errors"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
)

// errUnsent, errStalled and errUnread end an association whose peer does not take
// what it is owed (§10).
var (
	errUnsent  = errors.New("channel: too many frames wait for the peer to take them")
	errStalled = errors.New("channel: the peer has taken no frame for too long")
	errUnread  = errors.New("channel: the peer leaves too much unread for MaxPeerMemory")
)

// watchInterval is how often what waits for the peer is measured.
const watchInterval = time.Second

// An item is one frame to send, made when the link has room for it.
type item interface {
	// frame appends the payload to b, on the writing goroutine, with the peer's
	// mutex held; it may free it meanwhile. ok is false when there is nothing to
	// send any more.
	frame(p *Peer, b []byte) (out []byte, t disco.Type, ok bool)
}

// A request is a frame of our own under a corr. It is not sent when its
// exchange has ended meanwhile.
type request struct {
	t       disco.Type
	number  uint64 // of its corr
	payload []byte
	queued  bool // it is in Peer.out
	sent    bool
}

// ask queues a request, unless it is queued. p.mu is held.
func (p *Peer) ask(r *request) {
	if !r.queued {
		r.queued = true
		p.send(r)
	}
}

func (r *request) frame(p *Peer, b []byte) ([]byte, disco.Type, bool) {
	r.queued = false
	if r.sent = r.live(p); !r.sent {
		return b, 0, false
	}
	return append(b, r.payload...), r.t, true
}

// live reports whether the request is still to be sent. p.mu is held.
func (r *request) live(p *Peer) bool {
	return r.t == disco.TypeUnsubscribe || p.own.find(r.number) != nil
}

// writeWait is somebody who waits until n frames are written.
type writeWait struct {
	n    uint64
	done chan<- error
}

// send queues an item and wakes the writer. The error says why it will never be
// sent: the association ends. p.mu is held.
func (p *Peer) send(it item) error {
	if p.life.closing {
		return p.closedCause()
	}
	if p.out.len() >= p.lim.MaxUnsent { // what was given up meanwhile does not count
		p.out.keep(func(it item) bool {
			r, ok := it.(*request)
			if !ok || r.live(p) {
				return true
			}
			r.queued = false
			return false
		})
	}
	if p.out.len() >= p.lim.MaxUnsent {
		p.tr.Abort(0, errUnsent)
		return errUnsent
	}
	if p.out.len() == 0 && p.idle() {
		p.watchStall()
	}
	p.out.push(it)
	p.waiting.Store(int32(p.out.len()))
	p.tr.Wake()
	return nil
}

// append is Endpoint.Append: what waits in order, then the subscriptions.
func (p *Peer) append(b []byte) ([]byte, frame.Type, bool) {
	if p.waiting.Load() > 0 { // else the mutex need not be taken for each UPDATE
		if out, t, ok := p.appendItem(b); ok {
			return out, frame.Type(t), true
		}
	}
	for s := p.outbox.Next(); s != nil; s = p.outbox.Next() {
		p.paging = s
		if out, t, _ := s.AppendFrame(b, p.page(), p.cursor); t != 0 {
			if p.idle() {
				p.mu.Lock()
				p.gave(t)
				p.mu.Unlock()
			} else {
				p.gave(t)
			}
			return out, frame.Type(t), true
		}
	}
	p.holdBack()
	return b, 0, false
}

func (p *Peer) appendItem(b []byte) (out []byte, t disco.Type, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ok {
		it, any := p.out.pop()
		if !any {
			break
		}
		out, t, ok = it.frame(p, b)
	}
	p.waiting.Store(int32(p.out.len()))
	if ok {
		p.gave(t)
	}
	return out, t, ok
}

// holdBack has the writer woken when the first UPDATE that MinUpdateInterval
// holds back is due.
func (p *Peer) holdBack() {
	if p.lim.MinUpdateInterval <= 0 {
		return
	}
	due, ok := p.outbox.Deadline()
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch()
	if !p.life.closing {
		setTimer(&p.interval, time.Until(due), p.tr.Wake)
	}
}

// idle reports that all frames that the writer took are written.
func (p *Peer) idle() bool { return p.given.Load() == p.taken.Load() }

// gave counts a frame that the writer took. p.mu is held, unless others are under
// way: else checkStall could look between the two.
func (p *Peer) gave(t disco.Type) {
	if p.idle() {
		p.watchStall()
	}
	p.given.Add(1)
	p.framesOut[t-disco.TypeQuery].Add(1)
}

// written is Endpoint.Written.
func (p *Peer) written() {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.given.Load()
	p.taken.Store(taken)
	p.progress = time.Now()
	for len(p.writes) > 0 && p.writes[0].n <= taken {
		p.writes[0].done <- nil
		p.writes = p.writes[1:]
	}
}

// watchStall takes the moment from which something waits for the link. p.mu is
// held.
func (p *Peer) watchStall() {
	p.progress = time.Now()
	p.watch()
}

// watch looks after what waits as long as anything does. One timer serves all
// frames. p.mu is held.
func (p *Peer) watch() {
	if p.stalling || p.life.closing {
		return
	}
	p.stalling = true
	wait := watchInterval
	if p.lim.StallTimeout >= 0 {
		wait = min(wait, p.lim.StallTimeout)
	}
	setTimer(&p.stall, wait, p.checkStall)
}

func (p *Peer) checkStall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := watchInterval
	if !p.idle() || p.out.len() > 0 {
		if p.lim.StallTimeout >= 0 {
			wait = min(wait, p.lim.StallTimeout-time.Since(p.progress))
		}
	} else if _, held := p.outbox.Deadline(); !held {
		p.stalling = false
		return
	}
	switch {
	case p.life.closing:
	case wait <= 0:
		p.tr.Abort(0, errStalled)
	case p.unread():
		p.tr.Abort(0, errUnread)
	default:
		p.stall.Reset(wait)
	}
}

// unread reports that what the peer leaves unread has been most of more than
// MaxPeerMemory for as long as a link may stall: one large change is not its
// fault. p.mu is held.
func (p *Peer) unread() bool {
	grace := p.lim.StallTimeout
	if grace < 0 {
		grace = defaultStallTimeout
	}
	switch now := time.Now(); {
	case !p.crowded(0) || p.outbox.Memory() <= p.lim.MaxPeerMemory/2:
		p.over = time.Time{}
	case p.over.IsZero():
		p.over = now
	default:
		return now.Sub(p.over) >= grace
	}
	return false
}

// setTimer sets a timer, which is made when it is first needed.
func setTimer(t **time.Timer, d time.Duration, f func()) {
	if *t == nil {
		*t = time.AfterFunc(d, f)
	} else {
		(*t).Reset(d)
	}
}

// timers returns the peer's own timers. p.mu is held.
func (p *Peer) timers() (ts []*time.Timer) {
	for _, t := range []*time.Timer{p.stall, p.interval, p.expiry, p.impatient} {
		if t != nil {
			ts = append(ts, t)
		}
	}
	return ts
}
