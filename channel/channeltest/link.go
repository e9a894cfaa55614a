package channeltest

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/npamp/disco/frame"
)

// Info is what both ends of a pair say of themselves unless told otherwise:
// Discovery, advertised by both, of crypto generation 2.
func Info() frame.Info {
	return frame.Info{Channel: frame.ChannelDiscovery, Generation: 2, Advertised: true, PeerAdvertised: true}
}

// Pair returns the two ends of a frame.Pipe, without knobs, and starts the one
// goroutine that moves its frames: the ends take turns, so that what comes is in
// the same order each time. It ends when either end is closed.
func Pair(a, b frame.Info) (frame.Transport, frame.Transport) {
	p := frame.NewPipe(a, b)
	go p.Run()
	return p.Ends()
}

// A Link is two connected frame.Transports in memory, without an association:
// frames go over as they are, unsealed. An end that closes loses what is under
// way to it; the other one is handed what is under way and then told, as by an
// association.
type Link struct {
	// AB is the way from A to B, BA the other.
	AB, BA *Way

	b      board
	ends   [2]linkEnd
	byHand bool
}

// NewLink returns a link whose ends say a and b of themselves.
func NewLink(a, b frame.Info) *Link {
	l := new(Link)
	l.b.init()
	l.AB, l.BA = l.b.way(l.cut), l.b.way(l.cut)
	l.ends[A] = linkEnd{link: l, info: a, out: l.AB, in: l.BA, done: make(chan struct{})}
	l.ends[B] = linkEnd{link: l, info: b, out: l.BA, in: l.AB, done: make(chan struct{})}
	return l
}

// Ends returns the two transports.
func (l *Link) Ends() (a, b frame.Transport) { return &l.ends[A], &l.ends[B] }

// Cut ends both ends at once with ErrCut; what is under way is lost.
func (l *Link) Cut() { l.b.with(l.cut) }

func (l *Link) cut() {
	l.ends[A].end(ErrCut, ErrCut)
	l.ends[B].end(ErrCut, ErrCut)
}

// ByHand starts no goroutine for the ends: frames move by Take and Deliver alone.
// It is called before either end starts, and returns the link.
func (l *Link) ByHand() *Link {
	l.byHand = true
	return l
}

// Take asks the endpoint of a side that moves by hand for up to n frames, until it
// has no more or the way has no room, tells it that they are written, and returns
// how many there were. Like an association it does not ask an endpoint that was
// not woken.
func (l *Link) Take(from Side, n int) int { return l.ends[from].byHand((*linkEnd).take, n) }

// Deliver hands up to n frames that have arrived to the endpoint of a side that
// moves by hand, and returns how many. It also tells it, after the last frame,
// that the other side has ended.
func (l *Link) Deliver(to Side, n int) int { return l.ends[to].byHand((*linkEnd).deliver, n) }

// linkEnd is one end; the link's board guards it.
type linkEnd struct {
	link    *Link
	info    frame.Info
	out, in *Way
	user    frame.Endpoint
	woke    bool
	taking  bool // the endpoint is asked for frames just now
	seq     uint64
	buf     []byte
	inside  int // goroutines that may be inside the endpoint
	cause   error
	done    chan struct{} // closed after Endpoint.Closed
}

func (e *linkEnd) Info() frame.Info { return e.info }

var errStarted = errors.New("channeltest: started twice")

func (e *linkEnd) Start(u frame.Endpoint) error {
	b := &e.link.b
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.cause != nil:
		return e.cause
	case e.user != nil:
		return errStarted
	}
	e.user, e.woke = u, true
	if !e.link.byHand {
		e.inside += 2
		go e.run(func() time.Time {
			if e.taking || !e.woke || e.take(maxTake) == 0 && !e.woke || !e.out.roomy() {
				return never
			}
			return time.Time{}
		})
		go e.run(func() time.Time {
			if e.deliver(1) > 0 {
				return time.Time{}
			}
			if _, later := e.in.next(); !later.IsZero() {
				return later
			}
			return never
		})
	}
	return nil
}

const maxTake = 1 << 30

// never is when a goroutine goes on that waits for a change alone.
var never = time.Unix(1<<40, 0)

// run is a goroutine of an end: step, which holds b.mu but while it is inside the
// endpoint, says how long to wait; zero: not at all.
func (e *linkEnd) run(step func() time.Time) {
	b := &e.link.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for e.cause == nil {
		switch later := step(); {
		case e.cause != nil, later.IsZero():
		case later == never:
			b.wait()
		default:
			b.wait(later)
		}
	}
	e.leave()
}

func (e *linkEnd) leave() {
	e.inside--
	e.link.b.cond.Broadcast()
}

// byHand is a step that the user of the link takes.
func (e *linkEnd) byHand(step func(*linkEnd, int) int, n int) int {
	if !e.link.byHand {
		panic("channeltest: the link is not moved by hand")
	}
	e.link.b.mu.Lock()
	defer e.link.b.mu.Unlock()
	if e.user == nil || e.cause != nil {
		return 0
	}
	e.inside++
	defer e.leave()
	return step(e, n)
}

// outside frees b.mu around a call of the endpoint.
func (e *linkEnd) outside(f func()) {
	e.link.b.mu.Unlock()
	defer e.link.b.mu.Lock()
	f()
}

// take sends up to n frames. b.mu is held.
func (e *linkEnd) take(n int) (took int) {
	if e.taking {
		return 0
	}
	e.taking = true
	defer func() {
		e.taking = false
		e.link.b.cond.Broadcast()
	}()
	for took < n && e.woke && e.cause == nil && e.out.roomy() {
		var f Frame
		var ok bool
		e.woke = false // before the endpoint looks: a Wake from here on counts
		e.outside(func() {
			var b []byte
			if b, f.Type, ok = e.user.Append(e.buf[:0]); ok {
				e.buf, f.Payload = b, slices.Clone(b)
			}
		})
		if ok && e.cause == nil {
			e.woke = true
			e.out.put(f)
			took++
		}
	}
	if took > 0 {
		e.outside(e.user.Written)
	}
	return took
}

// deliver hands over up to n frames. b.mu is held.
func (e *linkEnd) deliver(n int) (gave int) {
	for gave < n && e.cause == nil {
		p, _ := e.in.next()
		if p == nil {
			if len(e.in.queue) == 0 && e.in.over != nil {
				e.end(e.in.over, io.EOF)
			}
			break
		}
		f := frame.Frame{Type: p.Type, Flags: frame.FlagENC | p.Flags, Seq: e.seq, Payload: p.Payload}
		e.in.taken(len(p.Payload))
		e.seq++
		gave++
		e.outside(func() { e.user.Receive(f) })
	}
	return gave
}

// end ends this end with a cause of its own, and the other one, when it has all
// that is under way, with another. b.mu is held.
func (e *linkEnd) end(own, other error) {
	if e.cause != nil {
		return
	}
	e.cause = own
	e.in.lose()
	e.out.ended(other)
	e.link.b.cond.Broadcast()
	go e.finish()
}

func (e *linkEnd) finish() {
	b := &e.link.b
	b.mu.Lock()
	for e.inside > 0 {
		b.wait()
	}
	b.mu.Unlock()
	if e.user != nil {
		e.user.Closed(e.cause)
	}
	close(e.done)
}

func (e *linkEnd) Wake() {
	e.link.b.with(func() { e.woke = true })
}

// Flush is Wake that takes the next frame at once, if there is room for it and
// nobody else does, as an association's does.
func (e *linkEnd) Flush() {
	b := &e.link.b
	b.mu.Lock()
	defer b.mu.Unlock()
	e.woke = true
	b.cond.Broadcast()
	if e.user != nil && e.cause == nil {
		e.inside++
		defer e.leave()
		e.take(1)
	}
}

func (e *linkEnd) Abort(_ frame.ErrorCode, cause error) {
	if cause == nil {
		cause = frame.ErrClosed
	}
	e.link.b.with(func() { e.end(cause, io.ErrUnexpectedEOF) })
}

func (e *linkEnd) Close() error {
	e.link.b.with(func() { e.end(frame.ErrClosed, io.EOF) })
	<-e.done
	return nil
}
