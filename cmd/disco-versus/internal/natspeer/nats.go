// Package natspeer sets up an embedded NATS server over TLS 1.3: request/reply,
// publish/subscribe, and the key-value store of JetStream, kept in memory.
package natspeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Core sets a case up with publish/subscribe and request/reply.
func Core(ctx context.Context, c bench.Case) (bench.Bench, error) {
	b, err := start()
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case bench.Call:
		return closing(b)(b.calls(c))
	case bench.FanOut:
		return closing(b)(b.pubSub(c))
	case bench.Idle:
		return closing(b)(b.idle(c))
	}
	return closing(b)(nil, fmt.Errorf("%s: not NATS's", c.Kind))
}

// KV sets a case up with the key-value store.
func KV(ctx context.Context, c bench.Case) (bench.Bench, error) {
	b, err := start()
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case bench.List:
		return closing(b)(b.list(ctx, c))
	case bench.FanOut:
		return closing(b)(b.watch(ctx, c))
	}
	return closing(b)(nil, fmt.Errorf("%s: not the NATS key-value store's", c.Kind))
}

// closing stops the broker where a case could not be set up.
func closing(b *broker) func(bench.Bench, error) (bench.Bench, error) {
	return func(x bench.Bench, err error) (bench.Bench, error) {
		if err != nil {
			b.Close()
		}
		return x, err
	}
}

// broker is a running server and the connections to it.
type broker struct {
	identity *bench.Identity
	dir      string
	server   *server.Server
	conns    []*nats.Conn
}

func start() (*broker, error) {
	id, err := bench.NewIdentity()
	if err != nil {
		return nil, err
	}
	dir, err := bench.Scratch()
	if err != nil {
		return nil, err
	}
	b := &broker{identity: id, dir: dir}
	b.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, TLSConfig: id.ServerTLS(),
		JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	b.server.Start()
	if !b.server.ReadyForConnections(10 * time.Second) {
		b.Close()
		return nil, errors.New("server not ready after 10 s")
	}
	return b, nil
}

// Close ends connections and server, and removes its data.
func (b *broker) Close() {
	for _, c := range b.conns {
		c.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
	os.RemoveAll(b.dir)
}

type dialer struct{ *bench.Meter }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (b *broker) connect(meter *bench.Meter) (*nats.Conn, error) {
	c, err := nats.Connect(b.server.ClientURL(), nats.Secure(b.identity.ClientTLS()), nats.NoReconnect(), nats.SetCustomDialer(dialer{meter}))
	if err == nil {
		b.conns = append(b.conns, c)
	}
	return c, err
}

func (b *broker) connectAll(n int) ([]*nats.Conn, error) {
	out := make([]*nats.Conn, n)
	for i := range out {
		var err error
		if out[i], err = b.connect(new(bench.Meter)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *broker) calls(c bench.Case) (bench.Bench, error) {
	conns, err := b.connectAll(2)
	if err != nil {
		return nil, err
	}
	requester, responder := conns[0], conns[1]
	reply := sample.Record(7, 0).AppendTo(nil)
	if _, err := responder.Subscribe("ask", func(m *nats.Msg) { m.Respond(reply) }); err != nil {
		return nil, err
	}
	if err := responder.Flush(); err != nil {
		return nil, err
	}
	return &bench.Calls{
		InFlight: c.InFlight,
		Call: func(ctx context.Context) error {
			m, err := requester.RequestWithContext(ctx, "ask", nil)
			if err != nil {
				return err
			}
			_, err = record.Parse(m.Data, dcbor.Generation3)
			return err
		},
		Stop: b.Close,
	}, nil
}

func (b *broker) pubSub(c bench.Case) (bench.Bench, error) {
	publisher, err := b.connect(new(bench.Meter))
	if err != nil {
		return nil, err
	}
	track := bench.NewTracker(c.Subs)
	before := bench.Foot()
	conns, err := b.connectAll(c.Conns)
	if err != nil {
		return nil, err
	}
	if c.Conns == 1 {
		before = bench.Foot() // only the subscriptions count
	}
	const subject = "updates"
	for i := range c.Subs {
		if _, err := conns[i%c.Conns].Subscribe(subject, func(*nats.Msg) { track.Delivered(i) }); err != nil {
			return nil, err
		}
	}
	for _, conn := range conns {
		if err := conn.Flush(); err != nil {
			return nil, err
		}
	}
	value := sample.Record(7, 0).AppendTo(nil)
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: func(context.Context) error {
			return errors.Join(publisher.Publish(subject, value), publisher.Flush())
		},
		Burst: func(_ context.Context, updates int) error {
			for range updates {
				if err := publisher.Publish(subject, value); err != nil {
					return err
				}
			}
			return publisher.Flush()
		},
		Stop: b.Close,
	}, nil
}

func (b *broker) idle(c bench.Case) (bench.Bench, error) {
	before := bench.Foot()
	if _, err := b.connectAll(c.Conns); err != nil {
		return nil, err
	}
	return &bench.Still{Found: bench.Foot().Each(before, c.Conns), Stop: b.Close}, nil
}

// bucket makes a bucket of so many records.
func bucket(ctx context.Context, conn *nats.Conn, records int) (jetstream.JetStream, jetstream.KeyValue, error) {
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return nil, nil, err
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "records", Storage: jetstream.MemoryStorage})
	if err != nil {
		return nil, nil, err
	}
	for i := range records {
		if _, err := js.PublishAsync("$KV.records."+sample.Name(i), sample.Record(i, 0).AppendTo(nil)); err != nil {
			return nil, nil, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return js, kv, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// list watches all keys up to the end of what is stored.
func (b *broker) list(ctx context.Context, c bench.Case) (bench.Bench, error) {
	meter := new(bench.Meter)
	conn, err := b.connect(meter)
	if err != nil {
		return nil, err
	}
	_, kv, err := bucket(ctx, conn, c.Records)
	if err != nil {
		return nil, err
	}
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		List: func(ctx context.Context) (got int, err error) {
			w, err := kv.WatchAll(ctx)
			if err != nil {
				return 0, err
			}
			defer w.Stop()
			for entry := range w.Updates() {
				if entry == nil { // the end
					return got, nil
				}
				if _, err := record.Parse(entry.Value(), dcbor.Generation3); err != nil {
					return got, err
				}
				got++
			}
			return got, errors.New("watch ended early")
		},
		Stop: b.Close,
	}, nil
}

func (b *broker) watch(ctx context.Context, c bench.Case) (bench.Bench, error) {
	publisher, err := b.connect(new(bench.Meter))
	if err != nil {
		return nil, err
	}
	js, kv, err := bucket(ctx, publisher, 1)
	if err != nil {
		return nil, err
	}
	track := bench.NewTracker(c.Subs)
	before := bench.Foot()
	conns, err := b.connectAll(c.Conns)
	if err != nil {
		return nil, err
	}
	views := make([]jetstream.KeyValue, c.Conns)
	for i, conn := range conns {
		own, err := jetstream.New(conn)
		if err != nil {
			return nil, err
		}
		if views[i], err = own.KeyValue(ctx, "records"); err != nil {
			return nil, err
		}
	}
	if c.Conns == 1 {
		before = bench.Foot()
	}
	// The watchers outlive ctx of the set-up: they end with their connections.
	for i := range c.Subs {
		w, err := views[i%c.Conns].WatchAll(context.WithoutCancel(ctx), jetstream.UpdatesOnly())
		if err != nil {
			return nil, err
		}
		go func() {
			for range w.Updates() {
				track.Delivered(i)
			}
		}()
	}
	value := sample.Record(7, 0).AppendTo(nil)
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: func(ctx context.Context) error {
			_, err := kv.Put(ctx, sample.Name(0), value)
			return err
		},
		Burst: func(ctx context.Context, updates int) error {
			for i := range updates { // a bucket keeps the last value of a key alone
				if _, err := js.PublishAsync("$KV.records."+sample.Name(i), value); err != nil {
					return err
				}
			}
			return nil
		},
		Stop: b.Close,
	}, nil
}
