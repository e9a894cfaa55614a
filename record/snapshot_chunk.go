package record

import (
	"sort"
	"strings"
)

// A chunk is a run of records of ascending record_id, end to end in one string,
// so that neighbours go onto a page in one copy. It never changes: an update
// makes a new one of the chunks it touches, and shares the others.
//
// 64 to 128 records a chunk keep that copy at some 10 KiB, and the list of
// chunks, which is copied by every update, at 8 octets for each.
type chunk struct {
	s       string
	starts  []uint32 // where each record starts in s, and then its length
	longest int      // octets of the longest record
	index
}

const (
	// maxChunk is the greatest number of records in a chunk.
	maxChunk = 128
	// fillChunk is how many records a chunk gets when a run is cut anew, so
	// that it takes some before it is full.
	fillChunk = 96
	// minChunk is how many a changed chunk has at least, unless it is the last.
	minChunk = 32
	// maxChunkLen bounds a chunk of more than one record, in octets.
	maxChunkLen = 64 << 10
)

var emptyChunk = chunk{starts: []uint32{0}}

// makeChunk makes a chunk of at most maxChunk records. It copies their octets.
func makeChunk(records []Record) *chunk {
	size := 0
	c := &chunk{starts: make([]uint32, len(records)+1)}
	for i, r := range records {
		size += len(r.s)
		c.starts[i+1] = uint32(size)
		c.longest = max(c.longest, len(r.s))
	}
	var s strings.Builder
	s.Grow(size)
	for _, r := range records {
		s.WriteString(r.s)
	}
	c.s = s.String()
	c.index = makeIndex(c)
	return c
}

func (c *chunk) len() int { return len(c.starts) - 1 }

// span returns the octets of the records from one to another. Of whole chunks,
// which is what a page is made of, it does not look at starts: that would be
// the one thing a page touches but the octets and the chunks themselves.
func (c *chunk) span(from, to int) string {
	if from == 0 && to == c.len() {
		return c.s
	}
	return c.s[c.starts[from]:c.starts[to]]
}

func (c *chunk) spanLen(from, to int) int {
	if from == 0 && to == c.len() {
		return len(c.s)
	}
	return int(c.starts[to] - c.starts[from])
}

func (c *chunk) at(i int) Record { return Record{c.s[c.starts[i]:c.starts[i+1]]} }

// find returns the index of the record, or of the first with a greater id.
func (c *chunk) find(id ID) (i int, ok bool) {
	i = sort.Search(c.len(), func(i int) bool { return c.at(i).ID() >= id })
	return i, i < c.len() && c.at(i).ID() == id
}

// fits returns how many records from the i-th on have at most maxLen octets
// together.
func (c *chunk) fits(i, maxLen int) int {
	if maxLen >= c.spanLen(i, c.len()) {
		return c.len() - i
	}
	return sort.Search(c.len()-i, func(k int) bool { return c.spanLen(i, i+k+1) > maxLen })
}

// find returns where in the chunks the record is, or would be.
func find(chunks []*chunk, id ID) (at, i int, ok bool) {
	at = sort.Search(len(chunks), func(k int) bool { return chunks[k].at(0).ID() > id })
	if at == 0 {
		return 0, 0, false
	}
	i, ok = chunks[at-1].find(id)
	return at - 1, i, ok
}

// apply returns the chunks with the changes made to them, which ascend by id.
func apply(chunks []*chunk, deltas []Delta) []*chunk {
	out := make([]*chunk, 0, len(chunks)+len(deltas)/fillChunk+2)
	var run []Record // of changed chunks, not cut yet
	for k := 0; ; {
		next := len(chunks) // the first chunk with a change
		if len(deltas) > 0 && k < len(chunks) {
			next = k + max(0, sort.Search(len(chunks)-k, func(i int) bool { return chunks[k+i].at(0).ID() > deltas[0].ID })-1)
		}
		var mine []Delta
		switch {
		case k < next && small(run): // not to leave a small chunk behind
		case k < next:
			out = append(cut(out, run), chunks[k:next]...)
			run, k = run[:0], next
			continue
		case len(deltas) == 0:
			return cut(out, run)
		case k+1 < len(chunks):
			end := chunks[k+1].at(0).ID()
			mine = deltas[:sort.Search(len(deltas), func(i int) bool { return deltas[i].ID >= end })]
		default:
			mine = deltas
		}
		c := &emptyChunk
		if k < len(chunks) {
			c = chunks[k]
		}
		run = merge(run, c, mine)
		deltas = deltas[len(mine):]
		k++
		if len(run) >= 64*maxChunk { // enough to be cut evenly
			out, run = cut(out, run), run[:0]
		}
	}
}

// same returns how many chunks the two lists share at their beginnings and at
// their ends.
func same(a, b []*chunk) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for a, b = a[head:], b[head:]; tail < len(a) && tail < len(b) && a[len(a)-1-tail] == b[len(b)-1-tail]; {
		tail++
	}
	return head, tail
}

// lost returns how many octets at most of a are not in b.
func lost(a, b []*chunk) (n int) {
	head, tail := same(a, b)
	for _, c := range a[head : len(a)-tail] {
		n += len(c.s)
	}
	return n
}

// small reports whether the run is not empty and would make a small chunk.
func small(run []Record) bool {
	return len(run) > 0 && len(run) < minChunk && runLen(run) < maxChunkLen/2
}

func runLen(run []Record) (n int) {
	for _, r := range run {
		n += len(r.s)
	}
	return n
}

// merge appends the chunk's records with the changes made.
func merge(run []Record, c *chunk, deltas []Delta) []Record {
	i := 0
	for _, d := range deltas {
		at, ok := c.find(d.ID)
		for ; i < at; i++ {
			run = append(run, c.at(i))
		}
		if ok {
			i++
		}
		if !d.Now.IsZero() {
			run = append(run, d.Now)
		}
	}
	for ; i < c.len(); i++ {
		run = append(run, c.at(i))
	}
	return run
}

// cut appends the run as chunks: as one where it fits, else as some of about
// equal length.
func cut(out []*chunk, run []Record) []*chunk {
	size := runLen(run)
	if len(run) <= maxChunk && size <= maxChunkLen {
		if len(run) > 0 {
			out = append(out, makeChunk(run))
		}
		return out
	}
	n := max((len(run)+fillChunk-1)/fillChunk, (size+maxChunkLen/2-1)/(maxChunkLen/2))
	most, mostLen := (len(run)+n-1)/n, (size+n-1)/n
	for len(run) > 0 {
		k, l := 0, 0
		for k < len(run) && k < min(most, maxChunk) && (k == 0 || l+len(run[k].s) <= max(mostLen, maxChunkLen/2)) {
			l += len(run[k].s)
			k++
		}
		out = append(out, makeChunk(run[:k]))
		run = run[k:]
	}
	return out
}
