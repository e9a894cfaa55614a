package association

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame/keys"
)

// A writeMeddler hands the n-th Write to change, which does it in its own way.
type writeMeddler struct {
	net.Conn
	n      int
	change func(c net.Conn, b []byte) (int, error)
}

func (m *writeMeddler) Write(b []byte) (int, error) {
	m.n--
	if m.n == -1 {
		return m.change(m.Conn, b)
	}
	return m.Conn.Write(b)
}

// Each octet of each flight is wrong once, and each flight ends once after each of
// its octets, because the stream does or because nothing more comes. Nobody works
// on a part of a flight; whoever receives the flight, and of the first three flights its sender too, is not
// established, and both ends are done within the deadline.
//
// Covers: CORE-8.1-02, CORE-8.4-03, CORE-8.4-05, CORE-g3-02, CORE-g3-07
func TestMeddledHandshake(t *testing.T) {
	step := 1
	if raceEnabled || testing.Short() {
		step = 17 // no divisor of anything here
	}
	flights := []struct {
		name   string
		client bool // sends it
		write  int  // as its write
		length int
	}{
		{"CLIENT_HELLO", true, 0, 1281},
		{"SERVER_HELLO", false, 0, 1183},
		{"SERVER_AUTH", false, 1, 194},
		{"CLIENT_AUTH", true, 1, 194},
	}
	rows(t, func(t *testing.T, g *generation) {
		for _, f := range flights {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := newMeddling(t, g)
					for i := 0; i < f.length; i += step {
						flip := func(c net.Conn, b []byte) (int, error) {
							if len(b) != f.length {
								t.Fatalf("flight of %d octets, want %d", len(b), f.length)
							}
							b[i] ^= byte(1 << (i % 8))
							return c.Write(b)
						}
						cut := func(c net.Conn, b []byte) (int, error) {
							if i > 0 {
								if n, err := c.Write(b[:i]); err != nil {
									return n, err
								}
							}
							if i%2 == 0 {
								c.Close()
								return i, io.ErrClosedPipe
							}
							return len(b), nil
						}
						m.try(t, fmt.Sprintf("octet %d wrong", i), f.client, f.write, flip)
						m.work = 0
						m.try(t, fmt.Sprintf("%d octets alone", i), f.client, f.write, cut)
						if f.name == "CLIENT_HELLO" && m.work > 0 {
							t.Errorf("the server encapsulated for %d octets of it", i)
						}
					}
					// The harness itself does no harm.
					if c, s, _ := m.shake(f.client, f.write, net.Conn.Write); c == nil || s == nil {
						t.Error("untouched, it fails")
					} else {
						closeBoth(c, s)
					}
				})
			})
		}
	})
}

// A meddling is what the handshakes of one test have in common.
type meddling struct {
	gen            *generation
	client, server *config
	work           int // encapsulations
}

func newMeddling(t *testing.T, g *generation) *meddling {
	t.Helper()
	private, err := keys.GenerateKEM() // dear, and nothing here depends on it
	if err != nil {
		t.Fatal(err)
	}
	m := &meddling{gen: g}
	for side, cfg := range map[**config]*Config{&m.client: clientConfig(g.number), &m.server: serverConfig(g.number)} {
		c, err := cfg.resolve()
		if err != nil {
			t.Fatal(err)
		}
		c.kem.generate = func() (*keys.KEMPrivate, error) { return private, nil }
		c.kem.encapsulate = func(share []byte) ([]byte, []byte, error) { m.work++; return keys.Encapsulate(share) }
		*side = c
	}
	return m
}

// shake does a handshake in which one write of one side is done by change. It
// returns the two ends, nil for one that failed, and its streams.
func (m *meddling) shake(client bool, write int, change func(net.Conn, []byte) (int, error)) (c, s *Association, streams [2]net.Conn) {
	p, q := net.Pipe()
	streams = [2]net.Conn{p, q}
	cp, sp := p, q
	if client {
		cp = &writeMeddler{p, write, change}
	} else {
		sp = &writeMeddler{q, write, change}
	}
	end := func(conn net.Conn, cfg *config, client bool) *Association {
		ctx, cancel := context.WithTimeout(context.Background(), cfg.HandshakeTimeout)
		defer cancel()
		a, err := connect(ctx, conn, cfg, client)
		if err != nil {
			return nil
		}
		return a
	}
	var wg sync.WaitGroup
	wg.Go(func() { s = end(sp, m.server, false) })
	c = end(cp, m.client, true)
	wg.Wait()
	return c, s, streams
}

// try checks what comes of one handshake.
func (m *meddling) try(t *testing.T, why string, client bool, write int, change func(net.Conn, []byte) (int, error)) {
	t.Helper()
	began := time.Now()
	c, s, streams := m.shake(client, write, change)
	if d := time.Since(began); d > defaultHandshakeTimeout+2*lingerTimeout {
		t.Errorf("%s: done after %v", why, d)
	}
	last := client && write == 1 // CLIENT_AUTH: the client knows the server by then
	if s != nil || c != nil && !last {
		t.Errorf("%s: client established %v, server %v", why, c != nil, s != nil)
	}
	if c != nil {
		// It learns that the server is not there as soon as it looks.
		u := newUser()
		u.t, _ = c.Transport(onDiscovery)
		u.t.Start(u)
		if err := c.Wait(); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("%s: the client's association ended with %v", why, err)
		}
	}
	for _, stream := range streams {
		if stream.SetDeadline(time.Time{}) == nil {
			t.Errorf("%s: a stream is left open", why)
		}
	}
}
