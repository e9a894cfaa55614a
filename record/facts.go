package record

import (
	"iter"
	"math/bits"
)

// Facts are what filters ask of a record, read from it once.
type Facts struct {
	kind      Kind
	named     bool
	name      string
	protocols [4]uint64 // a bit for each protocol_id up to 255
}

// Facts returns the record's facts. The name shares the record's memory.
func (r Record) Facts() (f Facts) {
	f.kind = r.Kind()
	f.name, f.named = r.Name()
	for p := range r.ProtocolIDs() {
		if p <= MaxProtocolID {
			f.protocols[p>>6] |= 1 << (p & 63)
		}
	}
	return f
}

// Kind returns the record's kind.
func (f *Facts) Kind() Kind { return f.kind }

// Name is Record.Name.
func (f *Facts) Name() (name string, ok bool) { return f.name, f.named }

// ProtocolIDs yields the protocol_ids up to 255 that the record names, each
// once, ascending.
func (f *Facts) ProtocolIDs() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i, word := range f.protocols {
			for ; word != 0; word &= word - 1 {
				if !yield(uint64(i<<6 | bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
