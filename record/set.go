package record

import (
	"crypto/sha256"
	"maps"
	"sync"
	"sync/atomic"
)

// SetConfig says what a Set takes. The zero value takes carriage classes only:
// what may be advertised has to be affirmed.
type SetConfig struct {
	// Carries reports whether this end can carry the protocol now (§5.1). It is
	// asked for every protocol_id that a protocol, tool or agent record names;
	// nil, false and a panic all mean no. It is called with the set locked, must
	// not block and must not call the set.
	Carries func(protocolID uint64) bool

	// Agreed lists the experimental and private protocol_ids, 0x10 to 0xFF, that
	// every peer of the set has agreed to out of band (REG §7).
	Agreed []uint64

	// Classes is the registry's table of carriage classes; nil means
	// RegisteredClasses. A protocol_id below 0x10 that it does not list is
	// unassigned.
	Classes Classes

	// AllowOpaque lets a protocol be published as ClassOpaque although the
	// registry lists other classes, as long as no mapping exists (REG §5).
	AllowOpaque bool

	// MaxRecords bounds the records in the set; 0 means 1,000,000.
	MaxRecords int

	// MaxRecordLen bounds a record, in octets; 0 means 48 KiB, which fits every
	// page [C30].
	MaxRecordLen int
}

const (
	defaultMaxRecords   = 1_000_000
	defaultMaxRecordLen = 48 << 10
)

// A Set is the records that this end advertises (§5, §8). It assigns their
// revisions, and nobody else does: contents that are new or differ get a
// strictly greater one than the record_id ever had in this set, from 1 on. That
// memory outlives a withdrawal and ends with the set, so it grows with every
// record_id ever used. All methods may be called concurrently.
type Set struct {
	cfg    SetConfig
	agreed [MaxProtocolID + 1]bool

	writer sync.Mutex     // held by one Update from beginning to end
	gone   map[ID]mark    // of the records withdrawn
	named  map[ID]int     // how many references agents make to each tool
	churn  *atomic.Uint64 // see Snapshot.Held

	mu       sync.Mutex // guards watchers, and makes a new version and its Change one step
	watchers watchers
	now      atomic.Pointer[Snapshot]
}

// mark is what is remembered of a withdrawn record.
type mark struct {
	revision uint64 // the greatest it had
	kind     Kind   // which its record_id keeps (DGP §3.2)
}

// NewSet returns an empty set. The config is copied.
func NewSet(cfg SetConfig) *Set {
	if cfg.Classes = maps.Clone(cfg.Classes); cfg.Classes == nil {
		cfg.Classes = RegisteredClasses()
	}
	if cfg.MaxRecords <= 0 {
		cfg.MaxRecords = defaultMaxRecords
	}
	if cfg.MaxRecordLen <= 0 {
		cfg.MaxRecordLen = defaultMaxRecordLen
	}
	s := &Set{cfg: cfg, gone: map[ID]mark{}, named: map[ID]int{}, churn: new(atomic.Uint64)}
	for _, id := range cfg.Agreed {
		if id <= MaxProtocolID {
			s.agreed[id] = true
		}
	}
	s.now.Store(&Snapshot{churn: s.churn})
	return s
}

// Snapshot returns the present version. It never blocks.
func (s *Set) Snapshot() *Snapshot { return s.now.Load() }

// Len returns the number of records.
func (s *Set) Len() int { return s.Snapshot().Len() }

// Digest returns SHA-256 over the octets of the records in ascending order of
// record_id.
func (s *Set) Digest() [sha256.Size]byte { return s.Snapshot().Digest() }

// Watch is Source.Watch. It waits for no Update, only for the watchers of one
// that is being told about.
func (s *Set) Watch(fn func(*Change)) (*Snapshot, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchers.add(fn)
	return s.Snapshot(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers.remove(w)
	}
}

// publish makes the deltas, which ascend by id, the set's next version.
func (s *Set) publish(deltas []Delta) {
	old := s.Snapshot()
	now := &Snapshot{n: old.n, octets: old.octets, churn: s.churn}
	for i := range deltas {
		now.count(&deltas[i])
	}
	now.chunks = apply(old.chunks, deltas)
	now.born = s.churn.Add(uint64(lost(old.chunks, now.chunks)))
	c := newChange(now, deltas, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Store(now)
	s.watchers.tell(c)
}

// A Source is records that are advertised, and tells of their changes: a Set,
// or a Projection of one.
type Source interface {
	// Snapshot returns the present version. It does not block.
	Snapshot() *Snapshot

	// Watch has fn called with every change from the returned version on, in
	// order, until the returned function has returned: what the one misses the
	// other has. fn is called with the source locked and must neither block nor
	// call it.
	Watch(fn func(*Change)) (*Snapshot, func())
}

// A Change is one atomic change of a Source: the deltas lead from the version
// before to After. It is shared by all who are told, and immutable.
type Change struct {
	Deltas []Delta   // ascending ID, each ID once, at least one
	After  *Snapshot // the version they led to
	Hides  bool      // something is hidden now that its source still has: it must not be sent any more
	octets int
}

func newChange(after *Snapshot, deltas []Delta, hides bool) *Change {
	const perDelta = 250 // octets of a Delta and its allocations, roughly
	c := &Change{Deltas: deltas, After: after, Hides: hides}
	for i := range deltas {
		d := &deltas[i]
		c.octets += d.Was.Len() + d.Now.Len() + perDelta
		d.same = !d.Was.IsZero() && !d.Now.IsZero() && d.WasFacts == d.NowFacts
	}
	return c
}

// Concerned calls fn with the index of each matcher that the change is for: for
// which something matched before, or matches now.
func (c *Change) Concerned(matchers []Matcher, fn func(i int)) {
	if len(c.Deltas) > 1 {
		for i := range matchers {
			for k := range c.Deltas {
				if was, now := c.Deltas[k].Matches(&matchers[i]); was || now {
					fn(i)
					break
				}
			}
		}
		return
	}
	// One record is what nearly every change is, and matching it is what a
	// change costs: see BenchmarkPublish.
	d := &c.Deltas[0]
	f, was := d.NowFacts, d.WasFacts
	switch {
	case d.Was.IsZero() || d.same:
	case d.Now.IsZero():
		f = was
	case f.kind == was.kind && f.name == was.name: // whichever protocol_id matches
		for i := range f.protocols {
			f.protocols[i] |= was.protocols[i]
		}
	default:
		for i := range matchers {
			if m := &matchers[i]; m.match(&f) || m.match(&was) {
				fn(i)
			}
		}
		return
	}
	for i := range matchers {
		if matchers[i].match(&f) {
			fn(i)
		}
	}
}

// Octets is roughly what the change costs as long as it is kept, in octets;
// After is not counted.
func (c *Change) Octets() int { return c.octets }

// A Delta is what happened to one record_id. The zero Record stands for none:
// without Was the record is new, without Now it is withdrawn, with both it is
// replaced. The facts are those of the records, and zero without.
type Delta struct {
	ID                 ID
	Was, Now           Record
	WasFacts, NowFacts Facts
	same               bool // the facts are
}

// Matches reports whether there was a record that matches, and whether there is
// one now. Where it was and is not, it has left the set or the filter, which is
// the same to whoever asked with it (§7.2).
func (d *Delta) Matches(m *Matcher) (was, now bool) {
	now = !d.Now.IsZero() && m.match(&d.NowFacts)
	if d.same {
		return now, now
	}
	return !d.Was.IsZero() && m.match(&d.WasFacts), now
}

func newDelta(id ID, was, now Record) Delta {
	d := Delta{ID: id, Was: was, Now: now}
	if !was.IsZero() {
		d.WasFacts = was.Facts()
	}
	if !now.IsZero() {
		d.NowFacts = now.Facts()
	}
	return d
}

// watchers are who is told of changes, in the order they came.
type watchers []*func(*Change)

func (w *watchers) add(fn func(*Change)) *func(*Change) {
	*w = append(*w, &fn)
	return &fn
}

func (w *watchers) remove(fn *func(*Change)) {
	for i, o := range *w {
		if o == fn {
			*w = append((*w)[:i:i], (*w)[i+1:]...) // a copy
			return
		}
	}
}

func (w watchers) tell(c *Change) {
	for _, fn := range w {
		(*fn)(c)
	}
}
