package dcbor

import (
	"fmt"
	"math"
)

// A Rule names what is wrong with an encoding or with the item that it holds.
// Its String is stable: it is what people and machines are shown.
type Rule uint8

// The rules of the encoding itself come first, those that a schema adds after.
const (
	_            Rule = iota
	Truncated         // the input ends within the item
	Trailing          // octets after the item
	NotMap            // the outermost item is not a map
	ShortestForm      // a head longer than needed, or of a form that no item has
	KeyOrder          // a map key below the one before it, in bytewise order
	DuplicateKey      // a map key equal to the one before it
	Indefinite        // an indefinite length, or a break without one
	UTF8              // a text string that is not UTF-8
	FloatForm         // a float longer than needed, a NaN but f97e00, or any float where none may be
	SimpleValue       // a simple value in two octets that no item has, or a head of major type 7 that none has
	Depth             // nested deeper than MaxDepth
	Limit             // more items, entries or octets than a configured limit
	KeyType           // a map key that is no integer
	NegativeKey       // a negative map key
	Missing           // a required key is absent
	WrongType         // another major type than the schema's, or a tag where none may be
	Range             // a value or length out of its printed range
	Empty             // nothing where at least one is required
	KindMismatch      // frame_kind is not the header's frame type
	RecordKind        // a record kind that the specification does not define
	numRules
)

var ruleNames = [numRules]string{
	Truncated: "truncated", Trailing: "trailing", NotMap: "not-a-map", ShortestForm: "shortest-form",
	KeyOrder: "key-order", DuplicateKey: "duplicate-key", Indefinite: "indefinite", UTF8: "utf8",
	FloatForm: "float-form", SimpleValue: "simple-value", Depth: "depth", Limit: "limit",
	KeyType: "key-type", NegativeKey: "negative-key", Missing: "missing", WrongType: "wrong-type",
	Range: "range", Empty: "empty", KindMismatch: "kind-mismatch", RecordKind: "record-kind",
}

// String returns the rule's name, such as "shortest-form".
func (r Rule) String() string {
	if r < numRules && ruleNames[r] != "" {
		return ruleNames[r]
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// An Error says which rule an input breaks and where.
type Error struct {
	Rule   Rule
	Offset int // of the octet where the item at fault starts; for a missing key, its map
}

func (e *Error) Error() string {
	return fmt.Sprintf("dcbor: %v at octet %d", e.Rule, e.Offset)
}

// MaxLen is the greatest length in octets of an input: 64 MiB where an int has
// 32 bits.
const MaxLen = math.MaxInt >> 5

// Fail returns the negative index that stands for the rule broken by the item
// at index i, or i itself if that is such an index already.
func Fail(i int, r Rule) int {
	if i < 0 {
		return i
	}
	return ^(i<<5 | int(r))
}

// Fault returns the error in an index, nil if there is none.
func Fault(i int) *Error {
	if i >= 0 {
		return nil
	}
	return &Error{Rule: Rule(^i & 31), Offset: ^i >> 5}
}
