package record

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// An index says of a chunk's records which are of a kind, which name a
// protocol_id, and which have a name that begins with a prefix, without looking
// at their octets. It is made with the chunk and never changes.
type index struct {
	kinds     [KindAgent + 1]picks
	protocols []protocolPicks // ascending
	order     []uint8         // the tools and agents, by name
	keys      []uint64        // of each of order: nameKey of its name behind common
	common    string          // what all their names begin with
}

// protocolPicks is the records that name a protocol_id.
type protocolPicks struct {
	id uint8
	picks
}

// nameKey returns the first eight octets of a name as a number of the same
// order. Of names with equal keys the names themselves decide.
func nameKey(name string) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// makeIndex returns the index of a chunk's records.
func makeIndex(c *chunk) (x index) {
	type named struct {
		key  uint64
		name string
		i    uint8
	}
	var room [maxChunk]named
	names := room[:0]
	var place [MaxProtocolID + 1]uint8 // in x.protocols, plus one
	for i := range c.len() {
		f := c.at(i).Facts()
		x.kinds[f.kind].add(i)
		for w, word := range f.protocols {
			for ; word != 0; word &= word - 1 {
				id := w<<6 | bits.TrailingZeros64(word)
				if place[id] == 0 {
					x.protocols = append(x.protocols, protocolPicks{id: uint8(id)})
					place[id] = uint8(len(x.protocols))
				}
				x.protocols[place[id]-1].add(i)
			}
		}
		if f.named {
			names = append(names, named{name: f.name, i: uint8(i)})
		}
	}
	slices.SortFunc(x.protocols, func(a, b protocolPicks) int { return cmp.Compare(a.id, b.id) })
	if len(names) == 0 {
		return x
	}
	x.common = names[0].name
	for _, n := range names {
		x.common = commonPrefix(x.common, n.name)
	}
	for i := range names {
		names[i].key = nameKey(names[i].name[len(x.common):])
	}
	slices.SortFunc(names, func(a, b named) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return strings.Compare(a.name, b.name)
	})
	x.order = make([]uint8, len(names))
	x.keys = make([]uint64, len(names))
	for i, n := range names {
		x.order[i], x.keys[i] = n.i, n.key
	}
	return x
}

func commonPrefix(a, b string) string {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return a[:i]
		}
	}
	return a[:n]
}

// pick returns the chunk's records that match.
func (c *chunk) pick(m *Matcher) (p picks) {
	p = c.ofKinds(m.kinds)
	if m.byProtocol != 0 {
		q := c.ofKinds(allKinds &^ m.byProtocol)
		for i := range c.protocols {
			e := &c.protocols[i]
			if m.protocols[e.id>>6]>>(e.id&63)&1 != 0 {
				q = q.or(e.picks)
			}
		}
		p = p.and(q)
	}
	if m.byName != 0 {
		q := c.ofKinds(allKinds &^ m.byName)
		if !p.and(c.ofKinds(m.byName)).none() {
			q = q.or(c.named(m.prefix))
		}
		p = p.and(q)
	}
	return p
}

// ofKinds returns the records whose kind is in the mask.
func (x *index) ofKinds(mask uint8) (p picks) {
	for k := KindProtocol; k <= KindAgent; k++ {
		if mask>>k&1 != 0 {
			p = p.or(x.kinds[k])
		}
	}
	return p
}

// named returns the records whose name begins with the prefix.
func (c *chunk) named(prefix string) (p picks) {
	if len(prefix) <= len(c.common) {
		if strings.HasPrefix(c.common, prefix) {
			p = c.ofKinds(1<<KindTool | 1<<KindAgent)
		}
		return p
	}
	if !strings.HasPrefix(prefix, c.common) {
		return p
	}
	rest := prefix[len(c.common):]
	key, mask := nameKey(rest), ^uint64(0)
	if len(rest) < 8 {
		mask <<= 64 - 8*len(rest)
	}
	from := 0
	for n := len(c.keys); n > 0; { // without a branch to mispredict
		half := (n + 1) / 2
		if c.keys[from+half-1] < key {
			from += half
		}
		n -= half
	}
	to := from
	for to < len(c.keys) && c.keys[to]&mask == key {
		to++
	}
	among := c.order[from:to]
	if len(rest) <= 8 && strings.IndexByte(rest, 0) < 0 {
		for _, i := range among {
			p.add(int(i))
		}
		return p
	}
	// The key does not tell, for the prefix is longer, or ends in what a shorter
	// name is padded with: the names are in order.
	at, _ := slices.BinarySearchFunc(among, prefix, func(i uint8, prefix string) int {
		return strings.Compare(c.name(int(i)), prefix)
	})
	for ; at < len(among) && strings.HasPrefix(c.name(int(among[at])), prefix); at++ {
		p.add(int(among[at]))
	}
	return p
}

// name returns the name of the i-th record, which has one.
func (c *chunk) name(i int) string {
	name, _ := c.at(i).Name()
	return name
}

// picks is a selection of a chunk's records, one bit each: a struct, for the
// compiler keeps one in registers, and an array not.
type picks struct{ lo, hi uint64 }

// ones returns the picks of the first n records.
func ones(n int) picks { return picks{^uint64(0), ^uint64(0)}.to(n) }

func (p *picks) add(i int) {
	if i < 64 {
		p.lo |= 1 << i
	} else {
		p.hi |= 1 << (i - 64)
	}
}

func (p picks) has(i int) bool { return !p.from(i).to(i + 1).none() }

func (p picks) or(o picks) picks     { return picks{p.lo | o.lo, p.hi | o.hi} }
func (p picks) and(o picks) picks    { return picks{p.lo & o.lo, p.hi & o.hi} }
func (p picks) andNot(o picks) picks { return picks{p.lo &^ o.lo, p.hi &^ o.hi} }
func (p picks) none() bool           { return p.lo|p.hi == 0 }

// from drops the picks before the i-th record, to those from the i-th on.
func (p picks) from(i int) picks {
	if i < 64 {
		return picks{p.lo >> i << i, p.hi}
	}
	return picks{0, p.hi >> (i - 64) << (i - 64)}
}

func (p picks) to(i int) picks {
	if i < 64 {
		return picks{p.lo & (1<<i - 1), 0}
	}
	return picks{p.lo, p.hi & (1<<(i-64) - 1)}
}

// first returns the first pick, which must be there, and what is left.
func (p picks) first() (i int, rest picks) {
	if p.lo != 0 {
		return bits.TrailingZeros64(p.lo), picks{p.lo & (p.lo - 1), p.hi}
	}
	return 64 + bits.TrailingZeros64(p.hi), picks{0, p.hi & (p.hi - 1)}
}

// run returns the first pick and the one past all that follow it without a
// gap, and what is left.
func (p picks) run() (from, to int, rest picks) {
	from, rest = p.first()
	for to = from + 1; !rest.none(); to++ {
		i, r := rest.first()
		if i != to {
			break
		}
		rest = r
	}
	return from, to, rest
}
