package testvectors

import (
	"bytes"
	"encoding/json"
	"slices"
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

func TestSealed(t *testing.T) {
	s := load(t)
	if len(s.Keys) == 0 || len(s.Frames) == 0 || len(s.Headers) == 0 || len(s.Handles) == 0 {
		t.Fatal("a kind of sealed vector is missing")
	}
	for _, v := range s.Keys {
		if len(v.Key) != 32 || len(v.IV) != 12 || len(v.Master) != 32 {
			t.Errorf("%s: key %d, iv %d, master %d octets", v.Name, len(v.Key), len(v.IV), len(v.Master))
		}
	}
	for _, v := range s.Frames {
		if len(v.Frame) != 36+len(v.Plaintext)+16 {
			t.Errorf("%s: %d octets for a plaintext of %d", v.Name, len(v.Frame), len(v.Plaintext))
		}
		if string(v.Frame[:4]) != "NPAM" {
			t.Errorf("%s: magic %q", v.Name, v.Frame[:4])
		}
	}
	for _, v := range s.Headers {
		if len(v.Frame) != 36 {
			t.Errorf("%s: %d octets", v.Name, len(v.Frame))
		}
	}
	v1, _ := s.Payload("V1")
	if !bytes.Equal(v1.Octets, s.Frames[0].Plaintext) {
		t.Errorf("%s is not V1 sealed", s.Frames[0].Name)
	}
}

// Covers: DISC-11-02
func TestExchanges(t *testing.T) {
	s := load(t)
	var codes []byte
	for _, x := range s.Exchanges {
		if x.Title == "" || x.Section == "" || len(x.Rows) == 0 || x.Source == "" || len(x.Steps) < 2 {
			t.Errorf("%s: a title, section, row, source and steps are required", x.Name)
		}
		for i, st := range x.Steps {
			forms := 0
			for _, has := range []bool{st.Set != nil, st.Change != nil, st.From != ""} {
				if has {
					forms++
				}
			}
			if forms != 1 {
				t.Errorf("%s: step %d has %d forms, want one", x.Name, i, forms)
			}
			if st.From != "" && st.From != "requester" && st.From != "responder" || (st.From == "") != (len(st.Payload) == 0) {
				t.Errorf("%s: step %d: from %q, payload of %d octets", x.Name, i, st.From, len(st.Payload))
			}
			if st.FrameType == 0x102 {
				codes = append(codes, st.Payload[len(st.Payload)-1])
			}
		}
	}
	if want := []byte{1, 2, 3, 4, 5, 6, 7}; !bytes.Equal(codes, want) {
		t.Errorf("error codes provoked: %v, want %v", codes, want)
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
		{"another format", `{"format":"x/1","suite":"s","source":"s","vectors":[]}`},
		{"no source", `{"format":"npamp-disc-vectors/1","suite":"s","vectors":[]}`},
		{"an unknown field", `{"format":"npamp-disc-vectors/1","suite":"s","source":"s","vectors":[{"name":"a","colour":1}]}`},
		{"upper-case hex", `{"format":"npamp-disc-vectors/1","suite":"s","source":"s","vectors":[{"name":"a","octets":"AA"}]}`},
		{"half an octet", `{"format":"npamp-disc-vectors/1","suite":"s","source":"s","vectors":[{"name":"a","octets":"a"}]}`},
		{"a name twice", `{"format":"npamp-disc-vectors/1","suite":"s","source":"s","vectors":[{"name":"a"},{"name":"a"}]}`},
		{"no name", `{"format":"npamp-disc-vectors/1","suite":"s","source":"s","vectors":[{}]}`},
	} {
		if err := new(Set).addPayloads([]byte(tt.in), map[string]bool{}); err == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
}

// The schema names the fields that the loader knows, no more and no fewer.
func TestSchemaMatchesLoader(t *testing.T) {
	b, err := files.ReadFile("data/schema/payload.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct {
			Vector, Accepted, Refused struct{ Properties map[string]json.RawMessage }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	fill := func(props map[string]json.RawMessage, v any) {
		t.Helper()
		for name := range props {
			obj := []byte(`{"` + name + `":null}`)
			d := json.NewDecoder(bytes.NewReader(obj))
			d.DisallowUnknownFields()
			if err := d.Decode(v); err != nil {
				t.Errorf("the loader does not know %q: %v", name, err)
			}
		}
	}
	fill(schema.Defs.Vector.Properties, new(Payload))
	fill(schema.Defs.Accepted.Properties, new(Expect))
	fill(schema.Defs.Refused.Properties, new(Expect))
	if len(schema.Defs.Vector.Properties) != 11 || len(schema.Defs.Accepted.Properties)+len(schema.Defs.Refused.Properties) != 3+7 {
		t.Error("the schema and the loader have a different number of fields")
	}
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
		again.Suite, again.Source = v.Suite, v.Source
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
