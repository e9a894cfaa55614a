package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
)

func protocolRecord(t testing.TB, id ID, protocolID uint64, class CarriageClass) Record {
	t.Helper()
	r, err := Protocol{ID: id, ProtocolID: protocolID, CarriageClass: class}.Record()
	return built(t, r, err)
}

func agentRecord(t testing.TB, id ID, protocols []uint64, tools ...ID) Record {
	t.Helper()
	r, err := Agent{ID: id, AgentID: "agent " + string(id), Protocols: protocols, Tools: tools}.Record()
	return built(t, r, err)
}

func putAll(s *Set, records ...Record) error {
	return s.Update(func(tx *Tx) error {
		for _, r := range records {
			tx.Put(r) // its error fails the transaction all the same
		}
		return nil
	})
}

// Each row fails as a whole, naming the record.
//
// Covers: DISC-5-03, DISC-5.1-02, DISC-5.1-05, DISC-5.3-02, DISC-5.4-02, DGP-3.2-01, REG-4-02, REG-4-03, REG-5-01, REG-6-02, REG-7.1-01, REG-7.2-01, REG-8-01, ACP-02, DGP-1.3-01, C32, C38, C39
func TestRefusals(t *testing.T) {
	only := func(ids ...uint64) SetConfig {
		return SetConfig{Carries: func(id uint64) bool { return slices.Contains(ids, id) }}
	}
	agreed := carryAll()
	agreed.Agreed = []uint64{0x10, 0x80, 256}
	opaque := carryAll()
	opaque.AllowOpaque = true
	older := carryAll()
	older.Classes = Classes{1: {ClassJSONRPC}, 2: {ClassJSONRPC}, 3: {ClassHTTP}, 4: {ClassStream}}
	small := carryAll()
	small.MaxRecords = 2
	panics := SetConfig{Carries: func(uint64) bool { panic("no") }}
	effect4, err := Parse([]byte("\xa4\x00\x41\x09\x01\x03\x02\x01\x04\xa3\x00\x61t\x01\x01\x02\x04"), dcbor.Generation2)
	if err != nil {
		t.Fatal(err)
	}
	float, err := Parse([]byte("\xa5\x00\x41\x09\x01\x03\x02\x01\x04\xa2\x00\x61t\x01\x01\x09\xf9\x3e\x00"), dcbor.Generation2)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		cfg  SetConfig
		put  []Record
		id   ID
		err  error // nil: taken
	}{
		{"a protocol, carried", only(1), []Record{protocolRecord(t, "p", 1, ClassJSONRPC)}, "", nil},
		{"no Carries", SetConfig{}, []Record{protocolRecord(t, "p", 1, ClassJSONRPC)}, "p", ErrNotCarried},
		{"Carries says no", only(2), []Record{protocolRecord(t, "p", 1, ClassJSONRPC)}, "p", ErrNotCarried},
		{"Carries panics", panics, []Record{protocolRecord(t, "p", 1, ClassJSONRPC)}, "p", ErrNotCarried},
		{"a tool of a protocol not carried", only(2), []Record{simpleTool(t, "t", "n", 1)}, "t", ErrNotCarried},
		{"an agent of which one is not", only(1), []Record{agentRecord(t, "a", []uint64{1, 2})}, "a", ErrNotCarried},
		{"a carriage class needs none", SetConfig{}, []Record{built(t, firstOf(Carriage{ID: "c", CarriageClass: ClassMSG}.Record()), nil)}, "", nil},
		{"class 0", carryAll(), []Record{built(t, firstOf(Carriage{ID: "c"}.Record()), nil)}, "c", ErrClass},
		{"the registry's class", carryAll(), []Record{protocolRecord(t, "p", 4, ClassStream)}, "", nil},
		{"another class", carryAll(), []Record{protocolRecord(t, "p", 1, ClassHTTP)}, "p", ErrClass},
		{"any class listed", carryAll(), []Record{protocolRecord(t, "p", 8, ClassDOC)}, "", nil},
		{"OPAQUE", carryAll(), []Record{protocolRecord(t, "p", 4, ClassOpaque)}, "p", ErrClass},
		{"OPAQUE allowed", opaque, []Record{protocolRecord(t, "p", 4, ClassOpaque)}, "", nil},
		{"OPAQUE allowed, another class", opaque, []Record{protocolRecord(t, "p", 4, ClassHTTP)}, "p", ErrClass},
		{"protocol_id 0", carryAll(), []Record{protocolRecord(t, "p", 0, ClassJSONRPC)}, "p", ErrProtocolID},
		{"a tool on 0", carryAll(), []Record{simpleTool(t, "t", "n", 0)}, "t", ErrProtocolID},
		{"an agent on 0", carryAll(), []Record{agentRecord(t, "a", []uint64{1, 0})}, "a", ErrProtocolID},
		{"unassigned", carryAll(), []Record{protocolRecord(t, "p", 0x0b, ClassHTTP)}, "p", ErrProtocolID},
		{"assigned in the newer table only", older, []Record{protocolRecord(t, "p", 5, ClassStream)}, "p", ErrProtocolID},
		{"assigned in the newer table", carryAll(), []Record{protocolRecord(t, "p", 5, ClassStream)}, "", nil},
		{"experimental", carryAll(), []Record{protocolRecord(t, "p", 0x10, ClassJSONRPC)}, "p", ErrProtocolID},
		{"private", carryAll(), []Record{simpleTool(t, "t", "n", 0x80)}, "t", ErrProtocolID},
		{"experimental, agreed", agreed, []Record{protocolRecord(t, "p", 0x10, ClassJSONRPC), simpleTool(t, "t", "n", 0x80)}, "", nil},
		{"above 255", agreed, []Record{agentRecord(t, "a", []uint64{256})}, "a", ErrProtocolID},
		{"effect 4", carryAll(), []Record{effect4}, "\x09", ErrEffect},
		{"a float in an unknown key", carryAll(), []Record{float}, "\x09", ErrEncoding},
		{"two under one record_id", carryAll(), []Record{simpleTool(t, "t", "n", 1), simpleTool(t, "t", "m", 1)}, "t", ErrConflict},
		{"one twice, at any revision", carryAll(), []Record{simpleTool(t, "t", "n", 1), simpleTool(t, "t", "n", 1).WithRevision(9)}, "", nil},
		{"a dangling reference", carryAll(), []Record{simpleTool(t, "t", "n", 1), agentRecord(t, "a", []uint64{1}, "t", "t9")}, "a", ErrDangling},
		{"a reference to a protocol", carryAll(), []Record{protocolRecord(t, "p", 1, ClassJSONRPC), agentRecord(t, "a", []uint64{1}, "p")}, "a", ErrDangling},
		{"a reference to what comes later", carryAll(), []Record{agentRecord(t, "a", []uint64{1}, "t", "t"), simpleTool(t, "t", "n", 1)}, "", nil},
		{"one too many", small, []Record{simpleTool(t, "1", "n", 1), simpleTool(t, "3", "n", 1), simpleTool(t, "2", "n", 1)}, "3", ErrTooMany},
		{"as many as fit", small, []Record{simpleTool(t, "1", "n", 1), simpleTool(t, "3", "n", 1)}, "", nil},
		{"none", carryAll(), []Record{{}}, "", ErrNoRecord},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewSet(test.cfg)
			told := 0
			_, stop := s.Watch(func(*Change) { told++ })
			defer stop()
			before := s.Snapshot()
			err := putAll(s, test.put...)
			var pe *PublishError
			switch {
			case test.err == nil && err != nil:
				t.Fatal(err)
			case test.err == nil:
				if s.Len() == 0 || told != 1 {
					t.Errorf("%d records, told %d times", s.Len(), told)
				}
			case !errors.Is(err, test.err) || !errors.As(err, &pe) || pe.ID != test.id:
				t.Fatalf("%v, want %v, of %v", err, test.err, test.id)
			case s.Snapshot() != before || told > 0:
				t.Error("something was published nevertheless")
			case test.id != "" && !strings.Contains(err.Error(), test.id.String()):
				t.Errorf("%q does not name the record", err)
			}
		})
	}
}

func firstOf[T any](v T, _ error) T { return v }

// Covers: DISC-5-04, DISC-7.2-08, DISC-8-01, DGP-3.2-01, C17
func TestRevisions(t *testing.T) {
	s := NewSet(carryAll())
	var changes []*Change
	_, stop := s.Watch(func(c *Change) { changes = append(changes, c) })
	defer stop()
	at := func(want uint64, changed bool) {
		t.Helper()
		r, _ := s.Snapshot().Get("t1")
		if r.Revision() != want || (len(changes) > 0) != changed {
			t.Fatalf("revision %d, %d changes; want %d, %v", r.Revision(), len(changes), want, changed)
		}
		changes = nil
	}
	a, b := simpleTool(t, "t1", "a", 1), simpleTool(t, "t1", "b", 1)
	updateSet(t, s, func(tx *Tx) { tx.Put(a) })
	at(1, true) // never 0
	updateSet(t, s, func(tx *Tx) { tx.Put(a.WithRevision(77)) })
	at(1, false) // identical but for the revision
	updateSet(t, s, func(tx *Tx) { tx.Put(b) })
	at(2, true)
	updateSet(t, s, func(tx *Tx) { tx.Put(a.WithRevision(10)) })
	at(10, true) // the author's floor
	updateSet(t, s, func(tx *Tx) { tx.Put(b.WithRevision(3)) })
	at(11, true)
	updateSet(t, s, func(tx *Tx) { tx.Withdraw("t1"); tx.Put(b) })
	at(11, false) // nothing in sum
	updateSet(t, s, func(tx *Tx) {
		tx.Withdraw("t1")
		tx.Withdraw("t2")
		tx.Put(simpleTool(t, "t3", "c", 1))
		tx.Withdraw("t3")
	})
	if len(changes) != 1 || len(changes[0].Deltas) != 1 || !changes[0].Deltas[0].Now.IsZero() {
		t.Fatalf("%+v", changes)
	}
	changes = nil
	if err := putAll(s, agentRecord(t, "t1", []uint64{1})); !errors.Is(err, ErrKindChanged) {
		t.Fatalf("an agent under a tool's record_id: %v", err)
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(b) })
	at(12, true) // the mark outlives the withdrawal
	if err := putAll(s, protocolRecord(t, "t1", 1, ClassJSONRPC)); !errors.Is(err, ErrKindChanged) {
		t.Fatalf("a protocol under a tool's record_id: %v", err)
	}
	updateSet(t, s, func(tx *Tx) { tx.Withdraw("t1"); tx.Put(a) })
	at(13, true) // withdrawn and put in one is a replacement
}

// Covers: DISC-5.4-02, C38
func TestF49ToolOfAnAgent(t *testing.T) {
	s := NewSet(carryAll())
	t1, t2 := simpleTool(t, "t1", "a", 1), simpleTool(t, "t2", "b", 1)
	if err := putAll(s, t1, t2, agentRecord(t, "ag", []uint64{1}, "t1", "t1", "t2")); err != nil {
		t.Fatal(err)
	}
	withdraw := func(tx *Tx) error { return tx.Withdraw("t1") }
	var pe *PublishError
	if err := s.Update(withdraw); !errors.Is(err, ErrDangling) || !errors.As(err, &pe) || pe.ID != "ag" {
		t.Fatalf("withdrawal of a tool that is named: %v", err)
	}
	if s.Len() != 3 {
		t.Fatalf("%d records", s.Len())
	}
	updateSet(t, s, func(tx *Tx) { withdraw(tx); tx.Put(agentRecord(t, "ag", []uint64{1}, "t2")) })
	updateSet(t, s, func(tx *Tx) { tx.Put(t1) })
	updateSet(t, s, func(tx *Tx) { withdraw(tx) }) // free by now
	updateSet(t, s, func(tx *Tx) { tx.Withdraw("t2"); tx.Withdraw("ag") })
	if s.Len() != 0 || len(s.named) != 0 {
		t.Errorf("%d records, %d named", s.Len(), len(s.named))
	}
}

// Covers: DISC-5.1-05, DISC-5.4-02
func TestRecheck(t *testing.T) {
	carried := map[uint64]bool{1: true, 2: true, 3: true}
	s := NewSet(SetConfig{Carries: func(id uint64) bool {
		if id == 3 && !carried[3] {
			panic("gone")
		}
		return carried[id]
	}})
	err := putAll(s, simpleTool(t, "t1", "a", 1), simpleTool(t, "t2", "b", 2), simpleTool(t, "t3", "c", 3), protocolRecord(t, "p2", 2, ClassJSONRPC),
		agentRecord(t, "a1", []uint64{1}, "t1"), agentRecord(t, "a2", []uint64{1}, "t1", "t2"), agentRecord(t, "a3", []uint64{2, 1}))
	if err != nil {
		t.Fatal(err)
	}
	var changes []*Change
	_, stop := s.Watch(func(c *Change) { changes = append(changes, c) })
	if err := s.Recheck(); err != nil || len(changes) != 0 {
		t.Fatalf("%v, %d changes", err, len(changes))
	}
	carried[2] = false
	if err := s.Recheck(); err != nil || len(changes) != 1 {
		t.Fatalf("%v, %d changes", err, len(changes))
	}
	if got := collectIDs(s.Snapshot().All()); !slices.Equal(got, []string{"a1", "t1", "t3"}) {
		t.Fatalf("left: %v", got)
	}
	stop()
	carried[3] = false
	if err := s.Recheck(); err != nil || s.Len() != 2 || len(changes) != 1 {
		t.Fatalf("%v, %d records, %d changes", err, s.Len(), len(changes))
	}
	carried[2] = true
	if err := putAll(s, simpleTool(t, "t2", "b", 2)); err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Snapshot().Get("t2"); r.Revision() != 2 {
		t.Errorf("revision %d", r.Revision())
	}
}

func TestUpdateFailsAsAWhole(t *testing.T) {
	s := testSet(t, 10)
	before := s.Snapshot()
	boom := errors.New("boom")
	var kept *Tx
	err := s.Update(func(tx *Tx) error {
		kept = tx
		tx.Put(simpleTool(t, "x", "x", 1))
		tx.Withdraw(testID(0))
		return boom
	})
	if err != boom || s.Snapshot() != before {
		t.Fatalf("%v; or the set has changed", err)
	}
	if err := kept.Put(simpleTool(t, "x", "x", 1)); !errors.Is(err, ErrTxDone) {
		t.Errorf("Put after the end: %v", err)
	}
	if err := kept.Withdraw("x"); !errors.Is(err, ErrTxDone) {
		t.Errorf("Withdraw after the end: %v", err)
	}
	func() {
		defer func() { recover() }()
		s.Update(func(tx *Tx) error { tx.Put(simpleTool(t, "x", "x", 1)); panic("in the middle") })
	}()
	if s.Snapshot() != before {
		t.Fatal("a panic published something")
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(simpleTool(t, "x", "x", 1)) }) // the lock is free
}

// F40: one transaction is one change; identical contents are none.
func TestF40Storm(t *testing.T) {
	s := NewSet(carryAll())
	told := 0
	_, stop := s.Watch(func(c *Change) { told++ })
	defer stop()
	for range 2 {
		updateSet(t, s, func(tx *Tx) {
			for i := range 1000 {
				tx.Put(simpleTool(t, testID(i), "n", 1))
			}
		})
	}
	if told != 1 || s.Len() != 1000 {
		t.Errorf("told %d times of %d records", told, s.Len())
	}
}

// What a watcher is told leads from the version it was given to every later
// one, whoever writes.
//
// Covers: DGP-22-02, C15
func TestWatchMissesNothing(t *testing.T) {
	s := NewSet(carryAll())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				id := ID(fmt.Sprint(w, i%17))
				s.Update(func(tx *Tx) error {
					if i%5 == 4 {
						return tx.Withdraw(id)
					}
					return tx.Put(simpleTool(t, id, fmt.Sprint(i), 1))
				})
			}
		})
	}
	var watchers sync.WaitGroup
	for range 4 {
		watchers.Go(func() {
			for range 20 {
				var changes []*Change
				base, stop := s.Watch(func(c *Change) { changes = append(changes, c) })
				want := oracle{}
				for r := range base.All() {
					want[r.ID()] = r
				}
				stop()
				last := base
				for _, c := range changes {
					for _, d := range c.Deltas {
						if want[d.ID] != d.Was {
							t.Errorf("%v: was %v, told %v", d.ID, want[d.ID], d.Was)
						}
						if want[d.ID] = d.Now; d.Now.IsZero() {
							delete(want, d.ID)
						}
					}
					last = c.After
				}
				if !slices.Equal(slices.Collect(last.All()), want.sorted()) {
					t.Error("the changes do not lead to the version they tell of")
				}
			}
		})
	}
	writers.Wait()
	watchers.Wait()
}

// An agent that is put again as it was is held to its references like one that
// is not mentioned.
//
// Covers: DISC-5.4-02
func TestUnchangedAgentKeepsItsTools(t *testing.T) {
	s := NewSet(carryAll())
	tool, agent := simpleTool(t, "t1", "a", 1), agentRecord(t, "a1", []uint64{1}, "t1")
	if err := putAll(s, tool, agent); err != nil {
		t.Fatal(err)
	}
	err := s.Update(func(tx *Tx) error {
		tx.Withdraw("t1")
		return tx.Put(agent)
	})
	if !errors.Is(err, ErrDangling) || s.Len() != 2 {
		t.Errorf("%v, %d records left", err, s.Len())
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(agent); tx.Put(simpleTool(t, "t1", "b", 1)) })
}
