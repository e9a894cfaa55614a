package dcbor

// Major types, in the position they have in an initial octet.
const (
	MajorUint   = 0 << 5
	MajorNeg    = 1 << 5
	MajorBytes  = 2 << 5
	MajorText   = 3 << 5
	MajorArray  = 4 << 5
	MajorMap    = 5 << 5
	MajorTag    = 6 << 5
	MajorSimple = 7 << 5
)

const (
	initialFalse = 0xf4
	initialTrue  = 0xf5
)

// AppendHead appends the shortest head of the major type with argument n.
func AppendHead(b []byte, major byte, n uint64) []byte {
	if n < 24 {
		return append(b, major|byte(n))
	}
	return appendLongHead(b, major, n)
}

func appendLongHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n <= 0xff:
		return append(b, major|24, byte(n))
	case n <= 0xffff:
		return append(b, major|25, byte(n>>8), byte(n))
	case n <= 0xffff_ffff:
		return append(b, major|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(b, major|27, byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32),
		byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// HeadLen returns the length of a head with argument n: 1, 2, 3, 5 or 9 octets.
func HeadLen(n uint64) int {
	switch {
	case n < 24:
		return 1
	case n <= 0xff:
		return 2
	case n <= 0xffff:
		return 3
	case n <= 0xffff_ffff:
		return 5
	}
	return 9
}

// AppendUint appends an unsigned integer.
func AppendUint(b []byte, n uint64) []byte { return AppendHead(b, MajorUint, n) }

// AppendBytes appends a byte string.
func AppendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(AppendHead(b, MajorBytes, uint64(len(v))), v...)
}

// AppendText appends a text string, which must be valid UTF-8.
func AppendText[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(AppendHead(b, MajorText, uint64(len(v))), v...)
}

// AppendBool appends a Boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, initialTrue)
	}
	return append(b, initialFalse)
}

// AppendArray appends the head of an array of n items.
func AppendArray(b []byte, n int) []byte { return AppendHead(b, MajorArray, uint64(n)) }

// AppendMap appends the head of a map of n pairs, whose keys the caller appends
// in ascending order.
func AppendMap(b []byte, n int) []byte { return AppendHead(b, MajorMap, uint64(n)) }
