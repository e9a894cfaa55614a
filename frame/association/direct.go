package association

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// A directConn is a TCP connection, under TLS, that can be written to without
// waiting: what the socket has no room for is kept until drain. That is how reply
// writes. The frames that come next must not wait for a peer that reads nothing.
// It also has the records of a long batch written together.
type directConn struct {
	net.Conn
	raw syscall.RawConn

	trying atomic.Bool  // Write does not wait; set by whoever holds outbound.mu
	kept   atomic.Int64 // len(rest)

	mu       sync.Mutex
	rest     []byte // written, and not yet taken by the socket
	gathers  bool   // Write does
	gathered []byte // for the socket to be given at once

	// Of the attempt under way; here, so that it allocates nothing.
	attempt func(fd uintptr) bool
	b       []byte
	n       int
	err     error
}

// Direct returns conn as Dial and Listen put it under TLS: an association over TLS
// over it answers a frame that comes alone on its reading goroutine, which takes a
// third less time than waking the writing one. conn has to be a connection of
// package net, or something around it that has its SyscallConn: anything else is
// returned as it is.
func Direct(conn net.Conn) net.Conn {
	s, ok := conn.(syscall.Conn)
	if !ok || !canTry {
		return conn
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return conn
	}
	c := &directConn{Conn: conn, raw: raw}
	c.attempt = func(fd uintptr) bool {
		c.n, c.err = tryWrite(fd, c.b)
		return true
	}
	return c
}

// directOf returns the directConn under a stream, if there is one.
func directOf(conn net.Conn) *directConn {
	if t, ok := conn.(*tls.Conn); ok {
		c, _ := t.NetConn().(*directConn)
		return c
	}
	return nil
}

// Write writes b, or keeps what of it would have to wait.
func (c *directConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.trying.Load() {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if !c.gathers {
			return c.Conn.Write(b)
		}
		if c.gathered = append(c.gathered, b...); len(c.gathered) < gatherLen {
			return len(b), nil
		}
		return len(b), c.flushGathered()
	}
	taken := 0
	if len(c.rest) == 0 {
		c.b = b
		err := c.raw.Write(c.attempt)
		if c.b = nil; err == nil {
			err = c.err
		}
		if err != nil {
			return 0, err
		}
		taken = c.n
	}
	if taken < len(b) {
		c.rest = append(c.rest, b[taken:]...)
		c.kept.Store(int64(len(c.rest)))
	}
	return len(b), nil
}

// writeLong has t, which is the TLS over c, write b: four records at a time. One at
// a time, which is how TLS writes them, a listing of 10,000 takes an eighth more.
// It gathers in room.
func (c *directConn) writeLong(t net.Conn, b []byte, room *[]byte) error {
	c.mu.Lock()
	c.gathers, c.gathered = true, (*room)[:0]
	c.mu.Unlock()
	_, err := t.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.flushGathered()
	}
	*room = c.gathered[:0]
	c.gathers, c.gathered = false, nil
	return err
}

func (c *directConn) flushGathered() error {
	if len(c.gathered) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.gathered)
	c.gathered = c.gathered[:0]
	return err
}

// drain writes what is kept.
func (c *directConn) drain() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

func (c *directConn) flush() error {
	if len(c.rest) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.rest)
	c.rest = nil
	c.kept.Store(0)
	return err
}
