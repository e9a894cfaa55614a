package quic

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// dialRelayed makes an association whose packets go through a relay.
func dialRelayed(t *testing.T, client, server *association.Config, tm timing) (c, s *association.Association, r *relay) {
	t.Helper()
	l := listenOn(t, server, tm)
	r = newRelay(t, l.Addr())
	c, err := dial(wait(t), r.addr(), client, tm)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(wait(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s, r
}

// A client whose address changes loses the association: QUIC may have validated
// the path, but not for N-PAMP. Both ends are told why.
//
// Covers: CORE-11.6-01, C57
func TestPathChanged(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		c, s, r := dialRelayed(t, clientConfig(g), serverConfig(g), defaultTiming)
		start(t, c)
		start(t, s)
		if err := c.Ping(wait(t), frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Path; n != 0 {
			t.Errorf("%d PATH frames", n)
		}
		r.rebind()
		soon := wait(t)
		for c.Ping(soon, frame.ChannelDiscovery) == nil {
		}
		wantCause(t, "server", s, ErrPathChanged)
		if err := cause(t, "client", c); err == io.EOF || !strings.Contains(err.Error(), "code 3") || !strings.Contains(err.Error(), "address changed") {
			t.Errorf("client ended with %v", err)
		}
	})
}

// The same where the server has something to say and the client nothing.
//
// Covers: CORE-11.6-01
func TestPathChangedSilentClient(t *testing.T) {
	c, s, r := dialRelayed(t, clientConfig(), serverConfig(), timing{idle: 20 * time.Second, keepAlive: 500 * time.Millisecond})
	start(t, c)
	start(t, s)
	if err := s.Ping(wait(t), frame.ChannelDiscovery); err != nil {
		t.Fatal(err)
	}
	r.rebind()
	// The server's next packets do not arrive; the client's acknowledgements of
	// those before, and its keep-alive, come from elsewhere.
	for ended := false; !ended; {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := s.Ping(ctx, frame.ChannelDiscovery)
		ended = err != nil && ctx.Err() == nil
		cancel()
	}
	wantCause(t, "server", s, ErrPathChanged)
}

// A peer that vanishes is noticed by both ends, also when nothing is under way.
//
// Covers: C57
func TestPeerVanishes(t *testing.T) {
	tm := timing{idle: time.Second, keepAlive: 300 * time.Millisecond}
	c, s, r := dialRelayed(t, clientConfig(), serverConfig(), tm)
	start(t, c)
	start(t, s)
	// Keep-alive lets an idle association live for longer than idle.
	idle := time.NewTimer(2 * tm.idle)
	defer idle.Stop()
	select {
	case <-c.Done():
		t.Fatalf("idle client ended with %v", c.Wait())
	case <-s.Done():
		t.Fatalf("idle server ended with %v", s.Wait())
	case <-idle.C:
	}
	r.cut()
	wantCause(t, "server", s, association.ErrPeerSilent)
	wantCause(t, "client", c, association.ErrPeerSilent)
	began := time.Now()
	closeBoth(c, s)
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v", took)
	}
}

// Closing towards a peer that has vanished takes no longer than a second, and in
// generation 3 says that it is incomplete.
//
// Covers: CORE-g3-04
func TestCloseVanished(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		c, s, r := dialRelayed(t, clientConfig(g), serverConfig(g), defaultTiming)
		start(t, c)
		start(t, s)
		r.cut()
		began := time.Now()
		err := c.Close()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		if g == 3 != (err == association.ErrCloseIncomplete) {
			t.Errorf("Close: %v", err)
		}
	})
}

// Packets that get lost change nothing: every frame arrives, each channel in
// order, and those before a CLOSE before it.
//
// Covers: C57, CORE-g3-04
func TestLossyPath(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		c, s, r := dialRelayed(t, clientConfig(g), serverConfig(g), defaultTiming)
		u, v := start(t, c), start(t, s)
		random := rand.New(rand.NewPCG(uint64(g), 1))
		r.mu.Lock()
		r.lose = func(bool) bool { return random.IntN(10) == 0 }
		r.mu.Unlock()
		var sent []message
		for i := range 300 {
			sent = append(sent, message{frame.Type(0x100 + i), strings.Repeat("x", i*7)})
		}
		u.send(sent...)
		v.send(sent...)
		u.want(t, "client", sent...)
		v.want(t, "server", sent...)
	})
}
