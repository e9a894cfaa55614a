package disco

import (
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// A Subscribe is a DISCO_SUBSCRIBE payload (§7.2). Its keys are those of a
// query up to name_prefix; 5 and 6 mean nothing here and are not read [C43].
type Subscribe struct {
	Corr   Corr
	Filter record.Filter
}

// AppendSubscribe appends the payload, the filter's sets sorted and each value
// once. The error is an *EncodeError, and b is returned as it was.
func AppendSubscribe(b []byte, q *Subscribe) ([]byte, error) {
	if err := checkRequest(TypeSubscribe, q.Corr, &q.Filter); err != nil {
		return b, err
	}
	b = appendEnvelope(b, TypeSubscribe, 2+numFilterKeys(&q.Filter), q.Corr)
	return appendFilter(b, &q.Filter), nil
}

// ParseSubscribe parses a DISCO_SUBSCRIBE payload. The result owns its memory,
// and its filter is as it was sent. The error is a *PayloadError.
func ParseSubscribe(b []byte, o *Options) (Subscribe, error) {
	s := o.settings()
	q, i := scanSubscribe(b, &s)
	if err := s.verdict(b, TypeSubscribe, i); err != nil {
		return Subscribe{}, err
	}
	return q, nil
}

func scanSubscribe(b []byte, s *settings) (q Subscribe, i int) {
	corr, n, i := scanEnvelope(b, TypeSubscribe)
	f, n, i := scanFilter(b, n, i, s)
	if i = dcbor.Rest(b, i, n, keyNamePrefix, 1, s.mode); i < 0 {
		return Subscribe{}, i
	}
	return Subscribe{Corr(corr), f.own()}, i
}
