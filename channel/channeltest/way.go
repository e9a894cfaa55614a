package channeltest

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/npamp/disco/frame"
)

// ErrCut is what both ends meet when what is between them is cut. It satisfies
// errors.Is with syscall.ECONNRESET.
var ErrCut = fmt.Errorf("channeltest: cut: %w", syscall.ECONNRESET)

// A Side is one of the two ends of a pair.
type Side int

const (
	A Side = iota
	B
)

// Other returns the other side.
func (s Side) Other() Side { return 1 - s }

func (s Side) String() string { return [...]string{"A", "B"}[s] }

// A Way is one direction of a Link or a Wire, and the knobs of it. All methods
// may be called at any time from any goroutine.
type Way struct {
	b   *board
	cut func() // cuts the pair; b.mu is held, as for all below

	delay   time.Duration
	stalled bool
	room    int // octets; 0: any
	piece   int // octets; 0: any
	limit   int // octets that still pass; negative: any
	edit    func(Frame) []Frame

	queue  []passing
	octets int       // in the queue
	last   time.Time // when the last of it is due
	broken bool      // the limit was passed: the pair is cut when the queue is empty
	over   error     // what the receiver meets after the queue: the sender has ended
	gone   bool      // the receiver has ended: what is sent vanishes
}

// passing is what is under way.
type passing struct {
	Frame
	due time.Time
}

// Delay makes all that is sent from now on arrive d later, or when what was sent
// before it has arrived. Zero, as at first, is at once.
func (w *Way) Delay(d time.Duration) { w.b.with(func() { w.delay = d }) }

// Stall stops the way: nothing arrives until Resume.
func (w *Way) Stall() { w.b.with(func() { w.stalled = true }) }

// Resume undoes Stall.
func (w *Way) Resume() { w.b.with(func() { w.stalled = false }) }

// Room bounds what is under way, in octets: a sender waits while there is that
// much. Frames are not cut for it, so up to one more may be. 0, as at first, is no
// bound.
func (w *Way) Room(octets int) { w.b.with(func() { w.room = octets }) }

// Pieces has a Wire hand over at most n octets at a time. 0, as at first, is as
// many as there are.
func (w *Way) Pieces(n int) { w.b.with(func() { w.piece = n }) }

// CutAfter lets so many octets more pass; those of a frame count by payload. What
// is sent beyond is lost, a frame whole, and the pair is cut when the rest has
// arrived. A negative number, as at first, is no bound.
func (w *Way) CutAfter(octets int) { w.b.with(func() { w.limit = octets }) }

// Edit has fn called for all that is sent from now on: what it returns goes on in
// its place. It may keep and alter what it is given, and must not call anything
// of the pair. On a Wire a Frame is the octets of one Write, and its Type 0. nil,
// as at first, alters nothing.
func (w *Way) Edit(fn func(Frame) []Frame) { w.b.with(func() { w.edit = fn }) }

// UnderWay returns what was sent and has not arrived: frames, or pieces of a
// stream, and octets.
func (w *Way) UnderWay() (n, octets int) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return len(w.queue), w.octets
}

// Nth makes an Edit that applies edit to the n-th that passes, counted from 1,
// and lets everything else pass as it is.
func Nth(n int, edit func(Frame) []Frame) func(Frame) []Frame {
	return func(f Frame) []Frame {
		if n--; n == 0 {
			return edit(f)
		}
		return []Frame{f}
	}
}

// Twice is an Edit that has each frame arrive twice.
func Twice(f Frame) []Frame { return []Frame{f, f} }

// Lose is an Edit that loses all.
func Lose(Frame) []Frame { return nil }

// FlipBit makes an Edit that inverts one bit: the one at that place, counted from
// the first octet's lowest and beyond the end from the beginning again.
func FlipBit(at int) func(Frame) []Frame {
	return func(f Frame) []Frame {
		if n := 8 * len(f.Payload); n > 0 {
			f.Payload[at%n/8] ^= 1 << (at % 8)
		}
		return []Frame{f}
	}
}

// put sends.
func (w *Way) put(f Frame) {
	if w.gone || w.broken {
		return
	}
	frames := []Frame{f}
	if w.edit != nil {
		frames = w.edit(f)
	}
	for _, f := range frames {
		if n := len(f.Payload); w.limit >= 0 && n > w.limit {
			w.broken = true
			if f.Type != 0 || w.limit == 0 {
				break
			}
			f.Payload = f.Payload[:w.limit]
		}
		if w.limit >= 0 {
			w.limit -= len(f.Payload)
		}
		due := time.Now().Add(w.delay)
		if due.Before(w.last) {
			due = w.last
		}
		w.last = due
		w.queue = append(w.queue, passing{f, due})
		w.octets += len(f.Payload)
		if w.broken {
			break
		}
	}
	w.emptied()
	w.b.cond.Broadcast()
}

// roomy reports whether a sender need not wait.
func (w *Way) roomy() bool { return w.room <= 0 || w.octets < w.room }

// next returns what arrives now, nil for nothing, and when to look again; zero:
// when something has changed. take or drop removes it.
func (w *Way) next() (p *passing, later time.Time) {
	if len(w.queue) == 0 || w.stalled {
		return nil, time.Time{}
	}
	if p := &w.queue[0]; !time.Now().Before(p.due) {
		return p, time.Time{}
	}
	return nil, w.queue[0].due
}

// taken removes n octets of the first that is under way, and it with the last.
func (w *Way) taken(n int) {
	f := &w.queue[0]
	w.octets -= n
	if f.Payload = f.Payload[n:]; len(f.Payload) == 0 {
		*f = passing{}
		if w.queue = w.queue[1:]; len(w.queue) == 0 {
			w.queue = nil
		}
		w.emptied()
	}
	w.b.cond.Broadcast()
}

func (w *Way) emptied() {
	if w.broken && len(w.queue) == 0 {
		w.cut()
	}
}

// lose forgets what is under way, and what is sent from now on.
func (w *Way) lose() { w.queue, w.octets, w.gone = nil, 0, true }

// ended says that the sender has; the first time counts.
func (w *Way) ended(why error) {
	if w.over == nil {
		w.over = why
	}
}

// A board is what both directions of a pair share: the lock, and where those wait
// who have nothing to do.
type board struct {
	mu   sync.Mutex
	cond sync.Cond
}

func (b *board) init() { b.cond.L = &b.mu }

func (b *board) way(cut func()) *Way { return &Way{b: b, cut: cut, limit: -1} }

func (b *board) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.cond.Broadcast()
}

// wait waits for a change, or for one of the times that are not zero. b.mu is
// held.
func (b *board) wait(until ...time.Time) {
	var first time.Time
	for _, t := range until {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		timer := time.AfterFunc(time.Until(first), func() { b.with(func() {}) })
		defer timer.Stop()
	}
	b.cond.Wait()
}

// A Frame is a frame as the kit sees it.
type Frame struct {
	Type    frame.Type
	Payload []byte
	Flags   frame.Flags // besides ENC, which every frame has
}
