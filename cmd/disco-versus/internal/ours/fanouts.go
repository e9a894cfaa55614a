package ours

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// follows is what every subscriber asks for: one of the set's records, which is
// the one that changes.
var follows = record.Filter{NamePrefix: sample.Name(7), HasPrefix: true}

// publisher changes that record.
func (n *node) publisher() func(context.Context) error {
	versions := [2]record.Record{sample.Record(7, 1), sample.Record(7, 2)}
	i := 0
	return func(context.Context) error {
		i++
		return n.set.Update(func(tx *record.Tx) error { return tx.Put(versions[i%2]) })
	}
}

// fanOuts subscribes and calls a tracker for each UPDATE.
func (n *node) fanOuts(ctx context.Context, c bench.Case) (bench.Bench, error) {
	track := bench.NewTracker(c.Subs)
	before := bench.Foot()
	clients := make([]*channel.Peer, c.Conns)
	for i := range clients {
		var err error
		if clients[i], _, err = n.connect(ctx, new(bench.Meter)); err != nil {
			return nil, err
		}
	}
	atConns := bench.Foot()
	subs := make([]*channel.Subscription, c.Subs)
	for i := range subs {
		sub, err := clients[i%c.Conns].Subscribe(follows, func(e channel.Event) {
			if e.Kind == channel.EventReplaced {
				track.Delivered(i)
			}
		})
		if err != nil {
			return nil, err
		}
		subs[i] = sub
	}
	for _, sub := range subs {
		if err := sub.WaitSynced(ctx); err != nil {
			return nil, err
		}
	}
	if c.Conns > 1 {
		time.Sleep(1500 * time.Millisecond) // buffers of the handshakes and snapshots go back
	} else {
		before = atConns // of a connection that all share only the subscriptions count
	}
	publish := n.publisher()
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: publish, Burst: bench.Repeat(publish),
		Check: func() error {
			var frames uint64
			for _, p := range clients {
				frames += p.Stats().FramesIn[disco.TypeUpdate-disco.TypeQuery]
			}
			if got := uint64(track.Total()); got != frames {
				return fmt.Errorf("%d callbacks for %d UPDATE frames", got, frames)
			}
			return nil
		},
		Stop: n.Close,
	}, nil
}

// rates offers changes at a steady rate, whether or not the subscribers follow.
func (n *node) rates(ctx context.Context, c bench.Case) (bench.Bench, error) {
	client, _, err := n.connect(ctx, new(bench.Meter))
	if err != nil {
		return nil, err
	}
	r := &rate{c: c, publish: n.publisher(), stop: n.Close, client: client, set: n.set, base: time.Now()}
	for i := range c.Subs {
		sub, err := client.Subscribe(follows, func(e channel.Event) {
			if e.Kind == channel.EventReplaced {
				r.arrived(i, e.Record.Revision())
			}
		})
		if err != nil {
			return nil, err
		}
		if err := sub.WaitSynced(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// rate is a Bench of the kind Rate.
type rate struct {
	c       bench.Case
	publish func(context.Context) error
	stop    func()
	client  *channel.Peer
	set     *record.Set
	base    time.Time

	sent   [1 << 20]atomic.Int64 // when each revision was due, since base
	events atomic.Int64
	behind atomic.Int64 // nanoseconds that the events of subscriber 0 were late, together
	first  atomic.Int64 // events of subscriber 0
	newest atomic.Uint64
}

func (r *rate) arrived(sub int, revision uint64) {
	r.events.Add(1)
	if sub == 0 {
		r.behind.Add(int64(time.Since(r.base)) - r.sent[revision%uint64(len(r.sent))].Load())
		r.first.Add(1)
		r.newest.Store(revision)
	}
}

// Round publishes for half a second.
func (r *rate) Round(ctx context.Context) (bench.Round, error) {
	const goesOn = 500 * time.Millisecond
	r.events.Store(0)
	r.behind.Store(0)
	r.first.Store(0)
	frames := r.client.Stats().FramesIn[disco.TypeUpdate-disco.TypeQuery]
	have, _ := r.set.Snapshot().Get(sample.ID(7))
	revision := have.Revision()
	began := time.Now()
	published := 0
	for time.Since(began) < goesOn {
		for due := int(time.Since(began).Seconds() * float64(r.c.PerSecond)); published < due && time.Since(began) < goesOn; published++ {
			revision++
			r.sent[revision%uint64(len(r.sent))].Store(int64(time.Since(r.base)))
			if err := r.publish(ctx); err != nil {
				return nil, err
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
	offered := time.Since(began)
	for r.newest.Load() != revision { // all that is going to arrive has
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		time.Sleep(100 * time.Microsecond)
	}
	spent := time.Since(began)
	frames = r.client.Stats().FramesIn[disco.TypeUpdate-disco.TypeQuery] - frames
	return bench.Round{
		"published_s":  float64(published) / offered.Seconds(),
		"delivered_s":  float64(r.events.Load()) / spent.Seconds(),
		"frames_each":  float64(frames) / float64(published*r.c.Subs),
		"late_mean_us": float64(r.behind.Load()) / 1000 / float64(max(1, r.first.Load())),
	}, nil
}

func (r *rate) Close() { r.stop() }
