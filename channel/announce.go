package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// Announce publishes records to the peer, one way (§7.1): it returns when the
// frames are written, and nothing tells whether the peer took them. It takes as
// many frames as the page limits ask for and returns their number. The records
// are sent as they are, each record_id once; they need not be in the advertised
// set.
func (p *Peer) Announce(ctx context.Context, recs []record.Record) (frames int, err error) {
	if len(recs) == 0 {
		return 0, nil
	}
	seen := make(map[record.ID]struct{}, len(recs))
	for _, r := range recs {
		if r.IsZero() {
			return 0, errors.New("channel: the zero record cannot be announced")
		}
		if r.Len() > p.lim.MaxFrameLen-resultOverhead {
			return 0, fmt.Errorf("%w: record %s of %d octets: MaxFrameLen", ErrLimit, r.ID(), r.Len())
		}
		if _, twice := seen[r.ID()]; twice {
			return 0, fmt.Errorf("channel: record %s is announced twice", r.ID()) // C19
		}
		seen[r.ID()] = struct{}{}
	}
	written := make(chan error, 1)
	p.mu.Lock()
	if err := p.mayAsk(); err != nil {
		p.mu.Unlock()
		return 0, err
	}
	frames = p.announce(recs, written)
	p.mu.Unlock()
	select {
	case err := <-written:
		return frames, err
	case <-ctx.Done():
	}
	select { // a ready result wins
	case err := <-written:
		return frames, err
	default:
		return 0, ctx.Err()
	}
}

// announce queues the frames for at least one record. p.mu is held.
func (p *Peer) announce(recs []record.Record, written chan<- error) (frames int) {
	for rest := recs; len(rest) > 0; frames++ {
		rest = rest[p.pageOf(rest):]
	}
	a := &announcement{recs: recs, written: written}
	a.end(p.send(a))
	return frames
}

// pageOf returns how many of the records fit on one page.
func (p *Peer) pageOf(recs []record.Record) (n int) {
	octets, page := 0, p.page()
	for n < len(recs) && n < page.MaxRecords && (n == 0 || octets+recs[n].Len() <= page.MaxLen) {
		octets += recs[n].Len()
		n++
	}
	return n
}

// announceAll publishes what the peer may see (§8, [C56]), as far as it can be
// represented.
func (p *Peer) announceAll() {
	recs := slices.DeleteFunc(slices.Collect(p.snapshot().All()), func(r record.Record) bool {
		return r.Len() > p.page().MaxRecordLen
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(recs) > 0 && p.mayAsk() == nil {
		p.send(&announcement{recs: recs, visible: true})
	}
}

// An announcement is what is still to be announced, a frame at a time: however
// much it is, it waits for the link as one.
type announcement struct {
	recs    []record.Record
	written chan<- error // buffered; nil: nobody waits
	visible bool         // what the peer may not see when its turn comes is left out [C53]
}

// next takes the records of the next frame; none if there is no more.
func (a *announcement) next(p *Peer) (page []record.Record) {
	for len(page) == 0 && len(a.recs) > 0 {
		n := p.pageOf(a.recs)
		page, a.recs = a.recs[:n:n], a.recs[n:]
		if now := p.snapshot(); a.visible {
			page = slices.DeleteFunc(page, func(r record.Record) bool { _, ok := now.Get(r.ID()); return !ok })
		}
	}
	return page
}

func (a *announcement) frame(p *Peer, b []byte) ([]byte, disco.Type, bool) {
	p.mu.Unlock()
	page := a.next(p)
	if len(page) > 0 {
		b = disco.AppendAnnounceHead(b, len(page))
		for _, r := range page {
			b = r.AppendTo(b)
		}
	}
	p.mu.Lock()
	if len(page) == 0 {
		return b, 0, false
	}
	switch {
	case len(a.recs) > 0:
		a.end(p.send(a))
	case a.written != nil:
		p.writes = append(p.writes, writeWait{p.given.Load() + 1, a.written})
	}
	return b, disco.TypeAnnounce, true
}

// end tells why the announcement breaks off, unless err is nil.
func (a *announcement) end(err error) {
	if err != nil && a.written != nil {
		a.written <- err
	}
}

// announced takes a DISCO_ANNOUNCE: it primes the cache, and nothing is ever
// sent in return (§7.1).
func (p *Peer) announced(a disco.Announce) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.closing {
		return
	}
	if a.HasCorr {
		p.stats.AnnounceCorr++ // C25
	}
	p.stats.Skipped += uint64(len(a.Skipped))
	for _, r := range a.Records {
		if p.crowded(r.Len()) {
			p.stats.AnnounceRefused++
			continue
		}
		p.learned(p.cache.Announce(r), &p.stats.AnnounceRefused)
	}
	if p.cfg.OnAnnounce == nil {
		return
	}
	n := pageMemory(a.Records, a.Skipped)
	if p.told.waiting.len() >= p.lim.MaxQueuedEvents || p.crowded(n) {
		p.stats.UntoldAnnouncements++
		return
	}
	p.told.waiting.push(Announcement{Records: a.Records, Skipped: a.Skipped})
	p.held += n
	if !p.told.queued {
		p.told.queued = true
		p.schedule(&p.told)
	}
}

// announcements are what waits for Config.OnAnnounce.
type announcements struct {
	p       *Peer
	waiting fifo[Announcement]
	queued  bool
}

func (t *announcements) call() (more bool) {
	if a, ok := t.waiting.pop(); ok {
		t.p.held -= pageMemory(a.Records, a.Skipped)
		t.p.outside(func() { t.p.cfg.OnAnnounce(a) })
	}
	t.queued = t.waiting.len() > 0
	return t.queued
}
