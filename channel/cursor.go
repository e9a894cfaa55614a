package channel

import (
	"crypto/rand"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

const cursorLen = 16 // octets of a cursor of ours, all random [C2]

// A chain is one listing of which pages are still to be read: an immutable
// version of the set, and what was asked of it.
type chain struct {
	snapshot *record.Snapshot
	filter   record.Filter // normalised
	tolerant bool
	matcher  record.Matcher
	used     time.Time
	issued   map[record.Position]disco.Cursor // so that reading a page again gives the same cursor
	pushed   bool                             // it is the snapshot of a subscription, too [C15]
}

// A mark is what a cursor stands for.
type mark struct {
	chain *chain
	pos   record.Position
}

// cursors is the table of the cursors that one peer was given. It belongs to
// one association and dies with it (§8).
type cursors struct {
	max   int
	ttl   time.Duration
	marks map[disco.Cursor]mark
	lru   []*chain // least recently used first; never more than max
}

// issue returns the cursor of a position in a chain.
func (t *cursors) issue(c *chain, pos record.Position, now time.Time) disco.Cursor {
	t.touch(c, now)
	if cur, ok := c.issued[pos]; ok {
		return cur
	}
	cur := newCursor()
	if c.issued == nil {
		c.issued = make(map[record.Position]disco.Cursor, 1)
	}
	if t.marks == nil {
		t.marks = make(map[disco.Cursor]mark)
	}
	c.issued[pos] = cur
	t.marks[cur] = mark{c, pos}
	return cur
}

// issue returns the cursor of a position in a chain, and looks after the chains
// from now on, although the peer may be idle. p.mu is held.
func (p *Peer) issue(c *chain, pos record.Position) disco.Cursor {
	cur := p.cursors.issue(c, pos, time.Now())
	p.relieve()
	if !p.expiring {
		p.expiring = true
		p.expireIn(p.lim.SnapshotTTL)
	}
	return cur
}

func (p *Peer) expireIn(d time.Duration) {
	d = min(d, watchInterval) // the set may change meanwhile, and a snapshot cost more
	setTimer(&p.expiry, d, p.expire)
}

func (p *Peer) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.cursors.expire(now)
	p.relieve()
	if len(p.cursors.lru) == 0 || p.life.closing {
		p.expiring = false
		return
	}
	p.expireIn(p.lim.SnapshotTTL - now.Sub(p.cursors.lru[0].used))
}

// relieve drops chains, least recently used first, while they are much of what
// passes MaxPeerMemory. p.mu is held.
func (p *Peer) relieve() {
	for p.crowded(0) && p.cursors.memory() > p.lim.MaxPeerMemory/4 {
		p.cursors.drop(p.cursors.lru[0])
	}
}

func newCursor() disco.Cursor {
	var b [cursorLen]byte
	rand.Read(b[:]) // never fails
	return disco.Cursor(b[:])
}

// of returns the chain for the snapshot of a subscription.
func (t *cursors) of(s *record.Snapshot, f record.Filter) *chain {
	for _, c := range t.lru {
		if c.snapshot == s && !c.tolerant && c.filter.Equal(f) {
			return c
		}
	}
	return &chain{snapshot: s, filter: f, matcher: f.Matcher()}
}

// find returns what cur stands for. Unknown, expired, evicted and foreign ones
// look alike.
func (t *cursors) find(cur disco.Cursor, now time.Time) (mark, bool) {
	t.expire(now)
	m, ok := t.marks[cur]
	if ok {
		t.touch(m.chain, now)
	}
	return m, ok
}

// touch makes c the most recently used chain, dropping another where there are
// too many.
func (t *cursors) touch(c *chain, now time.Time) {
	c.used = now
	for i, o := range t.lru {
		if o == c {
			copy(t.lru[i:], t.lru[i+1:])
			t.lru[len(t.lru)-1] = c
			return
		}
	}
	t.lru = append(t.lru, c)
	if len(t.lru) > t.max {
		t.drop(t.lru[0])
	}
}

// expire drops what has not been read for the time to live.
func (t *cursors) expire(now time.Time) {
	for len(t.lru) > 0 && now.Sub(t.lru[0].used) >= t.ttl {
		t.drop(t.lru[0])
	}
}

// drop forgets a chain and its cursors.
func (t *cursors) drop(c *chain) {
	for _, cur := range c.issued {
		delete(t.marks, cur)
	}
	c.issued = nil
	for i, o := range t.lru {
		if o == c {
			t.lru = append(t.lru[:i], t.lru[i+1:]...)
			return
		}
	}
}

// dropAll forgets everything.
func (t *cursors) dropAll() { t.marks, t.lru = nil, nil }

// memory is roughly what the table holds beyond the set itself, in octets.
func (t *cursors) memory() int {
	n := len(t.marks) * 200
	for _, c := range t.lru {
		n += c.snapshot.Held()
	}
	return n
}
