package record_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/npamp/disco/record"
)

func must(t testing.TB, b builder) record.Record {
	t.Helper()
	r, err := b.Record()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Covers: DISC-6.1-01, DISC-6.1-02, DISC-6.1-03, DISC-6.1-04, C5, C26, C27, F36, DASP-002-03
func TestFilter(t *testing.T) {
	all := map[string]record.Record{
		"protocol 1": must(t, record.Protocol{ID: "p1", Label: ptr("git."), ProtocolID: 1}),
		"protocol 2": must(t, record.Protocol{ID: "p2", ProtocolID: 2}),
		"class":      must(t, record.Carriage{ID: "c1", CarriageClass: 1}),
		"git.log":    must(t, record.Tool{ID: "t1", Name: "git.log", ProtocolID: 1}),
		"git":        must(t, record.Tool{ID: "t2", Label: ptr("git.log"), Name: "git", ProtocolID: 2}),
		"e\u0301":    must(t, record.Tool{ID: "t3", Name: "e\u0301", ProtocolID: 255}),
		"agent 2 1":  must(t, record.Agent{ID: "a1", AgentID: "git.x", Protocols: []uint64{2, 1}}),
		"agent 300":  must(t, record.Agent{ID: "a2", AgentID: "\xc3\x28", Protocols: []uint64{300}}),
	}
	everything := slices.Sorted(func(yield func(string) bool) {
		for name := range all {
			if !yield(name) {
				return
			}
		}
	})
	tests := []struct {
		name string
		f    record.Filter
		want []string
	}{
		{"none", record.Filter{}, everything},
		{"no kinds", record.Filter{Kinds: []record.Kind{}}, nil},
		{"tools", record.Filter{Kinds: []record.Kind{3}}, []string{"git.log", "git", "e\u0301"}},
		{"kinds twice and unordered", record.Filter{Kinds: []record.Kind{4, 2, 4}}, []string{"class", "agent 2 1", "agent 300"}},
		{"unknown kind", record.Filter{Kinds: []record.Kind{9}}, nil},
		{"kind 0", record.Filter{Kinds: []record.Kind{0}}, nil},
		{"kind 3 + 64", record.Filter{Kinds: []record.Kind{67}}, nil},
		{"kind 2^63", record.Filter{Kinds: []record.Kind{1 << 63, 1<<64 - 1}}, nil},
		{"no protocols", record.Filter{ProtocolIDs: []uint64{}}, []string{"class"}},
		{"protocol 1", record.Filter{ProtocolIDs: []uint64{1}}, []string{"protocol 1", "class", "git.log", "agent 2 1"}},
		{"protocol 2", record.Filter{ProtocolIDs: []uint64{2}}, []string{"protocol 2", "class", "git", "agent 2 1"}},
		{"protocols 2, 1", record.Filter{ProtocolIDs: []uint64{2, 1}}, []string{"protocol 1", "protocol 2", "class", "git.log", "git", "agent 2 1"}},
		{"protocol 255", record.Filter{ProtocolIDs: []uint64{255}}, []string{"class", "e\u0301"}},
		{"protocol 300", record.Filter{ProtocolIDs: []uint64{300}}, []string{"class"}},
		{"protocol 257", record.Filter{ProtocolIDs: []uint64{257, 1 << 63}}, []string{"class"}},
		{"prefix, absent", record.Filter{NamePrefix: "git."}, everything},
		{"prefix, empty", record.Filter{HasPrefix: true}, everything},
		{"prefix", record.Filter{HasPrefix: true, NamePrefix: "git."}, []string{"protocol 1", "protocol 2", "class", "git.log", "agent 2 1"}},
		{"prefix of another case", record.Filter{HasPrefix: true, NamePrefix: "Git."}, []string{"protocol 1", "protocol 2", "class"}},
		{"prefix, composed", record.Filter{HasPrefix: true, NamePrefix: "é"}, []string{"protocol 1", "protocol 2", "class"}},
		{"prefix that cuts a sequence", record.Filter{HasPrefix: true, NamePrefix: "e"}, []string{"protocol 1", "protocol 2", "class", "e\u0301"}},
		{"prefix that is no UTF-8", record.Filter{HasPrefix: true, NamePrefix: "\xc3"}, []string{"protocol 1", "protocol 2", "class", "agent 300"}},
		{"prefix longer than the name", record.Filter{HasPrefix: true, NamePrefix: "git.log."}, []string{"protocol 1", "protocol 2", "class"}},
		{"all three", record.Filter{Kinds: []record.Kind{3, 4}, ProtocolIDs: []uint64{1}, HasPrefix: true, NamePrefix: "git."}, []string{"git.log", "agent 2 1"}},
		{"tools and agents that a prefix names", record.Filter{HasPrefix: true, NamePrefix: "git"}.Only(3, 4), []string{"git.log", "git", "agent 2 1"}},
		{"both restrictions", record.Filter{Kinds: []record.Kind{1, 3}}.Only(3, 4), []string{"git.log", "git", "e\u0301"}},
		{"kinds apart", record.Filter{Kinds: []record.Kind{1}}.Only(3), nil},
	}
	for _, tt := range tests {
		m, normal := tt.f.Matcher(), tt.f.Normalize().Matcher()
		var got []string
		for name, r := range all {
			if m.MatchRecord(r) {
				got = append(got, name)
			}
			if m.Match(r.Facts()) != m.MatchRecord(r) || normal.MatchRecord(r) != m.MatchRecord(r) {
				t.Errorf("%s: %s: three ways to match disagree", tt.name, name)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if m.None() && len(got) > 0 || m.All() != (len(got) == len(all)) {
			t.Errorf("%s: None %v, All %v", tt.name, m.None(), m.All())
		}
	}
}

// matches is the specification's text, restated over the typed forms.
func matches(f record.Filter, r record.Record) bool {
	if f.Kinds != nil && !slices.Contains(f.Kinds, r.Kind()) {
		return false
	}
	var name string
	var protocols []uint64
	switch r.Kind() {
	case record.KindProtocol:
		v, _ := r.Protocol()
		protocols = []uint64{v.ProtocolID}
	case record.KindCarriageClass:
		return true
	case record.KindTool:
		v, _ := r.Tool()
		name, protocols = v.Name, []uint64{v.ProtocolID}
	case record.KindAgent:
		v, _ := r.Agent()
		name, protocols = v.AgentID, v.Protocols
	}
	if f.ProtocolIDs != nil && !slices.ContainsFunc(protocols, func(p uint64) bool { return p <= 255 && slices.Contains(f.ProtocolIDs, p) }) {
		return false
	}
	return !f.HasPrefix || r.Kind() == record.KindProtocol || strings.HasPrefix(name, f.NamePrefix)
}

// Covers: DISC-6.1-06
func TestMatcherAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	names := []string{"", "g", "gi", "git", "git.", "git.log", "git.l", "é", "e\u0301", "\xff"}
	few := func(n uint64) (v []uint64) {
		if r.IntN(4) == 0 {
			return nil
		}
		v = []uint64{}
		for range r.IntN(4) {
			v = append(v, r.Uint64N(n))
		}
		return v
	}
	matched := 0
	for range 1000 {
		var records []record.Record
		for i := range 1 + r.IntN(10) {
			id := record.ID(rune('a' + i))
			var b builder
			switch r.IntN(4) {
			case 0:
				b = record.Protocol{ID: id, ProtocolID: r.Uint64N(4)}
			case 1:
				b = record.Carriage{ID: id, CarriageClass: record.CarriageClass(r.Uint64N(4))}
			case 2:
				name := names[r.IntN(len(names)-1)]
				b = record.Tool{ID: id, Name: name, ProtocolID: r.Uint64N(4)}
			case 3:
				b = record.Agent{ID: id, AgentID: "a" + names[r.IntN(len(names))], Protocols: append(few(5), r.Uint64N(400))}
			}
			records = append(records, must(t, b))
		}
		f := record.Filter{ProtocolIDs: few(5), HasPrefix: r.IntN(2) == 0, NamePrefix: names[r.IntN(len(names))]}
		for _, k := range few(6) {
			f.Kinds = append(f.Kinds, record.Kind(k))
		}
		m := f.Matcher()
		for _, rec := range records {
			want := matches(f, rec)
			if m.MatchRecord(rec) != want || m.Match(rec.Facts()) != want {
				t.Fatalf("filter %+v, record %x: want %v", f, rec.Octets(), want)
			}
			if want && m.None() || !want && m.All() || want && !m.Kind(rec.Kind()) {
				t.Fatalf("filter %+v, record %x: None, All or Kind is wrong", f, rec.Octets())
			}
			if want {
				matched++
			}
		}
	}
	if matched < 500 {
		t.Errorf("only %d matches", matched)
	}
}

// Covers: C3, F27
func TestFilterNormalize(t *testing.T) {
	kinds := []record.Kind{4, 3, 4}
	f := record.Filter{Kinds: kinds, ProtocolIDs: []uint64{2, 1, 2}, NamePrefix: "unused"}
	n := f.Normalize()
	if !slices.Equal(n.Kinds, []record.Kind{3, 4}) || !slices.Equal(n.ProtocolIDs, []uint64{1, 2}) || n.NamePrefix != "" || !slices.Equal(kinds, []record.Kind{4, 3, 4}) {
		t.Errorf("%+v from %+v", n, f)
	}
	same := [][2]record.Filter{
		{f, n},
		{{}, {NamePrefix: "unused"}},
		{{Kinds: []record.Kind{}}, {Kinds: []record.Kind{}}},
		{{HasPrefix: true, NamePrefix: "x"}, {HasPrefix: true, NamePrefix: "x"}},
	}
	for _, v := range same {
		if !v[0].Equal(v[1]) || !v[1].Equal(v[0]) {
			t.Errorf("%+v and %+v differ", v[0], v[1])
		}
	}
	different := [][2]record.Filter{
		{{}, {Kinds: []record.Kind{}}},
		{{}, {ProtocolIDs: []uint64{}}},
		{{}, {HasPrefix: true}},
		{{HasPrefix: true, NamePrefix: "x"}, {HasPrefix: true, NamePrefix: "X"}},
		{{Kinds: []record.Kind{3}}, {Kinds: []record.Kind{3, 4}}},
		{{ProtocolIDs: []uint64{3}}, {ProtocolIDs: []uint64{4}}},
	}
	for _, v := range different {
		if v[0].Equal(v[1]) || v[1].Equal(v[0]) {
			t.Errorf("%+v and %+v are equal", v[0], v[1])
		}
	}
	only := []record.Kind{3, 4}
	if got := (record.Filter{}).Only(only...); !slices.Equal(got.Kinds, only) || &got.Kinds[0] == &only[0] {
		t.Errorf("Only: %+v, which must not share memory", got)
	}
}

func TestFacts(t *testing.T) {
	r := must(t, record.Agent{ID: "a", AgentID: "x", Protocols: []uint64{255, 300, 64, 0, 64, 63}})
	f := r.Facts()
	name, ok := f.Name()
	if f.Kind() != record.KindAgent || name != "x" || !ok || !slices.Equal(slices.Collect(f.ProtocolIDs()), []uint64{0, 63, 64, 255}) {
		t.Errorf("%+v", f)
	}
	for p := range f.ProtocolIDs() {
		if p != 0 {
			t.Error("the loop goes on after a break")
		}
		break
	}
	for p := range r.ProtocolIDs() {
		if p != 255 {
			t.Error("the loop goes on after a break")
		}
		break
	}
	f = must(t, record.Carriage{ID: "c"}).Facts()
	if name, ok := f.Name(); f.Kind() != record.KindCarriageClass || ok || name != "" || len(slices.Collect(f.ProtocolIDs())) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations differ under the race detector")
	}
	r := must(t, record.Agent{ID: "a", AgentID: "git.x", Protocols: []uint64{1, 2}})
	m := record.Filter{Kinds: []record.Kind{3, 4}, ProtocolIDs: []uint64{2}, HasPrefix: true, NamePrefix: "git."}.Matcher()
	f := r.Facts()
	if n := testing.AllocsPerRun(100, func() {
		if !m.Match(f) || !m.MatchRecord(r) || r.Revision() != 0 || r.ID() != "a" || r.Kind() != 4 {
			t.Error("no match")
		}
		if name, _ := r.Name(); name != "git.x" {
			t.Error("no name")
		}
		for range r.ProtocolIDs() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatchFacts(b *testing.B) {
	m := record.Filter{Kinds: []record.Kind{3, 4}, ProtocolIDs: []uint64{1, 2}, HasPrefix: true, NamePrefix: "git."}.Matcher()
	f := must(b, record.Tool{ID: "t1", Name: "git.log", ProtocolID: 1}).Facts()
	b.ReportAllocs()
	for b.Loop() {
		if !m.Match(f) {
			b.Fatal("no match")
		}
	}
}

func BenchmarkFacts(b *testing.B) {
	r := must(b, record.Tool{ID: "t1", Label: ptr("Log"), Name: "git.log", ProtocolID: 1})
	b.ReportAllocs()
	for b.Loop() {
		if f := r.Facts(); f.Kind() != record.KindTool {
			b.Fatal("another kind")
		}
	}
}
