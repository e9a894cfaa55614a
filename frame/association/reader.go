package association

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// inbound is what the reading goroutine owns; before it runs, the handshake does.
type inbound struct {
	frames    *frame.Reader
	root      []byte    // of all our keys to open with
	handshake *keys.Key // under which the server may still refuse us; nil when it cannot
	heard     bool      // an authentic frame has come
	row       int       // frames since the last Read
	last      int       // how many that were after the Read before
	alive     bool      // pings has been told since the last Read
	failed    int       // frames that failed authentication
	closed    bool      // the peer sent CLOSE
	hello     helloState

	idleAt  time.Time // the read deadline that is set; zero for none
	pongs   bucket    // PONGs that may be sent
	changes bucket    // changes of keys that the peer may make
}

// read is the reading goroutine.
func (a *Association) read() {
	defer close(a.readerDone)
	for a.state.Load() != stateEnded {
		h, raw, err := a.next()
		if err != nil {
			a.readFailed(err)
			break
		}
		a.receive(h, raw)
	}
	a.quiet.Store(false)
	a.nudge()
	if a.lingers.Load() {
		a.conn.SetReadDeadline(time.Time{}) // the writer bounds it
		io.Copy(io.Discard, a.conn)
	}
}

// next reads the next frame. A reader that large frames left with a large buffer
// gives it back when nothing comes for idleAfter.
func (a *Association) next() (frame.Header, []byte, error) {
	for {
		if !a.in.frames.Ready() {
			if a.quiet.Load() {
				a.quiet.Store(false)
				a.reply()
			}
			if a.in.row > 0 {
				// Whoever waits for what came may have the processor: no other may be
				// idle, and as long as frames come this goroutine does not rest. A query
				// takes 7 % less by that, one of 64 in flight an eighth less, and half of
				// 10,000 UPDATEs are told of in half the time.
				runtime.Gosched()
			}
			a.in.last, a.in.row, a.in.alive = a.in.row, 0, false
			a.expectIdle()
		}
		a.in.row++
		h, raw, err := a.in.frames.Next()
		if err == nil && a.direct != nil && a.in.row == 1 && a.in.last == 1 && !a.in.frames.Ready() {
			// Frames come one at a time. Where several come at once, so do the replies,
			// and another processor had better begin with them.
			a.quiet.Store(true)
		}
		if err != nil && !a.in.idleAt.IsZero() && errors.Is(err, os.ErrDeadlineExceeded) {
			a.in.frames.Shrink()
			a.in.idleAt = time.Time{}
			a.conn.SetReadDeadline(time.Time{})
			continue
		}
		return h, raw, err
	}
}

// expectIdle sets the deadline by which a large buffer is given back.
func (a *Association) expectIdle() {
	if a.in.frames.Size() <= idleBuffer {
		return
	}
	if now := time.Now(); a.in.idleAt.Sub(now) < idleAfter/2 {
		a.in.idleAt = now.Add(idleAfter)
		a.conn.SetReadDeadline(a.in.idleAt)
	}
}

// readFailed ends the association for an error of the stream.
func (a *Association) readFailed(err error) {
	if framingLost(err) {
		a.fail(frame.CodeUnexpectedMessage, fmt.Errorf("association: %w", err))
		return
	}
	if err == io.EOF {
		a.mu.Lock()
		a.acked = true // if we are closing: a peer that ends the stream in order has no more to say
		a.mu.Unlock()
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case a.client && !a.in.heard && ended:
		// All that a server tells a client whose CLIENT_AUTH it refuses, unless it
		// is of generation 3.
		err = fmt.Errorf("%w: the server ended the stream before it sent anything: %v", ErrAuthentication, err)
	case err != io.EOF:
		err = fmt.Errorf("association: read: %w", err)
	}
	a.end(err, 0, nil, nil)
}

// receive takes one frame. The order of the checks is that of A11: the header was
// checked; then the channel, before anything is decoded; then encryption,
// sequence number and tag; then the type.
func (a *Association) receive(h frame.Header, raw []byte) {
	c := a.channel(h.Channel)
	if c == nil || !c.advertised {
		switch {
		case h.Channel.IsForbidden():
			a.count.forbidden.Add(1)
		case h.Channel.IsGrease():
			a.count.grease.Add(1)
		default:
			a.count.unadvertised.Add(1)
		}
		return
	}
	if h.Flags&frame.FlagENC == 0 {
		a.unauthentic(h, &a.count.clear)
		return
	}
	if h.Seq != c.in.seq && !a.outOfTurn(c, h, raw) {
		return
	}
	plain, err := a.derive(&c.in, a.in.root, a.generation.Load(), direction(!a.client), c.id).OpenFrame(h, raw)
	if err != nil {
		a.unauthentic(h, &a.count.badTag)
		return
	}
	if h.Seq != c.in.seq {
		a.fail(0, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, errGap})
		return
	}
	if h.Seq == math.MaxUint64 {
		a.fail(frame.CodeUnexpectedMessage, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, ErrSequence})
		return
	}
	c.in.seq++
	a.count.framesIn.Add(1)
	a.count.octetsIn.Add(uint64(len(raw)))
	if !a.in.heard {
		a.in.heard = true
		if a.in.handshake != nil {
			a.in.handshake.Erase()
			a.in.handshake = nil
		}
	}
	if !a.in.alive {
		a.in.alive = true
		a.pings.heard()
	}
	if a.cfg.Trace != nil {
		a.cfg.Trace(TraceFrame{ID: a.info.ID, Header: h, Ratchet: a.generation.Load(), Epoch: c.in.epoch, Plaintext: plain})
	}
	if c.id != frame.ChannelControl && !a.flow.take(uint64(h.PayloadLen)) {
		a.fail(frame.CodeFlowControl, &ProtocolError{frame.CodeFlowControl, h.Channel, h.Type, errWindow})
		return
	}
	a.dispatch(c, h, plain)
	if c.id != frame.ChannelControl && a.flow.grant(false) {
		a.signal()
	}
}

// outOfTurn deals with a frame whose number is not the next. It reports whether
// the frame is to be opened all the same, to learn whether frames are missing.
func (a *Association) outOfTurn(c *channel, h frame.Header, raw []byte) bool {
	switch {
	case h.Seq < c.in.seq:
		a.count.replay.Add(1)
	case a.in.handshake != nil && c.id == frame.ChannelControl && h.Type == frame.TypeError && h.Seq == 1:
		// The server's only frame under the handshake key after SERVER_AUTH: it
		// refuses our CLIENT_AUTH (CORE-g3-07).
		plain, err := a.in.handshake.OpenFrame(h, raw)
		if err != nil {
			a.unauthentic(h, &a.count.badTag)
			break
		}
		if a.cfg.Trace != nil {
			a.cfg.Trace(TraceFrame{ID: a.info.ID, Header: h, Plaintext: plain})
		}
		a.end(parseError(plain, true), 0, nil, nil)
	case a.gen.closeOnGap:
		return true
	default:
		a.count.gap.Add(1)
	}
	return false
}

// unauthentic counts a frame that is not authentic under n, or as a forged CLOSE.
// Generation 2 bears so many of them.
func (a *Association) unauthentic(h frame.Header, n counter) {
	if h.Type == frame.TypeClose {
		n = &a.count.forgedClose
	}
	n.Add(1)
	a.in.failed++
	if a.gen.budget > 0 && a.in.failed > a.gen.budget {
		a.fail(0, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, errBudget})
	}
}

// dispatch acts on an authentic frame whose turn it is.
func (a *Association) dispatch(c *channel, h frame.Header, plain []byte) {
	switch {
	case a.in.closed && h.Type != frame.TypeCloseAck:
		a.count.afterClose.Add(1) // the peer sends nothing after its CLOSE
	case h.Type.IsReservedAll():
		a.allChannel(c, h, plain)
	case h.Type < 0x0030: // 0x0000 and future core types
		a.illegal(h, errUnexpected, &a.count.reserved)
	case c.id == frame.ChannelControl:
		a.controlFrame(c, h, plain)
	case a.state.Load() != stateOpen:
		a.count.afterClose.Add(1)
	case a.in.hello.awaited:
		a.count.helloRequired.Add(1)
	default:
		e := c.user()
		if e == nil {
			a.count.unstarted.Add(1)
			return
		}
		e.Receive(frame.Frame{Type: h.Type, Flags: h.Flags, Seq: h.Seq, Payload: plain})
	}
}

// illegal deals with an authentic frame that is not legal in the state: in a
// strict generation it ends the association, otherwise it is counted under n.
func (a *Association) illegal(h frame.Header, err error, n counter) {
	if a.gen.strict {
		a.fail(frame.CodeUnexpectedMessage, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, err})
		return
	}
	n.Add(1)
}
