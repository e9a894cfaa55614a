package record

import (
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of a protocol record's body (§5.1).
const (
	keyProtocolID    = 0 // uint, 0 to 255, required
	keyProtocolClass = 1 // uint, required
	keyChannels      = 2 // array of uint
	keyContentTypes  = 3 // array of uint
	keyMethods       = 4 // array of text
)

// MaxProtocolID is the greatest protocol_id that §5.1 and §5.3 print [C63].
const MaxProtocolID = 255

// BridgeChannel is where a protocol is carried that names no channels (§5.1).
const BridgeChannel = 0x000D

// A Protocol is a protocol record (§5.1).
type Protocol struct {
	ID       ID
	Revision uint64
	Label    *string // advisory; nil: absent

	ProtocolID    uint64        // 0 to 255; 0 is never usable (REG §4)
	CarriageClass CarriageClass // informative: carriage is chosen by protocol_id [C7]
	Channels      []uint64      // nil: absent, which means BridgeChannel; empty: no channel
	ContentTypes  []uint64      // BRIDGE content_type; nil: absent
	Methods       []string      // nil: not enumerated; empty: none

	Extra, BodyExtra []Field // unknown keys of the record and of its body
}

// EffectiveChannels returns the channels the protocol is carried on:
// BridgeChannel where none were named, and none at all for an empty list.
func (p *Protocol) EffectiveChannels() []uint64 {
	if p.Channels == nil {
		return []uint64{BridgeChannel}
	}
	return p.Channels
}

// Record builds the record. The error is a *FieldError.
func (p Protocol) Record() (Record, error) {
	if p.ProtocolID > MaxProtocolID {
		return Record{}, &FieldError{"protocol_id", "must be 0 to 255"}
	}
	if err := checkTexts("methods", p.Methods); err != nil {
		return Record{}, err
	}
	body := map[uint64]any{keyProtocolID: p.ProtocolID, keyProtocolClass: uint64(p.CarriageClass)}
	if p.Channels != nil {
		body[keyChannels] = p.Channels
	}
	if p.ContentTypes != nil {
		body[keyContentTypes] = p.ContentTypes
	}
	if p.Methods != nil {
		body[keyMethods] = p.Methods
	}
	return build(p.ID, KindProtocol, p.Revision, p.Label, body, p.Extra, p.BodyExtra)
}

// Protocol returns a copy of a protocol record's fields, false for another kind.
func (r Record) Protocol() (p Protocol, ok bool) {
	if r.IsZero() || r.Kind() != KindProtocol {
		return Protocol{}, false
	}
	c := r.cursor()
	p.ID, p.Revision, p.Label = r.ID(), r.Revision(), r.label()
	p.ProtocolID = c.uint()
	p.CarriageClass = CarriageClass(c.uint())
	if c.has(keyChannels) {
		p.Channels = c.uints()
	}
	if c.has(keyContentTypes) {
		p.ContentTypes = c.uints()
	}
	if c.has(keyMethods) {
		p.Methods = texts[string](&c)
	}
	p.Extra, p.BodyExtra = r.Extra(), r.BodyExtra()
	return p, true
}

func scanProtocol(b []byte, i int, m dcbor.Mode) int {
	n, i := dcbor.Map(b, i)
	_, i = dcbor.Uint(b, dcbor.Key(b, i, keyProtocolID), MaxProtocolID)
	_, i = dcbor.Uint(b, dcbor.Key(b, i, keyProtocolClass), math.MaxUint64)
	n -= 2
	if dcbor.Has(b, i, n, keyChannels) {
		i, n = scanUints(b, i+1, math.MaxUint64), n-1
	}
	if dcbor.Has(b, i, n, keyContentTypes) {
		i, n = scanUints(b, i+1, math.MaxUint64), n-1
	}
	if dcbor.Has(b, i, n, keyMethods) {
		i, n = scanTexts(b, i+1), n-1
	}
	return dcbor.Rest(b, i, n, keyMethods, bodyDepth, m)
}
