package frame

import (
	"io"
	"sync"
)

// A Pipe is an association in memory without one: two transports whose frames
// go from one to the other as they are, unsealed and unbounded. It starts no
// goroutine; Run moves the frames and is what reads and writes at both ends.
type Pipe struct {
	mu     sync.Mutex
	awake  sync.Cond // an end woke, started, or is ending
	ends   [2]pipeEnd
	last   int  // the side served last, so that they take turns
	run    bool // Run was called
	cause  [2]error
	ending bool
	done   chan struct{} // closed after both Closed calls
}

type pipeEnd struct {
	pipe *Pipe
	side int
	info Info
	user Endpoint
	woke bool
	seq  uint64
}

// NewPipe returns a pipe whose ends say a and b of themselves.
func NewPipe(a, b Info) *Pipe {
	p := &Pipe{done: make(chan struct{})}
	p.awake.L = &p.mu
	p.ends[0] = pipeEnd{pipe: p, side: 0, info: a}
	p.ends[1] = pipeEnd{pipe: p, side: 1, info: b}
	return p
}

// Ends returns the two transports.
func (p *Pipe) Ends() (a, b Transport) { return &p.ends[0], &p.ends[1] }

// Run moves frames until either end closes. It returns after both endpoints
// were told; they must both have been started by then or are told nothing.
func (p *Pipe) Run() {
	p.mu.Lock()
	p.run = true
	var buf []byte
	for !p.ending {
		from := p.next()
		if from == nil {
			p.awake.Wait()
			continue
		}
		to := p.ends[1-from.side].user
		p.mu.Unlock()
		b, typ, ok := from.user.Append(buf[:0])
		if ok {
			buf = b
			to.Receive(Frame{Type: typ, Flags: FlagENC, Seq: from.seq, Payload: b})
			from.seq++
			from.user.Written()
		}
		p.mu.Lock()
		from.woke = from.woke || ok
	}
	ends, cause := p.ends, p.cause
	p.mu.Unlock()
	for i, e := range ends {
		if e.user != nil {
			e.user.Closed(cause[i])
		}
	}
	close(p.done)
}

// next returns an end that has frames, once both have endpoints.
func (p *Pipe) next() *pipeEnd {
	if p.ends[0].user == nil || p.ends[1].user == nil {
		return nil
	}
	for range p.ends {
		p.last = 1 - p.last
		if e := &p.ends[p.last]; e.woke {
			e.woke = false
			return e
		}
	}
	return nil
}

// end makes Run stop; own is the cause for the side that ended it.
func (p *Pipe) end(side int, own, other error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		p.ending = true
		p.cause[side], p.cause[1-side] = own, other
		p.awake.Signal()
	}
}

func (e *pipeEnd) Info() Info { return e.info }

func (e *pipeEnd) Start(u Endpoint) error {
	p := e.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return p.cause[e.side]
	}
	e.user, e.woke = u, true
	p.awake.Signal()
	return nil
}

func (e *pipeEnd) Wake() {
	e.pipe.mu.Lock()
	e.woke = true
	e.pipe.mu.Unlock()
	e.pipe.awake.Signal()
}

func (e *pipeEnd) Abort(code ErrorCode, cause error) { e.pipe.end(e.side, cause, io.ErrUnexpectedEOF) }

func (e *pipeEnd) Close() error {
	e.pipe.end(e.side, ErrClosed, io.EOF)
	e.pipe.mu.Lock()
	run := e.pipe.run
	e.pipe.mu.Unlock()
	if run {
		<-e.pipe.done
	}
	return nil
}
