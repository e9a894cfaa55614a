package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/record"
)

// A short soak with every fault there is finds nothing, and says so.
//
// Covers: DISC-7.2-09, DISC-8-06, DISC-8-07
func TestSoak(t *testing.T) {
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs)
	a.format = formatJSON
	err := a.soak(context.Background(), soakOptions{duration: 3 * time.Second, peers: 8, subs: 160, rate: 200, records: 300, faults: true, seed: 1, settle: soakSettle})
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	var v struct {
		Verdict                              string
		Divergences, Views, Cuts, Stalls     int
		Listings, Changes, Deliveries, Dials int
		Leaks                                map[string]int
		Healthy                              struct{ Lost, Failed int }
	}
	result{stdout: out.String()}.decode(t, &v)
	if v.Verdict != "good" || v.Divergences != 0 || v.Views != 3*160 || v.Healthy.Lost != 0 {
		t.Errorf("%s", out.String())
	}
	if v.Cuts == 0 || v.Stalls == 0 || v.Listings == 0 || v.Dials <= 8 || v.Changes == 0 || v.Deliveries == 0 {
		t.Errorf("nothing happened: %s", out.String())
	}
	if !strings.Contains(errs.String(), "disco-probe: checkpoint: 160 of 160 views") {
		t.Errorf("no progress: %s", errs.String())
	}
}

// A deafener keeps one change of a source to himself, and whatever might mend
// that.
type deafener struct {
	record.Source
	after int32
	did   atomic.Bool
}

func (s *deafener) Watch(fn func(*record.Change)) (*record.Snapshot, func()) {
	var seen int32
	var lost []record.ID
	return s.Source.Watch(func(c *record.Change) {
		drop := false
		if seen++; seen == s.after {
			for _, d := range c.Deltas {
				lost = append(lost, d.ID)
			}
		}
		for _, d := range c.Deltas {
			drop = drop || slices.Contains(lost, d.ID)
		}
		if drop {
			s.did.Store(true)
			return
		}
		fn(c)
	})
}

// One change that one peer is not told of makes the verdict bad.
//
// Covers: DISC-7.2-03, DISC-7.2-04, DISC-7.2-05
func TestSoakSabotage(t *testing.T) {
	var sab *deafener
	opt := soakOptions{duration: time.Second, peers: 2, subs: 160, rate: 100, records: 300, seed: 1, settle: 5 * time.Second}
	opt.source = func(peer int, set *record.Set) record.Source {
		if peer > 0 {
			return nil
		}
		sab = &deafener{Source: set, after: 3}
		return sab
	}
	var out, errs bytes.Buffer
	err := newApp(nil, &out, &errs).soak(context.Background(), opt)
	if err != error(verdict(exitProtocol)) || !sab.did.Load() {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "verdict      bad") || !strings.Contains(errs.String(), "DIVERGED: peer 0,") || strings.Contains(errs.String(), "DIVERGED: peer 1,") {
		t.Errorf("%s%s", out.String(), errs.String())
	}
}

// Whatever is asked for is bounded, and an interrupted soak leaves nothing.
func TestSoakBounds(t *testing.T) {
	for _, args := range [][]string{
		{"--minutes", "0"}, {"--minutes", "1441"}, {"--peers", "0"}, {"--peers", "2001"},
		{"--subs", "0"}, {"--subs", "100001"}, {"--rate", "0"}, {"--rate", "10001"}, {"--rate", "many"}, {"127.0.0.1:1"},
	} {
		if r := probe(append([]string{"soak"}, args...)...); r.code != exitUsage || r.stdout != "" {
			t.Errorf("%v: exit %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop := &onWrite{after: "up with", do: cancel}
	if code := run(ctx, []string{"soak", "--peers", "2", "--subs", "2"}, nil, io.Discard, stop); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
}

// onWrite does something once a text is written.
type onWrite struct {
	after string
	do    func()
}

func (w *onWrite) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.after)) {
		w.do()
	}
	return len(b), nil
}

// A verdict on a smaller load than was asked for says so.
func TestSoakShort(t *testing.T) {
	for changes, short := range map[uint64]bool{4800: true, 50000: false} {
		s := &soak{opt: soakOptions{duration: 100 * time.Second, peers: 1, subs: 1, rate: 500}}
		s.changes.Store(changes)
		r := s.report(100*time.Second, resources{}, resources{})
		text := strings.Join(r.lines(), "\n")
		if strings.Contains(text, "48 of the 500 changes/s asked for were made") != short || strings.Contains(text, "remark") != short {
			t.Errorf("%d changes:\n%s", changes, text)
		}
		if b := string(appendJSON(nil, r.json())); strings.Contains(b, `"short":true`) != short {
			t.Errorf("%d changes: %s", changes, b)
		}
	}
}

// Quantiles are exact to the width of a bucket.
func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for us := 1; us <= 100_000; us++ {
		h.add(time.Duration(us) * time.Microsecond)
	}
	for q, want := range map[float64]float64{0.5: 50_000, 0.99: 99_000, 0.999: 99_900, 1: 100_000} {
		got := float64(h.quantile(q).Microseconds())
		if got < want || got > want*1.04 {
			t.Errorf("quantile %v is %v µs, want %v", q, got, want)
		}
	}
	for i := range len(h.counts) {
		if got := bucketOf(bucketTop(i)); got != i {
			t.Fatalf("the top of bucket %d is in bucket %d", i, got)
		}
		if i > 0 && bucketOf(bucketTop(i-1)+1) != i {
			t.Fatalf("bucket %d does not begin where %d ends", i, i-1)
		}
	}
	h.add(1 << 62) // the last bucket takes what is longer
}

// A line is found under what scatters around it, and only one that rises enough
// and beyond chance is growth.
func TestHeapTrend(t *testing.T) {
	line := func(rise, scatter int) (samples []heapSample) {
		for i := range 91 {
			y := 100<<20 + rise*i
			if i%2 == 0 {
				y += scatter
			}
			samples = append(samples, heapSample{time.Duration(10*i) * time.Second, uint64(y)})
		}
		return samples
	}
	for _, tt := range []struct {
		name          string
		rise, scatter int
		grows         bool
	}{
		{"flat", 0, 0, false}, {"flat, scattered", 0, 50 << 20, false}, {"falling", -100 << 10, 0, false},
		{"within the allowance", 40 << 10, 0, false}, {"growing", 100 << 10, 0, true},
		{"growing, scattered", 100 << 10, 1 << 20, true}, {"growing, if it is not chance", 100 << 10, 50 << 20, false},
	} {
		tr := fit(line(tt.rise, tt.scatter))
		if tr.grows() != tt.grows || tt.scatter == 0 && (math.Abs(tr.rise-float64(tt.rise)/10) > 0.01 || tr.error > 0.01) {
			t.Errorf("%s: %+v", tt.name, tr)
		}
	}
	if fit(nil).grows() || fit(line(1<<20, 0)[:1]).grows() {
		t.Error("no samples grow")
	}
}

// A log gives each who asks every version since, and keeps none for nobody.
func TestVersionLog(t *testing.T) {
	var l versionLog
	versions := make([]*record.Snapshot, 10)
	for i := range versions {
		versions[i] = new(record.Snapshot)
	}
	add := func(i int) { l.add(versions[i]) }
	add(0)
	add(1)
	add(2)
	a := l.begin()
	add(3)
	b := l.begin()
	add(4)
	if got, whole := l.end(a); !whole || !slices.Equal(got, []*record.Snapshot{versions[4], versions[3], versions[2], versions[1]}) {
		t.Errorf("%d versions, whole %v", len(got), whole)
	}
	if got, whole := l.end(b); !whole || len(got) != 3 {
		t.Errorf("%d versions, whole %v", len(got), whole)
	}
	if len(l.list) != 2 || len(l.asking) != 0 {
		t.Errorf("%d versions kept for %d", len(l.list), len(l.asking))
	}
	c := l.begin()
	for range soakMaxVersions + 1 {
		add(5)
	}
	if got, whole := l.end(c); whole || len(got) != soakMaxVersions {
		t.Errorf("%d versions, whole %v", len(got), whole)
	}
}

// A version that is shown and not in the log yet is waited for: a listing of it is
// no divergence.
func TestVersionShownBeforeItIsLogged(t *testing.T) {
	p := &publisher{set: record.NewSet(record.SetConfig{Carries: func(uint64) bool { return true }})}
	shown, release := make(chan struct{}), make(chan struct{})
	_, stop := p.set.Watch(func(*record.Change) { close(shown); <-release })
	defer stop()
	first, stop := p.set.Watch(func(c *record.Change) { p.log.add(c.After) })
	defer stop()
	p.log.add(first)
	from := p.log.begin()
	r, err := record.Tool{ID: "t1", Name: "a", ProtocolID: 1}.Record()
	if err != nil {
		t.Fatal(err)
	}
	go p.set.Update(func(tx *record.Tx) error { return tx.Put(r) })
	<-shown
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	now := p.set.Snapshot()
	if _, has := now.Get("t1"); !has {
		t.Fatal("it is logged before it is shown")
	}
	if versions, _ := p.since(from); !slices.Contains(versions, now) {
		t.Error("what was shown is not among the versions")
	}
}
