package disco

import "github.com/npamp/disco/frame/dcbor"

// Default limits [C-limits].
const (
	DefaultMaxItems         = 1 << 20 // CBOR items in one payload, keys included
	DefaultMaxFilterEntries = 1024    // in kinds, and in protocol_ids
	DefaultMaxPrefixLen     = 1024    // octets of name_prefix
)

// Options says how a payload is read. A nil *Options is the zero Options.
type Options struct {
	// Generation is the association's crypto generation, 2 or 3; zero means 2.
	// It decides what values nobody reads may be [C12].
	Generation int

	// Tolerant keeps the rest of a RESULT that has records of unknown kinds: the
	// answer to a tolerant query, or a subscription's snapshot [C9]. UPDATE and
	// ANNOUNCE are always read so.
	Tolerant bool

	// Zero means the default, a negative number no limit. Beyond one the payload
	// is malformed, rule "limit".
	MaxItems, MaxFilterEntries, MaxPrefixLen, MaxCursorLen int
}

// settings are the Options with their defaults in place.
type settings struct {
	mode                                 dcbor.Mode
	tolerant                             bool
	items, filterEntries, prefix, cursor int
}

func (o *Options) settings() settings {
	if o == nil {
		o = &Options{}
	}
	s := settings{dcbor.Generation2, o.Tolerant, limit(o.MaxItems, DefaultMaxItems),
		limit(o.MaxFilterEntries, DefaultMaxFilterEntries), limit(o.MaxPrefixLen, DefaultMaxPrefixLen),
		limit(o.MaxCursorLen, MaxCursorLen)}
	if o.Generation == 3 {
		s.mode = dcbor.Generation3
	}
	return s
}

func limit(v, byDefault int) int {
	switch {
	case v == 0:
		return byDefault
	case v < 0:
		return int(^uint(0) >> 1)
	}
	return v
}
