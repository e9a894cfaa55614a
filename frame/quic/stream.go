package quic

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// A stream carries one channel.
type stream struct {
	s     *quicgo.Stream
	taken chan struct{} // one slot: the reader is done with raw

	// Guarded by conn.mu; written by the receiving goroutine alone.
	id    frame.ChannelID
	known bool // id is: the first frame has come

	// Guarded by conn.mu.
	ended    bool // nothing comes any more, whatever the reason
	finished bool // because the peer ended it in order

	closed bool // by us; guarded by conn.writing

	// The receiving goroutine's, and the reader's between ready and taken.
	raw []byte
	typ frame.Type

	armed bool // the receiving goroutine's: a read deadline is set
}

// receive is the goroutine of a stream. It hands every frame to the reader, and
// drops what comes once there is no reader.
func (c *conn) receive(s *stream) {
	err := c.frames(s)
	if err == nil { // nobody reads any more
		s.s.SetReadDeadline(time.Time{})
		_, err = io.Copy(io.Discard, s.s)
		if err == nil {
			err = io.EOF
		}
	}
	lost := false
	var cancelled *quicgo.StreamError
	switch {
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, association.ErrStream), framing(err):
	case errors.As(err, &cancelled):
		err = fmt.Errorf("quic: the peer cancelled a stream: %v", err)
	default:
		<-c.qc.Context().Done()
		lost = true
	}
	c.note(func() {
		s.ended, s.finished = true, err == io.EOF
		c.lost = c.lost || lost
		if err != io.EOF && !lost && c.broken == nil {
			c.broken = err
		}
	})
}

// frames hands over one frame after the other. The error is that of the stream;
// nil says that there is no reader any more.
func (c *conn) frames(s *stream) error {
	frames := frame.NewReader(s.s, 0) // reserved flags are the association's to refuse
	for {
		limit := c.maxFrame
		select {
		case <-c.opened:
		default:
			limit = handshakeFrame
			select {
			case <-c.want:
			case <-c.opened:
				limit = c.maxFrame
			case <-c.closing:
				return nil
			}
		}
		frames.SetMaxFrame(limit)
		h, raw, err := s.next(frames)
		if err != nil {
			return err
		}
		if err := c.admit(s, h.Channel); err != nil {
			return err
		}
		s.raw, s.typ = raw, h.Type
		select {
		case c.ready <- s:
		case <-c.closing:
			return nil
		}
		select {
		case <-s.taken:
		case <-c.closing:
			return nil
		}
	}
}

// next reads the next frame. A buffer that large frames left large is given back
// when nothing comes for idleAfter.
func (s *stream) next(frames *frame.Reader) (frame.Header, []byte, error) {
	for {
		if frames.Size() > idleBuffer {
			s.armed = true
			s.s.SetReadDeadline(time.Now().Add(idleAfter))
		}
		h, raw, err := frames.Next()
		if !s.armed || !errors.Is(err, os.ErrDeadlineExceeded) {
			return h, raw, err
		}
		frames.Shrink()
		s.armed = false
		s.s.SetReadDeadline(time.Time{})
	}
}

// admit checks the channel of a frame on s, and gives a stream that is new its
// channel.
func (c *conn) admit(s *stream, id frame.ChannelID) (err error) {
	switch {
	case s.known && s.id == id:
	case s.known:
		err = fmt.Errorf("%w: one of %v on that of %v", association.ErrStream, id, s.id)
	default:
		c.note(func() {
			if c.find(id) != nil {
				err = fmt.Errorf("%w: a second one for %v", association.ErrStream, id)
				return
			}
			s.id, s.known = id, true
		})
	}
	return err
}

// framing reports whether err is what frame.Reader says of octets that are no
// frames.
func framing(err error) bool {
	for _, e := range []error{frame.ErrShort, frame.ErrChecksum, frame.ErrMagic, frame.ErrVersion, frame.ErrReserved, frame.ErrTooLong} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
