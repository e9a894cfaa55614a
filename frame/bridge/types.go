package bridge

import (
	"fmt"

	"github.com/npamp/disco/frame"
)

// The frame types of channel 0x000D (NPAMP-BRIDGE §2).
const (
	TypeRequest    frame.Type = 0x0100
	TypeResponse   frame.Type = 0x0101
	TypeError      frame.Type = 0x0102
	TypeNotify     frame.Type = 0x0103
	TypeStreamData frame.Type = 0x0104
	TypeStreamEnd  frame.Type = 0x0105
)

// IsType reports whether t is one of the six Bridge types. No other type may
// carry foreign traffic (§2).
func IsType(t frame.Type) bool { return t >= TypeRequest && t <= TypeStreamEnd }

// IsReply reports whether a frame of type t belongs to an earlier request.
func IsReply(t frame.Type) bool { return IsType(t) && t != TypeRequest && t != TypeNotify }

// MayReply reports whether a frame of type t may be answered: a request alone.
// A notification never is (§8).
func MayReply(t frame.Type) bool { return t == TypeRequest }

// messageKind returns the message_kind octet of a Bridge type (§4).
func messageKind(t frame.Type) uint8 {
	switch t {
	case TypeRequest:
		return 1
	case TypeResponse:
		return 2
	case TypeNotify:
		return 3
	case TypeError:
		return 4
	case TypeStreamData:
		return 5
	}
	return 6
}

// A Width is how many octets protocol_id takes in an envelope.
type Width uint8

// The widths. Nothing on the wire tells them apart.
const (
	Width8  Width = 1 // NPAMP-BRIDGE as published with crypto generation 2
	Width16 Width = 2 // since it was widened, after crypto generation 3 was filed
)

// DefaultWidth returns the width to configure for a crypto generation when
// nothing else is known of the peer: 16 bits with 3, 8 bits with 2.
func DefaultWidth(generation int) Width {
	if generation >= 3 {
		return Width16
	}
	return Width8
}

func (w Width) check() {
	if w != Width8 && w != Width16 {
		panic("BUG: bridge: protocol_id has no configured width")
	}
}

// A ProtocolID names a foreign protocol (NPAMP-REG §4). It is the same number in
// a Discovery record.
type ProtocolID uint16

// The assigned protocols. 0x05–0x0A are in the newer registry alone.
const (
	ProtocolMCP       ProtocolID = 0x01
	ProtocolA2A       ProtocolID = 0x02
	ProtocolHTTP2     ProtocolID = 0x03
	ProtocolWebSocket ProtocolID = 0x04
	ProtocolGRPC      ProtocolID = 0x05
	ProtocolNLIP      ProtocolID = 0x06
	ProtocolANP       ProtocolID = 0x07
	ProtocolAGNTCY    ProtocolID = 0x08
	ProtocolAP2       ProtocolID = 0x09
	ProtocolX402      ProtocolID = 0x0A
)

// A Range is a part of the protocol_id space (NPAMP-REG §4).
type Range uint8

// The ranges.
const (
	RangeNull         Range = iota // 0x00: never a protocol_id
	RangeStandards                 // 0x01–0x0F: assigned by the registry
	RangeExperimental              // 0x10–0x7F: by agreement with the peer alone
	RangePrivate                   // 0x80–0xFF: inside one administrative domain alone
	RangeOpened                    // 0x0100–0xFFFF: opened by the newer registry
)

// Range returns the range p lies in.
func (p ProtocolID) Range() Range {
	switch {
	case p == 0:
		return RangeNull
	case p <= 0x0F:
		return RangeStandards
	case p <= 0x7F:
		return RangeExperimental
	case p <= 0xFF:
		return RangePrivate
	}
	return RangeOpened
}

// A ContentType is the foreign message's encoding (NPAMP-BRIDGE §4). The number
// selects nothing but that: the protocol is protocol_id's business alone.
type ContentType uint8

// The content types.
const (
	ContentJSON   ContentType = 1 // application/json
	ContentCBOR   ContentType = 2 // application/cbor
	ContentGRPC   ContentType = 3 // application/grpc+proto
	ContentOpaque ContentType = 4 // newer BRIDGE: named by an OpaqueContentType TLV
)

// An Effect is what a call does to the world (§7). A greater one does more.
type Effect uint8

// The effects.
const (
	EffectReadOnly           Effect = 0
	EffectIdempotentWrite    Effect = 1
	EffectNonIdempotentWrite Effect = 2
	EffectDestructive        Effect = 3
)

// String returns the specification's name.
func (e Effect) String() string {
	switch e {
	case EffectReadOnly:
		return "read_only"
	case EffectIdempotentWrite:
		return "idempotent_write"
	case EffectNonIdempotentWrite:
		return "non_idempotent_write"
	case EffectDestructive:
		return "destructive"
	}
	return fmt.Sprintf("unknown(%d)", uint8(e))
}
