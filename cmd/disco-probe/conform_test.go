package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
	"github.com/npamp/disco/testvectors"
)

// A bench is a responder of ours in memory, behind what a saboteur makes of its
// frames.
type bench struct {
	*target
	generation int
	set        *record.Set
	hub        *subscribe.Hub
	config     func(*channel.Config) // of every association
	sab        sabotage
	opened     int
	ends       []interface{ Close() error }
}

// A sabotage is what goes wrong between the responder and the network. Nil
// functions change nothing. All run on one goroutine at a time.
type sabotage struct {
	in, out                func(a *tampered, f rawFrame) []rawFrame // to the responder, from it
	ping, keyUpdate, close func(a *tampered) error
}

// A tampered transport is that of the responder, with the saboteur on it.
type tampered struct {
	frame.Transport
	bench *bench
	num   int
	cfg   channel.Config
	user  frame.Endpoint
	queue []rawFrame // to the requester
	deaf  atomic.Bool
}

func (t *tampered) Start(e frame.Endpoint) error {
	t.user = e
	return t.Transport.Start((*tamperedEnd)(t))
}

// reply has a frame sent to the requester.
func (t *tampered) reply(typ disco.Type, payload []byte) {
	t.queue = append(t.queue, rawFrame{frame.Type(typ), payload})
	t.Transport.Wake()
}

type tamperedEnd tampered

func (e *tamperedEnd) Receive(f frame.Frame) {
	t := (*tampered)(e)
	if t.deaf.Load() {
		return
	}
	frames := []rawFrame{{f.Type, slices.Clone(f.Payload)}}
	if t.bench.sab.in != nil {
		frames = t.bench.sab.in(t, frames[0])
	}
	for _, g := range frames {
		t.user.Receive(frame.Frame{Type: g.typ, Flags: f.Flags, Seq: f.Seq, Payload: g.payload})
	}
}

func (e *tamperedEnd) Append(b []byte) ([]byte, frame.Type, bool) {
	t := (*tampered)(e)
	for len(t.queue) == 0 {
		out, typ, ok := t.user.Append(b)
		if !ok {
			return b, 0, false
		}
		frames := []rawFrame{{typ, slices.Clone(out[len(b):])}}
		if t.bench.sab.out != nil {
			frames = t.bench.sab.out(t, frames[0])
		}
		t.queue = append(t.queue, frames...)
	}
	f := t.queue[0]
	t.queue = t.queue[1:]
	return append(b, f.payload...), f.typ, true
}

func (e *tamperedEnd) Written()           { e.user.Written() }
func (e *tamperedEnd) Closed(cause error) { e.user.Closed(cause) }

// newBench makes a responder; with hooks, its owner's are there for the checks.
func newBench(t *testing.T, generation int, hooks bool) *bench {
	t.Helper()
	set, err := conformSet()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{generation: generation, set: set, hub: subscribe.NewHub(set)}
	b.target = &target{name: "the bench", open: b.open}
	if hooks {
		b.target.set = set
	} else {
		b.interval, b.gap = sendInterval, uncorrelatedGap
	}
	t.Cleanup(b.closeAll)
	return b
}

func (b *bench) closeAll() {
	for _, e := range b.ends {
		e.Close()
	}
	b.hub.Close()
}

func (b *bench) open(_ context.Context, change func(*channel.Config)) (*link, error) {
	b.opened++
	info := channeltest.Info()
	info.Generation = b.generation
	ours, theirs := channeltest.Pair(info, info)
	cfg := conformConfig(b.hub, change)
	if b.config != nil {
		b.config(&cfg)
	}
	t := &tampered{Transport: theirs, bench: b, num: b.opened, cfg: cfg}
	p, err := channel.New(t, cfg)
	if err != nil {
		return nil, err
	}
	b.ends = append(b.ends, p)
	orNone := func(f func(*tampered) error) error {
		if f == nil {
			return nil
		}
		return f(t)
	}
	lk := &link{
		tr:        ours,
		ping:      func(context.Context) error { return orNone(b.sab.ping) },
		keyUpdate: func() error { return orNone(b.sab.keyUpdate) },
		close:     func() error { ours.Close(); return orNone(b.sab.close) },
	}
	if b.ours() {
		lk.owner = p
	}
	return lk, nil
}

// conformRun runs all checks of a bench, with some of the golden payloads.
func conformRun(t *testing.T, b *bench, vectors []testvectors.Payload) map[string]checked {
	t.Helper()
	c := newConformance(b.target)
	c.checks = conformChecks(vectors, b.generation)
	if err := c.runAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.closeAll()
	out := map[string]checked{}
	for _, r := range c.results {
		out[r.name] = r
	}
	for name := range c.sighted.faults {
		if _, ok := out[name]; !ok {
			t.Errorf("faults of %q, which is no check", name)
		}
	}
	return out
}

// verdicts returns the names of the checks with an outcome, sorted.
func verdicts(results map[string]checked, o outcome) (names []string) {
	for name, r := range results {
		if r.outcome == o {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func explain(results map[string]checked, names []string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "%s: %s: %s\n", n, results[n].outcome, results[n].why)
	}
	return b.String()
}

// Every check of our own responder passes, and every exchange was recorded.
func TestConformBench(t *testing.T) {
	for _, gen := range []int{2, 3} {
		t.Run(strconv.Itoa(gen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results := conformRun(t, newBench(t, gen, true), payloads(t))
				if bad := slices.Concat(verdicts(results, failed), verdicts(results, notObservable)); len(bad) > 0 {
					t.Error(explain(results, bad))
				}
				for name, r := range results {
					if r.run != nil && len(r.exchange) == 0 {
						t.Errorf("%s: no exchange", name)
					}
				}
			})
		})
	}
}

// The rows of NPAMP-DISC are those of the checks and those that cannot be seen,
// each the one or the other; a check stands under a clause of its rows.
//
// Covers: DISC-11-01
func TestConformRows(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testvectors", "requirements.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ledger struct {
		Rows []struct {
			ID, Level string
			Clauses   []int
		}
	}
	if err := json.Unmarshal(b, &ledger); err != nil {
		t.Fatal(err)
	}
	vectors, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	checks := conformChecks(vectors.Payloads, 3)
	by := map[string][]string{}
	names := map[string]bool{}
	for _, k := range checks {
		if names[k.name] {
			t.Errorf("two checks %s", k.name)
		}
		names[k.name] = true
		if (k.run == nil) == (k.judged == nil) {
			t.Errorf("%s: neither asks nor judges, or both", k.name)
		}
		for _, r := range k.rows {
			by[r] = append(by[r], k.name)
		}
	}
	clauses := map[string][]int{}
	for _, r := range ledger.Rows {
		if strings.HasPrefix(r.ID, "DISC-") {
			clauses[r.ID] = r.Clauses
		}
	}
	for _, h := range hiddenRows() {
		if _, ok := clauses[h.row]; !ok || len(by[h.row]) > 0 || h.why == "" {
			t.Errorf("%s is said not to be visible: known %v, checked by %v", h.row, ok, by[h.row])
		}
		by[h.row] = append(by[h.row], "")
	}
	for id := range clauses {
		if len(by[id]) == 0 {
			t.Errorf("no check for %s, and no reason", id)
		}
	}
	for _, k := range checks {
		fits := len(k.rows) == 0 // a refusal that only a decision of the ledger asks for
		var of []int
		for _, r := range k.rows {
			c, ok := clauses[r]
			if !ok && r != "CH10-7-04" {
				t.Errorf("%s: unknown row %s", k.name, r)
			}
			of = append(of, c...)
			fits = fits || slices.Contains(c, k.clause) || len(c) == 0 && k.clause == 0
		}
		if !fits {
			t.Errorf("%s stands under clause %d, its rows under %v", k.name, k.clause, of)
		}
	}
}

// A foreign peer whose records do not change passes what can be seen, fails
// nothing, and is said why the rest was not seen.
func TestConformForeign(t *testing.T) {
	for _, gen := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			results := conformRun(t, newBench(t, gen, false), payloads(t))
			if bad := verdicts(results, failed); len(bad) > 0 {
				t.Error(explain(results, bad))
			}
			for _, name := range []string{"update-added", "update-replaced", "update-withdrawn", "update-leaves", "update-enters",
				"update-in-filter", "update-every", "update-no-op", "revision-rises", "unsubscribe-stops"} {
				if r := results[name]; r.outcome != notObservable || !strings.Contains(r.why, "no such change was seen within 3s") {
					t.Errorf("%s: %s: %s", name, r.outcome, r.why)
				}
			}
			for _, name := range []string{"listing-stable", "unrepresentable", "filter-refused", "discovery-off", "query-rate", "subscribe-refused",
				"both-directions", "peer-corrs", "peer-matches", "peer-follow-up", "peer-unsubscribes", "peer-announces"} {
				if r := results[name]; r.outcome != notObservable || r.why == "" {
					t.Errorf("%s: %s: %s", name, r.outcome, r.why)
				}
			}
			if n := len(verdicts(results, notObservable)); n != map[int]int{2: 24, 3: 23}[gen] { // 2 acknowledges no CLOSE
				t.Errorf("%d not observable:\n%s", n, explain(results, verdicts(results, notObservable)))
			}
		})
	}
}

// alive has a bench change its records while it is being watched.
func (b *bench) alive(t *testing.T) {
	stop := make(chan struct{})
	done := make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(700 * time.Millisecond):
			}
			err := b.set.Update(func(tx *record.Tx) error {
				switch i % 4 {
				case 0:
					return tx.Put(conformTool("living", 1, "one"))
				case 1:
					return tx.Put(conformTool("living", 2, strconv.Itoa(i)))
				case 2:
					return tx.Put(conformTool("living", 1, "three"))
				}
				return tx.Withdraw("living")
			})
			if err != nil {
				panic(err)
			}
		}
	}()
}

// A foreign peer whose records change of their own accord shows that it tells of
// it, and fails nothing that compares two answers.
func TestConformForeignAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, false)
		b.alive(t)
		results := conformRun(t, b, payloads(t))
		if bad := verdicts(results, failed); len(bad) > 0 {
			t.Error(explain(results, bad))
		}
		for _, name := range []string{"update-added", "update-replaced", "update-withdrawn", "update-in-filter", "update-every",
			"update-no-op", "revision-rises", "unsubscribe-stops"} {
			if r := results[name]; r.outcome != passed {
				t.Errorf("%s: %s: %s", name, r.outcome, r.why)
			}
		}
	})
}

// A peer that pushes its pages, one that bounds the rate more tightly than we
// send, one that has no subscriptions, one that supports no filter and one that
// shows nothing differ from ours in what is theirs to choose, and fail nothing.
func TestConformOtherPeers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config func(*channel.Config)
		pass   []string
		unseen []string
	}{
		{"pushes pages", func(c *channel.Config) { c.PushPages = true },
			[]string{"paging", "query-all", "filter-kinds", "repeatable"}, []string{"cursor-same-corr", "cursor-filter"}},
		{"slow", func(c *channel.Config) { c.Limits.QueryRate, c.Limits.QueryBurst = 10, 10 },
			[]string{"query-rate", "query-all", "filter-kinds"}, nil},
		{"no subscriptions", func(c *channel.Config) { c.Disabled = channel.FeatureSubscriptions },
			[]string{"subscribe-refused", "unsubscribe-silent", "query-all"}, []string{"subscribe-snapshot", "subscribe-bound", "update-added", "subscribe-keys", "tables-separate"}},
		{"no filters", func(c *channel.Config) {
			c.Disabled = channel.FeatureKinds | channel.FeatureProtocolIDs | channel.FeatureNamePrefix | channel.FeatureTolerant
		}, []string{"filter-refused", "query-all", "paging"}, []string{"filter-kinds", "filter-name-prefix", "tolerant", "subscribe-filter"}},
		{"discovery off", func(c *channel.Config) { c.Disabled = channel.FeatureDiscovery },
			[]string{"discovery-off", "reserved-types"}, []string{"query-all", "query-rate", "subscribe-snapshot"}},
		{"small frames", func(c *channel.Config) { c.Limits.MaxFrameLen = unrepresentable },
			[]string{"unrepresentable", "refuse-N3"}, []string{"query-all"}},
		{"shows nothing", func(c *channel.Config) { c.Visible = func(record.Record) bool { return false } },
			[]string{"query-all", "query-empty", "filter-kinds"}, []string{"paging", "agent-refs", "sent-records"}},
		{"announces", func(c *channel.Config) { c.AnnounceOnOpen = true }, []string{"peer-announces", "announce-silent"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, false)
				b.config = tt.config
				results := conformRun(t, b, payloads(t))
				if bad := verdicts(results, failed); len(bad) > 0 {
					t.Error(explain(results, bad))
				}
				for _, name := range tt.pass {
					if r := results[name]; r.outcome != passed {
						t.Errorf("%s: %s: %s", name, r.outcome, r.why)
					}
				}
				for _, name := range tt.unseen {
					if r := results[name]; r.outcome != notObservable || r.why == "" {
						t.Errorf("%s: %s: %s", name, r.outcome, r.why)
					}
				}
			})
		})
	}
}

// A peer whose errors about what it cannot read have no corr, at most one a
// second, keeps §4.1 as well, and is given the time to show it.
func TestConformBlindPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, false)
		b.config = func(c *channel.Config) { c.Limits.UncorrelatedErrors = 1 }
		var last time.Time
		b.sab.out = func(_ *tampered, f rawFrame) []rawFrame {
			e, ok := gotError(f)
			if !ok || e.Code > disco.CodeKindMismatch || !e.HasCorr {
				return pass(f)
			}
			if !last.IsZero() && time.Since(last) < time.Second {
				return nil
			}
			last = time.Now()
			return as(disco.TypeError, wrongError(e.Code))
		}
		results := conformRun(t, b, payloads(t))
		if bad := verdicts(results, failed); len(bad) > 0 {
			t.Error(explain(results, bad))
		}
		for name, r := range results {
			if strings.HasPrefix(name, "refuse-") && r.outcome != passed {
				t.Errorf("%s: %s: %s", name, r.outcome, r.why)
			}
		}
	})
}

// What is sent keeps within the default rate, however long it takes.
func TestConformPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, false)
		var at []time.Time
		b.sab.in = func(_ *tampered, f rawFrame) []rawFrame {
			at = append(at, time.Now())
			return []rawFrame{f}
		}
		conformRun(t, b, payloads(t))
		if len(at) < 300 {
			t.Fatalf("%d frames", len(at))
		}
		for i := 50; i < len(at); i++ {
			if d := at[i].Sub(at[i-50]); d < time.Second {
				t.Fatalf("50 frames within %v", d)
			}
		}
	})
}

// An association that is lost is made anew; one that cannot be is the end of
// what can be seen, and not of the report.
func TestConformLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, false)
		open := b.open
		b.target.open = func(ctx context.Context, change func(*channel.Config)) (*link, error) {
			if b.opened == 3 {
				return nil, &failure{exit: exitConnect, err: errors.New("nobody there")}
			}
			return open(ctx, change)
		}
		v := vector(t, "N4")
		b.sab.in = func(a *tampered, f rawFrame) []rawFrame {
			if slices.Equal(f.payload, v.Octets) {
				a.Transport.Abort(0, errors.New("such octets"))
				return nil
			}
			return []rawFrame{f}
		}
		results := conformRun(t, b, payloads(t))
		if r := results["refuse-N4"]; r.outcome != failed || !strings.Contains(r.why, "the association ended") {
			t.Errorf("refuse-N4: %s: %s", r.outcome, r.why)
		}
		if r := results["refuse-N6"]; r.outcome != passed {
			t.Errorf("refuse-N6: %s: %s", r.outcome, r.why)
		}
		if r := results["answers-afresh"]; r.outcome != notObservable || !strings.Contains(r.why, "nobody there") {
			t.Errorf("answers-afresh: %s: %s", r.outcome, r.why)
		}
		if bad := verdicts(results, failed); len(bad) != 1 {
			t.Error(explain(results, bad))
		}
	})
}

// What a peer advertises or sends, and be it nonsense, is judged and nothing
// more.
func TestConformHostile(t *testing.T) {
	few := payloads(t)[:40]
	t.Run("long names", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 3, false)
			for _, id := range []string{"a", "b"} { // before all others
				r := recordOf(record.Tool{ID: record.ID(id), Name: id + strings.Repeat("\u00e9", 2000), ProtocolID: 1})
				if err := b.set.Update(func(tx *record.Tx) error { return tx.Put(r) }); err != nil {
					t.Fatal(err)
				}
			}
			results := conformRun(t, b, few)
			if bad := verdicts(results, failed); len(bad) > 0 {
				t.Error(explain(results, bad))
			}
		})
	})
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				b := newBench(t, 2+int(seed%2), seed%3 == 0)
				b.sab.out = func(_ *tampered, f rawFrame) []rawFrame {
					if rnd.IntN(8) > 0 || len(f.payload) == 0 {
						return pass(f)
					}
					switch rnd.IntN(4) {
					case 0:
						f.typ = frame.Type(0x0100 + rnd.IntN(8))
					case 1:
						f.payload = f.payload[:rnd.IntN(len(f.payload))]
					case 2:
						return slices.Repeat(pass(f), rnd.IntN(4))
					default:
						f.payload[rnd.IntN(len(f.payload))] ^= byte(1 + rnd.IntN(255))
					}
					return pass(f)
				}
				results := conformRun(t, b, few)
				for name, r := range results {
					if r.outcome == "" || r.outcome != passed && r.why == "" {
						t.Errorf("%s: %q: %q", name, r.outcome, r.why)
					}
				}
				if len(verdicts(results, failed)) == 0 {
					t.Error("nothing failed")
				}
			})
		})
	}
}

// A peer that floods us, with replies or with requests of its own, loses the
// association, and one that goes on for ever with pages is not followed.
func TestConformFlood(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  func(a *tampered, f rawFrame) []rawFrame
		want outcome
	}{
		{"replies", func(a *tampered, f rawFrame) []rawFrame {
			return slices.Repeat(as(disco.TypeResult, emptyResult("flood")), maxFrames+2)
		}, failed},
		{"requests", func(a *tampered, f rawFrame) []rawFrame {
			return slices.Repeat(aQuery(disco.Query{Corr: "flood"}), maxFrames+2)
		}, failed},
		{"pages", func(a *tampered, f rawFrame) []rawFrame {
			if r, ok := gotResult(f); ok {
				r.Complete, r.Cursor, r.HasCursor = false, "next", true
				return aResult(r)
			}
			if e, ok := gotError(f); ok {
				return aResult(disco.Result{Corr: e.Corr, Cursor: "next", HasCursor: true})
			}
			return pass(f)
		}, notObservable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, false)
				b.sab.out = tt.out
				c := newConformance(b.target)
				c.checks = conformChecks(payloads(t), 3)
				if err := c.choose([]string{"query-all"}); err != nil {
					t.Fatal(err)
				}
				if err := c.runAll(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.closeAll()
				r := c.results[0]
				if r.outcome != tt.want || tt.want == failed && !strings.Contains(r.why, errFlood.Error()) {
					t.Errorf("%s: %s", r.outcome, r.why)
				}
				if !r.cut && tt.want == failed || len(r.exchange) > maxExchange {
					t.Errorf("%d entries, cut %v", len(r.exchange), r.cut)
				}
			})
		})
	}
}

// A failed MUST ends with 7 and is a failure in JUnit; what a peer may choose is
// neither. A peer that is gone ends with 3, behind the report.
func TestConformStatus(t *testing.T) {
	type junit struct {
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	unknownType := func(_ *tampered, f rawFrame) bool { return f.typ == 0x0107 }
	for _, tt := range []struct {
		name string
		sab  sabotage
		open int // associations that can be made
		code int
		want junit
	}{
		{"all well", sabotage{}, 9, exitOK, junit{0, 0}},
		{"a MUST", shortened("afresh"), 9, exitProtocol, junit{1, 0}},
		{"a choice", answered(unknownType, withError(1)), 9, exitOK, junit{0, 1}},
		{"gone", sabotage{in: func(a *tampered, f rawFrame) []rawFrame {
			if unknownType(a, f) {
				a.Transport.Abort(0, errors.New("not this"))
			}
			return pass(f)
		}}, 1, exitConnect, junit{0, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "junit.xml")
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, false)
				b.sab = tt.sab
				open := b.open
				b.target.open = func(ctx context.Context, change func(*channel.Config)) (*link, error) {
					if b.opened == tt.open {
						return nil, &failure{exit: exitConnect, err: errors.New("nobody there")}
					}
					return open(ctx, change)
				}
				var out, errs bytes.Buffer
				a := newApp(strings.NewReader(""), &out, &errs)
				err := a.conform(t.Context(), newConformance(b.target), &conformFlags{junit: path, only: []string{"answers-afresh", "unknown-types", "query-all"}})
				b.closeAll()
				if code := exitOf(t.Context(), err); code != tt.code || !strings.Contains(out.String(), " not observable\n") {
					t.Errorf("exit %d, want %d: %v\n%s", code, tt.code, err, out.String())
				}
			})
			var got junit
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := xml.Unmarshal(b, &got); err != nil || got != tt.want {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// selfRun is conform --self, with its windows of silence short.
func selfRun(t *testing.T, args ...string) result {
	t.Helper()
	return probe(append([]string{"conform", "--self", "--quiet", "20ms"}, args...)...)
}

// A report as -o json has it.
type report struct {
	V      int
	Checks []struct {
		Name, Level, Title, Verdict, Why string
		Clause                           int
		Rows                             []string
		Exchange                         []struct {
			Association           int
			Dir, Type, Name, Corr string
			Payload, Note         *string
		}
	}
	Summary struct {
		Target         string
		Generation     int
		Identity       string
		Pass, Fail     int
		Not_observable int
		Must_failed    int
		Associations   int
	}
	Rows_not_visible []struct{ Row, Why string }
}

// Our own responder passes every check over a real association, in both
// generations.
//
// Covers: DISC-2-04, DISC-3-01, DISC-3-02, DISC-3-06, DISC-4.1-06, DISC-4.2-05, DISC-4.3-05, DISC-4.3-06, DISC-6.1-06, DISC-6.2-04, DISC-6.2-06, DISC-6.3-02, DISC-7.1-01, DISC-7.2-02, DISC-7.2-06, DISC-7.3-02, DISC-8-06, DISC-8-07, DISC-9-03, DISC-9-04, DISC-10-06, DISC-10-07, DISC-11-02
func TestConformSelf(t *testing.T) {
	for _, gen := range []int{2, 3} {
		t.Run(strconv.Itoa(gen), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "junit.xml")
			r := selfRun(t, "--generation", strconv.Itoa(gen), "-o", "json", "--junit", path).ok(t)
			var got report
			r.decode(t, &got)
			if got.V != 1 || got.Summary.Generation != gen || got.Summary.Pass != len(got.Checks) || len(got.Checks) < 100 ||
				len(got.Rows_not_visible) == 0 || len(got.Summary.Identity) != 64 || got.Summary.Associations < 8 {
				t.Errorf("%+v", got.Summary)
			}
			for _, k := range got.Checks {
				if k.Verdict != "pass" {
					t.Errorf("%s: %s: %s", k.Name, k.Verdict, k.Why)
				}
				for _, e := range k.Exchange {
					if (e.Payload == nil) == (e.Note == nil) || (e.Payload != nil) != (e.Dir == "in" || e.Dir == "out") {
						t.Errorf("%s: %+v", k.Name, e)
					}
				}
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var junit struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Skipped  int `xml:"skipped,attr"`
				Cases    []struct {
					Name string `xml:"name,attr"`
				} `xml:"testcase"`
			}
			if err := xml.Unmarshal(b, &junit); err != nil {
				t.Fatal(err)
			}
			if junit.Tests != len(got.Checks) || len(junit.Cases) != junit.Tests || junit.Failures+junit.Skipped != 0 {
				t.Errorf("%+v", junit)
			}
		})
	}
}

// The other forms of the report, and a run of some checks alone.
func TestConformOutput(t *testing.T) {
	some := []string{"--check", "query-all,refuse-N3", "--check", "update-added"}
	r := selfRun(t, some...).ok(t)
	safe(t, "table", r.stdout)
	for _, want := range []string{"§11 clause 2", "  pass            MUST    refuse-N3 ", "1 -> DISCO_QUERY a2001a00000100014101\n", "1 <- DISCO_ERROR a4001901020141010201",
		"-- a record 6164646564 is put at the responder", "\n3 pass, 0 fail (0 of them a MUST), 0 not observable\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r := selfRun(t, append(some, "--brief")...).ok(t); strings.Contains(r.stdout, "DISCO_QUERY") {
		t.Errorf("exchanges in\n%s", r.stdout)
	}
	r = selfRun(t, append(some, "-o", "ndjson")...).ok(t)
	if lines := r.lines(); len(lines) != 4 || !strings.HasPrefix(lines[0], `{"v":1,"check":{"name":"refuse-N3","clause":2,"level":"MUST",`) ||
		!strings.HasPrefix(lines[3], `{"v":1,"summary":{"target":`) {
		t.Error(r.stdout)
	}
}

func TestConformUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"conform"}, exitUsage},
		{[]string{"conform", "--self", "127.0.0.1:1"}, exitUsage},
		{[]string{"conform", "127.0.0.1:1", "127.0.0.1:2"}, exitUsage},
		{[]string{"conform", "nowhere"}, exitUsage},
		{[]string{"conform", "--self", "--timeout", "0s"}, exitUsage},
		{[]string{"conform", "--self", "--quiet", "0s"}, exitUsage},
		{[]string{"conform", "--self", "--wait", "-1s"}, exitUsage},
		{[]string{"conform", "--self", "--check", "no-such"}, exitUsage},
		{[]string{"conform", "127.0.0.1:1"}, exitConnect},
		{[]string{"conform", "--self", "--check", "query-all", "--junit", filepath.Join(t.TempDir(), "no", "x.xml")}, exitLocal},
	} {
		if r := probe(tt.args...); r.code != tt.code {
			t.Errorf("%q: exit %d, want %d: %s", tt.args, r.code, tt.code, r.stderr)
		}
	}
}

// A live peer that is served by the command itself, over TCP and TLS.
func TestConformServe(t *testing.T) {
	s := serve(t, "--records", write(t, "a.json", nativeFile()))
	r := probe("conform", s.addr, "--pin", s.handle, "--quiet", "20ms", "--wait", "10ms", "-o", "json",
		"--check", "query-all,filter-kinds,refuse-N8,subscribe-snapshot,update-added,cursor-unknown,close").ok(t)
	var got report
	r.decode(t, &got)
	for _, k := range got.Checks {
		if want := map[bool]string{true: "pass", false: "not observable"}[k.Name != "update-added"]; k.Verdict != want {
			t.Errorf("%s: %s: %s", k.Name, k.Verdict, k.Why)
		}
	}
}

// An interrupt ends a run.
func TestConformInterrupted(t *testing.T) {
	r := start(t, "conform", "--self", "--quiet", "10s")
	if code := r.stop(); code != exitInterrupted {
		t.Errorf("exit %d, want %d: %s", code, exitInterrupted, r.stderr)
	}
}
