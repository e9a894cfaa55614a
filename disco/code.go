package disco

import (
	"errors"
	"fmt"
)

// A Code is a DISCO_ERROR code (§9). It is not an error: PeerError carries one
// received, PayloadError one that we found.
type Code uint64

const (
	CodeMalformedPayload    Code = 1
	CodeKindMismatch        Code = 2
	CodeUnknownRecordKind   Code = 3
	CodeFilterUnsupported   Code = 4
	CodeStaleCursor         Code = 5
	CodeSubscriptionRefused Code = 6
	CodeNotAdvertised       Code = 7
)

var codeNames = [...]string{"MalformedPayload", "KindMismatch", "UnknownRecordKind", "FilterUnsupported",
	"StaleCursor", "SubscriptionRefused", "NotAdvertised"}

// Known reports whether the specification defines the code.
func (c Code) Known() bool { return c-1 < Code(len(codeNames)) }

// String returns the specification's name, such as "StaleCursor", and
// "code(99)" for a code without one.
func (c Code) String() string {
	if c.Known() {
		return codeNames[c-1]
	}
	return fmt.Sprintf("code(%d)", uint64(c))
}

// CodeOf returns the code that the error is, or is answered with: that of a
// PayloadError or a PeerError in its chain, else 0.
func CodeOf(err error) Code {
	var payload *PayloadError
	if errors.As(err, &payload) {
		return payload.Code
	}
	var peer *PeerError
	if errors.As(err, &peer) {
		return peer.Code
	}
	return 0
}
