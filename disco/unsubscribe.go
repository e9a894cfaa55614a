package disco

import "github.com/npamp/disco/frame/dcbor"

// An Unsubscribe is a DISCO_UNSUBSCRIBE payload (§7.3): the subscription's corr
// and nothing else.
type Unsubscribe struct{ Corr Corr }

// AppendUnsubscribe appends the payload. The error is an *EncodeError, and b is
// returned as it was.
func AppendUnsubscribe(b []byte, u *Unsubscribe) ([]byte, error) {
	if len(u.Corr) < 1 || len(u.Corr) > MaxCorrLen {
		return b, errCorr(TypeUnsubscribe)
	}
	return appendEnvelope(b, TypeUnsubscribe, 2, u.Corr), nil
}

// ParseUnsubscribe parses a DISCO_UNSUBSCRIBE payload. The result owns its
// memory. The error is a *PayloadError.
func ParseUnsubscribe(b []byte, o *Options) (Unsubscribe, error) {
	s := o.settings()
	u, i := scanUnsubscribe(b, &s)
	if err := s.verdict(b, TypeUnsubscribe, i); err != nil {
		return Unsubscribe{}, err
	}
	return u, nil
}

func scanUnsubscribe(b []byte, s *settings) (u Unsubscribe, i int) {
	corr, n, i := scanEnvelope(b, TypeUnsubscribe)
	if i = dcbor.Rest(b, i, n, keyCorr, 1, s.mode); i < 0 {
		return Unsubscribe{}, i
	}
	return Unsubscribe{Corr(corr)}, i
}
