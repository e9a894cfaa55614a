package channel_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// Changes that concern many associations at once, each over TCP and TLS, while some
// of them ask for listings and some end: all views and listings come to the set.
//
// Covers: C15, C31, C36
func TestFanOutOverAssociations(t *testing.T) {
	n, changes := 100, 300
	if testing.Short() {
		n, changes = 70, 50
	}
	set := tools(t, 50)
	hub := subscribe.NewHub(set)
	defer hub.Close()
	peers := make([]*channel.Peer, n)
	subs := make([]*channel.Subscription, n)
	changed := make([]chan bool, n)
	for i := range n {
		peers[i], _ = connect(t, channel.Config{Limits: unlimited}, channel.Config{Hub: hub, Limits: unlimited})
		changed[i] = make(chan bool, 1)
		var err error
		subs[i], err = peers[i].Subscribe(record.Filter{}, func(channel.Event) {
			select {
			case changed[i] <- true:
			default:
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, s := range subs {
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(i, err)
		}
	}
	var wg sync.WaitGroup
	ended := n / 10 // end while changes come
	wg.Go(func() {
		for _, p := range peers[:ended] {
			p.Close()
		}
	})
	for k := range 4 {
		wg.Go(func() {
			for range 50 {
				if l, err := peers[ended+k].Query(ctx, channel.Query{}); err != nil || len(l.Records) != 50 {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for i := range changes {
		rename(t, set, i)
	}
	wg.Wait()
	want := set.Snapshot().Digest()
	for i, s := range subs[ended:] {
		for s.Digest() != want {
			select {
			case <-changed[ended+i]:
			case <-ctx.Done():
				t.Fatalf("subscription %d differs: %v, %+v", i, s.Err(), peers[ended+i].Stats())
			}
		}
	}
	for i, p := range peers[ended:] {
		l, err := p.Query(ctx, channel.Query{})
		if err != nil || l.Digest() != want {
			t.Errorf("listing %d differs: %v", i, err)
		}
	}
}

// Both ask each other for long listings at once, so that both sockets are full of
// what is to be read, again and again.
//
// Covers: F58
func TestF58OverTCP(t *testing.T) {
	const records = 20_000
	hubs := [2]*subscribe.Hub{subscribe.NewHub(tools(t, records)), subscribe.NewHub(tools(t, records))}
	defer hubs[0].Close()
	defer hubs[1].Close()
	a, b := connect(t, channel.Config{Hub: hubs[0], Limits: unlimited, PushPages: true}, channel.Config{Hub: hubs[1], Limits: unlimited})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range []*channel.Peer{a, b, a, b} {
		wg.Go(func() {
			for range 3 {
				if l, err := p.Query(ctx, channel.Query{}); err != nil || len(l.Records) != records {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
}
