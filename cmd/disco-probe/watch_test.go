package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An event as a line of watch prints it.
type watchEvent struct {
	V       int
	Event   string
	Record  struct{ Revision string }
	Was     string
	ID      string `json:"record_id"`
	Records int
	Digest  string
	Reason  string
	Code    int
	Name    string
}

func (r *running) event(want string) watchEvent {
	r.t.Helper()
	l := r.line()
	var e watchEvent
	if err := json.Unmarshal([]byte(l), &e); err != nil {
		r.t.Fatalf("%q: %v", l, err)
	}
	if e.V != 1 || e.Event != want {
		r.t.Fatalf("%s, want event %s; stderr:\n%s", l, want, r.stderr)
	}
	return e
}

// ended expects the last line and the exit status.
func (r *running) ended(reason string, exit int) watchEvent {
	r.t.Helper()
	e := r.event("ended")
	if e.Reason != reason {
		r.t.Errorf("ended for %s, want %s", e.Reason, reason)
	}
	if more := r.rest(); len(more) != 0 {
		r.t.Errorf("lines after ended: %q", more)
	}
	if code := r.wait(); code != exit {
		r.t.Errorf("exit %d, want %d; stderr:\n%s", code, exit, r.stderr)
	}
	return e
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Snapshot, synced, then each change as the served file changes.
//
// Covers: DISC-7.2-02, DISC-7.2-03, DISC-7.2-04, DISC-7.2-05, DISC-8-01
func TestWatch(t *testing.T) {
	file := write(t, "a.json", nativeFile(tool("0a", "1", "a"), tool("0b", "1", "b")))
	s := serve(t, "--records", file, "--reload")
	w := start(t, "watch", "--count", "3", "--kind", "tool", s.addr)
	w.event("snapshot")
	w.event("snapshot")
	if e := w.event("synced"); e.Records != 2 || len(e.Digest) != 64 {
		t.Errorf("%+v", e)
	}
	rewrite(t, file, nativeFile(tool("0a", "1", "a"), tool("0b", "1", "b"), tool("0c", "1", "c")))
	w.event("added")
	rewrite(t, file, nativeFile(tool("0a", "1", "a2"), tool("0b", "1", "b"), tool("0c", "1", "c")))
	if e := w.event("replaced"); e.Was != "1" || e.Record.Revision != "2" {
		t.Errorf("%+v", e)
	}
	rewrite(t, file, nativeFile(tool("0a", "1", "a2"), tool("0c", "1", "c")))
	if e := w.event("withdrawn"); e.ID != "0b" {
		t.Errorf("%+v", e)
	}
	w.ended("count", 0)
}

// An empty set is synced too, and the digest is that of query.
//
// Covers: DISC-6.2-07
func TestWatchUntilSynced(t *testing.T) {
	s := serve(t, "--records", write(t, "a.json", nativeFile()))
	w := start(t, "watch", "--until-synced", s.addr)
	if e := w.event("synced"); e.Records != 0 || e.Digest != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("%+v", e)
	}
	w.ended("synced", 0)

	s = serve(t, "--records", sampleFile(t))
	w = start(t, "watch", "--until-synced", s.addr)
	for range 8 {
		w.event("snapshot")
	}
	digest := w.event("synced").Digest
	if r := probe("query", "-o", "json", s.addr).ok(t); !strings.Contains(r.stdout, `"digest":"`+digest+`"`) {
		t.Errorf("digest %s is not that of %s", digest, r.stdout)
	}
	w.ended("synced", 0)
	// The other forms, one event a line.
	for _, format := range []string{"table", "diag", "hex", "json"} {
		r := probe("watch", "--until-synced", "-o", format, s.addr).ok(t)
		if n := len(r.lines()); n != 10 {
			t.Errorf("%s: %d lines", format, n)
		}
		safe(t, format, r.stdout+r.stderr)
	}
}

// F65: whatever ends a watch, it says so, and a lost one is never 0.
func TestWatchEnds(t *testing.T) {
	file := sampleFile(t)
	s := serve(t, "--records", file)
	w := start(t, "watch", "--timeout", "300ms", "--prefix", "none", "--kind", "tool", s.addr)
	w.event("synced")
	w.ended("timeout", exitTimeout)

	w = start(t, "watch", "--kind", "agent", s.addr)
	w.event("snapshot")
	w.event("synced")
	w.cancel()
	w.ended("interrupted", exitInterrupted)

	w = start(t, "watch", "--no-reconnect", "--kind", "agent", s.addr)
	w.event("snapshot")
	w.event("synced")
	s.stop()
	w.ended("closed", exitConnect)

	// Nothing was ever there.
	r := probe("watch", s.addr)
	if r.code != exitConnect || !strings.Contains(r.stdout, `{"v":1,"error":{"exit":3,`) {
		t.Errorf("exit %d, %s", r.code, r.stdout)
	}
	for _, args := range [][]string{{"--count", "0"}, {"--count", "-1"}, {"--timeout", "-1s"}, {}} {
		args = append([]string{"watch"}, args...)
		if len(args) > 1 {
			args = append(args, s.addr)
		}
		if r := probe(args...); r.code != exitUsage {
			t.Errorf("%q: exit %d", args, r.code)
		}
	}
}

// A server that refuses our identity says so when the handshake is over for us.
// Nothing was ever there either: a watch does not dial again.
func TestWatchRefused(t *testing.T) {
	s := serve(t, "--records", sampleFile(t), "--allow", strings.Repeat("ab", 32))
	for _, generation := range []string{"2", "3"} {
		r := probe("watch", "--generation", generation, "--timeout", "5s", s.addr)
		if r.code != exitConnect || !strings.HasPrefix(r.stdout, `{"v":1,"error":{"exit":3,"message":"association: authentication failed: `) || len(r.lines()) != 1 {
			t.Errorf("generation %s: exit %d, %s %s", generation, r.code, r.stdout, r.stderr)
		}
	}
}

// F32, F43: a responder that restarts is found again, with its present set.
//
// Covers: DISC-8-05, DISC-8-07
func TestWatchReconnects(t *testing.T) {
	one := write(t, "one.json", nativeFile(tool("0a", "1", "a"), tool("0b", "7", "b")))
	s := serve(t, "--records", one)
	var attempts atomic.Int32
	quick := func(a *app) {
		a.backoff = func(int) time.Duration { attempts.Add(1); return time.Millisecond }
	}
	w := startWith(t, quick, strings.NewReader(""), "watch", "--count", "1", s.addr)
	w.event("snapshot")
	w.event("snapshot")
	w.event("synced")
	s.stop()
	if e := w.event("reset"); e.Reason != "closed" {
		t.Errorf("%+v", e)
	}
	for attempts.Load() < 5 { // one reset, however often the peer is not there
		runtime.Gosched()
	}
	two := write(t, "two.json", nativeFile(tool("0b", "3", "b")))
	s = serve(t, "--records", two, "--reload", "--listen", s.addr)
	if e := w.event("snapshot"); e.Record.Revision != "3" {
		t.Errorf("%+v", e)
	}
	if e := w.event("synced"); e.Records != 1 {
		t.Errorf("%+v", e)
	}
	rewrite(t, two, nativeFile())
	w.event("withdrawn")
	w.ended("count", 0)
}

// A reader that leaves ends the watch quietly.
func TestWatchStdoutClosed(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	errs := new(syncBuffer)
	a := newApp(strings.NewReader(""), &closedPipe{after: 3}, errs)
	if code := a.main(t.Context(), []string{"watch", s.addr}); code != 0 {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// Nor does it wait for something to say, where the system tells.
func TestWatchUnread(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the next write tells on this system")
	}
	s := serve(t, "--records", write(t, "a.json", nativeFile()))
	for _, args := range [][]string{{"watch", s.addr}, {"raw", s.addr}} {
		pr, pw, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stdin, stdinw := io.Pipe()
		errs := new(syncBuffer)
		done := make(chan int)
		go func() { done <- newApp(stdin, pw, errs).main(context.Background(), args) }()
		if args[0] == "watch" {
			pr.Read(make([]byte, 1000)) // synced
		}
		pr.Close()
		select {
		case code := <-done:
			if code != 0 || strings.Contains(errs.String(), "interrupted") {
				t.Errorf("%s: exit %d, %s", args[0], code, errs)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s did not end", args[0])
		}
		stdinw.Close()
		pw.Close()
	}
}

// F44: attempts to come back are spread and bounded.
func TestBackoff(t *testing.T) {
	seen := map[time.Duration]bool{}
	for n := range 40 {
		bound := min(30*time.Second, time.Second<<min(n+1, 10))
		for range 50 {
			d := backoff(n)
			if d < time.Second || d > bound {
				t.Fatalf("attempt %d: %v, want 1 s to %v", n, d, bound)
			}
			seen[d] = true
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d different waits of 2000", len(seen))
	}
}

// raw: frames in, frames out, nothing in between.
func TestRaw(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	script := strings.Join([]string{
		`{"type":"0x0100","payload":"a30019010001410102810` + `4"}`,
		`{"type":"query","payload":"a2001a00000100014102"}`,
		``,
		`{"wait":"10ms"}`,
		`{"type":"0x0107","payload":"a0"}`,
		`{"type":"DISCO_SUBSCRIBE","payload":"a300190104014105028104","flags":2}`,
		`{"type":262,"payload":"a200190106014105"}`,
	}, "\n")
	script = strings.Replace(script, `"type":262`, `"type":"262"`, 1)
	r := probeIn(script, "raw", "--quiet", "300ms", s.addr)
	if r.code != 0 {
		t.Fatalf("exit %d, %s", r.code, r.stderr)
	}
	lines := r.lines()
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), r.stdout)
	}
	var got struct {
		V                              int
		Dir, Type, Name, Corr, Payload string
	}
	for i, want := range []string{"DISCO_RESULT 01", "DISCO_ERROR 02", "DISCO_RESULT 05"} {
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got.V != 1 || got.Dir != "in" || got.Name+" "+got.Corr != want {
			t.Errorf("%s, want %s", lines[i], want)
		}
		probe("decode", "--type", got.Type, got.Payload).ok(t)
	}
	if want := `{"v":1,"event":"ended","sent":5,"received":3,"alive":true,"pong":true}`; lines[3] != want {
		t.Errorf("%s, want %s", lines[3], want)
	}
}

func TestRawRefuses(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	for _, line := range []string{
		`x`, `[]`, `{}`, `{"type":"query"}`, `{"payload":""}`, `{"type":"x","payload":""}`,
		`{"type":"0x0100","payload":"a"}`, `{"type":"0x0005","payload":""}`, `{"type":"query","payload":"","flags":3}`,
		`{"wait":"x"}`, `{"wait":"-1s"}`, `{"type":"query","payload":"","more":1}`,
	} {
		r := probeIn(line+"\n", "raw", "--quiet", "10ms", s.addr)
		if r.code != exitUsage || !strings.Contains(r.stderr, "line 1: ") || !strings.Contains(r.stdout, `"exit":2`) {
			t.Errorf("%s: exit %d, %s%s", line, r.code, r.stdout, r.stderr)
		}
	}
	if r := probe("raw", "--quiet", "0s", s.addr); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
}

// A script that does not end is ended by --timeout, a lost association by itself.
func TestRawEnds(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	pr, pw := io.Pipe()
	defer pw.Close()
	r := startWith(t, func(*app) {}, pr, "raw", "--timeout", "200ms", s.addr)
	if l := r.line(); l != `{"v":1,"event":"ended","sent":0,"received":0,"alive":true,"pong":true}` {
		t.Error(l)
	}
	if code := r.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	pr2, pw2 := io.Pipe()
	defer pw2.Close()
	r = startWith(t, func(*app) {}, pr2, "raw", s.addr)
	fmt.Fprintln(pw2, `{"type":"query","payload":"a200190100014101"}`)
	if l := r.line(); !strings.Contains(l, "DISCO_RESULT") {
		t.Error(l)
	}
	s.stop()
	if l := r.line(); l != `{"v":1,"event":"ended","sent":1,"received":1,"alive":false,"pong":false}` {
		t.Error(l)
	}
	if code := r.wait(); code != exitConnect {
		t.Errorf("exit %d", code)
	}
}
