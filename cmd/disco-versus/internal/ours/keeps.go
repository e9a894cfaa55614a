package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/disco"
)

// idle returns what an association and its two peers keep when nothing happens.
func (n *node) idle(ctx context.Context, c bench.Case) (bench.Bench, error) {
	before := bench.Foot()
	for range c.Conns {
		if _, _, err := n.connect(ctx, new(bench.Meter)); err != nil {
			return nil, err
		}
	}
	time.Sleep(1500 * time.Millisecond) // the handshakes' buffers go back
	return &bench.Still{Found: bench.Foot().Each(before, c.Conns), Stop: n.Close}, nil
}

// subscriptions returns what one more subscription costs the responder.
func (n *node) subscriptions(ctx context.Context, c bench.Case) (bench.Bench, error) {
	r, err := n.newReader(ctx)
	if err != nil {
		return nil, err
	}
	before := bench.Foot()
	for i := range c.Subs {
		b, err := disco.AppendSubscribe(nil, &disco.Subscribe{Corr: disco.Corr(fmt.Sprintf("correlation-%04d", i)), Filter: follows})
		if err != nil {
			return nil, err
		}
		if err := r.ask(ctx, disco.TypeSubscribe, b); err != nil {
			return nil, err
		}
	}
	found := bench.Foot().Each(before, c.Subs)
	return &bench.Still{Found: found, Stop: func() { r.Close(); n.Close() }}, nil
}
