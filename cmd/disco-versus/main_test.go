package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// ask runs requests through the child's side of a contender.
func ask(t *testing.T, by string, requests ...request) (answers []answer) {
	t.Helper()
	var in, out bytes.Buffer
	for _, r := range requests {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := serve(context.Background(), contenders[by], &in, &out); err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(&out); ; {
		var a answer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return answers
		} else if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
}

// Each contender does a small case of each kind that it takes part in.
func TestContendersDoTheirCases(t *testing.T) {
	for _, e := range append([]entry{{bench.Case{Kind: bench.Update, Records: 100}, []string{disco}},
		{bench.Case{Kind: bench.Rate, Subs: 2, PerSecond: 100}, []string{disco}}}, suite...) {
		c := e.Case
		c.Records, c.Subs, c.Conns = min(c.Records, 100), min(c.Subs, 4), min(c.Conns, 2)
		for _, by := range e.by {
			t.Run(strings.ReplaceAll(name(c)+" "+by, "/", "_"), func(t *testing.T) {
				got := ask(t, by, request{Open: &c}, request{}, request{Close: true})
				if len(got) != 3 {
					t.Fatalf("%d answers", len(got))
				}
				for _, a := range got {
					if a.Failed != "" {
						t.Error(a.Failed)
					}
				}
				if len(got[1].Round) == 0 {
					t.Error("a round without a metric")
				}
			})
		}
	}
}

func TestChildAnswersFailures(t *testing.T) {
	got := ask(t, rawTLS, request{}, request{Open: &bench.Case{Kind: bench.List}}, request{Close: true})
	for i, a := range got {
		if a.Failed == "" {
			t.Errorf("request %d did not fail", i)
		}
	}
}

func TestSelectCases(t *testing.T) {
	for _, tt := range []struct {
		only     string
		cases    int
		disco    bool
		mistaken bool
	}{
		{"", len(suite), true, false},
		{"list", 4, true, false},
		{"list,call", 6, true, false},
		{"list,etcd", 4, false, false},
		{"memory,disco", 2, true, false},
		{"lists", 0, false, true},
	} {
		got, err := selectCases(suite, tt.only)
		if (err != nil) != tt.mistaken || len(got) != tt.cases {
			t.Errorf("%q: %d cases, %v", tt.only, len(got), err)
		}
		for _, e := range got {
			has := false
			for _, by := range e.by {
				has = has || by == disco
			}
			if has != tt.disco {
				t.Errorf("%q: %v", tt.only, e.by)
			}
		}
	}
	if len(suite[0].by) != len(listers) {
		t.Error("the suite was changed")
	}
}

// made is a report in which we take a third of what the others take.
func made() *report {
	r := &report{Time: "2026-01-01T00:00:00Z", Go: "go1", CPUs: 2, Passes: 3}
	for _, e := range suite {
		for _, by := range e.by {
			x := result{Case: e.Case, By: by}
			for i := range 3 {
				v := float64(300 + i)
				if by == disco {
					v = float64(100 + i)
				}
				x.Rounds = append(x.Rounds, bench.Round{"us": v, "p50_us": v, "p99_us": v, "last_us": v, "rate": 1e6 / v,
					"ops_s": 1e6 / v, "kib": v, "goroutines": 4, "wire": 121, "own": 120, "kept_mib": 1, "ratio": 1.1})
			}
			r.Results = append(r.Results, x)
		}
	}
	return r
}

func TestVerdicts(t *testing.T) {
	out := map[string]bool{}
	verdicts := made().verdicts()
	for _, v := range verdicts {
		if !v.ok() {
			out[v.Name] = true
		}
	}
	want := []string{"MCP / list 10,000", "etcd / list 10,000", "xDS delta / list 10,000", "one record, 64 in flight, rate / NATS core",
		"one update to 10,000 on 1", "updates back to back", "one more subscription"}
	for name := range out {
		known := false
		for _, w := range want {
			known = known || strings.Contains(name, w)
		}
		if !known {
			t.Errorf("out of bounds: %s", name)
		}
	}
	for _, name := range []string{"list 10,000 / floor", "octets a record on the wire / its own and the page heads"} {
		if out[name] {
			t.Errorf("%s is out of bounds", name)
		}
	}
	if !out["MCP / list 10,000"] || len(verdicts) != 22 {
		t.Errorf("%d verdicts, out: %v", len(verdicts), out)
	}
}

func TestTablesHaveEachResult(t *testing.T) {
	var b strings.Builder
	r := made()
	r.writeTables(&b)
	lines := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "| ") {
			lines++
		}
	}
	if want := len(r.Results) + len(r.verdicts()) + len(tables) + 1; lines != want {
		t.Errorf("%d lines, want %d:\n%s", lines, want, b.String())
	}
	if !strings.Contains(b.String(), "MaxSubscriptions") {
		t.Error("the table does not say that limits are raised")
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	d := xml.NewDecoder(bytes.NewReader(made().svg()))
	rects := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects < 20 {
		t.Errorf("%d bars", rects)
	}
}

func TestMediansAndRatios(t *testing.T) {
	a := &result{Rounds: []bench.Round{{"x": 4}, {"x": 1}, {"x": 2}, {"x": 3}, {"x": 5}}}
	b := &result{Rounds: []bench.Round{{"x": 2}, {"x": 1}, {"x": 1}}}
	if m, spread, ok := a.get("x"); m != 3 || math.Abs(spread-200.0/3) > 1e-9 || !ok {
		t.Error(m, spread, ok)
	}
	if v, ok := ratio(a, b, "x"); v != 2 || !ok { // 2, 1, 2
		t.Error(v, ok)
	}
	if _, ok := ratio(a, nil, "x"); ok {
		t.Error("a ratio to nothing")
	}
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := commas(in); got != want {
			t.Errorf("%d: %s", in, got)
		}
	}
	if got := number(1234.56, 1); got != "1,234.6" {
		t.Error(got)
	}
}
