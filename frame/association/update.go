package association

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// An ack is an acknowledgement that the peer owes us, in generation 3. Two equal
// ones may be due: after a ratchet epochs start at 0 again.
type ack struct {
	typ   frame.Type
	c     frame.ChannelID
	value uint64 // epoch or generation
}

// owe notes that the peer owes us k. A peer that pays nothing back loses the
// association.
func (a *Association) owe(k ack) {
	if !a.gen.strict {
		return
	}
	a.mu.Lock()
	if a.owed == nil {
		a.owed = make(map[ack]int)
	}
	a.owed[k]++
	a.owedSum++
	tooMany := a.owedSum > maxOutstanding
	a.mu.Unlock()
	if tooMany {
		a.end(ErrUnacknowledged, 0, nil, nil)
	}
}

// paid takes k off what the peer owes us; false says that it was not owed.
func (a *Association) paid(k ack) bool {
	if !a.gen.strict {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owed[k] == 0 {
		return false
	}
	a.owedSum--
	if a.owed[k]--; a.owed[k] == 0 {
		delete(a.owed, k)
	}
	return true
}

// KeyUpdate has the key of our direction of channel ch replaced before the next
// frame. It does not block. The errors are ErrNotAdvertised and the cause of the
// association's end. The key is also replaced by itself: see Config.
func (a *Association) KeyUpdate(ch frame.ChannelID) error {
	c := a.channel(ch)
	if c == nil || !c.peerAdvertised {
		return ErrNotAdvertised
	}
	return a.order(order{do: doUpdate, c: c})
}

// updateKey sends KEY_UPDATE, the last frame under c's key, and goes to the next
// epoch without waiting for the ACK; false says that the peer's window has no
// room for it.
func (a *Association) updateKey(c *channel) bool {
	if !a.room(c, markerLen) {
		return false
	}
	w, next := &a.out, c.out.epoch+1
	at := len(w.buf)
	w.buf = append(w.buf, make([]byte, frame.HeaderLen)...)
	w.buf = append(w.buf, marker(frame.TagKeyUpdateMarker, next)...)
	a.owe(ack{frame.TypeKeyUpdateAck, c.id, next})
	a.seal(c, frame.TypeKeyUpdate, at)
	c.out.next()
	a.count.keyUpdatesOut.Add(1)
	return true
}

// peerUpdate acts on KEY_UPDATE.
func (a *Association) peerUpdate(c *channel, h frame.Header, body []byte) {
	epoch, ok := parseMarker(body, frame.TagKeyUpdateMarker)
	if !ok || epoch != c.in.epoch+1 {
		a.fail(frame.CodeKeyUpdateOutOfOrder, &ProtocolError{frame.CodeKeyUpdateOutOfOrder, h.Channel, h.Type, errMarker})
		return
	}
	if !a.changing(h, 1) {
		return
	}
	c.in.next()
	a.count.keyUpdatesIn.Add(1)
	if !c.peerAdvertised {
		a.count.unanswered.Add(1)
		return
	}
	a.answer(h, order{do: doAck, c: c, typ: frame.TypeKeyUpdateAck, first: epoch, last: epoch})
}

// updateAcked acts on KEY_UPDATE_ACK.
func (a *Association) updateAcked(c *channel, h frame.Header, body []byte) {
	a.count.keyUpdateAcks.Add(1)
	epoch, ok := parseMarker(body, frame.TagKeyUpdateMarker)
	switch {
	case !ok && a.gen.strict:
		a.fail(frame.CodeKeyUpdateOutOfOrder, &ProtocolError{frame.CodeKeyUpdateOutOfOrder, h.Channel, h.Type, errMarker})
	case !a.paid(ack{h.Type, c.id, epoch}):
		a.illegal(h, errUnsolicited, &a.count.unsolicited)
	}
}

// Ratchet advances the root of all keys that we send under (binding §9.1): what
// they were cannot be had from what they become. It does not block. The errors are
// ErrRatchet and the cause of the association's end.
func (a *Association) Ratchet() error {
	if a.separate {
		return ErrRatchet
	}
	return a.order(order{do: doRatchet})
}

// ratchet sends MASTER_RATCHET, the last frame under the root, and advances it.
func (a *Association) ratchet() {
	next := a.out.gen + 1
	a.owe(ack{frame.TypeMasterRatchetAck, frame.ChannelControl, next})
	a.put(a.control(), frame.TypeMasterRatchet, marker(frame.TagRatchetGeneration, next))
	a.sendRoot(keys.RatchetStep(a.hash, a.out.root, next))
}

// sendRoot makes root the one that we send under: every channel starts over.
func (a *Association) sendRoot(root []byte) {
	keys.Erase(a.out.root)
	a.out.root = root
	a.out.gen++
	for _, c := range a.channels {
		c.out.retire()
		c.out = flowKey{}
	}
	a.count.ratchetsOut.Add(1)
}

// receiveRoot is sendRoot for the other direction.
func (a *Association) receiveRoot(root []byte) {
	keys.Erase(a.in.root)
	a.in.root = root
	a.generation.Add(1)
	for _, c := range a.channels {
		c.in.retire()
		c.in = flowKey{}
	}
	a.count.ratchetsIn.Add(1)
}

// badRatchet ends the association for a ratchet frame that is not as defined.
func (a *Association) badRatchet(h frame.Header, err error) {
	a.fail(frame.CodeUnexpectedMessage, &ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, err})
}

// peerRatchet acts on MASTER_RATCHET.
func (a *Association) peerRatchet(h frame.Header, body []byte) {
	next, ok := parseMarker(body, frame.TagRatchetGeneration)
	if !ok || next != a.generation.Load()+1 {
		a.badRatchet(h, errRatchet)
		return
	}
	if !a.changing(h, 1) {
		return
	}
	a.receiveRoot(keys.RatchetStep(a.hash, a.in.root, next))
	a.mu.Lock()
	if a.rekem != nil && a.rekem.generation == next {
		a.rekem = nil // it came too late: the peer refuses another generation than its next
		a.count.rekemRefused.Add(1)
	}
	a.mu.Unlock()
	a.answer(h, order{do: doAck, c: a.control(), typ: frame.TypeMasterRatchetAck, first: next, last: next})
}

// ratchetAcked acts on MASTER_RATCHET_ACK.
func (a *Association) ratchetAcked(h frame.Header, body []byte) {
	next, ok := parseMarker(body, frame.TagRatchetGeneration)
	switch {
	case !ok && a.gen.strict:
		a.badRatchet(h, errRatchet)
	case !a.paid(ack{h.Type, frame.ChannelControl, next}):
		a.illegal(h, errUnsolicited, &a.count.unsolicited)
	}
}

// A rekem is a tier-2 exchange under way, on either side (binding §9.2).
type rekem struct {
	private    *keys.KEMPrivate // the initiator's
	share      []byte
	generation uint64 // that the responder's sending direction goes to
}

// Rekem heals the direction that we receive: a fresh key encapsulation goes into
// the root of the keys that the peer sends under (binding §9.2). It does not
// block; a peer that finds the generation skewed does not answer. The errors are
// ErrRatchet, ErrBusy while one is under way, and the cause of the association's
// end.
func (a *Association) Rekem() error {
	if a.separate {
		return ErrRatchet
	}
	private, err := a.cfg.kem.generate()
	if err != nil {
		return fmt.Errorf("association: %w", err)
	}
	r := &rekem{private: private, share: private.Share()}
	a.mu.Lock()
	if a.rekem != nil {
		a.mu.Unlock()
		return ErrBusy
	}
	r.generation = a.generation.Load() + 1
	a.rekem = r
	a.mu.Unlock()
	return a.order(order{do: doRekem, rekem: r})
}

// sendRekem sends REKEM.
func (a *Association) sendRekem(r *rekem) {
	b := frame.AppendTLV(nil, frame.TagKEMShare, r.share)
	a.put(a.control(), frame.TypeRekem, append(b, marker(frame.TagRatchetGeneration, r.generation)...))
}

// peerRekem acts on REKEM. The writer answers it, for it owns the root.
func (a *Association) peerRekem(h frame.Header, body []byte) {
	tlvs, err := exactTLVs(body, frame.TagKEMShare, frame.TagRatchetGeneration)
	if err != nil || len(tlvs[0]) != keys.KEMShareLen || len(tlvs[1]) != 8 {
		a.badRatchet(h, errBody)
		return
	}
	if !a.changing(h, rekemPrice) {
		return
	}
	if a.answering.Add(1) > maxRekems {
		a.badRatchet(h, errFlood)
		return
	}
	a.answer(h, order{do: doRekemAck, rekem: &rekem{
		share:      slices.Clone(tlvs[0]),
		generation: binary.BigEndian.Uint64(tlvs[1]),
	}})
}

// answerRekem sends REKEM_ACK, the last frame under the root, and advances it. A
// REKEM for another generation than the next is refused in silence.
func (a *Association) answerRekem(r *rekem) {
	defer a.answering.Add(-1)
	if r.generation != a.out.gen+1 {
		a.count.rekemRefused.Add(1)
		return
	}
	ciphertext, secret, err := a.cfg.kem.encapsulate(r.share)
	if err != nil {
		a.badRatchet(frame.Header{Type: frame.TypeRekem}, err)
		return
	}
	defer keys.Erase(secret)
	b := frame.AppendTLV(nil, frame.TagKEMCiphertext, ciphertext)
	a.put(a.control(), frame.TypeRekemAck, append(b, marker(frame.TagRatchetGeneration, r.generation)...))
	th := keys.RekemTranscript(a.hash, r.share, ciphertext, r.generation)
	a.sendRoot(keys.RekemStep(a.hash, a.out.root, secret, th))
}

// rekemAcked acts on REKEM_ACK. It is a boundary: a peer whose step we cannot
// follow has gone where we cannot read it.
func (a *Association) rekemAcked(h frame.Header, body []byte) {
	a.mu.Lock()
	r := a.rekem
	a.rekem = nil
	a.mu.Unlock()
	if r == nil {
		a.illegal(h, errUnsolicited, &a.count.unsolicited)
		return
	}
	tlvs, err := exactTLVs(body, frame.TagKEMCiphertext, frame.TagRatchetGeneration)
	if err != nil || len(tlvs[0]) != keys.KEMCiphertextLen || len(tlvs[1]) != 8 {
		a.badRatchet(h, errBody)
		return
	}
	generation := binary.BigEndian.Uint64(tlvs[1])
	if generation != a.generation.Load()+1 || generation != r.generation {
		a.badRatchet(h, errRatchet)
		return
	}
	secret, err := r.private.Decapsulate(tlvs[0])
	if err != nil {
		a.badRatchet(h, err)
		return
	}
	defer keys.Erase(secret)
	th := keys.RekemTranscript(a.hash, r.share, tlvs[0], generation)
	a.receiveRoot(keys.RekemStep(a.hash, a.in.root, secret, th))
}
