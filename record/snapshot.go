package record

import (
	"crypto/sha256"
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
)

// A Snapshot is one version of a set: immutable, its records in ascending order
// of record_id. To take one costs nothing, to keep one costs what the set has
// changed since: see Held. All methods may be called concurrently. The zero
// Snapshot is empty.
type Snapshot struct {
	chunks []*chunk
	n      int
	octets int
	hides  uint64 // how often a Projection had hidden something

	churn *atomic.Uint64 // octets of chunks that the set has replaced so far
	born  uint64         // churn when this version was made
}

// Len returns the number of records.
func (s *Snapshot) Len() int { return s.n }

// Octets returns the number of octets of all records together.
func (s *Snapshot) Octets() int { return s.octets }

// Longest returns the number of octets of the longest record, 0 if there is
// none.
func (s *Snapshot) Longest() (n int) {
	for _, c := range s.chunks {
		n = max(n, c.longest)
	}
	return n
}

// count adjusts the numbers of records and octets to a change.
func (s *Snapshot) count(d *Delta) {
	s.octets += d.Now.Len() - d.Was.Len()
	if d.Was.IsZero() {
		s.n++
	}
	if d.Now.IsZero() {
		s.n--
	}
}

// Held returns how many octets at most the snapshot keeps that its set has no
// use for any more.
func (s *Snapshot) Held() int {
	if s.churn == nil {
		return 0
	}
	return int(min(s.churn.Load()-s.born, uint64(s.octets)))
}

// Disclosure counts how often the Projection, if this is a snapshot of one, had
// hidden a record from its peer when the snapshot was made. One with a smaller
// count than the projection's present snapshot may show what is hidden now.
func (s *Snapshot) Disclosure() uint64 { return s.hides }

// Get returns the record with the id.
func (s *Snapshot) Get(id ID) (Record, bool) {
	if at, i, ok := find(s.chunks, id); ok {
		return s.chunks[at].at(i), true
	}
	return Record{}, false
}

// All yields the records.
func (s *Snapshot) All() iter.Seq[Record] { return s.Match(nil) }

// Digest returns SHA-256 over the octets of the records.
func (s *Snapshot) Digest() [sha256.Size]byte {
	h := sha256.New()
	var b []byte
	for _, c := range s.chunks {
		b = append(b[:0], c.s...)
		h.Write(b)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Digest returns SHA-256 over the octets of the records, in the order given.
func Digest(records iter.Seq[Record]) [sha256.Size]byte {
	h := sha256.New()
	var b []byte
	for r := range records {
		b = append(b[:0], r.s...)
		h.Write(b)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// A Position is a place in a snapshot: before one of its records, or after the
// last. It means nothing in another snapshot. The zero Position is the start.
type Position struct{ chunk, index int32 }

var end = Position{chunk: math.MaxInt32}

// Done reports whether the position is after the last record.
func (p Position) Done() bool { return p == end }

// After returns the position before the first record with a greater id.
func (s *Snapshot) After(id ID) Position {
	at, i, ok := find(s.chunks, id)
	if ok {
		i++
	}
	return s.position(at, i)
}

// At returns the record after the position, if there is one.
func (s *Snapshot) At(p Position) (Record, bool) {
	if int(p.chunk) >= len(s.chunks) || int(p.index) >= s.chunks[p.chunk].len() {
		return Record{}, false
	}
	return s.chunks[p.chunk].at(int(p.index)), true
}

// Before returns the position before the record with the id, or where it would
// be.
func (s *Snapshot) Before(id ID) Position {
	at, i, _ := find(s.chunks, id)
	return s.position(at, i)
}

// position returns the position of a place that find returned.
func (s *Snapshot) position(at, i int) Position {
	if at < len(s.chunks) && i == s.chunks[at].len() {
		at, i = at+1, 0
	}
	if at >= len(s.chunks) {
		return end
	}
	return Position{int32(at), int32(i)}
}

// A Page bounds a page of records. Zero is no bound.
type Page struct {
	MaxRecords   int
	MaxLen       int // octets of records; a record longer than that has a page of its own
	MaxRecordLen int // octets; longer records are left out, as if they did not match (§6.3)
}

// Page measures the next page of the records that match: how many there are on
// it, of how many octets together, and the position of the first that does not
// fit. n is 0 only if there is no more. A nil matcher matches everything.
func (s *Snapshot) Page(m *Matcher, from Position, p Page) (n, octets int, next Position) {
	maxRecords, maxLen := p.MaxRecords, p.MaxLen
	if maxRecords <= 0 {
		maxRecords = math.MaxInt
	}
	if maxLen <= 0 {
		maxLen = math.MaxInt
	}
	m = narrow(m)
	for k := int(from.chunk); k < len(s.chunks); k++ {
		c, i := s.chunks[k], 0
		if k == int(from.chunk) {
			i = int(from.index)
		}
		if m == nil && !c.overlong(p.MaxRecordLen) { // a whole run at once
			fit := min(c.fits(i, maxLen-octets), maxRecords-n)
			if n == 0 && i < c.len() {
				fit = max(fit, 1)
			}
			n, octets = n+fit, octets+c.spanLen(i, i+fit)
			if i+fit < c.len() {
				return n, octets, Position{int32(k), int32(i + fit)}
			}
			continue
		}
		for left := c.selection(m, p.MaxRecordLen).from(i); !left.none(); {
			var j int
			j, left = left.first()
			size := c.spanLen(j, j+1)
			if n == maxRecords || n > 0 && size > maxLen-octets {
				return n, octets, Position{int32(k), int32(j)}
			}
			n, octets = n+1, octets+size
		}
	}
	return n, octets, end
}

// AppendRange appends the octets of the records that match, from one position
// to another, leaving out those longer than maxRecordLen if that is not 0.
func (s *Snapshot) AppendRange(b []byte, m *Matcher, from, to Position, maxRecordLen int) []byte {
	m = narrow(m)
	for k := int(from.chunk); k < len(s.chunks) && k <= int(to.chunk); k++ {
		c := s.chunks[k]
		i, j := within(c, k, from, to)
		if m == nil && !c.overlong(maxRecordLen) {
			b = append(b, c.span(i, j)...)
			continue
		}
		for left := c.selection(m, maxRecordLen).from(i).to(j); !left.none(); {
			i, j, left = left.run()
			b = append(b, c.span(i, j)...)
		}
	}
	return b
}

// AppendPage appends the octets of the next page of the records that match and
// returns how many there are, the position after them, and whether no more
// match. A record longer than maxLen octets has a page of its own, so n is 0
// only where done is true. A nil matcher matches everything; no bound is 0.
func (s *Snapshot) AppendPage(b []byte, m *Matcher, from Position, maxRecords, maxLen int) (out []byte, n int, next Position, done bool) {
	n, _, next = s.Page(m, from, Page{MaxRecords: maxRecords, MaxLen: maxLen})
	return s.AppendRange(b, m, from, next, 0), n, next, next.Done()
}

// Match yields the records that match; a nil matcher matches everything.
func (s *Snapshot) Match(m *Matcher) iter.Seq[Record] { return s.Range(m, Position{}, end, 0) }

// Range is Match from one position to another, without records longer than
// maxRecordLen octets if that is not 0.
func (s *Snapshot) Range(m *Matcher, from, to Position, maxRecordLen int) iter.Seq[Record] {
	m = narrow(m)
	return func(yield func(Record) bool) {
		for k := int(from.chunk); k < len(s.chunks) && k <= int(to.chunk); k++ {
			c := s.chunks[k]
			i, j := within(c, k, from, to)
			p := c.selection(m, maxRecordLen).from(i).to(j)
			octets, starts := c.s, c.starts
			for base, word := 0, p.lo; ; word &= word - 1 {
				if word == 0 {
					if base, word = base+64, p.hi; base > 64 || word == 0 {
						break
					}
				}
				i := base + bits.TrailingZeros64(word)
				if !yield(Record{octets[starts[i]:starts[i+1]]}) {
					return
				}
			}
		}
	}
}

// within returns which part of the k-th chunk lies between the positions.
func within(c *chunk, k int, from, to Position) (i, j int) {
	j = c.len()
	if k == int(from.chunk) {
		i = int(from.index)
	}
	if k == int(to.chunk) {
		j = int(to.index)
	}
	return i, j
}

// narrow returns nil for a matcher that matches everything.
func narrow(m *Matcher) *Matcher {
	if m != nil && m.All() {
		return nil
	}
	return m
}

func (c *chunk) overlong(maxLen int) bool { return maxLen > 0 && c.longest > maxLen }

// selection returns the chunk's records that match and are not overlong.
func (c *chunk) selection(m *Matcher, maxLen int) (p picks) {
	if p = ones(c.len()); m != nil {
		p = c.pick(m)
	}
	if c.overlong(maxLen) {
		for i := range c.len() {
			if c.spanLen(i, i+1) > maxLen {
				p = p.andNot(ones(i + 1).from(i))
			}
		}
	}
	return p
}
