package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/record"
)

// soakGroups is how many name groups and protocols there are: about one change
// in so many concerns a filter.
const soakGroups = 20

// soakProtocol is the first of the private protocol_ids in use.
const soakProtocol = 0x80

// A soakFilter is what a subscription asks for. Besides the library's own form
// it can say by itself which records that are.
type soakFilter struct {
	kinds    []record.Kind // nil: any
	protocol uint64        // 0: any
	prefix   string        // "": any
}

// soakFilterAt returns one of the filters in use.
func soakFilterAt(i int) soakFilter {
	group := i / 4 % soakGroups
	switch i % 4 {
	case 0:
		return soakFilter{kinds: []record.Kind{record.KindTool, record.KindAgent}, prefix: fmt.Sprintf("g%02d.", group)}
	case 1:
		return soakFilter{kinds: []record.Kind{record.KindProtocol, record.KindTool}, protocol: soakProtocol + uint64(group)}
	case 2:
		return soakFilter{kinds: []record.Kind{record.KindTool}, prefix: fmt.Sprintf("g%02d.t", group)}
	}
	if group%2 == 0 {
		return soakFilter{kinds: []record.Kind{record.KindAgent}}
	}
	return soakFilter{kinds: []record.Kind{record.KindProtocol, record.KindCarriageClass}}
}

func (f soakFilter) filter() record.Filter {
	out := record.Filter{Kinds: f.kinds}
	if f.protocol != 0 {
		out.ProtocolIDs = []uint64{f.protocol}
	}
	if f.prefix != "" {
		out.NamePrefix, out.HasPrefix = f.prefix, true
	}
	return out
}

func (f soakFilter) String() string {
	return fmt.Sprintf("kinds %v protocol %d prefix %q", f.kinds, f.protocol, f.prefix)
}

// takes reports whether the record is one of those asked for. A filter with a
// protocol or a prefix names the kinds that have one.
func (f soakFilter) takes(r record.Record) bool {
	if f.kinds != nil && !slices.Contains(f.kinds, r.Kind()) {
		return false
	}
	if f.protocol != 0 {
		found := false
		for id := range r.ProtocolIDs() {
			found = found || id == f.protocol
		}
		if !found {
			return false
		}
	}
	name, _ := r.Name()
	return strings.HasPrefix(name, f.prefix)
}

// soakPart returns which part of all records an id is in, 1 to 8. A peer that
// sees not all of them is shown all parts but one.
func soakPart(id record.ID) uint32 {
	h := sha256.Sum256([]byte(id))
	return 1 + uint32(h[0])%8
}

// soakSees reports whether a peer to which a part is hidden, 0 for none, sees the
// record: an agent only if it sees all its tools.
func soakSees(hidden uint32, r record.Record) bool {
	if hidden == 0 {
		return true
	}
	if a, ok := r.Agent(); ok {
		for _, id := range a.Tools {
			if soakPart(id) == hidden {
				return false
			}
		}
	}
	return soakPart(r.ID()) != hidden
}

// soakExpected returns the records that a peer must see, in order.
func soakExpected(s *record.Snapshot, f soakFilter, hidden uint32) (out []record.Record) {
	for r := range s.All() {
		if f.takes(r) && soakSees(hidden, r) {
			out = append(out, r)
		}
	}
	return out
}

// soakIs reports whether the records are what a peer must see of a version.
func soakIs(records []record.Record, s *record.Snapshot, f soakFilter, hidden uint32) bool {
	n := 0
	for r := range s.All() {
		if f.takes(r) && soakSees(hidden, r) {
			if n == len(records) || records[n] != r {
				return false
			}
			n++
		}
	}
	return n == len(records)
}

// soakDigest is SHA-256 over the records' octets.
func soakDigest(records []record.Record) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, r := range records {
		h.Write([]byte(r.Octets()))
	}
	h.Sum(sum[:0])
	return sum
}

// A publisher changes the set, and knows without it what must be in it. It
// belongs to one goroutine.
type publisher struct {
	set    *record.Set
	rng    *rand.Rand
	ids    map[record.Kind][]record.ID // all that there ever are
	have   map[record.ID]record.Record // what the set must hold, but for revisions
	tools  map[record.ID][]record.ID   // of each agent that is there
	serial int                         // makes each record differ from the one before

	began time.Time // of the transaction under way
	sent  sentTable
	log   versionLog
}

// newPublisher returns a set of n records or a few more and its publisher.
func newPublisher(n int, rng *rand.Rand) (*publisher, func(), error) {
	agreed := make([]uint64, soakGroups)
	for i := range agreed {
		agreed[i] = soakProtocol + uint64(i)
	}
	p := &publisher{
		set:   record.NewSet(record.SetConfig{Carries: func(uint64) bool { return true }, Agreed: agreed}),
		rng:   rng,
		ids:   map[record.Kind][]record.ID{},
		have:  map[record.ID]record.Record{},
		tools: map[record.ID][]record.ID{},
		sent:  sentTable{},
	}
	agents := max(n/20, 4)
	for kind, count := range map[record.Kind]int{
		record.KindProtocol: soakGroups, record.KindCarriageClass: soakGroups,
		record.KindAgent: agents, record.KindTool: max(n-agents-2*soakGroups, 20),
	} {
		for i := range count {
			id := record.ID(fmt.Sprintf("%s%05d", kind.String()[:1], i))
			p.ids[kind] = append(p.ids[kind], id)
			p.sent[id] = &sentRecord{}
		}
	}
	first, stop := p.set.Watch(func(c *record.Change) {
		for i := range c.Deltas {
			if d := &c.Deltas[i]; !d.Now.IsZero() {
				p.sent.set(d.ID, d.Now.Revision(), p.began)
			}
		}
		p.log.add(c.After)
	})
	p.log.add(first)
	var tx soakTx
	for _, kind := range []record.Kind{record.KindProtocol, record.KindCarriageClass, record.KindTool, record.KindAgent} { // agents name tools
		for i := range p.ids[kind] {
			if err := p.put(&tx, kind, i); err != nil {
				stop()
				return nil, nil, err
			}
		}
	}
	if err := p.commit(&tx); err != nil {
		stop()
		return nil, nil, err
	}
	return p, stop, nil
}

// since is versionLog.end, with every version that was shown up to now. One is
// shown as soon as it is the set's, and in the log a moment later; an Update that
// does nothing waits for that moment.
func (p *publisher) since(from uint64) (versions []*record.Snapshot, whole bool) {
	p.set.Update(func(*record.Tx) error { return nil })
	return p.log.end(from)
}

// A soakTx is a transaction being thought out.
type soakTx struct {
	put      []record.Record
	withdraw []record.ID
}

func (tx *soakTx) len() int { return len(tx.put) + len(tx.withdraw) }

func (tx *soakTx) touches(id record.ID) bool {
	return slices.Contains(tx.withdraw, id) || slices.ContainsFunc(tx.put, func(r record.Record) bool { return r.ID() == id })
}

// put adds a record that the set does not have yet.
func (p *publisher) put(tx *soakTx, kind record.Kind, i int) error {
	id := p.ids[kind][i]
	p.serial++
	label := fmt.Sprintf("change %d of the records that are soaked", p.serial)
	group := i % soakGroups
	if p.rng.IntN(5) == 0 {
		group = p.rng.IntN(soakGroups) // it moves: a withdrawal to some, an addition to others
	}
	protocol := func() uint64 { return soakProtocol + uint64(p.rng.IntN(soakGroups)) }
	var r record.Record
	var err error
	switch kind {
	case record.KindProtocol:
		r, err = record.Protocol{ID: id, Label: &label, ProtocolID: soakProtocol + uint64(i), CarriageClass: record.ClassOpaque, Methods: []string{"m"}}.Record()
	case record.KindCarriageClass:
		r, err = record.Carriage{ID: id, Label: &label, CarriageClass: record.CarriageClass(1 + i%6)}.Record()
	case record.KindTool:
		effect := record.Effect(p.rng.IntN(4))
		r, err = record.Tool{ID: id, Label: &label, Name: fmt.Sprintf("g%02d.tool%d", group, i), ProtocolID: protocol(), Effect: &effect}.Record()
	case record.KindAgent:
		var tools []record.ID
		for range p.rng.IntN(5) {
			all := p.ids[record.KindTool]
			t := all[p.rng.IntN(len(all))]
			if _, ok := p.have[t]; ok && !slices.Contains(tools, t) {
				tools = append(tools, t)
			}
		}
		r, err = p.agent(id, i, group, label, protocol(), tools)
	}
	if err != nil {
		return err
	}
	tx.put = append(tx.put, r)
	p.have[id] = r
	return nil
}

func (p *publisher) agent(id record.ID, i, group int, label string, protocol uint64, tools []record.ID) (record.Record, error) {
	p.tools[id] = tools
	return record.Agent{ID: id, Label: &label, AgentID: fmt.Sprintf("g%02d.agent%d", group, i), Protocols: []uint64{protocol}, Tools: tools}.Record()
}

// change adds one change to the transaction: of a record that it does not touch,
// and with a tool that goes, of the agents that name it.
func (p *publisher) change(tx *soakTx) error {
	kind := record.KindTool
	switch n := p.rng.IntN(100); {
	case n < 5:
		kind = record.KindAgent
	case n < 8:
		kind = record.KindProtocol
	case n < 10:
		kind = record.KindCarriageClass
	}
	i := p.rng.IntN(len(p.ids[kind]))
	id := p.ids[kind][i]
	if tx.touches(id) {
		return nil
	}
	if _, ok := p.have[id]; !ok || p.rng.IntN(8) > 0 {
		return p.put(tx, kind, i)
	}
	var named []record.ID
	for agent, tools := range p.tools {
		if slices.Contains(tools, id) {
			if tx.touches(agent) {
				return nil
			}
			named = append(named, agent)
		}
	}
	slices.Sort(named)
	for _, agent := range named {
		a, _ := p.have[agent].Agent()
		a.Tools = slices.DeleteFunc(slices.Clone(p.tools[agent]), func(t record.ID) bool { return t == id })
		r, err := a.Record()
		if err != nil {
			return err
		}
		p.tools[agent], p.have[agent] = a.Tools, r
		tx.put = append(tx.put, r)
	}
	delete(p.have, id)
	delete(p.tools, id)
	tx.withdraw = append(tx.withdraw, id)
	return nil
}

// commit makes the transaction.
func (p *publisher) commit(tx *soakTx) error {
	p.began = time.Now()
	return p.set.Update(func(t *record.Tx) error {
		for _, id := range tx.withdraw {
			if err := t.Withdraw(id); err != nil {
				return err
			}
		}
		for _, r := range tx.put {
			if err := t.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// check compares the set with what must be in it and returns how many record_ids
// differ.
func (p *publisher) check() (wrong int) {
	s := p.set.Snapshot()
	for id, want := range p.have {
		if got, ok := s.Get(id); !ok || !got.SameContents(want) {
			wrong++
		}
	}
	return wrong + max(s.Len()-len(p.have), 0)
}

// publish changes the set at the rate until ctx is done.
func (s *soak) publish(ctx context.Context) {
	p := s.pub
	due := time.Now()
	for soakPause(ctx, time.Until(due)) {
		s.quiet.RLock()
		var tx soakTx
		var err error
		for n := 1 + p.rng.IntN(5); err == nil && tx.len() < n; {
			err = p.change(&tx)
		}
		if err == nil {
			err = p.commit(&tx)
		}
		s.quiet.RUnlock()
		if err != nil {
			s.fail(fmt.Errorf("publishing: %w", err))
			return
		}
		s.changes.Add(uint64(tx.len()))
		s.transactions.Add(1)
		due = due.Add(time.Duration(tx.len()) * time.Second / time.Duration(s.opt.rate))
		if late := time.Since(due); late > time.Second {
			due = due.Add(late) // the machine cannot do it, or a checkpoint: do not make up for it
		}
	}
}

// soakPause waits and reports whether to go on.
func soakPause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
