package quic

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// generations runs a test once for each crypto generation.
func generations(t *testing.T, test func(t *testing.T, g int)) {
	for _, g := range []int{2, 3} {
		t.Run(fmt.Sprintf("g%d", g), func(t *testing.T) { test(t, g) })
	}
}

// testConfig returns a configuration whose identity depends on n alone.
func testConfig(n byte, gens ...int) *association.Config {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return &association.Config{
		Identity:    ed25519.NewKeyFromSeed(seed),
		Generations: gens,
		TLS:         &tls.Config{InsecureSkipVerify: true},
	}
}

func clientConfig(gens ...int) *association.Config { return testConfig(1, gens...) }
func serverConfig(gens ...int) *association.Config { return testConfig(2, gens...) }

// A message is a frame at an endpoint.
type message struct {
	typ     frame.Type
	payload string
}

func (m message) String() string { return fmt.Sprintf("%04x:%.40q", uint16(m.typ), m.payload) }

// A user is an Endpoint that sends what it is told to and keeps what comes.
type user struct {
	t   frame.Transport
	mu  sync.Mutex
	out []message
	got []message

	changed chan struct{} // one slot
	closed  chan struct{}
	cause   error // after closed
}

func (u *user) Receive(f frame.Frame) {
	u.mu.Lock()
	u.got = append(u.got, message{f.Type, string(f.Payload)})
	u.mu.Unlock()
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

func (u *user) Append(b []byte) ([]byte, frame.Type, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.out) == 0 {
		return b, 0, false
	}
	m := u.out[0]
	u.out = u.out[1:]
	return append(b, m.payload...), m.typ, true
}

func (u *user) Written() {}

func (u *user) Closed(cause error) {
	u.cause = cause
	close(u.closed)
}

// send queues frames and wakes the writer.
func (u *user) send(m ...message) {
	u.mu.Lock()
	u.out = append(u.out, m...)
	u.mu.Unlock()
	u.t.Wake()
}

// want waits until exactly the messages have come since the last want.
func (u *user) want(t *testing.T, why string, want ...message) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for ended := false; ; {
		u.mu.Lock()
		got := slices.Clone(u.got)
		if len(got) >= len(want) {
			u.got = nil
			u.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Fatalf("%s: got %v, want %v", why, got, want)
			}
			return
		}
		u.mu.Unlock()
		if ended {
			t.Fatalf("%s: association ended with %v after %d of %d frames", why, u.cause, len(got), len(want))
		}
		select {
		case <-u.changed:
		case <-u.closed:
			ended = true // what came last is in got
		case <-timeout:
			t.Fatalf("%s: timed out with %d of %d frames", why, len(got), len(want))
		}
	}
}

// start starts a user on the Discovery channel of a.
func start(t *testing.T, a *association.Association) *user {
	t.Helper()
	return startOn(t, a, frame.ChannelDiscovery)
}

func startOn(t *testing.T, a *association.Association, id frame.ChannelID) *user {
	t.Helper()
	u := &user{changed: make(chan struct{}, 1), closed: make(chan struct{})}
	var err error
	if u.t, err = a.Transport(id); err != nil {
		t.Fatal(err)
	}
	if err := u.t.Start(u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return u
}

// wait returns a context that ends before the test does.
func wait(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// listenOn listens until the test is over.
func listenOn(t *testing.T, cfg *association.Config, tm timing) *association.Listener {
	t.Helper()
	l, err := listen("127.0.0.1:0", cfg, tm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns the two ends of an association over QUIC.
func pair(t *testing.T, client, server *association.Config) (c, s *association.Association) {
	t.Helper()
	l := listenOn(t, server, defaultTiming)
	c, err := Dial(wait(t), l.Addr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(wait(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s
}

// closeBoth closes both ends at once: neither has to be reading already.
func closeBoth(c, s *association.Association) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Close() })
	s.Close()
	wg.Wait()
}

// cause waits for the end of an association and returns why.
func cause(t *testing.T, why string, a *association.Association) error {
	t.Helper()
	select {
	case <-a.Done():
	case <-wait(t).Done():
		t.Fatalf("%s: has not ended", why)
	}
	return a.Wait()
}

// wantCause checks how an association ended.
func wantCause(t *testing.T, why string, a *association.Association, want error) {
	t.Helper()
	if err := cause(t, why, a); !errors.Is(err, want) {
		t.Errorf("%s: ended with %v, want %v", why, err, want)
	}
}

// A rogue is a client that is of its own making below the association.
type rogue struct {
	*conn
	a *association.Association
}

// dialRogue makes an association with l whose connection the test has in hand.
func dialRogue(t *testing.T, l *association.Listener, cfg *association.Config) (r rogue, s *association.Association) {
	t.Helper()
	var err error
	r.a, err = association.DialWith(wait(t), "127.0.0.1", cfg, func(ctx context.Context, cfg *association.Config) (net.Conn, error) {
		c, err := dialFirst(ctx, addrPorts(t, l.Addr().String()), cfg, defaultTiming)
		if err == nil {
			r.conn = c.(*conn)
		}
		return c, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(wait(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(r.a, s) })
	return r, s
}
