package testvectors

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T) *Set {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPayloads(t *testing.T) {
	s := load(t)
	sections := map[string]bool{}
	for _, v := range s.Payloads {
		e := v.Expect
		sections[v.Section] = true
		if v.Title == "" || v.Section == "" || len(v.Rows) == 0 || v.Source == "" || len(v.Generations) == 0 {
			t.Errorf("%s: a title, section, row, source and generation are required", v.Name)
		}
		if v.FrameType < 0x100 || v.FrameType > 0x106 {
			t.Errorf("%s: frame type %#x", v.Name, v.FrameType)
		}
		toResponder := v.FrameType == 0x100 || v.FrameType == 0x104 || v.FrameType == 0x106
		if (v.Direction == ToResponder) != toResponder {
			t.Errorf("%s: direction %q for frame type %#x", v.Name, v.Direction, v.FrameType)
		}
		if e.OK {
			if e.Message == nil || e.Skipped == nil || e.Code != 0 || e.Reply != "" {
				t.Errorf("%s: an accepted payload has message and skipped, and nothing of a refusal", v.Name)
			}
			continue
		}
		// A reply goes to QUERY and SUBSCRIBE alone, and echoes a corr or has none.
		answered := v.FrameType == 0x100 || v.FrameType == 0x104
		want := ReplyNone
		switch {
		case answered && e.Corr != nil:
			want = ReplyError
		case answered:
			want = ReplyUncorrelated
		}
		if e.Message != nil || e.Code < 1 || e.Code > 7 || e.Reply != want {
			t.Errorf("%s: code %d, reply %q, want reply %q", v.Name, e.Code, e.Reply, want)
		}
		if e.Offset != nil && *e.Offset > len(v.Octets) {
			t.Errorf("%s: offset %d beyond %d octets", v.Name, *e.Offset, len(v.Octets))
		}
	}
	if len(s.Payloads) < 250 {
		t.Errorf("%d payloads", len(s.Payloads))
	}
	// The clauses that a payload alone can show.
	for _, sec := range []string{"4.1", "4.2", "5", "5.1", "5.3", "5.4", "6.1", "6.2", "7.1", "7.2", "7.3", "9"} {
		if !sections[sec] {
			t.Errorf("no vector for section %s", sec)
		}
	}
	for _, name := range []string{"V1", "V13", "F3-g3", "N1", "N18-tolerant", "N26"} {
		if _, ok := s.Payload(name); !ok {
			t.Errorf("no vector %s", name)
		}
	}
	if _, ok := s.Payload("V0"); ok {
		t.Error("found a vector that is not there")
	}
}

// A vector appears once, whatever its suite: two suites that expect different
// verdicts for one input would both be wrong for somebody.
func TestPayloadsDoNotContradict(t *testing.T) {
	type input struct {
		octets    string
		frameType uint16
		gen       int
		tolerant  bool
	}
	seen := map[input]Payload{}
	for _, v := range load(t).Payloads {
		for _, gen := range v.Generations {
			k := input{string(v.Octets), v.FrameType, gen, v.Tolerant != nil && *v.Tolerant}
			old, ok := seen[k]
			seen[k] = v
			if ok && (old.Expect.OK != v.Expect.OK || old.Expect.Code != v.Expect.Code || old.Expect.Reply != v.Expect.Reply) {
				t.Errorf("%s and %s expect different verdicts for the same octets", old.Name, v.Name)
			}
		}
	}
}

// Every rule is broken under every frame type that it can be broken under, and
// at every level of a payload where it applies.
//
// Covers: DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-11, DISC-4.2-02, DISC-4.2-03, A1
func TestRulesCovered(t *testing.T) {
	type place struct {
		rule  string
		where any // a frame type, or a level
	}
	seen := map[place]int{}
	for _, v := range load(t).Payloads {
		e := v.Expect
		if e.OK || e.Rule == "" {
			continue
		}
		seen[place{e.Rule, v.FrameType}]++
		if e.Path != nil {
			seen[place{e.Rule, level(*e.Path)}]++
		}
	}
	need := func(where any, rules string) {
		t.Helper()
		for rule := range strings.FieldsSeq(rules) {
			if seen[place{rule, where}] == 0 {
				t.Errorf("no payload breaks %q at %v", rule, where)
			}
		}
	}
	for typ := uint16(0x100); typ <= 0x106; typ++ {
		need(typ, "truncated trailing not-a-map shortest-form key-order duplicate-key indefinite utf8 float-form simple-value depth key-type negative-key missing wrong-type range empty kind-mismatch")
	}
	need(uint16(0x100), "limit")
	need(uint16(0x101), "limit record-kind")
	need(uint16(0x104), "limit")
	encoding := "truncated shortest-form key-order duplicate-key indefinite utf8 float-form "
	need("payload", encoding+"trailing not-a-map limit key-type negative-key missing wrong-type range empty kind-mismatch")
	need("record", encoding+"key-type negative-key missing wrong-type range empty record-kind")
	need("body", encoding+"key-type negative-key missing wrong-type range empty")
	need("ignored", encoding+"simple-value depth wrong-type")
}

// level says which map the path leads into: the payload's, a record's, a
// body's, or a value that nobody reads.
func level(path string) string {
	switch {
	case regexp.MustCompile(`(^|[.])[0-9]`).MatchString(path):
		return "ignored"
	case regexp.MustCompile(`\][.]body`).MatchString(path):
		return "body"
	case regexp.MustCompile(`^(records|added)\[`).MatchString(path):
		return "record"
	}
	return "payload"
}

// What a vector names is a row or a label of the ledger.
func TestRowsExist(t *testing.T) {
	b, err := os.ReadFile("requirements.json")
	if err != nil {
		t.Fatal(err)
	}
	var ledger struct {
		Rows   []struct{ ID string }
		Labels []string
	}
	if err := json.Unmarshal(b, &ledger); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range ledger.Rows {
		known[r.ID] = true
	}
	for _, l := range ledger.Labels {
		known[l] = true
	}
	n := 0
	check := func(name string, rows []string) {
		for _, row := range rows {
			if n++; !known[row] {
				t.Errorf("%s: the ledger has no %s", name, row)
			}
		}
	}
	s := load(t)
	for _, v := range s.Payloads {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Encodings {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Keys {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Frames {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Refused {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Plaintexts {
		check(v.Name, v.Rows)
	}
	for _, v := range s.Exchanges {
		check(v.Name, v.Rows)
	}
	if n < 1000 {
		t.Errorf("%d rows named", n)
	}
}

func TestSamples(t *testing.T) {
	b, err := Sample("demo.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Records []struct{ Kind string }
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range f.Records {
		kinds = append(kinds, r.Kind)
	}
	slices.Sort(kinds)
	if want := []string{"agent", "carriage_class", "protocol", "tool"}; !slices.Equal(slices.Compact(kinds), want) {
		t.Errorf("kinds %v, want all of %v", kinds, want)
	}
	if b, err := Sample("weather.mcp.json"); err != nil || !json.Valid(b) {
		t.Errorf("weather.mcp.json: %v", err)
	}
	if _, err := Sample("none.json"); err == nil {
		t.Error("a sample that is not there was found")
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in string }{
		{"another format", `{"format":"x/1","suite":"s","method":"hand","source":"s","vectors":[]}`},
		{"no source", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","vectors":[]}`},
		{"another method", `{"format":"npamp-disc-vectors/1","suite":"s","method":"printed","source":"s","vectors":[]}`},
		{"an unknown field", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","source":"s","vectors":[{"name":"a","colour":1}]}`},
		{"upper-case hex", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","source":"s","vectors":[{"name":"a","octets":"AA"}]}`},
		{"half an octet", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","source":"s","vectors":[{"name":"a","octets":"a"}]}`},
		{"a name twice", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","source":"s","vectors":[{"name":"a"},{"name":"a"}]}`},
		{"no name", `{"format":"npamp-disc-vectors/1","suite":"s","method":"hand","source":"s","vectors":[{}]}`},
	} {
		if err := new(Set).add("payload/a.json", []byte(tt.in), map[string]bool{}); err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
}

// The schemas name the fields that the loader knows, no more and no fewer.
func TestSchemasMatchLoader(t *testing.T) {
	for _, tt := range []struct {
		schema, def string
		value       any
	}{
		{"payload", "vector", Payload{}},
		{"encode", "vector", Encoding{}},
		{"sealed", "key", Key{}},
		{"sealed", "frame", Frame{}},
		{"sealed", "refused", Refused{}},
		{"sealed", "plaintext", Plaintext{}},
		{"sealed", "header", Header{}},
		{"sealed", "handle", Handle{}},
		{"exchange", "exchange", Exchange{}},
	} {
		if got, want := fieldNames(t, tt.value), propertyNames(t, tt.schema, tt.def); !slices.Equal(got, want) {
			t.Errorf("%s: the loader has %v, the schema %v", tt.def, got, want)
		}
	}
	expect := slices.Concat(propertyNames(t, "payload", "accepted"), propertyNames(t, "payload", "refused"))
	slices.Sort(expect)
	if got, want := fieldNames(t, Expect{}), slices.Compact(expect); !slices.Equal(got, want) {
		t.Errorf("expect: the loader has %v, the schema %v", got, want)
	}
	step := slices.Concat(propertyNames(t, "exchange", "set"), propertyNames(t, "exchange", "change"), propertyNames(t, "exchange", "frame"), propertyNames(t, "exchange", "silence"))
	slices.Sort(step)
	if got, want := fieldNames(t, Step{}), slices.Compact(step); !slices.Equal(got, want) {
		t.Errorf("step: the loader has %v, the schema %v", got, want)
	}
}

func fieldNames(t *testing.T, v any) (names []string) {
	t.Helper()
	typ := reflect.TypeOf(v)
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func propertyNames(t *testing.T, schema, def string) []string {
	t.Helper()
	s := readJSON(t, "data/schema/"+schema+".schema.json").(map[string]any)
	props := s["$defs"].(map[string]any)[def].(map[string]any)["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(props))
}

// What is loaded marshals to what the file holds.
func TestPayloadsMarshal(t *testing.T) {
	for _, v := range load(t).Payloads {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		expect := back["expect"].(map[string]any)
		if _, has := expect["corr"]; has == v.Expect.OK {
			t.Errorf("%s: corr in the marshalled expectation: %v", v.Name, has)
		}
		var again Payload
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		again.Origin = v.Origin
		if a, b := mustJSON(t, again), mustJSON(t, v); a != b {
			t.Errorf("%s: %s\nbecame %s", v.Name, b, a)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
