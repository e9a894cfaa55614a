package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
)

// soakBuffer is what the system may keep of an association each way, in octets:
// little, so that who does not read is soon felt by who writes.
const soakBuffer = 16 << 10

// soakPatience is how long an answer may take before it is a failure. Machines
// are busy.
const soakPatience = 30 * time.Second

// A gate is a connection whose reading can be held up.
type gate struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	held chan struct{} // closed when reading may go on; nil: it may
}

func newGate(c net.Conn) *gate { return &gate{Conn: c, closed: make(chan struct{})} }

func (g *gate) Read(b []byte) (int, error) {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-g.closed:
			return 0, net.ErrClosed
		}
	}
	return g.Conn.Read(b)
}

// SyscallConn is what association.Direct writes by.
func (g *gate) SyscallConn() (syscall.RawConn, error) {
	c, ok := g.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.SyscallConn()
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

func (g *gate) isHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held != nil
}

// A soakLink is one end of one association.
type soakLink struct {
	as   *association.Association
	peer *channel.Peer
	gate *gate       // of the end that dialled
	cut  atomic.Bool // we did it
}

// A soakPeer dials, subscribes and asks, and begins again when it is cut off.
type soakPeer struct {
	s      *soak
	index  int
	key    ed25519.PrivateKey
	stalls bool // it stops reading at times
	flips  bool // what it may see changes
	views  []*soakView

	hidden atomic.Uint32 // the part that it does not see
	flip   atomic.Uint64 // counts twice for each change of hidden: odd while one is made

	mu           sync.Mutex
	client, host *soakLink // nil while there is none
	hostCause    error     // why the last association ended, at the other end
}

// A soakView is one subscription, through all associations of its peer.
type soakView struct {
	peer   *soakPeer
	which  int // of soakFilterAt
	filter soakFilter
	folds  bool // what the events tell is kept too

	mu   sync.Mutex
	sub  *channel.Subscription
	fold map[record.ID]record.Record
}

func newSoakPeer(s *soak, index int) (*soakPeer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	p := &soakPeer{s: s, index: index, key: key}
	if s.opt.faults {
		p.stalls = index >= s.opt.peers-(s.opt.peers+99)/100 // 1 %, or one
		p.flips = !p.stalls && index%10 == 5
	}
	for i := index * s.opt.subs / s.opt.peers; i < (index+1)*s.opt.subs/s.opt.peers; i++ {
		p.views = append(p.views, &soakView{peer: p, which: i % (4 * soakGroups), filter: soakFilterAt(i), folds: i%8 == 0})
	}
	return p, nil
}

// healthy reports whether nothing is done to the peer that excuses it, but cuts.
func (p *soakPeer) healthy() bool { return !p.stalls }

func (p *soakPeer) clientLink() *soakLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client
}

func (p *soakPeer) hostLink() *soakLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host
}

func (p *soakPeer) limits() channel.Limits {
	return channel.Limits{
		QueryRate:        -1, // we ask for this load ourselves
		MaxUnanswered:    len(p.views) + 256,
		MaxSubscriptions: len(p.views) + 64, MaxOwnSubscriptions: len(p.views) + 64,
		MaxOutstanding: len(p.views) + 1024,
		RequestTimeout: soakPatience,
	}
}

// run keeps the peer connected until ctx is done.
func (p *soakPeer) run(ctx context.Context) {
	rng := p.s.chance(1000 + p.index)
	for soakPause(ctx, time.Duration(rng.IntN(500))*time.Millisecond) {
		p.once(ctx, rng)
	}
}

// once is one association.
func (p *soakPeer) once(ctx context.Context, rng *mathrand.Rand) {
	s := p.s
	l, err := p.dial(ctx)
	if err == nil {
		l.peer, err = newPeer(l.as, channel.Config{Limits: p.limits(), OnAnnounce: func(channel.Announcement) { s.announced.Add(1) }})
	}
	if err != nil {
		if ctx.Err() == nil {
			s.lost.Add(1)
			s.app.note("peer %d does not get through: %v", p.index, err)
		}
		return
	}
	s.dials.Add(1)
	peer := l.peer
	p.mu.Lock()
	p.client = l
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { peer.Close() })
	for _, v := range p.views {
		v.subscribe(peer)
	}
	ask := time.Now().Add(s.between(rng, 20*time.Second))
	tick := time.NewTicker(500 * time.Millisecond)
	for alive := true; alive; {
		select {
		case <-peer.Done():
			alive = false
		case <-tick.C:
			p.mend(ctx, l)
			if !p.stalls && time.Now().After(ask) {
				p.ask(ctx, l, rng)
				ask = time.Now().Add(s.between(rng, 20*time.Second))
			}
		}
	}
	tick.Stop()
	stop()
	cause := peer.Wait()
	p.mu.Lock()
	p.client = nil
	host := p.hostCause
	p.mu.Unlock()
	l.gate.release()
	peer.Close() // waits for callbacks
	switch {
	case ctx.Err() != nil || l.cut.Load():
	case p.stalls:
		s.dropped.Add(1)
	default:
		s.lost.Add(1)
		s.app.note("peer %d lost its association uninvited: %v; the other end says: %v", p.index, cause, host)
	}
}

// dial makes an association over a connection that can be held up and cut.
func (p *soakPeer) dial(ctx context.Context) (*soakLink, error) {
	l := &soakLink{}
	cfg := &association.Config{
		Identity:         p.key,
		Generations:      []int{3 - p.index%2},
		Suites:           []keys.Suite{keys.SuiteAES256GCM},
		TLS:              &tls.Config{InsecureSkipVerify: true}, // the handshake above it authenticates
		HandshakeTimeout: 2 * soakPatience,
		VerifyPeer: func(pub ed25519.PublicKey) error {
			if !pub.Equal(p.s.key.Public()) {
				return errors.New("it is somebody else")
			}
			return nil
		},
	}
	if p.index%4 >= 2 {
		cfg.Suites = []keys.Suite{keys.SuiteChaCha20Poly1305}
	}
	var err error
	l.as, err = association.DialWith(ctx, "127.0.0.1", cfg, func(ctx context.Context, cfg *association.Config) (net.Conn, error) {
		d := net.Dialer{ControlContext: smallReadBuffer} // before the window is offered
		conn, err := d.DialContext(ctx, "tcp", p.s.addr)
		if err != nil {
			return nil, err
		}
		l.gate = newGate(conn)
		return tls.Client(association.Direct(l.gate), cfg.TLS), nil
	})
	return l, err
}

// mend subscribes again what ended although the association lives.
func (p *soakPeer) mend(ctx context.Context, l *soakLink) {
	for _, v := range p.views {
		v.mu.Lock()
		sub := v.sub
		v.mu.Unlock()
		if sub == nil || sub.Err() == nil {
			continue
		}
		select {
		case <-l.peer.Done():
			return
		default:
		}
		if p.healthy() && !l.cut.Load() && ctx.Err() == nil {
			p.s.broken.Add(1)
			p.s.app.note("peer %d: the subscription to %v ended: %v", p.index, v.filter, sub.Err())
		}
		v.subscribe(l.peer)
	}
}

// ask queries and compares the answer with what the set was meanwhile.
func (p *soakPeer) ask(ctx context.Context, l *soakLink, rng *mathrand.Rand) {
	s := p.s
	var f soakFilter // everything, one time in eight
	if len(p.views) > 0 && rng.IntN(8) > 0 {
		f = p.views[rng.IntN(len(p.views))].filter
	}
	flip, hidden := p.flip.Load(), p.hidden.Load()
	from := s.pub.log.begin()
	list, err := l.peer.Query(ctx, channel.Query{Filter: f.filter()})
	versions, whole := s.pub.since(from)
	if err != nil {
		select {
		case <-l.peer.Done(): // that is looked at elsewhere
			return
		default:
		}
		var incomplete *channel.IncompleteError
		switch {
		case ctx.Err() != nil || l.cut.Load():
		case p.flips && errors.As(err, &incomplete): // what it may see changed under way, too often
			s.inconclusive.Add(1)
		default:
			s.broken.Add(1)
			s.app.note("peer %d: a query for %v failed: %v", p.index, f, err)
		}
		return
	}
	if flip%2 == 1 || p.flip.Load() != flip {
		s.inconclusive.Add(1)
		return
	}
	s.queries.Add(1)
	for _, v := range versions {
		if soakIs(list.Records, v, f, hidden) {
			return
		}
	}
	if !whole {
		s.inconclusive.Add(1)
		return
	}
	s.diverged("peer %d: a listing of %s for %v is none of the %s that there were", p.index, plural(len(list.Records), "record"), f, plural(len(versions), "version"))
}

// subscribe starts the view on a new association, or anew.
func (v *soakView) subscribe(peer *channel.Peer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fold := map[record.ID]record.Record{}
	sub, err := peer.Subscribe(v.filter.filter(), func(e channel.Event) {
		if v.folds {
			v.mu.Lock()
			switch e.Kind {
			case channel.EventSnapshot, channel.EventAdded, channel.EventReplaced:
				fold[e.ID] = e.Record
			case channel.EventWithdrawn:
				delete(fold, e.ID)
			case channel.EventReset:
				clear(fold)
			}
			v.mu.Unlock()
		}
		switch e.Kind {
		case channel.EventAdded, channel.EventReplaced:
			v.peer.s.delivered(v.peer, e.Record)
		case channel.EventWithdrawn:
			v.peer.s.deliveries.Add(1)
		}
	})
	if err == nil { // else the association has ended, and the next one will do
		v.sub, v.fold = sub, fold
	}
}

// settled reports whether the view has come to what it must be, and else how far
// it has got.
func (v *soakView) settled(want []record.Record, digest [32]byte) (ok bool, state string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.sub == nil || v.sub.Stale():
		return false, "it is not live"
	case v.sub.Digest() != digest:
		return false, "its view differs: " + firstDifference(v.sub.Records(), want)
	case !v.folds:
		return true, ""
	}
	got := make([]record.Record, 0, len(v.fold))
	for _, r := range v.fold {
		got = append(got, r)
	}
	slices.SortFunc(got, func(a, b record.Record) int {
		if a.ID() < b.ID() {
			return -1
		}
		return 1
	})
	if soakDigest(got) != digest {
		return false, "its events differ: " + firstDifference(got, want)
	}
	return true, ""
}

// firstDifference says where two lists in order differ first.
func firstDifference(got, want []record.Record) string {
	for g, w := range record.Diff(got, want) {
		switch {
		case w.IsZero():
			return fmt.Sprintf("%q revision %d is too much", string(g.ID()), g.Revision())
		case g.IsZero():
			return fmt.Sprintf("%q revision %d is missing", string(w.ID()), w.Revision())
		}
		return fmt.Sprintf("%q is revision %d and must be %d", string(g.ID()), g.Revision(), w.Revision())
	}
	return "nowhere any more"
}
