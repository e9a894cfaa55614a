package disco

import (
	"math"
	"slices"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Keys of a DISCO_RESULT (§6.2).
const (
	keyRecords      = 2 // array of records, required; also of DISCO_ANNOUNCE (§7.1)
	keyComplete     = 3 // bool, required
	keyResultCursor = 4 // bytes, required where complete is false
)

// A Result is a DISCO_RESULT payload (§6.2): one page of records.
type Result struct {
	Corr     Corr
	Records  []record.Record
	Complete bool // the whole matching set has been delivered

	// Cursor asks for the next page. There is one exactly where Complete is
	// false; it may be empty. One that came with Complete true is ignored [C40].
	Cursor    Cursor
	HasCursor bool

	Skipped []record.Skipped // left out for their unknown kind, in a tolerant reading
}

// A ResultView is a Result in its payload's buffer, valid as long as that is
// unchanged.
type ResultView struct {
	Corr      []byte
	Records   record.List
	Complete  bool
	Cursor    []byte
	HasCursor bool
}

// AppendResult appends the payload. The error is an *EncodeError, and b is
// returned as it was. Skipped is not sent.
func AppendResult(b []byte, r *Result) ([]byte, error) {
	size, ok := recordsLen(r.Records)
	switch {
	case len(r.Corr) < 1 || len(r.Corr) > MaxCorrLen:
		return b, errCorr(TypeResult)
	case r.Complete == r.HasCursor:
		return b, &EncodeError{TypeResult, "cursor", "must be there exactly if complete is false"}
	case len(r.Cursor) > MaxCursorLen:
		return b, &EncodeError{TypeResult, "cursor", "has more than 1024 octets"}
	case !ok:
		return b, &EncodeError{TypeResult, "records", "holds the zero record"}
	}
	b = AppendResultHead(b, r.Corr, len(r.Records), r.Complete)
	b = appendRecords(b, r.Records, size)
	return AppendResultTail(b, r.Complete, r.Cursor), nil
}

// AppendResultHead appends what comes before the n records of a RESULT, whose
// octets the caller appends one after the other, ascending by id [C41].
// The corr must be one: of 1 to 64 octets.
func AppendResultHead(b []byte, corr Corr, n int, complete bool) []byte {
	b = appendEnvelope(b, TypeResult, 4+count(!complete), corr)
	return dcbor.AppendArray(append(b, keyRecords), n)
}

// MaxResultHeadLen is the most octets that AppendResultHead appends.
const MaxResultHeadLen = 1 + 4 + 1 + 2 + MaxCorrLen + 1 + 9

// PutResultHead writes the same octets so that they end where b ends, and
// returns where they start: for a page whose records are already behind b.
// b has at least MaxResultHeadLen octets.
func PutResultHead(b []byte, corr Corr, n int, complete bool) (start int) {
	var head [MaxResultHeadLen]byte
	h := AppendResultHead(head[:0], corr, n, complete)
	return len(b) - copy(b[len(b)-len(h):], h)
}

// AppendResultTail appends what comes after the records of a RESULT. The cursor
// counts only where complete is false.
func AppendResultTail(b []byte, complete bool, cursor Cursor) []byte {
	b = dcbor.AppendBool(append(b, keyComplete), complete)
	if !complete {
		b = dcbor.AppendBytes(append(b, keyResultCursor), cursor)
	}
	return b
}

// ParseResult parses a DISCO_RESULT payload. The result owns its memory: one
// string that all of it shares, and a slice of records. The error is a
// *PayloadError.
func ParseResult(b []byte, o *Options) (Result, error) {
	return ParseResultAhead(b, o, nil, func(ResultView) {})
}

// ParseResultAhead is ParseResult that shows the payload as soon as it is found
// to be right, before it is copied: so that the next page can be asked for, which
// takes as long to come as the copy takes. known are records that may be in it, see
// record.Marks; those that are share their memory instead of the result's.
func ParseResultAhead(b []byte, o *Options, known []record.Record, ahead func(ResultView)) (Result, error) {
	s := o.settings()
	marks := record.Marks{Known: known}
	v, i := scanResult(b, &s, &marks)
	if err := s.verdict(b, TypeResult, i); err != nil {
		return Result{}, err
	}
	ahead(v)
	r := Result{Complete: v.Complete, HasCursor: v.HasCursor}
	var tail string
	r.Records, r.Skipped, tail = v.Records.Own(&marks, v.Corr, v.Cursor)
	r.Corr, r.Cursor = Corr(tail[:len(v.Corr)]), Cursor(tail[len(v.Corr):])
	return r, nil
}

// ResultHead returns the corr, in place, of a payload that starts as a RESULT does,
// and how many records it says to have; nil for another. What comes after is not
// looked at.
func ResultHead(b []byte) (corr []byte, n int) {
	corr, _, i := scanEnvelope(b, TypeResult)
	if n, i = dcbor.Array(b, dcbor.Key(b, i, keyRecords)); i < 0 {
		return nil, 0
	}
	return corr, n
}

// ParseResultView is ParseResult without a copy. It allocates nothing but the
// error.
func ParseResultView(b []byte, o *Options) (ResultView, error) {
	s := o.settings()
	v, i := scanResult(b, &s, nil)
	if err := s.verdict(b, TypeResult, i); err != nil {
		return ResultView{}, err
	}
	return v, nil
}

func scanResult(b []byte, s *settings, marks *record.Marks) (v ResultView, i int) {
	var n int
	v.Corr, n, i = scanEnvelope(b, TypeResult)
	v.Records, i = record.ScanList(b, dcbor.Key(b, i, keyRecords), s.mode, marks)
	v.Complete, i = dcbor.Bool(b, dcbor.Key(b, i, keyComplete))
	n -= 2
	switch {
	case !v.Complete:
		at := dcbor.Key(b, i, keyResultCursor)
		v.HasCursor = true
		v.Cursor, i = dcbor.Bytes(b, at, 0, math.MaxInt)
		if len(v.Cursor) > s.cursor {
			i = dcbor.Fail(at, dcbor.Limit)
		}
		n--
	case dcbor.Has(b, i, n, keyResultCursor):
		_, i = dcbor.Bytes(b, i+1, 0, math.MaxInt)
		n--
	}
	i = dcbor.Rest(b, i, n, keyResultCursor, 1, s.mode)
	if i >= 0 && v.Records.NumSkipped() > 0 && !s.tolerant {
		i = dcbor.Fail(0, dcbor.RecordKind)
	}
	return v, i
}

// recordsLen returns the number of octets of the records, and whether none of
// them is the zero Record.
func recordsLen(records []record.Record) (size int, ok bool) {
	ok = true
	for i := range records {
		n := records[i].Len()
		size += n
		ok = ok && n > 0
	}
	return size, ok
}

// appendRecords makes room for size octets once, and copies.
func appendRecords(b []byte, records []record.Record, size int) []byte {
	b = slices.Grow(b, size)
	for i := range records {
		b = append(b, records[i].Octets()...)
	}
	return b
}
