package association

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/frame"
)

// maxPings is how many Pings may wait at once.
const maxPings = 16

// pings are our own PINGs: those of Ping, which wait for their PONG, and those of
// the liveness check, for which any frame will do.
type pings struct {
	mu      sync.Mutex
	waiting map[uint64]chan struct{} // by the 8 octets of the PING
	started int                      // empty PINGs out, that began a channel's stream

	interval time.Duration // 0: no liveness check
	start    time.Time
	last     atomic.Int64 // when the last authentic frame came, in ns since start
	timer    *time.Timer
	asked    bool // the timer's: a PING is out
	stopped  bool
}

// heard notes an authentic frame.
func (p *pings) heard() {
	if p.interval > 0 {
		p.last.Store(int64(time.Since(p.start)))
	}
}

// stop ends the liveness check.
func (p *pings) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// pong reports whether body answers a Ping, which it then wakes.
func (p *pings) pong(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(body) == 0 && p.started > 0 {
		p.started--
		return true
	}
	if len(body) != 8 {
		return false
	}
	id := binary.BigEndian.Uint64(body)
	c, ok := p.waiting[id]
	if ok {
		delete(p.waiting, id)
		close(c)
	}
	return ok
}

// Ping sends PING on channel ch and returns when the PONG has come. The errors
// are ErrNotAdvertised, ErrBusy where 16 are under way, ctx's, and the cause of
// the association's end. On Control a public peer of generation 3 takes PING as
// fatal; on other channels public peers hand it to their application and answer
// nothing.
func (a *Association) Ping(ctx context.Context, ch frame.ChannelID) error {
	c := a.channel(ch)
	if c == nil || !c.peerAdvertised {
		return ErrNotAdvertised
	}
	var body [8]byte
	rand.Read(body[:])
	id, answered := binary.BigEndian.Uint64(body[:]), make(chan struct{})
	p := &a.pings
	p.mu.Lock()
	if len(p.waiting) >= maxPings {
		p.mu.Unlock()
		return ErrBusy
	}
	if p.waiting == nil {
		p.waiting = make(map[uint64]chan struct{})
	}
	p.waiting[id] = answered
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}()
	if err := a.order(orderFrame(c, frame.TypePing, body[:])); err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	default:
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.cause
	}
}

// keepAlive starts the liveness check. It is called with a.mu held.
func (a *Association) keepAlive() {
	p := &a.pings
	if p.interval = a.cfg.KeepAlive; p.interval == 0 {
		return
	}
	p.start = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.interval, a.checkAlive)
}

// checkAlive is run by the timer. a.mu comes before p.mu, so it acts after it has
// let go of the latter.
func (a *Association) checkAlive() {
	p := &a.pings
	silent := time.Since(p.start) - time.Duration(p.last.Load())
	p.mu.Lock()
	ask, dead := false, false
	switch {
	case p.stopped:
	case silent < p.interval:
		p.asked = false
		p.timer.Reset(p.interval - silent)
	case p.asked && silent >= p.interval+keepAliveTimeout:
		dead = true
	default:
		ask = !p.asked
		p.asked = true
		p.timer.Reset(p.interval + keepAliveTimeout - silent)
	}
	p.mu.Unlock()
	switch {
	case dead:
		a.end(ErrPeerSilent, 0, nil, nil)
	case ask:
		var body [8]byte
		rand.Read(body[:])
		a.order(orderFrame(a.pingChannel(), frame.TypePing, body[:]))
	}
}

// pingChannel returns the channel for PINGs that nobody chose: Discovery before
// any other, Control only where there is none.
func (a *Association) pingChannel() *channel {
	best := a.control()
	for _, c := range a.channels {
		switch {
		case !c.peerAdvertised || !c.advertised || c.id == frame.ChannelControl:
		case c.id == frame.ChannelDiscovery:
			return c
		case best.id == frame.ChannelControl:
			best = c
		}
	}
	return best
}
