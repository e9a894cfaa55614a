// Package bench is what all contenders share: cases, rounds, and the ways of
// timing them.
package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Kind is one sort of work.
type Kind string

// The kinds.
const (
	List      Kind = "list"      // a connected client reads all Records, decoded and checked
	FanOut    Kind = "fanout"    // one change reaches Subs subscribers on Conns connections
	Call      Kind = "call"      // one record is asked for, InFlight at a time
	Idle      Kind = "idle"      // what Conns idle connections keep, both ends
	Subscribe Kind = "subscribe" // what Subs subscriptions on one connection keep
	Handshake Kind = "handshake" // a connection is made, both ends
	Update    Kind = "update"    // one of Records changes in the set, nobody is told
	Rate      Kind = "rate"      // PerSecond changes are offered to Subs subscribers on one connection
)

// A Case is what all contenders do in turn.
type Case struct {
	Kind      Kind `json:"kind"`
	Records   int  `json:"records,omitempty"`
	Subs      int  `json:"subs,omitempty"`
	Conns     int  `json:"conns,omitempty"`
	InFlight  int  `json:"in_flight,omitempty"`
	PerSecond int  `json:"per_second,omitempty"`
}

// A Round is the metrics of one round, by name.
type Round map[string]float64

// A Bench is a case that one contender has set up.
type Bench interface {
	// Round does the work for a while, at least once.
	Round(ctx context.Context) (Round, error)
	// Close gives everything back.
	Close()
}

// Open sets a case up.
type Open func(ctx context.Context, c Case) (Bench, error)

// How long a round goes on once it has done the least.
const (
	listTime   = 60 * time.Millisecond
	updateTime = 60 * time.Millisecond
	callTime   = 100 * time.Millisecond
)

// Samples are durations of the same thing.
type Samples []time.Duration

// Quantile returns the nearest-rank q-quantile, q in (0, 1].
func (s Samples) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Lists is a Bench of the kind List.
type Lists struct {
	Records int
	List    func(ctx context.Context) (got int, err error)
	Meter   *Meter // of the client's connection; nil: not known
	Facts   Round  // added to each round
	Stop    func()
	first   time.Duration // that the first listing took, when nothing was known
}

// Round lists until listTime is over.
func (l *Lists) Round(ctx context.Context) (Round, error) {
	list := func() error {
		got, err := l.List(ctx)
		if err == nil && got != l.Records {
			err = fmt.Errorf("listed %d records, want %d", got, l.Records)
		}
		return err
	}
	if l.first == 0 {
		start := time.Now()
		if err := list(); err != nil {
			return nil, err
		}
		l.first = time.Since(start)
		runtime.GC()
	}
	var samples Samples
	wire := l.Meter.Received()
	for began := time.Now(); len(samples) == 0 || time.Since(began) < listTime; {
		start := time.Now()
		if err := list(); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(start))
	}
	r := Round{"us": Micros(samples.Quantile(0.5)), "first_us": Micros(l.first)}
	if l.Meter != nil {
		r["wire"] = float64(l.Meter.Received()-wire) / float64(len(samples)*l.Records)
	}
	for name, v := range l.Facts {
		r[name] = v
	}
	return r, nil
}

// Close stops it.
func (l *Lists) Close() { l.Stop() }

// Calls is a Bench of the kind Call.
type Calls struct {
	InFlight int
	Call     func(ctx context.Context) error
	Stop     func()
	warm     bool
}

// Round has InFlight callers ask, each again when it has its answer.
func (c *Calls) Round(ctx context.Context) (Round, error) {
	if !c.warm {
		for range 100 {
			if err := c.Call(ctx); err != nil {
				return nil, err
			}
		}
		c.warm = true
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all Samples
	var failed error
	began := time.Now()
	for range c.InFlight {
		wg.Go(func() {
			var mine Samples
			var err error
			for err == nil && time.Since(began) < callTime {
				start := time.Now()
				if err = c.Call(ctx); err == nil {
					mine = append(mine, time.Since(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return CallRound(all, time.Since(began)), failed
}

// CallRound returns the round of calls that took so long.
func CallRound(all Samples, spent time.Duration) Round {
	return Round{
		"p50_us": Micros(all.Quantile(0.5)),
		"p99_us": Micros(all.Quantile(0.99)),
		"ops_s":  float64(len(all)) / spent.Seconds(),
	}
}

// Close stops it.
func (c *Calls) Close() { c.Stop() }

// Still is a Bench whose every round is the same: what was found when it was
// set up.
type Still struct {
	Found Round
	Stop  func()
}

// Round returns what was found.
func (s *Still) Round(context.Context) (Round, error) { return s.Found, nil }

// Close stops it.
func (s *Still) Close() { s.Stop() }

// Timed is a Bench that times one operation, whose result is in microseconds.
type Timed struct {
	Op   func(ctx context.Context) error
	Stop func()
}

// Round repeats the operation until listTime is over.
func (t *Timed) Round(ctx context.Context) (Round, error) {
	var samples Samples
	for began := time.Now(); len(samples) == 0 || time.Since(began) < listTime; {
		start := time.Now()
		if err := t.Op(ctx); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(start))
	}
	return Round{"us": Micros(samples.Quantile(0.5))}, nil
}

// Close stops it.
func (t *Timed) Close() { t.Stop() }
