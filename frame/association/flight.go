package association

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/npamp/disco/frame"
)

// writeClear sends a HELLO flight and absorbs our own CLIENT_HELLO or
// SERVER_HELLO into the transcript.
func (h *handshake) writeClear(typ frame.Type, payload []byte) error {
	h.transcript.AddFrame(typ, payload)
	if typ == frame.TypeClientHello {
		h.id = helloID(payload)
	}
	hdr := frame.Header{Type: typ, PayloadLen: uint32(len(payload))}
	h.trace(true, hdr, payload)
	return h.write(append(frame.AppendHeader(nil, hdr), payload...))
}

func (h *handshake) writeSealed(typ frame.Type, plain []byte) error {
	hdr := frame.Header{Flags: frame.FlagENC, Type: typ, Seq: h.sent, PayloadLen: uint32(len(plain) + frame.TagLen)}
	h.trace(true, hdr, plain)
	b := append(make([]byte, frame.HeaderLen, frame.HeaderLen+len(plain)+frame.TagLen), plain...)
	h.sent++
	return h.write(h.send.SealFrame(b, 0, hdr))
}

func (h *handshake) write(b []byte) error {
	if _, err := h.conn.Write(b); err != nil {
		return fmt.Errorf("association: write in the handshake: %w", err)
	}
	return nil
}

// readClear reads the HELLO flight typ. Its payload is the reader's memory and is
// copied.
func (h *handshake) readClear(typ frame.Type) ([]byte, error) {
	hdr, raw, err := h.next(typ)
	if err != nil {
		return nil, err
	}
	if err := expect(hdr, frame.Header{Type: typ}); err != nil {
		return nil, err
	}
	payload := slices.Clone(raw[frame.HeaderLen:])
	if typ == frame.TypeClientHello {
		h.id = helloID(payload)
	}
	h.trace(false, hdr, payload)
	return payload, nil
}

// readSealed reads and opens the AUTH flight typ, or an ERROR in its place.
func (h *handshake) readSealed(typ frame.Type) ([]byte, error) {
	hdr, raw, err := h.next(typ)
	if err != nil {
		return nil, err
	}
	failed := hdr.Type == frame.TypeError && h.gen.errors
	if failed {
		typ = frame.TypeError
	}
	if err := expect(hdr, frame.Header{Flags: frame.FlagENC, Type: typ}); err != nil {
		return nil, err
	}
	plain, err := h.receive.OpenFrame(hdr, raw)
	if err != nil {
		return nil, unproven(err, frame.TypeName(frame.ChannelControl, typ))
	}
	h.trace(false, hdr, plain)
	if failed {
		return nil, parseError(plain, true)
	}
	return plain, nil
}

func (h *handshake) next(typ frame.Type) (frame.Header, []byte, error) {
	hdr, raw, err := h.frames.Next()
	switch {
	case err == nil:
		return hdr, raw, nil
	case errors.Is(err, frame.ErrTooLong):
		err = fmt.Errorf("%w: %w", errLong, err)
		fallthrough
	case framingLost(err):
		return hdr, nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return hdr, nil, fmt.Errorf("association: waiting for %s: %w", frame.TypeName(frame.ChannelControl, typ), err)
}

// expect checks all of a flight's header but its length.
func expect(got, want frame.Header) error {
	name := frame.TypeName(got.Channel, got.Type)
	switch {
	case got.Channel != want.Channel:
		return refuse(errChannel, "%s on %v", name, got.Channel)
	case got.Type != want.Type:
		return refuse(errUnexpected, "%s instead of %s", name, frame.TypeName(want.Channel, want.Type))
	case got.Flags != want.Flags:
		return refuse(errFlags, "%s with flags %v", name, got.Flags)
	case got.Seq != want.Seq:
		return refuse(errNumber, "%s with sequence number %d", name, got.Seq)
	}
	return nil
}

func (h *handshake) trace(sent bool, hdr frame.Header, plain []byte) {
	if h.cfg.Trace != nil {
		h.cfg.Trace(TraceFrame{ID: h.id, Sent: sent, Header: hdr, Plaintext: plain})
	}
}

// exactTLVs returns the values of a payload that is exactly the TLVs of the tags,
// in their order. What is beyond the tags' number stays nil.
func exactTLVs(b []byte, tags ...uint16) (values [5][]byte, err error) {
	for i, tag := range tags {
		tlv, rest, err := frame.ParseTLV(b)
		if err != nil || tlv.Type != tag {
			return values, errTLVs
		}
		values[i], b = tlv.Value, rest
	}
	if len(b) > 0 {
		return values, errTLVs
	}
	return values, nil
}

// codePoints encodes 16-bit code points.
func codePoints[T ~uint16](list ...T) []byte {
	var b []byte
	for _, c := range list {
		b = binary.BigEndian.AppendUint16(b, uint16(c))
	}
	return b
}

// parseCodePoints reads a list of at least one code point.
func parseCodePoints[T ~uint16](b []byte) ([]T, bool) {
	if len(b) == 0 || len(b)%2 != 0 {
		return nil, false
	}
	list := make([]T, len(b)/2)
	for i := range list {
		list[i] = T(binary.BigEndian.Uint16(b[2*i:]))
	}
	return list, true
}
