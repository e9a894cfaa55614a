package record

import (
	"slices"
	"strings"
)

// A Filter says which records a query or a subscription is about (§6.1). All of
// its fields that are present must hold. The zero Filter matches every record.
type Filter struct {
	Kinds       []Kind   // nil: absent, any kind; empty: matches nothing
	ProtocolIDs []uint64 // nil: absent; restricts kinds 1, 3 and 4 only [C5]; above 255 matches nothing [C27]
	NamePrefix  string   // octets, where HasPrefix; restricts kinds 3 and 4 only; "" restricts nothing
	HasPrefix   bool
}

// Normalize returns the filter with its sets sorted and each value once: what
// is sent, and what a follow-up is compared by [C3]. It shares no memory with f.
func (f Filter) Normalize() Filter {
	f.Kinds, f.ProtocolIDs = normal(f.Kinds), normal(f.ProtocolIDs)
	if !f.HasPrefix {
		f.NamePrefix = ""
	}
	return f
}

func normal[T ~uint64](v []T) []T {
	if v == nil {
		return nil
	}
	v = append(make([]T, 0, len(v)), v...)
	slices.Sort(v)
	return slices.Compact(v)
}

// Equal reports whether the filters are the same after normalisation. Absent
// and empty differ, and so do an absent prefix and an empty one.
func (f Filter) Equal(o Filter) bool {
	f, o = f.Normalize(), o.Normalize()
	return f.HasPrefix == o.HasPrefix && f.NamePrefix == o.NamePrefix &&
		(f.Kinds == nil) == (o.Kinds == nil) && slices.Equal(f.Kinds, o.Kinds) &&
		(f.ProtocolIDs == nil) == (o.ProtocolIDs == nil) && slices.Equal(f.ProtocolIDs, o.ProtocolIDs)
}

// Only returns the filter restricted to the kinds as well. protocol_ids does
// not restrict carriage classes, and name_prefix neither those nor protocols,
// so a requester that wants tools alone says so [C5].
func (f Filter) Only(kinds ...Kind) Filter {
	if f.Kinds != nil {
		kinds = slices.DeleteFunc(slices.Clone(f.Kinds), func(k Kind) bool { return !slices.Contains(kinds, k) })
	}
	f.Kinds = append([]Kind{}, kinds...)
	return f
}

// A Matcher is a compiled Filter. It is a value, safe for concurrent use.
type Matcher struct {
	kinds      uint8     // a bit for each known kind that may match
	byProtocol uint8     // a bit for each of them that protocols restricts
	byName     uint8     // a bit for each of them that prefix restricts
	protocols  [4]uint64 // a bit for each protocol_id up to 255
	prefix     string
}

const allKinds = 1<<KindProtocol | 1<<KindCarriageClass | 1<<KindTool | 1<<KindAgent

// Matcher compiles the filter.
func (f Filter) Matcher() Matcher {
	m := Matcher{kinds: allKinds}
	if f.Kinds != nil {
		m.kinds = 0
		for _, k := range f.Kinds {
			if k.Known() {
				m.kinds |= 1 << k
			}
		}
	}
	if f.ProtocolIDs != nil {
		m.byProtocol = 1<<KindProtocol | 1<<KindTool | 1<<KindAgent
		for _, p := range f.ProtocolIDs {
			if p <= MaxProtocolID {
				m.protocols[p>>6] |= 1 << (p & 63)
			}
		}
	}
	if f.HasPrefix && f.NamePrefix != "" {
		m.byName = 1<<KindTool | 1<<KindAgent
		m.prefix = f.NamePrefix
	}
	return m
}

// All reports whether the matcher matches every record, None that it can match
// none.
func (m *Matcher) All() bool { return m.kinds == allKinds && m.byProtocol|m.byName == 0 }

func (m *Matcher) None() bool {
	return m.kinds == 0 || m.kinds&^m.byProtocol == 0 && m.protocols == [4]uint64{}
}

// Kind reports whether records of the kind can match.
func (m *Matcher) Kind(k Kind) bool { return k.Known() && m.kinds>>k&1 != 0 }

// Match reports whether a record with these facts passes.
func (m *Matcher) Match(f Facts) bool { return m.match(&f) }

// MatchRecord reports whether the record passes. Facts are not looked for where
// all pass, which is a twelfth of reading a listing.
func (m *Matcher) MatchRecord(r Record) bool {
	if m.All() {
		return true
	}
	f := r.Facts()
	return m.match(&f)
}

func (m *Matcher) match(f *Facts) bool {
	k := uint8(1) << f.kind
	if m.kinds&k == 0 {
		return false
	}
	if m.byProtocol&k != 0 {
		a, b := &m.protocols, &f.protocols
		if a[0]&b[0]|a[1]&b[1]|a[2]&b[2]|a[3]&b[3] == 0 {
			return false
		}
	}
	return m.byName&k == 0 || strings.HasPrefix(f.name, m.prefix)
}
