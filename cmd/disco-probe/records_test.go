package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// notes collects what is said to people.
type notes []string

func (n *notes) add(format string, args ...any) { *n = append(*n, fmt.Sprintf(format, args...)) }

func openFiles(t *testing.T, from string, args ...string) (*library, *notes) {
	t.Helper()
	files, err := parseRecordFiles(args, from)
	if err != nil {
		t.Fatal(err)
	}
	var n notes
	l, err := openLibrary(files, nil, n.add)
	if err != nil {
		t.Fatal(err)
	}
	return l, &n
}

// openFails returns the error of files that do not make a set, which is always
// one of usage.
func openFails(t *testing.T, from string, args ...string) string {
	t.Helper()
	files, err := parseRecordFiles(args, from)
	if err == nil {
		_, err = openLibrary(files, nil, func(string, ...any) {})
	}
	if err == nil {
		t.Fatalf("%v: accepted", args)
	}
	if code := exitOf(t.Context(), err); code != exitUsage {
		t.Errorf("%v: exit %d, want %d: %v", args, code, exitUsage, err)
	}
	return err.Error()
}

func records(l *library) []record.Record { return slices.Collect(l.set.Snapshot().All()) }

func tools(l *library) map[string]record.Tool {
	m := map[string]record.Tool{}
	for _, r := range records(l) {
		if t, ok := r.Tool(); ok {
			m[t.Name] = t
		}
	}
	return m
}

// The recorded tools/list results of four public MCP servers.
func TestRealMCPServers(t *testing.T) {
	all := []string{}
	total := 0
	for _, tt := range []struct {
		file    string
		tools   int
		methods []string
	}{
		{"mcp-everything.json", 13, []string{"completion/complete", "logging/setLevel", "prompts/get", "prompts/list", "resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe", "tools/call", "tools/list"}},
		{"mcp-filesystem.json", 14, []string{"tools/call", "tools/list"}},
		{"mcp-memory.json", 9, []string{"resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe", "tools/call", "tools/list"}},
		{"mcp-sequential-thinking.json", 1, []string{"tools/call", "tools/list"}},
	} {
		path := dataFile(t, "real/"+tt.file)
		all = append(all, path)
		l, _ := openFiles(t, "mcp", path)
		if n := len(tools(l)); n != tt.tools || l.set.Len() != tt.tools+1 {
			t.Errorf("%s: %d tools of %d records, want %d of %d", tt.file, n, l.set.Len(), tt.tools, tt.tools+1)
		}
		for _, r := range records(l) {
			if r.Revision() != 1 {
				t.Errorf("%s: revision %d of %v, want 1", tt.file, r.Revision(), r.ID())
			}
			if p, ok := r.Protocol(); ok && (!slices.Equal(p.Methods, tt.methods) || p.ProtocolID != 1 || p.CarriageClass != record.ClassJSONRPC) {
				t.Errorf("%s: %+v", tt.file, p)
			}
		}
		total += tt.tools
	}
	if total != 37 {
		t.Errorf("%d tools, want 37", total)
	}
	l, n := openFiles(t, "mcp", all...)
	if l.set.Len() != 37+4 || len(*n) != 0 {
		t.Errorf("%d records, notes %q", l.set.Len(), *n)
	}
	// Read again, everything is the same.
	again, _ := openFiles(t, "mcp", all...)
	if l.set.Digest() != again.set.Digest() {
		t.Error("two readings differ")
	}
}

func TestRealMCPFilesystem(t *testing.T) {
	path := dataFile(t, "real/mcp-filesystem.json")
	l, _ := openFiles(t, "native", "mcp:"+path)
	byName := tools(l)
	effects := map[string]record.Effect{
		"read_file": record.ReadOnly, "list_directory": record.ReadOnly,
		"write_file": record.Destructive, "move_file": record.Destructive,
		"create_directory": record.IdempotentWrite,
	}
	for name, want := range effects {
		if e := byName[name].Effect; e == nil || *e != want {
			t.Errorf("%s: effect %v, want %v", name, e, want)
		}
	}
	if l := byName["read_file"].Label; l == nil || *l != "Read File (Deprecated)" {
		t.Errorf("label %v", l)
	}
	m := record.Filter{Kinds: []record.Kind{record.KindTool}, NamePrefix: "read_", HasPrefix: true}.Matcher()
	var got []string
	for r := range l.set.Snapshot().Match(&m) {
		name, _ := r.Name()
		got = append(got, name)
	}
	slices.Sort(got)
	if want := []string{"read_file", "read_media_file", "read_multiple_files", "read_text_file"}; !slices.Equal(got, want) {
		t.Errorf("read_: %v, want %v", got, want)
	}
}

// Every field that an MCP file gives, and the record_id, worked out by hand.
func TestMCPMapping(t *testing.T) {
	path := write(t, "srv.json", `{
		"initialize": {"capabilities": {"tools": {}, "resources": {"subscribe": false}, "prompts": null}, "serverInfo": {"name": "weather", "title": "Weather"}},
		"tools_list": {"tools": [
			{"name": "plain", "inputSchema": { "type" : "object" , "x" : "a b" } },
			{"name": "ro", "title": "Read", "annotations": {"readOnlyHint": true, "destructiveHint": true}},
			{"name": "destroy", "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true}},
			{"name": "idem", "annotations": {"destructiveHint": false, "idempotentHint": true}},
			{"name": "write", "annotations": {"destructiveHint": false}},
			{"name": "unsaid", "annotations": {"readOnlyHint": false, "idempotentHint": true, "openWorldHint": false}}
		]}}`)
	l, n := openFiles(t, "mcp", path)
	if len(*n) != 0 {
		t.Errorf("notes %q", *n)
	}
	byName := tools(l)
	for name, want := range map[string]any{"plain": nil, "unsaid": nil, "ro": record.ReadOnly, "destroy": record.Destructive, "idem": record.IdempotentWrite, "write": record.NonIdempotentWrite} {
		e := byName[name].Effect
		if want == nil && e != nil || want != nil && (e == nil || *e != want) {
			t.Errorf("%s: effect %v, want %v", name, e, want)
		}
	}
	sum := sha256.Sum256([]byte(`{"type":"object","x":"a b"}`))
	if s := byName["plain"].SchemaRef; s == nil || *s != fmt.Sprintf("sha256:%x", sum) {
		t.Errorf("schema_ref %v", s)
	}
	if byName["ro"].SchemaRef != nil || byName["plain"].Label != nil {
		t.Error("a field that the file does not have")
	}
	id := sha256.Sum256([]byte("\x00\x00\x00\x07weather\x00\x00\x00\x01\x01\x00\x00\x00\x05plain"))
	if got := byName["plain"].ID; string(got) != string(id[:16]) {
		t.Errorf("record_id %v, want %x", got, id[:16])
	}
	id = sha256.Sum256([]byte("\x00\x00\x00\x07weather\x00\x00\x00\x01\x01\x00\x00\x00\x00"))
	r, ok := l.set.Snapshot().Get(record.ID(id[:16]))
	p, isProtocol := r.Protocol()
	if !ok || !isProtocol || p.Label == nil || *p.Label != "Weather" {
		t.Fatalf("no protocol record under %x", id[:16])
	}
	if want := []string{"resources/list", "resources/read", "resources/templates/list", "tools/call", "tools/list"}; !slices.Equal(p.Methods, want) {
		t.Errorf("methods %v", p.Methods)
	}
}

// A bare tools/list result is named by its file, and declares no methods.
func TestMCPBareResult(t *testing.T) {
	l, _ := openFiles(t, "mcp", write(t, "my.server.json", `{"tools":[{"name":"a"}]}`))
	r, ok := l.set.Snapshot().Get(mcpRecordID("my.server", ""))
	p, _ := r.Protocol()
	if !ok || p.Methods != nil || p.Label != nil {
		t.Errorf("%v %+v", ok, p)
	}
	if _, ok := l.set.Snapshot().Get(mcpRecordID("my.server", "a")); !ok {
		t.Error("no tool under the id of its file and name")
	}
}

// F69: no tools capability, an error, an empty list and a missing list are four
// different things.
func TestMCPNothingToImport(t *testing.T) {
	init := func(caps string) string {
		return `"initialize":{"capabilities":` + caps + `,"serverInfo":{"name":"s"}}`
	}
	for name, tt := range map[string]struct{ file, note, fails string }{
		"no capability": {`{` + init(`{"prompts":{}}`) + `}`, "does not declare the tools capability", ""},
		"empty list":    {`{` + init(`{"tools":{}}`) + `,"tools_list":{"tools":[]}}`, "lists no tools", ""},
		"an error":      {`{` + init(`{"tools":{}}`) + `,"tools_list":{"error":{"code":-32601,"message":"no\u001b[2J"}}}`, "", `answered tools/list with error -32601: no\x1b[2J`},
		"a bare error":  {`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"boom"}}`, "", "error -32603: boom"},
		"no list":       {`{` + init(`{"tools":{}}`) + `}`, "", "tools_list is required"},
		"one page":      {`{"tools":[{"name":"a"}],"nextCursor":"x"}`, "", "nextCursor says that this is not the whole list"},
	} {
		path := write(t, "s.json", tt.file)
		if tt.fails != "" {
			if msg := openFails(t, "mcp", path); !strings.Contains(msg, tt.fails) || !strings.Contains(msg, "s.json") {
				t.Errorf("%s: %s", name, msg)
			}
			continue
		}
		l, n := openFiles(t, "mcp", path)
		if l.set.Len() != 1 || len(*n) != 1 || !strings.Contains((*n)[0], tt.note) {
			t.Errorf("%s: %d records, notes %q", name, l.set.Len(), *n)
		}
	}
}

func TestMCPRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{"tools":[{"title":"x"}]}`:                                          "tools[0].name is required",
		`{"tools":[{"name":""}]}`:                                            "tools[0].name is required",
		`{"tools":[{"name":7}]}`:                                             "tools[0].name must be text",
		`{"tools":[{"name":"a","title":null}]}`:                              "tools[0].title must be text",
		`{"tools":[{"name":"a","annotations":{"readOnlyHint":"yes"}}]}`:      "tools[0].annotations.readOnlyHint must be true or false",
		`{"tools":{}}`:                                                       "tools must be an array",
		`{"initialize":{},"tools_list":{"tools":[{"name":"a"},{"name":3}]}}`: "tools_list.tools[1].name must be text",
		`{}`:                      "tools is required",
		`[]`:                      "must be an object",
		`{"v":1,"records":[]}`:    "native form",
		`{"tools":[],"tools":[]}`: `key "tools" stands twice`,
		`{"tools":[]} {}`:         "invalid character",
		"{\"tools\":[\"\xff\"]}":  "not UTF-8 at octet",
		`{"tools":[{"name":"a"},{"name":"a","title":"other"}]}`: "record_id " + mcpRecordID("bad", "a").String(),
	} {
		if msg := openFails(t, "mcp", write(t, "bad.json", in)); !strings.Contains(msg, want) || !strings.Contains(msg, "bad.json") {
			t.Errorf("%s\ngot  %s\nwant %s", in, msg, want)
		}
	}
}

// The native form is what query prints: reading it and printing it again gives
// the same.
func TestNativeRoundTrip(t *testing.T) {
	for _, v := range payloads(t) {
		var m struct{ Records []json.RawMessage }
		if !v.Expect.OK || json.Unmarshal(v.Expect.Message, &m) != nil {
			continue
		}
		for _, raw := range m.Records {
			r, err := parseRecord(raw)
			if err != nil && strings.HasPrefix(err.Error(), "effect must be") {
				continue // received and kept, never published [C39]
			}
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
				continue
			}
			if !strings.Contains(string(v.Octets), r.Octets()) {
				t.Errorf("%s: %x is not in the payload", v.Name, r.Octets())
			}
			back, err := parseRecord(appendJSON(nil, recordJSON(r)))
			if err != nil || back != r {
				t.Errorf("%s: %s: %v", v.Name, appendJSON(nil, recordJSON(r)), err)
			}
		}
	}
}

// The sample of the README, in all its ways of writing things.
func TestNativeSample(t *testing.T) {
	b, err := testvectors.Sample("demo.json")
	if err != nil {
		t.Fatal(err)
	}
	l, n := openFiles(t, "native", write(t, "demo.json", string(b)))
	if l.set.Len() != 8 || len(*n) != 0 {
		t.Errorf("%d records, notes %q", l.set.Len(), *n)
	}
	a, _ := l.set.Snapshot().Get("agent.builder")
	if agent, ok := a.Agent(); !ok || agent.AgentID != "builder" || !slices.Equal(agent.Tools, []record.ID{"git.log", "git.commit"}) {
		t.Errorf("%+v", agent)
	}
	lines := recordTable(records(l))
	golden(t, "sample.txt", strings.Join(lines, "\n")+"\n")
	var doc []byte
	doc = appendJSON(doc, versioned(field{"records", recordsJSON(records(l))}, field{"meta", object{{"complete", true}}}))
	again, _ := openFiles(t, "native", write(t, "again.json", string(doc)))
	if again.set.Digest() != l.set.Digest() {
		t.Error("what was printed reads as something else")
	}
}

func TestNativeForms(t *testing.T) {
	l, _ := openFiles(t, "native", write(t, "a.json", `{"v":1,"meta":{"records":9},"records":[
		{"record_id":"0A0b","kind":2,"revision":7,"body":{"carriage_class":"DOC","content_types":[1,"18446744073709551615"]}},
		{"record_id":"text:\u0000é","kind":"tool","revision":"9","body":{"name":"","protocol_id":"1","effect":3},"extra":{"9":"03","24":"6161"}},
		{"record_id":"0c","kind":"3","body":{"name":"x","protocol_id":1,"effect":"destructive","extra":{"4":"80"}}}]}`))
	c, _ := l.set.Snapshot().Get("\x0a\x0b")
	if v, ok := c.Carriage(); !ok || v.CarriageClass != record.ClassDOC || v.Revision != 7 || !slices.Equal(v.ContentTypes, []uint64{1, 1<<64 - 1}) {
		t.Errorf("%+v", v)
	}
	r, _ := l.set.Snapshot().Get("\x00é")
	if got := r.Extra(); r.Revision() != 9 || len(got) != 2 || got[1] != (record.Field{Key: 24, Value: "aa"[:0] + "\x61\x61"}) {
		t.Errorf("%d %v", r.Revision(), got)
	}
	x, _ := l.set.Snapshot().Get("\x0c")
	if got := x.BodyExtra(); len(got) != 1 || got[0].Value != "\x80" || x.Revision() != 1 {
		t.Errorf("%d %v", x.Revision(), got)
	}
}

// An error names file, record and field.
func TestNativeRefuses(t *testing.T) {
	rec := func(fields string) string { return `{"v":1,"records":[{"record_id":"0a",` + fields + `}]}` }
	tool := func(body string) string { return rec(`"kind":"tool","body":{` + body + `}`) }
	for in, want := range map[string]string{
		`{"records":[]}`:                                                              "v is required",
		`{"v":2,"records":[]}`:                                                        "v must be 1",
		`{"v":1}`:                                                                     "records is required",
		`{"v":1,"records":{}}`:                                                        "records must be an array",
		`{"v":1,"records":[],"record":[]}`:                                            "record is not a field",
		`{"v":1,"records":[3]}`:                                                       "records[0]: must be an object",
		`{"v":1,"records":[{}]}`:                                                      "records[0]: record_id is required",
		`{"v":1,"records":[{"record_id":"0","kind":3}]}`:                              "records[0] (record_id 0): record_id must be octets",
		rec(`"body":{}`):                                                              "records[0] (record_id 0a): kind is required",
		rec(`"kind":"tool"`):                                                          "body is required",
		rec(`"kind":"tol","body":{}`):                                                 "kind must be a number or one of protocol, carriage_class, tool, agent",
		rec(`"kind":9,"body":{}`):                                                     "kind must be 1 to 4",
		rec(`"kind":"tool","body":{},"labl":"x"`):                                     "labl is not a field",
		rec(`"kind":"tool","revision":-1,"body":{}`):                                  "revision must be an integer",
		rec(`"kind":"tool","revision":1.5,"body":{}`):                                 "revision must be an integer",
		rec(`"kind":"tool","revision":null,"body":{}`):                                "revision must be an integer",
		rec(`"kind":"tool","label":null,"body":{}`):                                   "label must be text",
		tool(`"protocol_id":1`):                                                       "body.name is required",
		tool(`"name":"x"`):                                                            "body.protocol_id is required",
		tool(`"name":"x","protocol_id":256`):                                          "protocol_id must be 0 to 255",
		tool(`"name":"x","protocol_id":1,"effect":4`):                                 "effect must be 0 to 3",
		tool(`"name":"x","protocol_id":1,"effects":1`):                                "body.effects is not a field",
		tool(`"name":"x","protocol_id":1,"effect":"x"`):                               "body.effect must be a number or one of read_only",
		tool(`"name":"x","protocol_id":1,"extra":{"3":"00"}`):                         "extra",
		tool(`"name":"x","protocol_id":1,"extra":{"x":"00"}`):                         "body.extra.x must be a key in decimal",
		tool(`"name":"x","protocol_id":1,"extra":{"9":"1801"}`):                       "extra",
		tool(`"name":"x","protocol_id":0`):                                            "protocol_id",
		tool(`"name":"x","protocol_id":11`):                                           "protocol_id 11",
		tool(`"name":"x","protocol_id":16`):                                           "--agree",
		rec(`"kind":"agent","body":{"agent_id":"aa","protocols":[]}`):                 "protocols must have an entry",
		rec(`"kind":"agent","body":{"agent_id":"","protocols":[1]}`):                  "agent_id must be 1 to 64 octets",
		rec(`"kind":"agent","body":{"agent_id":"aa","protocols":[1,"x"]}`):            "body.protocols[1] must be an integer",
		rec(`"kind":"agent","body":{"agent_id":"aa","protocols":[1],"tools":["0b"]}`): "names a tool that is not advertised (tool 0b)",
		rec(`"kind":"protocol","body":{"protocol_id":1,"carriage_class":"HTTP"}`):     "contradicts the carriage class (protocol_id 1 as HTTP)",
		`{"v":1,"records":[{"record_id":"","kind":"tool","body":{"name":"x","protocol_id":1}}]}`: "record_id must be 1 to 32 octets",
		`not json`: "invalid character",
		``:         "unexpected end",
	} {
		if msg := openFails(t, "native", write(t, "bad.json", in)); !strings.Contains(msg, want) || !strings.Contains(msg, "bad.json") {
			t.Errorf("%s\ngot  %s\nwant %s", in, msg, want)
		}
	}
	if msg := openFails(t, "native", filepath.Join(t.TempDir(), "none.json")); !strings.Contains(msg, "none.json") {
		t.Error(msg)
	}
	openFails(t, "native")
	openFails(t, "yaml", "a.json")
}

// Ids from 0x10 up may be served by agreement.
//
// Covers: REG-4-03
func TestAgree(t *testing.T) {
	path := write(t, "a.json", `{"v":1,"records":[{"record_id":"0a","kind":"tool","body":{"name":"x","protocol_id":128}}]}`)
	files, _ := parseRecordFiles([]string{path}, "native")
	if _, err := openLibrary(files, []uint64{128}, func(string, ...any) {}); err != nil {
		t.Error(err)
	}
}

const toolLine = `{"record_id":%q,"kind":"tool","revision":%q,"body":{"name":%q,"protocol_id":1}}`

func nativeFile(recs ...string) string { return `{"v":1,"records":[` + strings.Join(recs, ",") + `]}` }

func tool(id, revision, name string) string { return fmt.Sprintf(toolLine, id, revision, name) }

// All files make one set: what is equal is one record at the greater revision,
// what differs under one id ends the command naming both files and the id.
//
// Covers: DISC-5-03
func TestMerge(t *testing.T) {
	a := write(t, "a.json", nativeFile(tool("0a", "3", "x"), tool("0b", "1", "y")))
	b := write(t, "b.json", nativeFile(tool("0a", "5", "x")))
	l, _ := openFiles(t, "native", a, b)
	if r, _ := l.set.Snapshot().Get("\x0a"); l.set.Len() != 2 || r.Revision() != 5 {
		t.Errorf("%d records, revision %d", l.set.Len(), r.Revision())
	}
	c := write(t, "c.json", nativeFile(tool("0a", "5", "X")))
	msg := openFails(t, "native", a, c)
	for _, want := range []string{"a.json", "c.json", "record_id 0a", "another record_id"} {
		if !strings.Contains(msg, want) {
			t.Errorf("%q is not in: %s", want, msg)
		}
	}
}

// F67: equal names are different records; that they are alike is said, with the
// remedy; prefixes match octets.
//
// Covers: C26, DISC-5-09
func TestEqualNames(t *testing.T) {
	one := write(t, "one.json", `{"tools":[{"name":"search","title":"One"},{"name":"caf\u00e9"}]}`)
	two := write(t, "two.json", `{"tools":[{"name":"search","title":"Two"},{"name":"Search"},{"name":"cafe\u0301"}]}`)
	l, n := openFiles(t, "mcp", one, two)
	if l.set.Len() != 2+2+3 {
		t.Errorf("%d records", l.set.Len())
	}
	if len(*n) != 1 || !strings.Contains((*n)[0], `2 tools are named "search"`) || !strings.Contains((*n)[0], mcpRecordID("two", "search").String()) || !strings.Contains((*n)[0], "rename") {
		t.Errorf("notes %q", *n)
	}
	for prefix, want := range map[string]int{"search": 2, "Search": 1, "café": 1, "cafe": 1} {
		m := record.Filter{NamePrefix: prefix, HasPrefix: true, Kinds: []record.Kind{record.KindTool}}.Matcher()
		got := 0
		for range l.set.Snapshot().Match(&m) {
			got++
		}
		if got != want {
			t.Errorf("prefix %q: %d, want %d", prefix, got, want)
		}
	}
}

// F68: a file that does not read, or collides, keeps its last good records; one
// that recovers changes exactly what changed; revisions only grow.
//
// Covers: DISC-8-01, DISC-5-07
func TestReload(t *testing.T) {
	a := write(t, "a.json", nativeFile(tool("0a", "1", "a"), tool("0b", "1", "b")))
	b := write(t, "b.json", nativeFile(tool("0c", "1", "c")))
	c := write(t, "c.json", `{"tools":[{"name":"m"},{"name":"n"}]}`)
	l, n := openFiles(t, "native", a, b, "mcp:"+c)
	if l.set.Len() != 6 {
		t.Fatalf("%d records", l.set.Len())
	}
	changes := 0
	_, stop := l.set.Watch(func(*record.Change) { changes++ })
	defer stop()
	put := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	revision := func(id record.ID) uint64 {
		r, ok := l.set.Snapshot().Get(id)
		if !ok {
			return 0
		}
		return r.Revision()
	}
	step := func(why string, wantLen, wantChanges, wantNotes int) {
		t.Helper()
		before := changes
		*n = nil
		l.reload()
		if l.set.Len() != wantLen || changes-before != wantChanges || len(*n) != wantNotes {
			t.Errorf("%s: %d records, %d changes, notes %q; want %d, %d, %d", why, l.set.Len(), changes-before, *n, wantLen, wantChanges, wantNotes)
		}
		l.reload() // nothing is said or done twice
		if changes-before != wantChanges || len(*n) != wantNotes {
			t.Errorf("%s: again", why)
		}
	}
	step("nothing happened", 6, 0, 0)
	put(c, `{"tools":[{"name":"m"}],"nextCursor":"x"}`)
	step("a partial list", 6, 0, 1)
	if !strings.Contains((*n)[0], "c.json") || !strings.Contains((*n)[0], "last good records stay") {
		t.Errorf("notes %q", *n)
	}
	put(c, `{"tools":[{"name":"m"}]}`)
	step("recovered with one tool gone", 5, 1, 0)
	os.Remove(b)
	step("a file gone", 5, 0, 1)
	put(b, nativeFile(tool("0a", "9", "another")))
	step("a collision", 5, 0, 1)
	if !strings.Contains((*n)[0], "a.json") || !strings.Contains((*n)[0], "b.json") {
		t.Errorf("notes %q", *n)
	}
	put(a, nativeFile(tool("0b", "1", "b2")))
	put(b, nativeFile(tool("0c", "1", "c")))
	step("one changed, one as it was", 4, 1, 0)
	if revision("\x0b") != 2 || revision("\x0c") != 1 {
		t.Errorf("revisions %d and %d, want 2 and 1", revision("\x0b"), revision("\x0c"))
	}
	put(a, nativeFile(tool("0a", "1", "a"), tool("0b", "1", "b")))
	step("a record returns", 5, 1, 0)
	if revision("\x0a") != 2 || revision("\x0b") != 3 {
		t.Errorf("revisions %d and %d, want 2 and 3", revision("\x0a"), revision("\x0b"))
	}
	// Two files at once, of which one is at fault: the other is taken.
	put(a, nativeFile(tool("0a", "1", "a"), tool("0b", "40", "b4")))
	put(b, nativeFile(tool("0b", "1", "mine")))
	step("one of two at fault", 5, 1, 1)
	if revision("\x0b") != 40 {
		t.Errorf("revision %d, want its floor 40", revision("\x0b"))
	}
	// A move between files is no collision, and no change of the set.
	put(a, nativeFile(tool("0a", "1", "a")))
	put(b, nativeFile(tool("0b", "40", "b4"), tool("0c", "1", "c")))
	step("a record moves", 5, 0, 0)
	// What is no longer carried is not affirmed.
	put(c, `{"tools":[]}`)
	step("all tools gone", 4, 1, 1)
}

// The files are looked at twice a second, until the command ends.
func TestFollow(t *testing.T) {
	path := write(t, "a.json", nativeFile(tool("0a", "1", "a")))
	synctest.Test(t, func(t *testing.T) {
		l, _ := openFiles(t, "native", path)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.follow(ctx)
		}()
		for n := 2; n < 5; n++ {
			if err := os.WriteFile(path, []byte(nativeFile(tool("0a", "1", strings.Repeat("a", n)))), 0o644); err != nil {
				t.Fatal(err)
			}
			<-time.After(reloadInterval + time.Millisecond)
			synctest.Wait()
			if r, _ := l.set.Snapshot().Get("\x0a"); r.Revision() != uint64(n) {
				t.Errorf("change %d: revision %d", n, r.Revision())
			}
		}
		cancel()
		<-done
	})
}
