package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

const (
	// soakHeapSamples is how many samples the second half must have before the
	// heap is judged by them.
	soakHeapSamples = 10
	// The heap may gain this part of its mean over the second half, or so many
	// octets.
	soakHeapGrowth    = 0.05
	soakHeapAllowance = 4 << 20

	// Healthy peers are unharmed if, while some stall, their p99 is at most so
	// many times what it is while all read, and this much more.
	soakHarmFactor    = 3
	soakHarmAllowance = 100 * time.Millisecond
	soakHarmSamples   = 10_000 // on each side, or it is not judged
)

// A soakReport is the verdict.
type soakReport struct {
	opt           soakOptions
	s             *soak
	elapsed       time.Duration
	before, after resources

	heap        trend // over the second half
	heapJudged  bool
	all         *histogram // of healthy peers
	harmJudged  bool
	healthyHurt bool
}

func (s *soak) report(elapsed time.Duration, before, after resources) *soakReport {
	r := &soakReport{opt: s.opt, s: s, elapsed: elapsed, before: before, after: after, all: s.healthy()}
	half := s.heap[len(s.heap)/2:]
	r.heap = fit(half)
	r.heapJudged = len(half) >= soakHeapSamples
	r.harmJudged = s.calm.count() >= soakHarmSamples && s.beside.count() >= soakHarmSamples
	r.healthyHurt = s.beside.quantile(0.99) > soakHarmFactor*s.calm.quantile(0.99)+soakHarmAllowance
	return r
}

// faults lists what is wrong.
func (r *soakReport) faults() (out []string) {
	s := r.s
	if n := s.divergences.Load(); n > 0 {
		out = append(out, plural(int(n), "divergence"))
	}
	if n := s.lost.Load(); n > 0 {
		out = append(out, plural(int(n), "association")+" lost uninvited")
	}
	if n := s.broken.Load(); n > 0 {
		out = append(out, plural(int(n), "request")+" of healthy peers failed")
	}
	if !r.after.within(r.before) {
		out = append(out, "goroutines or descriptors were left behind")
	}
	if r.heapJudged && r.heap.grows() {
		out = append(out, "the heap grows")
	}
	if r.harmJudged && r.healthyHurt {
		out = append(out, "healthy peers were harmed by stalled ones")
	}
	if s.changes.Load() == 0 || s.deliveries.Load() == 0 {
		out = append(out, "nothing was changed or delivered")
	}
	return out
}

// exit returns the status: 7 where the peers do not see what there is.
func (r *soakReport) exit() int {
	switch {
	case r.s.divergences.Load() > 0:
		return exitProtocol
	case len(r.faults()) > 0:
		return exitLocal
	}
	return exitOK
}

func (r *soakReport) verdict() string {
	if r.exit() == exitOK {
		return "good"
	}
	return "bad"
}

// perChange returns how much of the subscriptions a change concerned, in 1/1000.
func (r *soakReport) perChange() int {
	if r.s.changes.Load() == 0 {
		return 0
	}
	return int(1000 * r.s.deliveries.Load() / (r.s.changes.Load() * uint64(r.opt.subs)))
}

// lines is the verdict for people.
func (r *soakReport) lines() []string {
	s := r.s
	judged := func(judged, good bool, yes, no string) string {
		switch {
		case !judged:
			return "too few to judge"
		case good:
			return yes
		}
		return no
	}
	rows := [][]string{
		{"verdict", r.verdict()},
		{"run", fmt.Sprintf("%v, %d peers, %d subscriptions, %d changes/s asked for, faults %v, seed %d", r.elapsed.Round(time.Second), r.opt.peers, r.opt.subs, r.opt.rate, r.opt.faults, r.opt.seed)},
		{"divergences", fmt.Sprintf("%d, of %d views at %d checkpoints and %d listings (%d more inconclusive)", s.divergences.Load(), s.views.Load(), s.checkpoints.Load(), s.queries.Load(), s.inconclusive.Load())},
		{"leaks", fmt.Sprintf("goroutines %d before, %d after; descriptors %d before, %d after", r.before.goroutines, r.after.goroutines, r.before.descriptors, r.after.descriptors)},
		{"heap", fmt.Sprintf("%+.1f ± %.1f KiB/min over the last %v, mean %.1f MiB: %s", r.heap.rise*60/1024, r.heap.error*60/1024, r.heap.span.Round(time.Second), r.heap.mean/(1<<20), judged(r.heapJudged, !r.heap.grows(), "flat", "grows"))},
		{"delivery", quantiles(r.all) + ", healthy peers"},
		{"", quantiles(&s.calm) + ", of these while all read"},
		{"", quantiles(&s.beside) + ", of these while others stall"},
		{"", quantiles(&s.held) + ", peers that stall"},
		{"healthy", fmt.Sprintf("%d associations lost uninvited, %d requests failed; beside stalled peers: %s", s.lost.Load(), s.broken.Load(), judged(r.harmJudged, !r.healthyHurt, "unharmed", "harmed"))},
		{"changes", fmt.Sprintf("%d in %d transactions, %.0f/s; %d deliveries, so that one concerned %.1f %% of the subscriptions; %d too old to time", s.changes.Load(), s.transactions.Load(), r.rate(), s.deliveries.Load(), float64(r.perChange())/10, s.forgotten.Load())},
		{"faults", fmt.Sprintf("%d cuts, %d dials, %d stalls, %d associations of stalled peers dropped, %d key replacements, %d visibility changes, %d announcements", s.cuts.Load(), s.dials.Load(), s.stalls.Load(), s.dropped.Load(), s.rekeyed.Load(), s.hides.Load(), s.announces.Load())},
	}
	if r.short() {
		rows = append(rows, []string{"remark", fmt.Sprintf("%.0f of the %d changes/s asked for were made: the machine was too busy for more", r.rate(), r.opt.rate)})
	}
	for _, f := range r.faults() {
		rows = append(rows, []string{"because", f})
	}
	return table(rows)
}

// rate returns the changes made in a second of the time asked for.
func (r *soakReport) rate() float64 { return float64(r.s.changes.Load()) / r.opt.duration.Seconds() }

// short reports whether less was done than was asked for, beyond what checkpoints
// cost: then the verdict is on a smaller load.
func (r *soakReport) short() bool { return r.rate() < 0.9*float64(r.opt.rate) }

func quantiles(h *histogram) string {
	return fmt.Sprintf("p50 %s p99 %s p99.9 %s of %d", rounded(h.quantile(0.5)), rounded(h.quantile(0.99)), rounded(h.quantile(0.999)), h.count())
}

// json is the verdict for machines. Durations are in microseconds unless named.
func (r *soakReport) json() object {
	s := r.s
	delivery := func(h *histogram) object {
		us := func(q float64) int { return int(h.quantile(q).Microseconds()) }
		return object{{"count", h.count()}, {"p50_us", us(0.5)}, {"p99_us", us(0.99)}, {"p999_us", us(0.999)}}
	}
	whole := func(f float64) json.RawMessage { return json.RawMessage(strconv.FormatInt(int64(f), 10)) }
	return versioned(
		field{"verdict", r.verdict()}, field{"because", append([]string{}, r.faults()...)},
		field{"elapsed_ms", int(r.elapsed.Milliseconds())}, field{"peers", r.opt.peers}, field{"subs", r.opt.subs}, field{"rate", r.opt.rate}, field{"faults", r.opt.faults}, field{"seed", r.opt.seed},
		field{"divergences", s.divergences.Load()}, field{"views", s.views.Load()}, field{"checkpoints", s.checkpoints.Load()}, field{"listings", s.queries.Load()}, field{"inconclusive", s.inconclusive.Load()},
		field{"leaks", object{{"goroutines_before", r.before.goroutines}, {"goroutines_after", r.after.goroutines}, {"descriptors_before", r.before.descriptors}, {"descriptors_after", r.after.descriptors}}},
		field{"heap", object{{"octets_a_minute", whole(r.heap.rise * 60)}, {"standard_error", whole(r.heap.error * 60)}, {"mean", whole(r.heap.mean)}, {"judged", r.heapJudged}, {"flat", !r.heap.grows()}}},
		field{"delivery", object{{"healthy", delivery(r.all)}, {"calm", delivery(&s.calm)}, {"beside_stalled", delivery(&s.beside)}, {"stalled", delivery(&s.held)}}},
		field{"healthy", object{{"lost", s.lost.Load()}, {"failed", s.broken.Load()}, {"judged", r.harmJudged}, {"unharmed", !r.healthyHurt}}},
		field{"changes", s.changes.Load()}, field{"rate_made", whole(r.rate())}, field{"short", r.short()}, field{"transactions", s.transactions.Load()}, field{"deliveries", s.deliveries.Load()},
		field{"cuts", s.cuts.Load()}, field{"dials", s.dials.Load()}, field{"stalls", s.stalls.Load()}, field{"dropped", s.dropped.Load()}, field{"key_replacements", s.rekeyed.Load()}, field{"visibility_changes", s.hides.Load()}, field{"announcements", s.announces.Load()},
	)
}
