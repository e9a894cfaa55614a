package channel

import (
	"errors"
	"fmt"
	"net"

	"github.com/npamp/disco/disco"
)

var (
	// ErrClosed is returned by every call on a peer that was closed here, and
	// is the cause of that end. It satisfies errors.Is with net.ErrClosed.
	ErrClosed error = closedError{}

	// ErrNotAdvertised is returned, with nothing written, by a request on an
	// association of which not both ends advertise the channel (§2), or on which
	// Config.Disabled switches it off.
	ErrNotAdvertised = errors.New("channel: discovery is not advertised by both ends, or is switched off")

	// ErrLimit is wrapped by what fails because one of our own Limits was
	// reached; the text names it.
	ErrLimit = errors.New("channel: limit reached")

	// ErrTimeout is returned when the peer does not answer within
	// Limits.RequestTimeout.
	ErrTimeout = errors.New("channel: no answer in time")

	// ErrIncomplete is wrapped by the *IncompleteError of an enumeration that
	// ended before its last page.
	ErrIncomplete = errors.New("channel: enumeration incomplete")

	// ErrUnknownKind fails a listing, not a tolerant one, of which a record's
	// kind is unknown to us (§5, [C9]).
	ErrUnknownKind = errors.New("channel: record of unknown kind in a non-tolerant listing")
)

type closedError struct{}

func (closedError) Error() string   { return "channel: peer closed" }
func (closedError) Is(t error) bool { return t == net.ErrClosed }

// An IncompleteError says how far an enumeration came that did not reach its
// end. What was read is discarded: pages of two listings are never spliced.
type IncompleteError struct {
	Pages, Records int
	Cause          error // a *disco.PeerError, or what was exceeded
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("channel: enumeration incomplete after %d pages, %d records: %v", e.Pages, e.Records, e.Cause)
}

// Unwrap makes errors.Is find ErrIncomplete and the cause.
func (e *IncompleteError) Unwrap() []error { return []error{ErrIncomplete, e.Cause} }

// Temporary reports whether err is a refusal that asks to come back later:
// NotAdvertised and SubscriptionRefused are never permanent [C20].
func Temporary(err error) bool {
	var pe *disco.PeerError
	return errors.As(err, &pe) && (pe.Code == disco.CodeNotAdvertised || pe.Code == disco.CodeSubscriptionRefused)
}
