// Package xdspeer sets up go-control-plane, Envoy's discovery service, with its
// incremental protocol over TLS 1.3: delta ADS from its LinearCache, the faster
// of its two.
package xdspeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
)

// Open sets a case up.
func Open(ctx context.Context, c bench.Case) (bench.Bench, error) {
	records := c.Records
	if records == 0 {
		records = 100
	}
	p, err := serve(ctx, records)
	if err != nil {
		return nil, err
	}
	var b bench.Bench
	switch c.Kind {
	case bench.List:
		b, err = p.list(c)
	case bench.FanOut:
		b, err = p.fanOut(c)
	default:
		err = fmt.Errorf("%s: not xDS's", c.Kind)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return b, nil
}

// resourceOf makes a cluster that carries a record's strings.
func resourceOf(i, version int) types.Resource {
	return &cluster.Cluster{
		Name:                 sample.Name(i),
		AltStatName:          sample.Label(i, version),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{ServiceName: sample.Schema(i)},
	}
}

// plane is a control plane and the connections to it.
type plane struct {
	identity *bench.Identity
	cache    *cache.LinearCache
	address  string
	grpc     *grpc.Server
	served   chan error
	conns    []*grpc.ClientConn
	ctx      context.Context
	cancel   context.CancelFunc
}

func serve(ctx context.Context, records int) (*plane, error) {
	id, err := bench.NewIdentity()
	if err != nil {
		return nil, err
	}
	listener, err := bench.Loopback()
	if err != nil {
		return nil, err
	}
	resources := map[string]types.Resource{}
	for i := range records {
		resources[sample.Name(i)] = resourceOf(i, 0)
	}
	p := &plane{
		identity: id,
		cache:    cache.NewLinearCache(resource.ClusterType, cache.WithInitialResources(resources)),
		address:  listener.Addr().String(),
		grpc:     grpc.NewServer(grpc.Creds(credentials.NewTLS(id.ServerTLS()))),
		served:   make(chan error, 1),
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	discovery.RegisterAggregatedDiscoveryServiceServer(p.grpc, xds.NewServer(p.ctx, p.cache, nil))
	go func() { p.served <- p.grpc.Serve(listener) }()
	return p, nil
}

// Close ends everything.
func (p *plane) Close() {
	p.cancel()
	for _, c := range p.conns {
		c.Close()
	}
	p.grpc.Stop()
	<-p.served
}

func (p *plane) connect(meter *bench.Meter) (*grpc.ClientConn, error) {
	const maxMessage = 256 << 20 // all clusters come in one message
	c, err := grpc.NewClient("passthrough:///"+p.address,
		grpc.WithTransportCredentials(credentials.NewTLS(p.identity.ClientTLS())),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return meter.DialContext(ctx, "tcp", address)
		}))
	if err == nil {
		p.conns = append(p.conns, c)
	}
	return c, err
}

// stream is a delta ADS stream that is subscribed to all clusters.
type stream struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func subscribe(ctx context.Context, conn *grpc.ClientConn) (stream, error) {
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return stream{}, err
	}
	return stream{s}, s.Send(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: "node"}, TypeUrl: resource.ClusterType})
}

// next receives a response and decodes its clusters.
func (s stream) next() (r *discovery.DeltaDiscoveryResponse, clusters int, err error) {
	if r, err = s.Recv(); err != nil {
		return nil, 0, err
	}
	for _, x := range r.Resources {
		var c cluster.Cluster
		if err := x.Resource.UnmarshalTo(&c); err != nil {
			return nil, 0, err
		}
		clusters++
	}
	return r, clusters, nil
}

func (s stream) acknowledge(r *discovery.DeltaDiscoveryResponse) error {
	return s.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
}

// list opens a stream, on a connection that stands, for each listing.
func (p *plane) list(c bench.Case) (bench.Bench, error) {
	meter := new(bench.Meter)
	conn, err := p.connect(meter)
	if err != nil {
		return nil, err
	}
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		List: func(ctx context.Context) (int, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			s, err := subscribe(ctx, conn)
			if err != nil {
				return 0, err
			}
			_, got, err := s.next()
			return got, err
		},
		Stop: p.Close,
	}, nil
}

// fanOut changes one of 100 clusters. A stream asks for the next change when it
// has acknowledged the last, so a faster sequence would be merged.
func (p *plane) fanOut(c bench.Case) (bench.Bench, error) {
	track := bench.NewTracker(c.Subs)
	before := bench.Foot()
	conns := make([]*grpc.ClientConn, c.Conns)
	for i := range conns {
		var err error
		if conns[i], err = p.connect(new(bench.Meter)); err != nil {
			return nil, err
		}
	}
	for i := range c.Subs {
		s, err := subscribe(p.ctx, conns[i%c.Conns])
		if err != nil {
			return nil, err
		}
		first, _, err := s.next()
		if err != nil {
			return nil, err
		}
		if err := s.acknowledge(first); err != nil {
			return nil, err
		}
		go func() {
			for {
				r, _, err := s.next()
				if err != nil {
					return
				}
				track.Delivered(i)
				if s.acknowledge(r) != nil {
					return
				}
			}
		}()
	}
	settle := func(ctx context.Context) error { return p.allWatch(ctx, c.Subs) }
	if err := settle(p.ctx); err != nil {
		return nil, err
	}
	version := 0
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: func(context.Context) error {
			version++
			return p.cache.UpdateResource(sample.Name(7), resourceOf(7, version))
		},
		Settle: settle,
		Stop:   p.Close,
	}, nil
}

func (p *plane) allWatch(ctx context.Context, want int) error {
	const patience = 20 * time.Second
	for began := time.Now(); p.cache.NumWildcardWatches() < want; time.Sleep(100 * time.Microsecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > patience {
			return errors.New("streams do not ask for the next change")
		}
	}
	return nil
}
