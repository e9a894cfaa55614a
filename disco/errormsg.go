package disco

import (
	"math"
	"unicode/utf8"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of a DISCO_ERROR (§9).
const (
	keyCode   = 2 // uint, required
	keyReason = 3 // text
)

// An ErrorMsg is a DISCO_ERROR payload (§9). One without corr answers a request
// whose corr could not be read, and matches nothing when it is received [C4].
type ErrorMsg struct {
	Corr    Corr
	HasCorr bool
	Code    Code

	Reason    string // for people: nothing is decided by it
	HasReason bool
}

// AppendError appends the payload. The error is an *EncodeError, and b is
// returned as it was.
func AppendError(b []byte, e *ErrorMsg) ([]byte, error) {
	switch {
	case e.HasCorr && (len(e.Corr) < 1 || len(e.Corr) > MaxCorrLen):
		return b, errCorr(TypeError)
	case !e.Code.Known():
		return b, &EncodeError{TypeError, "code", "must be 1 to 7"}
	case len(e.Reason) > MaxReasonLen:
		return b, &EncodeError{TypeError, "reason", "has more than 128 octets"}
	case !utf8.ValidString(e.Reason):
		return b, &EncodeError{TypeError, "reason", "is not valid UTF-8"}
	}
	n := 2 + count(e.HasReason)
	if e.HasCorr {
		b = appendEnvelope(b, TypeError, n+1, e.Corr)
	} else {
		b = dcbor.AppendUint(append(dcbor.AppendMap(b, n), keyFrameKind), uint64(TypeError))
	}
	b = dcbor.AppendUint(append(b, keyCode), uint64(e.Code))
	if e.HasReason {
		b = dcbor.AppendText(append(b, keyReason), e.Reason)
	}
	return b, nil
}

// ParseError parses a DISCO_ERROR payload, whose code may be any. The result
// owns its memory. The error is a *PayloadError.
func ParseError(b []byte, o *Options) (ErrorMsg, error) {
	s := o.settings()
	e, i := scanError(b, &s)
	if err := s.verdict(b, TypeError, i); err != nil {
		return ErrorMsg{}, err
	}
	return e, nil
}

func scanError(b []byte, s *settings) (e ErrorMsg, i int) {
	n, i := scanKind(b, TypeError)
	var corr, reason []byte
	if e.HasCorr = dcbor.Has(b, i, n, keyCorr); e.HasCorr {
		corr, i = dcbor.Bytes(b, i+1, 1, MaxCorrLen)
		n--
	}
	code, i := dcbor.Uint(b, dcbor.Key(b, i, keyCode), math.MaxUint64)
	n--
	if e.HasReason = dcbor.Has(b, i, n, keyReason); e.HasReason {
		reason, i = dcbor.Text(b, i+1)
		n--
	}
	if i = dcbor.Rest(b, i, n, keyReason, 1, s.mode); i < 0 {
		return ErrorMsg{}, i
	}
	e.Corr, e.Code, e.Reason = Corr(corr), Code(code), string(reason)
	return e, i
}
