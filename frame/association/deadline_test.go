package association

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
)

// A dripping connection writes so many octets at a time, with a pause in between
// that is longer than any read deadline, once it drips.
type dripping struct {
	net.Conn
	octets int // 0: all at once
}

func (d *dripping) Write(b []byte) (n int, err error) {
	if d.octets == 0 {
		return d.Conn.Write(b)
	}
	for n < len(b) && err == nil {
		var k int
		k, err = d.Conn.Write(b[n:min(n+d.octets, len(b))])
		n += k
		time.Sleep(2 * idleAfter)
	}
	return n, err
}

// A reader that has a deadline, to give memory back, loses nothing by it, wherever
// in a frame, or in a record of TLS, it strikes.
//
// Covers: C-limits
func TestReadDeadlineInTheMiddle(t *testing.T) {
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	for _, over := range []string{"pipe", "tls"} {
		t.Run(over, func(t *testing.T) {
			rows(t, func(t *testing.T, g *generation) {
				for _, octets := range []int{1, 7, 36, 61} {
					synctest.Test(t, func(t *testing.T) {
						p, q := net.Pipe()
						slow := &dripping{Conn: p}
						var cc, sc net.Conn = slow, q
						if over == "tls" {
							cc = tls.Client(slow, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{g.alpn}})
							sc = tls.Server(q, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{g.alpn}})
						}
						var s *Association
						var wg sync.WaitGroup
						wg.Go(func() { s, _ = Server(t.Context(), sc, serverConfig(g.number)) })
						cfg := clientConfig(g.number)
						cfg.WriteTimeout = -1
						c, err := Client(t.Context(), cc, cfg)
						wg.Wait()
						if err != nil || s == nil {
							t.Fatal(err)
						}
						cu, su := start(t, c), start(t, s)
						// A large buffer is what the deadline is for.
						big := message{0x101, strings.Repeat("b", 100_000)}
						cu.send(big)
						su.want(t, "a large frame", big)
						synctest.Wait()
						slow.octets = octets
						small := []message{{0x100, "first"}, {0x104, strings.Repeat("s", 100)}, {0x105, ""}}
						cu.send(small...)
						time.Sleep(time.Hour)
						synctest.Wait()
						if s.in.frames.Size() > idleBuffer {
							t.Error("the deadline never struck")
						}
						slow.octets = 0
						su.want(t, "each frame whole", small...)
						closeBoth(c, s)
					})
				}
			})
		})
	}
}

// A context that is cancelled in the middle of a flight, whichever way it goes, ends
// the stream: nobody goes on with half a frame.
//
// Covers: CORE-g3-02
func TestCancelledInTheMiddle(t *testing.T) {
	cancelled := func(t *testing.T, g *generation, client bool, peer func(q net.Conn)) {
		t.Helper()
		p, q := net.Pipe()
		defer q.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			peer(q)
			cancel()
		}()
		began := time.Now()
		a, err := over(ctx, p, testConfig(1, []int{g.number}), client)
		if a != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", a, err)
		}
		if d := time.Since(began); d > 2*lingerTimeout {
			t.Errorf("took %v", d)
		}
		if p.SetDeadline(time.Time{}) == nil {
			t.Error("the stream is left open")
		}
	}
	for _, n := range []int{0, 1, 35, 36, 37, 600, 1280} {
		t.Run(fmt.Sprintf("sending/octets=%d", n), func(t *testing.T) {
			rows(t, func(t *testing.T, g *generation) {
				synctest.Test(t, func(t *testing.T) {
					cancelled(t, g, true, func(q net.Conn) { io.ReadFull(q, make([]byte, n)) })
				})
			})
		})
		t.Run(fmt.Sprintf("receiving/octets=%d", n), func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				typ := frame.TypeClientHello
				if client {
					typ = frame.TypeServerHello
				}
				flight := append(frame.AppendHeader(nil, frame.Header{Type: typ, PayloadLen: 1245}), make([]byte, 1245)...)
				cancelled(t, g, client, func(q net.Conn) {
					go io.Copy(io.Discard, q)
					if n > 0 {
						q.Write(flight[:n])
					}
				})
			})
		})
	}
}

// A handshake that is pending takes one goroutine of ours, besides the one by which
// crypto/tls minds the context, and leaves none.
//
// Covers: C-limits
func TestPendingHandshakes(t *testing.T) {
	before := runtime.NumGoroutine()
	l, err := Listen("127.0.0.1:0", serverConfig())
	if err != nil {
		t.Fatal(err)
	}
	const pending = 50
	for range pending {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// Each shows up; then no more do.
	if missing := settles(func() int { return pending - len(l.slots) }, 0); missing > 0 {
		t.Fatalf("%d of %d handshakes never began", missing, pending)
	}
	if n := runtime.NumGoroutine(); n > before+1+2*pending {
		t.Errorf("%d goroutines for %d handshakes", n-before, pending)
	}
	l.Close()
	if n := settles(runtime.NumGoroutine, before); n > before {
		t.Errorf("%d goroutines are left", n-before)
	}
}
