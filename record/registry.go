package record

import "slices"

// A ProtocolRange is a part of the protocol_id space (REG §4).
type ProtocolRange uint8

const (
	RangeNull         ProtocolRange = iota // 0x00: never a protocol_id
	RangeStandard                          // 0x01 to 0x0F: assigned by the registry
	RangeExperimental                      // 0x10 to 0x7F: by agreement out of band only
	RangePrivate                           // 0x80 to 0xFF: within one domain only
	RangeBeyond                            // above 0xFF: not in a record [C63]
)

// RangeOf returns the range that the protocol_id is in.
func RangeOf(id uint64) ProtocolRange {
	switch {
	case id == 0:
		return RangeNull
	case id < 0x10:
		return RangeStandard
	case id < 0x80:
		return RangeExperimental
	case id <= 0xff:
		return RangePrivate
	}
	return RangeBeyond
}

// Classes lists the carriage classes that each assigned protocol_id may be
// carried under. The first is the one to publish.
type Classes map[uint64][]CarriageClass

// RegisteredClasses returns the registry's table (REG §6).
func RegisteredClasses() Classes {
	return Classes{
		0x01: {ClassJSONRPC},                     // MCP
		0x02: {ClassJSONRPC, ClassDOC},           // A2A, DOC for its card
		0x03: {ClassHTTP},                        // HTTP/2
		0x04: {ClassStream},                      // WebSocket
		0x05: {ClassStream},                      // gRPC
		0x06: {ClassHTTP, ClassStream},           // NLIP
		0x07: {ClassHTTP, ClassOpaque},           // ANP
		0x08: {ClassStream, ClassHTTP, ClassDOC}, // AGNTCY
		0x09: {ClassDOC, ClassJSONRPC},           // AP2
		0x0A: {ClassHTTP},                        // x402
	}
}

// Of returns the class to publish for the protocol_id: the table's first, else
// ClassOpaque for a private one (REG §7.2), else false.
func (c Classes) Of(id uint64) (CarriageClass, bool) {
	if v := c[id]; len(v) > 0 {
		return v[0], true
	}
	return ClassOpaque, RangeOf(id) == RangePrivate
}

// Allows reports whether the table lists the class for the protocol_id.
func (c Classes) Allows(id uint64, class CarriageClass) bool {
	return slices.Contains(c[id], class)
}
