package association

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
)

// A gated connection reads nothing while its gate is shut.
type gated struct {
	net.Conn
	gate chan struct{} // closed when it is open
	shut atomic.Bool
}

func (g *gated) Read(b []byte) (int, error) {
	if g.shut.Load() {
		<-g.gate
	}
	return g.Conn.Read(b)
}

// gatedPair is tlsPair whose client can stop reading.
func gatedPair(t *testing.T) (c, s *Association, g *gated) {
	t.Helper()
	l, err := Listen("127.0.0.1:0", serverConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err = DialWith(t.Context(), "localhost", clientConfig(), func(ctx context.Context, cfg *Config) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		g = &gated{Conn: conn, gate: make(chan struct{})}
		return tls.Client(g, cfg.TLS), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s, g
}

// A peer that goes on sending and reads nothing is read all the same, and gets
// everything in order when it reads again.
//
// Covers: F58
func TestReplyDoesNotWait(t *testing.T) {
	c, s, g := gatedPair(t)
	cu, su := start(t, c), start(t, s)
	const n, long = 2500, 8 << 10 // more than both sockets take
	reply := func(i int) message {
		return message{0x101, fmt.Sprintf("%05d", i) + strings.Repeat("x", long)}
	}
	var asked atomic.Int64
	su.hook = func(frame.Frame) { su.send(reply(int(asked.Add(1)))) }
	for i := range n {
		if i == 100 {
			g.shut.Store(true)
		}
		cu.send(message{0x100, "?"})
		for wait := time.Now(); asked.Load() == int64(i); runtime.Gosched() {
			if time.Since(wait) > 10*time.Second {
				t.Fatalf("frame %d is not read: %d octets kept", i, s.direct.kept.Load())
			}
		}
	}
	if kept := s.direct.kept.Load(); kept > 2*directLen {
		t.Errorf("%d octets kept", kept)
	}
	su.mu.Lock()
	if su.written == su.sent {
		t.Error("all is reported as written")
	}
	su.mu.Unlock()
	g.shut.Store(false)
	close(g.gate)
	want := make([]message, n)
	for i := range want {
		want[i] = reply(i + 1)
	}
	cu.want(t, "after the stall", want...)
	su.want(t, "the questions", repeat(n, message{0x100, "?"})...)
	timeout := time.After(10 * time.Second)
	for done := false; !done; {
		su.mu.Lock()
		done = su.written == n
		su.mu.Unlock()
		if !done {
			select {
			case <-su.changed:
			case <-timeout:
				t.Fatal("not reported as written")
			}
		}
	}
}

// A whereUser notes whether Append ran in reply.
type whereUser struct {
	*user
	replied atomic.Int64
}

func (u *whereUser) Append(b []byte) ([]byte, frame.Type, bool) {
	out, typ, ok := u.user.Append(b)
	if ok {
		stack := make([]byte, 4096)
		if bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("tryReply")) {
			u.replied.Add(1)
		}
	}
	return out, typ, ok
}

// What comes one at a time is answered on the reading goroutine, over TCP and TLS;
// over other streams by the writing one, which also writes what is long.
func TestReplyWhere(t *testing.T) {
	for name, x := range map[string]struct {
		pair        func(t *testing.T, client, server *Config) (c, s *Association)
		long        int
		least, most int // of 200 answers in reply; the writing goroutine may be a little late to rest
	}{
		"TLS":          {tlsPair, 100, 1, 200},
		"TLS, long":    {tlsPair, directLen + 1, 1, 200},
		"TLS, 100 KiB": {tlsPair, 100 << 10, 1, 200},
		"another":      {memPair, 100, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := x.pair(t, clientConfig(), serverConfig())
			cu := start(t, c)
			su := &whereUser{user: newUser()}
			su.t, _ = s.Transport(frame.ChannelDiscovery)
			answer := message{0x101, strings.Repeat("x", x.long)}
			su.hook = func(frame.Frame) { su.send(answer) }
			if err := su.t.Start(su); err != nil {
				t.Fatal(err)
			}
			const n = 200
			for range n {
				cu.send(message{0x100, "?"})
				cu.want(t, "the answer", answer)
			}
			if replied := int(su.replied.Load()); replied < x.least || replied > x.most {
				t.Errorf("%d of %d answers in reply", replied, n)
			}
		})
	}
}

// Flush sends at once, from any goroutine, and leaves to the writing one what it
// cannot.
func TestFlush(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T, client, server *Config) (c, s *Association){"TLS": tlsPair, "another": memPair} {
		t.Run(name, func(t *testing.T) {
			c, s := pair(t, clientConfig(), serverConfig())
			cu, su := start(t, c), start(t, s)
			for i := range 200 {
				m := message{0x101, strings.Repeat("y", i*i)}
				su.mu.Lock()
				su.out = append(su.out, m, m)
				su.mu.Unlock()
				su.t.(interface{ Flush() }).Flush()
				cu.want(t, "flushed", m, m)
			}
			su.mu.Lock()
			su.out = repeat(500, message{0x101, "z"}) // more than a batch
			su.mu.Unlock()
			su.t.(interface{ Flush() }).Flush()
			cu.want(t, "many", repeat(500, message{0x101, "z"})...)
		})
	}
}

// failingRaw fails every write.
type failingRaw struct{ err error }

func (failingRaw) Control(func(uintptr)) error      { return nil }
func (failingRaw) Read(func(uintptr) bool) error    { return nil }
func (f failingRaw) Write(func(uintptr) bool) error { return f.err }

// A write that fails in reply ends the association as one of the writing goroutine
// does.
func TestReplyFails(t *testing.T) {
	c, s := tlsPair(t, clientConfig(), serverConfig())
	broken := errors.New("broken wire")
	s.direct.raw = failingRaw{broken}
	cu, su := start(t, c), start(t, s)
	su.hook = func(frame.Frame) { su.send(message{0x101, "!"}) }
	for range 100 { // the first may be answered by the writing goroutine
		cu.send(message{0x100, "?"})
		select {
		case <-s.Done():
			if err := s.Wait(); !errors.Is(err, broken) {
				t.Errorf("ended with %v", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Error("lives on")
}

// What a socket does not take is kept, and goes out before what is written later.
func TestDirectConn(t *testing.T) {
	cc, sc := tcpPair(t)
	defer cc.Close()
	defer sc.Close()
	d, ok := Direct(sc).(*directConn)
	if !ok {
		t.Skip("not on this system")
	}
	if p, _ := net.Pipe(); Direct(p) != p {
		t.Error("a pipe is no socket")
	}
	var sent bytes.Buffer
	write := func(n int) {
		t.Helper()
		b := bytes.Repeat([]byte{byte(sent.Len() / 1000)}, n)
		sent.Write(b)
		if m, err := d.Write(b); m != n || err != nil {
			t.Fatal(m, err)
		}
	}
	d.trying.Store(true)
	for d.kept.Load() == 0 {
		write(100_000)
	}
	write(10)
	d.trying.Store(false)
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(cc)
		got <- b
	}()
	write(1000) // drains
	if d.kept.Load() != 0 || d.rest != nil {
		t.Errorf("%d octets kept", d.kept.Load())
	}
	d.trying.Store(true)
	write(1000)
	d.trying.Store(false)
	if err := d.drain(); err != nil {
		t.Error(err)
	}
	sc.CloseWrite()
	if b := <-got; !bytes.Equal(b, sent.Bytes()) {
		t.Errorf("%d octets came of %d, or others", len(b), sent.Len())
	}
	sc.Close()
	d.trying.Store(true)
	if _, err := d.Write([]byte("late")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A countedConn counts what is written to a socket.
type countedConn struct {
	*net.TCPConn
	writes, octets int
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes++
	c.octets += len(b)
	return c.TCPConn.Write(b)
}

// A recorder is a stand-in for TLS.
type recorder struct {
	net.Conn
	then func() // what happens when all is written
}

func (r *recorder) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		m, err := r.Conn.Write(b[:min(len(b), 16<<10)])
		if err != nil {
			return n, err
		}
		n, b = n+m, b[m:]
	}
	r.then()
	return n, nil
}

// A long batch goes out in few writes, whole and in order, and before what follows.
func TestWriteLong(t *testing.T) {
	cc, sc := tcpPair(t)
	defer cc.Close()
	defer sc.Close()
	counted := &countedConn{TCPConn: sc}
	d, ok := Direct(counted).(*directConn)
	if !ok {
		t.Skip("not on this system")
	}
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(cc)
		got <- b
	}()
	var sent bytes.Buffer
	var room []byte
	for i, x := range []struct{ n, writes int }{{1, 1}, {64 << 10, 1}, {64<<10 + 1, 2}, {120_000, 2}, {1 << 20, 16}, {0, 0}} {
		b := bytes.Repeat([]byte{byte('a' + i)}, x.n)
		sent.Write(b)
		before := counted.writes
		tls := &recorder{d, func() {
			if i == 3 { // another's record, while the last ones of the batch are gathered
				d.Write([]byte("alert"))
				sent.WriteString("alert")
			}
		}}
		if err := d.writeLong(tls, b, &room); err != nil {
			t.Fatal(err)
		}
		if n := counted.writes - before; n != x.writes || counted.octets != sent.Len() {
			t.Errorf("%d octets: %d writes, want %d; %d octets of %d", x.n, n, x.writes, counted.octets, sent.Len())
		}
		sent.WriteString("next")
		if d.Write([]byte("next")); counted.octets != sent.Len() {
			t.Errorf("after %d octets Write still gathers", x.n)
		}
	}
	sc.CloseWrite()
	if b := <-got; !bytes.Equal(b, sent.Bytes()) {
		t.Errorf("%d octets came of %d, or others", len(b), sent.Len())
	}
	for _, n := range []int{10, 1 << 20} { // fails when it is flushed, and before
		if err := d.writeLong(&recorder{d, func() {}}, make([]byte, n), &room); err == nil {
			t.Errorf("%d octets are written to what is closed", n)
		}
	}
}
