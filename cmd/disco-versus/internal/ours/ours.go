// Package ours sets up this library: a responder and its requesters, on real
// associations over TCP and TLS 1.3 with the N-PAMP handshake, of generation 3.
package ours

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"fmt"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// Raised is what the benches set in channel.Limits: without it a peer refuses
// so many requests and subscriptions, and so long a listing.
const Raised = "`QueryRate`, `PageRate` off; `MaxSubscriptions`, `MaxOwnSubscriptions`, `MaxListRecords`, `MaxCacheRecords` 2^21; " +
	"`MaxUnsent`, `MaxUnanswered`, `MaxOutstanding` 2^18; `MaxListLen`, `MaxCacheLen`, `MaxPeerMemory` 4 GiB"

var raised = channel.Limits{
	QueryRate: -1, PageRate: -1,
	MaxSubscriptions: 1 << 21, MaxOwnSubscriptions: 1 << 21,
	MaxListRecords: 1 << 21, MaxListLen: 4 << 30,
	MaxCacheRecords: 1 << 21, MaxCacheLen: 4 << 30,
	MaxUnsent: 1 << 18, MaxUnanswered: 1 << 18, MaxOutstanding: 1 << 18,
	MaxPeerMemory: 4 << 30,
}

// Open sets a case up.
func Open(ctx context.Context, c bench.Case) (bench.Bench, error) { return open(ctx, c, raised) }

// Uncached is Open with requesters whose cache holds one record, so that they
// recognise nothing of what the last listing had.
func Uncached(ctx context.Context, c bench.Case) (bench.Bench, error) {
	limits := raised
	limits.MaxCacheRecords = 1
	return open(ctx, c, limits)
}

func open(ctx context.Context, c bench.Case, requester channel.Limits) (bench.Bench, error) {
	switch c.Kind {
	case bench.Handshake:
		return newHandshakes()
	case bench.Update:
		return newUpdates(c)
	}
	records := c.Records
	if records == 0 {
		records = 100
	}
	n, err := newNode(records)
	if err != nil {
		return nil, err
	}
	n.requester = requester
	var b bench.Bench
	switch c.Kind {
	case bench.List:
		b, err = n.lists(ctx, c)
	case bench.Call:
		b, err = n.calls(ctx, c)
	case bench.FanOut:
		b, err = n.fanOuts(ctx, c)
	case bench.Rate:
		b, err = n.rates(ctx, c)
	case bench.Idle:
		b, err = n.idle(ctx, c)
	case bench.Subscribe:
		b, err = n.subscriptions(ctx, c)
	default:
		err = fmt.Errorf("no kind %q", c.Kind)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return b, nil
}

// A node is a responder that listens, and the requesters that dialled it.
type node struct {
	identity  *bench.Identity
	set       *record.Set
	hub       *subscribe.Hub
	listener  *association.Listener
	requester channel.Limits
	ends      []interface{ Close() error }
}

func newKey() ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic("BUG: ours: " + err.Error())
	}
	return key
}

func newNode(records int) (*node, error) {
	identity, err := bench.NewIdentity()
	if err != nil {
		return nil, err
	}
	set, err := sample.Set(records)
	if err != nil {
		return nil, err
	}
	listener, err := association.Listen("127.0.0.1:0", &association.Config{Identity: newKey(), TLS: identity.ServerTLS()})
	if err != nil {
		return nil, err
	}
	return &node{identity: identity, set: set, hub: subscribe.NewHub(set), listener: listener}, nil
}

// Close ends all associations.
func (n *node) Close() {
	for i := len(n.ends) - 1; i >= 0; i-- {
		n.ends[i].Close()
	}
	n.listener.Close()
	n.hub.Close()
}

// clientTLS is the client's, with the ALPN names that association.Dial offers.
func clientTLS(id *bench.Identity) *tls.Config {
	t := id.ClientTLS()
	t.NextProtos = []string{"n-pamp/3", "n-pamp/2"}
	return t
}

// associate returns both ends' transports of a new association.
func (n *node) associate(ctx context.Context, meter *bench.Meter) (client, server frame.Transport, err error) {
	conn, err := meter.DialContext(ctx, "tcp", n.listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	type accepted struct {
		a   *association.Association
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		a, err := n.listener.Accept(ctx)
		got <- accepted{a, err}
	}()
	ca, err := association.Client(ctx, tls.Client(association.Direct(conn), clientTLS(n.identity)), &association.Config{Identity: newKey()})
	if err != nil {
		return nil, nil, err
	}
	sa := <-got
	if sa.err != nil {
		return nil, nil, sa.err
	}
	if client, err = ca.Transport(frame.ChannelDiscovery); err != nil {
		return nil, nil, err
	}
	server, err = sa.a.Transport(frame.ChannelDiscovery)
	return client, server, err
}

// connect returns the peers of a new association.
func (n *node) connect(ctx context.Context, meter *bench.Meter) (client, server *channel.Peer, err error) {
	ct, st, err := n.associate(ctx, meter)
	if err != nil {
		return nil, nil, err
	}
	if server, err = channel.New(st, channel.Config{Hub: n.hub, Limits: raised}); err != nil {
		return nil, nil, err
	}
	if client, err = channel.New(ct, channel.Config{Limits: n.requester}); err != nil {
		return nil, nil, err
	}
	n.ends = append(n.ends, client, server)
	return client, server, nil
}
