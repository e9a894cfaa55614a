package record

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world makes random changes to a set and to a plain map, by the same rules.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	set   *Set
	want  oracle
	marks map[ID]uint64 // greatest revision so far
	kinds map[ID]Kind   // of every record_id ever used
	ids   []ID
}

func newWorld(t *testing.T, seed uint64, ids int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), set: NewSet(carryAll()), want: oracle{}, marks: map[ID]uint64{}, kinds: map[ID]Kind{}}
	for i := range ids {
		w.ids = append(w.ids, testID(i)[:8+i%9])
	}
	return w
}

var testNames = []string{"", "a", "ab", "abc", "abcdefgh", "abcdefghi", "abcdefgh\x00", "abcdefghijkl", "abcdefghijkm", "b", "b\x00", "b\x00\x00", "zz", "common.prefix.a", "common.prefix.b", "common.prefix.abc"}

// record returns a random record for the id, naming tools that are there.
func (w *world) record(id ID) Record {
	kind := w.kinds[id]
	if kind == 0 {
		kind = []Kind{KindTool, KindTool, KindTool, KindAgent, KindProtocol, KindCarriageClass}[w.rng.IntN(6)]
	}
	label := optional(fmt.Sprint("label ", w.rng.IntN(3)))
	name := testNames[w.rng.IntN(len(testNames))]
	var r Record
	var err error
	switch kind {
	case KindTool:
		r, err = Tool{ID: id, Revision: uint64(w.rng.IntN(4)), Label: label, Name: name, ProtocolID: uint64(1 + w.rng.IntN(4))}.Record()
	case KindAgent:
		a := Agent{ID: id, Label: label, AgentID: name + "\xff", Protocols: []uint64{uint64(1 + w.rng.IntN(4)), 0x40}[w.rng.IntN(2):]}
		for tool, r := range w.want {
			if r.Kind() == KindTool && len(a.Tools) < w.rng.IntN(4) {
				a.Tools = append(a.Tools, tool)
			}
		}
		slices.Sort(a.Tools) // not in the order of the map
		r, err = a.Record()
	case KindProtocol:
		p := Protocol{ID: id, Label: label, ProtocolID: uint64(1 + w.rng.IntN(4))}
		p.CarriageClass, _ = RegisteredClasses().Of(p.ProtocolID)
		r, err = p.Record()
	case KindCarriageClass:
		r, err = Carriage{ID: id, Label: label, CarriageClass: CarriageClass(1 + w.rng.IntN(6))}.Record()
	}
	return built(w.t, r, err)
}

// namedBy returns an agent of the map that names the tool.
func (o oracle) namedBy(tool ID) (agent ID, ok bool) {
	for id, r := range o {
		a, _ := r.Agent()
		if slices.Contains(a.Tools, tool) {
			return id, true
		}
	}
	return "", false
}

// step makes one transaction of n changes at most, of which some are refused.
func (w *world) step(n int) {
	w.t.Helper()
	want := oracle{}
	for id, r := range w.want {
		want[id] = r
	}
	used := map[ID]bool{}
	refused := false
	err := w.set.Update(func(tx *Tx) error {
		for range n {
			id := w.ids[w.rng.IntN(len(w.ids))]
			if used[id] {
				continue
			}
			used[id] = true
			if w.rng.IntN(3) == 0 {
				if _, named := want.namedBy(id); named && w.rng.IntN(8) > 0 {
					continue
				}
				delete(want, id)
				if err := tx.Withdraw(id); err != nil {
					w.t.Fatal(err)
				}
				continue
			}
			r := w.record(id)
			if err := tx.Put(r); err != nil {
				w.t.Fatal(err)
			}
			if old, ok := want[id]; ok && old.SameContents(r) {
				continue
			}
			want[id] = r.WithRevision(max(r.Revision(), w.marks[id]+1))
		}
		for id, r := range want {
			if got, ok := tx.Get(id); !ok || !got.SameContents(r) {
				w.t.Fatalf("tx.Get(%v) = %v, %v", id, got, ok)
			}
		}
		for _, r := range want {
			for tool := range r.toolRefs() {
				if want[tool].IsZero() || want[tool].Kind() != KindTool {
					refused = true
				}
			}
		}
		if got := slices.Collect(tx.All()); !slices.Equal(got, want.sorted()) {
			w.t.Fatalf("tx.All yields %d records, want %d", len(got), len(want))
		}
		return nil
	})
	if refused {
		if !errors.Is(err, ErrDangling) {
			w.t.Fatalf("a dangling reference: %v", err)
		}
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for id, r := range want {
		if r.Revision() < w.marks[id] || r.Revision() == w.marks[id] && r != w.want[id] {
			w.t.Fatalf("%v: revision %d after %d", id, r.Revision(), w.marks[id])
		}
		w.marks[id], w.kinds[id] = r.Revision(), r.Kind()
	}
	w.want = want
}

// steps is how many rounds a long test makes of n.
func steps(n int) int {
	if raced || testing.Short() {
		return n / 4
	}
	return n
}

// checkSnapshot compares a snapshot with what it should hold, by every way in.
func checkSnapshot(t *testing.T, rng *rand.Rand, s *Snapshot, want []Record) {
	t.Helper()
	if got := slices.Collect(s.All()); !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	octets := concatOctets(want)
	if s.Len() != len(want) || s.Octets() != len(octets) || s.Digest() != sha256.Sum256(octets) {
		t.Fatalf("Len %d, Octets %d, want %d, %d; or Digest", s.Len(), s.Octets(), len(want), len(octets))
	}
	for _, r := range want {
		if got, ok := s.Get(r.ID()); !ok || got != r {
			t.Fatalf("Get(%v) = %v, %v", r.ID(), got, ok)
		}
		if _, ok := s.Get(r.ID() + "\x00"); ok {
			t.Fatal("Get of an id that is not there")
		}
	}
	for range 8 {
		f := randomFilter(rng)
		m := f.Matcher()
		some := linear(want, &m)
		if got := slices.Collect(s.Match(&m)); !slices.Equal(got, some) {
			t.Fatalf("%+v: %d matches, want %d", f, len(got), len(some))
		}
		checkPages(t, rng, s, &m, some)
	}
	checkPages(t, rng, s, nil, want)
	for k, c := range s.chunks {
		if c.len() == 0 || c.len() > maxChunk || len(c.s) > maxChunkLen && c.len() > 1 {
			t.Fatalf("chunk %d of %d: %d records, %d octets", k, len(s.chunks), c.len(), len(c.s))
		}
	}
}

func checkPages(t *testing.T, rng *rand.Rand, s *Snapshot, m *Matcher, want []Record) {
	t.Helper()
	p := Page{MaxRecords: rng.IntN(40), MaxLen: rng.IntN(4000)}
	if rng.IntN(4) == 0 {
		p.MaxRecordLen = 20 + rng.IntN(60)
		want = slices.DeleteFunc(slices.Clone(want), func(r Record) bool { return r.Len() > p.MaxRecordLen })
	}
	var got []byte
	var pos Position
	for left := len(want); ; {
		n, octets, next := s.Page(m, pos, p)
		page := s.AppendRange([]byte("x"), m, pos, next, p.MaxRecordLen)[1:]
		switch {
		case len(page) != octets || p.MaxRecords > 0 && n > p.MaxRecords || p.MaxLen > 0 && octets > p.MaxLen && n > 1:
			t.Fatalf("page of %d records, %d octets, %d measured, of %+v", n, len(page), octets, p)
		case n == 0 && !next.Done():
			t.Fatal("an empty page that is not the last")
		case len(slices.Collect(s.Range(m, pos, next, p.MaxRecordLen))) != n:
			t.Fatal("Range and Page differ")
		}
		got = append(got, page...)
		left -= n
		if (left == 0) != next.Done() {
			t.Fatalf("%d records to come, done %v", left, next.Done())
		}
		if next.Done() {
			break
		}
		pos = next
	}
	if !bytes.Equal(got, concatOctets(want)) {
		t.Fatalf("pages do not add up to the matching records")
	}
}

// Covers: DISC-5-04, DISC-5-07, DISC-5.4-02, DISC-6.1-06, DISC-6.2-02, DISC-6.2-04, DISC-8-01, DASP-005-02, DASP-005-04, C5, C17, C41, DGP-19.3-01
func TestSetAgainstAPlainMap(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed, []int{20, 100, 400, 1500}[seed])
			type version struct {
				snapshot *Snapshot
				want     []Record
			}
			var old []version
			for i := range steps(250) {
				w.step(1 + w.rng.IntN(1+w.rng.IntN(60)))
				if i%25 == 0 {
					old = append(old, version{w.set.Snapshot(), w.want.sorted()})
					checkSnapshot(t, w.rng, w.set.Snapshot(), w.want.sorted())
				}
			}
			for len(w.want) > 0 { // down to nothing, in pieces
				updateSet(t, w.set, func(tx *Tx) {
					gone := map[ID]bool{}
					for id := range w.want {
						if len(gone) < 50 {
							gone[id] = true
						}
					}
					for id, r := range w.want { // and the agents that name them
						for tool := range r.toolRefs() {
							if gone[tool] {
								gone[id] = true
							}
						}
					}
					for id := range gone {
						tx.Withdraw(id)
						delete(w.want, id)
					}
				})
				checkSnapshot(t, w.rng, w.set.Snapshot(), w.want.sorted())
			}
			if len(w.set.named) > 0 {
				t.Errorf("%d references counted in an empty set", len(w.set.named))
			}
			for _, v := range old {
				checkSnapshot(t, w.rng, v.snapshot, v.want)
			}
		})
	}
}

// F28: the order in which records come does not show.
//
// Covers: DISC-4.1-03, C41
func TestF28OrderOfPuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 1))
	want := testSet(t, 200).Digest()
	for range 20 {
		s := NewSet(carryAll())
		var tools, agents []Record
		for i := range 200 {
			if r := testRecord(t, i); r.Kind() == KindAgent {
				agents = append(agents, r)
			} else {
				tools = append(tools, r)
			}
		}
		rng.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		rng.Shuffle(len(agents), func(i, j int) { agents[i], agents[j] = agents[j], agents[i] })
		for rest := append(tools, agents...); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(50))
			updateSet(t, s, func(tx *Tx) {
				for _, r := range rest[:n] {
					tx.Put(r)
				}
			})
			rest = rest[n:]
		}
		if s.Digest() != want {
			t.Fatal("another digest")
		}
	}
}

// Chunks that lose records are merged with their neighbours.
func TestChunksDoNotCrumble(t *testing.T) {
	s := testSet(t, 3000)
	update := func(keep func(i int) bool) {
		i := -1
		for r := range s.Snapshot().All() {
			if i++; !keep(i) && r.Kind() == KindAgent {
				updateSet(t, s, func(tx *Tx) { tx.Withdraw(r.ID()) })
			}
		}
		for r := range s.Snapshot().All() {
			if i++; !keep(i) && s.named[r.ID()] == 0 {
				updateSet(t, s, func(tx *Tx) { tx.Withdraw(r.ID()) })
			}
		}
	}
	update(func(i int) bool { return i%50 == 0 })
	snapshot := s.Snapshot()
	if n := len(snapshot.chunks); snapshot.Len() > 300 || n > 1+snapshot.Len()/(minChunk/2) {
		t.Errorf("%d chunks of %d records", n, snapshot.Len())
	}
}

func TestLongRecordsAreChunkedByOctets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	s := NewSet(carryAll())
	want := oracle{}
	for i := range 300 {
		size := []int{10, 1000, 20_000, 40_000}[rng.IntN(4)]
		id := testID(i % 200)
		r := simpleTool(t, id, fmt.Sprint(i)+strings.Repeat("n", size), 1)
		updateSet(t, s, func(tx *Tx) { tx.Put(r) })
		want[id], _ = s.Snapshot().Get(id)
	}
	checkSnapshot(t, rng, s.Snapshot(), want.sorted())
	longest := 0
	for _, r := range want {
		longest = max(longest, r.Len())
	}
	if got := s.Snapshot().Longest(); got != longest {
		t.Errorf("Longest %d, want %d", got, longest)
	}
}

func TestPositions(t *testing.T) {
	s := testSet(t, 500).Snapshot()
	all := slices.Collect(s.All())
	for i, r := range all {
		if p := s.Before(r.ID()); !slices.Equal(slices.Collect(s.Range(nil, p, end, 0)), all[i:]) {
			t.Fatalf("Before(%v) is %v", r.ID(), p)
		} else if got, ok := s.At(p); !ok || got != r {
			t.Fatalf("At(%v) is another", p)
		}
		if p := s.Before(r.ID() + "\x00"); p != s.After(r.ID()) {
			t.Fatalf("Before one that is not there: %v", p)
		}
		for _, id := range []ID{r.ID(), r.ID() + "\x00"} {
			if got := slices.Collect(s.Range(nil, s.After(id), end, 0)); !slices.Equal(got, all[i+1:]) {
				t.Fatalf("After(%v): %d records, want %d", id, len(got), len(all)-i-1)
			}
		}
	}
	if got := s.After(""); got != (Position{}) {
		t.Errorf("After of nothing is %v", got)
	}
	if _, ok := s.At(end); ok {
		t.Error("a record at the end")
	}
	if !s.After("\xff\xff\xff").Done() || (Position{}).Done() || !(&Snapshot{}).After("").Done() {
		t.Error("Done")
	}
}

// F70, C30: a record that is too long is refused, and with the limit raised
// gets a page of its own.
//
// Covers: DASP-011-02, C30
func TestF70LongRecord(t *testing.T) {
	fits := func(n int) Record {
		p := Protocol{ID: "big", ProtocolID: 1, CarriageClass: ClassJSONRPC, Methods: []string{""}}
		r, err := p.Record()
		p.Methods[0] = strings.Repeat("m", n-built(t, r, err).Len()-2)
		r, err = p.Record()
		return built(t, r, err)
	}
	s := testSet(t, 100)
	before := s.Digest()
	limit := fits(defaultMaxRecordLen)
	if limit.Len() != defaultMaxRecordLen {
		t.Fatalf("%d octets", limit.Len())
	}
	err := s.Update(func(tx *Tx) error { return tx.Put(fits(defaultMaxRecordLen + 1)) })
	var pe *PublishError
	if !errors.Is(err, ErrRecordLen) || !errors.As(err, &pe) || pe.ID != "big" || s.Digest() != before {
		t.Fatalf("%v; or the set has changed", err)
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(limit) })

	cfg := carryAll()
	cfg.MaxRecordLen = 400 << 10
	s = NewSet(cfg)
	updateSet(t, s, func(tx *Tx) {
		for i := range 100 {
			tx.Put(testRecord(t, i))
		}
		tx.Put(fits(300 << 10))
	})
	sizes, pos := []int{}, Position{}
	for !pos.Done() {
		var n int
		_, n, pos, _ = s.Snapshot().AppendPage(nil, nil, pos, 0, 64<<10)
		sizes = append(sizes, n)
	}
	if !slices.Contains(sizes, 1) || slices.Contains(sizes, 0) {
		t.Errorf("pages of %v records", sizes)
	}
}

// F62, C42: pages keep to their bounds whatever the size of the set.
//
// Covers: DISC-10-08, DISC-10-09, DASP-011-03, C20, C42
func TestF62LargeSet(t *testing.T) {
	n := steps(100_000)
	s := testSet(t, n).Snapshot()
	b := make([]byte, 0, 256<<10)
	total := 0
	for pos := (Position{}); !pos.Done(); {
		b, n, next, _ := s.AppendPage(b[:0], nil, pos, 1024, 256<<10)
		if n > 1024 || len(b) > 256<<10 || n == 0 {
			t.Fatalf("page of %d records, %d octets", n, len(b))
		}
		total, pos = total+n, next
	}
	if total != n {
		t.Errorf("%d records, want %d", total, n)
	}
}

func TestHeldBoundsWhatASnapshotKeeps(t *testing.T) {
	s := testSet(t, 2000)
	old := s.Snapshot()
	if old.Held() != 0 {
		t.Fatalf("a fresh snapshot holds %d octets", old.Held())
	}
	for i := range 50 {
		r, _ := old.Get(testID(i * 5))
		updateSet(t, s, func(tx *Tx) { tx.Put(relabel(r, "other")) })
		shared := map[*chunk]bool{}
		for _, c := range s.Snapshot().chunks {
			shared[c] = true
		}
		held := 0
		for _, c := range old.chunks {
			if !shared[c] {
				held += len(c.s)
			}
		}
		if got := old.Held(); got < held || got > old.Octets() {
			t.Fatalf("Held %d, of %d octets that only the old version has, of %d", got, held, old.Octets())
		}
	}
}

// An update of one record in 100,000 touches one chunk and the list of them.
func TestUpdateAllocatesLittle(t *testing.T) {
	if raced {
		t.Skip("allocates otherwise under race")
	}
	s := testSet(t, 20_000)
	r, _ := s.Snapshot().Get(testID(7))
	versions := []Record{relabel(r, "a"), relabel(r, "b")}
	i := 0
	got := testing.AllocsPerRun(100, func() {
		i++
		if err := s.Update(func(tx *Tx) error { return tx.Put(versions[i%2]) }); err != nil {
			t.Fatal(err)
		}
	})
	if got > 60 {
		t.Errorf("%v allocations", got)
	}
	b := make([]byte, 0, 256<<10)
	m := Filter{Kinds: []Kind{KindAgent}, NamePrefix: "agent", HasPrefix: true}.Matcher()
	snapshot := s.Snapshot()
	if got := testing.AllocsPerRun(20, func() {
		b, _, _, _ = snapshot.AppendPage(b[:0], &m, Position{}, 500, 256<<10)
		b, _, _, _ = snapshot.AppendPage(b[:0], nil, Position{}, 500, 256<<10)
	}); got > 0 {
		t.Errorf("%v allocations for two pages", got)
	}
}

func collectIDs(seq iter.Seq[Record]) (ids []string) {
	for r := range seq {
		ids = append(ids, string(r.ID()))
	}
	return ids
}

// Covers: C54, DISC-5-07
func TestRevisionAtItsGreatest(t *testing.T) {
	s := NewSet(carryAll())
	top := simpleTool(t, "t1", "a", 1).WithRevision(math.MaxUint64)
	updateSet(t, s, func(tx *Tx) { tx.Put(top) })
	before := s.Snapshot()
	if r, _ := before.Get("t1"); r.Revision() != math.MaxUint64 {
		t.Fatalf("revision %d", r.Revision())
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(top.WithRevision(0)) }) // no change
	for _, r := range []Record{simpleTool(t, "t1", "b", 1), simpleTool(t, "t1", "b", 1).WithRevision(math.MaxUint64)} {
		if err := s.Update(func(tx *Tx) error { return tx.Put(r) }); !errors.Is(err, ErrRevision) {
			t.Fatalf("Put of other contents: %v", err)
		}
	}
	if s.Snapshot() != before {
		t.Fatal("the set has changed")
	}
	updateSet(t, s, func(tx *Tx) { tx.Withdraw("t1") })
	if err := s.Update(func(tx *Tx) error { return tx.Put(top) }); !errors.Is(err, ErrRevision) {
		t.Fatalf("Put of the same after a withdrawal: %v", err)
	}
	updateSet(t, s, func(tx *Tx) { tx.Put(simpleTool(t, "t2", "b", 1)) })
}
