package testvectors

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write data/corpus anew")

const corpusFile = "data/corpus/discovery-corpus.json"

// The names of the §9 codes that a payload alone can be refused with.
var codeNames = map[uint64]string{1: "MalformedPayload", 2: "KindMismatch", 3: "UnknownRecordKind"}

// The public corpus's words for what is wrong, where it has one.
var corpusFlags = map[string]string{
	"not-a-map": "NotAMap", "negative-key": "UnknownNegativeKey", "missing": "MissingRequiredKey", "wrong-type": "WrongMajorType",
	"kind-mismatch": "FrameKindMismatch", "truncated": "NonDeterministicCBOR", "trailing": "NonDeterministicCBOR",
	"shortest-form": "NonDeterministicCBOR", "key-order": "NonDeterministicCBOR", "duplicate-key": "NonDeterministicCBOR",
	"indefinite": "NonDeterministicCBOR", "utf8": "NonDeterministicCBOR", "float-form": "NonDeterministicCBOR", "simple-value": "NonDeterministicCBOR",
}

type corpusCase struct {
	ID          int            `json:"tcId"`
	Requirement string         `json:"requirement"`
	Comment     string         `json:"comment"`
	In          map[string]any `json:"in"`
	Expected    map[string]any `json:"expected,omitempty"`
	Result      string         `json:"result"`
	Flags       []string       `json:"flags"`
}

// corpus is the payloads and the encodings in the shape of the public corpus.
func corpus(s *Set) []byte {
	var decode, encode []corpusCase
	id := 0
	add := func(to *[]corpusCase, c corpusCase, section, name, title string) {
		id++
		c.ID, c.Comment = id, name+": "+title
		c.Requirement = "40/" + section + "/" + strings.ToLower(name)
		if c.Result == "invalid" {
			c.Requirement += "-MUST-reject"
		}
		*to = append(*to, c)
	}
	for _, v := range s.Payloads {
		c := corpusCase{Flags: []string{}, Result: "valid",
			In: map[string]any{"frameType": v.FrameType, "payload": v.Octets, "tolerant": v.Tolerant != nil && *v.Tolerant}}
		if len(v.Generations) == 1 {
			c.In["generation"] = v.Generations[0]
		}
		switch e := v.Expect; {
		case e.OK:
			c.Expected = map[string]any{"message": e.Message, "skipped": e.Skipped}
		case e.Rule == "limit":
			c.Result, c.Flags = "acceptable", []string{codeNames[e.Code]}
		default:
			c.Result, c.Flags = "invalid", []string{"MustReject", codeNames[e.Code]}
			if f := corpusFlags[e.Rule]; f != "" {
				c.Flags = append(c.Flags, f)
			}
		}
		add(&decode, c, v.Section, v.Name, v.Title)
	}
	for _, v := range s.Payloads {
		if v.Canonical {
			add(&encode, corpusCase{Flags: []string{}, Result: "valid", In: map[string]any{"message": v.Expect.Message}, Expected: map[string]any{"payload": v.Octets}}, v.Section, v.Name, v.Title)
		}
	}
	for _, v := range s.Encodings {
		c := corpusCase{Flags: []string{}, Result: "valid", In: map[string]any{"message": v.Message}}
		if v.Expect.OK {
			c.Expected = map[string]any{"payload": v.Expect.Octets}
		} else {
			c.Result, c.Flags = "invalid", []string{"MustReject"}
		}
		add(&encode, c, v.Section, v.Name, v.Title)
	}
	var b bytes.Buffer
	b.WriteString("{\n  \"algorithm\": \"npamp_00\",\n  \"schemaVersion\": \"1.0.0\",\n  \"specRevision\": \"NPAMP-DISC\",\n  \"testGroups\": [")
	for i, group := range []struct {
		op    string
		cases []corpusCase
	}{{"disco.payload.decode", decode}, {"disco.payload.encode", encode}} {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    {\"op\": \"" + group.op + "\", \"profile\": \"any\", \"tests\": [")
		for k, c := range group.cases {
			if k > 0 {
				b.WriteByte(',')
			}
			line, err := json.Marshal(c)
			if err != nil {
				panic(err)
			}
			b.WriteString("\n      ")
			b.Write(line)
		}
		b.WriteString("\n    ]}")
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes()
}

// The corpus holds what the other files say.
//
// Covers: C60
func TestCorpus(t *testing.T) {
	want := corpus(load(t))
	if *update {
		if err := os.WriteFile(corpusFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(corpusFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not what the other files say (%v): run go test ./testvectors -run TestCorpus -update", corpusFile, err)
	}
	counts := map[string]int{}
	var c struct {
		TestGroups []struct {
			Op    string
			Tests []struct{ Result string }
		}
	}
	if err := json.Unmarshal(got, &c); err != nil {
		t.Fatal(err)
	}
	for _, g := range c.TestGroups {
		for _, tc := range g.Tests {
			counts[g.Op+" "+tc.Result]++
		}
	}
	for _, what := range []string{"disco.payload.decode valid", "disco.payload.decode invalid", "disco.payload.decode acceptable", "disco.payload.encode valid", "disco.payload.encode invalid"} {
		if counts[what] < 5 {
			t.Errorf("%d cases %q", counts[what], what)
		}
	}
}
