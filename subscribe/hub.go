package subscribe

import (
	"sync"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A Hub fans out the changes of one Source to the subscriptions of many
// associations.
type Hub struct {
	source record.Source
	stop   func()

	mu       sync.Mutex
	now      *record.Snapshot
	matchers []record.Matcher // of subs, side by side: this is what a change runs over
	subs     []*Subscription
	woken    []*Outbox // by the change under way; of changed alone
	relay    relay
}

// NewHub returns a hub for the source, which tells it of changes until Close.
func NewHub(src record.Source) *Hub {
	h := &Hub{source: src}
	h.mu.Lock() // the first change must find h.now
	defer h.mu.Unlock()
	h.now, h.stop = src.Watch(h.changed)
	return h
}

// Source returns the source.
func (h *Hub) Source() record.Source { return h.source }

// Len returns the number of subscriptions.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Close stops listening to the source and cancels every subscription. It is
// idempotent. It must not be called from wake.
func (h *Hub) Close() {
	h.stop()
	h.mu.Lock()
	subs := h.subs
	h.subs, h.matchers = nil, nil
	for _, s := range subs {
		s.at = -1
	}
	h.mu.Unlock()
	for _, s := range subs {
		s.purge()
	}
}

// Options bounds a subscription. A zero field means its default.
type Options struct {
	// MaxQueued is how many changes wait before they are merged [C31]; default 64.
	MaxQueued int
	// MinInterval is the least time between an UPDATE and the next; default 0,
	// none. The first goes out at once.
	MinInterval time.Duration
}

const defaultMaxQueued = 64

// Subscribe starts a subscription under the corr, of 1 to 64 octets, whose
// frames go out by o. Its snapshot is what the source has told up to now, and
// every later change follows: the two are one step [C15]. It calls o's wake.
func (h *Hub) Subscribe(o *Outbox, corr disco.Corr, f record.Filter, opt Options) *Subscription {
	if opt.MaxQueued <= 0 {
		opt.MaxQueued = defaultMaxQueued
	}
	s := &Subscription{
		hub: h, box: o, corr: corr, matcher: f.Matcher(),
		maxQueued: opt.MaxQueued, minInterval: opt.MinInterval,
		pages: new(pages), unacknowledged: true,
	}
	h.mu.Lock()
	s.at = len(h.subs)
	h.subs = append(h.subs, s)
	h.matchers = append(h.matchers, s.matcher)
	s.pages.snapshot = h.now
	wake := o.add(s)
	h.mu.Unlock()
	if wake {
		o.wake()
	}
	return s
}

// remove forgets the subscription, once.
func (h *Hub) remove(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.at < 0 {
		return
	}
	last := len(h.subs) - 1
	h.subs[s.at], h.matchers[s.at] = h.subs[last], h.matchers[last]
	h.subs[s.at].at = s.at
	h.subs[last], h.matchers[last] = nil, record.Matcher{}
	h.subs, h.matchers = h.subs[:last], h.matchers[:last]
	s.at = -1
	if cap(h.subs) > 4*last+64 { // many have gone
		h.subs = append(make([]*Subscription, 0, 2*last), h.subs...)
		h.matchers = append(make([]record.Matcher, 0, 2*last), h.matchers...)
	}
}

// changed takes a change of the source, under its lock, hence one at a time.
func (h *Hub) changed(c *record.Change) {
	h.mu.Lock()
	h.now = c.After
	enqueue := func(i int) {
		if s := h.subs[i]; s.enqueue(c) {
			h.woken = append(h.woken, s.box)
		}
	}
	if c.Hides { // what is hidden may have matched once, and wait as it was then
		for i := range h.subs {
			enqueue(i)
		}
	} else {
		c.Concerned(h.matchers, enqueue)
	}
	h.mu.Unlock()
	if len(h.woken) >= crowd {
		h.relay.flush(h.woken)
	} else {
		for _, o := range h.woken {
			o.wake()
		}
	}
	clear(h.woken)
	h.woken = h.woken[:0]
}
