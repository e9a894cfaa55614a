package association

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
)

// Covers: DISC-3-02, DISC-3-04, C50
func TestPing(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		long := strings.Repeat("0123456789", 10)
		for _, ch := range []frame.ChannelID{onDiscovery, onControl} {
			for _, body := range []string{"", "ping", long[:64], long} {
				r.mustFire(shot{ch: ch, typ: frame.TypePing, payload: body})
				r.want("on the same channel", ch, frame.TypePong, body[:min(len(body), 64)])
			}
		}
		// A Discovery payload under type PING is the body of a PING.
		v1 := "\xa2\x00\x19\x01\x00\x01\x41\x01"
		r.mustFire(shot{ch: onDiscovery, typ: frame.TypePing, payload: v1})
		r.want("no meaning of its own", onDiscovery, frame.TypePong, v1)
		if s := a.Stats(); s.Pongs != 9 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Covers: C50
func TestPingFlood(t *testing.T) {
	t.Run("writer stuck", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			start(t, a)
			const pings = 60
			for i := range pings {
				r.mustFire(shot{ch: onDiscovery, typ: frame.TypePing, payload: fmt.Sprint(i)})
			}
			synctest.Wait()
			s := a.Stats()
			if s.PingsDropped < pings-2*maxPongs-1 {
				t.Errorf("stats %+v", s)
			}
			for range pings - s.PingsDropped {
				if h, _, err := r.next(); err != nil || h.Type != frame.TypePong {
					t.Fatal(h, err)
				}
			}
			r.wantAlive("after the flood")
		})
	})
	t.Run("rate", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			r.conn.SetDeadline(time.Time{})
			start(t, a)
			pong := 0
			ping := func() {
				before := a.Stats().PingsDropped
				r.mustFire(shot{ch: onDiscovery, typ: frame.TypePing})
				synctest.Wait()
				if a.Stats().PingsDropped == before {
					r.want("pong", onDiscovery, frame.TypePong, "")
					pong++
				}
			}
			for range 2 * pongRate {
				ping()
			}
			if pong != pongRate {
				t.Errorf("%d PONGs in a burst", pong)
			}
			time.Sleep(time.Second / pongRate * 5)
			for range 20 {
				ping()
			}
			if pong != pongRate+5 {
				t.Errorf("%d PONGs after a pause", pong)
			}
		})
	})
}

// Covers: C50
func TestOwnPing(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			c, s := memPair(t, clientConfig(g.number), serverConfig(g.number))
			start(t, c)
			start(t, s)
			if err := c.Ping(t.Context(), onDiscovery); err != nil {
				t.Error(err)
			}
			if err := c.Ping(t.Context(), 0x01); !errors.Is(err, ErrNotAdvertised) {
				t.Errorf("unadvertised: %v", err)
			}
			if n := len(c.pings.waiting); n != 0 {
				t.Errorf("%d still wait", n)
			}
		})
	})
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error, maxPings+1)
		for range maxPings {
			go func() { errs <- a.Ping(ctx, onDiscovery) }()
		}
		for range maxPings {
			if h, _, err := r.next(); err != nil || h.Type != frame.TypePing {
				t.Fatal(h, err)
			}
		}
		if err := a.Ping(ctx, onDiscovery); err != ErrBusy {
			t.Errorf("one more: %v", err)
		}
		for range maxPings {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("unanswered: %v", err)
			}
		}
		go func() { errs <- a.Ping(context.Background(), onDiscovery) }()
		if h, _, err := r.next(); err != nil || h.Type != frame.TypePing {
			t.Fatal(h, err)
		}
		r.mustFire(shot{ch: onControl, typ: frame.TypeClose})
		r.next()
		if err := <-errs; err == nil {
			t.Error("answered by the end")
		}
	})
}

// Covers: C50, C-limits
func TestKeepAlive(t *testing.T) {
	keep := func(c *Config) { c.KeepAlive = 30 * time.Second }
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, keep)
		r.conn.SetDeadline(time.Time{})
		start(t, a)
		began := time.Now()
		// Anything authentic keeps it quiet.
		time.Sleep(20 * time.Second)
		r.mustFire(shot{ch: onDiscovery, typ: frame.TypePong})
		if h, plain, err := r.next(); err != nil || h.Type != frame.TypePing || h.Channel != onDiscovery || len(plain) != 8 {
			t.Fatal(h, err)
		}
		if d := time.Since(began); d != 50*time.Second {
			t.Errorf("PING after %v", d)
		}
		// Any frame will do for an answer, for public peers answer no PING.
		r.mustFire(shot{ch: onDiscovery, typ: 0x105, payload: "alive"})
		if h, _, err := r.next(); err != nil || h.Type != frame.TypePing {
			t.Fatal(h, err)
		}
		if d := time.Since(began); d != 80*time.Second {
			t.Errorf("PING after %v", d)
		}
		// A forged one will not.
		time.Sleep(5 * time.Second)
		r.mustFire(shot{ch: onDiscovery, typ: 0x105, tag: true})
		wantCause(t, a, ErrPeerSilent)
		if d := time.Since(began); d < 90*time.Second || d > 91*time.Second {
			t.Errorf("dead after %v", d)
		}
	})
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			cc := clientConfig(g.number)
			keep(cc)
			c, s := memPair(t, cc, serverConfig(g.number))
			start(t, c)
			start(t, s)
			time.Sleep(time.Hour)
			if got := s.Stats().Pongs; got != 120-1 && got != 120 {
				t.Errorf("%d PONGs in an hour", got)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if c.pings.timer.Stop() {
				t.Error("the timer goes on after Close")
			}
		})
	})
}
