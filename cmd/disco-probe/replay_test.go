package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/npamp/disco/testvectors"
)

// A tape is a recording made by hand.
type tape struct {
	b   strings.Builder
	seq map[string]int
}

const tapeID = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func newTape(generation int) *tape {
	t := &tape{seq: map[string]int{}}
	fmt.Fprintf(&t.b, `{"v":1,"event":"association","id":"%s","generation":%d,"suite":"AES-256-GCM","role":"client","identity":"01","peer":"02","local":"a:1","remote":"b:2"}`+"\n", tapeID, generation)
	return t
}

// add adds a frame of Discovery; dir is in or out.
func (t *tape) add(dir string, typ uint16, payload string) *tape {
	return t.frame(dir, 0x10, typ, payload)
}

func (t *tape) frame(dir string, ch, typ uint16, payload string) *tape {
	key := fmt.Sprint(dir, ch)
	corr := ""
	if f := (rawFrame{payload: unhex(payload)}); ch == 0x10 && typ >= 0x30 {
		if o := receivedJSON(f); o[3].key == "corr" {
			corr = fmt.Sprintf(`"corr":"%x",`, string(o[3].val.(octets)))
		}
	}
	fmt.Fprintf(&t.b, `{"v":1,"dir":"%s","id":"%s","channel":"0x%04x","type":"0x%04x","flags":2,"seq":%d,"ratchet":0,"epoch":0,%s"payload":"%s"}`+"\n",
		dir, tapeID, ch, typ, t.seq[key], corr, payload)
	t.seq[key]++
	return t
}

const (
	tapeQuery     = "a200190100014101"
	tapeSubscribe = "a200190104014105"
	tapeUpdate    = "a3001901050141050281a400410a0103020104a20061740101" // record 0a at revision 1
	tapeSnapshot  = "a400190101014105028003f5"
	tapeEmpty     = "a400190101014101028003f5"
)

// Each rule that replay knows can be broken, in either direction.
//
// Covers: DISC-4.2-05, DISC-4.2-07, DISC-4.3-01, DISC-4.3-02, DISC-6.1-06, DISC-6.2-05, DISC-7.2-07, DISC-5-07
func TestReplayFaults(t *testing.T) {
	other := func(dir string) string { return map[string]string{"in": "out", "out": "in"}[dir] }
	for _, tt := range []struct {
		rule string // none: no fault
		tape func(ask, answer string) *tape
	}{
		{"", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty)
		}},
		{"", func(ask, answer string) *tape { // both ask under one corr
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x100, tapeQuery).add(ask, 0x101, tapeEmpty).add(answer, 0x101, tapeEmpty)
		}},
		{"", func(ask, answer string) *tape { // pages on request, and pushed
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, "a500190101014101028003f404417a").
				add(ask, 0x100, "a30019010001410106417a").add(answer, 0x101, "a500190101014101028003f404417b").add(answer, 0x101, tapeEmpty)
		}},
		{"", func(ask, answer string) *tape { // a corr that is free again
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x102, "a3001901020141010207").add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty)
		}},
		{"", func(ask, answer string) *tape { // an UPDATE under way when it was given up
			return newTape(2).add(ask, 0x104, tapeSubscribe).add(answer, 0x101, tapeSnapshot).add(ask, 0x106, "a200190106014105").add(answer, 0x105, tapeUpdate)
		}},
		{"", func(ask, answer string) *tape {
			return newTape(2).add(answer, 0x103, "a2001901030280").add(ask, 1, "00")
		}},
		{"shortest-form", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, "a2001a00000100014101").add(answer, 0x102, "a3001901020141010201")
		}},
		{"float-form", func(ask, answer string) *tape { // F3: its float is malformed in generation 3 alone
			return newTape(3).add(ask, 0x100, "a3001901000141011863a32001616102617af93e00")
		}},
		{"record-kind", func(ask, answer string) *tape { // of a query that is not tolerant
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, "a4001901010141010281"+unknownKind+"03f5")
		}},
		{"frame-type", func(ask, answer string) *tape { return newTape(2).add(ask, 0x107, tapeQuery) }},
		{"tlv", func(ask, answer string) *tape { return newTape(2).add(ask, 0x100, "80010000"+tapeQuery) }},
		{"unasked", func(ask, answer string) *tape { return newTape(2).add(answer, 0x101, tapeEmpty) }},
		{"unasked", func(ask, answer string) *tape { // by its own side
			return newTape(2).add(ask, 0x100, tapeQuery).add(ask, 0x101, tapeEmpty)
		}},
		{"unasked", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, "a200190100014105").add(answer, 0x105, tapeUpdate)
		}},
		{"answered-again", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty).add(answer, 0x101, tapeEmpty)
		}},
		{"answered-again", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x104, tapeSubscribe).add(answer, 0x101, tapeSnapshot).add(answer, 0x101, tapeSnapshot)
		}},
		{"corr-reused", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, tapeQuery).add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty)
		}},
		{"corr-reused", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x104, tapeSubscribe).add(answer, 0x101, tapeSnapshot).add(ask, 0x104, tapeSubscribe)
		}},
		{"filter-changed", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, "a500190101014101028003f404417a").add(ask, 0x100, "a4001901000141010281030641"+"7a")
		}},
		{"filter", func(ask, answer string) *tape { // asked for agents
			return newTape(2).add(ask, 0x100, "a300190100014101028104").add(answer, 0x101, "a4001901010141010281"+plainTool+"03f5")
		}},
		{"revision", func(ask, answer string) *tape { // replaced by itself
			return newTape(2).add(ask, 0x104, tapeSubscribe).add(answer, 0x101, tapeSnapshot).add(answer, 0x105, tapeUpdate).add(answer, 0x105, tapeUpdate)
		}},
		{"revision", func(ask, answer string) *tape { // other contents at revision 1
			return newTape(2).add(answer, 0x103, "a2001901030281a400410a0103020104a20061740101").add(answer, 0x103, "a2001901030281a400410a0103020104a20061750101")
		}},
		{"record-id", func(ask, answer string) *tape {
			return newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, "a4001901010141010282"+plainTool+plainTool+"03f5")
		}},
		{"announce-corr", func(ask, answer string) *tape { return newTape(2).add(answer, 0x103, "a30019010301410102"+"80") }},
		{"after-close", func(ask, answer string) *tape {
			return newTape(3).frame(ask, 0, 3, "").frame(answer, 0, 4, "").add(ask, 0x100, tapeQuery)
		}},
		{"sequence", func(ask, answer string) *tape {
			x := newTape(2).add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty)
			x.seq[ask+"16"] = 5
			return x.add(ask, 0x100, tapeQuery).add(answer, 0x101, tapeEmpty)
		}},
	} {
		for _, ask := range []string{"in", "out"} {
			x := tt.tape(ask, other(ask))
			r := probeIn(x.b.String(), "replay", "-")
			faults := 0
			var last string
			for _, l := range r.lines() {
				if rest, ok := strings.CutPrefix(l, "!! "); ok {
					faults++
					last, _, _ = strings.Cut(rest, ":")
				}
			}
			want, exit := 0, exitOK
			if tt.rule != "" {
				want, exit = 1, exitProtocol
			}
			if faults != want || last != tt.rule || r.code != exit {
				t.Errorf("%s, asked %s: %d faults %q, exit %d\n%s%s", tt.rule, ask, faults, last, r.code, r.stdout, r.stderr)
			}
		}
	}
}

// The recorded exchanges of testvectors, which are by the book but for the
// requests that provoke a refusal, replay as that.
func TestReplayVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	clean := 0
	for _, x := range set.Exchanges {
		r := newTape(2)
		for _, s := range x.Steps {
			if s.From == "" {
				continue
			}
			dir := "out"
			if s.From == testvectors.Responder {
				dir = "in"
			}
			r.add(dir, s.FrameType, hex.EncodeToString(s.Payload))
		}
		out := probeIn(r.b.String(), "replay", "-o", "ndjson", "-")
		if out.code == exitOK {
			clean++
		} else if out.code != exitProtocol {
			t.Errorf("%s: exit %d, %s", x.Name, out.code, out.stderr)
		}
		// A fault is the requester's: the responder is by the book.
		for _, l := range out.lines() {
			if strings.Contains(l, `"faults":[`) && strings.Contains(l, `"dir":"in"`) {
				t.Errorf("%s: %s", x.Name, l)
			}
		}
	}
	t.Logf("%d of %d exchanges have no fault", clean, len(set.Exchanges))
	if clean < len(set.Exchanges)/2 {
		t.Errorf("%d of %d exchanges have no fault", clean, len(set.Exchanges))
	}
}

// A file that is no recording is refused with the line that is not.
func TestReplayRefuses(t *testing.T) {
	good := newTape(2).add("out", 0x100, tapeQuery).b.String()
	facts, frame, _ := strings.Cut(good, "\n")
	for _, bad := range []string{
		"nonsense", "{}", `{"v":2}`, `{"v":1}`, `{"v":1,"event":"x"}`, frame, facts + "\n" + facts,
		facts + "\n" + strings.Replace(frame, "out", "up", 1), facts + "\n" + strings.Replace(frame, "0x0100", "256", 1),
		facts + "\n" + strings.Replace(frame, `"seq":0,`, "", 1), facts + "\n" + strings.Replace(frame, `"seq":0`, `"seq":-1`, 1),
		facts + "\n" + strings.Replace(frame, tapeID, "00", 1), facts + "\n" + strings.Replace(frame, `"flags":2`, `"flags":16`, 1),
		facts + "\n" + strings.Replace(frame, `"v":1`, `"v":1,"more":1`, 1), strings.Replace(facts, `"generation":2`, `"generation":1`, 1),
		strings.Replace(facts, "client", "both", 1), `{"v":1,"event":"ended","id":"` + tapeID + `","cause":"x"}`,
		`{"v":1,"v":1}`, "\xff",
	} {
		r := probeIn(bad, "replay", "-")
		if r.code != exitUsage || !strings.Contains(r.stderr, ": line ") {
			t.Errorf("%q: exit %d, %s", bad, r.code, r.stderr)
		}
	}
	if r := probe("replay", "/none"); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
	if r := probeIn(good, "replay", "-o", "hex", "-").ok(t); r.stdout != tapeQuery+"\n" {
		t.Errorf("%q", r.stdout)
	}
	if r := probeIn(good, "replay", "-").ok(t); !strings.Contains(r.stderr, "1 frame, 0 faults, 1 request unanswered") {
		t.Errorf("%q", r.stderr)
	}
}
