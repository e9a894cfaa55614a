package association

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/npamp/disco/frame"
)

// shake runs the handshake on conn, bounded by ctx and the configured timeout,
// and returns the association. It closes conn on failure.
func shake(ctx context.Context, conn net.Conn, cfg *config, gen *generation, client bool) (*Association, error) {
	h := &handshake{conn: conn, gen: gen, cfg: cfg, client: client}
	a, err := h.shake(ctx)
	if err != nil {
		hangUp(conn)
		return nil, timedOut(ctx, err)
	}
	return a, nil
}

func (h *handshake) shake(ctx context.Context) (*Association, error) {
	stop, err := bound(ctx, h.conn)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := h.run(); err != nil {
		return nil, err
	}
	a := newAssociation(h)
	if h.cfg.Hello != nil {
		if err := a.exchangeHello(); err != nil {
			a.erase()
			return nil, err
		}
	}
	if err := a.openStreams(); err != nil {
		a.erase()
		return nil, err
	}
	if err := stop(); err != nil {
		a.erase()
		return nil, err
	}
	return a, nil
}

// bound makes conn's reads and writes fail when ctx is done. stop ends that; its
// error says that ctx was done before.
func bound(ctx context.Context, conn net.Conn) (stop func() error, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Time{}
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		if ctx.Err() == context.Canceled {
			conn.SetDeadline(time.Unix(1, 0))
		}
	})
	var once bool
	return func() error {
		if once {
			return nil
		}
		once = true
		if !cancel() {
			<-done
			return ctx.Err()
		}
		conn.SetDeadline(time.Time{}) // fails only on a stream that is gone, as reading will show
		return nil
	}, nil
}

// timedOut says of a failure under ctx whether it was the time that ran out.
func timedOut(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == context.Canceled:
		return context.Cause(ctx)
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrHandshakeTimeout, err)
	}
	return err
}

// cut closes the stream at once, without a farewell, which could block.
func cut(conn net.Conn) {
	switch c := conn.(type) {
	case *tls.Conn:
		conn = c.NetConn()
	case Streams:
		c.Cut()
		return
	}
	conn.Close()
}

// hangUp closes the stream with a TLS farewell that takes no longer than
// lingerTimeout.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		timer := time.AfterFunc(lingerTimeout, func() { t.NetConn().Close() })
		defer timer.Stop()
	}
	conn.Close()
}

// linger lets the peer read our last frame: closing a TCP socket with unread
// data in it resets the connection, which throws away what is under way.
func linger(conn net.Conn) {
	timer := time.AfterFunc(lingerTimeout, func() { cut(conn) }) // TLS takes longer for its farewell
	defer timer.Stop()
	if c, ok := conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		io.Copy(io.Discard, conn) // until the peer closes or the deadline passes
	}
}

// framingLost reports whether err says that the stream can no longer be cut into
// frames.
func framingLost(err error) bool {
	for _, e := range []error{ErrStream, frame.ErrShort, frame.ErrChecksum, frame.ErrMagic, frame.ErrVersion,
		frame.ErrReserved, frame.ErrTooLong, frame.ErrReservedFlag} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
