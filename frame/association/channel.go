package association

import (
	"sync/atomic"

	"github.com/npamp/disco/frame"
)

// A channel is one channel of an association and its frame.Transport.
type channel struct {
	a                          *Association
	id                         frame.ChannelID
	advertised, peerAdvertised bool

	endpoint atomic.Pointer[frame.Endpoint]
	armed    atomic.Bool // the endpoint may have something to send

	in    flowKey // the reading goroutine's
	out   flowKey // the writing goroutine's
	wrote bool    // the writer's: the batch has frames of the endpoint
}

func (c *channel) user() frame.Endpoint {
	if e := c.endpoint.Load(); e != nil {
		return *e
	}
	return nil
}

// Info implements frame.Transport.
func (c *channel) Info() frame.Info {
	return frame.Info{
		Channel:        c.id,
		Generation:     c.a.gen.number,
		Advertised:     c.advertised,
		PeerAdvertised: c.peerAdvertised,
		LocalIdentity:  c.a.info.LocalIdentity,
		PeerIdentity:   c.a.info.PeerIdentity,
	}
}

// Start implements frame.Transport. The error is ErrStarted, or the cause of the
// association's end.
func (c *channel) Start(e frame.Endpoint) error {
	a := c.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Load() != stateOpen {
		return a.cause
	}
	if !c.endpoint.CompareAndSwap(nil, &e) {
		return ErrStarted
	}
	c.Wake()
	a.launch()
	return nil
}

// Wake implements frame.Transport.
func (c *channel) Wake() {
	c.armed.Store(true)
	if !c.a.quiet.Load() {
		c.a.nudge()
	}
}

// Abort implements frame.Transport. cause is what Wait returns; nil stands for
// ErrClosed.
func (c *channel) Abort(code frame.ErrorCode, cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	c.a.fail(code, cause)
}

// Close implements frame.Transport. See Association.Close.
func (c *channel) Close() error { return c.a.Close() }

// Flush is Wake that sends on the caller's goroutine what the endpoint has, as far
// as that takes no waiting: a batch, if it is not long. It is not part of
// frame.Transport: a caller asks for it by interface{ Flush() }. It may call Append
// and Written, so no lock that they take may be held.
func (c *channel) Flush() {
	c.armed.Store(true)
	c.a.reply()
}

// Late says that the user of the channel has waited in vain for something that
// may be too long for what is left of the window we granted (C62). It is not part
// of frame.Transport: a caller asks for it by interface{ Late() }. It does not
// block.
func (c *channel) Late() { c.a.Late() }
