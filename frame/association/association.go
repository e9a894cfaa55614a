package association

import (
	"crypto/ed25519"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// An Association is an authenticated N-PAMP session over one stream. Its methods
// may be called from any goroutine at any time.
type Association struct {
	conn   net.Conn
	direct *directConn // under conn; nil where there is none
	cfg    *config
	gen    *generation
	hash   keys.Hash
	suite  keys.Suite
	client bool
	// separate: conn is a Streams, so that frames of different channels come in any
	// order.
	separate bool
	info     Info
	count    counters

	channels []*channel // Control first; fixed before the association is handed out

	in  inbound  // the reading goroutine's
	out outbound // the writing goroutine's

	quiet      atomic.Bool   // the reader calls reply when it has dealt with its frame, so that Wake need not wake the writer
	wake       chan struct{} // one slot: the writer has something to look at
	alert      atomic.Bool   // something of queue or state changed
	readerDone chan struct{}
	done       chan struct{} // closed last

	flow  window
	pings pings
	guard writeGuard

	state      atomic.Int32  // see below; written under mu
	closeSent  atomic.Bool   // our CLOSE goes out, or has; written under mu
	lingers    atomic.Bool   // the reader empties the stream until the peer closes it
	generation atomic.Uint64 // of the root that we open under; written by the reader
	answering  atomic.Int32  // REKEMs that wait for the writer

	mu       sync.Mutex  // guards what follows
	launched bool        // the goroutines run, or someone does their work
	cause    error       // the first one; what Wait returns
	last     frame.Type  // ERROR, CLOSE or CLOSE_ACK, the last frame to go out; 0 for none
	lastOn   *channel    // where it goes
	lastBody []byte      // what it says
	acked    bool        // our CLOSE was acknowledged, or need not be
	hardStop *time.Timer // closes the stream, whatever is under way
	queue    []order     // for the writer, in order
	queued   int         // orders in queue and on the writer's side that are not PONGs
	pongs    int         // those that are
	owed     map[ack]int // ACKs that the peer owes us
	owedSum  int         // how many
	rekem    *rekem      // ours, under way
}

// The states of an association, in the order in which it goes through them.
const (
	stateOpen    int32 = iota
	stateClosing       // Close was called: endpoints are asked for nothing any more
	stateEnded         // at most one last frame goes out
)

// Info says what an association is. It never changes.
type Info struct {
	ID                          ID   // its name in key logs and traces
	Client                      bool // this side dialled
	Generation                  int  // crypto generation: 2 or 3
	Profile                     frame.Profile
	Suite                       keys.Suite
	LocalIdentity, PeerIdentity ed25519.PublicKey
	LocalAddr, RemoteAddr       net.Addr
	PeerChannels                []frame.ChannelID // that the peer accepts frames on
	HelloVersion                uint64            // agreed NPAMP-HELLO version; 0 without HELLO
	HelloProtocols              []uint64          // protocol_ids that both carry, in the client's order
}

// newAssociation takes over what the handshake made. Nothing runs yet.
func newAssociation(h *handshake) *Association {
	a := &Association{
		conn:       h.conn,
		direct:     directOf(h.conn),
		cfg:        h.cfg,
		gen:        h.gen,
		hash:       h.secrets.Hash,
		suite:      h.suite,
		client:     h.client,
		separate:   isStreams(h.conn),
		wake:       make(chan struct{}, 1),
		readerDone: make(chan struct{}),
		done:       make(chan struct{}),
	}
	a.info = Info{
		ID:            h.id,
		Client:        h.client,
		Generation:    h.gen.number,
		Profile:       frame.ProfileStandard,
		Suite:         h.suite,
		LocalIdentity: h.cfg.Identity.Public().(ed25519.PublicKey),
		PeerIdentity:  h.peer,
		LocalAddr:     h.conn.LocalAddr(),
		RemoteAddr:    h.conn.RemoteAddr(),
	}
	h.frames.SetMaxFrame(h.cfg.MaxFrame)
	a.in = inbound{frames: h.frames, root: slices.Clone(h.master)}
	a.out = outbound{root: slices.Clone(h.master)}
	keys.Erase(h.master)
	a.flow.init(h.gen.flow && !h.cfg.NoFlowControl)
	if h.client && h.gen.errors {
		// The server may still refuse our CLIENT_AUTH, under the handshake key.
		a.in.handshake, h.receive = h.receive, nil
	}
	h.master = nil
	h.erase()
	for _, id := range h.cfg.Channels {
		a.channels = append(a.channels, &channel{a: a, id: id, advertised: true})
	}
	a.setPeerChannels(h.cfg.PeerChannels)
	return a
}

// setPeerChannels makes ids what the peer accepts frames on, and leaves the
// channels that there are in their state. ids is ascending and has Control.
func (a *Association) setPeerChannels(ids []frame.ChannelID) {
	a.info.PeerChannels = ids
	for _, c := range a.channels {
		c.peerAdvertised = false
	}
	for _, id := range ids {
		c := a.channel(id)
		if c == nil {
			c = &channel{a: a, id: id}
			a.channels = append(a.channels, c)
		}
		c.peerAdvertised = true
	}
}

// channel returns the channel id, nil where neither side advertises it.
func (a *Association) channel(id frame.ChannelID) *channel {
	for _, c := range a.channels {
		if c.id == id {
			return c
		}
	}
	return nil
}

// control returns the Control channel.
func (a *Association) control() *channel { return a.channels[0] }

// Info says what the association is. The slices in it are shared and must not be
// changed.
func (a *Association) Info() Info { return a.info }

// Transport returns the transport of channel ch. The error is ErrNotAdvertised
// unless we or the peer advertise the channel, and ErrControl for Control.
func (a *Association) Transport(ch frame.ChannelID) (frame.Transport, error) {
	if ch == frame.ChannelControl {
		return nil, ErrControl
	}
	c := a.channel(ch)
	if c == nil {
		return nil, fmt.Errorf("%w: %v", ErrNotAdvertised, ch)
	}
	return c, nil
}

// Close ends the association in order: CLOSE goes out ahead of everything that
// endpoints still have to send, in generation 3 the peer's CLOSE_ACK is awaited,
// and all goroutines are gone when it returns, within a second at most. The
// error is ErrCloseIncomplete where the acknowledgement did not come, which
// leaves nothing behind either, and nil otherwise, also when the association
// had ended before. It is idempotent. An endpoint's methods must not call it.
func (a *Association) Close() error {
	a.mu.Lock()
	if a.state.Load() == stateOpen {
		a.cause = ErrClosed
		a.state.Store(stateClosing)
		a.launch()
		a.arm(closeTimeout)
	}
	a.mu.Unlock()
	a.signal()
	<-a.done
	if a.cause == ErrCloseIncomplete {
		return ErrCloseIncomplete
	}
	return nil
}

// Wait returns when the association has ended and its goroutines are gone, with
// the first cause: ErrClosed when this side closed, io.EOF when the peer ended it
// in order, a *PeerError, a *ProtocolError, what Abort was given, or an error of
// the stream.
func (a *Association) Wait() error {
	<-a.done
	return a.cause
}

// Done is closed when Wait would return.
func (a *Association) Done() <-chan struct{} { return a.done }

// end ends an open association for cause, or brings a closing one to its end. It
// does not wait. last is ERROR, CLOSE or CLOSE_ACK and goes out first, on c; 0 is
// nothing. The first call counts.
func (a *Association) end(cause error, last frame.Type, c *channel, body []byte) {
	a.mu.Lock()
	switch a.state.Load() {
	case stateEnded:
		a.mu.Unlock()
		return
	case stateClosing:
		a.incomplete()
	case stateOpen:
		a.cause = cause
		a.last, a.lastOn, a.lastBody = last, c, body
		a.lingers.Store(last == frame.TypeError || last == frame.TypeClose)
		if last == 0 {
			a.arm(lingerTimeout)
		} else {
			a.arm(closeTimeout)
		}
	}
	a.state.Store(stateEnded)
	a.launch()
	a.mu.Unlock()
	a.signal()
}

// fail ends the association for something the peer sent. ERROR says so where the
// generation has one.
func (a *Association) fail(code frame.ErrorCode, cause error) {
	if code == 0 || !a.gen.errors {
		a.end(cause, 0, nil, nil)
		return
	}
	a.end(cause, frame.TypeError, a.control(), appendError(nil, code))
}

// incomplete settles how our own close ended. It is called with mu held.
func (a *Association) incomplete() {
	if a.gen.ackedClose && !a.acked && a.cause == ErrClosed {
		a.cause = ErrCloseIncomplete
		a.count.closeIncomplete.Store(1)
	}
}

// arm makes sure that the end comes: after d the stream is closed under whoever
// reads or writes it. It is called with mu held.
func (a *Association) arm(d time.Duration) {
	if a.hardStop == nil {
		a.hardStop = time.AfterFunc(d, a.expire)
	}
}

func (a *Association) expire() {
	a.mu.Lock()
	if a.state.Load() == stateClosing {
		a.incomplete()
		a.state.Store(stateEnded)
	}
	a.mu.Unlock()
	cut(a.conn)
	a.signal()
}

// launch starts the two goroutines, once. It is called with mu held.
func (a *Association) launch() {
	if !a.launched {
		a.launched = true
		a.keepAlive()
		go a.read()
		go a.write()
	}
}

// signal makes the writer look at everything again.
func (a *Association) signal() {
	a.alert.Store(true)
	a.nudge()
}

// nudge makes the writer look at the endpoints again.
func (a *Association) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// finish runs on the writing goroutine when the reading one is gone.
func (a *Association) finish() {
	a.mu.Lock()
	a.hardStop.Stop()
	cause := a.cause
	a.mu.Unlock()
	a.pings.stop()
	a.guard.stop()
	a.erase()
	for _, c := range a.channels {
		if e := c.user(); e != nil {
			e.Closed(cause)
		}
	}
	close(a.done)
}

// erase overwrites every secret (binding §7). Neither goroutine runs.
func (a *Association) erase() {
	keys.Erase(a.in.root, a.out.root)
	if a.in.handshake != nil {
		a.in.handshake.Erase()
	}
	for _, c := range a.channels {
		c.in.retire()
		c.out.retire()
	}
	a.mu.Lock()
	a.rekem, a.queue = nil, nil
	a.mu.Unlock()
}

// A flowKey is the state of one direction of one channel.
type flowKey struct {
	key    *keys.Key // nil before the first frame under it
	seq    uint64    // of the next frame
	epoch  uint64
	octets uint64    // of payload, sealed under key
	born   time.Time // of key
}

// retire erases the key.
func (k *flowKey) retire() {
	if k.key != nil {
		k.key.Erase()
		k.key = nil
	}
}

// next goes to the next epoch: another key, sequence numbers from 0.
func (k *flowKey) next() {
	k.retire()
	*k = flowKey{epoch: k.epoch + 1}
}

// derive makes the key if there is none. ratchet is root's generation.
func (a *Association) derive(k *flowKey, root []byte, ratchet uint64, d keys.Direction, id frame.ChannelID) *keys.Key {
	if k.key == nil {
		a.cfg.logKey(logTraffic, a.info.ID, a.hash, root, d, ratchet, id, k.epoch, a.suite)
		key, err := keys.NewTrafficKey(a.hash, root, d, k.epoch, a.suite, id)
		if err != nil {
			panic("BUG: association: " + err.Error()) // the suite was negotiated
		}
		k.key = key
	}
	return k.key
}
