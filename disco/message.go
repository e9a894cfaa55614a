package disco

import (
	"encoding/hex"
	"fmt"

	"github.com/npamp/disco/frame/dcbor"
)

// A Type is a frame type of the Discovery channel (§3): the header's, which the
// payload repeats as its frame_kind.
type Type uint16

const (
	TypeQuery       Type = 0x0100 // §6.1
	TypeResult      Type = 0x0101 // §6.2
	TypeError       Type = 0x0102 // §9
	TypeAnnounce    Type = 0x0103 // §7.1
	TypeSubscribe   Type = 0x0104 // §7.2
	TypeUpdate      Type = 0x0105 // §7.2
	TypeUnsubscribe Type = 0x0106 // §7.3
)

var typeNames = [...]string{"DISCO_QUERY", "DISCO_RESULT", "DISCO_ERROR", "DISCO_ANNOUNCE",
	"DISCO_SUBSCRIBE", "DISCO_UPDATE", "DISCO_UNSUBSCRIBE"}

// Known reports whether t is one of the seven.
func (t Type) Known() bool { return t >= TypeQuery && t <= TypeUnsubscribe }

// TakesReply reports whether a frame of the type is answered, be it by a
// DISCO_ERROR: only QUERY and SUBSCRIBE are [C4].
func (t Type) TakesReply() bool { return t == TypeQuery || t == TypeSubscribe }

// String returns the specification's name, such as "DISCO_QUERY", and
// "0x0107 (unknown)" for another type.
func (t Type) String() string {
	if t.Known() {
		return typeNames[t-TypeQuery]
	}
	return fmt.Sprintf("0x%04X (unknown)", uint16(t))
}

// Bounds of what correlates and pages, in octets.
const (
	MaxCorrLen   = 64   // §4.2; at least 1
	MaxCursorLen = 1024 // of a cursor that we take up [C2]
	MaxReasonLen = 128  // of a reason that we send
)

// A Corr is a correlation identifier: 1 to 64 opaque octets (§4.2). Its String
// is hex.
type Corr string

func (c Corr) String() string { return hex.EncodeToString([]byte(c)) }

// A Cursor names a page to the responder that issued it: opaque octets, of
// which none at all is a cursor too (§6.2) [C2]. Its String is hex.
type Cursor string

func (c Cursor) String() string { return hex.EncodeToString([]byte(c)) }

// Keys that all payloads share (§4.2).
const (
	keyFrameKind = 0 // uint, the header's frame type, required
	keyCorr      = 1 // bytes, 1 to 64 octets, required but in ANNOUNCE
)

// appendEnvelope appends the head of a map of n pairs, frame_kind and corr.
func appendEnvelope(b []byte, t Type, n int, corr Corr) []byte {
	b = dcbor.AppendMap(b, n)
	b = dcbor.AppendUint(append(b, keyFrameKind), uint64(t))
	return dcbor.AppendBytes(append(b, keyCorr), corr)
}

// scanKind reads the payload's map head and frame_kind. n counts the pairs
// left, i is negative if anything is wrong.
func scanKind(b []byte, t Type) (n, i int) {
	n, i = dcbor.Map(b, 0)
	at := dcbor.Key(b, i, keyFrameKind)
	kind, i := dcbor.Uint(b, at, uint64(t))
	if i >= 0 && kind != uint64(t) {
		i = dcbor.Fail(at, dcbor.KindMismatch)
	}
	return n - 1, i
}

// scanEnvelope is scanKind and the required corr.
func scanEnvelope(b []byte, t Type) (corr []byte, n, i int) {
	n, i = scanKind(b, t)
	corr, i = dcbor.Bytes(b, dcbor.Key(b, i, keyCorr), 1, MaxCorrLen)
	return corr, n - 1, i
}

// PeekType returns the frame_kind of a payload if it has one of the seven, be
// the rest what it may: for tools that are shown a payload without its header.
func PeekType(b []byte) (Type, bool) {
	h := dcbor.ReadHead(b, 0)
	if h.Next < 0 || h.Major != dcbor.MajorMap {
		return 0, false
	}
	for i := h.Next; i >= 0 && i < len(b) && !dcbor.IsBreak(b, i); {
		key := dcbor.ReadHead(b, i)
		i = dcbor.SkipLenient(b, i, 2)
		if i < 0 {
			break
		}
		if key.Major == dcbor.MajorUint && key.Arg == keyFrameKind {
			v := dcbor.ReadHead(b, i)
			if v.Next >= 0 && v.Major == dcbor.MajorUint && v.Arg <= 0xffff && Type(v.Arg).Known() {
				return Type(v.Arg), true
			}
			return 0, false
		}
		i = dcbor.SkipLenient(b, i, 2)
	}
	return 0, false
}

// ScanCorr finds the corr to echo in a payload that may be malformed [C4]: the
// payload starts with a well-formed map, deterministic or not and no deeper
// than dcbor.MaxDepth, that has exactly one key 1, whose value is a byte string
// of definite length and of 1 to 64 octets. It allocates the corr alone.
func ScanCorr(b []byte) (corr Corr, ok bool) {
	h := dcbor.ReadHead(b, 0)
	if h.Next < 0 || h.Major != dcbor.MajorMap {
		return "", false
	}
	var found []byte
	keys := 0
	i := h.Next
	for n := uint64(0); h.Indefinite && !dcbor.IsBreak(b, i) || !h.Indefinite && n < h.Arg; n++ {
		key := dcbor.ReadHead(b, i)
		at := dcbor.SkipLenient(b, i, 2)
		i = dcbor.SkipLenient(b, at, 2)
		if i < 0 {
			return "", false
		}
		if key.Major == dcbor.MajorUint && key.Arg == keyCorr {
			keys++
			if v := dcbor.ReadHead(b, at); v.Major == dcbor.MajorBytes && !v.Indefinite {
				found = b[v.Next:i]
			}
		}
	}
	if keys != 1 || len(found) < 1 || len(found) > MaxCorrLen {
		return "", false
	}
	return Corr(found), true
}
