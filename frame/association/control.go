package association

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/dcbor"
)

// orderFrame is the order to send one frame with a body of at most maxPongLen
// octets.
func orderFrame(c *channel, typ frame.Type, body []byte) order {
	o := order{c: c, typ: typ, n: len(body)}
	copy(o.body[:], body)
	return o
}

// order gives the writer something to do. The error is the cause of the
// association's end, or errFlood where the writer has too much to do already;
// PONGs are dropped and counted instead.
func (a *Association) order(o order) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.state.Load() == stateEnded, a.state.Load() == stateClosing && o.typ != frame.TypeCloseAck:
		return a.cause
	case merge(a.queue, &o):
		a.signal()
		return nil
	case o.typ == frame.TypePong && a.pongs >= maxPongs:
		a.count.pingsDropped.Add(1)
		return nil
	case o.typ == frame.TypePong:
		a.pongs++
	case a.queued >= maxControl:
		return errFlood
	default:
		a.queued++
	}
	a.queue = append(a.queue, o)
	a.signal()
	return nil
}

// merge makes o, an acknowledgement, part of one in the list that it follows. So
// the acknowledgements that wait do not grow with the frames they answer.
func merge(list []order, o *order) bool {
	if o.do != doAck {
		return false
	}
	for i := len(list) - 1; i >= 0; i-- {
		if l := &list[i]; l.do == doAck && l.c == o.c && l.typ == o.typ && l.last+1 == o.first {
			l.last = o.last
			return true
		}
	}
	return false
}

// answer orders an answer to the peer. One that lets too many pile up loses the
// association.
func (a *Association) answer(h frame.Header, o order) {
	if a.order(o) == errFlood {
		a.fail(frame.CodeUnexpectedMessage, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, errFlood})
	}
}

// allChannel acts on the types that mean the same on every channel (core §4.6).
func (a *Association) allChannel(c *channel, h frame.Header, body []byte) {
	switch h.Type {
	case frame.TypePing:
		a.ping(c, body)
	case frame.TypePong:
		if !a.pings.pong(body) {
			a.count.pongIgnored.Add(1)
		}
	case frame.TypeClose:
		a.peerClosed(c, h, body)
	case frame.TypeCloseAck:
		a.closeAcked(h, body)
	case frame.TypeError:
		a.peerError(h, body)
	case frame.TypeKeyUpdate:
		a.peerUpdate(c, h, body)
	case frame.TypeKeyUpdateAck:
		a.updateAcked(c, h, body)
	case frame.TypePathChallenge, frame.TypePathResponse:
		a.count.path.Add(1) // our transports have no paths (CORE-11.6-01)
	case frame.TypeFlowUpdate:
		a.flowUpdate(c, h, body)
	}
}

// ping answers with PONG on the same channel, which echoes at most 64 octets. A
// flood of PINGs is answered in part: pongRate a second, and maxPongs waiting for
// the writer.
func (a *Association) ping(c *channel, body []byte) {
	if !c.peerAdvertised || !a.in.pongs.take(1, pongRate, pongRate) {
		a.count.pingsDropped.Add(1)
		return
	}
	a.order(orderFrame(c, frame.TypePong, body[:min(len(body), maxPongLen)]))
}

// peerClosed acts on CLOSE: what came before it was handled, CLOSE_ACK goes out,
// and the association ends in order. Crossing CLOSEs are each acknowledged.
func (a *Association) peerClosed(c *channel, h frame.Header, body []byte) {
	if a.gen.strict && len(body) != 0 {
		a.illegal(h, errBody, &a.count.badBody)
		return
	}
	a.in.closed = true
	if a.gen.ackedClose || !c.peerAdvertised {
		c = a.control()
	}
	a.mu.Lock()
	closing := a.state.Load() == stateClosing
	if closing && !a.closeSent.Load() {
		// Ours has not gone out yet and is not needed any more.
		a.acked = true
		a.last, a.lastOn = frame.TypeCloseAck, c
		a.state.Store(stateEnded)
	}
	a.mu.Unlock()
	switch {
	case !closing:
		a.end(io.EOF, frame.TypeCloseAck, c, nil)
	case a.gen.ackedClose:
		a.order(orderFrame(c, frame.TypeCloseAck, nil)) // and our own is still to be acknowledged
	}
	a.signal()
}

// closeAcked acts on CLOSE_ACK.
func (a *Association) closeAcked(h frame.Header, body []byte) {
	switch {
	case !a.closeSent.Load():
		a.illegal(h, errUnsolicited, &a.count.unsolicited)
	case a.gen.strict && len(body) != 0:
		a.illegal(h, errBody, &a.count.badBody)
	default:
		a.mu.Lock()
		a.acked = true
		a.mu.Unlock()
		a.end(nil, 0, nil, nil)
	}
}

// peerError acts on ERROR, which is never answered (CORE-g3-03).
func (a *Association) peerError(h frame.Header, body []byte) {
	err := parseError(body, false)
	if !a.gen.errors {
		a.count.peerErrors.Add(1)
		a.cfg.Logger.Warn("core ERROR frame", "channel", h.Channel, "octets", len(body))
		return
	}
	a.end(err, 0, nil, nil)
}

// appendError appends the body of ERROR: {1: code, 2: context}, the context empty
// (core §4.7, generation 3).
func appendError(b []byte, code frame.ErrorCode) []byte {
	b = dcbor.AppendMap(b, 2)
	b = dcbor.AppendUint(b, 1)
	b = dcbor.AppendUint(b, uint64(code))
	b = dcbor.AppendUint(b, 2)
	return dcbor.AppendBytes(b, []byte(nil))
}

// parseError reads the body of ERROR into a *PeerError. One that is not as
// defined is a failure of its own, and not answered either.
func parseError(b []byte, handshake bool) error {
	n, i := dcbor.Map(b, 0)
	code, i := dcbor.Uint(b, dcbor.Key(b, i, 1), 0xFF)
	context, i := dcbor.Bytes(b, dcbor.Key(b, i, 2), 0, len(b))
	if err := dcbor.Done(b, dcbor.Rest(b, i, n-2, 2, 1, dcbor.Generation3)); err != nil {
		return fmt.Errorf("association: peer's ERROR does not parse: %w", err)
	}
	return &PeerError{frame.ErrorCode(code), slices.Clone(context[:min(len(context), maxErrorCtx)]), handshake}
}

// flowUpdate acts on FLOW_UPDATE.
func (a *Association) flowUpdate(c *channel, h frame.Header, body []byte) {
	switch {
	case !a.gen.flow:
		a.count.flow.Add(1)
	case c.id != frame.ChannelControl || len(body) != 8:
		a.illegal(h, errBody, &a.count.badBody)
	case !a.flow.on:
		a.count.flow.Add(1)
	default:
		a.count.flowUpdatesIn.Add(1)
		a.flow.update(body)
		a.signal()
	}
}

// controlFrame acts on the types that only Control has.
func (a *Association) controlFrame(c *channel, h frame.Header, body []byte) {
	switch {
	case a.separate && (h.Type == frame.TypeMasterRatchet || h.Type == frame.TypeRekem):
		a.badRatchet(h, ErrRatchet) // with a reason: never a silent mismatch of keys
	case h.Type == frame.TypeMasterRatchet:
		a.peerRatchet(h, body)
	case h.Type == frame.TypeMasterRatchetAck:
		a.ratchetAcked(h, body)
	case h.Type == frame.TypeRekem:
		a.peerRekem(h, body)
	case h.Type == frame.TypeRekemAck:
		a.rekemAcked(h, body)
	case h.Type == frame.TypeHello && a.cfg.Hello != nil:
		a.peerHello(h, body)
	case h.Type == frame.TypeHelloDone && a.cfg.Hello != nil:
		a.peerHelloDone(h, body)
	default:
		a.illegal(h, errUnexpected, &a.count.unlisted)
	}
}

// changing notes a change of keys by the peer, at the price of so many simple
// ones; false says that it made too many, which ends the association.
func (a *Association) changing(h frame.Header, price float64) bool {
	if a.in.changes.take(price, changeRate, changeBurst) {
		return true
	}
	a.fail(frame.CodeUnexpectedMessage, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, errFlood})
	return false
}

// marker returns the body that is one TLV of 8 octets.
func marker(tag uint16, n uint64) []byte {
	return frame.AppendTLV(nil, tag, binary.BigEndian.AppendUint64(nil, n))
}

// parseMarker reads it.
func parseMarker(b []byte, tag uint16) (uint64, bool) {
	tlvs, err := exactTLVs(b, tag)
	if err != nil || len(tlvs[0]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(tlvs[0]), true
}
