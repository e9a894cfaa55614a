package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/npamp/disco/testvectors"
)

func payloads(t *testing.T) []testvectors.Payload {
	t.Helper()
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	return set.Payloads
}

func vector(t *testing.T, name string) testvectors.Payload {
	t.Helper()
	for _, v := range payloads(t) {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no vector %s", name)
	return testvectors.Payload{}
}

// Every golden payload gets the verdict of its row: meaning and skipped records,
// or code, reply, corr, and where they are fixed rule, offset and path.
//
// Covers: DISC-4.1-01, DISC-4.1-02, DISC-4.1-04, DISC-4.1-05, DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-10, DISC-4.1-11, DISC-4.2-02, DISC-4.2-03, DISC-5-01, DISC-5-05, DISC-5-06, DISC-5.1-01, DISC-5.2-01, DISC-5.4-01, DISC-6.2-03, DISC-7.2-08, C2, C4, C9, C10, C11, C12, C28, C29
func TestDecodeVectors(t *testing.T) {
	for _, v := range payloads(t) {
		for _, gen := range v.Generations {
			for _, form := range []string{fmt.Sprintf("0x%04x", v.FrameType), strconv.Itoa(int(v.FrameType))} {
				args := []string{"decode", "-o", "json", "--type", form, "--generation", strconv.Itoa(gen)}
				if v.Tolerant != nil && *v.Tolerant {
					args = append(args, "--tolerant")
				}
				r := probe(append(args, v.Octets.String())...)
				checkVerdict(t, fmt.Sprintf("%s, generation %d", v.Name, gen), v, r)
			}
		}
	}
}

func checkVerdict(t *testing.T, name string, v testvectors.Payload, r result) {
	t.Helper()
	var got struct {
		V       int
		OK      bool
		Type    string
		Message any
		Skipped any
		Code    uint64
		Name    string
		Reply   string
		Corr    *string
		Offset  *int
		Path    *string
		Rule    string
		Section string
	}
	r.decode(t, &got)
	e := v.Expect
	if got.V != 1 || got.OK != e.OK {
		t.Errorf("%s: got %s", name, r.stdout)
		return
	}
	if e.OK {
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: exit %d, stderr %q", name, r.code, r.stderr)
		}
		for _, c := range []struct {
			what string
			got  any
			want json.RawMessage
		}{{"message", got.Message, e.Message}, {"skipped", got.Skipped, e.Skipped}} {
			var want any
			if err := json.Unmarshal(c.want, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(c.got, want) {
				t.Errorf("%s: %s\ngot  %v\nwant %v", name, c.what, c.got, want)
			}
		}
		return
	}
	if r.code != exitProtocol {
		t.Errorf("%s: exit %d, want %d", name, r.code, exitProtocol)
	}
	if got.Code != e.Code || got.Reply != e.Reply || !reflect.DeepEqual(got.Corr, e.Corr) {
		t.Errorf("%s: code %d, reply %s, corr %v, want %d, %s, %v", name, got.Code, got.Reply, text(got.Corr), e.Code, e.Reply, text(e.Corr))
	}
	if e.Rule != "" && got.Rule != e.Rule || e.Offset != nil && *got.Offset != *e.Offset || e.Path != nil && *got.Path != *e.Path {
		t.Errorf("%s: got %s\nwant %s", name, r.stdout, expectation(t, e))
	}
	if got.Rule == "" || got.Offset == nil || got.Path == nil || got.Section == "" || got.Name == "" {
		t.Errorf("%s: a field is missing in %s", name, r.stdout)
	}
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func expectation(t *testing.T, e testvectors.Expect) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The objects that DESIGN and the README print, octet for octet.
func TestDecodeJSONForm(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"a300190100014101028103", `{"v":1,"ok":true,"type":"DISCO_QUERY","message":{"frame_kind":256,"corr":"01","kinds":[3]},"skipped":[]}`},
		{"a2001a00000100014101", `{"v":1,"ok":false,"type":"DISCO_QUERY","code":1,"name":"MalformedPayload","reply":"error","corr":"01","offset":2,"path":"frame_kind","rule":"shortest-form","section":"4.1"}`},
		{"05", `{"v":1,"ok":false,"type":"DISCO_QUERY","code":1,"name":"MalformedPayload","reply":"uncorrelated","corr":null,"offset":0,"path":"","rule":"not-a-map","section":"4.1"}`},
		{"--tolerant " + "a4001901010141010281a4004278310109020104a003f5", `{"v":1,"ok":true,"type":"DISCO_RESULT","message":{"frame_kind":257,"corr":"01","records":[],"complete":true},"skipped":[{"record_id":"7831","kind":9}]}`},
	} {
		for _, format := range []string{"json", "ndjson"} {
			r := probe(append([]string{"decode", "-o", format}, strings.Fields(tt.args)...)...)
			if r.stdout != tt.want+"\n" {
				t.Errorf("%s\ngot  %swant %s", tt.args, r.stdout, tt.want)
			}
		}
	}
}

// Type names, and what stands in for a missing --type.
func TestDecodeType(t *testing.T) {
	subscribe := vector(t, "V10").Octets.String()
	for _, name := range []string{"subscribe", "SUBSCRIBE", "DISCO_SUBSCRIBE", "disco_subscribe", "0x0104", "0x104", "260"} {
		probe("decode", "--type", name, subscribe).ok(t)
	}
	// The payload's own frame_kind.
	if r := probe("decode", subscribe).ok(t); !strings.HasPrefix(r.stdout, "ok DISCO_SUBSCRIBE\n") {
		t.Errorf("got %s", r.stdout)
	}
	// A frame_kind that is none of Discovery's: a QUERY, which contradicts it.
	if r := probe("decode", "-o", "json", "a200190107014101"); r.code != exitProtocol || !strings.Contains(r.stdout, `"type":"DISCO_QUERY","code":2`) {
		t.Errorf("exit %d, %s", r.code, r.stdout)
	}
	for _, bad := range []string{"nonsense", "0x0107", "1", "70000", "-1", ""} {
		if bad == "" {
			continue
		}
		if r := probe("decode", "--type", bad, subscribe); r.code != exitUsage || r.stdout != "" {
			t.Errorf("--type %s: exit %d, stdout %q", bad, r.code, r.stdout)
		}
	}
}

// Every way in gives the same payload.
func TestDecodeInput(t *testing.T) {
	v := vector(t, "V2").Octets
	want := probe("decode", v.String()).ok(t)
	hexFile := write(t, "v2.hex", strings.ToUpper(v.String()[:20])+"\n  "+v.String()[20:]+"\n")
	binFile := write(t, "v2.bin", string(v))
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
	}{
		{"spaces", "", []string{"a600 1901 00", "014102" + v.String()[16:]}},
		{"file", "", []string{"@" + hexFile}},
		{"binary file", "", []string{"--binary", "@" + binFile}},
		{"stdin", v.String() + "\n", []string{"-"}},
		{"binary stdin", string(v), []string{"--binary", "-"}},
	} {
		r := probeIn(tt.stdin, append([]string{"decode"}, tt.args...)...)
		if r != want {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	// No input at all is a payload of no octets.
	for _, args := range [][]string{{"-"}, {""}, {}, {"--binary", "-"}} {
		r := probe(append([]string{"decode", "-o", "json"}, args...)...)
		if r.code != exitProtocol || !strings.Contains(r.stdout, `"rule":"truncated"`) || !strings.Contains(r.stdout, `"offset":0,"path":""`) {
			t.Errorf("%q: exit %d, %s", args, r.code, r.stdout)
		}
	}
	for _, args := range [][]string{{"zz"}, {"a20"}, {"@" + t.TempDir() + "/none"}, {"--binary", "a2"}, {"--generation", "4", "a2"}, {"--nonsense"}} {
		if r := probe(append([]string{"decode"}, args...)...); r.code != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, "disco-probe: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
		}
	}
}

// A request longer than a responder reads is answered without a corr, whatever
// it holds [C-limits]; one octet less is read.
func TestDecodeRequestLimit(t *testing.T) {
	for _, tt := range []struct {
		size int
		want string
	}{{maxRequestLen, `"ok":true`}, {maxRequestLen + 1, `"reply":"uncorrelated","corr":null,"offset":0,"path":"","rule":"limit"`}} {
		const fixed = 8 + 2 + 5 // V1, key 99, head of the text
		b := append([]byte{0xa3}, vector(t, "V1").Octets[1:]...)
		b = append(b, 0x18, 99, 0x7a, 0, 0, 0, 0)
		n := tt.size - fixed
		b[len(b)-4], b[len(b)-3], b[len(b)-2], b[len(b)-1] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
		b = append(b, bytes.Repeat([]byte{'x'}, n)...)
		if n < 1<<16 { // the head of three octets
			b = append(append([]byte{}, b[:10]...), append([]byte{0x79, byte((n + 2) >> 8), byte(n + 2)}, bytes.Repeat([]byte{'x'}, n+2)...)...)
		}
		if len(b) != tt.size {
			t.Fatalf("payload of %d octets, want %d", len(b), tt.size)
		}
		r := probeIn(string(b), "decode", "-o", "json", "--binary", "-")
		if !strings.Contains(r.stdout, tt.want) {
			t.Errorf("%d octets: %.300s", tt.size, r.stdout)
		}
	}
}

// Text and diagnostic output of one payload of each kind, and of refusals.
func TestDecodeGolden(t *testing.T) {
	for _, name := range []string{"V2", "V6", "V8", "V11", "V12", "F2", "F3", "F66-name", "F45-announce"} {
		hex := vector(t, name).Octets.String()
		var b strings.Builder
		for _, format := range []string{"table", "diag", "hex"} {
			fmt.Fprintf(&b, "$ decode -o %s\n%s", format, probe("decode", "-o", format, hex).ok(t).stdout)
		}
		golden(t, "decode/"+name+".txt", b.String())
	}
	for _, name := range []string{"N3", "N4", "N6", "N11", "N17", "N25", "F13-nothing", "F05-octets-2e63", "F07-depth-9", "F04-corr-indefinite"} {
		v := vector(t, name)
		var b strings.Builder
		for _, format := range []string{"table", "diag", "hex"} {
			r := probe("decode", "-o", format, "--type", strconv.Itoa(int(v.FrameType)), v.Octets.String())
			fmt.Fprintf(&b, "$ decode -o %s\n%s%s", format, r.stdout, r.stderr)
			if r.code != exitProtocol {
				t.Errorf("%s: exit %d", name, r.code)
			}
		}
		golden(t, "decode/"+name+".txt", b.String())
	}
}

// The dump of a large payload shows the neighbourhood of the fault alone.
func TestDumpIsBounded(t *testing.T) {
	b := []byte{0xa3, 0x00, 0x19, 0x01, 0x01, 0x01, 0x41, 0x01, 0x02, 0x9a, 0, 0x01, 0, 0}
	for range 1 << 16 {
		b = append(b, 0xf6)
	}
	r := probeIn(string(b), "decode", "--binary", "-o", "diag", "-")
	if n := len(r.lines()); r.code != exitProtocol || n > 2*dumpContext+12 {
		t.Errorf("exit %d, %d lines", r.code, n)
	}
	b = append(bytes.Repeat([]byte{0xf5}, 0), b...)
	b[len(b)-1] = 0xf8 // the fault at the far end
	r = probeIn(string(b), "decode", "--binary", "-o", "diag", "-")
	if n := len(r.lines()); r.code != exitProtocol || n > 2*dumpContext+12 || !strings.Contains(r.stdout, "<--") {
		t.Errorf("exit %d, %d lines, fault not shown:\n%s", r.code, n, r.stdout)
	}
}

// F66: a peer's text drives no terminal, in any format, and JSON holds its true
// value.
//
// Covers: C28, DASP-015-01, DGP-15-02
func TestDecodeHostileText(t *testing.T) {
	const hostile = "\x1b]0;x\x07ok\u202e\u0085\u2028\U000e0001\x7f"
	v := vector(t, "F66-name")
	payloads := map[string][]byte{
		"name":   v.Octets,
		"label":  resultOf(rawRecord("410a", 3, hostile, "a2006174"+"0101")),
		"schema": resultOf(rawRecord("410b", 3, "", "a3006174"+"0101"+"03"+hexText(hostile))),
		"method": resultOf(rawRecord("410c", 1, "", "a3000101010481"+hexText(hostile))),
		"agent":  resultOf(rawRecord("410d", 4, "", "a200"+hexBytes(hostile)+"018101")),
		"reason": unhex("a4001901020141010205" + "03" + hexText(hostile)),
		"prefix": unhex("a300190100014101" + "04" + hexText(hostile)),
		"cut":    append(unhex("a300190100014101"+"04"+hexText(hostile)), 0),
	}
	for name, p := range payloads {
		for _, format := range []string{"table", "json", "ndjson", "diag", "hex"} {
			r := probeIn(string(p), "decode", "--binary", "-o", format, "-")
			safe(t, name+" "+format+" stdout", r.stdout)
			safe(t, name+" "+format+" stderr", r.stderr)
			if want := map[bool]int{true: exitProtocol, false: 0}[name == "cut"]; r.code != want {
				t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
			}
		}
	}
	var got struct {
		Message struct{ Records []struct{ Label string } }
	}
	probeIn(string(payloads["label"]), "decode", "--binary", "-o", "json", "-").ok(t).decode(t, &got)
	if got.Message.Records[0].Label != hostile {
		t.Errorf("label %q, want %q", got.Message.Records[0].Label, hostile)
	}
}

// F09: a revision above 2^53 is exact.
func TestDecodeRevision(t *testing.T) {
	r := probe("decode", "-o", "json", vector(t, "F09-max").Octets.String()).ok(t)
	if !strings.Contains(r.stdout, `"revision":"18446744073709551615"`) {
		t.Error(r.stdout)
	}
}

// The environment gives the format that -o does not.
func TestOutputEnvironment(t *testing.T) {
	v1 := vector(t, "V1").Octets.String()
	t.Setenv(outputEnv, "hex")
	if r := probe("decode", v1).ok(t); r.stdout != v1+"\n" {
		t.Errorf("stdout %q", r.stdout)
	}
	if r := probe("decode", "-o", "json", v1).ok(t); !strings.HasPrefix(r.stdout, `{"v":1,`) {
		t.Errorf("-o does not outrank the environment: %q", r.stdout)
	}
	t.Setenv(outputEnv, "xml")
	if r := probe("decode", v1); r.code != exitUsage || !strings.Contains(r.stderr, outputEnv) {
		t.Errorf("exit %d, %q", r.code, r.stderr)
	}
}

// Building payloads for these tests by hand.

func unhex(s string) []byte {
	var h testvectors.Hex
	if err := h.UnmarshalText([]byte(s)); err != nil {
		panic(err)
	}
	return h
}

func hexText(s string) string  { return hexString(0x60, s) }
func hexBytes(s string) string { return hexString(0x40, s) }

func hexString(major int, s string) string {
	if len(s) < 24 {
		return fmt.Sprintf("%02x%x", major+len(s), s)
	}
	return fmt.Sprintf("%02x%02x%x", major+24, len(s), s)
}

func rawRecord(id string, kind int, label, body string) string {
	if label == "" {
		return "a400" + id + fmt.Sprintf("01%02x", kind) + "0201" + "04" + body
	}
	return "a500" + id + fmt.Sprintf("01%02x", kind) + "0201" + "03" + hexText(label) + "04" + body
}

func resultOf(record string) []byte { return unhex("a4001901010141010281" + record + "03f5") }
