package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// large are n records of about 32 KiB each, under ids that begin with prefix.
func large(prefix string, n int) []record.Record {
	label := strings.Repeat("l", 32<<10)
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = must(record.Tool{ID: record.ID(fmt.Sprintf("%s%04d", prefix, i)), Name: fmt.Sprintf("%s.%d", prefix, i), ProtocolID: 1, Label: &label}.Record())
	}
	return recs
}

// flowing returns a requester and a responder on an association of generation 3 over
// a wire that takes 100 ms each way and any number of octets.
func flowing(t *testing.T, set *record.Set, responder Config) (ca, sa *association.Association, requester *Peer) {
	t.Helper()
	w := channeltest.NewWire()
	for _, way := range []*channeltest.Way{w.AB, w.BA} {
		way.Room(0)
		way.Delay(100 * time.Millisecond)
	}
	cfg := func(n byte) *association.Config {
		return &association.Config{Identity: channeltest.Identity(n), Generations: []int{3}}
	}
	ca, sa, err := channeltest.Associate(t.Context(), w.A, w.B, cfg(1), cfg(2))
	if err != nil {
		t.Fatal(err)
	}
	h := subscribe.NewHub(set)
	responder.Hub = h
	peer := func(a *association.Association, cfg Config) *Peer {
		tr, err := a.Transport(frame.ChannelDiscovery)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(tr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	t.Cleanup(h.Close)
	peer(sa, responder)
	return ca, sa, peer(ca, Config{Limits: Limits{RequestTimeout: time.Minute}})
}

// A listing of 20 MiB against a window of 1 MiB: the responder stops at the limit,
// goes on when it is granted more, and what arrives is the set, octet for octet.
//
// Covers: CORE-g3-06, C62
func TestListingUnderFlowControl(t *testing.T) {
	recs := large("big", 640)
	for _, push := range []bool{true, false} {
		t.Run(fmt.Sprintf("push=%v", push), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				set := newSet(t, recs...)
				ca, sa, p := flowing(t, set, Config{PushPages: push})
				octets := func() int { return int(sa.Stats().OctetsOut) }
				got := make(chan error, 1)
				var list *Listing
				go func() {
					var err error
					list, err = p.Query(t.Context(), Query{})
					got <- err
				}()
				if push {
					// The QUERY has arrived; of the answer, and of grants, nothing has.
					time.Sleep(150 * time.Millisecond)
					synctest.Wait()
					if n := octets(); sa.Stats().FlowStalls != 1 || n > 1<<20+64*frame.HeaderLen || n < 1<<20-300<<10 {
						t.Errorf("%d octets before anything was granted, stats %+v", n, sa.Stats())
					}
				}
				if err := <-got; err != nil {
					t.Fatal(err)
				}
				if n := octets(); n < 20<<20 {
					t.Errorf("the listing took %d octets", n)
				}
				if d := record.Digest(slices.Values(list.Records)); d != set.Digest() {
					t.Errorf("%d records of %d arrived", len(list.Records), set.Len())
				}
				if s := ca.Stats(); s.FlowUpdatesOut == 0 || s.FlowUpdatesOut != sa.Stats().FlowUpdatesIn {
					t.Errorf("%d grants sent, %d received", s.FlowUpdatesOut, sa.Stats().FlowUpdatesIn)
				}
			})
		})
	}
}

// A page that is too long for what is left of the first window, of which less than
// half is used, is awaited for two seconds; then there is room for it.
//
// Covers: C62
func TestPageLargerThanTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, append(large("a", 15), large("b", 20)...)...)
		ca, sa, p := flowing(t, set, Config{Limits: Limits{MaxPageLen: 1 << 20}})
		ask := func(prefix string) time.Duration {
			began := time.Now()
			l, err := p.Query(t.Context(), Query{Filter: record.Filter{NamePrefix: prefix, HasPrefix: true}})
			if err != nil || len(l.Records) == 0 || l.Pages != 1 {
				t.Fatalf("%d records in %d pages, %v", len(l.Records), l.Pages, err)
			}
			return time.Since(began)
		}
		ask("a.")
		if n := sa.Stats().FlowStalls + ca.Stats().FlowUpdatesOut; n != 0 {
			t.Errorf("a short exchange shows flow control: %+v", ca.Stats())
		}
		if d := ask("b."); d < 2*time.Second || d > 3*time.Second || sa.Stats().FlowStalls != 1 || ca.Stats().FlowUpdatesOut != 1 {
			t.Errorf("it took %v, stats %+v", d, ca.Stats())
		}
	})
}

// A responder whose peer grants nothing is a responder with a slow link: the
// exchange fails, and nothing hangs.
//
// Covers: C62
func TestListingNeverGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := channeltest.NewWire()
		client := &association.Config{Identity: channeltest.Identity(1), Generations: []int{3}, NoFlowControl: true}
		server := &association.Config{Identity: channeltest.Identity(2), Generations: []int{3}}
		ca, sa, err := channeltest.Associate(t.Context(), w.A, w.B, client, server)
		if err != nil {
			t.Fatal(err)
		}
		h := subscribe.NewHub(newSet(t, large("big", 64)...))
		defer h.Close()
		str, _ := sa.Transport(frame.ChannelDiscovery)
		s, err := New(str, Config{Hub: h, PushPages: true})
		if err != nil {
			t.Fatal(err)
		}
		ctr, _ := ca.Transport(frame.ChannelDiscovery)
		c, err := New(ctr, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Query(t.Context(), Query{}); !errors.Is(err, ErrTimeout) {
			t.Errorf("the listing: %v", err)
		}
		began := time.Now()
		if err := s.Wait(); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("the responder: %v", err)
		}
		if d := time.Since(began); d > defaultStallTimeout {
			t.Errorf("it held on for another %v", d)
		}
		if sa.Stats().FlowStalls != 1 {
			t.Errorf("stats %+v", sa.Stats())
		}
	})
}
