package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// FanOuts is a Bench of the kind FanOut. The subscribers call Track.Delivered
// once for each update that they are told of.
type FanOuts struct {
	Case    Case
	Track   *Tracker
	Publish func(ctx context.Context) error
	// Settle, unless nil, waits until the next update can be delivered. It is
	// outside the latencies and inside the sustained rate.
	Settle func(ctx context.Context) error
	// Burst publishes that many updates back to back, each of which is delivered.
	// It is nil where updates are merged: the sustained rate is then that of
	// updates one after another.
	Burst func(ctx context.Context, updates int) error
	// Check, unless nil, looks after each round at what was counted elsewhere.
	Check func() error
	Facts Round // added to each round
	Stop  func()
	warm  bool
}

const (
	leastUpdates = 3
	burst        = 50 // updates, fewer than any queue here merges at
	burstTo1000  = 20 // the same, to 1,000 subscribers,
	burstToMore  = 10 // and to more
)

// Round publishes updates one by one, then back to back.
func (f *FanOuts) Round(ctx context.Context) (Round, error) {
	if !f.warm {
		if _, err := f.one(ctx); err != nil {
			return nil, err
		}
		f.warm = true
		runtime.GC()
	}
	var each, last Samples
	began := time.Now()
	for len(last) < leastUpdates || time.Since(began) < updateTime {
		latencies, err := f.one(ctx)
		if err != nil {
			return nil, err
		}
		each = append(each, latencies...)
		last = append(last, latencies.Quantile(1))
	}
	r := Round{
		"p50_us":  Micros(each.Quantile(0.5)),
		"p99_us":  Micros(each.Quantile(0.99)),
		"last_us": Micros(last.Quantile(0.5)),
		"rate":    float64(f.Case.Subs*len(last)) / time.Since(began).Seconds(),
	}
	if f.Burst != nil {
		n := burst
		switch {
		case f.Case.Subs > 1000:
			n = burstToMore
		case f.Case.Subs == 1000:
			n = burstTo1000
		}
		f.Track.arm(f.Case.Subs * n)
		start := time.Now()
		if err := f.Burst(ctx, n); err != nil {
			return nil, err
		}
		if err := f.Track.wait(ctx); err != nil {
			return nil, fmt.Errorf("%d updates back to back: %w", n, err)
		}
		r["rate"] = float64(f.Case.Subs*n) / time.Since(start).Seconds()
	}
	for name, v := range f.Facts {
		r[name] = v
	}
	if f.Check != nil {
		return r, f.Check()
	}
	return r, nil
}

func (f *FanOuts) one(ctx context.Context) (Samples, error) {
	f.Track.arm(f.Case.Subs)
	if err := f.Publish(ctx); err != nil {
		return nil, err
	}
	if err := f.Track.wait(ctx); err != nil {
		return nil, err
	}
	latencies := f.Track.latencies()
	if f.Settle == nil {
		return latencies, nil
	}
	return latencies, f.Settle(ctx)
}

// Close stops it.
func (f *FanOuts) Close() { f.Stop() }

// Repeat makes a burst of single updates.
func Repeat(publish func(context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, updates int) error {
		for range updates {
			if err := publish(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// A Tracker takes the deliveries.
type Tracker struct {
	base    time.Time
	sentAt  atomic.Int64 // since base, as the next
	arrived []atomic.Int64
	missing atomic.Int64
	total   atomic.Int64
	done    chan struct{}
}

// NewTracker returns a tracker of so many subscribers.
func NewTracker(subs int) *Tracker {
	return &Tracker{base: time.Now(), arrived: make([]atomic.Int64, subs), done: make(chan struct{}, 1)}
}

// Delivered notes that a subscriber was told of an update.
func (t *Tracker) Delivered(sub int) {
	t.arrived[sub].Store(int64(time.Since(t.base)))
	t.total.Add(1)
	if t.missing.Add(-1) == 0 {
		t.done <- struct{}{}
	}
}

// Total returns the number of deliveries so far.
func (t *Tracker) Total() int64 { return t.total.Load() }

func (t *Tracker) arm(deliveries int) {
	t.missing.Store(int64(deliveries))
	t.sentAt.Store(int64(time.Since(t.base)))
}

func (t *Tracker) wait(ctx context.Context) error {
	const patience = 30 * time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%d deliveries missing after %v", t.missing.Load(), patience)
	}
}

func (t *Tracker) latencies() Samples {
	sent := t.sentAt.Load()
	out := make(Samples, len(t.arrived))
	for i := range t.arrived {
		out[i] = time.Duration(t.arrived[i].Load() - sent)
	}
	return out
}

// A Footprint is what this process, and so both ends, keeps.
type Footprint struct {
	octets     uint64
	goroutines int
}

// Foot collects garbage and returns what is left: heap and stacks.
func Foot() Footprint {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Footprint{m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()}
}

// Each returns the growth since then, for each of n.
func (f Footprint) Each(before Footprint, n int) Round {
	return Round{
		"kib":        (float64(f.octets) - float64(before.octets)) / 1024 / float64(n),
		"goroutines": float64(f.goroutines-before.goroutines) / float64(n),
	}
}
