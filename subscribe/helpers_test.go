package subscribe

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

func newSet() *record.Set {
	return record.NewSet(record.SetConfig{Carries: func(uint64) bool { return true }})
}

func tool(t testing.TB, id record.ID, name string, protocol uint64) record.Record {
	t.Helper()
	r, err := record.Tool{ID: id, Name: name, ProtocolID: protocol}.Record()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func update(t testing.TB, s *record.Set, fn func(tx *record.Tx)) {
	t.Helper()
	if err := s.Update(func(tx *record.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, s *record.Set, records ...record.Record) {
	t.Helper()
	update(t, s, func(tx *record.Tx) {
		for _, r := range records {
			tx.Put(r)
		}
	})
}

func withdraw(t testing.TB, s *record.Set, ids ...record.ID) {
	t.Helper()
	update(t, s, func(tx *record.Tx) {
		for _, id := range ids {
			tx.Withdraw(id)
		}
	})
}

// A subscriber reads the frames of one subscription, and finds fault with what
// the specification or the package does not promise.
type subscriber struct {
	t        *testing.T
	s        *Subscription
	filter   record.Filter
	view     map[record.ID]record.Record
	synced   bool
	last     record.ID // of the snapshot so far
	results  int
	updates  int
	cursors  int
	revision map[record.ID]uint64 // greatest seen; with visibility flips it may come back equal
	page     record.Page
}

func subscribeTo(t *testing.T, h *Hub, o *Outbox, corr string, f record.Filter, opt Options) *subscriber {
	x := &subscriber{t: t, filter: f, view: map[record.ID]record.Record{}, revision: map[record.ID]uint64{},
		page: record.Page{MaxRecords: 1024, MaxLen: 256 << 10}}
	x.s = h.Subscribe(o, disco.Corr(corr), f, opt)
	return x
}

// frame takes the next frame of the subscription and reads it.
func (x *subscriber) frame() (t disco.Type, more bool) {
	x.t.Helper()
	before := []byte("before")
	b, t, more := x.s.AppendFrame(before, x.page, func(s *record.Snapshot, pos record.Position) disco.Cursor {
		x.cursors++
		if pos.Done() {
			x.t.Error("a cursor to nowhere")
		}
		return "cursor"
	})
	if !bytes.HasPrefix(b, before) {
		x.t.Fatal("AppendFrame does not append")
	}
	b = b[len(before):]
	switch t {
	case 0:
		if len(b) > 0 {
			x.t.Fatalf("%x appended as nothing", b)
		}
	case disco.TypeResult:
		x.result(b)
	case disco.TypeUpdate:
		x.update(b)
	default:
		x.t.Fatal(t)
	}
	return t, more
}

func (x *subscriber) result(b []byte) {
	x.t.Helper()
	r, err := disco.ParseResult(b, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.results++
	if r.Corr != x.s.Corr() || x.synced || !r.Complete && r.Cursor != "cursor" {
		x.t.Fatalf("RESULT %+v", r)
	}
	x.bounds(len(r.Records), r.Records)
	if len(r.Records) == 0 && !r.Complete {
		x.t.Fatal("an empty page that is not the last")
	}
	for _, rec := range r.Records {
		if rec.ID() <= x.last {
			x.t.Fatal("the snapshot does not ascend")
		}
		x.last = rec.ID()
		x.add(rec, false)
	}
	x.synced = r.Complete
}

func (x *subscriber) update(b []byte) {
	x.t.Helper()
	u, err := disco.ParseUpdate(b, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.updates++
	if u.Corr != x.s.Corr() || !x.synced || len(u.Added)+len(u.Withdrawn) == 0 {
		x.t.Fatalf("UPDATE %+v", u)
	}
	x.bounds(len(u.Added)+len(u.Withdrawn), u.Added)
	for i, rec := range u.Added {
		if i > 0 && u.Added[i-1].ID() >= rec.ID() {
			x.t.Fatal("added does not ascend")
		}
		x.add(rec, true)
	}
	for i, id := range u.Withdrawn {
		if i > 0 && u.Withdrawn[i-1] >= id {
			x.t.Fatal("withdrawn does not ascend")
		}
		if _, held := x.view[id]; !held {
			x.t.Fatalf("%v is withdrawn, and was never there", id)
		}
		delete(x.view, id)
	}
}

// add takes a record, as a receiver does: a greater revision only (§8).
func (x *subscriber) add(r record.Record, update bool) {
	x.t.Helper()
	m := x.filter.Matcher()
	held, ok := x.view[r.ID()]
	switch {
	case !m.MatchRecord(r):
		x.t.Fatalf("%v does not match", r.ID())
	case ok && r.Revision() < held.Revision(), ok && r.Revision() == held.Revision() && r != held:
		x.t.Fatalf("%v: revision %d after %d", r.ID(), r.Revision(), held.Revision())
	case r.Revision() < x.revision[r.ID()]:
		x.t.Fatalf("%v: revision %d, once %d", r.ID(), r.Revision(), x.revision[r.ID()])
	}
	x.view[r.ID()], x.revision[r.ID()] = r, r.Revision()
}

func (x *subscriber) bounds(n int, records []record.Record) {
	x.t.Helper()
	octets := 0
	for _, r := range records {
		octets += r.Len()
	}
	if x.page.MaxRecords > 0 && n > x.page.MaxRecords || x.page.MaxLen > 0 && n > 1 && octets > x.page.MaxLen {
		x.t.Fatalf("%d records, %d octets on a page of %+v", n, octets, x.page)
	}
}

// check compares the view with what the source has, octet for octet.
func (x *subscriber) check(src record.Source) {
	x.t.Helper()
	m := x.filter.Matcher()
	var want, got []byte
	for r := range src.Snapshot().Match(&m) {
		want = r.AppendTo(want)
	}
	var ids []record.ID
	for id := range x.view {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		got = x.view[id].AppendTo(got)
	}
	if !x.synced || !bytes.Equal(got, want) {
		x.t.Fatalf("%+v: synced %v, %d records of %d octets, want %d octets", x.filter, x.synced, len(ids), len(got), len(want))
	}
}

// drain takes frames of an outbox, of its subscribers, until none is left, or n.
func drain(t *testing.T, o *Outbox, n int, xs ...*subscriber) (frames int) {
	t.Helper()
	for frames < n {
		s := o.Next()
		if s == nil {
			break
		}
		i := slices.IndexFunc(xs, func(x *subscriber) bool { return x.s == s })
		if i < 0 {
			t.Fatalf("Next returns %v, of which nobody knows", s.Corr())
		}
		if typ, _ := xs[i].frame(); typ != 0 {
			frames++
		}
	}
	return frames
}

const all = 1 << 30

func randomFilter(rng *rand.Rand) (f record.Filter) {
	switch rng.IntN(3) {
	case 0:
		f.Kinds = []record.Kind{record.KindTool, record.KindAgent, record.KindProtocol}[rng.IntN(3):]
	case 1:
		f.Kinds = []record.Kind{record.KindTool}[rng.IntN(2):]
	}
	if rng.IntN(2) == 0 {
		f.ProtocolIDs = []uint64{1, 2, 3}[rng.IntN(4):]
	}
	if rng.IntN(2) == 0 {
		f.NamePrefix, f.HasPrefix = []string{"", "a", "ab", "b"}[rng.IntN(4)], true
	}
	return f
}

// churn makes random transactions.
type churn struct {
	t   *testing.T
	rng *rand.Rand
	set *record.Set
	ids []record.ID
}

func newChurn(t *testing.T, seed uint64, n int) *churn {
	c := &churn{t: t, rng: rand.New(rand.NewPCG(seed, 7)), set: newSet()}
	for i := range n {
		c.ids = append(c.ids, record.ID(fmt.Sprintf("%c%03d", 'a'+(i*7)%26, i)))
	}
	return c
}

func (c *churn) step(n int) {
	c.t.Helper()
	used := map[record.ID]bool{}
	update(c.t, c.set, func(tx *record.Tx) {
		for range n {
			id := c.ids[c.rng.IntN(len(c.ids))]
			if used[id] {
				continue
			}
			used[id] = true
			if c.rng.IntN(3) == 0 {
				tx.Withdraw(id)
				continue
			}
			if id[0] < 'd' { // agents; they name no tools, which the projection's own tests do
				r, err := record.Agent{ID: id, AgentID: []string{"a", "ab", "b"}[c.rng.IntN(3)], Protocols: []uint64{uint64(1 + c.rng.IntN(3))}}.Record()
				if err != nil {
					c.t.Fatal(err)
				}
				tx.Put(r)
				continue
			}
			tx.Put(tool(c.t, id, []string{"a", "ab", "abc", "b"}[c.rng.IntN(4)], uint64(1+c.rng.IntN(3))))
		}
	})
}
