package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

// The failures seen in comparable systems that concern the command and its
// record files, by number. There is no importer yet: until there is one, those
// rows are about files that serve reads. What more the files are tested for is in
// records_test.go, watches in watch_test.go, text in decode_test.go.

// mcpTools is a tools/list result of n tools whose titles have some length.
func mcpTools(n, titleLen int, prefix string) string {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`{"name":"%s.%03d","title":%q}`, prefix, i, strings.Repeat("x", titleLen)))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

// Covers: F17, DISC-6.2-02
func TestF17EveryPageInTheCommand(t *testing.T) {
	var native []string
	for i := range 101 {
		native = append(native, fmt.Sprintf(`{"record_id":"%04x","kind":"tool","label":%q,"body":{"name":"n.%03d","protocol_id":1}}`, i, strings.Repeat("y", 5000), i))
	}
	for form, file := range map[string]string{
		"mcp":    write(t, "a.json", mcpTools(100, 5000, "m")), // and its protocol record
		"native": write(t, "b.json", nativeFile(native...)),
	} {
		s := serve(t, "--from", form, "--records", file)
		if s.records != 101 {
			t.Errorf("%s: %d records are served", form, s.records)
		}
		var whole struct {
			Records []json.RawMessage
			Meta    struct {
				Complete       bool
				Pages, Records int
				Digest         string
			}
		}
		probe("query", "-o", "json", s.addr).ok(t).decode(t, &whole)
		if len(whole.Records) != 101 || whole.Meta.Records != 101 || !whole.Meta.Complete || whole.Meta.Pages < 2 {
			t.Errorf("%s: query has %d records: %+v", form, len(whole.Records), whole.Meta)
		}
		var page struct {
			Records []json.RawMessage
			Meta    struct{ Complete bool }
		}
		probe("query", "--page", "-o", "json", s.addr).ok(t).decode(t, &page)
		if n := len(page.Records); n == 0 || n >= 101 || page.Meta.Complete {
			t.Errorf("%s: a page has %d records, complete: %v", form, n, page.Meta.Complete)
		}
		w := start(t, "watch", "--until-synced", s.addr)
		for range 101 {
			w.event("snapshot")
		}
		if e := w.event("synced"); e.Records != 101 || e.Digest != whole.Meta.Digest {
			t.Errorf("%s: watch: %+v", form, e)
		}
		w.ended("synced", 0)
		// What query prints can be served, all of it.
		again := serve(t, "--records", write(t, "c.json", probe("query", "-o", "json", s.addr).ok(t).stdout))
		if again.records != 101 {
			t.Errorf("%s: %d records are served again", form, again.records)
		}
	}
	// A list that is not whole is refused, not cut.
	part := write(t, "part.json", strings.TrimSuffix(mcpTools(50, 5, "p"), "}")+`,"nextCursor":"x"}`)
	if r := probe("serve", "--from", "mcp", "--records", part); r.code != exitUsage || !strings.Contains(r.stderr, "nextCursor") {
		t.Errorf("a first page: exit %d, %s", r.code, r.stderr)
	}
}

// Covers: F65
func TestF65WatchEndsWithAWord(t *testing.T) {
	s := serve(t, "--records", write(t, "a.json", nativeFile(tool("0a", "1", "a"))))
	w := start(t, "watch", "--no-reconnect", "-o", "ndjson", s.addr)
	w.event("snapshot")
	w.event("synced")
	s.stop()
	w.ended("closed", exitConnect)
	// With reconnecting, and with standard output closed: TestWatchReconnects,
	// TestWatchStdoutClosed and TestWatchUnread.
}

// Covers: F68, DISC-8-01
func TestF68PartialRead(t *testing.T) {
	sources := make([]string, 3)
	for i := range sources {
		sources[i] = write(t, fmt.Sprint("s", i, ".json"), mcpTools(2, 5, fmt.Sprint("s", i)))
	}
	l, notes := openFiles(t, "mcp", sources...)
	before := l.set.Digest()
	ids := func() (n int) {
		for range l.set.Snapshot().All() {
			n++
		}
		return n
	}
	if ids() != 9 {
		t.Fatalf("%d records", ids())
	}
	// One times out on page 2: what is there is a part.
	rewrite(t, sources[1], strings.TrimSuffix(mcpTools(1, 5, "s1"), "}")+`,"nextCursor":"2"}`)
	l.reload()
	if l.set.Digest() != before || len(*notes) != 1 || !strings.Contains((*notes)[0], "s1.json") {
		t.Errorf("a part replaced the whole: %d records, notes %q", ids(), *notes)
	}
	// It cannot be read at all.
	os.Remove(sources[1])
	l.reload()
	if l.set.Digest() != before {
		t.Errorf("a file that is gone took its records with it: %d", ids())
	}
	// It recovers with one tool gone: exactly that is withdrawn.
	var gone []record.ID
	_, stop := l.set.Watch(func(c *record.Change) {
		for _, d := range c.Deltas {
			if !d.Now.IsZero() {
				t.Errorf("%v changed", d.ID)
			}
			gone = append(gone, d.ID)
		}
	})
	defer stop()
	rewrite(t, sources[1], mcpTools(1, 5, "s1"))
	l.reload()
	if len(gone) != 1 || gone[0] != mcpRecordID("s1", "s1.001") || ids() != 8 {
		t.Errorf("withdrawn: %v, %d records", gone, ids())
	}
}

// Covers: F69, DISC-2-01
func TestF69FourKindsOfNothing(t *testing.T) {
	initialize := func(caps string) string {
		return `"initialize":{"capabilities":` + caps + `,"serverInfo":{"name":"s"}}`
	}
	said := map[string]string{}
	for name, c := range map[string]struct {
		file string
		fail bool
	}{
		"no capability": {`{` + initialize(`{"prompts":{}}`) + `}`, false},
		"an empty list": {`{` + initialize(`{"tools":{}}`) + `,"tools_list":{"tools":[]}}`, false},
		"an error":      {`{` + initialize(`{"tools":{}}`) + `,"tools_list":{"error":{"code":-32601,"message":"no"}}}`, true},
		"no list":       {`{` + initialize(`{"tools":{}}`) + `}`, true},
	} {
		path := write(t, "s.json", c.file)
		if c.fail {
			r := probe("serve", "--from", "mcp", "--records", path)
			if r.code != exitUsage || r.stdout != "" {
				t.Errorf("%s: exit %d, %s", name, r.code, r.stdout)
			}
			said[name] = r.stderr
			continue
		}
		s := serve(t, "--from", "mcp", "--records", path) // its protocol record is there
		if s.records != 1 {
			t.Errorf("%s: %d records", name, s.records)
		}
		said[name] = s.stderr.String()
	}
	seen := map[string]string{}
	for name, s := range said {
		if _, text, ok := strings.Cut(s, ".json: "); !ok || seen[text] != "" {
			t.Errorf("%s and %q say the same: %s", name, seen[text], s)
		} else {
			seen[text] = name
		}
	}

	// A peer that never advertised the channel answers nothing, and a set that is
	// empty is an answer.
	deaf := hostDeaf(t)
	r := probe("query", "--timeout", "300ms", deaf)
	if r.code != exitTimeout || r.stdout != "" {
		t.Errorf("not advertised: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
	empty := serve(t, "--records", write(t, "e.json", nativeFile()))
	if r := probe("query", "-o", "json", empty.addr).ok(t); !strings.Contains(r.stdout, `"records":[],`) || !strings.Contains(r.stdout, `"complete":true`) {
		t.Errorf("empty: %s", r.stdout)
	}
}

// hostDeaf is a peer that accepts nothing on the Discovery channel.
func hostDeaf(t *testing.T) (addr string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := association.Listen("127.0.0.1:0", &association.Config{Identity: key, Channels: []frame.ChannelID{frame.ChannelControl}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		as, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		defer as.Close()
		if _, err := newPeer(as, channel.Config{}); err != nil {
			t.Error(err)
			return
		}
		as.Wait()
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}
