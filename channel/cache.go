package channel

import "github.com/npamp/disco/record"

// Lookup returns what was learned of a record on this association, by whatever
// frame. It is unconfirmed while only an ANNOUNCE carried it, and it may be out
// of date: a query is the authority (§7.1).
func (p *Peer) Lookup(id record.ID) (r record.Record, confirmed, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cache.Lookup(id)
}

// Cached returns all that was learned on this association, in no order.
func (p *Peer) Cached() []record.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]record.Record, 0, p.cache.Len())
	for r := range p.cache.All() {
		out = append(out, r)
	}
	return out
}

// Dangling returns those of an agent's tools that name no tool record learned:
// references to something that is not there (§5.4).
func (p *Peer) Dangling(agent record.Record) []record.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cache.Dangling(agent)
}

// learn takes a whole listing into the cache, on the caller's goroutine and a
// few records at a time, so that the reader need not wait for all of it. The cache
// remembers its order, unless it remembers that of a longer one of something else.
func (p *Peer) learn(l *listing, recs []record.Record) {
	const batch = 256
	inOrder := false
	for at := 0; at < len(recs); at += batch {
		n := min(batch, len(recs)-at)
		p.mu.Lock()
		if p.life.closing {
			p.mu.Unlock()
			return
		}
		if at == 0 && (l.matcher == p.listed || len(recs) >= p.cache.NumListed()) {
			inOrder, p.listed = true, l.matcher
			p.cache.Expect(len(recs))
		}
		var refused uint64
		for i, r := range recs[at : at+n] {
			if inOrder {
				p.learned(p.cache.LearnListed(at+i, r, l.epoch), &refused)
			} else {
				p.learned(p.cache.Learn(r, l.epoch), &refused)
			}
		}
		if inOrder && at+n == len(recs) {
			p.cache.EndListed(len(recs))
		}
		p.mu.Unlock()
	}
}

// learned counts what became of a record. p.mu is held.
func (p *Peer) learned(o record.Outcome, refused *uint64) {
	switch o {
	case record.Stale:
		p.stats.StaleRevision++
	case record.Conflict:
		p.stats.RevisionConflict++
	case record.Refused:
		*refused++
	}
}
