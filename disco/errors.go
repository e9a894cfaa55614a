package disco

import (
	"errors"
	"fmt"

	"github.com/npamp/disco/record"
)

// ErrEmptyUpdate is what an UPDATE with neither an added nor a withdrawn entry
// is, besides malformed: it is dropped, and means nothing for the subscription
// [C36].
var ErrEmptyUpdate = errors.New("disco: update with nothing in it")

// A PayloadError says why a payload was refused. It is our judgement of what a
// peer sent; nothing of it is sent but the code and the corr, and those only
// for a type that takes a reply.
type PayloadError struct {
	Type    Type // the frame's, from its header
	Code    Code // §9, also where nothing is sent
	Corr    Corr // found by ScanCorr
	HasCorr bool // false: an answer goes without corr [C4]

	Rule    string // such as "shortest-form"
	Offset  int    // of the octet where the item at fault starts; for a missing key, its map
	Path    string // such as "records[3].body.name"; empty for the payload itself
	Section string // of NPAMP-DISC, such as "5.3"

	// Skipped lists the records of an unknown kind, at most 1024 of them, where
	// these are what is wrong (rule "record-kind").
	Skipped []record.Skipped
}

func (e *PayloadError) Error() string {
	at := e.Path
	if at == "" {
		at = "payload"
	}
	return fmt.Sprintf("disco: %v: %s: %s at octet %d (%v, §%s)", e.Type, at, e.Rule, e.Offset, e.Code, e.Section)
}

// Is reports that an empty UPDATE is ErrEmptyUpdate.
func (e *PayloadError) Is(target error) bool {
	return target == ErrEmptyUpdate && e.Type == TypeUpdate && e.Rule == "empty" && e.Path == ""
}

// Reply says how a peer of ours answers the payload: "error" with a DISCO_ERROR
// that echoes Corr, "uncorrelated" with one that cannot, "none" not at all [C4].
func (e *PayloadError) Reply() string {
	switch {
	case !e.Type.TakesReply():
		return "none"
	case e.HasCorr:
		return "error"
	}
	return "uncorrelated"
}

// A PeerError is a DISCO_ERROR received.
type PeerError struct {
	Code   Code
	Reason string // advisory, the peer's text: nothing is decided by it (§9)
	Corr   Corr
}

func (e *PeerError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("disco: peer answered %v", e.Code)
	}
	reason := e.Reason
	if len(reason) > MaxReasonLen {
		reason = reason[:MaxReasonLen]
	}
	return fmt.Sprintf("disco: peer answered %v: %q", e.Code, reason)
}

// Is reports whether target is a *PeerError of the same code.
func (e *PeerError) Is(target error) bool {
	t, ok := target.(*PeerError)
	return ok && t.Code == e.Code
}

// An EncodeError says which field of a message cannot be sent.
type EncodeError struct {
	Type   Type
	Field  string // by the specification's name
	Reason string
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("disco: %v: %s %s", e.Type, e.Field, e.Reason)
}
