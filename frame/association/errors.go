package association

import (
	"errors"
	"fmt"
	"net"

	"github.com/npamp/disco/frame"
)

// The causes for which an association, or the making of one, fails. They are
// matched with errors.Is.
var (
	// ErrClosed is the cause of an association that this side closed. It is also
	// frame.ErrClosed and net.ErrClosed.
	ErrClosed error = closedError{}
	// ErrCloseIncomplete says that we closed and the peer neither acknowledged it
	// within a second nor ended the stream in order (generation 3). It is also
	// ErrClosed.
	ErrCloseIncomplete error = incompleteError{}
	// ErrAuthentication says that one side did not prove, or was not let through
	// with, its identity.
	ErrAuthentication = errors.New("association: authentication failed")
	// ErrGeneration says that the two sides have no crypto generation in common.
	ErrGeneration = errors.New("association: no crypto generation in common")
	// ErrHandshakeTimeout says that the handshake took too long.
	ErrHandshakeTimeout = errors.New("association: handshake timed out")
	// ErrHandshake says that the peer broke the handshake's rules.
	ErrHandshake = errors.New("association: handshake refused")
	// ErrNotAdvertised is returned for a channel that neither side advertises, or
	// where something has to be sent, that the peer does not.
	ErrNotAdvertised = errors.New("association: channel not advertised")
	// ErrControl is returned where the Control channel is asked for: it belongs to
	// the association itself.
	ErrControl = errors.New("association: the Control channel has no transport")
	// ErrStarted is returned by a second Start of one channel's transport.
	ErrStarted = errors.New("association: transport already started")
	// ErrPeerSilent ends an association whose peer answered no liveness PING.
	ErrPeerSilent = errors.New("association: peer is silent")
	// ErrWriteTimeout ends an association whose peer does not read.
	ErrWriteTimeout = errors.New("association: peer does not read")
	// ErrUnacknowledged ends an association whose peer acknowledges no key updates
	// (generation 3).
	ErrUnacknowledged = errors.New("association: key updates are not acknowledged")
	// ErrSequence ends an association whose peer used the last sequence number
	// without having replaced its key.
	ErrSequence = errors.New("association: sequence numbers exhausted")
	// ErrFrame ends an association whose endpoint gave a frame that must not be
	// sent: one longer than Config.MaxSend, or of a type below 0x0030.
	ErrFrame = errors.New("association: endpoint's frame cannot be sent")
	// ErrStream is what a Streams fails with when the peer sends a frame on a stream
	// that is not its channel's.
	ErrStream = errors.New("association: frame on the wrong stream")
	// ErrRatchet refuses a change of the root where each channel has a stream of its
	// own: nothing there says which frames of the others came before it.
	ErrRatchet = errors.New("association: no ratchet over separate streams")
	// ErrConfig is what a Config that contradicts itself gives.
	ErrConfig = errors.New("association: invalid configuration")
	// ErrBusy is returned for a second of something of which one may be under way.
	ErrBusy = errors.New("association: already under way")
)

type closedError struct{}

func (closedError) Error() string { return "association: closed" }
func (closedError) Is(target error) bool {
	return target == net.ErrClosed || target == frame.ErrClosed
}

type incompleteError struct{}

func (incompleteError) Error() string {
	return "association: closed, but the peer did not acknowledge (close_incomplete)"
}
func (incompleteError) Is(target error) bool { return target == ErrClosed || closedError{}.Is(target) }

// A PeerError is an ERROR frame from the peer (core §4.7, generation 3). It ends
// the association and is never answered.
type PeerError struct {
	Code      frame.ErrorCode
	Context   []byte // whatever the peer put there, at most 256 octets; for display alone
	Handshake bool   // it came in the handshake, or instead of the server's first frame after it
}

func (e *PeerError) Error() string {
	s := fmt.Sprintf("peer reports error %d (%v)", uint8(e.Code), e.Code)
	if e.Handshake {
		s += " in the handshake"
	}
	if len(e.Context) > 0 {
		s += fmt.Sprintf(": %.64q", e.Context)
	}
	if e.Is(ErrAuthentication) {
		return ErrAuthentication.Error() + ": " + s
	}
	return "association: " + s
}

// Is reports ErrAuthentication for decrypt_failed in the handshake: the peer did
// not accept our proof of identity.
func (e *PeerError) Is(target error) bool {
	return target == ErrAuthentication && e.Handshake && e.Code == frame.CodeDecryptFailed
}

// A ProtocolError is something the peer sent that ends the association.
type ProtocolError struct {
	Code    frame.ErrorCode // what an ERROR frame says of it; sent in generation 3 only
	Channel frame.ChannelID
	Type    frame.Type
	Err     error // what was wrong
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("association: %v, %s on %v", e.Err, frame.TypeName(e.Channel, e.Type), e.Channel)
}

func (e *ProtocolError) Unwrap() error { return e.Err }

// What a ProtocolError, or a refused handshake, can be about.
var (
	errUnexpected  = errors.New("frame is not legal in this state")
	errBody        = errors.New("body is not as defined")
	errFlags       = errors.New("wrong flags")
	errChannel     = errors.New("wrong channel")
	errNumber      = errors.New("wrong sequence number")
	errGap         = errors.New("frames are missing before this one")
	errBudget      = errors.New("too many frames failed authentication")
	errMarker      = errors.New("marker is malformed or not the next epoch")
	errRatchet     = errors.New("marker is malformed or not the next generation")
	errWindow      = errors.New("more payload octets than granted")
	errUnsolicited = errors.New("nothing to acknowledge")
	errFlood       = errors.New("more control frames than answers can be sent")
	errHello       = errors.New("HELLO is refused")
	errTLVs        = errors.New("TLVs are not exactly the listed ones in order")
	errOffer       = errors.New("nothing offered is supported")
	errSelect      = errors.New("selection was not offered")
	errLong        = errors.New("frame longer than the handshake's 4096 octets")
)
