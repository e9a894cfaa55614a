package channeltest

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// A Wire is two connected net.Conns in memory. Like TCP, a conn that was closed
// still delivers what it sent, and CloseWrite closes one direction.
type Wire struct {
	// A and B are the two ends. They have CloseWrite.
	A, B net.Conn
	// AB is the way from A to B, BA the other.
	AB, BA *Way

	b    board
	down bool // it was cut
}

// NewWire returns a wire with room for 64 KiB each way.
func NewWire() *Wire {
	w := new(Wire)
	w.b.init()
	w.AB, w.BA = w.b.way(w.cut), w.b.way(w.cut)
	w.AB.room, w.BA.room = 64<<10, 64<<10
	w.A = &wireConn{wire: w, side: A, out: w.AB, in: w.BA}
	w.B = &wireConn{wire: w, side: B, out: w.BA, in: w.AB}
	return w
}

// Cut breaks the wire: Read and Write of both ends fail with ErrCut at once, and
// what is under way is lost.
func (w *Wire) Cut() { w.b.with(w.cut) }

func (w *Wire) cut() {
	w.down = true
	w.AB.lose()
	w.BA.lose()
}

// wireConn is one end; the wire's board guards it.
type wireConn struct {
	wire              *Wire
	side              Side
	out, in           *Way
	readBy, writeBy   time.Time
	closed, writeShut bool
}

// fault returns why nothing can be done any more.
func (c *wireConn) fault(by time.Time) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.wire.down:
		return ErrCut
	case !by.IsZero() && !time.Now().Before(by):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *wireConn) Read(b []byte) (n int, err error) {
	c.wire.b.mu.Lock()
	defer c.wire.b.mu.Unlock()
	for {
		if err := c.fault(c.readBy); err != nil {
			return 0, c.failed("read", err)
		}
		if len(b) == 0 {
			return 0, nil
		}
		p, later := c.in.next()
		if p != nil {
			if c.in.piece > 0 && len(b) > c.in.piece {
				b = b[:c.in.piece]
			}
			n = copy(b, p.Payload)
			c.in.taken(n)
			return n, nil
		}
		if len(c.in.queue) == 0 && c.in.over != nil {
			return 0, c.in.over
		}
		c.wire.b.wait(c.readBy, later)
	}
}

func (c *wireConn) Write(b []byte) (n int, err error) {
	c.wire.b.mu.Lock()
	defer c.wire.b.mu.Unlock()
	for {
		err := c.fault(c.writeBy)
		switch {
		case err != nil:
		case c.writeShut:
			err = net.ErrClosed
		case c.out.gone:
			err = syscall.EPIPE
		}
		if err != nil {
			return n, c.failed("write", err)
		}
		if len(b) == 0 {
			return n, nil
		}
		if !c.out.roomy() {
			c.wire.b.wait(c.writeBy)
			continue
		}
		k := len(b)
		if c.out.room > 0 {
			k = min(k, c.out.room-c.out.octets)
		}
		c.out.put(Frame{Payload: append([]byte(nil), b[:k]...)})
		n, b = n+k, b[k:]
	}
}

// CloseWrite lets the other end read what is under way and then io.EOF.
func (c *wireConn) CloseWrite() error {
	c.wire.b.with(func() {
		c.writeShut = true
		c.out.ended(io.EOF)
	})
	return nil
}

func (c *wireConn) Close() error {
	err := error(nil)
	c.wire.b.with(func() {
		if c.closed {
			err = c.failed("close", net.ErrClosed)
			return
		}
		c.closed = true
		c.out.ended(io.EOF)
		c.in.lose()
	})
	return err
}

func (c *wireConn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *wireConn) LocalAddr() net.Addr  { return addr(c.side) }
func (c *wireConn) RemoteAddr() net.Addr { return addr(c.side.Other()) }

func (c *wireConn) SetDeadline(t time.Time) error {
	c.wire.b.with(func() { c.readBy, c.writeBy = t, t })
	return nil
}

func (c *wireConn) SetReadDeadline(t time.Time) error {
	c.wire.b.with(func() { c.readBy = t })
	return nil
}

func (c *wireConn) SetWriteDeadline(t time.Time) error {
	c.wire.b.with(func() { c.writeBy = t })
	return nil
}

type addr Side

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return Side(a).String() }
