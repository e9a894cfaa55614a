package record

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/npamp/disco/frame/dcbor"
)

// Why a Set refuses a change. The error returned is a *PublishError around one
// of them.
var (
	ErrConflict    = errors.New("another record has the same record_id in this transaction")
	ErrKindChanged = errors.New("the record_id belongs to another kind")
	ErrDangling    = errors.New("an agent names a tool that is not advertised")
	ErrClass       = errors.New("the registry contradicts the carriage class")
	ErrNotCarried  = errors.New("the protocol is not carried here")
	ErrProtocolID  = errors.New("the protocol_id cannot be advertised")
	ErrEffect      = errors.New("effect is not one of 0 to 3")
	ErrEncoding    = errors.New("an unknown key holds a float or a tag")
	ErrRecordLen   = errors.New("the record is too long")
	ErrTooMany     = errors.New("the set is full")
	ErrRevision    = errors.New("the revision is at its greatest: publish under a new record_id")
	ErrNoRecord    = errors.New("the zero Record is none")
	ErrTxDone      = errors.New("the transaction is over")
)

// A PublishError says why a transaction failed, and over which record.
type PublishError struct {
	ID     ID
	Err    error  // one of those above; what errors.Is sees
	Detail string // such as "protocol_id 16"; may be empty
}

func (e *PublishError) Error() string {
	s := fmt.Sprintf("record: %s: %v", e.ID, e.Err)
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

func (e *PublishError) Unwrap() error { return e.Err }

// A Tx is a change being made. It is valid until the function that it was given
// to returns, and for one goroutine at a time.
type Tx struct {
	set  *Set
	base *Snapshot
	puts map[ID]put
	err  error // the first
}

// put is what becomes of a record_id.
type put struct {
	rec     Record // as it will be; zero: withdrawn
	changed bool   // it differs from what the set has
}

// Update makes one change of what fn does, all of it or nothing: it is made
// when fn returns nil and every Put was taken, and nobody sees it before. The
// error is fn's, or a *PublishError. Other updates wait for fn; readers,
// watchers and subscribers do not. fn must not call Update.
func (s *Set) Update(fn func(*Tx) error) error {
	s.writer.Lock()
	defer s.writer.Unlock()
	tx := &Tx{set: s, base: s.Snapshot(), puts: map[ID]put{}}
	defer func() { tx.set = nil }()
	err := fn(tx)
	if tx.err != nil {
		err = tx.err
	}
	if err == nil {
		err = tx.commit()
	}
	return err
}

// Recheck withdraws, in one change, the records of a protocol that Carries no
// longer affirms and the agents that name a tool among them (§5.1). Other
// updates wait for it. It does not fail; the error is for symmetry.
func (s *Set) Recheck() error {
	return s.Update(func(tx *Tx) error {
		var known, carried [MaxProtocolID + 1]bool
		for r := range tx.base.All() {
			for p := range r.ProtocolIDs() {
				if !known[p] {
					known[p], carried[p] = true, s.cfg.carries(p)
				}
				if !carried[p] {
					tx.puts[r.ID()] = put{changed: true}
				}
			}
		}
		if len(tx.puts) == 0 {
			return nil
		}
		agents := Filter{Kinds: []Kind{KindAgent}}.Matcher()
		for r := range tx.base.Match(&agents) {
			for tool := range r.toolRefs() {
				if _, ok := tx.Get(tool); !ok {
					tx.puts[r.ID()] = put{changed: true}
				}
			}
		}
		return nil
	})
}

// Put adds the record or replaces the one with its record_id. Where only the
// revision differs nothing happens; else the set gives it one that is greater
// than any before, and at least the record's own. The error is a
// *PublishError and fails the transaction. The record is copied.
func (tx *Tx) Put(r Record) error {
	if tx.set == nil {
		return &PublishError{Err: ErrTxDone}
	}
	err := tx.put(r)
	if tx.err == nil {
		tx.err = err
	}
	return err
}

func (tx *Tx) put(r Record) error {
	if r.IsZero() {
		return &PublishError{Err: ErrNoRecord}
	}
	id := r.ID()
	fail := func(err error, detail string, args ...any) error {
		return &PublishError{ID([]byte(id)), err, fmt.Sprintf(detail, args...)}
	}
	old, _ := tx.base.Get(id)
	kind, high := r.Kind(), uint64(0) // of the record_id, so far
	if m, ok := tx.set.gone[id]; ok {
		kind, high = m.kind, m.revision
	} else if !old.IsZero() {
		kind, high = old.Kind(), old.Revision()
	}
	if kind != r.Kind() {
		return fail(ErrKindChanged, "%v, not %v", kind, r.Kind())
	}
	if p, ok := tx.puts[id]; ok && !p.rec.IsZero() {
		if p.rec.SameContents(r) {
			return nil
		}
		return fail(ErrConflict, "")
	}
	if err := tx.set.check(r, fail); err != nil {
		return err
	}
	if r.SameContents(old) {
		tx.puts[old.ID()] = put{rec: old}
		return nil
	}
	if high == math.MaxUint64 {
		return fail(ErrRevision, "")
	}
	revision := max(r.Revision(), high+1)
	if revision == r.Revision() {
		r = r.Clone()
	} else {
		r = r.WithRevision(revision)
	}
	if r.Len() > tx.set.cfg.MaxRecordLen {
		return fail(ErrRecordLen, "%d octets, MaxRecordLen is %d", r.Len(), tx.set.cfg.MaxRecordLen)
	}
	tx.puts[r.ID()] = put{r, true}
	return nil
}

// Withdraw takes the record out, if it is there.
func (tx *Tx) Withdraw(id ID) error {
	if tx.set == nil {
		return &PublishError{ID: id, Err: ErrTxDone}
	}
	if _, ok := tx.base.Get(id); ok {
		tx.puts[ID([]byte(id))] = put{changed: true}
	} else {
		delete(tx.puts, id)
	}
	return nil
}

// Get returns the record as it is after what the transaction has done so far.
func (tx *Tx) Get(id ID) (Record, bool) {
	if p, ok := tx.puts[id]; ok {
		return p.rec, !p.rec.IsZero()
	}
	return tx.base.Get(id)
}

// All yields the records as Get would return them, in ascending order of
// record_id. What the transaction does meanwhile may be missed.
func (tx *Tx) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		ids := slices.Sorted(maps.Keys(tx.puts))
		upTo := func(id ID, all bool) bool { // yields what the transaction has put
			for len(ids) > 0 && (all || ids[0] <= id) {
				p := tx.puts[ids[0]]
				ids = ids[1:]
				if !p.rec.IsZero() && !yield(p.rec) {
					return false
				}
			}
			return true
		}
		for r := range tx.base.All() {
			id := r.ID()
			if !upTo(id, false) {
				return
			}
			if _, ok := tx.puts[id]; !ok && !yield(r) {
				return
			}
		}
		upTo("", true)
	}
}

// commit checks what concerns the set as a whole, and publishes.
func (tx *Tx) commit() error {
	s := tx.set
	ids := make([]ID, 0, len(tx.puts))
	for id, p := range tx.puts {
		if p.changed {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	deltas := make([]Delta, len(ids))
	n := tx.base.Len()
	for i, id := range ids {
		was, _ := tx.base.Get(id)
		if !was.IsZero() {
			was = was.Clone() // not to keep its chunk
			n--
		}
		now := tx.puts[id].rec
		if !now.IsZero() {
			n++
		}
		deltas[i] = newDelta(id, was, now)
	}
	if n > s.cfg.MaxRecords {
		for _, d := range slices.Backward(deltas) {
			if d.Was.IsZero() {
				return &PublishError{d.ID, ErrTooMany, fmt.Sprintf("%d records, MaxRecords is %d", n, s.cfg.MaxRecords)}
			}
		}
	}
	named, err := tx.references(deltas)
	if err != nil {
		return err
	}
	for id, by := range named {
		if s.named[id] += by; s.named[id] == 0 {
			delete(s.named, id)
		}
	}
	for _, d := range deltas {
		if d.Now.IsZero() {
			s.gone[ID([]byte(d.ID))] = mark{d.Was.Revision(), d.Was.Kind()}
		} else {
			delete(s.gone, d.ID)
		}
	}
	s.publish(deltas)
	return nil
}

// references checks that every tool which an agent names is there afterwards
// (§5.4), and returns by how much the number of references to each changes.
func (tx *Tx) references(deltas []Delta) (named map[ID]int, err error) {
	named = map[ID]int{}
	for _, d := range deltas {
		for tool := range d.Was.toolRefs() {
			named[tool]--
		}
		for tool := range d.Now.toolRefs() {
			if r, ok := tx.Get(tool); !ok || r.Kind() != KindTool {
				return nil, &PublishError{d.ID, ErrDangling, fmt.Sprintf("tool %v", tool)}
			}
			named[ID([]byte(tool))]++
		}
	}
	for _, d := range deltas {
		if !d.Now.IsZero() || tx.set.named[d.ID]+named[d.ID] == 0 {
			continue
		}
		agents := Filter{Kinds: []Kind{KindAgent}}.Matcher()
		for r := range tx.base.Match(&agents) {
			if tx.puts[r.ID()].changed {
				continue // checked above
			}
			for tool := range r.toolRefs() {
				if tool == d.ID {
					return nil, &PublishError{r.ID(), ErrDangling, fmt.Sprintf("tool %v", tool)}
				}
			}
		}
	}
	return named, nil
}

// toolRefs yields the record_ids that an agent names as its tools; none for
// other kinds and the zero Record.
func (r Record) toolRefs() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		if r.IsZero() || r.Kind() != KindAgent {
			return
		}
		pairs, _ := dcbor.Head(r.s, bodyAt(r.s))
		n, i := protocolIDsAt(r.s)
		for ; n > 0; n-- {
			_, i = dcbor.Head(r.s, i)
		}
		if pairs < 3 || r.s[i] != keyTools {
			return
		}
		n, i = dcbor.Head(r.s, i+1)
		for ; n > 0; n-- {
			var id string
			if id, i = str(r.s, i); !yield(ID(id)) {
				return
			}
		}
	}
}
