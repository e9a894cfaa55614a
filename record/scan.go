package record

import (
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of a record (§5).
const (
	keyID       = 0 // bytes, 1 to 32 octets, required
	keyKind     = 1 // uint, required
	keyRevision = 2 // uint, required
	keyLabel    = 3 // text
	keyBody     = 4 // map, by kind, required
)

// Depths of a record and of its body in a payload, whose map is 1 and whose
// array of records is 2. A record that stands alone is held to the same.
const (
	recordDepth = 3
	bodyDepth   = recordDepth + 1
)

// The readers below follow the specification's tables row by row. Each takes
// the index of an item and returns the index after it, or a negative one.
// That something is wrong is all that they are asked; shape.go says what.

// scan checks the record at b[i]. known is false for a kind that is not
// defined; its body may be any map [C9].
func scan(b []byte, i int, m dcbor.Mode) (next int, known bool) {
	n, i := dcbor.Map(b, i)
	_, i = dcbor.Bytes(b, dcbor.Key(b, i, keyID), 1, MaxIDLen)
	kind, i := dcbor.Uint(b, dcbor.Key(b, i, keyKind), math.MaxUint64)
	_, i = dcbor.Uint(b, dcbor.Key(b, i, keyRevision), math.MaxUint64)
	n -= 4
	if dcbor.Has(b, i, n, keyLabel) {
		_, i = dcbor.Text(b, i+1)
		n--
	}
	i = dcbor.Key(b, i, keyBody)
	switch known = true; Kind(kind) {
	case KindProtocol:
		i = scanProtocol(b, i, m)
	case KindCarriageClass:
		i = scanCarriage(b, i, m)
	case KindTool:
		i = scanTool(b, i, m)
	case KindAgent:
		i = scanAgent(b, i, m)
	default:
		i, known = scanAnyMap(b, i, m), false
	}
	if n == 0 {
		return i, known
	}
	return dcbor.Rest(b, i, n, keyBody, recordDepth, m), known
}

func scanAnyMap(b []byte, i int, m dcbor.Mode) int {
	if _, next := dcbor.Map(b, i); next < 0 {
		return next
	}
	return dcbor.Skip(b, i, bodyDepth, m)
}

func scanUints(b []byte, i int, max uint64) int {
	n, i := dcbor.Array(b, i)
	for ; n > 0 && i >= 0; n-- {
		_, i = dcbor.Uint(b, i, max)
	}
	return i
}

func scanTexts(b []byte, i int) int {
	n, i := dcbor.Array(b, i)
	for ; n > 0 && i >= 0; n-- {
		_, i = dcbor.Text(b, i)
	}
	return i
}

func scanIDs(b []byte, i int) (n, next int) {
	n, i = dcbor.Array(b, i)
	for left := n; left > 0 && i >= 0; left-- {
		_, i = dcbor.Bytes(b, i, 1, MaxIDLen)
	}
	return n, i
}

// walkBody returns the index of the first unknown key of the checked body of
// the given kind at s[i], or of what follows the body.
func walkBody(s string, i int, kind Kind) int {
	n, i := dcbor.Head(s, i)
	last := [...]uint64{KindProtocol: keyMethods, KindCarriageClass: keyClassContentTypes,
		KindTool: keySchemaRef, KindAgent: keyTools}[kind]
	for ; n > 0; n-- {
		key, at := dcbor.Head(s, i)
		if key > last {
			break
		}
		i = dcbor.Next(s, at)
	}
	return i
}
