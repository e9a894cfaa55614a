package record

import (
	"iter"
	"math"
	"strings"

	"github.com/npamp/disco/frame/dcbor"
)

// A List is an array of records that has been checked, in the payload it came
// in: it aliases that buffer and is valid as long as the buffer is unchanged.
// Records of an unknown kind are in it, and told apart [C9].
type List struct {
	b       []byte // the elements' octets
	n       int    // elements
	skipped int    // of which this many have an unknown kind
}

// Marks are what ScanList remembers for Own of the first MaxKnown records of one
// List. They are kept apart so that a List stays small and Marks stay on the stack.
type Marks struct {
	// Known are records that may come, in the order in which they would. Where one
	// of them does, its octets are compared, and neither checked nor copied: a page
	// of nothing else takes an eighth of the time and a ninth of the memory
	// (BenchmarkParseResult). They must have been checked in the same mode.
	Known []Record

	lens   [MaxKnown]uint16 // in octets; 0 for a longer one. To look for the ends takes Own a third of its time (BenchmarkParseResult)
	from   [MaxKnown]uint16 // 1 and the place in Known of a record that came from there
	kept   int              // octets of those
	at     int              // in Known: what came, or would have come, is before
	misses int              // in a row
}

// MaxKnown is how many records of a List can be known: as many as a page has [C42].
const MaxKnown = 1024

const maxMisses = 16 // in a row, before nothing is expected any more

// next returns where the record that starts at b[i], the k-th, ends if it is the
// one that is expected, else i. A record is not the start of another, so that
// nothing else can start with its octets.
func (m *Marks) next(b []byte, i, k int) int {
	if m.at >= min(len(m.Known), math.MaxUint16) {
		return i
	}
	s := m.Known[m.at].s
	if len(s) > math.MaxUint16 || len(b)-i < len(s) || string(b[i:i+len(s)]) != s {
		return i
	}
	m.at++
	m.misses = 0
	m.kept += len(s)
	m.lens[k], m.from[k] = uint16(len(s)), uint16(m.at)
	return i + len(s)
}

// scanned takes a record that was not the expected one. Those that would have come
// before it do not come any more.
func (m *Marks) scanned(r Ref, k int) {
	if len(r.b) <= math.MaxUint16 {
		m.lens[k] = uint16(len(r.b))
	}
	if m.misses++; m.misses > maxMisses {
		m.at = len(m.Known)
	}
	if m.at == len(m.Known) {
		return
	}
	for id := r.ID(); m.at < len(m.Known) && string(m.Known[m.at].ID()) <= string(id); {
		m.at++
	}
}

// ScanList checks the array of records at b[i], whose depth in the payload is
// 2, and returns it and the index after it, negative if anything is wrong.
// It fills marks unless they are nil.
func ScanList(b []byte, i int, m dcbor.Mode, marks *Marks) (l List, next int) {
	n, i := dcbor.Array(b, i)
	l.n = n
	start := i
	for k := 0; k < n && i >= 0; k++ {
		at, marked := i, marks != nil && k < MaxKnown
		if marked {
			if i = marks.next(b, at, k); i > at {
				continue
			}
		}
		var known bool
		if i, known = scan(b, at, m); !known {
			l.skipped++
		}
		if marked && i >= 0 {
			marks.scanned(Ref{b[at:i]}, k)
		}
	}
	if i < 0 {
		return List{}, i
	}
	l.b = b[start:i]
	return l, i
}

// Len returns the number of records that All yields.
func (l List) Len() int { return l.n - l.skipped }

// NumSkipped returns the number of records that Skipped yields.
func (l List) NumSkipped() int { return l.skipped }

// Octets returns the elements, one after the other, in place.
func (l List) Octets() []byte { return l.b }

// All yields the records of a known kind, in the order of the array.
func (l List) All() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for i := 0; i < len(l.b); {
			next := dcbor.Next(l.b, i)
			r := Ref{l.b[i:next]}
			if (l.skipped == 0 || r.Kind().Known()) && !yield(r) {
				return
			}
			i = next
		}
	}
}

// Skipped yields the records of an unknown kind, of which ID, Kind and Revision
// can be told, with their index in the array.
func (l List) Skipped() iter.Seq2[int, Ref] {
	return func(yield func(int, Ref) bool) {
		for i, k := 0, 0; i < len(l.b) && l.skipped > 0; k++ {
			next := dcbor.Next(l.b, i)
			r := Ref{l.b[i:next]}
			if !r.Kind().Known() && !yield(k, r) {
				return
			}
			i = next
		}
	}
}

// KindAt returns where the kind of the k-th record of the array at b[i] is, of
// an array that has been checked.
func KindAt(b []byte, i, k int) int {
	_, i = dcbor.Head(b, i)
	for ; k > 0; k-- {
		i = dcbor.Next(b, i)
	}
	_, i = dcbor.Head(b, i)
	return dcbor.Next(b, i+1) + 1
}

// Own copies the records, the ids of the skipped ones, and whatever else comes
// with them, into one string, and returns values that share it; tail is the copy
// of the rest. It allocates the string and a slice for each result that is not
// empty; a record that is not kept leaves only its id. marks are ScanList's, or
// nil; records that came from marks.Known are those, and not copied, unless others
// are skipped.
func (l List) Own(marks *Marks, rest ...[]byte) (records []Record, skipped []Skipped, tail string) {
	if marks == nil || l.skipped > 0 {
		marks = &unmarked
	}
	tailLen := 0
	for _, v := range rest {
		tailLen += len(v)
	}
	var s strings.Builder
	switch {
	case l.skipped > 0:
		skipped = make([]Skipped, 0, l.skipped)
		s.Grow(l.keptLen() + tailLen)
		for r := range l.All() {
			s.Write(r.b)
		}
		for _, r := range l.Skipped() {
			start := s.Len()
			s.Write(r.ID())
			skipped = append(skipped, Skipped{ID(s.String()[start:]), r.Kind()})
		}
	case marks.kept > 0:
		s.Grow(len(l.b) - marks.kept + tailLen)
		for i, k := 0, 0; i < len(l.b); k++ {
			n := markedLen(marks, l.b, i, k)
			if k >= MaxKnown || marks.from[k] == 0 {
				s.Write(l.b[i : i+n])
			}
			i += n
		}
	default:
		s.Grow(len(l.b) + tailLen)
		s.Write(l.b)
	}
	for _, v := range rest {
		s.Write(v)
	}
	all := s.String()
	records = make([]Record, l.Len())
	i := 0
	for k := range records {
		if k < MaxKnown && marks.from[k] > 0 {
			records[k] = marks.Known[marks.from[k]-1]
			continue
		}
		n := markedLen(marks, all, i, k)
		records[k] = Record{all[i : i+n]}
		i += n
	}
	return records, skipped, all[len(all)-tailLen:]
}

var unmarked Marks

// markedLen returns the length of the k-th record, which starts at b[i].
func markedLen[T ~string | ~[]byte](m *Marks, b T, i, k int) int {
	if k < MaxKnown && m.lens[k] > 0 {
		return int(m.lens[k])
	}
	return dcbor.Next(b, i) - i
}

// keptLen returns how many octets Own keeps of the list.
func (l List) keptLen() (n int) {
	for r := range l.All() {
		n += len(r.b)
	}
	for _, r := range l.Skipped() {
		n += len(r.ID())
	}
	return n
}

// A Ref is a checked record in somebody else's buffer, valid as long as that
// is.
type Ref struct{ b []byte }

// Octets returns the record's canonical encoding, in place.
func (r Ref) Octets() []byte { return r.b }

// ID returns the record_id, in place.
func (r Ref) ID() []byte {
	v, _ := str(r.b, idAt(r.b))
	return v
}

// Kind returns the kind.
func (r Ref) Kind() Kind {
	v, _ := dcbor.Head(r.b, kindAt(r.b))
	return Kind(v)
}

// Revision returns the revision.
func (r Ref) Revision() uint64 {
	v, _ := dcbor.Head(r.b, revisionAt(r.b))
	return v
}

// Record copies the record, whose kind must be known: one of All.
func (r Ref) Record() Record { return Record{string(r.b)} }

// IDs is an array of record_ids that has been checked, in the payload it came
// in, like List.
type IDs struct {
	b []byte
	n int
}

// ScanIDs checks the array of record_ids at b[i] and returns it and the index
// after it, negative if anything is wrong.
func ScanIDs(b []byte, i int) (ids IDs, next int) {
	n, next := scanIDs(b, i)
	if next < 0 {
		return IDs{}, next
	}
	_, start := dcbor.Array(b, i)
	return IDs{b[start:next], n}, next
}

// Len returns the number of ids.
func (s IDs) Len() int { return s.n }

// Octets returns the encoded ids, one after the other, in place.
func (s IDs) Octets() []byte { return s.b }

// All yields the ids, in place and in the order of the array.
func (s IDs) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 0; i < len(s.b); {
			var id []byte
			if id, i = str(s.b, i); !yield(id) {
				return
			}
		}
	}
}

// Cut returns the ids as parts of copy, which is a copy of Octets.
func (s IDs) Cut(copy string) []ID {
	v := make([]ID, 0, s.n)
	for i := 0; i < len(copy); {
		var id string
		id, i = str(copy, i)
		v = append(v, ID(id))
	}
	return v
}
