package frame

import (
	"errors"
	"strconv"
)

// Errors of ParseHeader, in the order in which the faults are looked for. Each
// of them means that the stream can no longer be cut into frames.
var (
	ErrShort        = errors.New("frame: header shorter than 36 octets")
	ErrChecksum     = errors.New("frame: header checksum mismatch")
	ErrMagic        = errors.New("frame: bad magic")
	ErrVersion      = errors.New("frame: unsupported header version")
	ErrReserved     = errors.New("frame: reserved header octets not zero")
	ErrTooLong      = errors.New("frame: frame longer than the limit")
	ErrReservedFlag = errors.New("frame: reserved header flag set") // from Reader alone
)

// Errors of ParseTLV and Peel.
var (
	ErrTruncatedTLV   = errors.New("frame: truncated TLV")
	ErrTooManyTLVs    = errors.New("frame: more than 64 TLVs")
	ErrCriticalTLV    = errors.New("frame: unknown TLV that must be understood")
	ErrBridgeEnvelope = errors.New("frame: payload is a bridge envelope")
)

// An ErrorCode is the reason in a core ERROR frame (generation 3). It is a wire
// value, not a Go error.
type ErrorCode uint8

// The core error codes. 0 is never sent, 11 to 255 are unassigned.
const (
	CodeUnexpectedMessage   ErrorCode = 1  // not legal in the receiver's state
	CodeDecryptFailed       ErrorCode = 2  // tag, CertVerify or Finished failed in the handshake
	CodeReplayDetected      ErrorCode = 3  // sequence number seen before or too old
	CodeUnknownChannel      ErrorCode = 4  // channel not advertised by the receiver
	CodeUnknownCriticalTLV  ErrorCode = 5  // TLV Type ≥ 0x8000 that the receiver does not know
	CodeHandshakeTimeout    ErrorCode = 6  // handshake timer expired
	CodeDowngradeDetected   ErrorCode = 7  // a selection the transcript does not cover
	CodeCloseIncomplete     ErrorCode = 8  // CLOSE not acknowledged in time
	CodeKeyUpdateOutOfOrder ErrorCode = 9  // marker malformed, or not the current epoch + 1
	CodeFlowControl         ErrorCode = 10 // more payload octets than granted
	maxAssignedErrorCode              = CodeFlowControl
	firstAssignedErrorCode            = CodeUnexpectedMessage
)

// String returns the registry's name of the code.
func (c ErrorCode) String() string {
	switch c {
	case CodeUnexpectedMessage:
		return "unexpected_message"
	case CodeDecryptFailed:
		return "decrypt_failed"
	case CodeReplayDetected:
		return "replay_detected"
	case CodeUnknownChannel:
		return "unknown_channel"
	case CodeUnknownCriticalTLV:
		return "unknown_critical_tlv"
	case CodeHandshakeTimeout:
		return "handshake_timeout"
	case CodeDowngradeDetected:
		return "downgrade_detected"
	case CodeCloseIncomplete:
		return "close_incomplete"
	case CodeKeyUpdateOutOfOrder:
		return "key_update_out_of_order"
	case CodeFlowControl:
		return "flow_control_error"
	}
	return "unknown(" + strconv.Itoa(int(c)) + ")"
}

// Assigned reports whether the registry defines the code.
func (c ErrorCode) Assigned() bool {
	return c >= firstAssignedErrorCode && c <= maxAssignedErrorCode
}

// Discard reports whether the condition only costs the frame: it is dropped and
// counted, no ERROR is sent and the association lives. Every other assigned
// code is fatal.
func (c ErrorCode) Discard() bool {
	return c == CodeReplayDetected || c == CodeUnknownChannel
}

// Fatal reports whether the condition ends the association.
func (c ErrorCode) Fatal() bool { return c.Assigned() && !c.Discard() }
