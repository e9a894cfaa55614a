package record

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Projection is what one peer may see of a Source (§10): itself a Source, so
// that whoever answers the peer needs to know of nothing else. An agent is
// there only if all its tools are [C38]. What becomes hidden is withdrawn, what
// becomes visible is added at its present revision [C53]. All methods may be
// called concurrently.
//
// It shares every chunk that it does not have to cut with its source, so a
// projection that hides little costs little.
type Projection struct {
	visible func(Record) bool
	source  Source
	stop    func()

	refresh sync.Mutex // held by one Refresh from beginning to end

	mu       sync.Mutex // guards the rest
	waiting  []*Change  // that came while everything is looked at
	busy     bool       // it is
	from     *Snapshot  // the source's version that this one is made of
	seen     []picks    // of each chunk of it, what is visible
	parts    []*chunk   // the same, as chunks; nil where nothing is
	churn    *atomic.Uint64
	watchers watchers
	now      atomic.Pointer[Snapshot]
}

// Project returns the projection of src to the records for which visible is
// true. visible must be pure and must not block: it is called for every record
// at first and on Refresh, and later for what changes, with the source locked.
// A panic of it hides the record; nil hides all. Close ends the projection.
func Project(src Source, visible func(Record) bool) *Projection {
	p := &Projection{visible: visible, source: src, busy: true, churn: new(atomic.Uint64)}
	p.now.Store(&Snapshot{churn: p.churn})
	p.from, p.stop = src.Watch(p.changed)
	p.lookAtAll()
	return p
}

// Close ends it: no change comes any more. It is idempotent.
func (p *Projection) Close() { p.stop() }

// Snapshot is Source.Snapshot.
func (p *Projection) Snapshot() *Snapshot { return p.now.Load() }

// Watch is Source.Watch.
func (p *Projection) Watch(fn func(*Change)) (*Snapshot, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watchers.add(fn)
	return p.now.Load(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watchers.remove(w)
	}
}

// Refresh looks at every record anew. It is called when what visible says has
// changed, and what it hides is gone from Snapshot when it returns. The source
// does not wait for it.
func (p *Projection) Refresh() {
	p.refresh.Lock()
	defer p.refresh.Unlock()
	p.mu.Lock()
	p.busy = true
	p.mu.Unlock()
	p.lookAtAll()
}

// Visible looks at one record anew, whatever was found before. An agent is
// visible if its tools are, as far as they are still advertised.
func (p *Projection) Visible(r Record) bool {
	if !p.look(r) {
		return false
	}
	var all *Snapshot
	for tool := range r.toolRefs() {
		if all == nil {
			all = p.source.Snapshot()
		}
		if t, ok := all.Get(tool); ok && !p.look(t) {
			return false
		}
	}
	return true
}

// look asks the hook. It fails closed.
func (p *Projection) look(r Record) (ok bool) {
	if p.visible == nil {
		return false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return p.visible(r)
}

// lookAtAll evaluates every record of p.from, which changes leave alone as long
// as p.busy is set, then catches up with them.
func (p *Projection) lookAtAll() {
	chunks := p.from.chunks
	seen := make([]picks, len(chunks))
	for k, c := range chunks {
		for rest := c.ofKinds(allKinds &^ (1 << KindAgent)); !rest.none(); {
			var i int
			if i, rest = rest.first(); p.look(c.at(i)) {
				seen[k].add(i)
			}
		}
	}
	for k, c := range chunks {
		for rest := c.kinds[KindAgent]; !rest.none(); {
			var i int
			if i, rest = rest.first(); p.look(c.at(i)) && shown(c.at(i), func(tool ID) bool {
				at, i, ok := find(chunks, tool)
				return ok && seen[at].has(i)
			}) {
				seen[k].add(i)
			}
		}
	}
	first := p.seen == nil // nobody watches yet
	now := &Snapshot{}
	parts := make([]*chunk, len(chunks))
	var deltas []Delta
	hides := false
	for k, c := range chunks {
		var was picks
		if !first {
			was, parts[k] = p.seen[k], p.parts[k]
		}
		if was != seen[k] {
			parts[k] = c.part(seen[k])
		}
		if parts[k] != nil {
			now.n, now.octets = now.n+parts[k].len(), now.octets+len(parts[k].s)
		}
		if first {
			continue
		}
		for rest := was.or(seen[k]).andNot(was.and(seen[k])); !rest.none(); {
			var i int
			i, rest = rest.first()
			r := c.at(i).Clone()
			if was.has(i) {
				deltas = append(deltas, newDelta(r.ID(), r, Record{}))
				hides = true
			} else {
				deltas = append(deltas, newDelta(r.ID(), Record{}, r))
			}
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.parts = seen, parts
	p.publish(now, deltas, hides)
	for _, c := range p.waiting {
		p.follow(c)
	}
	p.waiting, p.busy = nil, false
}

// shown reports whether all tools of an agent are; other kinds have none.
func shown(r Record, tool func(ID) bool) bool {
	for id := range r.toolRefs() {
		if !tool(id) {
			return false
		}
	}
	return true
}

// part returns the chunk's records that are seen, nil if none is.
func (c *chunk) part(seen picks) *chunk {
	switch {
	case seen.none():
		return nil
	case seen == ones(c.len()):
		return c
	}
	var some []Record
	for !seen.none() {
		var i int
		i, seen = seen.first()
		some = append(some, c.at(i))
	}
	return makeChunk(some)
}

// changed takes a change of the source.
func (p *Projection) changed(c *Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		p.waiting = append(p.waiting, c)
		return
	}
	p.follow(c)
}

// follow makes the change of the source one of the projection. p.mu is held.
func (p *Projection) follow(c *Change) {
	was := func(id ID) bool {
		at, i, ok := find(p.from.chunks, id)
		return ok && p.seen[at].has(i)
	}
	now := make([]bool, len(c.Deltas))
	flipped := map[ID]bool{} // tools whose agents may be of this change or not
	for i := range c.Deltas {
		if d := &c.Deltas[i]; !d.Now.IsZero() && d.NowFacts.kind != KindAgent {
			now[i] = p.look(d.Now)
			if d.NowFacts.kind == KindTool && !d.Was.IsZero() && was(d.ID) != now[i] {
				flipped[d.ID] = true
			}
		}
	}
	// what a tool is afterwards: of this change, or as before
	tool := func(id ID) bool {
		i, ok := slices.BinarySearchFunc(c.Deltas, id, func(d Delta, id ID) int { return compareID(d.ID, id) })
		if ok {
			return now[i]
		}
		return was(id)
	}
	for i := range c.Deltas {
		if d := &c.Deltas[i]; !d.Now.IsZero() && d.NowFacts.kind == KindAgent {
			now[i] = p.look(d.Now) && shown(d.Now, tool)
		}
	}

	var deltas []Delta
	hides := c.Hides
	turns := map[ID]bool{} // what is seen of the changed records, and of the agents of flipped tools
	for i, d := range c.Deltas {
		seen := was(d.ID)
		hides = hides || seen && !now[i] && !d.Now.IsZero()
		turns[d.ID] = now[i]
		if !seen {
			d.Was, d.WasFacts = Record{}, Facts{}
		}
		if !now[i] {
			d.Now, d.NowFacts = Record{}, Facts{}
		}
		if seen || now[i] {
			deltas = append(deltas, d)
		}
	}
	if len(flipped) > 0 {
		agents := Filter{Kinds: []Kind{KindAgent}}.Matcher()
		for r := range c.After.Match(&agents) {
			if _, ok := turns[r.ID()]; ok || shown(r, func(id ID) bool { return !flipped[id] }) {
				continue
			}
			before, after := was(r.ID()), p.look(r) && shown(r, tool)
			if before == after {
				continue
			}
			d := Delta{}
			if r = r.Clone(); after {
				d = newDelta(r.ID(), Record{}, r)
			} else {
				d = newDelta(r.ID(), r, Record{})
				hides = true
			}
			turns[r.ID()] = after
			deltas = append(deltas, d)
		}
		slices.SortFunc(deltas, func(a, b Delta) int { return compareID(a.ID, b.ID) })
	}
	p.align(c.After, turns)
	last := p.now.Load()
	next := &Snapshot{n: last.n, octets: last.octets}
	for i := range deltas {
		next.count(&deltas[i])
	}
	p.publish(next, deltas, hides)
}

// align makes p.seen and p.parts fit the source's next version, where the
// records in turns are seen or not, and all others as before.
func (p *Projection) align(after *Snapshot, turns map[ID]bool) {
	old, next := p.from.chunks, after.chunks
	head, tail := same(old, next)
	// The chunks between have changed, or stand among such.
	seen := make([]picks, 0, len(next)-tail-head)
	parts := make([]*chunk, 0, len(next)-tail-head)
	stale := map[int]bool{} // the places in p.parts of what must be cut anew
	j, i := head, 0         // a place in the old chunks, which moves along
	for _, c := range next[head : len(next)-tail] {
		var s picks
		var part *chunk
		for k := range c.len() {
			id := c.at(k).ID()
			for j < len(old)-tail && old[j].at(i).ID() < id {
				if i++; i == old[j].len() {
					j, i = j+1, 0
				}
			}
			if j == len(old)-tail {
				break
			}
			if k == 0 && i == 0 && old[j] == c {
				s, part = p.seen[j], p.parts[j]
				break
			}
			if p.seen[j].has(i) && old[j].at(i).ID() == id {
				s.add(k)
			}
		}
		if part == nil {
			stale[head+len(seen)] = true
		}
		seen, parts = append(seen, s), append(parts, part)
	}
	p.parts = slices.Replace(p.parts, head, len(old)-tail, parts...)
	p.seen = slices.Replace(p.seen, head, len(old)-tail, seen...)
	p.from = after
	for id, yes := range turns {
		at, i, ok := find(next, id)
		if !ok || p.seen[at].has(i) == yes {
			continue
		}
		if p.seen[at] = p.seen[at].andNot(ones(i + 1).from(i)); yes {
			p.seen[at].add(i)
		}
		stale[at] = true
	}
	for at := range stale {
		p.parts[at] = next[at].part(p.seen[at])
	}
}

// publish makes the next version of p.parts, already counted, and tells of the
// deltas that led to it. p.mu is held.
func (p *Projection) publish(now *Snapshot, deltas []Delta, hides bool) {
	if now.hides = p.now.Load().hides; hides {
		now.hides++
	}
	if now.chunks = p.from.chunks; now.n < p.from.n {
		now.chunks = make([]*chunk, 0, len(p.parts))
		for _, c := range p.parts {
			if c != nil {
				now.chunks = append(now.chunks, c)
			}
		}
	}
	now.churn = p.churn
	now.born = p.churn.Add(uint64(lost(p.now.Load().chunks, now.chunks)))
	p.now.Store(now)
	if len(deltas) > 0 {
		p.watchers.tell(newChange(now, deltas, hides))
	}
}

func compareID(a, b ID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
