package channel_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// connect returns two peers over a real association on loopback.
func connect(tb testing.TB, client, server channel.Config) (c, s *channel.Peer) {
	tb.Helper()
	key := func() ed25519.PrivateKey {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		return k
	}
	l, err := association.Listen("127.0.0.1:0", &association.Config{Identity: key(), TLS: &tls.Config{InsecureSkipVerify: true}})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		a   *association.Association
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		a, err := l.Accept(context.Background())
		got <- accepted{a, err}
	}()
	ca, err := association.Dial(context.Background(), l.Addr().String(), &association.Config{Identity: key(), TLS: &tls.Config{InsecureSkipVerify: true}})
	if err != nil {
		tb.Fatal(err)
	}
	sa := <-got
	if sa.err != nil {
		tb.Fatal(sa.err)
	}
	start := func(a *association.Association, cfg channel.Config) *channel.Peer {
		tr, err := a.Transport(frame.ChannelDiscovery)
		if err != nil {
			tb.Fatal(err)
		}
		p, err := channel.New(tr, cfg)
		if err != nil {
			tb.Fatal(err)
		}
		return p
	}
	s = start(sa.a, server)
	c = start(ca, client)
	tb.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// tools returns a set of n tools whose records have some 130 octets.
func tools(tb testing.TB, n int) *record.Set {
	tb.Helper()
	set := record.NewSet(record.SetConfig{Carries: func(id uint64) bool { return id == 1 }})
	ref := "sha256:8b1a9953c4611296a827abf8c47804d7e6f2d1b0a9c8e7f6d5c4b3a291807f6e"
	effect := record.ReadOnly
	err := set.Update(func(tx *record.Tx) error {
		for i := range n {
			r, err := record.Tool{ID: record.ID(fmt.Sprintf("tool-%010d", i)), Name: fmt.Sprintf("fs.tool.%07d", i),
				ProtocolID: 1, Effect: &effect, SchemaRef: &ref}.Record()
			if err != nil {
				return err
			}
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

var unlimited = channel.Limits{QueryRate: -1, PageRate: -1, MaxListRecords: 1 << 20, MaxListLen: 1 << 30,
	MaxSubscriptions: 1 << 20, MaxOwnSubscriptions: 1 << 20, MaxCacheRecords: 1 << 20}

// A listing of what the last one had, and, unknown, of what the cache has no room for.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10000, 100000} {
		for _, known := range []string{"", ",unknown"} {
			b.Run(fmt.Sprintf("records=%d%s", n, known), func(b *testing.B) {
				hub := subscribe.NewHub(tools(b, n))
				defer hub.Close()
				limits := unlimited
				if known != "" {
					limits.MaxCacheRecords = 1
				}
				c, _ := connect(b, channel.Config{Limits: limits}, channel.Config{Hub: hub, Limits: unlimited})
				b.ReportAllocs()
				for b.Loop() {
					l, err := c.Query(context.Background(), channel.Query{})
					if err != nil || len(l.Records) != n {
						b.Fatal(err, len(l.Records))
					}
				}
			})
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			set := tools(b, 1)
			hub := subscribe.NewHub(set)
			defer hub.Close()
			c, _ := connect(b, channel.Config{Limits: unlimited}, channel.Config{Hub: hub, Limits: unlimited})
			var count atomic.Int64
			synced := make(chan bool, n)
			got := make(chan bool, 1)
			for range n {
				_, err := c.Subscribe(record.Filter{}, func(e channel.Event) {
					switch e.Kind {
					case channel.EventSynced:
						synced <- true
					case channel.EventReplaced:
						if count.Add(1)%int64(n) == 0 {
							got <- true
						}
					}
				})
				if err != nil {
					b.Fatal(err)
				}
				select {
				case <-synced:
				case <-time.After(5 * time.Second):
					b.Fatal("not synced")
				}
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				rename(b, set, i)
				<-got
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/delivery")
		})
	}
}

// rename changes the first of the tools.
func rename(tb testing.TB, set *record.Set, i int) {
	tb.Helper()
	err := set.Update(func(tx *record.Tx) error {
		r, err := record.Tool{ID: "tool-0000000000", Name: fmt.Sprint("fs.tool.", i), ProtocolID: 1}.Record()
		if err != nil {
			return err
		}
		return tx.Put(r)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Queries for one record, so many at a time.
func BenchmarkInFlight(b *testing.B) {
	for _, n := range []int{2, 64} { // on two processors
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			hub := subscribe.NewHub(tools(b, 100))
			defer hub.Close()
			limits := unlimited
			limits.MaxOutstanding, limits.MaxUnanswered = n, n
			c, _ := connect(b, channel.Config{Limits: limits}, channel.Config{Hub: hub, Limits: limits})
			q := channel.Query{Filter: record.Filter{NamePrefix: "fs.tool.0000007", HasPrefix: true}}
			b.ReportAllocs()
			b.SetParallelism(n / 2)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if l, err := c.Query(ctx, q); err != nil || len(l.Records) != 1 {
						b.Error(err)
					}
				}
			})
		})
	}
}

// One update to one subscription on each of so many associations.
func BenchmarkFanOut(b *testing.B) {
	const n = 1000
	set := tools(b, 1)
	hub := subscribe.NewHub(set)
	defer hub.Close()
	var count atomic.Int64
	got := make(chan bool, 1)
	for range n {
		c, _ := connect(b, channel.Config{Limits: unlimited}, channel.Config{Hub: hub, Limits: unlimited})
		s, err := c.Subscribe(record.Filter{}, func(e channel.Event) {
			if e.Kind == channel.EventReplaced && count.Add(1)%n == 0 {
				got <- true
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.WaitSynced(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		i++
		rename(b, set, i)
		<-got
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delivery")
}
