package quic

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// A conn is a QUIC connection as an association.Streams. One goroutine reads and
// one writes at a time; everything else may be called at any time.
type conn struct {
	qc       *quicgo.Conn
	socket   *socket
	client   bool
	alpn     string
	remote   net.Addr
	maxFrame int               // octets
	expected []frame.ChannelID // a server's: what the client begins streams for

	opened  chan struct{} // closed by Open
	closing chan struct{} // closed by the first Close or Cut: nobody reads any more
	shut    sync.Once     // closes closing
	end     sync.Once     // what Close does
	running sync.WaitGroup
	rd, wr  *deadline

	ready chan *stream  // has a frame; unbuffered
	want  chan struct{} // one slot: the reader waits for a frame, before Open

	// The reader's.
	current *stream     // whose frame is being read
	held    *stream     // Control, with a CLOSE that waits for the other streams' end
	hold    *time.Timer // for how long; nil when nothing is held back
	waited  bool        // it is over

	writing sync.Mutex // one Write or end of a stream at a time

	mu      sync.Mutex
	changed chan struct{} // closed, and another one made, when anything of the following changes
	streams []*stream
	writeAt time.Time // the write deadline, for streams to come
	broken  error     // what the peer, or the path, did
	lost    bool      // nothing comes any more: the connection is closed
	// farewell: we ended all our streams; first: the peer had not ended all of its.
	farewell, first bool
}

func newConn(qc *quicgo.Conn, s *socket, cfg *association.Config, client bool) *conn {
	c := &conn{
		qc:       qc,
		socket:   s,
		client:   client,
		alpn:     qc.ConnectionState().TLS.NegotiatedProtocol,
		remote:   qc.RemoteAddr(),
		maxFrame: cfg.MaxFrame,
		opened:   make(chan struct{}),
		closing:  make(chan struct{}),
		rd:       newDeadline(),
		wr:       newDeadline(),
		ready:    make(chan *stream),
		want:     make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}
	if !client {
		for _, id := range cfg.Channels {
			if id != frame.ChannelControl {
				c.expected = append(c.expected, id)
			}
		}
	}
	return c
}

// begin opens Control's stream, on a client.
func (c *conn) begin() error {
	_, err := c.open(frame.ChannelControl)
	return err
}

// start accepts streams, on a server.
func (c *conn) start() { c.running.Go(c.accept) }

// accept takes Control's stream, and once the handshake is done those of the other
// channels.
func (c *conn) accept() {
	defer c.note(func() { c.lost = true })
	for first := true; ; first = false {
		s, err := c.qc.AcceptStream(c.qc.Context())
		if err != nil {
			<-c.qc.Context().Done() // the error of a stream comes a little before
			return
		}
		if isClosed(c.closing) {
			s.Close() // ours of it, so that the peer need not wait for that
			continue
		}
		c.add(&stream{s: s, known: first}) // Control is 0
		select {
		case <-c.opened:
		case <-c.closing:
		case <-c.qc.Context().Done():
		}
	}
}

// open opens the stream of a channel, on a client.
func (c *conn) open(id frame.ChannelID) (*stream, error) {
	s, err := c.qc.OpenStream()
	if err != nil {
		var limit *quicgo.StreamLimitReachedError
		if errors.As(err, &limit) {
			return nil, fmt.Errorf("quic: the peer takes no stream for %v: %v", id, err)
		}
		<-c.qc.Context().Done()
		return nil, ending(c.qc)
	}
	st := &stream{s: s, id: id, known: true}
	c.add(st)
	return st, nil
}

// add makes s one of the streams.
func (c *conn) add(s *stream) {
	s.taken = make(chan struct{}, 1)
	c.note(func() {
		c.streams = append(c.streams, s)
		s.s.SetWriteDeadline(c.writeAt)
	})
	c.running.Go(func() { c.receive(s) })
}

// note changes what mu guards, and tells everybody who waits for that.
func (c *conn) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// find returns the stream of a channel, nil for none. It is called with mu held.
func (c *conn) find(id frame.ChannelID) *stream {
	for _, s := range c.streams {
		if s.known && s.id == id {
			return s
		}
	}
	return nil
}

// Open implements association.Streams.
func (c *conn) Open() { close(c.opened) }

// NegotiatedProtocol implements association.Streams.
func (c *conn) NegotiatedProtocol() string { return c.alpn }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.qc.LocalAddr() }

// RemoteAddr implements net.Conn. It is what the connection began with.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.rd.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.closing) {
		return net.ErrClosed
	}
	c.setWriteDeadline(t)
	return nil
}

// setWriteDeadline is called with mu held.
func (c *conn) setWriteDeadline(t time.Time) {
	c.wr.set(t)
	c.writeAt = t
	for _, s := range c.streams {
		s.s.SetWriteDeadline(t)
	}
}

// Read implements net.Conn: it gives what is left of a frame, or of the next one.
func (c *conn) Read(b []byte) (int, error) {
	if c.current == nil {
		s, err := c.next()
		if err != nil {
			return 0, err
		}
		if err := c.moved(); err != nil {
			return 0, err
		}
		c.current = s
	}
	s := c.current
	n := copy(b, s.raw)
	if s.raw = s.raw[n:]; len(s.raw) == 0 {
		c.current = nil
		s.taken <- struct{}{}
	}
	return n, nil
}

// next waits for a stream with a frame, and holds CLOSE back.
func (c *conn) next() (*stream, error) {
	if !isClosed(c.opened) {
		select {
		case c.want <- struct{}{}:
		default:
		}
	}
	gone := c.qc.Context().Done()
	for {
		switch {
		case isClosed(c.closing):
			return nil, net.ErrClosed
		case isClosed(c.rd.wait()):
			return nil, os.ErrDeadlineExceeded
		}
		s, changed, err := c.over()
		if s != nil || err != nil {
			return s, err
		}
		var expired <-chan time.Time
		if c.hold != nil {
			expired = c.hold.C
		}
		select {
		case s := <-c.ready:
			if s.typ != frame.TypeClose || s.id != frame.ChannelControl {
				return s, nil
			}
			c.held = s
			c.holdBack()
		case <-changed:
		case <-gone:
			gone = nil
			c.note(func() { c.lost = true })
		case <-expired:
			c.hold, c.waited = nil, true
		case <-c.rd.wait():
		case <-c.closing:
		}
	}
}

// holdBack starts the time that other streams have to come to their end.
func (c *conn) holdBack() {
	if c.hold == nil && !c.waited {
		c.hold = time.NewTimer(lingerTimeout)
	}
}

// over reports whether the peer has nothing more to say: the error that tells why,
// or the CLOSE that was held back. Otherwise it returns what to wait for.
func (c *conn) over() (*stream, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil, nil, c.broken
	}
	control, others := c.find(frame.ChannelControl), 0
	for _, s := range c.streams {
		if s != control && !s.ended {
			others++
		}
	}
	quiet := c.waited || others == 0 && (c.lost || c.complete())
	switch {
	case quiet && c.held != nil:
		s := c.held
		c.held, c.waited = nil, false
		if c.hold != nil {
			c.hold.Stop()
			c.hold = nil
		}
		return s, nil, nil
	case c.held != nil:
	case control != nil && control.finished:
		if quiet {
			return nil, nil, io.EOF
		}
		c.holdBack()
	case c.lost && others == 0 && (control == nil || control.ended):
		return nil, nil, ending(c.qc)
	}
	return nil, c.changed, nil
}

// complete reports whether every stream is there that the client is to begin: none
// before Open. It is called with mu held.
func (c *conn) complete() bool {
	if !isClosed(c.opened) {
		return true
	}
	for _, id := range c.expected {
		if c.find(id) == nil {
			return false
		}
	}
	return true
}

// moved notices that the peer has another address, on a server.
func (c *conn) moved() error {
	now := c.qc.RemoteAddr()
	if now == c.remote || now.String() == c.remote.String() {
		return nil
	}
	err := fmt.Errorf("%w: from %v to %v", ErrPathChanged, c.remote, now)
	c.note(func() {
		if c.broken == nil {
			c.broken = err
		}
	})
	return err
}

// Write implements net.Conn. b is whole frames.
func (c *conn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n < len(b) {
		r, err := firstRun(b[n:])
		if err != nil {
			return n, err
		}
		if err := c.moved(); err != nil {
			return n, err
		}
		s, err := c.outlet(r.channel)
		if err != nil {
			return n, err
		}
		m, err := s.s.Write(b[n : n+r.length])
		n += m
		if err != nil {
			return n, c.writeFailed(err)
		}
		if r.closes {
			c.endStreams(func(s *stream) bool { return s.id != frame.ChannelControl })
		}
	}
	return n, nil
}

// A run is frames of one channel in a row.
type run struct {
	channel frame.ChannelID
	length  int  // octets
	closes  bool // its last frame is CLOSE on Control
}

// firstRun returns the run that b begins with. A CLOSE ends one.
func firstRun(b []byte) (r run, err error) {
	for r.length < len(b) && !r.closes {
		h, err := frame.ParseHeader(b[r.length:])
		switch {
		case err != nil:
			return r, fmt.Errorf("quic: not a frame to write: %w", err)
		case r.length == 0:
			r.channel = h.Channel
		case h.Channel != r.channel:
			return r, nil
		}
		if r.length += frame.HeaderLen + int(h.PayloadLen); r.length > len(b) {
			return r, errors.New("quic: not a whole frame to write")
		}
		r.closes = h.Channel == frame.ChannelControl && h.Type == frame.TypeClose
	}
	return r, nil
}

// outlet returns the stream that frames of a channel go to. A client opens it; a
// server waits for that, until the write deadline.
func (c *conn) outlet(id frame.ChannelID) (*stream, error) {
	for {
		c.mu.Lock()
		s, changed := c.find(id), c.changed
		c.mu.Unlock()
		switch {
		case isClosed(c.closing):
			return nil, net.ErrClosed
		case s != nil && s.closed:
			return nil, net.ErrClosed
		case s != nil:
			return s, nil
		case c.client:
			return c.open(id)
		}
		select {
		case <-changed:
		case <-c.closing:
		case <-c.qc.Context().Done():
			return nil, ending(c.qc)
		case <-c.wr.wait():
			return nil, fmt.Errorf("quic: the client began no stream for %v: %w", id, os.ErrDeadlineExceeded)
		}
	}
}

// writeFailed returns what a failed write is for the writer.
func (c *conn) writeFailed(err error) error {
	var cancelled *quicgo.StreamError
	switch {
	case isClosed(c.closing):
		return net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.As(err, &cancelled):
		return fmt.Errorf("quic: the peer takes nothing more: %v", err)
	}
	<-c.qc.Context().Done()
	return ending(c.qc)
}

var _ association.Streams = (*conn)(nil)
