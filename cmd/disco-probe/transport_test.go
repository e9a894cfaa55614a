package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Whole runs of every command that makes associations, with the address as a URI,
// say the same over QUIC as over TCP.
//
// Covers: C57, CORE-10.2-01
func TestTransports(t *testing.T) {
	records := sampleFile(t)
	run := func(over string) (said []string) {
		s := serve(t, "--records", records, "--transport", over)
		uri := "npamp://" + s.addr
		tell := func(r result) {
			said = append(said, r.stdout)
			if r.code != 0 {
				t.Errorf("%s: exit %d: %s", over, r.code, r.stderr)
			}
		}
		tell(probe("query", "-o", "json", "--transport", over, "--pin", s.identity, uri))
		tell(probe("query", "--transport", over, "--generation", "2", "--suite", "chacha20-poly1305", "--kind", "tool", uri))
		tell(probe("watch", "--until-synced", "--transport", over, uri))
		tell(probe("announce", "-o", "json", "--records", records, "--transport", over, uri))
		tell(probeIn(`{"type":"0x0100","payload":"a20019010001410d"}`, "raw", "--quiet", "200ms", "--transport", over, uri))
		if !strings.Contains(s.stderr.String(), "announced 8 records") {
			t.Errorf("%s: the server heard no announcement: %s", over, s.stderr)
		}

		// The URI leads to the same handshake, with the same say.
		for _, args := range [][]string{{"query"}, {"watch", "--no-reconnect"}, {"raw"}, {"announce", "--records", records}} {
			r := probe(append(args, "--transport", over, "--pin", strings.Repeat("ab", 32), uri)...)
			if r.code != exitConnect || !strings.Contains(r.stderr, "not the one of --pin") {
				t.Errorf("%s %v with another pin: exit %d, %s", over, args, r.code, r.stderr)
			}
		}
		allowed := serve(t, "--records", records, "--transport", over, "--allow", strings.Repeat("ab", 32))
		if r := probe("query", "--transport", over, "npamp://"+allowed.addr); r.code != exitConnect {
			t.Errorf("%s: not of --allow: exit %d, %s", over, r.code, r.stderr)
		}
		return said
	}
	tcp, quic := run("tcp"), run("quic")
	if addr := regexp.MustCompile(`127\.0\.0\.1:\d+`); len(tcp) == len(quic) {
		for i := range tcp {
			if a, b := addr.ReplaceAllString(tcp[i], "ADDR"), addr.ReplaceAllString(quic[i], "ADDR"); a != b || a == "" {
				t.Errorf("over TCP:\n%s\nover QUIC:\n%s", a, b)
			}
		}
	}
}

// demo says the same over QUIC as over TCP, but for addresses and identities, in
// both generations.
//
// Covers: C57
func TestDemoTransports(t *testing.T) {
	changing := regexp.MustCompile(`127\.0\.0\.1:\d+|bciq[a-z2-7]+|[0-9a-f]{64}`)
	for _, generation := range []int{2, 3} {
		for _, format := range []string{"table", "json", "ndjson"} {
			var said []string
			for _, over := range []string{"tcp", "quic"} {
				r := probe("demo", "-o", format, "--transport", over, "--generation", fmt.Sprint(generation)).ok(t)
				if r.stderr != "" {
					t.Errorf("%s: %s", over, r.stderr)
				}
				said = append(said, changing.ReplaceAllString(r.stdout, "…"))
			}
			if said[0] != said[1] {
				t.Errorf("over TCP:\n%s\nover QUIC:\n%s", said[0], said[1])
			}
			if !strings.Contains(said[1], fmt.Sprintf("n-pamp/%d", generation)) && !strings.Contains(said[1], fmt.Sprintf(`"generation":%d`, generation)) {
				t.Errorf("generation %d is not to be seen:\n%s", generation, said[1])
			}
		}
	}
}

// The two do not mix, and there is no third.
//
// Covers: C57
func TestTransportMismatch(t *testing.T) {
	for over, other := range map[string]string{"tcp": "quic", "quic": "tcp"} {
		s := serve(t, "--records", sampleFile(t), "--transport", over)
		if r := probe("query", "--timeout", "300ms", "--transport", other, s.addr); r.code != exitConnect {
			t.Errorf("%s to %s: exit %d, %s", other, over, r.code, r.stderr)
		}
	}
	for _, name := range []string{"", "udp", "QUIC", "tcp,quic"} {
		if r := probe("query", "--transport", name, "127.0.0.1:1"); r.code != exitUsage || !strings.Contains(r.stderr, "tcp or quic") {
			t.Errorf("--transport %q: exit %d, %s", name, r.code, r.stderr)
		}
	}
}

// Checks of conform that lean on what is below: the end of associations, whole
// listings, many subscriptions, both ends at once.
//
// Covers: C57
func TestConformTransports(t *testing.T) {
	args := []string{"conform", "--self", "--transport", "quic"}
	for _, name := range []string{"reserved-types", "close", "both-directions", "paging", "page-size", "cursor-association",
		"subscribe-snapshot", "subscribe-bound", "unsubscribe-stops", "nothing-survives"} {
		args = append(args, "--check", name)
	}
	probe(args...).ok(t)
}
