package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/association"
)

// private checks that a file is for its owner alone, and returns it.
func private(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// --keylog appends the keys of both layers to a file for its owner alone, and
// warns each time.
func TestKeyLogFile(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	path := filepath.Join(t.TempDir(), "keys.log")
	if err := os.WriteFile(path, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := probe("query", "-o", "hex", "--keylog", path, s.addr).ok(t); !strings.Contains(r.stderr, path+" can read what is exchanged") {
			t.Errorf("no warning:\n%s", r.stderr)
		}
	}
	log := private(t, path)
	for prefix, want := range map[string]int{
		"# mine": 1, "CLIENT_TRAFFIC_SECRET_0 ": 2, "SERVER_TRAFFIC_SECRET_0 ": 2,
		"NPAMP_HANDSHAKE_KEY ": 4, "NPAMP_TRAFFIC_KEY ": 8, // Control and Discovery, both ways
	} {
		if n := strings.Count("\n"+log, "\n"+prefix); n != want {
			t.Errorf("%d lines %q, want %d:\n%s", n, prefix, want, log)
		}
	}
	if r := probe("query", "--keylog", t.TempDir(), s.addr); r.code != exitLocal {
		t.Errorf("a folder: exit %d, %s", r.code, r.stderr)
	}
}

// What --record writes reads back as the exchange that it was, from either end.
func TestRecordAndReplay(t *testing.T) {
	for _, gen := range []string{"2", "3"} {
		dir := t.TempDir()
		theirs, ours := filepath.Join(dir, "server.jsonl"), filepath.Join(dir, "client.jsonl")
		s := serve(t, "--records", sampleFile(t), "--generation", gen, "--record", theirs)
		probe("query", "-o", "hex", "--record", ours, "--kind", "tool", s.addr).ok(t)
		w := start(t, "watch", "--until-synced", s.addr)
		w.rest()
		s.stop()
		for path, want := range map[string][]string{
			ours:   {"n-pamp/" + gen + " AES-256-GCM, we are the client ", " -> Discovery DISCO_QUERY seq 0 ", `: kinds [3]`, " <- Discovery DISCO_RESULT ", ": records 4, complete true", " -> Control CLOSE ", " ended: association: closed"},
			theirs: {"we are the server " + s.identity, " <- Discovery DISCO_QUERY ", " -> Discovery DISCO_RESULT ", " <- Discovery DISCO_SUBSCRIBE ", ": records 8, complete true"},
		} {
			recording := private(t, path)
			r := probe("replay", path).ok(t)
			for _, text := range want {
				if !strings.Contains(r.stdout, text) {
					t.Errorf("generation %s: %q is not in\n%s", gen, text, r.stdout)
				}
			}
			if strings.Contains(r.stdout, "!!") || !strings.Contains(r.stderr, " 0 faults, 0 requests unanswered") {
				t.Errorf("%s%s", r.stdout, r.stderr)
			}
			// Each line is one object, in each format that has them.
			nd := probeIn(recording, "replay", "-o", "ndjson", "-").ok(t)
			if len(nd.lines()) != strings.Count(recording, "\n")+1 {
				t.Errorf("%d lines of %d", len(nd.lines()), strings.Count(recording, "\n"))
			}
			for _, l := range nd.lines() {
				if !json.Valid([]byte(l)) || !strings.HasPrefix(l, `{"v":1,`) {
					t.Errorf("line %q", l)
				}
			}
			var doc struct {
				Lines []struct{ Summary string }
				Meta  struct{ Frames, Faults int }
			}
			probe("replay", "-o", "json", path).ok(t).decode(t, &doc)
			if doc.Meta.Frames < 8 || doc.Meta.Faults != 0 || len(doc.Lines) != strings.Count(recording, "\n") {
				t.Errorf("%+v", doc.Meta)
			}
		}
	}
}

// A recording of what failed has the frames that there were, and why.
func TestRecordFailure(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	path := filepath.Join(t.TempDir(), "failed.jsonl")
	r := probe("query", "--record", path, "--trace", "--pin", strings.Repeat("ab", 32), s.addr)
	if r.code != exitConnect || !strings.Contains(r.stderr, "-> Control CLIENT_HELLO") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	out := probe("replay", path).ok(t).stdout
	for _, want := range []string{"-> Control CLIENT_HELLO", "<- Control SERVER_AUTH", "-> Control ERROR seq 0", ": 2 decrypt_failed", "failed: association: authentication failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// A deaf relay passes TCP on, and what the client sends no more once it is deaf.
func deafRelay(t *testing.T, to string, deaf *atomic.Bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			running.Go(func() { io.Copy(in, out); in.Close() })
			running.Go(func() {
				defer out.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := in.Read(buf)
					if err != nil {
						return
					}
					if !deaf.Load() {
						out.Write(buf[:n])
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// A peer of generation 3 that does not acknowledge CLOSE is no matter for people
// who asked for something else: it is said with --trace and written by --record.
//
// Covers: CORE-g3-04
func TestCloseIncompleteIsQuiet(t *testing.T) {
	var deaf atomic.Bool
	addr := deafRelay(t, hostScript(t, func(typ disco.Type, corr disco.Corr) []rawFrame {
		deaf.Store(true)
		return []rawFrame{payload(disco.TypeResult, corr, "a40019010101CORR0281"+plainTool+"03f5")}
	}), &deaf)
	path := filepath.Join(t.TempDir(), "x.jsonl")
	began := time.Now()
	r := probe("query", "-o", "hex", addr, "--record", path).ok(t)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	if strings.Contains(r.stderr, "acknowledge") || strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("stderr %q", r.stderr)
	}
	if !strings.Contains(private(t, path), `"close_incomplete":true}`) {
		t.Error("the recording does not say so")
	}
	deaf.Store(false)
	if r := probe("query", "-o", "hex", addr, "--trace").ok(t); !strings.Contains(r.stderr, "close_incomplete") {
		t.Errorf("--trace does not say so: %s", r.stderr)
	}
}

// Frames of handshakes wait for their associations, not for ever.
func TestHeldFrames(t *testing.T) {
	var errs bytes.Buffer
	a := newApp(nil, nil, &errs)
	o := &observer{app: a, trace: true, open: map[association.ID]int{}}
	for i := range maxHeld + 1 {
		f := association.TraceFrame{ID: association.ID{byte(i), byte(i >> 8)}, Plaintext: []byte{1}}
		f.Header.Type = 0x100
		o.frame(f)
	}
	if len(o.held) != maxHeld || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "00000000 <- Control CLIENT_HELLO") {
		t.Errorf("%d held, said:\n%s", len(o.held), errs.String())
	}
	o.failed(context.Canceled)
	if len(o.held) != 0 || strings.Count(errs.String(), "\n") != maxHeld+1 {
		t.Errorf("%d are still held", len(o.held))
	}
}

// Whoever is met first at an address is remembered, and another one refused.
//
// Covers: PEERHANDLE-4-01
func TestKnownPeers(t *testing.T) {
	first, second := writeKey(t), writeKey(t)
	file := filepath.Join(t.TempDir(), "known")
	records := sampleFile(t)
	s := serve(t, "--records", records, "--identity", first.file)
	r := probe("query", "-o", "hex", "--known-peers", file, "npamp://"+s.addr).ok(t)
	if !strings.Contains(r.stderr, first.handle+"), met at "+s.addr+" for the first time and written to "+file) {
		t.Errorf("stderr %q", r.stderr)
	}
	want := fmt.Sprintf("%s %s\n", s.addr, first.hex)
	if got := private(t, file); got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	r = probe("query", "-o", "hex", "--known-peers", file, s.addr).ok(t)
	if strings.Contains(r.stderr, "peer is") {
		t.Errorf("stderr %q", r.stderr)
	}
	s.stop()

	// Another one at the same address.
	other := serve(t, "--records", records, "--identity", second.file, "--listen", s.addr)
	for range 2 {
		r = probe("query", "-o", "json", "--known-peers", file, s.addr)
		for _, text := range []string{s.addr, first.hex, second.hex, second.handle, file, "HAS CHANGED"} {
			if !strings.Contains(r.stderr, text) {
				t.Errorf("%q is not in %q", text, r.stderr)
			}
		}
		if r.code != exitConnect || !strings.Contains(r.stdout, `"exit":3`) || private(t, file) != want {
			t.Errorf("exit %d, %s, the file is %q", r.code, r.stdout, private(t, file))
		}
	}
	// A comment, a second identity for the address as PeerHandle, no last newline.
	if err := os.WriteFile(file, []byte("# people\n\n"+want+strings.ToUpper(s.addr)+" "+second.handle), 0o644); err != nil {
		t.Fatal(err)
	}
	probe("query", "-o", "hex", "--known-peers", file, s.addr).ok(t)
	third := serve(t, "--records", records)
	probe("query", "-o", "hex", "--known-peers", file, "--pin", third.identity, third.addr).ok(t)
	if got, want := private(t, file), "# people\n\n"+want+strings.ToUpper(s.addr)+" "+second.handle+"\n"+third.addr+" "+third.identity+"\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	other.stop()

	for _, bad := range []string{"one-word\n", "a:1 notakey\n", "a:1 " + first.hex + " more\n"} {
		if r := probe("query", "--known-peers", write(t, "bad", bad), third.addr); r.code != exitUsage || !strings.Contains(r.stderr, "line 1: ") {
			t.Errorf("%q: exit %d, %s", bad, r.code, r.stderr)
		}
	}
	if r := probe("query", "--known-peers", "/none/known", third.addr); r.code != exitLocal || !strings.Contains(r.stderr, "cannot be remembered") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
}

// A watch does not go on with another one in the peer's place, but where TLS is
// concerned who is known needs no certificate.
func TestKnownPeersWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	records := sampleFile(t)
	s := serve(t, "--records", records)
	w := startWith(t, func(a *app) { a.backoff = func(int) time.Duration { return time.Millisecond } }, strings.NewReader(""), "watch", "--known-peers", file, s.addr)
	for range 8 {
		w.event("snapshot")
	}
	w.event("synced")
	s.stop()
	serve(t, "--records", records, "--listen", s.addr)
	rest := w.rest()
	if w.code != exitConnect || !strings.Contains(rest[len(rest)-1], `"event":"ended","reason":"lost"`) || !strings.Contains(w.stderr.String(), "HAS CHANGED") {
		t.Errorf("exit %d, %q, %s", w.code, rest, w.stderr)
	}

	known := write(t, "known", "example.com:1 "+strings.Repeat("ab", 32)+"\n")
	for addr, verified := range map[string]bool{"example.com:1": false, "example.com:2": true} {
		d, err := newApp(nil, nil, nil).newDialer(addr, &linkFlags{known: known})
		if err != nil {
			t.Fatal(err)
		}
		if d.cfg.TLS.InsecureSkipVerify == verified {
			t.Errorf("%s: verified %v, want %v", addr, !verified, verified)
		}
	}
}
