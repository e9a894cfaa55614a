package record

import "iter"

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
// came: it answers no query, it only knows. It owns the memory of what it holds.
// It is not safe for concurrent use, nor are its Views.
type Cache struct {
	lim    CacheLimits
	held   map[ID]entry
	octets int
	tombs  map[ID]tomb
	order  []ID  // of the tombstones, oldest first; some may be gone
	epoch  Epoch // withdrawals so far
}

type entry struct {
	rec       Record
	views     int32 // live views that hold the id
	confirmed bool  // a RESULT or UPDATE carried it [C56]
}

// tomb remembers a withdrawn record.
type tomb struct {
	revision uint64
	epoch    Epoch
}

// An Epoch is a moment in the life of a Cache: a listing that began before a
// withdrawal must not bring the record back.
type Epoch uint64

// NewCache returns an empty cache.
func NewCache(lim CacheLimits) *Cache { return &Cache{lim: lim} }

// Epoch returns the present moment.
func (c *Cache) Epoch() Epoch { return c.epoch }

// Len returns the number of records.
func (c *Cache) Len() int { return len(c.held) }

// Memory is roughly what the cache holds, in octets.
func (c *Cache) Memory() int { return c.octets + 80*len(c.held) + 80*len(c.tombs) + 16*len(c.order) }

// Clear forgets everything: state dies with the association (§8). Views are
// not changed.
func (c *Cache) Clear() { *c = Cache{lim: c.lim, epoch: c.epoch} }

// Lookup returns the record with the id. It is unconfirmed while only an
// ANNOUNCE has carried it.
func (c *Cache) Lookup(id ID) (rec Record, confirmed, ok bool) {
	e, ok := c.held[id]
	return e.rec, e.confirmed, ok
}

// All yields the records, in no order.
func (c *Cache) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, e := range c.held {
			if !yield(e.rec) {
				return
			}
		}
	}
}

// Learn takes a record of a RESULT whose listing began at the moment given.
func (c *Cache) Learn(r Record, began Epoch) Outcome {
	_, o := c.take(Ref{}, r, began, true)
	return o
}

// Announce takes a record of an ANNOUNCE: it primes, and confirms nothing.
func (c *Cache) Announce(r Record) Outcome {
	_, o := c.take(Ref{}, r, c.epoch, false)
	return o
}

// take is the revision rule (§8). The record is r, or ref where r is zero. It
// returns what is held of it afterwards, in memory of the cache's own; zero if
// there was no room.
func (c *Cache) take(ref Ref, r Record, began Epoch, confirms bool) (Record, Outcome) {
	var id, revision = ID(""), uint64(0)
	var old entry
	var held bool
	if r.IsZero() { // no allocation where nothing is new
		revision = ref.Revision()
		old, held = c.held[ID(ref.ID())]
	} else {
		id, revision = r.ID(), r.Revision()
		old, held = c.held[id]
	}
	if held {
		was := old.rec.Revision()
		same := old.rec.s == r.s || r.IsZero() && old.rec.s == string(ref.b)
		if confirms && !old.confirmed && revision >= was {
			old.confirmed = true
			c.held[old.rec.ID()] = old
		}
		switch {
		case same:
			return old.rec, Same
		case revision < was:
			return old.rec, Stale
		case revision == was:
			return old.rec, Conflict
		}
	}
	if r.IsZero() {
		r = ref.Record()
	} else {
		r = r.Clone()
	}
	id = r.ID()
	if t, gone := c.tombs[id]; gone {
		if began < t.epoch && revision <= t.revision {
			return Record{}, Stale
		}
		delete(c.tombs, id)
	}
	octets := c.octets - old.rec.Len() + r.Len()
	if !held && len(c.held) >= c.lim.MaxRecords || octets > c.lim.MaxLen {
		return r, Refused
	}
	if c.held == nil {
		c.held = make(map[ID]entry)
	}
	c.octets = octets
	delete(c.held, id) // so that the key is cut from the record that stays
	c.held[id] = entry{r, old.views, confirms || old.confirmed}
	if held {
		return r, Replaced
	}
	return r, Added
}

// hold counts a view that holds, or no longer holds, the id.
func (c *Cache) hold(id ID, n int32) {
	if e, ok := c.held[id]; ok {
		e.views += n
		c.held[id] = e
	}
}

// withdraw takes a record out because one view was told so: the view of
// everything, or the last that held it [C16].
func (c *Cache) withdraw(id ID, all bool) {
	e, ok := c.held[id]
	if !ok || e.views > 0 && !all {
		return
	}
	delete(c.held, id)
	c.octets -= e.rec.Len()
	c.epoch++
	if c.lim.MaxTombstones <= 0 {
		return
	}
	for len(c.order) >= c.lim.MaxTombstones {
		delete(c.tombs, c.order[0])
		c.order = c.order[1:]
	}
	if c.tombs == nil {
		c.tombs = make(map[ID]tomb)
	}
	id = ID([]byte(id)) // not the record's memory
	c.tombs[id] = tomb{e.rec.Revision(), c.epoch}
	c.order = append(c.order, id)
}

// Dangling returns those of an agent's tools that name no tool record held:
// they are references to something that is not there, and nothing is made up
// for them (§5.4).
func (c *Cache) Dangling(agent Record) []ID {
	return dangling(agent, func(id ID) Record { return c.held[id].rec })
}

func dangling(agent Record, get func(ID) Record) (ids []ID) {
	a, _ := agent.Agent()
	for _, id := range a.Tools {
		if r := get(id); r.IsZero() || r.Kind() != KindTool {
			ids = append(ids, id)
		}
	}
	return ids
}
