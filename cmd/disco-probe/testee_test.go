package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/npamp/disco/testvectors"
)

// A runner drives a testee as a foreign one does: one process, strictly serial.
type runner struct {
	t      *testing.T
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	code   chan int
}

func startTestee(t *testing.T, generation int) *runner {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &runner{t, inW, outR, make(chan int, 1)}
	go func() {
		r.code <- run(context.Background(), []string{"testee", "--generation", strconv.Itoa(generation)}, inR, outW, io.Discard)
		outW.Close()
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return r
}

// A testeeAnswer is what came back: one of the three.
type testeeAnswer struct {
	Out     map[string]any
	Error   *string
	Skipped *string
}

// exchange sends one request and reads the answer.
func (r *runner) exchange(request []byte) testeeAnswer {
	r.t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(request)))
	if _, err := r.stdin.Write(append(b, request...)); err != nil {
		r.t.Fatal(err)
	}
	var head [4]byte
	if _, err := io.ReadFull(r.stdout, head[:]); err != nil {
		r.t.Fatal(err)
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(r.stdout, body); err != nil {
		r.t.Fatal(err)
	}
	var a testeeAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		r.t.Fatalf("%v: %s", err, body)
	}
	n := 0
	for _, there := range []bool{a.Out != nil, a.Error != nil && *a.Error != "", a.Skipped != nil && *a.Skipped != ""} {
		if there {
			n++
		}
	}
	if n != 1 {
		r.t.Fatalf("request %s: not one of out, error and skipped: %s", request, body)
	}
	return a
}

func (r *runner) ask(op string, in any) testeeAnswer {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"op": op, "in": in})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.exchange(b)
}

// end closes standard input and returns the exit status.
func (r *runner) end() int {
	r.t.Helper()
	r.stdin.Close()
	select {
	case code := <-r.code:
		return code
	case <-time.After(20 * time.Second):
		r.t.Fatal("testee does not end with standard input")
	}
	return 0
}

// same is the public runner's equality: text without case, numbers as float64,
// all else as it prints.
func same(want, got any) bool {
	w, ok := want.(string)
	g, isText := got.(string)
	if ok && isText {
		return strings.EqualFold(w, g)
	}
	return fmt.Sprint(want) == fmt.Sprint(got)
}

type corpusCase struct {
	TcID     int
	In       json.RawMessage
	Expected map[string]any
	Result   string
}

func corpusGroups(t *testing.T, name string) (groups []struct {
	Op    string
	Tests []corpusCase
}) {
	t.Helper()
	b, err := os.ReadFile(dataFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		TestGroups []struct {
			Op    string
			Tests []corpusCase
		}
	}
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	for _, g := range c.TestGroups {
		groups = append(groups, struct {
			Op    string
			Tests []corpusCase
		}{g.Op, g.Tests})
	}
	return groups
}

// Every case of both public corpora, over the pipes of the adapter contract: all
// of the core and of the bridge pass, none is skipped; the bodies of other
// channels are skipped, all of them.
//
// Covers: CONF-3-01, CORE-4.2-01, CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.4-02, CORE-7.1-01, CORE-7.2-01, CORE-7.4-01, CORE-7.5-01, BRIDGE-4-01, BRIDGE-4-02, BRIDGE-5-02, C63
func TestTesteeCorpora(t *testing.T) {
	core := map[string]int{"header.decode": 5, "header.encode": 1, "crc32c": 1, "tlv.decode": 2, "tlv.encode": 5,
		"aead.seal": 39, "aead.open": 40, "hkdf.expand": 163, "hkdf.expand_label": 6, "keys.derive_traffic": 5,
		"nonce.derive": 5, "frame.seal": 3, "frame.open": 6, "profile.check": 4}
	core3 := maps.Clone(core)
	core3["header.decode"], core3["tlv.decode"] = 6, 3
	for _, tt := range []struct {
		generation int
		file       string
		core       map[string]int
		coreCases  int
		bridge     map[string]int
		bridgeSum  int
		skipped    int
	}{
		{2, "vectors/conformance-corpus.json", core, 285,
			map[string]int{"bridge.envelope.decode": 16, "bridge.envelope.encode": 6, "bridge.correlate": 3}, 25, 158},
		{3, "generation3/vectors/conformance-corpus.json", core3, 287,
			map[string]int{"bridge.envelope.decode": 26, "bridge.envelope.encode": 16, "bridge.correlate": 5}, 47, 158},
	} {
		t.Run(strconv.Itoa(tt.generation), func(t *testing.T) {
			groups := corpusGroups(t, tt.file)
			r := startTestee(t, tt.generation)
			passed := map[string]int{}
			skipped := 0
			for _, g := range groups {
				for _, tc := range g.Tests {
					request, err := json.Marshal(map[string]any{"op": g.Op, "in": tc.In})
					if err != nil {
						t.Fatal(err)
					}
					a := r.exchange(request)
					if a.Skipped != nil {
						if !strings.HasSuffix(g.Op, ".body.decode") {
							t.Errorf("%s tc%d: skipped: %s", g.Op, tc.TcID, *a.Skipped)
						}
						skipped++
						continue
					}
					if judge := judgeCase(tc, a); judge != "" {
						t.Errorf("%s tc%d: %s", g.Op, tc.TcID, judge)
						continue
					}
					passed[g.Op]++
				}
			}
			if code := r.end(); code != 0 {
				t.Errorf("exit %d", code)
			}
			want, sum := maps.Clone(tt.core), 0
			for _, n := range tt.core {
				sum += n
			}
			if sum != tt.coreCases {
				t.Errorf("%d core cases expected, want %d", sum, tt.coreCases)
			}
			sum = 0
			for op, n := range tt.bridge {
				want[op] = n
				sum += n
			}
			if sum != tt.bridgeSum {
				t.Errorf("%d bridge cases expected, want %d", sum, tt.bridgeSum)
			}
			if !maps.Equal(passed, want) {
				t.Errorf("passed %v\nwant   %v", passed, want)
			}
			if skipped != tt.skipped {
				t.Errorf("%d skipped, want %d", skipped, tt.skipped)
			}
		})
	}
}

// judgeCase is the public runner's judgement; "" is a pass.
func judgeCase(tc corpusCase, a testeeAnswer) string {
	switch tc.Result {
	case "invalid":
		if a.Error == nil {
			return fmt.Sprintf("accepted: %v", a.Out)
		}
		return ""
	case "valid":
	default:
		return "result " + tc.Result
	}
	if a.Error != nil {
		return "error: " + *a.Error
	}
	for key, want := range tc.Expected {
		got, ok := a.Out[key]
		if !ok || !same(want, got) {
			return fmt.Sprintf("%s: got %v, want %v", key, got, want)
		}
	}
	return ""
}

// disco.payload.decode gives every golden payload the verdict of decode, and
// disco.payload.encode makes the octets again of each accepted one in which no
// key was passed over.
//
// Covers: DISC-4.1-03, DISC-4.1-06, DISC-4.2-01, DISC-4.2-02, C4
func TestTesteePayloads(t *testing.T) {
	runners := map[int]*runner{2: startTestee(t, 2), 3: startTestee(t, 3)}
	decoded, encoded := 0, 0
	for _, v := range payloads(t) {
		for _, gen := range v.Generations {
			in := map[string]any{"frameType": v.FrameType, "payload": v.Octets}
			if v.Tolerant != nil {
				in["tolerant"] = *v.Tolerant
			}
			a := runners[gen].ask("disco.payload.decode", in)
			decoded++
			if !v.Expect.OK {
				if name := "MalformedPayload KindMismatch UnknownRecordKind"; a.Error == nil ||
					!strings.HasPrefix(*a.Error, strings.Fields(name)[v.Expect.Code-1]+": ") {
					t.Errorf("%s, generation %d: %+v, want code %d", v.Name, gen, a, v.Expect.Code)
				}
				continue
			}
			got, _ := json.Marshal(a.Out)
			var want struct{ Message, Skipped any }
			json.Unmarshal(v.Expect.Message, &want.Message)
			json.Unmarshal(v.Expect.Skipped, &want.Skipped)
			wanted, _ := json.Marshal(map[string]any{"message": want.Message, "skipped": want.Skipped})
			if !bytes.Equal(got, wanted) {
				t.Errorf("%s, generation %d:\ngot  %s\nwant %s", v.Name, gen, got, wanted)
			}
			e := runners[gen].ask("disco.payload.encode", map[string]any{"message": a.Out["message"]})
			switch {
			case e.Error != nil: // accepted, but nothing that a sender may send
				if !slices.ContainsFunc([]string{"is not sent in an ANNOUNCE", "more than 128 octets", "at least one", "both empty", "must be 0 to 3", "must be 1 to 7"},
					func(why string) bool { return strings.Contains(*e.Error, why) }) {
					t.Errorf("%s, generation %d: %s", v.Name, gen, *e.Error)
				}
			case e.Out["payload"] == v.Octets.String():
				encoded++
			default: // a key that was passed over, a filter out of order, a record left out
				again := runners[gen].ask("disco.payload.decode", map[string]any{"frameType": v.FrameType, "payload": e.Out["payload"]})
				if !sameMessage(again.Out["message"], a.Out["message"]) {
					t.Errorf("%s, generation %d: %v encodes as %v, which is %v", v.Name, gen, a.Out["message"], e.Out["payload"], again)
				}
			}
		}
	}
	if decoded < 100 || encoded < 40 {
		t.Errorf("%d decoded, %d made again", decoded, encoded)
	}
}

// sameMessage compares two messages; the sets of a filter count as sets.
func sameMessage(a, b any) bool {
	norm := func(v any) string {
		m, _ := v.(map[string]any)
		m = maps.Clone(m)
		for _, key := range []string{"kinds", "protocol_ids"} {
			if set, ok := m[key].([]any); ok {
				set = slices.Clone(set)
				slices.SortFunc(set, func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
				m[key] = slices.CompactFunc(set, func(x, y any) bool { return fmt.Sprint(x) == fmt.Sprint(y) })
			}
		}
		out, _ := json.Marshal(m)
		return string(out)
	}
	return norm(a) == norm(b)
}

// The golden messages that an encoder makes are made octet for octet.
//
// Covers: DISC-4.1-03, DISC-4.1-04, DISC-4.1-05, DISC-4.2-01, DISC-6.2-01, DISC-9-01, CORE-11.9-01
func TestTesteeEncodesGolden(t *testing.T) {
	names := []string{"V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13", "F2"}
	vectors := payloads(t)
	for _, gen := range []int{2, 3} {
		r := startTestee(t, gen)
		for _, name := range names {
			v := vectors[slices.IndexFunc(vectors, func(v testvectors.Payload) bool { return v.Name == name })]
			a := r.ask("disco.payload.encode", map[string]any{"message": v.Expect.Message})
			if a.Error != nil || a.Out["payload"] != v.Octets.String() {
				t.Errorf("%s: %+v, want %v", name, a, v.Octets)
			}
		}
	}
}

// What an operation cannot do is an error of its own, and the next is answered.
//
// Covers: DISC-4.2-03, DISC-4.2-07, DISC-6.2-03, DISC-7.2-08, DISC-5-02, CORE-4.3-01, CORE-4.6-01, CORE-9-02
func TestTesteeRefuses(t *testing.T) {
	r := startTestee(t, 3)
	two := startTestee(t, 2)
	header := `"magic":"NPAM","ver":2,"flags":%d,"frameType":%d,"channel":%d,"seq":0,"payloadLength":%d`
	for _, tt := range []struct{ request, want string }{
		{``, "no JSON"},
		{`[]`, "must be an object"},
		{`{"op":"crc32c"}`, "in is required"},
		{`{"in":{}}`, "op is required"},
		{`{"op":1,"in":{}}`, "op must be text"},
		{`{"op":"crc32c","op":"crc32c","in":{}}`, "twice"},
		{"{\"op\":\"crc32c\",\"in\":{\"octets\":\"\xff\"}}", "UTF-8"},
		{`{"op":"crc32c","in":{}}`, "in.octets is required"},
		{`{"op":"crc32c","in":{"octets":"0"}}`, "in.octets must be octets in hex"},
		{`{"op":"crc32c","in":{"octets":"text:a"}}`, "in.octets must be octets in hex"},
		{`{"op":"crc32c","in":[]}`, "in must be an object"},
		{`{"op":"header.decode","in":{"frame":""}}`, "shorter"},
		{`{"op":"header.decode","in":{"frame":"4e50414d2100010000000000000000000000000000` + crcOf(t, "4e50414d2100010000000000000000000000000000") + `"}}`, "reserved"},
		{`{"op":"header.encode","in":{` + fmt.Sprintf(header, 1, 1, 0, 0) + `}}`, "reserved"},
		{`{"op":"header.encode","in":{` + fmt.Sprintf(header, 16, 1, 0, 0) + `}}`, "flags must be at most 15"},
		{`{"op":"header.encode","in":{` + fmt.Sprintf(header, 2, 0, 0, 0) + `}}`, "0x0000"},
		{`{"op":"header.encode","in":{` + fmt.Sprintf(header, 2, 1, 65535, 0) + `}}`, "0xFFFF"},
		{`{"op":"header.encode","in":{` + fmt.Sprintf(header, 2, 1, 0, 16<<20) + `}}`, "payloadLength"},
		{`{"op":"header.encode","in":{"magic":"NPAX"}}`, "magic"},
		{`{"op":"tlv.decode","in":{"tlv":"0015"}}`, "truncated"},
		{`{"op":"tlv.decode","in":{"tlv":"0015000000"}}`, "1 octet after"},
		{`{"op":"tlv.encode","in":{"type":21,"value":"` + strings.Repeat("00", 65536) + `"}}`, "65535"},
		{`{"op":"aead.seal","in":{"suite":"AES-256-GCM","key":"` + strings.Repeat("00", 32) + `","nonce":"00","aad":"","pt":""}}`, "12 octets"},
		{`{"op":"aead.open","in":{"suite":"AES-256-GCM","key":"00","nonce":"` + strings.Repeat("00", 12) + `","aad":"","sealed":""}}`, "wrong length"},
		{`{"op":"aead.open","in":{"suite":"ROT13","key":"","nonce":"","aad":"","sealed":""}}`, "suite must be"},
		{`{"op":"hkdf.expand","in":{"hash":"sha256","prk":"","info":"","length":8161}}`, "too long"},
		{`{"op":"hkdf.expand","in":{"hash":"sha256","prk":"","info":"","length":18446744073709551615}}`, "length must be"},
		{`{"op":"hkdf.expand","in":{"hash":"md5","prk":"","info":"","length":1}}`, "hash must be"},
		{`{"op":"hkdf.expand","in":{"hash":"sha256","prk":"","info":"","length":-1}}`, "integer"},
		{`{"op":"hkdf.expand","in":{"hash":"sha256","prk":"","info":"","length":1.5}}`, "integer"},
		{`{"op":"keys.derive_traffic","in":{"profile":"Standard","master":"00","dir":0,"epoch":0,"suite":1,"channel":0}}`, "1 octets, not 32"},
		{`{"op":"keys.derive_traffic","in":{"profile":"Low","master":"","dir":0,"epoch":0,"suite":1,"channel":0}}`, "profile must be"},
		{`{"op":"keys.derive_traffic","in":{"profile":"Standard","master":"` + strings.Repeat("00", 32) + `","dir":0,"epoch":0,"suite":9,"channel":0}}`, "unknown AEAD"},
		{`{"op":"keys.derive_traffic","in":{"profile":"Standard","master":"","dir":2,"epoch":0,"suite":1,"channel":0}}`, "dir must be"},
		{`{"op":"nonce.derive","in":{"iv":"","seq":"0"}}`, "12 octets"},
		{`{"op":"frame.open","in":{"suite":"AES-256-GCM","ver":2,"flags":2,"frameType":256,"channel":1,"seq":7,"key":"` + strings.Repeat("00", 32) + `","iv":"` + strings.Repeat("00", 12) + `","sealed":"00"}}`, "authentication failed"},
		{`{"op":"profile.check","in":{"profile":"Standard","kem":"RSA"}}`, "kem must be"},
		{`{"op":"bridge.envelope.decode","in":{"frameType":262,"payload":""}}`, "not a Bridge frame type"},
		{`{"op":"bridge.envelope.encode","in":{"fields":{"frameType":256,"protocol_id":1,"message_kind":2,"content_type":1,"flags":0,"corr":"01","method":"","safety":null,"foreign":""}}}`, "message_kind"},
		{`{"op":"bridge.envelope.encode","in":{"fields":{"frameType":256,"protocol_id":1,"content_type":1,"flags":0,"corr":"01","method":"","safety":{"effect":1},"foreign":""}}}`, "safety.scope is required"},
		{`{"op":"bridge.envelope.encode","in":{"fields":{"frameType":256,"protocol_id":0,"content_type":1,"flags":0,"corr":"01","method":"","foreign":""}}}`, "protocol_id is 0"},
		{`{"op":"disco.payload.decode","in":{"frameType":263,"payload":""}}`, "none of Discovery's"},
		{`{"op":"disco.payload.decode","in":{"frameType":256,"payload":"","tolerant":1}}`, "tolerant must be"},
		{`{"op":"disco.payload.decode","in":{"frameType":256,"payload":"` + strings.Repeat("00", 65<<10) + `"}}`, "MalformedPayload: payload: limit"},
		{`{"op":"disco.payload.encode","in":{}}`, "in.message is required"},
		{`{"op":"disco.payload.encode","in":{"message":{}}}`, "message.frame_kind is required"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":263}}}`, "frame_kind must be"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":256}}}`, "corr must be"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":256,"corr":"01","extra":{}}}}`, "message.extra is not a field"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":256,"corr":"0"}}}`, "corr must be octets"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":257,"corr":"01","complete":true}}}`, "records is required"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":257,"corr":"01","records":[]}}}`, "complete is required"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":257,"corr":"01","records":[],"complete":false}}}`, "cursor must be"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":257,"corr":"01","records":[{"record_id":"01","kind":"tool","body":{"name":"x","protocol_id":1}}],"complete":true}}}`, "records[0] has no revision"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":257,"corr":"01","records":[{"record_id":"","kind":"tool","revision":"1","body":{"name":"x","protocol_id":1}}],"complete":true}}}`, "record_id"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":258,"corr":"01","code":8}}}`, "code must be"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":259,"corr":"01","records":[]}}}`, "corr is not sent"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":259,"records":[]}}}`, "at least one"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":261,"corr":"01"}}}`, "both empty"},
		{`{"op":"disco.payload.encode","in":{"message":{"frame_kind":261,"corr":"01","withdrawn":["text:a"]}}}`, "withdrawn[0] must be octets"},
	} {
		a := r.exchange([]byte(tt.request))
		if a.Error == nil || !strings.Contains(*a.Error, tt.want) {
			t.Errorf("%.120s: %+v, want an error with %q", tt.request, a, tt.want)
		}
	}
	if a := r.ask("memory.body.decode", map[string]any{}); a.Skipped == nil {
		t.Errorf("%+v", a)
	}
	// What generation 3 reserves is a flag in 2; a protocol_id is one octet there.
	encode := `{"op":"header.encode","in":{` + fmt.Sprintf(header, 1, 1, 0, 0) + `}}`
	if a := two.exchange([]byte(encode)); a.Out["frame"] != "4e50414d2100010000000000000000000000000000"+crcOf(t, "4e50414d2100010000000000000000000000000000") {
		t.Errorf("%+v", a)
	}
	if a := two.exchange([]byte(`{"op":"bridge.envelope.encode","in":{"fields":{"frameType":256,"protocol_id":256,"content_type":1,"flags":0,"corr":"01","method":"","foreign":""}}}`)); a.Error == nil {
		t.Errorf("%+v", a)
	}
}

// crcOf is the checksum of a header's first 21 octets and its reserved zeros.
func crcOf(t *testing.T, octets string) string {
	t.Helper()
	r := startTestee(t, 2)
	a := r.ask("crc32c", map[string]any{"octets": octets})
	return a.Out["crc32c"].(string) + strings.Repeat("00", 11)
}

// Framing that is lost ends the testee, without memory for what was declared.
func TestTesteeFraming(t *testing.T) {
	length := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	good := `{"op":"crc32c","in":{"octets":""}}`
	for _, tt := range []struct {
		name, in string
		code     int
		want     string
		answers  int
	}{
		{"nothing", "", 0, "", 0},
		{"one", length(uint32(len(good))) + good, 0, "", 1},
		{"cut length", "\x01\x00", exitProtocol, "inside a length", 0},
		{"cut body", length(100) + "{", exitProtocol, "1 of 100 octets", 0},
		{"cut after one", length(uint32(len(good))) + good + length(5), exitProtocol, "0 of 5 octets", 1},
		{"huge", length(1<<32-1) + good, exitProtocol, "4294967295 octets is declared", 0},
		{"bound", length(maxTesteeRequest) + "{", exitProtocol, "ends after 1", 0},
		{"bound+1", length(maxTesteeRequest+1) + "{", exitProtocol, "is declared", 0},
		{"empty", length(0) + length(uint32(len(good))) + good, 0, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := probeIn(tt.in, "testee")
			if r.code != tt.code || !strings.Contains(r.stderr, tt.want) {
				t.Errorf("exit %d, want %d; stderr %q", r.code, tt.code, r.stderr)
			}
			n := 0
			for b := []byte(r.stdout); len(b) >= 4; n++ {
				b = b[4+binary.LittleEndian.Uint32(b):]
			}
			if n != tt.answers {
				t.Errorf("%d answers, want %d: %q", n, tt.answers, r.stdout)
			}
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	probeIn(length(maxTesteeRequest)+"{", "testee")
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d octets allocated for one octet of a request", n)
	}
	if r := probe("testee", "--generation", "4"); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
}

// An interrupt ends a testee that waits for its next request.
func TestTesteeInterrupted(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	r := startWith(t, func(*app) {}, in, "testee")
	if code := r.stop(); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
}
