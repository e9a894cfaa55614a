package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/subscribe"
)

// host listens and hands every association to serve, until the test is over.
func host(t *testing.T, serve func(*association.Association)) (addr string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	l, err := association.Listen("127.0.0.1:0", &association.Config{Identity: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			as, err := l.Accept(ctx)
			if err != nil {
				return
			}
			serve(as)
			running.Go(func() {
				defer as.Close()
				select {
				case <-as.Done():
				case <-ctx.Done():
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		l.Close()
	})
	return l.Addr().String()
}

// hostPeer is a responder of the library, configured as a command cannot be.
func hostPeer(t *testing.T, cfg channel.Config) (addr string) {
	t.Helper()
	set, err := demoSet()
	if err != nil {
		t.Fatal(err)
	}
	hub := subscribe.NewHub(set)
	t.Cleanup(hub.Close)
	cfg.Hub = hub
	return host(t, func(as *association.Association) {
		if _, err := newPeer(as, cfg); err != nil {
			t.Error(err)
		}
	})
}

// A script answers each frame with the payloads that answer gives, whatever
// they are.
type script struct {
	*rawEndpoint
	tr     frame.Transport
	answer func(t disco.Type, corr disco.Corr) []rawFrame
}

func (s *script) Receive(f frame.Frame) {
	corr, _ := disco.ScanCorr(f.Payload)
	for _, out := range s.answer(disco.Type(f.Type), corr) {
		s.send(out)
	}
	s.tr.Wake()
}

func hostScript(t *testing.T, answer func(disco.Type, disco.Corr) []rawFrame) (addr string) {
	t.Helper()
	return host(t, func(as *association.Association) {
		tr, err := as.Transport(frame.ChannelDiscovery)
		if err != nil {
			t.Error(err)
			return
		}
		if err := tr.Start(&script{newRawEndpoint(), tr, answer}); err != nil {
			t.Error(err)
		}
	})
}

// payload makes a payload of hex in which CORR stands for the corr's encoding.
func payload(t disco.Type, corr disco.Corr, hex string) rawFrame {
	return rawFrame{frame.Type(t), unhex(strings.ReplaceAll(hex, "CORR", fmt.Sprintf("%02x%v", 0x40+len(corr), corr)))}
}

const (
	unknownKind = "a400410b0109020104a0"
	plainTool   = "a400410a0103020104a20061740101"
)

// Each way a responder can fail a query has its exit status, its code in JSON,
// and a sentence on standard error.
//
// Covers: DISC-5-05, DISC-5-06, DISC-6.3-03, DISC-9-01
func TestQueryExitCodes(t *testing.T) {
	reply := func(typ disco.Type, hex string) func(disco.Type, disco.Corr) []rawFrame {
		return func(_ disco.Type, corr disco.Corr) []rawFrame { return []rawFrame{payload(typ, corr, hex)} }
	}
	kind9 := hostScript(t, reply(disco.TypeResult, "a40019010101CORR0282"+plainTool+unknownKind+"03f5"))
	for _, tt := range []struct {
		name, addr string
		args       []string
		exit       int
		want       string
	}{
		{"a filter it lacks", hostPeer(t, channel.Config{Disabled: channel.FeatureNamePrefix}), []string{"--prefix", "x"}, exitPeerError, `"code":4,"name":"FilterUnsupported"`},
		{"discovery off", hostPeer(t, channel.Config{Disabled: channel.FeatureDiscovery}), nil, exitPeerError, `"code":7,"name":"NotAdvertised"`},
		{"a code nobody knows", hostScript(t, reply(disco.TypeError, "a30019010201CORR021863")), nil, exitPeerError, `"code":99,"name":"code(99)"`},
		{"stale for ever", hostScript(t, reply(disco.TypeError, "a30019010201CORR0205")), nil, exitIncomplete, `"code":5,"name":"StaleCursor"`},
		{"pages without end", hostScript(t, reply(disco.TypeResult, "a50019010101CORR028003f40441aa")), nil, exitIncomplete, `"exit":5`},
		{"malformed", hostScript(t, reply(disco.TypeResult, "a40019010101CORR02f603f5")), nil, exitProtocol, `"code":1,"name":"MalformedPayload"`},
		{"an unknown kind", kind9, nil, exitProtocol, `"code":3,"name":"UnknownRecordKind"`},
		{"silence", hostScript(t, func(disco.Type, disco.Corr) []rawFrame { return nil }), []string{"--timeout", "300ms"}, exitTimeout, `"exit":6`},
	} {
		r := probe(append([]string{"query", "-o", "json", tt.addr}, tt.args...)...)
		if r.code != tt.exit || !strings.Contains(r.stdout, tt.want) || !strings.Contains(r.stdout, fmt.Sprintf(`{"v":1,"error":{"exit":%d,`, tt.exit)) || len(r.lines()) != 1 {
			t.Errorf("%s: exit %d, want %d, %q\n%s%s", tt.name, r.code, tt.exit, tt.want, r.stdout, r.stderr)
		}
		if !strings.Contains(r.stderr, "disco-probe: ") {
			t.Errorf("%s: nothing for people", tt.name)
		}
	}
	r := probe("query", "-o", "json", "--tolerant", kind9).ok(t)
	if !strings.Contains(r.stdout, `"tolerant":true,"pages":1,"records":1,"skipped":[{"record_id":"0b","kind":9}]`) {
		t.Error(r.stdout)
	}
	if r := probe("query", "--tolerant", "--strict", kind9); r.code != exitIncomplete || !strings.Contains(r.stderr, "1 record of unknown kind skipped") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
}

// A watch that is refused, or cannot be read, says so last.
//
// Covers: DISC-7.2-02
func TestWatchExitCodes(t *testing.T) {
	snapshot := func(extra ...string) func(disco.Type, disco.Corr) []rawFrame {
		return func(typ disco.Type, corr disco.Corr) []rawFrame {
			if typ != disco.TypeSubscribe {
				return nil
			}
			out := []rawFrame{payload(disco.TypeResult, corr, "a40019010101CORR0282"+plainTool+unknownKind+"03f5")}
			for _, e := range extra {
				out = append(out, payload(disco.TypeError, corr, e))
			}
			return out
		}
	}
	w := start(t, "watch", hostPeer(t, channel.Config{Disabled: channel.FeatureSubscriptions}))
	if e := w.ended("error", exitPeerError); e.Code != 6 || e.Name != "SubscriptionRefused" {
		t.Errorf("%+v", e)
	}
	w = start(t, "watch", "--until-synced", "--strict", hostScript(t, snapshot()))
	w.event("snapshot")
	w.event("synced")
	w.ended("synced", exitIncomplete)

	// Refused while it lives; what came before may be overtaken by it.
	w = start(t, "watch", hostScript(t, snapshot("a30019010201CORR0201")))
	lines := w.rest()
	if last := lines[len(lines)-1]; w.code != exitPeerError || last != `{"v":1,"event":"ended","reason":"error","code":1,"name":"MalformedPayload"}` {
		t.Errorf("exit %d, %s", w.code, last)
	}
	w = start(t, "watch", hostScript(t, func(_ disco.Type, corr disco.Corr) []rawFrame {
		return []rawFrame{payload(disco.TypeResult, corr, "a40019010101CORR02f603f5")}
	}))
	if e := w.ended("error", exitProtocol); e.Code != 1 {
		t.Errorf("%+v", e)
	}
}

// An interrupt while the answer is awaited.
func TestQueryInterrupted(t *testing.T) {
	asked := make(chan struct{}, 1)
	addr := hostScript(t, func(disco.Type, disco.Corr) []rawFrame {
		signal1(asked)
		return nil
	})
	r := start(t, "query", "-o", "json", addr)
	<-asked
	if code := r.stop(); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if rest := r.rest(); len(rest) != 1 || !strings.Contains(rest[0], `"exit":130`) {
		t.Errorf("%q", rest)
	}
}

// F66: what a peer says drives no terminal, whatever the command, the format and
// the path it takes; JSON holds its true value.
//
// Covers: C28, DASP-015-01
func TestHostilePeer(t *testing.T) {
	const hostile = "\x1b]0;x\x07ok\u202e\u0085\u2028\U000e0001\x7f"
	rec := rawRecord("410a", 3, hostile, "a400"+hexText(hostile)+"01010200"+"03"+hexText(hostile))
	withMethods := rawRecord("410b", 1, hostile, "a3000101010481"+hexText(hostile))
	answer := func(typ disco.Type, corr disco.Corr) []rawFrame {
		switch typ {
		case disco.TypeQuery, disco.TypeSubscribe:
			return []rawFrame{payload(disco.TypeResult, corr, "a40019010101CORR0282"+rec+withMethods+"03f5")}
		}
		return nil
	}
	good := hostScript(t, answer)
	bad := hostScript(t, func(_ disco.Type, corr disco.Corr) []rawFrame {
		return []rawFrame{payload(disco.TypeError, corr, "a40019010201CORR020403"+hexText(hostile))}
	})
	for _, format := range []string{"table", "json", "ndjson", "diag", "hex"} {
		for _, args := range [][]string{
			{"query", good}, {"query", "--page", good}, {"query", bad},
			{"watch", "--until-synced", good}, {"watch", bad},
			{"query", "--kind", hostile, good}, {"watch", hostile}, {hostile},
			{"decode", hostile}, {"serve", "--records", hostile},
		} {
			r := probe(append(args, "-o", format, "--trace")...)
			if args[0] == "decode" || args[0] == hostile {
				r = probe(append(args, "-o", format)...)
			}
			safe(t, fmt.Sprintf("%q %s stdout", args, format), r.stdout)
			safe(t, fmt.Sprintf("%q %s stderr", args, format), r.stderr)
		}
	}
	var doc struct {
		Records []struct {
			Label string
			Body  struct{ Name, SchemaRef string }
		}
	}
	r := probe("query", "-o", "json", good).ok(t)
	r.decode(t, &doc)
	if doc.Records[0].Label != hostile || doc.Records[0].Body.Name != hostile {
		t.Errorf("%q", doc.Records[0])
	}
	// Served on, from what query printed, it is still the same.
	s := serve(t, "--records", write(t, "hostile.json", r.stdout))
	if again := probe("query", "-o", "json", s.addr).ok(t); again.stdout != r.stdout {
		t.Errorf("got  %s\nwant %s", again.stdout, r.stdout)
	}
	r = probe("query", "-o", "json", bad)
	var e struct{ Error struct{ Message string } }
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != exitPeerError {
		t.Errorf("exit %d, %v: %s", r.code, err, r.stdout)
	}
}

// TLS is verified but for a pin, --insecure-tls and this machine.
func TestTLSTrust(t *testing.T) {
	for _, tt := range []struct {
		addr   string
		link   linkFlags
		verify bool
	}{
		{"example.com:1", linkFlags{}, true},
		{"192.0.2.1:1", linkFlags{}, true},
		{"localhost.example.com:1", linkFlags{}, true},
		{"128.0.0.1:1", linkFlags{}, true},
		{"127.0.0.1:1", linkFlags{}, false},
		{"127.9.9.9:1", linkFlags{}, false},
		{"[::1]:1", linkFlags{}, false},
		{"[::ffff:127.0.0.1]:1", linkFlags{}, false},
		{"LocalHost:1", linkFlags{}, false},
		{"npamp://localhost:1", linkFlags{}, false},
		{"example.com:1", linkFlags{insecureTLS: true}, false},
		{"example.com:1", linkFlags{pin: strings.Repeat("ab", 32)}, false},
	} {
		d, err := newApp(nil, nil, nil).newDialer(tt.addr, &tt.link)
		if err != nil {
			t.Fatal(err)
		}
		if d.cfg.TLS.InsecureSkipVerify == tt.verify {
			t.Errorf("%s %+v: verified %v, want %v", tt.addr, tt.link, !tt.verify, tt.verify)
		}
	}
}

// A certificate of our own is what a server shows, and where it is not trusted
// the client says what to do.
func TestTLSRefused(t *testing.T) {
	s := serve(t, "--records", sampleFile(t))
	link := linkFlags{}
	d, err := newApp(nil, nil, new(syncBuffer)).newDialer(s.addr, &link)
	if err != nil {
		t.Fatal(err)
	}
	d.cfg.TLS.InsecureSkipVerify = false // as for any other host
	_, err = d.dial(t.Context())
	if exitOf(t.Context(), err) != exitConnect || !strings.Contains(err.Error(), "--pin") || !strings.Contains(err.Error(), "--insecure-tls") {
		t.Errorf("%v", err)
	}
}
