package channel

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// A Peer is this end of the Discovery channel of one association: it answers
// the other end's queries and subscriptions, and makes its own. All methods may
// be called from any goroutine, from callbacks too.
type Peer struct {
	tr     frame.Transport
	info   frame.Info
	cfg    Config
	lim    Limits
	opts   disco.Options
	hub    *subscribe.Hub     // what this peer sees is fanned out here
	ownHub bool               // it was made for this peer alone
	mine   *record.Projection // made for Config.Visible; nil without
	outbox *subscribe.Outbox  // the peer's subscriptions that have something to send
	cursor subscribe.CursorFunc
	paging *subscribe.Subscription // whose frame is being made; the writer's

	mu    sync.Mutex // guards all below; held for no call into the user's code, the transport (but Wake and Abort) or the hub
	life  lifetime
	stats Stats // but for FramesIn and FramesOut:

	framesIn, framesOut [7]atomic.Uint64
	updates             disco.UpdateReader // the reading goroutine's

	// Outgoing, see writer.go.
	out          fifo[item]
	waiting      atomic.Int32  // items in out
	given, taken atomic.Uint64 // frames that Append gave; that were written; only the writer changes them
	writes       []writeWait   // who waits for frames to be written, in order
	progress     time.Time     // when given last met taken, or taken last rose
	stall        *time.Timer   // looks for progress while anything waits
	stalling     bool          // stall runs
	over         time.Time     // since when it finds too much unread
	interval     *time.Timer   // wakes the writer when a held-back UPDATE is due

	// As responder, see responder.go.
	answering                map[disco.Corr]*answer // QUERYs taken and not finished
	subs                     map[disco.Corr]*subscription
	followed                 bool // the peer subscribed once
	cursors                  cursors
	expiry                   *time.Timer // drops them
	expiring                 bool        // expiry runs
	queries, pages, corrless bucket

	faults bucket // how often a fault is logged
	untold int

	// As requester, see listing.go and subscription.go.
	own     exchanges
	numOwn  int                        // subscriptions in own
	stale   map[*Subscription]struct{} // that wait to be asked for afresh, and have no corr
	retired retiredCorrs
	cache   *record.Cache
	listed  record.Matcher // of the listing whose order the cache remembers
	held    int            // octets of listings and queues in progress
	pusher  bool

	impatient *time.Timer // looks after listings that wait, see listing.go
	lookAt    time.Time   // when it fires; zero: it does not

	calls calls         // callbacks, see calls.go
	told  announcements // for Config.OnAnnounce
}

// New starts a peer on a transport, which it owns from then on. The error is
// that of Transport.Start, or names a field of Limits that is out of range: then
// the transport is as it was.
func New(tr frame.Transport, cfg Config) (*Peer, error) {
	p := &Peer{
		tr:        tr,
		info:      tr.Info(),
		cfg:       cfg,
		lim:       cfg.Limits.withDefaults(),
		hub:       cfg.Hub,
		answering: make(map[disco.Corr]*answer),
		subs:      make(map[disco.Corr]*subscription),
		stale:     make(map[*Subscription]struct{}),
	}
	if err := p.lim.check(); err != nil {
		return nil, err
	}
	p.opts = disco.Options{
		Generation:       p.info.Generation,
		Tolerant:         true, // each exchange judges for itself what was skipped [C9]
		MaxFilterEntries: p.lim.MaxFilterEntries,
		MaxPrefixLen:     p.lim.MaxPrefixLen,
	}
	p.told.p = p
	p.life.init()
	p.calls.idle.L = &p.mu
	p.retired.max = p.lim.MaxRetired
	p.cursors = cursors{max: p.lim.MaxSnapshots, ttl: p.lim.SnapshotTTL}
	p.queries = newBucket(p.lim.QueryRate, p.lim.QueryBurst)
	p.pages = newBucket(p.lim.PageRate, p.lim.PageBurst)
	if r := p.lim.UncorrelatedErrors; r > 0 {
		p.corrless = newBucket(r, max(r, 1))
	}
	p.faults = newBucket(2, 10)
	p.cache = record.NewCache(record.CacheLimits{
		MaxRecords:    p.lim.MaxCacheRecords,
		MaxLen:        p.lim.MaxCacheLen,
		MaxTombstones: p.lim.MaxTombstones,
	})
	rand.Read(p.own.prefix[:]) // never fails
	switch {
	case p.hub == nil:
		p.hub, p.ownHub = subscribe.NewHub(record.NewSet(record.SetConfig{})), true
	case cfg.Visible != nil:
		p.mine = record.Project(p.hub.Source(), cfg.Visible)
		p.hub, p.ownHub = subscribe.NewHub(p.mine), true
	}
	p.cursor = p.snapshotCursor
	p.outbox = subscribe.NewOutbox(tr.Wake)
	if t, ok := tr.(flusher); ok {
		p.outbox.SetFlush(t.Flush)
	}
	if err := tr.Start((*endpoint)(p)); err != nil {
		p.closeViews()
		return nil, err
	}
	if cfg.AnnounceOnOpen {
		p.announceAll()
	}
	return p, nil
}

// Info says on what the peer runs.
func (p *Peer) Info() frame.Info { return p.info }

// Refresh looks at Config.Visible anew for every record: what is hidden now is
// withdrawn from the peer's subscriptions, what is shown is added, and the
// cursors of listings under way go stale [C53].
func (p *Peer) Refresh() {
	if p.mine == nil {
		return
	}
	p.mu.Lock()
	p.cursors.dropAll()
	p.mu.Unlock()
	p.mine.Refresh()
}

// retire ends the use of an own corr, once. p.mu is held.
func (p *Peer) retire(number uint64, asked, got int) {
	p.own.end(number)
	p.retired.add(number, asked, got)
}

// A flusher is a frame.Transport that sends on the caller's goroutine what Append
// has, as far as that takes no waiting, and wakes its writer for the rest.
type flusher interface{ Flush() }

// late tells the transport that something we asked for has not come: the peer
// may be waiting for room in the window that the association grants it [C62].
func (p *Peer) late() {
	if t, ok := p.tr.(interface{ Late() }); ok {
		t.Late()
	}
}

// Stats returns the counters and gauges as they are now.
func (p *Peer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for i := range s.FramesIn {
		s.FramesIn[i], s.FramesOut[i] = p.framesIn[i].Load(), p.framesOut[i].Load()
	}
	s.Outstanding = p.own.n - p.numOwn
	s.Unanswered = p.unanswered()
	s.Subscriptions = len(p.subs)
	s.Own = p.numOwn + len(p.stale)
	s.Snapshots = len(p.cursors.lru)
	s.Unsent = p.out.len()
	s.Cached = p.cache.Len()
	s.Memory = p.memory()
	s.Pusher = p.pusher
	return s
}

// memory is what is held for the peer, in octets, roughly. p.mu is held.
func (p *Peer) memory() int {
	n := p.held + p.cache.Memory() + p.cursors.memory()
	if p.followed { // else the outbox's mutex need not be taken: a twentieth of an UPDATE's time
		n += p.outbox.Memory()
	}
	return n
}

// crowded reports whether n octets more would pass MaxPeerMemory. p.mu is held.
func (p *Peer) crowded(n int) bool {
	return p.lim.MaxPeerMemory > 0 && p.memory()+n > p.lim.MaxPeerMemory
}
