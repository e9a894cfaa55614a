// Package etcdpeer sets up an embedded etcd of one member over TLS 1.3: range
// reads, and watches. It keeps its data in memory, does not fsync and has a
// listener of its own for gRPC: the fastest that etcd offers.
package etcdpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Open sets a case up.
func Open(ctx context.Context, c bench.Case) (bench.Bench, error) {
	m, err := start(ctx)
	if err != nil {
		return nil, err
	}
	var b bench.Bench
	switch c.Kind {
	case bench.List:
		b, err = m.list(ctx, c)
	case bench.Call:
		b, err = m.calls(ctx, c)
	case bench.FanOut:
		b, err = m.watch(ctx, c)
	default:
		err = fmt.Errorf("%s: not etcd's", c.Kind)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return b, nil
}

// member is a running etcd and the clients of it.
type member struct {
	identity *bench.Identity
	dir      string
	etcd     *embed.Etcd
	endpoint string
	clients  []*clientv3.Client
}

// freeURL returns an address that nobody listens on.
func freeURL(scheme string) (url.URL, error) {
	l, err := bench.Loopback()
	if err != nil {
		return url.URL{}, err
	}
	defer l.Close()
	return url.URL{Scheme: scheme, Host: l.Addr().String()}, nil
}

func start(ctx context.Context) (*member, error) {
	id, err := bench.NewIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := bench.Scratch()
	if err != nil {
		return nil, err
	}
	m := &member{identity: id, dir: dir}
	if err := m.run(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *member) run(ctx context.Context) error {
	cert, key, err := m.identity.WriteFiles(m.dir)
	if err != nil {
		return err
	}
	var urls [3]url.URL // gRPC, HTTP, peers
	for i, scheme := range []string{"https", "https", "http"} {
		if urls[i], err = freeURL(scheme); err != nil {
			return err
		}
	}
	c := embed.NewConfig()
	c.Dir = m.dir + "/data"
	c.LogLevel = "panic"
	c.UnsafeNoFsync = true
	c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key}
	c.ListenClientUrls, c.AdvertiseClientUrls = urls[:1], urls[:1]
	c.ListenClientHttpUrls = urls[1:2]
	c.ListenPeerUrls, c.AdvertisePeerUrls = urls[2:], urls[2:]
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	if m.etcd, err = embed.StartEtcd(c); err != nil {
		return err
	}
	m.endpoint = urls[0].String()
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case err := <-m.etcd.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends clients and member, and removes its data.
func (m *member) Close() {
	for _, c := range m.clients {
		c.Close()
	}
	if m.etcd != nil {
		m.etcd.Close()
	}
	os.RemoveAll(m.dir)
}

func (m *member) connect(meter *bench.Meter) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{m.endpoint},
		TLS:         m.identity.ClientTLS(),
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return meter.DialContext(ctx, "tcp", strings.TrimPrefix(address, "https://"))
			}),
		},
	})
	if err == nil {
		m.clients = append(m.clients, c)
	}
	return c, err
}

const prefix = "records/"

// fill stores the records, as many at once as etcd takes.
func fill(ctx context.Context, c *clientv3.Client, records int) error {
	var puts []clientv3.Op
	for i := range records {
		puts = append(puts, clientv3.OpPut(prefix+sample.Name(i), sample.Record(i, 0).Octets()))
		if len(puts) == int(embed.DefaultMaxTxnOps) || i == records-1 {
			if _, err := c.Txn(ctx).Then(puts...).Commit(); err != nil {
				return err
			}
			puts = puts[:0]
		}
	}
	return nil
}

// list reads the prefix in one range, which is etcd's fastest way.
func (m *member) list(ctx context.Context, c bench.Case) (bench.Bench, error) {
	meter := new(bench.Meter)
	client, err := m.connect(meter)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, client, c.Records); err != nil {
		return nil, err
	}
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		List: func(ctx context.Context) (int, error) {
			page, err := client.Get(ctx, prefix, clientv3.WithPrefix())
			if err != nil {
				return 0, err
			}
			for _, kv := range page.Kvs {
				if _, err := record.Parse(kv.Value, dcbor.Generation3); err != nil {
					return 0, err
				}
			}
			return len(page.Kvs), nil
		},
		Stop: m.Close,
	}, nil
}

func (m *member) calls(ctx context.Context, c bench.Case) (bench.Bench, error) {
	client, err := m.connect(new(bench.Meter))
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, client, 100); err != nil {
		return nil, err
	}
	return &bench.Calls{
		InFlight: c.InFlight,
		Call: func(ctx context.Context) error {
			r, err := client.Get(ctx, prefix+sample.Name(7))
			if err != nil {
				return err
			}
			if len(r.Kvs) != 1 {
				return errors.New("not one record")
			}
			_, err = record.Parse(r.Kvs[0].Value, dcbor.Generation3)
			return err
		},
		Stop: m.Close,
	}, nil
}

func (m *member) watch(ctx context.Context, c bench.Case) (bench.Bench, error) {
	publisher, err := m.connect(new(bench.Meter))
	if err != nil {
		return nil, err
	}
	track := bench.NewTracker(c.Subs)
	// The watches outlive the set-up's ctx.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := func() {
		cancel() // the watches before their connections
		m.Close()
	}
	before := bench.Foot()
	clients := make([]*clientv3.Client, c.Conns)
	for i := range clients {
		if clients[i], err = m.connect(new(bench.Meter)); err != nil {
			cancel()
			return nil, err
		}
	}
	if c.Conns == 1 {
		before = bench.Foot()
	}
	for i := range c.Subs {
		events := clients[i%c.Conns].Watch(watching, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if created, ok := <-events; !ok || !created.Created {
			cancel()
			return nil, errors.New("watch not created")
		}
		go func() {
			for response := range events {
				for range response.Events {
					track.Delivered(i)
				}
			}
		}()
	}
	value := sample.Record(7, 0).Octets()
	put := func(ctx context.Context) error {
		_, err := publisher.Put(ctx, prefix+sample.Name(7), value)
		return err
	}
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: put,
		Burst: func(ctx context.Context, updates int) error {
			puts, ctx := errgroup.WithContext(ctx)
			puts.SetLimit(16)
			for range updates {
				puts.Go(func() error { return put(ctx) })
			}
			return puts.Wait()
		},
		Stop: stop,
	}, nil
}
