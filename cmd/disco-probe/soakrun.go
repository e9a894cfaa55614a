package main

import (
	"context"
	"crypto/ed25519"
	cryptorand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// soakSettle is how long everything may take, unless a test says otherwise, to come to rest at a checkpoint.
const soakSettle = 2 * time.Minute

// soakMaxNotes bounds how many divergences are told one by one.
const soakMaxNotes = 50

// A soak is one run.
type soak struct {
	app   *app
	opt   soakOptions
	key   ed25519.PrivateKey // of the listener
	addr  string
	set   *record.Set
	hubs  []*subscribe.Hub // of each peer
	pub   *publisher
	peers []*soakPeer
	byKey map[string]*soakPeer

	quiet sync.RWMutex            // held for reading by whoever changes or disturbs anything
	abort context.CancelCauseFunc // of the run, by fail

	changes, transactions             atomic.Uint64
	deliveries, forgotten             atomic.Uint64 // at callbacks; whose change was too long ago to know when
	queries, inconclusive             atomic.Uint64
	views                             atomic.Uint64 // compared at checkpoints
	divergences, lost, broken         atomic.Uint64 // healthy peers' associations and subscriptions, uninvited
	dials, cuts, stalls, dropped      atomic.Uint64 // dropped: stalled peers' associations
	rekeyed, hides                    atomic.Uint64
	announces, announced, checkpoints atomic.Uint64
	stalled                           atomic.Int32 // peers that do not read just now

	calm, beside, held histogram // of healthy peers while all read and while some do not; of those that stall
	heap               []heapSample
}

func newSoak(a *app, opt soakOptions) (*soak, error) {
	s := &soak{app: a, opt: opt, byKey: map[string]*soakPeer{}}
	var err error
	if _, s.key, err = ed25519.GenerateKey(cryptorand.Reader); err != nil {
		return nil, err
	}
	for i := range opt.peers {
		p, err := newSoakPeer(s, i)
		if err != nil {
			return nil, err
		}
		s.peers = append(s.peers, p)
		s.byKey[string(p.key.Public().(ed25519.PublicKey))] = p
	}
	return s, nil
}

// chance returns the random numbers of one part of the run.
func (s *soak) chance(part int) *rand.Rand { return rand.New(rand.NewPCG(s.opt.seed, uint64(part))) }

// between returns a random time of half to one and a half times the mean, and
// less where the run is short.
func (s *soak) between(rng *rand.Rand, mean time.Duration) time.Duration {
	mean = min(mean, s.opt.duration/10)
	return mean/2 + time.Duration(rng.Int64N(int64(mean)+1))
}

// fail ends the run for a reason of our own.
func (s *soak) fail(err error) { s.abort(err) }

// diverged counts a difference between what somebody sees and what there is.
func (s *soak) diverged(format string, args ...any) {
	switch n := s.divergences.Add(1); {
	case n < soakMaxNotes:
		s.app.note("DIVERGED: "+format, args...)
	case n == soakMaxNotes:
		s.app.note("more divergences are counted and not told")
	}
}

// delivered takes a record that came to a subscriber after its snapshot.
func (s *soak) delivered(p *soakPeer, r record.Record) {
	now := time.Now()
	s.deliveries.Add(1)
	if p.flips {
		return // it is told of old revisions too
	}
	at, ok := s.pub.sent.at(r.ID(), r.Revision())
	if !ok {
		s.forgotten.Add(1)
		return
	}
	h := &s.calm
	switch {
	case p.stalls:
		h = &s.held
	case s.stalled.Load() > 0:
		h = &s.beside
	}
	h.add(now.Sub(at))
}

// run does it all and returns what there is to say of it. The error is a failure
// to run, or ctx's.
func (s *soak) run(ctx context.Context) (*soakReport, error) {
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // what the runtime opens once is not ours
		l.Close()
	}
	before := usedResources()
	began := time.Now()
	ctx, s.abort = context.WithCancelCause(ctx)
	defer s.abort(nil)
	if err := s.live(ctx, began); err != nil {
		return nil, err
	}
	s.abort(nil)
	after := usedResources()
	for end := time.Now().Add(10 * time.Second); !after.within(before) && time.Now().Before(end); after = usedResources() {
		soakPause(context.Background(), 20*time.Millisecond)
	}
	return s.report(time.Since(began), before, after), nil
}

// live is the run from the first connection to the last. Nothing of it is left
// when it returns.
func (s *soak) live(ctx context.Context, began time.Time) (err error) {
	pub, stop, err := newPublisher(s.opt.records, s.chance(0))
	if err != nil {
		return err
	}
	defer stop()
	s.pub, s.set = pub, pub.set
	hub := subscribe.NewHub(s.set)
	defer hub.Close()
	for i := range s.peers {
		s.hubs = append(s.hubs, hub)
		if s.opt.source != nil {
			if src := s.opt.source(i, s.set); src != nil {
				s.hubs[i] = subscribe.NewHub(src)
				defer s.hubs[i].Close()
			}
		}
	}
	l, err := s.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	s.addr = l.Addr().String()

	all, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { s.accept(all, l) })
	for _, p := range s.peers {
		running.Go(func() { p.run(all) })
	}
	s.checkpoint(ctx) // everybody is there, and sees the set as it is
	s.app.note("%s up with %s after %v", plural(len(s.peers), "association"), plural(s.opt.subs, "subscription"), time.Since(began).Round(time.Millisecond))

	began = time.Now()
	running.Go(func() { s.publish(all) })
	running.Go(func() { s.watch(all, began) })
	if s.opt.faults {
		running.Go(func() { s.disturb(all) })
	}
	every := max(s.opt.duration/6, min(s.opt.duration/2, 30*time.Second), time.Second)
	for next := every; next < s.opt.duration; next += every {
		soakPause(ctx, time.Until(began.Add(next)))
		s.checkpoint(ctx)
	}
	soakPause(ctx, time.Until(began.Add(s.opt.duration)))
	s.checkpoint(ctx)
	return context.Cause(ctx)
}

// watch samples the heap and says how it goes, until ctx is done.
func (s *soak) watch(ctx context.Context, began time.Time) {
	every := min(10*time.Second, s.opt.duration/10)
	var last uint64
	var lastAt time.Duration
	for soakPause(ctx, every) {
		at := time.Since(began)
		s.heap = append(s.heap, heapSample{at, liveHeap()})
		n := s.changes.Load()
		healthy := s.healthy()
		s.app.note("%v: %d changes (%.0f/s), %d deliveries, p50 %v p99 %v, %d queries, %d divergences, heap %.1f MiB, %d goroutines; %d cuts, %d stalls (%d now), %d lost, %d broken",
			at.Round(time.Second), n, float64(n-last)/(at-lastAt).Seconds(), s.deliveries.Load(),
			rounded(healthy.quantile(0.5)), rounded(healthy.quantile(0.99)), s.queries.Load(), s.divergences.Load(),
			float64(s.heap[len(s.heap)-1].octets)/(1<<20), usedResources().goroutines,
			s.cuts.Load(), s.stalls.Load(), s.stalled.Load(), s.lost.Load(), s.broken.Load())
		last, lastAt = n, at
	}
}

// healthy returns the histogram of all peers that read.
func (s *soak) healthy() *histogram {
	var h histogram
	h.merge(&s.calm)
	h.merge(&s.beside)
	return &h
}

// checkpoint stops all that changes and compares every view with what it must be
// once nothing is under way any more.
func (s *soak) checkpoint(ctx context.Context) {
	s.quiet.Lock()
	defer s.quiet.Unlock()
	began := time.Now()
	for _, p := range s.peers {
		if l := p.clientLink(); l != nil {
			l.gate.release()
		}
	}
	if wrong := s.pub.check(); wrong > 0 {
		s.diverged("the set itself differs from what was published in %s", plural(wrong, "record"))
	}
	type what struct {
		which  int
		hidden uint32
	}
	type must struct {
		records []record.Record
		digest  [32]byte
	}
	snap := s.set.Snapshot()
	wanted := map[what]must{}
	var open []*soakView
	for _, p := range s.peers {
		for _, v := range p.views {
			w := what{v.which, p.hidden.Load()}
			if _, ok := wanted[w]; !ok {
				r := soakExpected(snap, v.filter, w.hidden)
				wanted[w] = must{r, soakDigest(r)}
			}
			open = append(open, v)
		}
	}
	total := len(open)
	look := func(report bool) {
		left := open[:0]
		for _, v := range open {
			w := wanted[what{v.which, v.peer.hidden.Load()}]
			ok, state := v.settled(w.records, w.digest)
			if !ok {
				left = append(left, v)
			}
			if !ok && report {
				s.diverged("peer %d, %v, hidden part %d: %s", v.peer.index, v.filter, v.peer.hidden.Load(), state)
			}
		}
		open = left
	}
	for look(false); len(open) > 0 && time.Since(began) < s.opt.settle; look(false) {
		if !soakPause(ctx, 20*time.Millisecond) {
			return
		}
	}
	look(true)
	s.checkpoints.Add(1)
	s.views.Add(uint64(total))
	took := time.Since(began)
	s.app.note("checkpoint: %d of %s as they must be, after %v; heap at rest %.1f MiB", total-len(open), plural(total, "view"), took.Round(time.Millisecond), float64(liveHeap())/(1<<20))
}

func rounded(d time.Duration) string { return fmt.Sprint(d.Round(10 * time.Microsecond)) }
