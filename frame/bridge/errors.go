package bridge

import (
	"errors"
	"fmt"
)

// A Code is a transport error of BRIDGE_ERROR: a failure below the foreign
// protocol (NPAMP-BRIDGE §6).
type Code uint8

// The transport errors.
const (
	CodeEnvelopeMalformed   Code = 1
	CodeProtocolUnsupported Code = 2
	CodeMethodUnsupported   Code = 3
	CodeNotDelivered        Code = 4
	CodeSafetyPolicy        Code = 5
)

// String returns the specification's name.
func (c Code) String() string {
	switch c {
	case CodeEnvelopeMalformed:
		return "EnvelopeMalformed"
	case CodeProtocolUnsupported:
		return "ProtocolUnsupported"
	case CodeMethodUnsupported:
		return "MethodUnsupported"
	case CodeNotDelivered:
		return "NotDelivered"
	case CodeSafetyPolicy:
		return "SafetyPolicy"
	}
	return fmt.Sprintf("unknown(%d)", uint8(c))
}

// An Error is our judgement of a received frame: the code a BRIDGE_ERROR would
// carry, where the frame is a request and so may be answered, and why.
type Error struct {
	Code   Code
	Reason string
}

func (e *Error) Error() string { return "bridge: " + e.Code.String() + ": " + e.Reason }

func malformed(reason string) error { return &Error{CodeEnvelopeMalformed, reason} }

// Errors of Append and CheckLabel: what the caller may not send.
var (
	ErrType          = errors.New("bridge: not a Bridge frame type")
	ErrProtocol      = errors.New("bridge: protocol_id is 0 or does not fit its width")
	ErrReservedFlags = errors.New("bridge: reserved flag bits set")
	ErrFinal         = errors.New("bridge: STREAM_END without the final flag")
	ErrCorr          = errors.New("bridge: correlation_id has a length its frame type does not allow")
	ErrText          = errors.New("bridge: method or scope is longer than 255 octets or not UTF-8")
	ErrAmbiguous     = errors.New("bridge: foreign message would be read as a SafetyLabel")
	ErrEffect        = errors.New("bridge: undefined effect")
	ErrLabelRequired = errors.New("bridge: mutating request without a SafetyLabel")
)
