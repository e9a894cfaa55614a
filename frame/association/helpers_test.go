package association

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
)

// row runs a test once for each crypto generation.
func rows(t *testing.T, test func(t *testing.T, g *generation)) {
	for _, g := range []*generation{&generation2, &generation3} {
		t.Run("g"+string(rune('0'+g.number)), func(t *testing.T) { test(t, g) })
	}
}

// testIdentity returns a key that depends on n alone.
func testIdentity(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func clientConfig(gens ...int) *Config { return testConfig(1, gens) }
func serverConfig(gens ...int) *Config { return testConfig(2, gens) }

func testConfig(n byte, gens []int) *Config {
	return &Config{
		Identity:    testIdentity(n),
		Generations: gens,
		TLS:         &tls.Config{InsecureSkipVerify: true},
	}
}

// A message is a frame at an endpoint.
type message struct {
	typ     frame.Type
	payload string
}

// A user is an Endpoint that sends what it is told to and keeps what comes.
type user struct {
	t  frame.Transport
	mu sync.Mutex

	out     []message
	got     []message
	flags   []frame.Flags
	written int // Written calls
	sent    int // frames given to Append
	cause   error

	changed chan struct{} // one slot
	closed  chan struct{}
	hook    func(frame.Frame) // called in Receive
}

func newUser() *user {
	return &user{changed: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (u *user) signal() {
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

func (u *user) Receive(f frame.Frame) {
	u.mu.Lock()
	u.got = append(u.got, message{f.Type, string(f.Payload)})
	u.flags = append(u.flags, f.Flags)
	hook := u.hook
	u.mu.Unlock()
	if hook != nil {
		hook(f)
	}
	u.signal()
}

func (u *user) Append(b []byte) ([]byte, frame.Type, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.out) == 0 {
		return b, 0, false
	}
	m := u.out[0]
	u.out = u.out[1:]
	u.sent++
	return append(b, m.payload...), m.typ, true
}

func (u *user) Written() {
	u.mu.Lock()
	u.written = u.sent
	u.mu.Unlock()
	u.signal()
}

func (u *user) Closed(cause error) {
	u.mu.Lock()
	u.cause = cause
	u.mu.Unlock()
	close(u.closed)
}

// repeat is n times one frame.
func repeat(n int, m message) []message { return slices.Repeat([]message{m}, n) }

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
	timeout := time.After(10 * time.Second)
	for {
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
		select {
		case <-u.changed:
		case <-u.closed:
			u.mu.Lock()
			got := len(u.got)
			u.mu.Unlock()
			if got < len(want) {
				t.Fatalf("%s: association ended with %v after %d of %d frames", why, u.cause, got, len(want))
			}
		case <-timeout:
			t.Fatalf("%s: timed out with %d of %d frames: %v", why, len(got), len(want), got)
		}
	}
}

// received returns how many frames have come since the last want.
func (u *user) received() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.got)
}

// start starts a user on the Discovery channel of a.
func start(t *testing.T, a *Association) *user {
	t.Helper()
	u := newUser()
	var err error
	if u.t, err = a.Transport(frame.ChannelDiscovery); err != nil {
		t.Fatal(err)
	}
	if err := u.t.Start(u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return u
}

// tlsPair returns the two ends of an association over TCP and TLS.
func tlsPair(t *testing.T, client, server *Config) (c, s *Association) {
	t.Helper()
	c, s, err := dialPair(t, client, server)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func dialPair(t *testing.T, client, server *Config) (c, s *Association, err error) {
	t.Helper()
	l, err := Listen("127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err = Dial(ctx, l.Addr().String(), client)
	if err != nil {
		return nil, nil, err
	}
	if s, err = l.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s, nil
}

// memPair returns the two ends of an association over a pipe in memory.
func memPair(t *testing.T, client, server *Config) (c, s *Association) {
	t.Helper()
	p, q := net.Pipe()
	var wg sync.WaitGroup
	var serr error
	wg.Go(func() { s, serr = Server(t.Context(), q, server) })
	c, err := Client(t.Context(), p, client)
	wg.Wait()
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s
}

// closeBoth closes both ends at once: neither has to be reading already.
func closeBoth(c, s *Association) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Close() })
	s.Close()
	wg.Wait()
}

// wantCause checks how an association ended.
func wantCause(t *testing.T, a *Association, want error) {
	t.Helper()
	if err := a.Wait(); !errors.Is(err, want) {
		t.Errorf("ended with %v, want %v", err, want)
	}
}

func (m message) String() string { return fmt.Sprintf("%04x:%.40q", uint16(m.typ), m.payload) }
