package record

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// carryAll is a config that takes every assigned protocol, and 0x40.
func carryAll() SetConfig {
	return SetConfig{Carries: func(uint64) bool { return true }, Agreed: []uint64{0x40, 0x41}}
}

// testID returns the i-th of a sequence of ids that come in no order.
func testID(i int) ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	return ID(b[:])
}

func optional[T any](v T) *T { return &v }

func built(t testing.TB, r Record, err error) Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var testVerbs = []string{"read", "write", "list", "search", "create", "delete", "invoke", "watch"}

// testRecord returns the i-th of a mix: 1 protocol in 100, else 1 agent in 5,
// else tools. An agent names the last two tools before it.
func testRecord(t testing.TB, i int) Record {
	t.Helper()
	switch {
	case i%100 == 99:
		p := Protocol{ID: testID(i), ProtocolID: uint64(1 + i/100%4), Methods: []string{"tools/call", "tools/list"}}
		p.CarriageClass, _ = RegisteredClasses().Of(p.ProtocolID)
		r, err := p.Record()
		return built(t, r, err)
	case i%5 == 4:
		r, err := Agent{ID: testID(i), Label: optional(fmt.Sprintf("Agent №%d", i)), AgentID: fmt.Sprintf("agent-%08d", i),
			Protocols: []uint64{uint64(1 + i%6), 0x40}, Tools: []ID{testID(i - 2), testID(i - 1)}}.Record()
		return built(t, r, err)
	}
	name := fmt.Sprintf("svc%03d.%s_item_%d", i%500, testVerbs[i%len(testVerbs)], i)
	r, err := Tool{ID: testID(i), Label: optional("Tool " + name), Name: name, ProtocolID: uint64(1 + i%6), Effect: optional(Effect(i % 4)),
		SchemaRef: optional("https://schemas.example/" + name + "/v1.json")}.Record()
	return built(t, r, err)
}

// testSet returns a set of the first n test records.
func testSet(t testing.TB, n int) *Set {
	t.Helper()
	s := NewSet(carryAll())
	updateSet(t, s, func(tx *Tx) {
		for i := range n {
			tx.Put(testRecord(t, i))
		}
	})
	return s
}

func updateSet(t testing.TB, s *Set, fn func(*Tx)) {
	t.Helper()
	if err := s.Update(func(tx *Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func simpleTool(t testing.TB, id ID, name string, protocol uint64) Record {
	t.Helper()
	r, err := Tool{ID: id, Name: name, ProtocolID: protocol}.Record()
	return built(t, r, err)
}

// oracle is what a set should hold.
type oracle map[ID]Record

func (o oracle) sorted() []Record {
	var v []Record
	for _, r := range o {
		v = append(v, r)
	}
	slices.SortFunc(v, func(a, b Record) int {
		if a.ID() < b.ID() {
			return -1
		}
		return 1
	})
	return v
}

func concatOctets(v []Record) (b []byte) {
	for _, r := range v {
		b = append(b, r.s...)
	}
	return b
}

func linear(v []Record, m *Matcher) (out []Record) {
	for _, r := range v {
		if m == nil || m.MatchRecord(r) {
			out = append(out, r)
		}
	}
	return out
}

// randomFilter returns one of all shapes there are.
func randomFilter(rng *rand.Rand) (f Filter) {
	if rng.IntN(2) == 0 {
		f.Kinds = []Kind{}
		for range rng.IntN(3) {
			f.Kinds = append(f.Kinds, Kind(rng.IntN(6)))
		}
	}
	if rng.IntN(2) == 0 {
		f.ProtocolIDs = []uint64{}
		for range rng.IntN(4) {
			f.ProtocolIDs = append(f.ProtocolIDs, []uint64{0, 1, 2, 3, 4, 0x40, 255, 256}[rng.IntN(8)])
		}
	}
	if rng.IntN(2) == 0 {
		f.HasPrefix = true
		f.NamePrefix = []string{"", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\x00", "b\x00", "\xff", "abcdefghijk", "zz", "common.prefix.", "common.prefix.a"}[rng.IntN(12)]
	}
	return f
}
