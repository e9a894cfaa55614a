package main

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// disturb does to the peers what a network and its operators do, until ctx is
// done. Each thing is done under s.quiet, so that a checkpoint has peace.
func (s *soak) disturb(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	every := func(id int, mean time.Duration, peers []*soakPeer, do func(*rand.Rand, *soakPeer)) {
		if len(peers) == 0 {
			return
		}
		rng := s.chance(id)
		running.Go(func() {
			for soakPause(ctx, time.Duration(rng.ExpFloat64()*float64(mean))) {
				s.quiet.RLock()
				do(rng, peers[rng.IntN(len(peers))])
				s.quiet.RUnlock()
			}
		})
	}
	var flipping []*soakPeer
	for _, p := range s.peers {
		if p.flips {
			flipping = append(flipping, p)
		}
	}
	// Every peer is cut once in two minutes, or one of few each second.
	every(1, min(2*time.Minute/time.Duration(len(s.peers)), time.Second), s.peers, s.cutOff)
	every(2, 100*time.Millisecond, s.peers, s.replaceKeys)
	every(3, time.Second, flipping, s.hide)
	every(4, 500*time.Millisecond, s.peers, func(rng *rand.Rand, p *soakPeer) { s.announce(ctx, rng, p) })
	for _, p := range s.peers {
		if p.stalls {
			running.Go(func() { s.stall(ctx, p) })
		}
	}
}

// cutOff closes the connection under an association, with a reset half the time.
func (s *soak) cutOff(rng *rand.Rand, p *soakPeer) {
	l := p.clientLink()
	if l == nil {
		return
	}
	l.cut.Store(true)
	if c, ok := l.gate.Conn.(*net.TCPConn); ok && rng.IntN(2) == 0 {
		c.SetLinger(0)
	}
	l.gate.Close()
	s.cuts.Add(1)
}

// replaceKeys does it at one end, in one of the ways there are.
func (s *soak) replaceKeys(rng *rand.Rand, p *soakPeer) {
	l := p.clientLink()
	if rng.IntN(2) == 0 {
		l = p.hostLink()
	}
	if l == nil {
		return
	}
	var err error
	switch rng.IntN(8) {
	case 0:
		err = l.as.Ratchet()
	case 1:
		err = l.as.Rekem()
	case 2:
		err = l.as.KeyUpdate(frame.ChannelControl)
	default:
		err = l.as.KeyUpdate(frame.ChannelDiscovery)
	}
	if err == nil { // else the association has ended, or another Rekem is under way
		s.rekeyed.Add(1)
	}
}

// hide changes which part of the records a peer may see.
func (s *soak) hide(rng *rand.Rand, p *soakPeer) {
	p.flip.Add(1)
	p.hidden.Store(uint32(rng.IntN(9)))
	if l := p.hostLink(); l != nil {
		l.peer.Refresh()
	}
	p.flip.Add(1)
	s.hides.Add(1)
}

// announce publishes a few records one way: some of those advertised and one that
// no subscription must ever show.
func (s *soak) announce(ctx context.Context, rng *rand.Rand, p *soakPeer) {
	l := p.clientLink()
	if rng.IntN(2) == 0 {
		l = p.hostLink()
	}
	if l == nil || p.stalls {
		return
	}
	name := "g00.tool-announced"
	only, err := record.Tool{ID: "announced", Name: name, ProtocolID: soakProtocol}.Record()
	if err != nil {
		s.fail(err)
		return
	}
	records := []record.Record{only}
	snap := s.set.Snapshot()
	tools := s.pub.ids[record.KindTool]
	if l == p.hostLink() && !p.flips { // nothing that the peer must not see
		for range 3 {
			r, ok := snap.Get(tools[rng.IntN(len(tools))])
			if ok && r != records[len(records)-1] {
				records = append(records, r)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := l.peer.Announce(ctx, records); err == nil {
		s.announces.Add(1)
	}
}

// stall has a peer stop reading for a while, again and again. One time in four it
// is longer than the other end may put up with.
func (s *soak) stall(ctx context.Context, p *soakPeer) {
	rng := s.chance(100_000 + p.index)
	for soakPause(ctx, s.between(rng, 20*time.Second)) {
		long := s.between(rng, 15*time.Second)
		if rng.IntN(4) == 0 {
			long = min(2*soakPatience, s.opt.duration/4)
		}
		s.quiet.RLock()
		l := p.clientLink()
		if l != nil {
			l.gate.hold()
		}
		s.quiet.RUnlock()
		if l == nil {
			continue
		}
		s.stalls.Add(1)
		s.stalled.Add(1)
		for end := time.Now().Add(long); l.gate.isHeld() && time.Now().Before(end) && soakPause(ctx, 50*time.Millisecond); {
		}
		l.gate.release()
		s.stalled.Add(-1)
	}
}
