package record

import (
	"crypto/sha256"
	"math"
	"slices"
	"sort"

	"github.com/npamp/disco/frame/dcbor"
)

// A View is what one subscription sees (§7.2): the records the peer advertises
// under its filter, as far as it was told. Its records are the Cache's where
// that has room. It begins with a snapshot under way.
type View struct {
	cache  *Cache
	all    bool          // the filter restricts nothing
	recs   []Record      // ascending id: small, and in order where snapshots and digests want it
	began  Epoch         // when the snapshot was asked for
	whole  bool          // the snapshot is
	gone   map[ID]uint64 // withdrawn while it was not: at which revision [C17]
	octets int
}

// NewView returns an empty view of what matches m. Close it when it is done.
func (c *Cache) NewView(m Matcher) *View {
	return &View{cache: c, all: m.All(), began: c.epoch}
}

// find returns where the id is, or would be.
func (v *View) find(id string) (at int, ok bool) {
	if n := len(v.recs); n == 0 || string(v.recs[n-1].ID()) < id { // as a snapshot comes
		return n, false
	}
	at = sort.Search(len(v.recs), func(i int) bool { return string(v.recs[i].ID()) >= id })
	return at, string(v.recs[at].ID()) == id
}

// Page takes a record of a page of the snapshot. It returns the record held
// before, zero for none.
func (v *View) Page(r Record) (was Record, o Outcome) {
	id := r.ID()
	at, ok := v.find(string(id))
	if t, gone := v.gone[id]; gone && !ok && r.Revision() <= t {
		return Record{}, Stale
	}
	was, o = v.judge(at, ok, r.s, r.Revision())
	if o == Added || o == Replaced {
		kept, _ := v.cache.take(Ref{}, r, v.began, true)
		if kept.s != r.s {
			kept = r.Clone()
		}
		v.put(at, was, kept)
	}
	return was, o
}

// Add takes a record of an UPDATE's added. It returns it as it is held now, and
// the one held before. It allocates nothing but the record, and not that either
// where the cache has it.
func (v *View) Add(ref Ref) (now, was Record, o Outcome) {
	at, ok := v.find(string(ref.ID()))
	was, o = v.judge(at, ok, string(ref.b), ref.Revision())
	if o != Added && o != Replaced {
		return was, was, o
	}
	now, _ = v.cache.take(ref, Record{}, math.MaxUint64, true)
	if now.s != string(ref.b) { // the cache holds another revision
		now = ref.Record()
	}
	v.put(at, was, now)
	delete(v.gone, now.ID())
	return now, was, o
}

// judge is the revision rule (§8) against what is held at a place.
func (v *View) judge(at int, held bool, octets string, revision uint64) (was Record, o Outcome) {
	if !held {
		return Record{}, Added
	}
	was = v.recs[at]
	switch old := was.Revision(); {
	case revision > old:
		return was, Replaced
	case revision < old:
		return was, Stale
	case was.s == octets:
		return was, Same
	}
	return was, Conflict
}

// put places a record where find said.
func (v *View) put(at int, was, now Record) {
	v.octets += now.Len() - was.Len()
	if was.IsZero() {
		v.recs = slices.Insert(v.recs, at, now)
		v.cache.hold(now.ID(), 1)
		return
	}
	v.recs[at] = now
}

// Withdraw takes a record out because an UPDATE said so, and returns it.
func (v *View) Withdraw(id []byte) (was Record, ok bool) {
	at, ok := v.find(string(id))
	if !v.whole && len(v.gone) < v.cache.lim.MaxTombstones {
		// A page that is still to come may have it, from before.
		revision := uint64(math.MaxUint64)
		if ok {
			revision = v.recs[at].Revision()
		}
		if v.gone == nil {
			v.gone = make(map[ID]uint64)
		}
		v.gone[ID(id)] = revision
	}
	if !ok {
		return Record{}, false
	}
	was = v.recs[at]
	v.octets -= was.Len()
	v.recs = slices.Delete(v.recs, at, at+1)
	v.cache.hold(was.ID(), -1)
	v.cache.withdraw(was.ID(), v.all)
	return was, true
}

// Whole says that the last page of the snapshot has come.
func (v *View) Whole() { v.whole, v.gone = true, nil }

// Get returns the record with the id.
func (v *View) Get(id ID) (Record, bool) {
	if at, ok := v.find(string(id)); ok {
		return v.recs[at], true
	}
	return Record{}, false
}

// Len returns the number of records.
func (v *View) Len() int { return len(v.recs) }

// Records returns the records, ascending record_id.
func (v *View) Records() []Record { return slices.Clone(v.recs) }

// Digest returns SHA-256 over the records' octets in order.
func (v *View) Digest() [sha256.Size]byte { return Digest(slices.Values(v.recs)) }

// Dangling is Cache.Dangling among the view's records.
func (v *View) Dangling(agent Record) []ID {
	return dangling(agent, func(id ID) Record { r, _ := v.Get(id); return r })
}

// Memory is roughly what the view holds, in octets, the records counted whether
// the cache has them too or not.
func (v *View) Memory() int { return v.octets + 16*cap(v.recs) + 80*len(v.gone) }

// Close empties the view. What it held stays in the cache: the end of a
// subscription withdraws nothing.
func (v *View) Close() {
	for _, r := range v.recs {
		v.cache.hold(r.ID(), -1)
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
