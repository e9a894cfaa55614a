package main

import (
	"context"
	"fmt"
	"log"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// A report is a whole run.
type report struct {
	Command  string            `json:"command"`
	Time     string            `json:"time"`
	Go       string            `json:"go"`
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Modules  map[string]string `json:"modules"`
	Passes   int               `json:"passes"`
	Seconds  float64           `json:"seconds"`
	Others   float64           `json:"others_cores"` // that other processes used meanwhile
	Results  []result          `json:"results"`
	Failures []string          `json:"failures,omitempty"`
}

// A result is one contender's rounds of a case.
type result struct {
	bench.Case
	By     string        `json:"by"`
	Rounds []bench.Round `json:"rounds"`
	took   time.Duration
}

const leastRounds = 5 // that the slow do, too

// measure runs all cases. One that fails is left out and named.
func measure(ctx context.Context, cases []entry, passes int, patience time.Duration) *report {
	r := &report{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), CPU: cpuName(), CPUs: runtime.GOMAXPROCS(0),
		Modules: modules(), Passes: passes,
	}
	processes := map[string]*process{}
	defer func() {
		for _, p := range processes {
			p.stop()
		}
	}()
	busy := newBusy(processes)
	for _, e := range cases {
		if ctx.Err() != nil {
			break
		}
		r.measure(ctx, e, passes, patience, processes)
	}
	r.Seconds, r.Others = busy.since()
	return r
}

func (r *report) failed(e entry, by string, err error) {
	text := fmt.Sprintf("%+v, %s: %v", e.Case, by, err)
	log.Print(text)
	r.Failures = append(r.Failures, text)
}

// measure runs one case.
func (r *report) measure(ctx context.Context, e entry, passes int, patience time.Duration, processes map[string]*process) {
	began := time.Now()
	var rounds []result
	for _, name := range e.by {
		p := processes[name]
		if p == nil {
			var err error
			if p, err = start(ctx, name); err != nil {
				r.failed(e, name, err)
				continue
			}
			processes[name] = p
		}
		if _, err := p.ask(request{Open: &e.Case}); err != nil {
			r.failed(e, name, err)
			continue
		}
		rounds = append(rounds, result{Case: e.Case, By: name})
	}
	for i := range passes {
		for k := range rounds {
			x := &rounds[k]
			if ctx.Err() != nil || x.took < 0 || i >= leastRounds && x.took > patience {
				continue
			}
			start := time.Now()
			round, err := processes[x.By].ask(request{})
			if err != nil {
				r.failed(e, x.By, err)
				x.took = -1
				continue
			}
			x.took += time.Since(start)
			x.Rounds = append(x.Rounds, round)
		}
	}
	for _, x := range rounds {
		if _, err := processes[x.By].ask(request{Close: true}); err != nil {
			r.failed(e, x.By, err)
		}
		if len(x.Rounds) > 0 {
			r.Results = append(r.Results, x)
		}
	}
	log.Printf("%+v: %.1f s", e.Case, time.Since(began).Seconds())
}

// find returns a contender's result of a case, or nil.
func (r *report) find(c bench.Case, by string) *result {
	for i := range r.Results {
		if x := &r.Results[i]; x.Case == c && x.By == by {
			return x
		}
	}
	return nil
}

// get returns the median and the quartiles' distance, in percent of it.
func (x *result) get(metric string) (median, spread float64, ok bool) {
	var v []float64
	for _, r := range x.Rounds {
		if m, has := r[metric]; has {
			v = append(v, m)
		}
	}
	if len(v) == 0 {
		return 0, 0, false
	}
	slices.Sort(v)
	median = quantile(v, 0.5)
	if median != 0 {
		spread = 100 * (quantile(v, 0.75) - quantile(v, 0.25)) / median
	}
	return median, spread, true
}

// quantile interpolates between sorted values.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// ratio returns the median of what a's metric is to b's, round by round.
func ratio(a, b *result, metric string) (float64, bool) {
	if a == nil || b == nil {
		return 0, false
	}
	var v []float64
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		x, y := a.Rounds[i][metric], b.Rounds[i][metric]
		if x > 0 && y > 0 {
			v = append(v, x/y)
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return quantile(v, 0.5), true
}

// modules returns the versions of what is measured.
func modules() map[string]string {
	out := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/modelcontextprotocol/go-sdk", "go.etcd.io/etcd/server/v3", "github.com/nats-io/nats-server/v2",
			"github.com/nats-io/nats.go", "github.com/envoyproxy/go-control-plane", "google.golang.org/grpc":
			out[d.Path] = d.Version
		}
	}
	return out
}

func (r *report) versions() string {
	var parts []string
	for path, v := range r.Modules {
		parts = append(parts, path+" "+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
