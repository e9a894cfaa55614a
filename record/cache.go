package record

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// CacheLimits bounds a Cache. Zero means none of it is kept.
type CacheLimits struct {
	MaxRecords    int // records
	MaxLen        int // octets of records
	MaxTombstones int // withdrawn records that are remembered [C17]
}

// An Outcome is what became of a record that arrived.
type Outcome uint8

const (
	Added    Outcome = iota // it was not held, and is now
	Replaced                // its revision is greater than the one held (§8)
	Same                    // it is held already, octet for octet
	Stale                   // its revision is less than the one held, or it is of a listing older than its withdrawal [C17]
	Conflict                // other contents at the revision held, which stay [C18]
	Refused                 // there is no room
)

// A Cache is everything learned on one association (§8), by whatever frame it
// came: it answers no query, it only knows. It owns the memory of what it holds,
// and shares it with its Views: a record that comes in the frames of many
// subscriptions is held once. It is not safe for concurrent use, nor are its
// Views.
//
// Where there is no room, what only an ANNOUNCE carried makes place for the
// rest. A View takes its records nevertheless: what bounds those is Memory.
type Cache struct {
	lim       CacheLimits
	entries   map[ID]*entry
	n, octets int             // of the entries' records
	alive     int             // octets of all versions that somebody holds
	versions  int             // their number
	announced map[ID]struct{} // entries that are unconfirmed

	last  *entry // of the record that came last: an UPDATE comes once for each subscription that it concerns
	trail []step // the records of the last listing, in its order: the next mostly brings the same

	epoch Epoch       // withdrawals so far
	tombs map[ID]tomb // withdrawn records
	order []grave     // in the order of their withdrawal; some are not in tombs any more
	lost  Epoch       // before this, tombs does not have all
}

// A version is one record as it is held, by the cache, by views, or by both.
type version struct {
	rec  Record
	refs int32 // of the cache and the views
}

// An entry is what the cache knows of a record_id. It stays as long as a view
// holds the id, although the record may be withdrawn.
type entry struct {
	now   *version // nil: withdrawn
	views int32    // that hold the id, at whatever revision
}

// A step of the trail: what the cache had of a record, which it holds.
type step struct {
	e *entry
	v *version
}

// tomb remembers a withdrawn record.
type tomb struct {
	revision uint64
	epoch    Epoch
}

type grave struct {
	id    ID
	epoch Epoch
}

// An Epoch is a moment in the life of a Cache: a listing that began before a
// withdrawal must not bring the record back.
type Epoch uint64

// always is the Epoch of what is no listing, and so never older than anything.
const always Epoch = math.MaxUint64

// NewCache returns an empty cache.
func NewCache(lim CacheLimits) *Cache { return &Cache{lim: lim} }

// Epoch returns the present moment.
func (c *Cache) Epoch() Epoch { return c.epoch }

// Len returns the number of records.
func (c *Cache) Len() int { return c.n }

// Memory is roughly what the cache holds, in octets, with every record that one
// of its views holds, once. View.Memory adds what a view holds besides.
func (c *Cache) Memory() int {
	const perEntry, perVersion, perTomb, perStep = 80, 32, 100, 16
	return c.alive + perVersion*c.versions + perEntry*(len(c.entries)+len(c.announced)) + perTomb*len(c.order) + perStep*cap(c.trail)
}

// Clear forgets everything: state dies with the association (§8). Views are
// not changed.
func (c *Cache) Clear() {
	c.EndListed(0)
	c.trail, c.last = nil, nil
	for id, e := range c.entries {
		c.drop(id, e)
	}
	c.tombs, c.order, c.lost = nil, nil, c.epoch
	if len(c.entries) == 0 {
		c.entries, c.announced = nil, nil
	}
}

// Lookup returns the record with the id. It is unconfirmed while only an
// ANNOUNCE has carried it [C56].
func (c *Cache) Lookup(id ID) (rec Record, confirmed, ok bool) {
	e := c.entries[id]
	if e == nil || e.now == nil {
		return Record{}, false, false
	}
	_, announced := c.announced[id]
	return e.now.rec, !announced, true
}

// All yields the records, in no order.
func (c *Cache) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, e := range c.entries {
			if e.now != nil && !yield(e.now.rec) {
				return
			}
		}
	}
}

// Learn takes a record of a RESULT whose listing began at the moment given.
func (c *Cache) Learn(r Record, began Epoch) Outcome {
	_, o := c.take(source{rec: r}, began, true)
	return o
}

// LearnListed is Learn for the i-th record of a whole listing, which come in
// order from 0 on, and EndListed after the last. Looking up 100,000 ids takes
// nearly as long as all else that reading them takes, for each is elsewhere in
// memory; so the cache remembers what the last listing had at which place and
// looks there first: BenchmarkLearn has a tenth.
func (c *Cache) LearnListed(i int, r Record, began Epoch) Outcome {
	if i < len(c.trail) {
		if s := c.trail[i]; s.e.now == s.v && s.v.rec == r && len(c.announced) == 0 {
			return Same
		}
	}
	v, o := c.take(source{rec: r}, began, true)
	if v == nil || i > len(c.trail) {
		c.EndListed(i)
		return o
	}
	v.refs++
	if i == len(c.trail) {
		c.trail = append(c.trail, step{c.last, v})
	} else {
		c.release(c.trail[i].v)
		c.trail[i] = step{c.last, v}
	}
	return o
}

// Expect makes room for a listing of n records that is about to be learned. The
// first on an association takes an eighth less with it.
func (c *Cache) Expect(n int) {
	n = min(n, c.lim.MaxRecords)
	if c.entries == nil {
		c.entries = make(map[ID]*entry, n)
	}
	if n > cap(c.trail) {
		c.trail = slices.Grow(c.trail, n-len(c.trail))
	}
}

// EndListed says that a listing had n records.
func (c *Cache) EndListed(n int) {
	if n >= len(c.trail) {
		return
	}
	for i := range c.trail[n:] {
		c.release(c.trail[n+i].v)
	}
	clear(c.trail[n:])
	if c.trail = c.trail[:n]; n < cap(c.trail)/4 {
		c.trail = slices.Clone(c.trail)
	}
}

// NumListed returns the number of records of the last listing.
func (c *Cache) NumListed() int { return len(c.trail) }

// AppendListed appends up to n records of the last listing, in its order, that come
// after the id, or from the first on if that is empty. It searches as if they were
// ascending.
func (c *Cache) AppendListed(b []Record, after ID, n int) []Record {
	at := 0
	if after != "" {
		at = sort.Search(len(c.trail), func(i int) bool { return c.trail[i].v.rec.ID() > after })
	}
	for _, s := range c.trail[at:min(at+n, len(c.trail))] {
		b = append(b, s.v.rec)
	}
	return b
}

// Announce takes a record of an ANNOUNCE: it primes, and confirms nothing.
func (c *Cache) Announce(r Record) Outcome {
	_, o := c.take(source{rec: r}, always, false)
	return o
}

// A source is a record that arrived, in one form or the other.
type source struct {
	rec Record
	ref Ref // where rec is zero
}

func (s *source) revision() uint64 {
	if s.rec.IsZero() {
		return s.ref.Revision()
	}
	return s.rec.Revision()
}

// is reports whether the source is the record, octet for octet.
func (s *source) is(r Record) bool {
	if s.rec.IsZero() {
		return string(s.ref.b) == r.s
	}
	return s.rec.s == r.s
}

// copy returns the record in memory of its own.
func (s *source) copy() Record {
	if s.rec.IsZero() {
		return s.ref.Record()
	}
	return s.rec.Clone()
}

// judge is the revision rule (§8): what becomes of a source, given the record
// held, zero for none.
func (s *source) judge(held Record) Outcome {
	if held.IsZero() {
		return Added
	}
	switch was, is := held.Revision(), s.revision(); {
	case is > was:
		return Replaced
	case is < was:
		return Stale
	case s.is(held):
		return Same
	}
	return Conflict
}

// take makes the source the record of its id, if the rules let it, and returns
// what is held of it afterwards; nil for nothing. It allocates nothing where
// nothing is new.
func (c *Cache) take(s source, began Epoch, confirms bool) (*version, Outcome) {
	if e := c.last; e != nil && e.now != nil && s.is(e.now.rec) && len(c.announced) == 0 {
		return e.now, Same
	}
	var e *entry
	if s.rec.IsZero() {
		e = c.entries[ID(s.ref.ID())]
	} else {
		e = c.entries[s.rec.ID()]
	}
	c.last = e
	var held *version
	o := Added
	if e != nil && e.now != nil {
		held = e.now
		o = s.judge(held.rec)
	}
	switch o {
	case Same:
		if _, announced := c.announced[held.rec.ID()]; announced && confirms {
			delete(c.announced, held.rec.ID())
		}
		return held, o
	case Stale, Conflict:
		return held, o
	}

	r := s.rec
	if r.IsZero() {
		r = s.copy()
	}
	if held == nil && c.buried(r.ID(), r.Revision(), began) {
		return nil, Stale
	}
	if !c.room(held, r, confirms) {
		return held, Refused
	}
	if !s.rec.IsZero() {
		r = s.copy() // only now: there may be no room for any of a listing
	}
	id := r.ID()
	v := c.keep(r)
	if e == nil {
		e = new(entry)
		c.last = e
	}
	if held == nil {
		c.n++
	} else {
		c.octets -= held.rec.Len()
		c.release(held)
		delete(c.entries, id) // for the key is cut from a record, and this one stays
	}
	_, announced := c.announced[id]
	if announced || !confirms && held == nil {
		delete(c.announced, id)
		if !confirms {
			if c.announced == nil {
				c.announced = make(map[ID]struct{})
			}
			c.announced[id] = struct{}{}
		}
	}
	e.now = v
	c.octets += r.Len()
	if c.entries == nil {
		c.entries = make(map[ID]*entry)
	}
	c.entries[id] = e
	return v, o
}

// room makes place for a record instead of the one held, if it can.
func (c *Cache) room(held *version, r Record, confirms bool) bool {
	n, octets := 1, r.Len()
	if held != nil {
		n, octets = 0, octets-held.rec.Len()
	}
	for c.n+n > c.lim.MaxRecords || c.octets+octets > c.lim.MaxLen {
		if !confirms || !c.evict(r.ID()) {
			return false
		}
	}
	return true
}

// evict drops an announced record, but not that with the id.
func (c *Cache) evict(but ID) bool {
	for id := range c.announced {
		if id != but {
			c.drop(id, c.entries[id])
			return true
		}
	}
	return false
}

// buried reports whether a record that is not held was withdrawn after the
// listing that brings it began; if not, its withdrawal is forgotten. Where what
// was withdrawn is not remembered, the answer is that it was: failing towards
// absence is the safe side.
func (c *Cache) buried(id ID, revision uint64, began Epoch) bool {
	t, ok := c.tombs[id]
	if !ok {
		return began < c.lost
	}
	if began < t.epoch && revision <= t.revision {
		return true
	}
	delete(c.tombs, id)
	return false
}

// keep returns a version of a record that the cache holds.
func (c *Cache) keep(r Record) *version {
	c.alive += r.Len()
	c.versions++
	return &version{r, 1}
}

// release gives up one hold of a version.
func (c *Cache) release(v *version) {
	if v.refs--; v.refs == 0 {
		c.alive -= v.rec.Len()
		c.versions--
	}
}

// drop takes the record of an entry out of the cache.
func (c *Cache) drop(id ID, e *entry) {
	if e.now != nil {
		c.n--
		c.octets -= e.now.rec.Len()
		c.release(e.now)
		e.now = nil
	}
	delete(c.announced, id)
	if e.views == 0 {
		delete(c.entries, id)
	}
}

// hold counts a view that holds the id, or with -1 no longer does.
func (c *Cache) hold(id ID, n int32) {
	e := c.entries[id]
	if e == nil { // the record found no room, or is withdrawn
		if c.entries == nil {
			c.entries = make(map[ID]*entry)
		}
		e = new(entry)
		c.entries[id] = e
	}
	if e.views += n; e.views == 0 && e.now == nil {
		delete(c.entries, id)
	}
}

// withdraw takes a record out because a view was told so, which does not hold
// it any more: the record is gone if the view is of everything, or no other
// holds it [C16]. revision is what the view had, if it had one.
func (c *Cache) withdraw(id ID, revision uint64, all bool) {
	e := c.entries[id]
	if e != nil && e.views > 0 && !all {
		return
	}
	c.epoch++
	if e != nil && e.now != nil {
		revision = max(revision, e.now.rec.Revision())
		c.drop(id, e)
	}
	if revision == 0 || c.lim.MaxTombstones <= 0 { // nothing is known of it but that it is gone
		c.lost = c.epoch
		return
	}
	if len(c.order) >= c.lim.MaxTombstones {
		g := c.order[0]
		if c.tombs[g.id].epoch == g.epoch {
			delete(c.tombs, g.id)
			c.lost = max(c.lost, g.epoch)
		}
		c.order = c.order[1:]
	}
	if c.tombs == nil {
		c.tombs = make(map[ID]tomb)
	}
	id = ID([]byte(id)) // not the record's memory
	delete(c.tombs, id)
	c.tombs[id] = tomb{revision, c.epoch}
	c.order = append(c.order, grave{id, c.epoch})
}

// Dangling returns those of an agent's tools that name no tool record held:
// they are references to something that is not there, and nothing is made up
// for them (§5.4).
func (c *Cache) Dangling(agent Record) []ID {
	return dangling(agent, func(id ID) (Record, bool) {
		r, _, ok := c.Lookup(id)
		return r, ok
	})
}

func dangling(agent Record, get func(ID) (Record, bool)) (ids []ID) {
	for id := range agent.toolRefs() {
		if r, ok := get(id); !ok || r.Kind() != KindTool {
			ids = append(ids, id)
		}
	}
	return ids
}
