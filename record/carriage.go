package record

import (
	"fmt"
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of a carriage class record's body (§5.2).
const (
	keyClass             = 0 // uint, required
	keyClassContentTypes = 1 // array of uint
)

// A CarriageClass is the number of a carriage class. No document assigns the
// numbers; these count the classes in the order the registry lists them [C7].
// A received number that is none of them is kept, and means nothing.
type CarriageClass uint64

const (
	ClassJSONRPC CarriageClass = 1
	ClassHTTP    CarriageClass = 2
	ClassMSG     CarriageClass = 3
	ClassStream  CarriageClass = 4
	ClassDOC     CarriageClass = 5
	ClassOpaque  CarriageClass = 6
)

// String returns the registry's name, such as "JSONRPC", and "class(9)" for a
// number without one.
func (c CarriageClass) String() string {
	if c-1 < 6 {
		return [...]string{"JSONRPC", "HTTP", "MSG", "STREAM", "DOC", "OPAQUE"}[c-1]
	}
	return fmt.Sprintf("class(%d)", uint64(c))
}

// A Carriage is a carriage class record (§5.2).
type Carriage struct {
	ID       ID
	Revision uint64
	Label    *string // advisory; nil: absent

	CarriageClass CarriageClass
	ContentTypes  []uint64 // BRIDGE content_type; nil: absent

	Extra, BodyExtra []Field // unknown keys of the record and of its body
}

// Record builds the record. The error is a *FieldError.
func (c Carriage) Record() (Record, error) {
	body := map[uint64]any{keyClass: uint64(c.CarriageClass)}
	if c.ContentTypes != nil {
		body[keyClassContentTypes] = c.ContentTypes
	}
	return build(c.ID, KindCarriageClass, c.Revision, c.Label, body, c.Extra, c.BodyExtra)
}

// Carriage returns a copy of a carriage class record's fields, false for
// another kind.
func (r Record) Carriage() (v Carriage, ok bool) {
	if r.IsZero() || r.Kind() != KindCarriageClass {
		return Carriage{}, false
	}
	c := r.cursor()
	v.ID, v.Revision, v.Label = r.ID(), r.Revision(), r.label()
	v.CarriageClass = CarriageClass(c.uint())
	if c.has(keyClassContentTypes) {
		v.ContentTypes = c.uints()
	}
	v.Extra, v.BodyExtra = r.Extra(), r.BodyExtra()
	return v, true
}

func scanCarriage(b []byte, i int, m dcbor.Mode) int {
	n, i := dcbor.Map(b, i)
	_, i = dcbor.Uint(b, dcbor.Key(b, i, keyClass), math.MaxUint64)
	n--
	if dcbor.Has(b, i, n, keyClassContentTypes) {
		i, n = scanUints(b, i+1, math.MaxUint64), n-1
	}
	return dcbor.Rest(b, i, n, keyClassContentTypes, bodyDepth, m)
}
