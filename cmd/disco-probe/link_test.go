package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
)

// A running command, started by start.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	lines  chan string   // of standard output
	done   chan struct{} // closed at the end
	code   int           // after done
	stderr *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs the command until the test is over, or stop.
func start(t *testing.T, args ...string) *running {
	return startWith(t, func(*app) {}, strings.NewReader(""), args...)
}

func startWith(t *testing.T, change func(*app), stdin io.Reader, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pr, pw := io.Pipe()
	r := &running{t: t, cancel: cancel, lines: make(chan string, 1000), done: make(chan struct{}), stderr: new(syncBuffer)}
	go func() {
		defer close(r.lines)
		buf := make([]byte, 0, 4096)
		chunk := make([]byte, 4096)
		for {
			n, err := pr.Read(chunk)
			buf = append(buf, chunk[:n]...)
			for {
				i := bytes.IndexByte(buf, '\n')
				if i < 0 {
					break
				}
				r.lines <- string(buf[:i])
				buf = buf[i+1:]
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(r.done)
		a := newApp(stdin, pw, r.stderr)
		change(a)
		r.code = a.main(ctx, args)
		pw.Close()
	}()
	t.Cleanup(func() { r.stop() })
	return r
}

// line returns the next line of standard output.
func (r *running) line() string {
	r.t.Helper()
	select {
	case l, ok := <-r.lines:
		if !ok {
			r.t.Fatalf("standard output ended; stderr:\n%s", r.stderr)
		}
		return l
	case <-time.After(20 * time.Second):
		r.t.Fatalf("no line in 20 s; stderr:\n%s", r.stderr)
	}
	return ""
}

// rest returns the lines that are left once the command has ended.
func (r *running) rest() (lines []string) {
	r.t.Helper()
	r.wait()
	for l := range r.lines {
		lines = append(lines, l)
	}
	return lines
}

func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(20 * time.Second):
		r.t.Fatalf("did not end in 20 s; stderr:\n%s", r.stderr)
	}
	return r.code
}

// stop interrupts the command and waits for it.
func (r *running) stop() int {
	r.t.Helper()
	r.cancel()
	return r.wait()
}

// A served is a responder of the test's own, with its address.
type served struct {
	*running
	addr, identity, handle string
	records                int
}

func serve(t *testing.T, args ...string) served {
	t.Helper()
	r := start(t, append([]string{"serve", "-o", "json"}, args...)...)
	var v struct {
		V                                int
		Event, Addr, Transport, Identity string
		Handle                           string
		Records                          int
	}
	result{stdout: r.line()}.decode(t, &v)
	if v.V != 1 || v.Event != "listening" || (v.Transport == "quic") != slices.Contains(args, "quic") || v.Transport == "" {
		t.Fatalf("%+v", v)
	}
	return served{r, v.Addr, v.Identity, v.Handle, v.Records}
}

func sampleFile(t *testing.T) string {
	t.Helper()
	set, err := demoSet()
	if err != nil {
		t.Fatal(err)
	}
	var recs []record.Record
	for r := range set.Snapshot().All() {
		recs = append(recs, r)
	}
	return write(t, "sample.json", string(appendJSON(nil, versioned(field{"records", recordsJSON(recs)}))))
}

// The whole set, in every format, twice the same.
//
// A listing beyond the first window is granted room, unless nobody keeps to one.
//
// Covers: C62
func TestNoFlowControl(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"v":1,"records":[`)
	for i := range 15_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"record_id":"text:t%05d","kind":"tool","label":"A tool whose label is of some length","body":{"name":"tool.%05d","protocol_id":1}}`, i, i)
	}
	b.WriteString(`,{"record_id":"text:p","kind":"protocol","body":{"protocol_id":1,"carriage_class":1}}]}`)
	file := filepath.Join(t.TempDir(), "records.json")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{false, true} {
		flags := []string{"--generation", "3"}
		if off {
			flags = append(flags, "--no-flow-control")
		}
		s := serve(t, append(flags, "--records", file)...)
		r := probe(append([]string{"query", "--trace", "-o", "ndjson", s.addr}, flags...)...).ok(t)
		if n := strings.Count(r.stdout, "\n"); n != 15_002 {
			t.Fatalf("%d lines", n)
		}
		if granted := strings.Contains(r.stderr, "FLOW_UPDATE"); granted == off {
			t.Errorf("--no-flow-control %v: FLOW_UPDATE seen: %v", off, granted)
		}
	}
}

// Covers: DISC-6.1-01, DISC-6.2-02, DASP-015-01
func TestQuery(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	var doc struct {
		V       int
		Records []struct {
			ID string `json:"record_id"`
		}
		Meta struct {
			Complete, Tolerant bool
			Pages, Records     int
			Skipped            []any
			Digest             string
		}
	}
	r := probe("query", "-o", "json", s.addr).ok(t)
	r.decode(t, &doc)
	if doc.V != 1 || !doc.Meta.Complete || doc.Meta.Tolerant || doc.Meta.Pages != 1 || doc.Meta.Records != 8 || len(doc.Records) != 8 || doc.Meta.Skipped == nil || len(doc.Meta.Digest) != 64 {
		t.Errorf("%s", r.stdout)
	}
	for i := 1; i < len(doc.Records); i++ {
		if doc.Records[i-1].ID >= doc.Records[i].ID {
			t.Errorf("%s after %s", doc.Records[i].ID, doc.Records[i-1].ID)
		}
	}
	set, _ := demoSet()
	if want := fmt.Sprintf("%x", set.Digest()); doc.Meta.Digest != want {
		t.Errorf("digest %s, want %s", doc.Meta.Digest, want)
	}
	if again := probe("query", "-o", "json", "npamp://"+s.addr).ok(t); again.stdout != r.stdout {
		t.Error("two runs over one set differ")
	}
	for format, lines := range map[string]int{"table": 9, "ndjson": 9, "diag": 8, "hex": 8} {
		r := probe("query", "-o", format, s.addr).ok(t)
		if n := len(r.lines()); n != lines {
			t.Errorf("%s: %d lines, want %d", format, n, lines)
		}
		safe(t, format, r.stdout+r.stderr)
	}
	golden(t, "query.txt", probe("query", s.addr).ok(t).stdout)
	// What is printed can be served.
	again := serve(t, "--records", write(t, "again.json", r.stdout))
	if r2 := probe("query", "-o", "json", again.addr).ok(t); r2.stdout != r.stdout {
		t.Errorf("got  %s\nwant %s", r2.stdout, r.stdout)
	}
}

func TestQueryFilters(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"--kind", "tool"}, 4},
		{[]string{"--kind", "3,agent"}, 5},
		{[]string{"--kind", "tool", "--kind", "4"}, 5},
		{[]string{"--kind", "9"}, 0},
		{[]string{"--kind", "protocol", "--protocol", "a2a"}, 1},
		{[]string{"--protocol", "2", "--kind", "tool"}, 0},
		{[]string{"--prefix", "git.", "--kind", "tool"}, 3},
		{[]string{"--prefix", "", "--kind", "tool"}, 4},
		{[]string{"--prefix", "Git.", "--kind", "tool"}, 0},
		{[]string{"--tolerant"}, 8},
		{[]string{"--page"}, 8},
	} {
		r := probe(append([]string{"query", "-o", "hex", s.addr}, tt.args...)...).ok(t)
		if n := len(r.lines()); n != tt.want {
			t.Errorf("%q: %d records, want %d", tt.args, n, tt.want)
		}
	}
}

// A page that is not the last says so, and is no failure.
func TestQueryPage(t *testing.T) {
	var recs []string
	for i := range 1500 {
		recs = append(recs, tool(fmt.Sprintf("%04x", i), "1", fmt.Sprintf("t%d", i)))
	}
	s := serve(t, "--records", write(t, "many.json", nativeFile(recs...)))
	var doc struct {
		Meta struct {
			Complete       bool
			Records, Pages int
		}
	}
	probe("query", "-o", "json", "--page", s.addr).ok(t).decode(t, &doc)
	if doc.Meta.Complete || doc.Meta.Records != 1024 || doc.Meta.Pages != 1 {
		t.Errorf("%+v", doc)
	}
	probe("query", "-o", "json", s.addr).ok(t).decode(t, &doc)
	if !doc.Meta.Complete || doc.Meta.Records != 1500 || doc.Meta.Pages != 2 {
		t.Errorf("%+v", doc)
	}
}

// Whom to trust: --pin, --allow, and what stands against them.
//
// Covers: PEERHANDLE-4-01
func TestTrust(t *testing.T) {
	key := writeKey(t)
	s := serve(t, "--records", sampleFile(t), "--allow", key.handle, "--allow", strings.Repeat("ab", 32))
	for _, pin := range []string{s.identity, s.handle} {
		r := probe("query", "-o", "hex", "--identity", key.file, "--pin", pin, s.addr).ok(t)
		if strings.Contains(r.stderr, "no --pin") {
			t.Errorf("stderr %q", r.stderr)
		}
	}
	r := probe("query", "-o", "hex", "--identity", key.file, s.addr).ok(t)
	if !strings.Contains(r.stderr, s.identity) || !strings.Contains(r.stderr, s.handle) {
		t.Errorf("the peer is not named: %q", r.stderr)
	}
	for _, args := range [][]string{
		{"--identity", key.file, "--pin", key.handle}, // another peer
		{}, // not allowed
	} {
		r := probe(append([]string{"query", "-o", "json", s.addr}, args...)...)
		if r.code != exitConnect || !strings.Contains(r.stdout, `{"v":1,"error":{"exit":3,"message":`) {
			t.Errorf("%q: exit %d, %s %s", args, r.code, r.stdout, r.stderr)
		}
	}
}

type keyFile struct{ file, hex, handle string }

func writeKey(t *testing.T) keyFile {
	t.Helper()
	path := t.TempDir() + "/id.pem"
	probe("keygen", path).ok(t)
	k, err := readIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	pub := k.Public().(ed25519.PublicKey)
	return keyFile{path, fmt.Sprintf("%x", []byte(pub)), keys.PeerHandle(pub)}
}

// Each suite and generation alone; two ends without one in common do not meet.
func TestSuitesAndGenerations(t *testing.T) {
	file := sampleFile(t)
	for _, gen := range []string{"2", "3"} {
		for _, suite := range []string{"aes-256-gcm", "chacha20-poly1305"} {
			s := serve(t, "--records", file, "--generation", gen, "--suite", suite)
			r := probe("query", "-o", "hex", "--trace", s.addr).ok(t)
			if want := "n-pamp/" + gen + " "; !strings.Contains(r.stderr, want) || !strings.Contains(strings.ToLower(r.stderr), suite) {
				t.Errorf("generation %s, %s: %s", gen, suite, r.stderr)
			}
			for _, other := range [][]string{{"--generation", map[string]string{"2": "3", "3": "2"}[gen]}, {"--suite", map[string]string{"aes-256-gcm": "chacha20-poly1305", "chacha20-poly1305": "aes-256-gcm"}[suite]}} {
				if r := probe(append([]string{"query", s.addr}, other...)...); r.code != exitConnect {
					t.Errorf("generation %s, %s, client %q: exit %d, %s", gen, suite, other, r.code, r.stderr)
				}
			}
			s.stop()
		}
	}
}

// --trace names both ends and the suite, then has a line for each frame.
func TestTrace(t *testing.T) {
	s := serve(t, "--records", sampleFile(t), "--trace")
	r := probe("query", "-o", "hex", "--trace", s.addr).ok(t)
	lines := strings.Split(r.stderr, "\n")
	if !strings.Contains(lines[0], s.identity) || !strings.Contains(lines[0], "AES-256-GCM") {
		t.Errorf("first line %q", lines[0])
	}
	for _, want := range []string{"-> Control CLIENT_HELLO", "<- Control SERVER_AUTH", "-> Discovery DISCO_QUERY seq 0", "<- Discovery DISCO_RESULT seq 0", "corr "} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not in\n%s", want, r.stderr)
		}
	}
	s.stop()
	if log := s.stderr.String(); !strings.Contains(log, "<- Discovery DISCO_QUERY") || !strings.Contains(log, s.identity) {
		t.Errorf("server's trace:\n%s", log)
	}
	for _, l := range strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n") {
		if !strings.HasPrefix(l, "disco-probe: ") {
			t.Errorf("line %q", l)
		}
	}
}

// What cannot be reached, and what is asked for wrongly.
func TestQueryFails(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"127.0.0.1:1"}, exitConnect},
		{[]string{}, exitUsage},
		{[]string{"nonsense"}, exitUsage},
		{[]string{"npamp://host"}, exitUsage},
		{[]string{"http://host:1"}, exitUsage},
		{[]string{"host:1/path"}, exitUsage},
		{[]string{"--kind", "x", "127.0.0.1:1"}, exitUsage},
		{[]string{"--protocol", "x", "127.0.0.1:1"}, exitUsage},
		{[]string{"--prefix", "\xff", "127.0.0.1:1"}, exitUsage},
		{[]string{"--pin", "x", "127.0.0.1:1"}, exitUsage},
		{[]string{"--pin", "bciqaaaa", "127.0.0.1:1"}, exitUsage},
		{[]string{"--suite", "x", "127.0.0.1:1"}, exitUsage},
		{[]string{"--generation", "1", "127.0.0.1:1"}, exitUsage},
		{[]string{"--identity", "/none", "127.0.0.1:1"}, exitUsage},
		{[]string{"--tls-cert", "/none", "127.0.0.1:1"}, exitUsage},
		{[]string{"--tls-cert", "/none", "--tls-key", "/none", "127.0.0.1:1"}, exitUsage},
		{[]string{"--timeout", "-1s", "127.0.0.1:1"}, exitUsage},
		{[]string{"--timeout", "x", "127.0.0.1:1"}, exitUsage},
	} {
		r := probe(append([]string{"query"}, tt.args...)...)
		if r.code != tt.want || r.stdout != "" || !strings.HasPrefix(r.stderr, "disco-probe: ") {
			t.Errorf("%q: exit %d, want %d, stdout %q, stderr %q", tt.args, r.code, tt.want, r.stdout, r.stderr)
		}
	}
}

func TestServeFails(t *testing.T) {
	file := sampleFile(t)
	s := serve(t, "--records", file)
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{}, exitUsage},
		{[]string{"--records", "/none"}, exitUsage},
		{[]string{"--records", file, "--from", "x"}, exitUsage},
		{[]string{"--records", file, "--allow", "x"}, exitUsage},
		{[]string{"--records", file, "--agree", "1"}, exitUsage},
		{[]string{"--records", file, "--listen", s.addr}, exitLocal},
	} {
		r := probe(append([]string{"serve"}, tt.args...)...)
		if r.code != tt.want || r.stdout != "" {
			t.Errorf("%q: exit %d, want %d, stdout %q, stderr %q", tt.args, r.code, tt.want, r.stdout, r.stderr)
		}
	}
	if code := s.stop(); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
	if lines := s.rest(); len(lines) != 0 {
		t.Errorf("more than one line of standard output: %q", lines)
	}
}

// Serving text says the same on its one line, files may follow as arguments.
func TestServeText(t *testing.T) {
	r := start(t, "serve", "--records", sampleFile(t), write(t, "more.json", nativeFile(tool("0a", "1", "more"))))
	if l := r.line(); !strings.HasPrefix(l, "listening on 127.0.0.1:") || !strings.HasSuffix(l, " with 9 records") || !strings.Contains(l, " bciq") {
		t.Errorf("%q", l)
	}
}

// A one-way publication reaches the peer and asks for nothing.
//
// Covers: DISC-7.1-02
func TestAnnounce(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	file := sampleFile(t)
	if r := probe("announce", "-o", "json", s.addr, "--records", file).ok(t); r.stdout != `{"v":1,"announced":8,"frames":1}`+"\n" {
		t.Error(r.stdout)
	}
	if r := probe("announce", s.addr, "--records", file).ok(t); r.stdout != "announced 8 records in 1 frame\n" {
		t.Error(r.stdout)
	}
	if r := probe("announce", s.addr); r.code != exitUsage {
		t.Errorf("exit %d", r.code)
	}
	s.stop()
	if n := strings.Count(s.stderr.String(), "announced 8 records"); n != 2 {
		t.Errorf("%d announcements arrived:\n%s", n, s.stderr)
	}

	// Refused, it does not say that all is well, whether that comes before our
	// CLOSE or instead of its acknowledgement.
	s = serve(t, "--records", file, "--generation", "3", "--allow", strings.Repeat("ab", 32))
	for range 5 {
		r := probe("announce", s.addr, "--records", file)
		if r.code != exitConnect && !strings.Contains(r.stderr, "did not acknowledge") {
			t.Errorf("exit %d, %s %s", r.code, r.stdout, r.stderr)
		}
	}
}

// The demo shows what it says, in a few seconds, in every format.
func TestDemo(t *testing.T) {
	for _, gen := range []string{"2", "3"} {
		r := probe("demo", "--generation", gen).ok(t)
		for _, want := range []string{"responder ", "requester ", "n-pamp/" + gen, "AES-256-GCM", "8 records in 1 page, complete", "protocol ", "carriage_class ", "tool ", "agent ", "4 records, synced", "added ", "replaced ", "withdrawn ", "unsubscribe ", "closed "} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%q is not in\n%s", want, r.stdout)
			}
		}
		if n := strings.Count(r.stdout, "identity "); n != 2 {
			t.Errorf("%d identities", n)
		}
	}
	var doc struct {
		V      int
		Events []struct{ Event string }
	}
	probe("demo", "-o", "json").ok(t).decode(t, &doc)
	if doc.V != 1 || len(doc.Events) != 9 {
		t.Errorf("%+v", doc)
	}
	if n := len(probe("demo", "-o", "ndjson").ok(t).lines()); n != 9 {
		t.Errorf("%d lines", n)
	}
}

// An interrupt before anything was printed.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"query", "-o", "json", "127.0.0.1:1"}, strings.NewReader(""), &out, &errs)
	if code != exitInterrupted || !strings.Contains(out.String(), `{"v":1,"error":{"exit":130,"message":"interrupted"}}`) {
		t.Errorf("exit %d, %s", code, out.String())
	}
}

// classify gives each failure the status that the documentation promises.
func TestClassify(t *testing.T) {
	stale := &disco.PeerError{Code: disco.CodeStaleCursor}
	refused := &disco.PeerError{Code: disco.CodeFilterUnsupported, Reason: "no\x1b"}
	malformed := &disco.PayloadError{Code: disco.CodeMalformedPayload}
	for _, tt := range []struct {
		err  error
		exit int
		code disco.Code
	}{
		{nil, 0, 0},
		{refused, exitPeerError, disco.CodeFilterUnsupported},
		{stale, exitPeerError, disco.CodeStaleCursor},
		{&channel.IncompleteError{Cause: stale}, exitIncomplete, disco.CodeStaleCursor},
		{&channel.IncompleteError{Cause: fmt.Errorf("%w: MaxPages", channel.ErrLimit)}, exitIncomplete, 0},
		{&channel.IncompleteError{Cause: refused}, exitPeerError, disco.CodeFilterUnsupported},
		{&channel.IncompleteError{Cause: channel.ErrTimeout}, exitTimeout, 0},
		{&channel.IncompleteError{Cause: malformed}, exitProtocol, disco.CodeMalformedPayload},
		{&channel.IncompleteError{Cause: io.EOF}, exitConnect, 0},
		{fmt.Errorf("%w: MaxListLen", channel.ErrLimit), exitIncomplete, 0},
		{malformed, exitProtocol, disco.CodeMalformedPayload},
		{fmt.Errorf("%w: record 0b, kind 9", channel.ErrUnknownKind), exitProtocol, disco.CodeUnknownRecordKind},
		{&association.ProtocolError{Err: errors.New("x")}, exitProtocol, 0},
		{&association.PeerError{Code: 5}, exitConnect, 0},
		{association.ErrAuthentication, exitConnect, 0},
		{channel.ErrNotAdvertised, exitConnect, 0},
		{channel.ErrTimeout, exitTimeout, 0},
		{context.DeadlineExceeded, exitTimeout, 0},
		{io.EOF, exitConnect, 0},
		{errStdoutClosed, 0, 0},
		{usagef("x"), exitUsage, 0},
	} {
		got := classify(t.Context(), tt.err)
		if code := exitOf(t.Context(), got); code != tt.exit {
			t.Errorf("%v: exit %d, want %d", tt.err, code, tt.exit)
		}
		var f *failure
		if errors.As(got, &f) && f.code != tt.code {
			t.Errorf("%v: code %d, want %d", tt.err, f.code, tt.code)
		}
	}
	if got := classify(t.Context(), io.EOF); !errors.Is(got, io.EOF) || !strings.Contains(got.Error(), "peer closed") {
		t.Errorf("the peer's end: %v", got)
	}
}
