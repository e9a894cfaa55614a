package association

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/npamp/disco/frame"
)

// outbound is what the writing goroutine owns while it holds mu, which it does but
// when it rests: then the reading one may, see reply. Before they run, the
// handshake does.
type outbound struct {
	mu      sync.Mutex
	root    []byte  // of all our keys to seal with
	gen     uint64  // its generation
	buf     []byte  // the batch: sealed frames
	lent    *[]byte // what buf is given back in; nil when buf is
	orders  []order
	now     time.Time // when the batch was begun
	turn    int       // the channel whose turn it is
	sent    uint64    // payload octets so far on all channels but Control
	held    []byte    // room for a header and the plaintext of a frame that waits for the peer's window
	heldOn  *channel
	heldTyp frame.Type
	closed  bool  // CLOSE is in the batch or was sent
	done    bool  // nothing more will be sent
	frames  int   // in the batch
	several bool  // the last batch had more than one
	failed  error // why a Write of reply failed
}

// An order is something for the writer to do, besides asking the endpoints.
type order struct {
	do    orderKind
	c     *channel
	typ   frame.Type // doSend
	n     int        // octets of body
	body  [maxPongLen]byte
	rekem *rekem // doRekem, doRekemAck

	first, last uint64 // doAck: epochs or generations
}

type orderKind uint8

const (
	doSend     orderKind = iota // a frame
	doAck                       // a frame of typ for each of first to last
	doUpdate                    // KEY_UPDATE on c
	doRatchet                   // MASTER_RATCHET
	doRekem                     // REKEM
	doRekemAck                  // REKEM_ACK
)

// borrow makes sure that there is a batch to fill.
func (w *outbound) borrow(b *buffers) {
	if w.lent == nil {
		w.lent = b.get()
		w.buf = *w.lent
	}
}

// full reports whether the batch is to be written. More than a few small frames
// in it would keep the peer's processor idle: with no limit but batchLen 64
// requests in flight go to and fro as one, and take a fifth more time each, as does
// a change for 10,000 subscriptions.
func (w *outbound) full() bool { return len(w.buf) >= batchLen || w.frames >= batchFrames }

// empty begins another batch.
func (w *outbound) empty() { w.buf, w.frames = w.buf[:0], 0 }

// giveBack is for when there is nothing to send.
func (w *outbound) giveBack(b *buffers) {
	*w.lent = w.buf
	b.put(w.lent)
	w.buf, w.lent = nil, nil
}

// markerLen is the length of a body that is one TLV of 8 octets.
const markerLen = 12

// write is the writing goroutine. It ends the association.
func (a *Association) write() {
	w := &a.out
	w.mu.Lock()
	for {
		if err := a.drain(); err != nil {
			a.writeFailed(err)
			break
		}
		a.fill()
		if len(w.buf) > 0 {
			if w.several {
				// Whoever is about to add to the batch may. With 64 requests in flight
				// that takes a fifth of all their time away, most of it writes; a single
				// request is not held up, for its batches are of one frame.
				runtime.Gosched()
				a.fill()
			}
			w.several = w.frames > 1
			if err := a.flush(); err != nil {
				a.writeFailed(err)
				break
			}
			continue
		}
		if w.done {
			break
		}
		a.rest()
	}
	w.mu.Unlock()
	if a.lingers.Load() {
		if c, ok := a.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			timer := time.NewTimer(lingerTimeout)
			select {
			case <-a.readerDone:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
	hangUp(a.conn)
	<-a.readerDone
	a.end(nil, 0, nil, nil)
	a.finish()
}

// fill makes a batch: what is ordered, then frames of the endpoints in turn.
// Orders go first within a long backlog too.
func (a *Association) fill() {
	w := &a.out
	w.borrow(a.cfg.buffers)
	w.now = time.Now()
	for !w.full() && !w.done {
		if a.alert.Load() {
			a.obey()
			continue
		}
		if a.state.Load() != stateOpen || !a.pull() {
			return
		}
	}
}

// flush writes the batch.
func (a *Association) flush() error {
	w := &a.out
	a.guard.begin(a, time.Now()) // not w.now: what endpoints took to make their frames is theirs
	var err error
	if a.direct != nil && len(w.buf) > longBatch {
		room := a.cfg.buffers.get()
		err = a.direct.writeLong(a.conn, w.buf, room)
		a.cfg.buffers.put(room)
	} else {
		_, err = a.conn.Write(w.buf)
	}
	a.guard.end()
	if err != nil {
		return err
	}
	w.empty()
	a.written()
	return nil
}

// written tells the endpoints whose frames have been written.
func (a *Association) written() {
	for _, c := range a.channels {
		if c.wrote && c != a.out.heldOn { // else its last frame still waits for the peer's window
			c.wrote = false
			c.user().Written()
		}
	}
}

// reply does what the writing goroutine would be woken for, without waiting: it
// writes a batch of the endpoints' frames, unless that is long. It runs on the
// reading goroutine, and on those that call Flush. What it cannot do is left to the
// writing goroutine.
func (a *Association) reply() {
	if a.armed() && (a.direct == nil || !a.tryReply()) {
		a.nudge()
	}
}

// tryReply reports whether nothing is left to do.
func (a *Association) tryReply() bool {
	w := &a.out
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	if a.alert.Load() || w.lent != nil || w.failed != nil || a.direct.kept.Load() > 0 {
		return false
	}
	w.borrow(a.cfg.buffers)
	w.now = time.Now()
	for !w.full() && a.state.Load() == stateOpen && a.pull() {
	}
	if len(w.buf) > directLen { // the peer's processor is to begin before all of it is written
		return false
	}
	if len(w.buf) > 0 {
		a.direct.trying.Store(true)
		_, w.failed = a.conn.Write(w.buf)
		a.direct.trying.Store(false)
		w.empty()
		if w.failed == nil && a.direct.kept.Load() == 0 {
			a.written()
		}
	}
	w.giveBack(a.cfg.buffers)
	return w.failed == nil && a.direct.kept.Load() == 0 && !a.armed()
}

// armed reports whether an endpoint may have something to send.
func (a *Association) armed() bool {
	for _, c := range a.channels {
		if c.armed.Load() && c.peerAdvertised {
			return true
		}
	}
	return false
}

// drain writes what reply could not, and returns why it failed.
func (a *Association) drain() error {
	switch w := &a.out; {
	case w.failed != nil:
		return w.failed
	case a.direct == nil || a.direct.kept.Load() == 0:
		return nil
	}
	a.guard.begin(a, time.Now())
	err := a.direct.drain()
	a.guard.end()
	if err == nil {
		a.written()
	}
	return err
}

// writeFailed ends the association for a failed write. Where the peer ended the
// stream, the reader may be about to learn why, and its cause is the better one.
func (a *Association) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.end(fmt.Errorf("%w: %w", ErrWriteTimeout, err), 0, nil, nil)
		return
	}
	timer := time.NewTimer(lingerTimeout)
	select {
	case <-a.readerDone:
	case <-timer.C:
	}
	timer.Stop()
	a.end(fmt.Errorf("association: write: %w", err), 0, nil, nil)
}

// rest waits for something to do.
func (a *Association) rest() {
	a.out.giveBack(a.cfg.buffers)
	a.out.mu.Unlock()
	<-a.wake
	a.out.mu.Lock()
}

// obey carries out the orders, and what the state of the association asks for.
func (a *Association) obey() {
	w := &a.out
	a.alert.Store(false)
	a.mu.Lock()
	state := a.state.Load()
	for i := range a.queue {
		if !merge(w.orders, &a.queue[i]) {
			w.orders = append(w.orders, a.queue[i])
		}
	}
	clear(a.queue)
	if a.queue = a.queue[:0]; cap(a.queue) > maxPongs {
		a.queue = nil
	}
	last, lastOn, lastBody := a.last, a.lastOn, a.lastBody
	if state == stateClosing && !w.closed {
		a.closeSent.Store(true) // below, and the peer's CLOSE does not prevent it any more
	}
	a.mu.Unlock()

	if state == stateEnded && !w.closed {
		if last != 0 {
			a.put(lastOn, last, lastBody)
			w.closed = true
		}
		w.done = true
		return
	}
	if a.flow.due.Swap(false) && !w.closed {
		a.put(a.control(), frame.TypeFlowUpdate, a.flow.body())
		a.count.flowUpdatesOut.Add(1)
	}
	a.carryOut(state)
	if state == stateClosing && !w.closed {
		// Ahead of all that the endpoints have, and nothing after it.
		a.lingers.Store(!a.gen.ackedClose)
		a.put(a.control(), frame.TypeClose, nil)
		w.closed = true
	}
	if w.closed && (state == stateEnded || !a.gen.ackedClose) {
		w.done = true
	}
}

// carryOut does the orders. Those that the peer's window has no room for stay.
func (a *Association) carryOut(state int32) {
	w := &a.out
	kept := w.orders[:0]
	for _, o := range w.orders {
		if w.closed && o.typ != frame.TypeCloseAck {
			continue // after CLOSE only the peer's is acknowledged
		}
		if !a.carry(&o) {
			kept = append(kept, o)
		}
	}
	clear(w.orders[len(kept):])
	w.orders = kept
	pongs := 0
	for i := range kept {
		if kept[i].typ == frame.TypePong {
			pongs++
		}
	}
	a.mu.Lock()
	a.queued = len(kept) - pongs + len(a.queue)
	a.pongs = pongs
	for i := range a.queue {
		if a.queue[i].typ == frame.TypePong {
			a.queued--
			a.pongs++
		}
	}
	a.mu.Unlock()
	if len(kept) == 0 && cap(w.orders) > maxPongs {
		w.orders = nil
	}
}

// carry carries out one order; false says that the peer's window has no room.
func (a *Association) carry(o *order) bool {
	switch o.do {
	case doAck:
		tag := frame.TagKeyUpdateMarker
		if o.typ == frame.TypeMasterRatchetAck {
			tag = frame.TagRatchetGeneration
		}
		for ; o.first <= o.last; o.first++ {
			if !a.put(o.c, o.typ, marker(tag, o.first)) {
				return false
			}
		}
	case doUpdate:
		return a.updateKey(o.c)
	case doRatchet:
		a.ratchet()
	case doRekem:
		a.sendRekem(o.rekem)
	case doRekemAck:
		a.answerRekem(o.rekem)
	default:
		if !a.put(o.c, o.typ, o.body[:o.n]) {
			return false
		}
		if o.typ == frame.TypePong {
			a.count.pongs.Add(1)
		}
	}
	return true
}

// put adds one frame to the batch; false says that the peer's window has no room
// for it.
func (a *Association) put(c *channel, typ frame.Type, body []byte) bool {
	if !a.room(c, len(body)) {
		return false
	}
	if a.due(c) && typ != frame.TypeKeyUpdate && !a.updateKey(c) {
		return false
	}
	w := &a.out
	at := len(w.buf)
	w.buf = append(w.buf, make([]byte, frame.HeaderLen)...)
	w.buf = append(w.buf, body...)
	a.seal(c, typ, at)
	return true
}

// seal seals the frame at w.buf[at:], whose plaintext follows the room for its
// header. Sequence numbers do not run out: the key is replaced before.
func (a *Association) seal(c *channel, typ frame.Type, at int) {
	w, k := &a.out, &c.out
	if k.seq == math.MaxUint64 {
		panic("BUG: association: sequence numbers exhausted")
	}
	key := a.derive(k, w.root, w.gen, direction(a.client), c.id)
	if k.born.IsZero() {
		k.born = w.now
	}
	h := frame.Header{Flags: frame.FlagENC, Type: typ, Channel: c.id, Seq: k.seq}
	n := len(w.buf) - at - frame.HeaderLen + frame.TagLen
	if a.cfg.Trace != nil {
		h.PayloadLen = uint32(n)
		a.cfg.Trace(TraceFrame{ID: a.info.ID, Sent: true, Header: h, Ratchet: w.gen, Epoch: k.epoch,
			Plaintext: w.buf[at+frame.HeaderLen:]})
	}
	w.buf = key.SealFrame(slices.Grow(w.buf, frame.TagLen), at, h)
	k.seq++
	w.frames++
	k.octets += uint64(n)
	if c.id != frame.ChannelControl {
		w.sent += uint64(n)
	}
	a.count.framesOut.Add(1)
	a.count.octetsOut.Add(uint64(frame.HeaderLen + n))
}

// due reports whether c's key has to be replaced before the next frame (core
// §11.5, C51).
func (a *Association) due(c *channel) bool {
	k := &c.out
	return k.seq >= a.cfg.UpdateFrames || k.octets >= a.cfg.UpdateOctets ||
		k.key != nil && a.out.now.Sub(k.born) >= a.cfg.UpdateAge
}

// room reports whether the peer's window takes a plaintext of n octets on c, with
// the KEY_UPDATE that may have to go before it (C62).
func (a *Association) room(c *channel, n int) bool {
	if !a.flow.on || c.id == frame.ChannelControl {
		return true
	}
	need := uint64(n + frame.TagLen)
	if a.due(c) {
		need += markerLen + frame.TagLen
	}
	return a.out.sent+need <= a.flow.peerLimit.Load()
}

// pull adds one frame of the endpoint whose turn it is to the batch; false says
// that there is none, or that it has to wait.
func (a *Association) pull() bool {
	w := &a.out
	if w.heldOn != nil {
		return a.release()
	}
	for range a.channels {
		c := a.channels[w.turn]
		w.turn = (w.turn + 1) % len(a.channels)
		if !c.armed.Load() || !c.peerAdvertised {
			continue
		}
		e := c.user()
		if e == nil {
			continue
		}
		c.armed.Store(false) // before the endpoint looks: a Wake from here on counts
		at := len(w.buf)
		b, typ, ok := e.Append(append(w.buf, make([]byte, frame.HeaderLen)...))
		if !ok {
			continue
		}
		c.armed.Store(true)
		w.buf = b
		return a.add(c, typ, at)
	}
	return false
}

// add seals the endpoint's frame that starts at w.buf[at], or holds it back.
func (a *Association) add(c *channel, typ frame.Type, at int) bool {
	w := &a.out
	n := len(w.buf) - at - frame.HeaderLen
	switch {
	case n < 0:
		panic("BUG: association: endpoint returned less than it was given")
	case typ < 0x0030:
		w.buf = w.buf[:at]
		a.end(fmt.Errorf("%w: type 0x%04x on %v", ErrFrame, uint16(typ), c.id), 0, nil, nil)
		return true
	case frame.HeaderLen+n+frame.TagLen > a.cfg.MaxSend:
		w.buf = w.buf[:at]
		a.end(fmt.Errorf("%w: %d octets on %v, limit %d", ErrFrame, frame.HeaderLen+n+frame.TagLen, c.id, a.cfg.MaxSend), 0, nil, nil)
		return true
	case !a.room(c, n):
		w.held = append(w.held[:0], w.buf[at:]...)
		w.heldOn, w.heldTyp = c, typ
		w.buf = w.buf[:at]
		a.count.flowStalls.Add(1)
		return false
	case a.due(c):
		w.held = append(w.held[:0], w.buf[at:]...)
		w.heldOn, w.heldTyp = c, typ
		w.buf = w.buf[:at]
		a.updateKey(c)
		return a.release()
	}
	a.seal(c, typ, at)
	c.wrote = true
	return true
}

// release sends the frame that was held back, if there is room for it now.
func (a *Association) release() bool {
	w := &a.out
	c := w.heldOn
	if !a.room(c, len(w.held)-frame.HeaderLen) {
		return false
	}
	if a.due(c) {
		a.updateKey(c)
	}
	at := len(w.buf)
	w.buf = append(w.buf, w.held...)
	w.heldOn, w.held = nil, nil
	a.seal(c, w.heldTyp, at)
	c.wrote = true
	return true
}
