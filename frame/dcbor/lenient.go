package dcbor

import "encoding/binary"

// SkipLenient returns the index after the item at b[i] if it is well-formed
// (RFC 8949 §1.2), deterministic or not, and otherwise a negative index. depth
// is as in Skip.
func SkipLenient(b []byte, i, depth int) (next int) {
	h := ReadHead(b, i)
	if h.Next < 0 {
		return h.Next
	}
	switch h.Major {
	case MajorBytes, MajorText:
		if h.Indefinite {
			return skipChunks(b, h.Next, h.Major)
		}
		if h.Arg > uint64(len(b)-h.Next) {
			return Fail(i, Truncated)
		}
		return h.Next + int(h.Arg)
	case MajorArray, MajorMap, MajorTag:
		if depth > MaxDepth {
			return Fail(i, Depth)
		}
		n := h.Arg
		switch {
		case h.Major == MajorTag:
			n = 1
		case h.Indefinite:
			return skipToBreak(b, h.Next, depth+1, h.Major == MajorMap)
		case n > uint64(len(b)): // before it is doubled
			return Fail(i, Truncated)
		case h.Major == MajorMap:
			n *= 2
		}
		next = h.Next
		for ; n > 0 && next >= 0; n-- {
			next = SkipLenient(b, next, depth+1)
		}
		return next
	}
	if h.Indefinite {
		return Fail(i, Indefinite) // a break where an item should be
	}
	return h.Next
}

// IsBreak reports whether b[i] ends an item of indefinite length.
func IsBreak(b []byte, i int) bool { return uint(i) < uint(len(b)) && b[i] == 0xff }

func skipToBreak(b []byte, i, depth int, pairs bool) int {
	for i >= 0 && !IsBreak(b, i) {
		i = SkipLenient(b, i, depth)
		if pairs {
			i = SkipLenient(b, i, depth)
		}
	}
	if i < 0 {
		return i
	}
	return i + 1
}

func skipChunks(b []byte, i int, major byte) int {
	for !IsBreak(b, i) {
		h := ReadHead(b, i)
		switch {
		case h.Next < 0:
			return h.Next
		case h.Major != major || h.Indefinite:
			return Fail(i, Indefinite)
		case h.Arg > uint64(len(b)-h.Next):
			return Fail(i, Truncated)
		}
		i = h.Next + int(h.Arg)
	}
	return i + 1
}

// A LooseHead is the head of an item that need not be deterministic.
type LooseHead struct {
	Major      byte
	Indefinite bool   // of a string, an array or a map; with MajorSimple: a break
	Arg        uint64 // in whatever length it was; a float's octets
	Next       int    // the index after it, or negative: there is no such head
}

// ReadHead reads the well-formed head at b[i].
func ReadHead(b []byte, i int) (h LooseHead) {
	if uint(i) >= uint(len(b)) {
		return LooseHead{Next: Fail(i, Truncated)}
	}
	ai := b[i] & 31
	h = LooseHead{Major: b[i] &^ 31, Arg: uint64(ai), Next: i + 1}
	t := b[i+1:]
	switch {
	case ai < 24:
	case ai == 24 && len(t) >= 1:
		h.Arg, h.Next = uint64(t[0]), i+2
		if h.Major == MajorSimple && h.Arg < 32 {
			h.Next = Fail(i, SimpleValue)
		}
	case ai == 25 && len(t) >= 2:
		h.Arg, h.Next = uint64(binary.BigEndian.Uint16(t)), i+3
	case ai == 26 && len(t) >= 4:
		h.Arg, h.Next = uint64(binary.BigEndian.Uint32(t)), i+5
	case ai == 27 && len(t) >= 8:
		h.Arg, h.Next = binary.BigEndian.Uint64(t), i+9
	case ai <= 27:
		h.Next = Fail(i, Truncated)
	case ai == 31 && h.Major >= MajorBytes && h.Major != MajorTag:
		h.Indefinite = true
	case ai == 31:
		h.Next = Fail(i, Indefinite)
	default:
		h.Next = Fail(i, ShortestForm)
	}
	return h
}
