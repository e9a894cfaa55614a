package dcbor

import (
	"bytes"
	"encoding/binary"
	"math"
)

// A Mode says what may stand in an item that no schema describes [C12].
type Mode uint8

const (
	// Generation2 allows any item: floats in their shortest form with f97e00
	// the only NaN, tags, bignums that no integer could replace, simple values.
	Generation2 Mode = 2
	// Generation3 allows the same but floats and tags.
	Generation3 Mode = 3
)

// MaxDepth bounds the nesting of arrays, maps and tags, the outermost being 1.
const MaxDepth = 8

// Skip checks the item at b[i], whatever it is, and returns the index after it.
// depth is what the item counts as should it be an array, a map or a tag.
// It calls itself for each level of nesting, at most MaxDepth deep.
func Skip(b []byte, i, depth int, m Mode) (next int) {
	if uint(i) >= uint(len(b)) {
		return Fail(i, Truncated)
	}
	major := b[i] &^ 31
	if major == MajorSimple {
		return skipSimple(b, i, m)
	}
	n, at := arg(b, i, major)
	if at < 0 {
		return at
	}
	left := uint64(len(b) - at)
	switch major {
	case MajorBytes, MajorText:
		if n > left {
			return Fail(i, Truncated)
		}
		next = at + int(n)
		if major == MajorText && !validText(b[at:next]) {
			return Fail(i, UTF8)
		}
		return next
	case MajorArray, MajorMap, MajorTag:
		if depth > MaxDepth {
			return Fail(i, Depth)
		}
		switch {
		case major == MajorArray && n > left, major == MajorMap && n > left/2:
			return Fail(i, Truncated)
		case major == MajorArray:
			next = skipArray(b, at, n, depth, m)
		case major == MajorMap:
			next = skipMap(b, at, n, depth, m)
		default:
			next = skipTag(b, i, at, n, depth, m)
		}
		if next == Fail(len(b), Truncated) {
			return Fail(i, Truncated) // the item missing at the end is missing here
		}
		return next
	}
	return at // an integer
}

func skipArray(b []byte, i int, n uint64, depth int, m Mode) int {
	for ; n > 0 && i >= 0; n-- {
		i = Skip(b, i, depth+1, m)
	}
	return i
}

func skipMap(b []byte, i int, n uint64, depth int, m Mode) int {
	var prev []byte // the key before
	for ; n > 0 && i >= 0; n-- {
		at := i
		if i = Skip(b, i, depth+1, m); i < 0 {
			return i
		}
		key := b[at:i]
		if order := bytes.Compare(key, prev); order == 0 {
			return Fail(at, DuplicateKey)
		} else if order < 0 {
			return Fail(at, KeyOrder)
		}
		prev = key
		i = Skip(b, i, depth+1, m)
	}
	return i
}

// skipTag reads the content of the tag at b[i], which starts at b[at].
func skipTag(b []byte, i, at int, tag uint64, depth int, m Mode) int {
	if m == Generation3 {
		return Fail(i, WrongType)
	}
	next := Skip(b, at, depth+1, m)
	if next >= 0 && (tag == 2 || tag == 3) && b[at]&^31 == MajorBytes {
		// A bignum that fits 64 bits, or has a zero in front, is a longer form.
		if n, v := arg(b, at, MajorBytes); n <= 8 || b[v] == 0 {
			return Fail(i, ShortestForm)
		}
	}
	return next
}

// skipSimple reads a simple value or a float at b[i].
func skipSimple(b []byte, i int, m Mode) int {
	ai := b[i] & 31
	switch {
	case ai < 24:
		return i + 1
	case ai == 31:
		return Fail(i, Indefinite) // a break
	case ai > 27:
		return Fail(i, SimpleValue)
	}
	size := 1 << (ai - 24)
	v := b[i+1:]
	if len(v) < size {
		return Fail(i, Truncated)
	}
	if ai == 24 {
		if v[0] < 32 {
			return Fail(i, SimpleValue)
		}
		return i + 2
	}
	if m == Generation3 || !shortestFloat(v[:size]) {
		return Fail(i, FloatForm)
	}
	return i + 1 + size
}

// shortestFloat reports whether the octets of a half, single or double are the
// shortest form of their value, with f97e00 the only NaN.
func shortestFloat(v []byte) bool {
	switch len(v) {
	case 2:
		n := binary.BigEndian.Uint16(v)
		return n&0x7c00 != 0x7c00 || n&0x3ff == 0 || n == 0x7e00
	case 4:
		f := math.Float32frombits(binary.BigEndian.Uint32(v))
		return f == f && !fitsHalf(f)
	}
	f := math.Float64frombits(binary.BigEndian.Uint64(v))
	return f == f && float64(float32(f)) != f
}

// fitsHalf reports whether f, which is not NaN, survives as a half.
func fitsHalf(f float32) bool {
	bits := math.Float32bits(f)
	exp, frac := int(bits>>23&0xff)-127, bits&(1<<23-1)
	switch {
	case exp == -127: // zero, or too small for a half
		return frac == 0
	case exp == 128, exp >= -14 && exp <= 15: // infinity, normal
		return frac&(1<<13-1) == 0
	case exp >= -24 && exp < -14: // subnormal as a half: 24+exp bits are left
		return (frac|1<<23)&(1<<(-exp-1)-1) == 0
	}
	return false
}

// Check reports what keeps b from being exactly one map that the mode allows,
// of at most maxItems items in all. depth is the map's own: 1, or more where b
// is held to what it may be within another item. Of several faults it is the
// one found first in the order of the octets.
func Check(b []byte, depth int, m Mode, maxItems int) *Error {
	if len(b) > MaxLen {
		return &Error{Rule: Limit}
	}
	if len(b) > 0 && b[0]&^31 != MajorMap {
		return &Error{Rule: NotMap}
	}
	if err := Done(b, Skip(b, 0, depth, m)); err != nil {
		return err
	}
	return Fault(Budget(b, maxItems))
}

// Budget returns len(b), or the fault of the item that is one too many for
// maxItems in b, which has been checked. Keys are items. No item is shorter
// than an octet, so only inputs of more than maxItems octets are walked.
func Budget(b []byte, maxItems int) int {
	if len(b) <= maxItems {
		return len(b)
	}
	for i, n := 0, 0; i < len(b); n++ {
		if n == maxItems {
			return Fail(i, Limit)
		}
		v, at := Head(b, i)
		if major := b[i] &^ 31; major == MajorBytes || major == MajorText {
			at += int(v)
		}
		i = at
	}
	return len(b)
}

// Head returns the argument of the head at s[i] and the index after it. s must
// have been checked. A tag, an array and a map are followed by what they hold.
func Head[S ~string | ~[]byte](s S, i int) (n uint64, next int) {
	if n = uint64(s[i] & 31); n < 24 {
		return n, i + 1
	}
	return longArgument(s, i)
}

func longArgument[S ~string | ~[]byte](s S, i int) (n uint64, next int) {
	size := 1 << (s[i]&31 - 24)
	for next = i + 1; next <= i+size; next++ {
		n = n<<8 | uint64(s[next])
	}
	return n, next
}

// Next returns the index after the item at s[i]. s must have been checked.
func Next[S ~string | ~[]byte](s S, i int) int {
	for items := uint64(1); items > 0; items-- {
		initial := s[i]
		n := uint64(initial & 31)
		i++
		switch {
		case n < 24:
		case n == 24:
			n = uint64(s[i])
			i++
		default:
			n, i = longArgument(s, i-1)
		}
		if initial < MajorBytes || initial >= MajorTag {
			if initial&^31 == MajorTag {
				items++
			}
			continue
		}
		switch {
		case initial < MajorArray:
			i += int(n)
		case initial < MajorMap:
			items += n
		default:
			items += 2 * n
		}
	}
	return i
}
