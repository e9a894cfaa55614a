package disco

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Keys of a DISCO_QUERY (§6.1); a DISCO_SUBSCRIBE has the first three (§7.2).
const (
	keyKinds       = 2 // array of uint
	keyProtocolIDs = 3 // array of uint
	keyNamePrefix  = 4 // text
	keyTolerant    = 5 // bool
	keyQueryCursor = 6 // bytes
)

// A Query is a DISCO_QUERY payload (§6.1).
type Query struct {
	Corr   Corr
	Filter record.Filter

	// Tolerant asks for the records that can be represented rather than none
	// (§6.3). Absent means false; HasTolerant tells a false that was sent from
	// one that was not. AppendQuery sends a true in any case.
	Tolerant, HasTolerant bool

	Cursor    Cursor // asks for a further page, where HasCursor; it may be empty
	HasCursor bool
}

// AppendQuery appends the payload, the filter's sets sorted and each value once.
// The error is an *EncodeError, and b is returned as it was.
func AppendQuery(b []byte, q *Query) ([]byte, error) {
	if err := checkRequest(TypeQuery, q.Corr, &q.Filter); err != nil {
		return b, err
	}
	tolerant := q.Tolerant || q.HasTolerant
	b = appendEnvelope(b, TypeQuery, 2+numFilterKeys(&q.Filter)+count(tolerant)+count(q.HasCursor), q.Corr)
	b = appendFilter(b, &q.Filter)
	if tolerant {
		b = dcbor.AppendBool(append(b, keyTolerant), q.Tolerant)
	}
	if q.HasCursor {
		b = dcbor.AppendBytes(append(b, keyQueryCursor), q.Cursor)
	}
	return b, nil
}

// ParseQuery parses a DISCO_QUERY payload. The result owns its memory, and its
// filter is as it was sent: not sorted. The error is a *PayloadError.
func ParseQuery(b []byte, o *Options) (Query, error) {
	s := o.settings()
	q, i := scanQuery(b, &s)
	if err := s.verdict(b, TypeQuery, i); err != nil {
		return Query{}, err
	}
	return q, nil
}

func scanQuery(b []byte, s *settings) (q Query, i int) {
	corr, n, i := scanEnvelope(b, TypeQuery)
	f, n, i := scanFilter(b, n, i, s)
	if dcbor.Has(b, i, n, keyTolerant) {
		q.HasTolerant = true
		q.Tolerant, i = dcbor.Bool(b, i+1)
		n--
	}
	var cursor []byte
	if dcbor.Has(b, i, n, keyQueryCursor) {
		q.HasCursor = true
		cursor, i = dcbor.Bytes(b, i+1, 0, math.MaxInt)
		n--
	}
	if i = dcbor.Rest(b, i, n, keyQueryCursor, 1, s.mode); i < 0 {
		return Query{}, i
	}
	q.Corr, q.Cursor, q.Filter = Corr(corr), Cursor(cursor), f.own()
	return q, i
}

// filterView is a filter in its payload.
type filterView struct {
	kinds, protocolIDs []byte // the arrays, heads included; nil: absent
	namePrefix         []byte
	hasPrefix          bool
}

// scanFilter reads the keys 2 to 4.
func scanFilter(b []byte, n, i int, s *settings) (f filterView, left, next int) {
	if dcbor.Has(b, i, n, keyKinds) {
		f.kinds, i = scanSet(b, i+1, s)
		n--
	}
	if dcbor.Has(b, i, n, keyProtocolIDs) {
		f.protocolIDs, i = scanSet(b, i+1, s)
		n--
	}
	if dcbor.Has(b, i, n, keyNamePrefix) {
		f.hasPrefix = true
		at := i + 1
		f.namePrefix, i = dcbor.Text(b, at)
		if len(f.namePrefix) > s.prefix {
			i = dcbor.Fail(at, dcbor.Limit)
		}
		n--
	}
	return f, n, i
}

func scanSet(b []byte, start int, s *settings) (set []byte, i int) {
	n, i := dcbor.Array(b, start)
	if n > s.filterEntries {
		return nil, dcbor.Fail(start, dcbor.Limit)
	}
	for ; n > 0 && i >= 0; n-- {
		_, i = dcbor.Uint(b, i, math.MaxUint64)
	}
	if i < 0 {
		return nil, i
	}
	return b[start:i], i
}

func (f *filterView) own() record.Filter {
	return record.Filter{Kinds: ownSet[record.Kind](f.kinds), ProtocolIDs: ownSet[uint64](f.protocolIDs),
		NamePrefix: string(f.namePrefix), HasPrefix: f.hasPrefix}
}

func ownSet[T ~uint64](set []byte) []T {
	if set == nil {
		return nil
	}
	n, i := dcbor.Head(set, 0)
	v := make([]T, n)
	for k := range v {
		var x uint64
		x, i = dcbor.Head(set, i)
		v[k] = T(x)
	}
	return v
}

func numFilterKeys(f *record.Filter) int {
	return count(f.Kinds != nil) + count(f.ProtocolIDs != nil) + count(f.HasPrefix)
}

func appendFilter(b []byte, f *record.Filter) []byte {
	if f.Kinds != nil {
		b = appendSet(append(b, keyKinds), f.Kinds)
	}
	if f.ProtocolIDs != nil {
		b = appendSet(append(b, keyProtocolIDs), f.ProtocolIDs)
	}
	if f.HasPrefix {
		b = dcbor.AppendText(append(b, keyNamePrefix), f.NamePrefix)
	}
	return b
}

func appendSet[T ~uint64](b []byte, set []T) []byte {
	for i := range set {
		if i > 0 && set[i] <= set[i-1] {
			set = slices.Clone(set)
			slices.Sort(set)
			set = slices.Compact(set)
			break
		}
	}
	b = dcbor.AppendArray(b, len(set))
	for _, v := range set {
		b = dcbor.AppendUint(b, uint64(v))
	}
	return b
}

// checkRequest holds a QUERY or SUBSCRIBE to what our own receiver takes.
func checkRequest(t Type, corr Corr, f *record.Filter) error {
	switch {
	case len(corr) < 1 || len(corr) > MaxCorrLen:
		return errCorr(t)
	case len(f.Kinds) > DefaultMaxFilterEntries:
		return &EncodeError{t, "kinds", "has more than 1024 entries"}
	case len(f.ProtocolIDs) > DefaultMaxFilterEntries:
		return &EncodeError{t, "protocol_ids", "has more than 1024 entries"}
	case len(f.NamePrefix) > DefaultMaxPrefixLen:
		return &EncodeError{t, "name_prefix", "has more than 1024 octets"}
	case !utf8.ValidString(f.NamePrefix):
		return &EncodeError{t, "name_prefix", "is not valid UTF-8"}
	}
	return nil
}

func errCorr(t Type) error { return &EncodeError{t, "corr", "must be 1 to 64 octets"} }

func count(present bool) int {
	if present {
		return 1
	}
	return 0
}
