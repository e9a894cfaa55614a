package frame

import "errors"

// ErrClosed is the cause of an association that this side closed itself. An
// implementation's own error for it satisfies errors.Is with this one.
var ErrClosed = errors.New("frame: association closed")

// A Frame is one frame of a channel as the association hands it up: it was
// authenticated, is the next in sequence, and is not one of the all-channel
// types 0x0001–0x000A, which the association deals with itself.
type Frame struct {
	Type    Type
	Flags   Flags  // as on the wire
	Seq     uint64 // header sequence number, for display alone: nothing correlates by it
	Payload []byte // the plaintext, TLVs first (core §4.1); valid until Receive returns
}

// Info tells an Endpoint on what it runs. It is fixed before Start returns and
// never changes afterwards.
type Info struct {
	Channel    ChannelID
	Generation int // crypto generation: 2 or 3

	// Advertised reports that we accept this channel; PeerAdvertised that the
	// peer does, so that we may send on it (core §5).
	Advertised, PeerAdvertised bool

	LocalIdentity, PeerIdentity []byte // Ed25519 public keys, 32 octets; nil without a handshake
}

// An Endpoint is what sits on a Transport: the user of one channel. The
// association calls it; it never calls it twice at once for the same method,
// but Receive and Append run at once.
type Endpoint interface {
	// Receive takes one frame. It runs on the association's only reading
	// goroutine, so it must not wait for anything: not for user code, not for a
	// full queue, not for the writer. f.Payload is the reader's buffer and is
	// overwritten after the call.
	Receive(f Frame)

	// Append appends the payload of the next frame to b and returns the
	// extended slice with the frame's type. It is called whenever the link has
	// room and after each Wake: on the association's writing goroutine, or, where
	// that need not be woken for it, on the reading one after Receive has returned,
	// so it must not wait for anything either. When there is nothing to send it
	// returns b as it was and ok = false, and is not called again before the next
	// Wake. b's octets belong to the association; what lies before len(b) must not
	// be touched.
	Append(b []byte) (out []byte, typ Type, ok bool)

	// Written reports that every frame Append gave so far has been handed to
	// the link below. It runs where Append does.
	Written()

	// Closed is called once, after the last Receive, Append and Written, with
	// the first cause of the end. ErrClosed (by errors.Is) means that this side
	// closed; io.EOF that the peer ended the association in order.
	Closed(cause error)
}

// A Transport carries the frames of one channel of one association, in order
// and each once. Its methods may be called from any goroutine at any time,
// from an Endpoint's methods too.
type Transport interface {
	// Info says what the transport is. It may be called before Start.
	Info() Info

	// Start attaches the endpoint, once. Frames are handed over from then on;
	// the association reads nothing before the first Start of any of its
	// channels. After the end of the association it returns the cause.
	Start(e Endpoint) error

	// Wake says that Append has something. It never blocks and never calls the
	// endpoint itself, so it may be called with locks held.
	Wake()

	// Abort ends the association because of what the peer sent on this channel:
	// code is what an ERROR frame says of it where the generation has one; 0 for
	// no ERROR. It does not wait, so an endpoint's methods may call it.
	Abort(code ErrorCode, cause error)

	// Close ends the whole association in order: no Append is called any more,
	// CLOSE is sent, and all goroutines are gone when it returns, within a
	// second at most. It is idempotent. It waits for the goroutines that run the
	// endpoint's methods, so those must not call it.
	Close() error
}
