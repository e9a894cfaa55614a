package record_test

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, s string) record.Record {
	t.Helper()
	r, err := record.Parse(unhex(t, s), dcbor.Generation2)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return r
}

func ptr[T any](v T) *T { return &v }

// builder is a typed form of a record.
type builder interface {
	Record() (record.Record, error)
}

// The typed forms and their encodings, by hand from the tables of the
// specification.
var golden = []struct {
	name   string
	form   builder
	octets string
}{
	{"protocol", record.Protocol{ID: "p1", Revision: 1, ProtocolID: 1, CarriageClass: record.ClassJSONRPC},
		"a4004270310101020104a200010101"},
	{"protocol, all", record.Protocol{ID: "p1", Revision: 24, Label: ptr("l"), ProtocolID: 255, CarriageClass: 300,
		Channels: []uint64{13, 65536}, ContentTypes: []uint64{2, 1}, Methods: []string{"m", ""}},
		"a500427031010102181803616c04a50018ff0119012c02820d1a00010000038202010482616d60"},
	{"protocol, empty lists", record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: 1, Channels: []uint64{}, ContentTypes: []uint64{}, Methods: []string{}},
		"a4004270310101020004a500010101028003800480"},
	{"protocol, empty label", record.Protocol{ID: "p1", Label: ptr(""), ProtocolID: 0, CarriageClass: 0},
		"a50042703101010200036004a200000100"},
	{"class", record.Carriage{ID: "c1", Revision: 1, CarriageClass: record.ClassJSONRPC},
		"a4004263310102020104a10001"},
	{"class, all", record.Carriage{ID: "c1", Revision: 1, Label: ptr("l"), CarriageClass: 6, ContentTypes: []uint64{1}},
		"a5004263310102020103616c04a20006018101"},
	{"tool", record.Tool{ID: "t1", Revision: 1, Name: "git.log", ProtocolID: 1},
		"a4004274310103020104a200676769742e6c6f670101"},
	{"tool, read only", record.Tool{ID: "t1", Revision: 1, Name: "git.log", ProtocolID: 1, Effect: ptr(record.ReadOnly)},
		"a4004274310103020104a300676769742e6c6f6701010200"},
	{"tool, all", record.Tool{ID: "t1", Revision: math.MaxUint64, Label: ptr("l"), Name: "n", ProtocolID: 1, Effect: ptr(record.Destructive), SchemaRef: ptr("s")},
		"a5004274310103021bffffffffffffffff03616c04a400616e01010203036173"},
	{"agent", record.Agent{ID: "a1", Revision: 1, AgentID: "ag", Protocols: []uint64{1}, Tools: []record.ID{"t1"}},
		"a4004261310104020104a3004261670181010281427431"},
	{"agent, no tools", record.Agent{ID: "a1", Revision: 1, AgentID: "\xff", Protocols: []uint64{300, 2, 2}},
		"a4004261310104020104a20041ff018319012c0202"},
	{"agent, empty tools", record.Agent{ID: "a1", Revision: 1, AgentID: "a", Protocols: []uint64{1}, Tools: []record.ID{}},
		"a4004261310104020104a30041610181010280"},
	{"unknown keys", record.Tool{ID: "t1", Name: "n", ProtocolID: 1, Extra: []record.Field{{Key: 99, Value: "\xa1\x20\xf6"}, {Key: 9, Value: "\x03"}},
		BodyExtra: []record.Field{{Key: math.MaxUint64, Value: "\x80"}}},
		"a6004274310103020004a300616e01011bffffffffffffffff8009031863a120f6"},
}

// Covers: DISC-4.1-03, DISC-4.1-04, DISC-4.1-05, DISC-5-01, DISC-5.2-02
func TestBuildGolden(t *testing.T) {
	for _, tt := range golden {
		r, err := tt.form.Record()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := hex.EncodeToString([]byte(r.Octets())); got != tt.octets {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.octets)
		}
		for _, m := range []dcbor.Mode{dcbor.Generation2, dcbor.Generation3} {
			if again, err := record.Parse(unhex(t, tt.octets), m); err != nil || again != r {
				t.Errorf("%s, generation %d: %v", tt.name, m, err)
			}
		}
		if b := r.AppendTo([]byte("x")); string(b) != "x"+r.Octets() || r.Len() != len(b)-1 {
			t.Errorf("%s: AppendTo gives %x", tt.name, b)
		}
		if c := r.Clone(); c != r {
			t.Errorf("%s: the clone differs", tt.name)
		}
	}
}

// typed returns the typed form of a record.
func typed(r record.Record) builder {
	if v, ok := r.Protocol(); ok {
		return v
	}
	if v, ok := r.Carriage(); ok {
		return v
	}
	if v, ok := r.Tool(); ok {
		return v
	}
	v, _ := r.Agent()
	return v
}

// What was built reads back as it was, absent and empty kept apart.
// Covers: DISC-5.1-04, F11, DGP-24.3-01
func TestTypedRoundTrip(t *testing.T) {
	for _, tt := range golden {
		got := typed(parse(t, tt.octets))
		if tt.name == "unknown keys" { // they come back in order
			want := tt.form.(record.Tool)
			want.Extra = []record.Field{want.Extra[1], want.Extra[0]}
			tt.form = want
		}
		if !reflect.DeepEqual(got, tt.form) {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.form)
		}
	}
}

// Covers: DISC-5-02, DISC-5.1-01, DISC-5.3-02, DISC-5.4-01, C39, F08
func TestBuildRefuses(t *testing.T) {
	long := record.ID(strings.Repeat("x", 33))
	tool := record.Tool{ID: "t1", Name: "n", ProtocolID: 1}
	agent := record.Agent{ID: "a1", AgentID: "a", Protocols: []uint64{1}}
	withTool := func(f func(*record.Tool)) builder { v := tool; f(&v); return v }
	withAgent := func(f func(*record.Agent)) builder { v := agent; f(&v); return v }
	tests := []struct {
		field string
		form  builder
	}{
		{"record_id", withTool(func(v *record.Tool) { v.ID = "" })},
		{"record_id", withTool(func(v *record.Tool) { v.ID = long })},
		{"label", withTool(func(v *record.Tool) { v.Label = ptr("\xc0\xae") })},
		{"name", withTool(func(v *record.Tool) { v.Name = "\xed\xa0\x80" })},
		{"protocol_id", withTool(func(v *record.Tool) { v.ProtocolID = 256 })},
		{"effect", withTool(func(v *record.Tool) { v.Effect = ptr(record.Effect(4)) })},
		{"schema_ref", withTool(func(v *record.Tool) { v.SchemaRef = ptr("\xff") })},
		{"protocol_id", record.Protocol{ID: "p", ProtocolID: 256}},
		{"methods", record.Protocol{ID: "p", Methods: []string{"m", "\xff"}}},
		{"label", record.Protocol{ID: "p", Label: ptr("\xff")}},
		{"label", record.Carriage{ID: "c", Label: ptr("\xff")}},
		{"record_id", record.Carriage{}},
		{"agent_id", withAgent(func(v *record.Agent) { v.AgentID = "" })},
		{"agent_id", withAgent(func(v *record.Agent) { v.AgentID = strings.Repeat("x", 65) })},
		{"protocols", withAgent(func(v *record.Agent) { v.Protocols = []uint64{} })},
		{"tools", withAgent(func(v *record.Agent) { v.Tools = []record.ID{"t", ""} })},
		{"tools", withAgent(func(v *record.Agent) { v.Tools = []record.ID{long} })},
		{"label", withAgent(func(v *record.Agent) { v.Label = ptr("\xff") })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{4, "\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.BodyExtra = []record.Field{{3, "\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, "\x00"}, {9, "\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, ""}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, "\x00\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, "\x18\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, "\xf9\x3e\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.Extra = []record.Field{{9, "\xc1\x00"}} })},
		{"extra", withTool(func(v *record.Tool) { v.BodyExtra = []record.Field{{9, strings.Repeat("\x81", 5) + "\x00"}} })},
	}
	for i, tt := range tests {
		r, err := tt.form.Record()
		var e *record.FieldError
		if !r.IsZero() || !errors.As(err, &e) || e.Field != tt.field || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("case %d: got %v, want an error that names %s", i, err, tt.field)
		}
	}
	for _, n := range []int{1, 32} {
		if _, err := withTool(func(v *record.Tool) { v.ID = record.ID(strings.Repeat("\x00", n)) }).Record(); err != nil {
			t.Errorf("record_id of %d octets: %v", n, err)
		}
	}
	for _, n := range []int{1, 64} {
		if _, err := withAgent(func(v *record.Agent) { v.AgentID = strings.Repeat("\x00", n) }).Record(); err != nil {
			t.Errorf("agent_id of %d octets: %v", n, err)
		}
	}
}

// Covers: DISC-4.1-06, DISC-4.1-08, DISC-4.1-11, DISC-5-01, DISC-5-02, DISC-5-05, DISC-5.1-01, DISC-5.2-01, DISC-5.3-01, DISC-5.4-01, C9, C11, C27
func TestParseRefuses(t *testing.T) {
	x33, x65 := strings.Repeat("78", 33), strings.Repeat("78", 65)
	tests := []struct {
		name, octets string
		rule         dcbor.Rule
		offset       int
		path         string
		section      string
	}{
		{"nothing", "", dcbor.Truncated, 0, "", "4.1"},
		{"no map", "80", dcbor.NotMap, 0, "", "4.1"},
		{"octets after", "a4004274310103020104a200616e010100", dcbor.Trailing, 16, "", "4.1"},
		{"keys out of order", "a4010300427431020104a200616e0101", dcbor.KeyOrder, 3, "record_id", "4.1"},
		{"id of none", "a400400103020104a200616e0101", dcbor.Empty, 2, "record_id", "5"},
		{"id of 33 octets", "a4005821" + x33 + "0103020104a200616e0101", dcbor.Range, 2, "record_id", "5"},
		{"id is text", "a4006274310103020104a200616e0101", dcbor.WrongType, 2, "record_id", "5"},
		{"no id", "a30103020104a200616e0101", dcbor.Missing, 0, "record_id", "5"},
		{"no kind", "a300427431020104a200616e0101", dcbor.Missing, 0, "kind", "5"},
		{"no revision", "a300427431010304a200616e0101", dcbor.Missing, 0, "revision", "5"},
		{"no body", "a30042743101030201", dcbor.Missing, 0, "body", "5"},
		{"unknown kind", "a4004274310109020104a0", dcbor.RecordKind, 6, "kind", "5"},
		{"kind 0", "a4004274310100020104a0", dcbor.RecordKind, 6, "kind", "5"},
		{"unknown kind, body no map", "a400427431010902010480", dcbor.WrongType, 10, "body", "5"},
		{"revision negative", "a4004274310103022004a200616e0101", dcbor.WrongType, 8, "revision", "5"},
		{"revision in a long form", "a400427431010302180104a200616e0101", dcbor.ShortestForm, 8, "revision", "4.1"},
		{"label null", "a5004274310103020103f604a200616e0101", dcbor.WrongType, 10, "label", "5"},
		{"label bytes", "a5004274310103020103416c04a200616e0101", dcbor.WrongType, 10, "label", "5"},
		{"label not UTF-8", "a500427431010302010361ff04a200616e0101", dcbor.UTF8, 10, "label", "4.1"},
		{"negative key", "a5004274310103020104a200616e01012000", dcbor.NegativeKey, 16, "-1", "4.1"},
		{"text key", "a5004274310103020104a200616e0101613900", dcbor.KeyType, 16, "", "4.1"},
		{"float in generation 3 alone", "a5004274310103020104a200616e010109f93e00", 0, 0, "", ""},
		{"tool without name", "a4004274310103020104a10101", dcbor.Missing, 10, "body.name", "5.3"},
		{"tool without protocol_id", "a4004274310103020104a100616e", dcbor.Missing, 10, "body.protocol_id", "5.3"},
		{"tool, protocol_id 256", "a4004274310103020104a200616e01190100", dcbor.Range, 15, "body.protocol_id", "5.3"},
		{"tool, effect text", "a4004274310103020104a300616e0101026172", dcbor.WrongType, 17, "body.effect", "5.3"},
		{"tool, negative key", "a4004274310103020104a300616e01012000", dcbor.NegativeKey, 16, "body.-1", "4.1"},
		{"tool of effect 4", "a4004274310103020104a300616e01010204", 0, 0, "", ""},
		{"protocol without class", "a4004270310101020104a10001", dcbor.Missing, 10, "body.carriage_class", "5.1"},
		{"protocol 256", "a4004270310101020104a2001901000101", dcbor.Range, 12, "body.protocol_id", "5.1"},
		{"protocol, channels a uint", "a4004270310101020104a300010101020d", dcbor.WrongType, 16, "body.channels", "5.1"},
		{"protocol, channels of text", "a4004270310101020104a30001010102816161", dcbor.WrongType, 17, "body.channels[0]", "5.1"},
		{"protocol, content_types null", "a4004270310101020104a30001010103f6", dcbor.WrongType, 16, "body.content_types", "5.1"},
		{"protocol, methods of bytes", "a4004270310101020104a3000101010481416d", dcbor.WrongType, 17, "body.methods[0]", "5.1"},
		{"protocol, channel above ffff", "a4004270310101020104a30001010102811a00010000", 0, 0, "", ""},
		{"class without class", "a4004263310102020104a0", dcbor.Missing, 10, "body.carriage_class", "5.2"},
		{"class, content_types text", "a4004263310102020104a20001016161", dcbor.WrongType, 14, "body.content_types", "5.2"},
		{"agent_id of none", "a4004261310104020104a20040018101", dcbor.Empty, 12, "body.agent_id", "5.4"},
		{"agent_id of 65 octets", "a4004261310104020104a2005841" + x65 + "018101", dcbor.Range, 12, "body.agent_id", "5.4"},
		{"agent without protocols", "a4004261310104020104a1004161", dcbor.Missing, 10, "body.protocols", "5.4"},
		{"agent, protocols empty", "a4004261310104020104a20041610180", dcbor.Empty, 15, "body.protocols", "5.4"},
		{"agent, protocol 256", "a4004261310104020104a20041610181190100", 0, 0, "", ""},
		{"agent, tools of none", "a4004261310104020104a3004161018101028140", dcbor.Empty, 19, "body.tools[0]", "5.4"},
		{"agent, tools of text", "a4004261310104020104a300416101810102816174", dcbor.WrongType, 19, "body.tools[0]", "5.4"},
		// A record alone is held to the depth that it may have in a payload, where it is 3.
		{"as deep as may be", "a5004274310103020104a200616e010109818181818100", 0, 0, "", ""},
		{"deeper", "a5004274310103020104a200616e01010981818181818100", dcbor.Depth, 22, "9[0][0][0][0][0]", "4.1"},
	}
	for _, tt := range tests {
		r, err := record.Parse(unhex(t, tt.octets), dcbor.Generation2)
		if tt.rule == 0 {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		var e *record.Error
		if !r.IsZero() || !errors.As(err, &e) || *e != (record.Error{Rule: tt.rule, Offset: tt.offset, Path: tt.path, Section: tt.section}) {
			t.Errorf("%s: got %+v, want %v at octet %d, %q, §%s", tt.name, e, tt.rule, tt.offset, tt.path, tt.section)
		}
	}
	_, err := record.Parse(unhex(t, tests[18].octets), dcbor.Generation2)
	if got, want := err.Error(), "record: label: utf8 at octet 10 (§4.1)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Covers: DISC-5-01, DISC-5.1-03, DISC-5.3-02, DISC-5.3-04, DISC-5.3-05, C39, DASP-008-02, DGP-12-02, DGP-18.2-02
func TestAccessors(t *testing.T) {
	for _, tt := range golden {
		r := parse(t, tt.octets)
		label, labelled := r.Label()
		name, named := r.Name()
		ids := slices.Collect(r.ProtocolIDs())
		switch v := tt.form.(type) {
		case record.Protocol:
			if r.ID() != v.ID || r.Kind() != record.KindProtocol || r.Revision() != v.Revision || labelled != (v.Label != nil) || labelled && label != *v.Label ||
				named || !slices.Equal(ids, []uint64{v.ProtocolID}) {
				t.Errorf("%s: wrong accessor", tt.name)
			}
		case record.Carriage:
			if r.ID() != v.ID || r.Kind() != record.KindCarriageClass || named || len(ids) != 0 || labelled != (v.Label != nil) {
				t.Errorf("%s: wrong accessor", tt.name)
			}
		case record.Tool:
			if r.ID() != v.ID || r.Kind() != record.KindTool || r.Revision() != v.Revision || !named || name != v.Name || !slices.Equal(ids, []uint64{v.ProtocolID}) {
				t.Errorf("%s: wrong accessor", tt.name)
			}
		case record.Agent:
			if r.Kind() != record.KindAgent || !named || name != v.AgentID || !slices.Equal(ids, v.Protocols) {
				t.Errorf("%s: wrong accessor", tt.name)
			}
		}
	}
	for effect, want := range map[string]record.Effect{"": record.Destructive, "00": record.ReadOnly, "01": record.IdempotentWrite,
		"02": record.NonIdempotentWrite, "03": record.Destructive, "04": record.Destructive, "1bffffffffffffffff": record.Destructive} {
		octets := "a4004274310103020104a200616e0101"
		if effect != "" {
			octets = "a4004274310103020104a300616e010102" + effect
		}
		tool, ok := parse(t, octets).Tool()
		if got := tool.EffectiveEffect(); !ok || got != want {
			t.Errorf("effect %q: got %v, want %v", effect, got, want)
		}
	}
	for channels, want := range map[string][]uint64{"a200010101": {record.BridgeChannel}, "a3000101010280": {}, "a300010101028112": {0x12}} {
		p, ok := parse(t, "a4004270310101020104"+channels).Protocol()
		if got := p.EffectiveChannels(); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: channels %v, want %v", channels, got, want)
		}
	}
	var zero record.Record
	if _, ok := zero.Tool(); ok || !zero.IsZero() || zero.Len() != 0 || zero.Octets() != "" {
		t.Error("the zero record is one")
	}
	if _, ok := zero.Protocol(); ok {
		t.Error("the zero record is a protocol")
	}
	if _, ok := zero.Carriage(); ok {
		t.Error("the zero record is a class")
	}
	if _, ok := zero.Agent(); ok {
		t.Error("the zero record is an agent")
	}
}

// Covers: DISC-4.1-05, DISC-5-07, DISC-5-08, F09
func TestWithRevision(t *testing.T) {
	r := parse(t, "a5004274310103020103616c04a200616e0101")
	for revision, size := range map[uint64]int{0: 1, 23: 1, 24: 2, 255: 2, 256: 3, 65535: 3, 65536: 5, 1<<32 - 1: 5, 1 << 32: 9, 1 << 63: 9, math.MaxUint64: 9} {
		got := r.WithRevision(revision)
		if got.Revision() != revision || got.Len() != r.Len()-1+size {
			t.Errorf("revision %d: %x", revision, got.Octets())
		}
		if again, err := record.Parse([]byte(got.Octets()), dcbor.Generation3); err != nil || again != got {
			t.Errorf("revision %d: %v", revision, err)
		}
		if !got.SameContents(r) || !r.SameContents(got) || (got == r) != (revision == 1) || got.WithRevision(1) != r {
			t.Errorf("revision %d: the rest has changed", revision)
		}
	}
	for _, other := range []string{"a4004274310103020104a200616e0101", "a5004274310103020103616d04a200616e0101", "a5004275310103020103616c04a200616e0101",
		"a5004274310103020103616c04a200616e0102", "a6004274310103020103616c04a200616e01010900"} {
		if o := parse(t, other); r.SameContents(o) || o.SameContents(r) || r.WithRevision(300).SameContents(o) {
			t.Errorf("%s: said to be the same", other)
		}
	}
	var zero record.Record
	if r.SameContents(zero) || zero.SameContents(r) || !zero.SameContents(zero) {
		t.Error("the zero record is the same as another")
	}
}

// Covers: DISC-4.1-10, C11
func TestUnknownKeysSurvive(t *testing.T) {
	const want = "a8004274310103020103616c04a500616e01010a8018634178190100f409031863a120f61b0000000100000000f93e00"
	r := parse(t, want)
	if got := r.Extra(); !slices.Equal(got, []record.Field{{9, "\x03"}, {99, "\xa1\x20\xf6"}, {1 << 32, "\xf9\x3e\x00"}}) {
		t.Errorf("of the record: %v", got)
	}
	if got := r.BodyExtra(); !slices.Equal(got, []record.Field{{10, "\x80"}, {99, "\x41x"}, {256, "\xf4"}}) {
		t.Errorf("of the body: %v", got)
	}
	if got := hex.EncodeToString([]byte(r.WithRevision(7).Octets())); got != strings.Replace(want, "0201", "0207", 1) {
		t.Errorf("at another revision: %s", got)
	}
	if r.Allows(dcbor.Generation3) || !r.Allows(dcbor.Generation2) {
		t.Error("a float may not stand in a record of generation 3")
	}
	plain := parse(t, golden[6].octets)
	if plain.Extra() != nil || plain.BodyExtra() != nil || !plain.Allows(dcbor.Generation3) {
		t.Error("a plain record has unknown keys")
	}
	if _, err := record.Parse(unhex(t, want), dcbor.Generation3); err == nil {
		t.Error("a float was accepted in generation 3")
	}
}

// Covers: DISC-5-01, C7
func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{record.KindProtocol.String(), "protocol"}, {record.KindCarriageClass.String(), "carriage_class"},
		{record.KindTool.String(), "tool"}, {record.KindAgent.String(), "agent"}, {record.Kind(0).String(), "kind(0)"}, {record.Kind(9).String(), "kind(9)"},
		{record.ReadOnly.String(), "read_only"}, {record.IdempotentWrite.String(), "idempotent_write"},
		{record.NonIdempotentWrite.String(), "non_idempotent_write"}, {record.Destructive.String(), "destructive"}, {record.Effect(4).String(), "effect(4)"},
		{record.CarriageClass(1).String(), "JSONRPC"}, {record.CarriageClass(2).String(), "HTTP"}, {record.CarriageClass(3).String(), "MSG"},
		{record.CarriageClass(4).String(), "STREAM"}, {record.CarriageClass(5).String(), "DOC"}, {record.CarriageClass(6).String(), "OPAQUE"},
		{record.CarriageClass(0).String(), "class(0)"}, {record.CarriageClass(7).String(), "class(7)"},
		{record.ID("t1").String(), "7431"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
	for k := record.Kind(0); k < 10; k++ {
		if got, want := k.Known(), k >= 1 && k <= 4; got != want {
			t.Errorf("kind %d known: %v", k, got)
		}
	}
}

// Covers: F01, F10, DISC-4.1-02
func TestNoPanicOnGarbage(t *testing.T) {
	for _, tt := range golden {
		b := unhex(t, tt.octets)
		for i := range b {
			for _, c := range []byte{0, 0x18, 0x1b, 0x20, 0x5f, 0x7b, 0x81, 0x9b, 0xa1, 0xbf, 0xc2, 0xf6, 0xf9, 0xff} {
				was := b[i]
				b[i] = c
				if r, err := record.Parse(b, dcbor.Generation2); err == nil {
					useAll(r)
				}
				b[i] = was
			}
			if _, err := record.Parse(b[:i], dcbor.Generation2); err == nil {
				t.Errorf("%s: the first %d octets are a record", tt.name, i)
			}
		}
	}
}

// useAll calls what can be asked of a record.
func useAll(r record.Record) {
	r.ID()
	r.Kind()
	r.Revision()
	r.Label()
	r.Name()
	r.Facts()
	r.Extra()
	r.BodyExtra()
	typed(r)
	r.WithRevision(1 << 40)
}

func FuzzParse(f *testing.F) {
	for _, tt := range golden {
		f.Add(unhex(f, tt.octets))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := record.Parse(b, dcbor.Generation2)
		if err != nil {
			var e *record.Error
			if !errors.As(err, &e) || e.Offset > len(b) || e.Section == "" {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		useAll(r)
		if again := r.WithRevision(r.Revision() ^ 1).WithRevision(r.Revision()); again != r {
			t.Fatalf("%x: revision put back gives %x", b, again.Octets())
		}
		if !r.Allows(dcbor.Generation3) {
			return
		}
		built, err := typed(r).Record()
		var e *record.FieldError
		if err == nil && built != r || err != nil && !(errors.As(err, &e) && e.Field == "effect") {
			t.Fatalf("%x: built again: %x, %v", b, built.Octets(), err)
		}
	})
}
