package subscribe

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// An UPDATE is encoded with the lock free. What happens to the subscription
// meanwhile counts: it is as if nothing had been encoded.
//
// Covers: DISC-4.3-05, DISC-7.3-01, DASP-010-03, C24
func TestMeanwhile(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("skipped: one processor does not do two things at once")
	}
	t.Run("cancelled", func(t *testing.T) {
		b, typ, _ := meanwhile(t, func(s *Subscription, _ record.ID) {
			s.cancelled = true // as Cancel has it, which needs the lock
		})
		if typ != 0 || len(b) != 0 {
			t.Errorf("%d octets of %v after Cancel", len(b), typ)
		}
	})
	t.Run("hidden", func(t *testing.T) {
		b, typ, id := meanwhile(t, func(s *Subscription, id record.ID) {
			s.hides++ // as a change has it that hides what the one before it had added
			s.net = map[record.ID]state{}
			octets := settle(s.net, id, state{was: 1})
			s.netLen += octets
			s.box.charge(s, octets)
		})
		u, err := disco.ParseUpdate(b, nil)
		if typ != disco.TypeUpdate || err != nil || len(u.Added) != manyRecords || len(u.Withdrawn) != 0 {
			t.Fatalf("%v of %d records, %d withdrawn: %v", typ, len(u.Added), len(u.Withdrawn), err)
		}
		for _, r := range u.Added {
			if r.ID() == id {
				t.Errorf("%q was hidden, and is sent", id)
			}
		}
	})
}

const manyRecords = 20_000

// meanwhile has AppendFrame encode an UPDATE that replaces many records and adds
// the one with the id, calls do, with the lock held, while it is at it, and
// returns what became of it.
func meanwhile(t *testing.T, do func(s *Subscription, id record.ID)) (b []byte, typ disco.Type, id record.ID) {
	set := newSet()
	h := NewHub(set)
	defer h.Close()
	o := NewOutbox(func() {})
	page := record.Page{MaxRecords: 1 << 20, MaxLen: 1 << 30}
	s := h.Subscribe(o, "1", record.Filter{}, Options{})
	if _, typ, _ := s.AppendFrame(nil, page, nil); typ != disco.TypeResult {
		t.Fatal(typ)
	}
	idle := s.held
	for try := range 100 {
		id = record.ID(fmt.Sprint("new", try))
		var recs []record.Record
		for i := range manyRecords {
			recs = append(recs, tool(t, record.ID(fmt.Sprint(i)), fmt.Sprint(try), 1))
		}
		put(t, set, append(recs, tool(t, id, "new", 1))...)
		done := make(chan bool)
		go func() {
			b, typ, _ = s.AppendFrame(nil, page, nil)
			close(done)
		}()
		for taken := false; !taken; runtime.Gosched() {
			o.mu.Lock()
			taken = len(s.queue) == 0
			if taken && s.held > idle { // and not given yet
				do(s, id)
				o.mu.Unlock()
				<-done
				return b, typ, id
			}
			o.mu.Unlock()
		}
		<-done
	}
	t.Fatal("encoding was never seen under way")
	return nil, 0, ""
}

// A hasty source changes right after it was asked for a snapshot.
type hasty struct {
	record.Source
	change func()
}

func (s *hasty) Snapshot() *record.Snapshot {
	now := s.Source.Snapshot()
	if change := s.change; change != nil {
		s.change = nil
		change()
	}
	return now
}

// Nothing falls between a subscription's snapshot and its first change.
//
// Covers: C15, DISC-7.2-02
func TestNothingFallsBetween(t *testing.T) {
	set := newSet()
	put(t, set, tool(t, "a", "a", 1))
	src := &hasty{Source: set}
	h := NewHub(src)
	defer h.Close()
	o := NewOutbox(func() {})
	change := func() { put(t, set, tool(t, "b", "b", 1)) }
	src.change = change
	x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	if src.change != nil { // it was not asked
		src.change = nil
		change()
	}
	drain(t, o, 10, x)
	if len(x.view) != 2 || !x.synced {
		t.Errorf("the view has %d records, want 2", len(x.view))
	}
}
