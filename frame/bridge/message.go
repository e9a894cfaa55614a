package bridge

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/npamp/disco/frame"
)

// FlagFinal is bit 0 of an envelope's flags: the last frame of a stream (§4).
// The other bits are reserved: sent as 0, ignored on receipt.
const FlagFinal uint8 = 0x01

// A Label is a SafetyLabel (NPAMP-BRIDGE §7).
//
//	octets  field
//	0       effect
//	1       scope_len
//	2–      scope      UTF-8, advisory, at most 255 octets
type Label struct {
	Effect Effect
	Scope  string
}

// A Message is one Bridge frame's payload. The envelope's layout is (§4)
//
//	field           octets  rule
//	protocol_id     1 or 2  never 0; big-endian
//	message_kind    1       follows from Type
//	content_type    1
//	flags           1       bit 0 final
//	corr_len        1       0 in a NOTIFY, at least 1 in every other type
//	correlation_id
//	method_len      1
//	method                  UTF-8; empty where the protocol has none
type Message struct {
	Type        frame.Type // of the header: TypeRequest to TypeStreamEnd
	Protocol    ProtocolID
	ContentType ContentType
	Flags       uint8  // as received, reserved bits included
	Corr        string // correlation_id's octets, 0 to 255
	Method      string
	Label       *Label // nil: absent, which is never read_only (§7)
	Foreign     []byte // the foreign message, octet for octet
}

// Final reports whether the final flag is set.
func (m *Message) Final() bool { return m.Flags&FlagFinal != 0 }

// Parse reads the payload of a Bridge frame of type t; the width says how many
// octets protocol_id takes. The result owns its memory. The error is an *Error
// with CodeEnvelopeMalformed: envelope absent, truncated or with octets left
// over; protocol_id 0 (NPAMP-REG §4: not ProtocolUnsupported); message_kind of
// another type; no correlation_id, or one in a NOTIFY; label truncated or with
// octets left over; t no Bridge type.
func (w Width) Parse(t frame.Type, payload []byte) (Message, error) {
	w.check()
	if !IsType(t) {
		return Message{}, malformed("not a Bridge frame type")
	}
	tlv, rest, err := frame.ParseTLV(payload)
	if err != nil || tlv.Type != frame.TagBridgeEnvelope {
		return Message{}, malformed("envelope absent or truncated")
	}
	m := Message{Type: t}
	v := tlv.Value
	if len(v) < int(w)+4 {
		return Message{}, malformed("envelope truncated")
	}
	m.Protocol = ProtocolID(v[0])
	if w == Width16 {
		m.Protocol = ProtocolID(binary.BigEndian.Uint16(v))
	}
	v = v[w:]
	kind := v[0]
	m.ContentType, m.Flags = ContentType(v[1]), v[2]
	var ok bool
	if m.Corr, v, ok = cutString(v[3:]); !ok {
		return Message{}, malformed("envelope truncated in correlation_id")
	}
	if m.Method, v, ok = cutString(v); !ok {
		return Message{}, malformed("envelope truncated in method")
	}
	switch {
	case len(v) > 0:
		return Message{}, malformed("octets left over in the envelope")
	case m.Protocol == 0:
		return Message{}, malformed("protocol_id is 0")
	case kind != messageKind(t):
		return Message{}, malformed("message_kind contradicts the frame type")
	case (m.Corr == "") != (t == TypeNotify):
		return Message{}, malformed("correlation_id has a length its frame type does not allow")
	}
	if isLabel(rest) {
		tlv, after, err := frame.ParseTLV(rest)
		if err != nil || len(tlv.Value) < 2 {
			return Message{}, malformed("label truncated")
		}
		scope, v, ok := cutString(tlv.Value[1:])
		if !ok || len(v) > 0 {
			return Message{}, malformed("label truncated, or octets left over in it")
		}
		m.Label = &Label{Effect(tlv.Value[0]), scope}
		rest = after
	}
	m.Foreign = slices.Clone(rest)
	return m, nil
}

// isLabel reports whether b starts like a SafetyLabel TLV, whole or not.
func isLabel(b []byte) bool {
	return len(b) >= 2 && binary.BigEndian.Uint16(b) == frame.TagSafetyLabel
}

// cutString takes a string behind its one-octet length off b.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// Append appends the payload of m to b. It refuses, with one of the package's
// Err… errors and b as it was, what a sender must not send: all that
// AppendReceived refuses, and reserved flags, a STREAM_END that is not final, an
// undefined effect, and text that is not UTF-8.
func (w Width) Append(b []byte, m *Message) ([]byte, error) {
	switch {
	case m.Flags&^FlagFinal != 0:
		return b, ErrReservedFlags
	case m.Type == TypeStreamEnd && !m.Final():
		return b, ErrFinal
	case m.Label != nil && m.Label.Effect > EffectDestructive:
		return b, ErrEffect
	case !utf8.ValidString(m.Method), m.Label != nil && !utf8.ValidString(m.Label.Scope):
		return b, ErrText
	}
	return w.AppendReceived(b, m)
}

// AppendReceived is Append for an intermediary, which passes on what Parse gave
// it and changes nothing (§1, §7). It refuses only what a receiver could not
// read as it was meant: another frame type, protocol_id 0 or one wider than w, a
// missing or forbidden correlation_id, strings over 255 octets, and a foreign
// message that would be read as a label.
func (w Width) AppendReceived(b []byte, m *Message) ([]byte, error) {
	w.check()
	switch {
	case !IsType(m.Type):
		return b, ErrType
	case m.Protocol == 0 || w == Width8 && m.Protocol > 0xFF:
		return b, ErrProtocol
	case (m.Corr == "") != (m.Type == TypeNotify) || len(m.Corr) > 255:
		return b, ErrCorr
	case len(m.Method) > 255 || m.Label != nil && len(m.Label.Scope) > 255:
		return b, ErrText
	case m.Label == nil && isLabel(m.Foreign):
		return b, ErrAmbiguous
	}
	v := make([]byte, 0, int(w)+5+len(m.Corr)+len(m.Method))
	if w == Width16 {
		v = append(v, byte(m.Protocol>>8))
	}
	v = append(v, byte(m.Protocol), messageKind(m.Type), byte(m.ContentType), m.Flags)
	v = appendString(v, m.Corr)
	v = appendString(v, m.Method)
	b = frame.AppendTLV(b, frame.TagBridgeEnvelope, v)
	if m.Label != nil {
		b = frame.AppendTLV(b, frame.TagSafetyLabel, appendString([]byte{byte(m.Label.Effect)}, m.Label.Scope))
	}
	return append(b, m.Foreign...), nil
}

func appendString(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

// Correlates reports whether reply answers request: it is a reply, and echoes
// the request's correlation_id octet for octet (§5). Sequence numbers say nothing
// about it.
func Correlates(request, reply *Message) bool {
	return request.Type == TypeRequest && IsReply(reply.Type) && request.Corr != "" && request.Corr == reply.Corr
}
