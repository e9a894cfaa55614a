package record

import (
	"crypto/sha256"
	"iter"
	"slices"
	"sort"

	"github.com/npamp/disco/frame/dcbor"
)

// A View is what one subscription sees (§7.2): the records the peer advertises
// under its filter, as far as it was told. It begins with a snapshot under way.
type View struct {
	cache *Cache
	runs  [][]*version  // ascending id, none empty
	first [1][]*version // room for runs of few records, next to all else: most
	one   [1]*version   // views are small, and of many each is in no cache
	n     int           // records
	began Epoch         // when the snapshot was asked for
	gone  map[ID]uint64 // withdrawn while it was under way: at which revision [C17]
	all   bool          // the filter restricts nothing
	whole bool          // the snapshot is
	lossy bool
}

// maxRun is how many records a run has at most: one that comes or goes moves as
// many pointers, not all of them.
const maxRun = 128

// NewView returns an empty view of what matches m. Close it when it is done.
func (c *Cache) NewView(m Matcher) *View { return &View{cache: c, all: m.All(), began: c.epoch} }

// place is where a record is in v.runs, or would be: inserted at i of the k-th
// run, which may have to be made.
type place struct{ k, i int }

func (v *View) find(id ID) (p place, ok bool) {
	k := len(v.runs)
	if k == 0 {
		return place{}, false
	}
	last := v.runs[k-1]
	switch n, greatest := len(last), last[len(last)-1].rec.ID(); {
	case greatest < id: // as a snapshot comes
		return place{k - 1, n}, false
	case greatest == id: // as an UPDATE does in a view of one record
		return place{k - 1, n - 1}, true
	}
	k = max(0, sort.Search(k, func(i int) bool { return v.runs[i][0].rec.ID() > id })-1)
	run := v.runs[k]
	i := sort.Search(len(run), func(i int) bool { return run[i].rec.ID() >= id })
	return place{k, i}, i < len(run) && run[i].rec.ID() == id
}

// insert puts a version where find said.
func (v *View) insert(p place, x *version) {
	v.n++
	if len(v.runs) == 0 {
		v.one[0] = x
		v.first[0] = v.one[:]
		v.runs = v.first[:]
		return
	}
	run := v.runs[p.k]
	switch {
	case len(run) < maxRun:
		v.runs[p.k] = slices.Insert(run, p.i, x)
		v.one[0] = nil // outgrown: it would hold a record that nobody counts
	case p.i == maxRun: // as a snapshot comes: full runs
		v.runs = slices.Insert(v.runs, p.k+1, []*version{x})
	default:
		half := slices.Clone(run[maxRun/2:])
		v.runs[p.k] = slices.Delete(run, maxRun/2, maxRun)
		v.runs = slices.Insert(v.runs, p.k+1, half)
		if p.i > maxRun/2 {
			p = place{p.k + 1, p.i - maxRun/2}
		}
		v.runs[p.k] = slices.Insert(v.runs[p.k], p.i, x)
	}
}

// remove takes out what find has found.
func (v *View) remove(p place) {
	v.n--
	run := slices.Delete(v.runs[p.k], p.i, p.i+1)
	v.runs[p.k] = run
	switch {
	case len(run) == 0:
		v.runs = slices.Delete(v.runs, p.k, p.k+1)
	case len(run) < maxRun/4 && p.k+1 < len(v.runs) && len(run)+len(v.runs[p.k+1]) <= maxRun/2:
		v.runs[p.k] = append(run, v.runs[p.k+1]...)
		v.runs = slices.Delete(v.runs, p.k+1, p.k+2)
	}
}

// Page takes a record of a page of the snapshot. It returns the record held
// before, zero for none. The record is copied, unless the cache has it.
func (v *View) Page(r Record) (was Record, o Outcome) {
	p, ok := v.find(r.ID())
	if revision, gone := v.gone[r.ID()]; gone && !ok && r.Revision() <= revision {
		return Record{}, Stale
	}
	_, was, o = v.put(p, ok, source{rec: r}, v.began)
	return was, o
}

// Add takes a record of an UPDATE's added. It returns it as it is held now, and
// the one held before. It allocates nothing but the record, and not that either
// where the cache has it.
func (v *View) Add(ref Ref) (now, was Record, o Outcome) {
	p, ok := v.find(ID(ref.ID()))
	return v.put(p, ok, source{ref: ref}, always)
}

// put takes a source at a place, by the revision rule against what the view
// holds there. What the cache holds may be another revision: it knows what
// other subscriptions were told.
func (v *View) put(p place, held bool, s source, began Epoch) (now, was Record, o Outcome) {
	if held {
		was = v.runs[p.k][p.i].rec
	}
	if o = s.judge(was); o != Added && o != Replaced {
		return was, was, o
	}
	x, _ := v.cache.take(s, began, true)
	if x != nil && s.is(x.rec) {
		x.refs++
	} else {
		x = v.cache.keep(s.copy())
	}
	if held {
		v.cache.release(v.runs[p.k][p.i])
		v.runs[p.k][p.i] = x
	} else {
		v.insert(p, x)
		v.cache.hold(x.rec.ID(), 1)
	}
	return x.rec, was, o
}

// Withdraw takes a record out because an UPDATE said so, and returns it.
func (v *View) Withdraw(id []byte) (was Record, ok bool) {
	p, ok := v.find(ID(id))
	var x *version
	revision := uint64(0)
	if ok {
		x = v.runs[p.k][p.i]
		revision = x.rec.Revision()
	}
	if !v.whole { // a page that is still to come may have it, from before
		v.bury(id, ok, revision)
	}
	if !ok {
		v.cache.withdraw(ID(id), 0, v.all)
		return Record{}, false
	}
	v.remove(p)
	v.cache.hold(x.rec.ID(), -1)
	v.cache.withdraw(x.rec.ID(), revision, v.all)
	v.cache.release(x)
	return x.rec, true
}

// bury remembers a withdrawal for the pages to come.
func (v *View) bury(id []byte, held bool, revision uint64) {
	_, again := v.gone[ID(id)]
	if !again && len(v.gone) >= v.cache.lim.MaxTombstones {
		v.lossy = true
		return
	}
	if !held { // nothing tells which revision is gone
		revision = ^uint64(0)
	}
	if v.gone == nil {
		v.gone = make(map[ID]uint64)
	}
	v.gone[ID(id)] = revision
}

// Lossy reports that more was withdrawn while the snapshot was under way than
// CacheLimits.MaxTombstones lets the view remember, so that its pages may bring
// something back: it has to begin anew [C36].
func (v *View) Lossy() bool { return v.lossy }

// Whole says that the last page of the snapshot has come.
func (v *View) Whole() { v.whole, v.gone = true, nil }

// Get returns the record with the id.
func (v *View) Get(id ID) (Record, bool) {
	if p, ok := v.find(id); ok {
		return v.runs[p.k][p.i].rec, true
	}
	return Record{}, false
}

// Len returns the number of records.
func (v *View) Len() int { return v.n }

// All yields the records, ascending record_id. The view must not change
// meanwhile.
func (v *View) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, run := range v.runs {
			for _, x := range run {
				if !yield(x.rec) {
					return
				}
			}
		}
	}
}

// Records returns the records, ascending record_id.
func (v *View) Records() []Record { return slices.AppendSeq(make([]Record, 0, v.n), v.All()) }

// Digest returns SHA-256 over the records' octets in order.
func (v *View) Digest() [sha256.Size]byte { return Digest(v.All()) }

// Dangling is Cache.Dangling among the view's records.
func (v *View) Dangling(agent Record) []ID { return dangling(agent, v.Get) }

// Memory is roughly what the view holds, in octets, besides its records, which
// Cache.Memory counts.
func (v *View) Memory() int {
	const perView, perRecord, perRun, perGone = 128, 12, 24, 100
	return perView + perRecord*v.n + perRun*len(v.runs) + perGone*len(v.gone)
}

// Close empties the view. What it held stays in the cache: the end of a
// subscription withdraws nothing. It is idempotent.
func (v *View) Close() {
	for _, run := range v.runs {
		for _, x := range run {
			v.cache.hold(x.rec.ID(), -1)
			v.cache.release(x)
		}
	}
	*v = View{cache: v.cache, all: v.all, whole: true}
}

// MatchRef reports whether the record passes. It allocates nothing.
func (m *Matcher) MatchRef(r Ref) bool {
	k := uint8(1) << r.Kind()
	if m.kinds&k == 0 {
		return false
	}
	if m.byProtocol&k != 0 {
		any := false
		n, i := protocolIDsAt(r.b)
		for v := uint64(0); n > 0 && !any; n-- {
			v, i = dcbor.Head(r.b, i)
			any = v <= MaxProtocolID && m.protocols[v>>6]>>(v&63)&1 != 0
		}
		if !any {
			return false
		}
	}
	if m.byName&k == 0 {
		return true
	}
	_, i := dcbor.Head(r.b, bodyAt(r.b))
	name, _ := str(r.b, i+1)
	return len(name) >= len(m.prefix) && string(name[:len(m.prefix)]) == m.prefix
}
