package dcbor

import (
	"encoding/binary"
	"unicode/utf8"
)

// arg reads a head of the major type at b[i].
func arg(b []byte, i int, major byte) (n uint64, next int) {
	switch {
	case uint(i) >= uint(len(b)):
		return 0, Fail(i, Truncated)
	case b[i]-major < 24: // wraps around for a smaller type
		return uint64(b[i] - major), i + 1
	case b[i]&^31 != major:
		return 0, Fail(i, WrongType)
	}
	return longHead(b, i)
}

// longHead reads the argument behind the initial octet b[i], which is not of
// major type 7 and whose low five bits are 24 or more.
func longHead(b []byte, i int) (uint64, int) {
	t := b[i+1:]
	switch ai := b[i] & 31; {
	case ai == 24 && len(t) >= 1:
		if t[0] >= 24 {
			return uint64(t[0]), i + 2
		}
	case ai == 25 && len(t) >= 2:
		if n := binary.BigEndian.Uint16(t); n > 0xff {
			return uint64(n), i + 3
		}
	case ai == 26 && len(t) >= 4:
		if n := binary.BigEndian.Uint32(t); n > 0xffff {
			return uint64(n), i + 5
		}
	case ai == 27 && len(t) >= 8:
		if n := binary.BigEndian.Uint64(t); n > 0xffff_ffff {
			return n, i + 9
		}
	case ai <= 27:
		return 0, Fail(i, Truncated)
	case ai == 31:
		return 0, Fail(i, Indefinite)
	}
	return 0, Fail(i, ShortestForm)
}

// The readers below look for the shortest head themselves, so that most items
// cost one call (BenchmarkParseResult: a quarter of the time).

// Uint reads an unsigned integer of at most max.
func Uint(b []byte, i int, max uint64) (v uint64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 24 && uint64(b[i]) <= max {
		return uint64(b[i]), i + 1
	}
	return longUint(b, i, max)
}

func longUint(b []byte, i int, max uint64) (v uint64, next int) {
	v, next = arg(b, i, MajorUint)
	if v > max {
		return 0, Fail(i, Range)
	}
	return v, next
}

// Bytes reads a byte string of min to max octets. The value aliases b.
func Bytes(b []byte, i, min, max int) (v []byte, next int) {
	var n uint64
	if uint(i) < uint(len(b)) && b[i]-MajorBytes < 24 {
		n, next = uint64(b[i]-MajorBytes), i+1
	} else if n, next = arg(b, i, MajorBytes); next < 0 {
		return nil, next
	}
	if n > uint64(len(b)-next) {
		return nil, Fail(i, Truncated)
	}
	if int(n) < min || int(n) > max {
		if n == 0 {
			return nil, Fail(i, Empty)
		}
		return nil, Fail(i, Range)
	}
	return b[next : next+int(n)], next + int(n)
}

// Text reads a text string. The value aliases b.
func Text(b []byte, i int) (v []byte, next int) {
	var n uint64
	if uint(i) < uint(len(b)) && b[i]-MajorText < 24 {
		n, next = uint64(b[i]-MajorText), i+1
	} else if n, next = arg(b, i, MajorText); next < 0 {
		return nil, next
	}
	if n > uint64(len(b)-next) {
		return nil, Fail(i, Truncated)
	}
	if v = b[next : next+int(n)]; !validText(v) {
		return nil, Fail(i, UTF8)
	}
	return v, next + int(n)
}

// Bool reads a Boolean: f4 or f5 and nothing else.
func Bool(b []byte, i int) (v bool, next int) {
	if uint(i) < uint(len(b)) {
		if b[i]&^1 == initialFalse {
			return b[i] == initialTrue, i + 1
		}
		return false, Fail(i, WrongType)
	}
	return false, Fail(i, Truncated)
}

// Array reads the head of an array of n items. n is at most the number of
// octets left, so that a loop over it ends; it is nothing to allocate from.
func Array(b []byte, i int) (n, next int) {
	v, next := arg(b, i, MajorArray)
	if next >= 0 && v > uint64(len(b)-next) {
		return 0, Fail(i, Truncated)
	}
	return int(v), next
}

// Map reads the head of a map of n pairs. n is at most half the number of
// octets left.
func Map(b []byte, i int) (n, next int) {
	v, next := arg(b, i, MajorMap)
	if next >= 0 && v > uint64(len(b)-next)/2 {
		return 0, Fail(i, Truncated)
	}
	return int(v), next
}

// Key reads a required key, below 24, that must come next in its map. That the
// map has that many pairs shows when Rest is given how many are left.
func Key(b []byte, i int, key byte) (next int) {
	if uint(i) < uint(len(b)) && b[i] == key {
		return i + 1
	}
	return Fail(i, Missing)
}

// Has reports whether the optional key, below 24, comes next at b[i] in a map
// with n pairs left. Its value is at b[i+1].
func Has(b []byte, i, n int, key byte) bool {
	return n > 0 && uint(i) < uint(len(b)) && b[i] == key
}

// Rest reads the n pairs left of a map of which every known key up to last has
// been asked for: their keys must be unsigned, greater and ascending, their
// values may be any that the mode allows. depth is the map's own, 1 for the
// outermost item.
func Rest(b []byte, i, n int, last uint64, depth int, m Mode) (next int) {
	if n < 0 {
		return Fail(i, Missing)
	}
	for ; n > 0 && i >= 0; n-- {
		key, next := arg(b, i, MajorUint)
		switch {
		case next < 0 && Fault(next).Rule == WrongType && b[i]&^31 == MajorNeg:
			return Fail(i, NegativeKey)
		case next < 0 && Fault(next).Rule == WrongType:
			return Fail(i, KeyType)
		case next >= 0 && key == last:
			return Fail(i, DuplicateKey)
		case next >= 0 && key < last:
			return Fail(i, KeyOrder)
		}
		last, i = key, Skip(b, next, depth+1, m)
	}
	return i
}

// Done returns the fault in i, or that there are octets after it in b, or nil.
func Done(b []byte, i int) *Error {
	if i >= 0 && i < len(b) {
		i = Fail(i, Trailing)
	}
	return Fault(i)
}

// validText is utf8.Valid with a shorter way through ASCII.
func validText(v []byte) bool {
	n := len(v)
	if n < 8 {
		return utf8.Valid(v)
	}
	bits := binary.LittleEndian.Uint64(v[n-8:])
	for t := v; len(t) > 8; t = t[8:] {
		bits |= binary.LittleEndian.Uint64(t)
	}
	return bits&0x8080_8080_8080_8080 == 0 || utf8.Valid(v)
}
