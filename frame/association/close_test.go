package association

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
)

// Covers: CORE-g3-04, HB-7-01, C50
func TestCloseAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		root := a.out.root
		done := make(chan error)
		began := time.Now()
		go func() { done <- a.Close() }()
		r.want("CLOSE on Control, empty", onControl, frame.TypeClose, "")
		if g.number == 3 {
			// What was under way may still come, and is read for the keys' sake.
			b := r.load(shot{ch: onDiscovery, typ: 0x101, payload: "late"})
			b = append(b, r.load(shot{ch: onControl, typ: frame.TypeKeyUpdate, payload: epochMarker(1)})...)
			r.send.nextEpoch(onControl)
			b = append(b, r.load(shot{ch: onControl, typ: frame.TypeCloseAck})...)
			if _, err := r.conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		r.wantEnd("nothing after CLOSE")
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(began); d > lingerTimeout {
			t.Errorf("Close took %v", d)
		}
		wantCause(t, a, ErrClosed)
		wantCause(t, a, net.ErrClosed)
		wantCause(t, a, frame.ErrClosed)
		if errors.Is(a.Wait(), ErrCloseIncomplete) || u.received() != 0 {
			t.Errorf("ended with %v, %d frames handed up", a.Wait(), u.received())
		}
		if strings.Trim(string(root), "\x00") != "" || a.channel(onDiscovery).in.key != nil || a.control().out.key != nil {
			t.Error("secrets are not erased")
		}
		if err := a.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if err := u.t.Start(newUser()); !errors.Is(err, ErrClosed) {
			t.Errorf("Start after Close: %v", err)
		}
		u.t.Wake()
		u.t.Abort(0, errors.New("too late"))
		wantCause(t, a, ErrClosed)
	})
}

// Covers: CORE-g3-04
func TestCloseUnacknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		began := time.Now()
		done := make(chan error)
		go func() { done <- a.Close() }()
		r.want("CLOSE", onControl, frame.TypeClose, "")
		err := <-done
		if g.number == 2 {
			if err != nil || time.Since(began) > lingerTimeout {
				t.Errorf("Close: %v after %v", err, time.Since(began))
			}
			return
		}
		if !errors.Is(err, ErrCloseIncomplete) || !errors.Is(err, ErrClosed) || time.Since(began) != closeTimeout {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		if a.Stats().CloseIncomplete != 1 {
			t.Errorf("stats %+v", a.Stats())
		}
		<-u.closed
		if !errors.Is(u.cause, frame.ErrClosed) {
			t.Errorf("endpoint was told %v", u.cause)
		}
		r.wantEnd("no ERROR")
	})
}

// Covers: CORE-g3-04
func TestCloseAnsweredByEnd(t *testing.T) {
	// A foreign peer may answer CLOSE by ending the stream.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		done := make(chan error)
		go func() { done <- a.Close() }()
		r.want("CLOSE", onControl, frame.TypeClose, "")
		r.conn.Close()
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Covers: CORE-g3-04
func TestCloseAgainstDeafPeer(t *testing.T) {
	// The peer reads nothing, so that not even CLOSE can be written.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, _ := withRogue(t, g, client, nil)
		u := start(t, a)
		u.send(message{0x101, "stuck"})
		synctest.Wait()
		began := time.Now()
		a.Close()
		if d := time.Since(began); d != closeTimeout {
			t.Errorf("Close took %v", d)
		}
		wantCause(t, a, ErrClosed)
	})
}

// Covers: CORE-g3-04, CORE-4.7-01, DISC-3-02, C50
func TestPeerCloses(t *testing.T) {
	for _, on := range []frame.ChannelID{onControl, onDiscovery} {
		t.Run(on.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				a, r := withRogue(t, g, client, nil)
				u := start(t, a)
				u.hook = func(f frame.Frame) {
					if f.Type != 0x101 {
						t.Errorf("handed up %v", f)
					}
				}
				r.mustFire(
					shot{ch: onDiscovery, typ: 0x101, payload: "before"},
					shot{ch: on, typ: frame.TypeClose},
					shot{ch: onDiscovery, typ: 0x105, payload: "after"},
				)
				acked := onControl
				if g.number == 2 {
					acked = on
				}
				r.want("CLOSE_ACK", acked, frame.TypeCloseAck, "")
				r.wantEnd("after it")
				wantCause(t, a, io.EOF)
				u.want(t, "what came before CLOSE", message{0x101, "before"})
				<-u.closed
				if u.cause != io.EOF {
					t.Errorf("endpoint was told %v", u.cause)
				}
				if err := a.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
}

// Covers: CORE-g3-04
func TestCrossingClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, nil)
		start(t, a)
		done := make(chan error)
		go func() { done <- a.Close() }()
		r.want("our CLOSE", onControl, frame.TypeClose, "")
		r.mustFire(shot{ch: onControl, typ: frame.TypeClose}, shot{ch: onDiscovery, typ: 0x101, payload: "after CLOSE"},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: epochMarker(1)})
		r.want("each is acknowledged", onControl, frame.TypeCloseAck, "")
		r.mustFire(shot{ch: onControl, typ: frame.TypeCloseAck})
		r.wantEnd("both are")
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
		if s := a.Stats(); s.AfterClose != 2 || s.KeyUpdatesIn != 0 {
			t.Errorf("stats %+v", s)
		}
	})
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			c, s := memPair(t, clientConfig(g.number), serverConfig(g.number))
			start(t, c)
			start(t, s)
			var wg sync.WaitGroup
			for _, a := range []*Association{c, s} {
				for range 3 {
					wg.Go(func() {
						if err := a.Close(); err != nil {
							t.Errorf("Close: %v", err)
						}
					})
				}
			}
			wg.Wait()
		})
	})
}

// Covers: CORE-5-05
func TestControlBeforeBacklog(t *testing.T) {
	// A long backlog of Discovery frames, and then PONG, KEY_UPDATE_ACK and CLOSE.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, func(c *Config) { c.NoFlowControl = true })
		u := start(t, a)
		page := strings.Repeat("r", 30<<10)
		u.send(repeat(1000, message{0x101, page})...)
		seen := func(typ frame.Type) (before int) {
			t.Helper()
			for {
				h, _, err := r.next()
				if err != nil {
					t.Fatal(err)
				}
				if h.Type == typ {
					return before
				}
				before++
			}
		}
		seen(0x101)
		for _, s := range []shot{
			{ch: onDiscovery, typ: frame.TypePing, payload: "ping"},
			{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: epochMarker(1)},
		} {
			r.mustFire(s)
			if s.typ == frame.TypeKeyUpdate {
				r.send.nextEpoch(onDiscovery)
			}
			synctest.Wait() // our reader has seen it, and our writer is stuck
			if n := seen(s.typ + 1); n > 2*batchLen/len(page)+1 {
				t.Errorf("%d frames before the answer to %v", n, s.typ)
			}
		}
		go a.Close()
		synctest.Wait()
		if n := seen(frame.TypeClose); n > 2*batchLen/len(page)+1 {
			t.Errorf("%d frames before CLOSE", n)
		}
		u.mu.Lock()
		if u.sent > 100 {
			t.Errorf("%d frames were asked for", u.sent)
		}
		u.mu.Unlock()
	})
}

// Covers: CORE-g3-03
func TestPeerError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, false, nil)
		start(t, a)
		long := strings.Repeat("c", 300)
		r.mustFire(shot{ch: onControl, typ: frame.TypeError, payload: "\xa2\x01\x18\xc8\x02\x59\x01\x2c" + long})
		r.wantEnd("never answered")
		var pe *PeerError
		if err := a.Wait(); !errors.As(err, &pe) || pe.Code != 200 || string(pe.Context) != long[:256] {
			t.Errorf("got %v", err)
		}
	})
	for _, body := range []string{"", "\xa1\x01\x01", "\xa2\x01\x19\x01\x00\x02\x40", "\xa2\x02\x40\x01\x01", "\xa2\x01\x01\x02\x40\x00"} {
		synctest.Test(t, func(t *testing.T) {
			a, r := withRogue(t, &generation3, true, nil)
			start(t, a)
			r.mustFire(shot{ch: onControl, typ: frame.TypeError, payload: body})
			r.wantEnd("never answered, malformed neither")
			if err := a.Wait(); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%x: got %v", body, err)
			}
		})
	}
}

// Covers: CORE-4.4-02, C64
func TestAbort(t *testing.T) {
	// An endpoint may abort from its methods; the cause is Wait's.
	broken := errors.New("broken")
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		u.hook = func(frame.Frame) {
			u.t.Abort(frame.CodeUnknownCriticalTLV, broken)
			u.t.Abort(frame.CodeFlowControl, errors.New("second"))
		}
		r.fire(shot{ch: onDiscovery, typ: 0x100}, shot{ch: onDiscovery, typ: 0x100})
		r.wantRefusal("Abort", frame.CodeUnknownCriticalTLV)
		wantCause(t, a, broken)
		if u.received() != 1 {
			t.Errorf("%d frames handed up", u.received())
		}
	})
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := newUser()
		u.t, _ = a.Transport(onDiscovery)
		u.t.Abort(0, broken) // before Start
		r.wantEnd("no code, no ERROR")
		wantCause(t, a, broken)
		if err := u.t.Start(u); err != broken {
			t.Errorf("Start: %v", err)
		}
	})
}

// Covers: CORE-g3-04
func TestStreamEnds(t *testing.T) {
	t.Run("between frames", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "x"})
			u.want(t, "a frame", message{0x101, "x"})
			r.conn.Close()
			wantCause(t, a, io.EOF)
		})
	})
	t.Run("within a frame", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "x"})
			u.want(t, "a frame", message{0x101, "x"})
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "xyz", raw: func(b []byte) []byte { return b[:40] }})
			r.conn.Close()
			wantCause(t, a, io.ErrUnexpectedEOF)
		})
	})
	t.Run("before anything", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			start(t, a)
			r.conn.Close()
			if client {
				wantCause(t, a, ErrAuthentication)
				if errors.Is(a.Wait(), io.EOF) {
					t.Error("also an orderly end")
				}
			} else {
				wantCause(t, a, io.EOF)
			}
		})
	})
}

// A write has its own time, whatever was written before, and however long ago.
//
// Covers: C-limits
func TestWriteTimeout(t *testing.T) {
	for _, pauses := range [][]time.Duration{
		nil,
		{time.Second},
		{defaultWriteTimeout - 1, time.Second},
		{defaultWriteTimeout},
		{time.Second, 10 * defaultWriteTimeout},
	} {
		t.Run(fmt.Sprint(pauses), func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				a, r := withRogue(t, g, client, nil)
				r.conn.SetDeadline(time.Time{})
				u := start(t, a)
				for _, pause := range pauses {
					u.send(message{0x101, "somebody reads this"})
					r.want("before the stall", frame.ChannelDiscovery, 0x101, "somebody reads this")
					time.Sleep(pause)
				}
				synctest.Wait()
				began, written := time.Now(), u.written
				u.send(message{0x101, "nobody reads this"})
				wantCause(t, a, ErrWriteTimeout)
				if d := time.Since(began); d < defaultWriteTimeout || d > defaultWriteTimeout+closeTimeout {
					t.Errorf("after %v", d)
				}
				if u.written != written {
					t.Error("reported as written")
				}
			})
		})
	}
}

// A slowUser takes its time to make a frame.
type slowUser struct {
	*user
	pause time.Duration
}

func (u *slowUser) Append(b []byte) ([]byte, frame.Type, bool) {
	out, typ, ok := u.user.Append(b)
	if ok {
		time.Sleep(u.pause)
	}
	return out, typ, ok
}

// What an endpoint takes to make a frame is not the time of the write.
//
// Covers: C-limits
func TestWriteTimeoutOfTheWriteAlone(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		r.conn.SetDeadline(time.Time{})
		u := &slowUser{user: newUser()}
		u.t, _ = a.Transport(frame.ChannelDiscovery)
		if err := u.t.Start(u); err != nil {
			t.Fatal(err)
		}
		u.send(message{0x101, "first"})
		r.want("the first frame", frame.ChannelDiscovery, 0x101, "first")
		synctest.Wait()
		time.Sleep(time.Second)
		u.pause = defaultWriteTimeout - 2*time.Second
		u.send(message{0x101, "second"})
		time.Sleep(u.pause + 5*time.Second) // the last five of them it is not taken
		synctest.Wait()
		select {
		case <-a.Done():
			t.Fatalf("ended with %v, 5 s after the write began", a.Wait())
		default:
		}
		r.want("the second frame", frame.ChannelDiscovery, 0x101, "second")
		u.t.Abort(0, nil)
	})
}

// A brittle connection breaks in the middle of a write.
type brittle struct {
	net.Conn
	after int
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.after -= len(p); b.after < 0 {
		n, _ := b.Conn.Write(p[:len(p)/2])
		return n, io.ErrShortWrite
	}
	return b.Conn.Write(p)
}

// Covers: C-limits
func TestPartialWrite(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		p, q := net.Pipe()
		weak := &brittle{Conn: p, after: 1 << 20}
		a, r := rogueOver(t, weak, q, g, client, nil)
		u := start(t, a)
		weak.after = 0
		u.send(message{0x101, "half of this"})
		if _, _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the peer sees %v", err)
		}
		wantCause(t, a, io.ErrShortWrite)
		if u.written != 0 {
			t.Error("reported as written")
		}
	})
}

// Covers: DISC-3-03, CH10-7-03
func TestFramesThatEndpointsMayNotSend(t *testing.T) {
	tests := []struct {
		name string
		m    message
	}{
		{"type 0", message{0, ""}},
		{"ERROR", message{frame.TypeError, ""}},
		{"000b", message{0x0B, ""}},
		{"002f", message{0x2F, ""}},
		{"too long", message{0x101, string(make([]byte, 1<<20-frame.HeaderLen-frame.TagLen+1))}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				a, r := withRogue(t, g, client, nil)
				u := start(t, a)
				u.send(test.m)
				r.wantEnd("nothing is sent")
				wantCause(t, a, ErrFrame)
			})
		})
	}
	t.Run("as long as may be", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			most := string(make([]byte, 1<<20-frame.HeaderLen-frame.TagLen))
			u.send(message{0x30, most})
			r.want("1 MiB", onDiscovery, 0x30, most)
		})
	})
}

// Covers: CORE-5-02
func TestTransports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, func(c *Config) {
			c.Channels = []frame.ChannelID{0x0D, 0x10}
			c.PeerChannels = []frame.ChannelID{0x01}
		})
		if _, err := a.Transport(onControl); err != ErrControl {
			t.Errorf("Control: %v", err)
		}
		if _, err := a.Transport(0x02); !errors.Is(err, ErrNotAdvertised) {
			t.Errorf("unadvertised: %v", err)
		}
		memory, err := a.Transport(0x01)
		if err != nil {
			t.Fatal(err)
		}
		if i := memory.Info(); i.Advertised || !i.PeerAdvertised || i.Channel != 1 || i.Generation != 3 ||
			string(i.PeerIdentity) != string(a.Info().PeerIdentity) || len(i.LocalIdentity) != 32 {
			t.Errorf("info %+v", i)
		}
		u := newUser()
		u.t = memory
		if err := memory.Start(u); err != nil {
			t.Fatal(err)
		}
		if err := memory.Start(u); err != ErrStarted {
			t.Errorf("second Start: %v", err)
		}
		u.send(message{0x100, "to the peer"})
		r.want("a channel of the peer's", 0x01, 0x100, "to the peer")
		// Advertised, but nobody listens yet.
		r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "lost"})
		r.mustFire(shot{ch: onDiscovery, typ: frame.TypeClose})
		wantCause(t, a, io.EOF)
		if s := a.Stats(); s.Unstarted != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A counter endpoint counts how often it is asked.
type asked struct {
	user
	appends int
}

func (u *asked) Append(b []byte) ([]byte, frame.Type, bool) {
	u.mu.Lock()
	u.appends++
	u.mu.Unlock()
	return u.user.Append(b)
}

// Covers: CORE-5-05
func TestAppendOnlyAfterWake(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := &asked{user: *newUser()}
		u.t, _ = a.Transport(onDiscovery)
		if err := u.t.Start(u); err != nil {
			t.Fatal(err)
		}
		want := func(why string, n int) {
			t.Helper()
			synctest.Wait()
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.appends != n {
				t.Errorf("%s: asked %d times, want %d", why, u.appends, n)
			}
			u.appends = 0
		}
		want("Start", 1)
		for range 3 {
			r.wantAlive("PONGs are no reason to ask")
		}
		want("without a Wake", 0)
		u.send(message{0x101, "a"}, message{0x101, "b"})
		r.want("a", onDiscovery, 0x101, "a")
		if h, plain, err := r.next(); err != nil || plain != "b" {
			t.Fatal(h, err)
		}
		want("until there is nothing", 3)
	})
}

// Covers: CORE-g3-04
func TestCloseBeforeStart(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			c, s := memPair(t, clientConfig(g.number), serverConfig(g.number))
			start(t, s)
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			wantCause(t, s, io.EOF)
		})
	})
}

// Covers: CORE-g3-03, C50
func TestLastFrameArrives(t *testing.T) {
	// Over TCP, with much under way in both directions: closing a socket that still
	// has something to read resets the connection, and the last frame, which the
	// peer has not read yet, must not be lost to that.
	rows(t, func(t *testing.T, g *generation) {
		for _, how := range []string{"Abort", "Close"} {
			for range 5 {
				cc, sc := clientConfig(g.number), serverConfig(g.number)
				cc.NoFlowControl, sc.NoFlowControl = true, true
				c, s := tlsPair(t, cc, sc)
				cu, su := start(t, c), start(t, s)
				release, seen := make(chan struct{}), make(chan struct{}, 1)
				cu.hook = func(frame.Frame) { <-release }
				su.hook = func(frame.Frame) {
					select {
					case seen <- struct{}{}:
					default:
					}
				}
				su.send(repeat(100, message{0x101, strings.Repeat("r", 20_000)})...)
				cu.send(repeat(2000, message{0x100, strings.Repeat("q", 20_000)})...)
				<-seen
				done := make(chan struct{})
				if how == "Abort" {
					su.t.Abort(frame.CodeUnknownCriticalTLV, ErrFrame)
					close(done)
				} else {
					go func() { s.Close(); close(done) }()
				}
				close(release)
				<-done
				err := c.Wait()
				var pe *PeerError
				switch {
				case how == "Close":
					if err != io.EOF {
						t.Errorf("client ended with %v", err)
					}
					wantCause(t, s, ErrClosed)
				case g.number == 3:
					if !errors.As(err, &pe) || pe.Code != frame.CodeUnknownCriticalTLV {
						t.Errorf("client ended with %v", err)
					}
					wantCause(t, s, ErrFrame)
				}
			}
		}
	})
}

// Covers: CORE-g3-04
func TestCloseNotNeededAnyMore(t *testing.T) {
	// The peer's CLOSE comes before ours could go out.
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, nil)
		u := start(t, a)
		u.send(message{0x101, "stuck"})
		synctest.Wait()
		done := make(chan error)
		go func() { done <- a.Close() }()
		synctest.Wait()
		r.mustFire(shot{ch: onControl, typ: frame.TypeClose})
		synctest.Wait()
		r.want("what was stuck", onDiscovery, 0x101, "stuck")
		r.want("acknowledged, and nothing else", onControl, frame.TypeCloseAck, "")
		r.wantEnd("the end")
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Covers: CORE-g3-04
func TestNothingAfterClose(t *testing.T) {
	// PONGs that waited for the peer's window stay unsent when it opens.
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, false, func(c *Config) { c.MaxSend = 2 << 20 })
		u := start(t, a)
		fill := strings.Repeat("f", 1<<20-frame.TagLen)
		u.send(message{0x101, fill})
		r.want("fills the window", onDiscovery, 0x101, fill)
		r.mustFire(shot{ch: onDiscovery, typ: frame.TypePing})
		synctest.Wait()
		done := make(chan error)
		go func() { done <- a.Close() }()
		r.want("CLOSE", onControl, frame.TypeClose, "")
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1 << 30)})
		synctest.Wait()
		r.mustFire(shot{ch: onControl, typ: frame.TypeCloseAck})
		r.wantEnd("nothing in between")
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Covers: CORE-g3-04
func TestCloseAgainstDeafPeerOverTLS(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		cc := clientConfig(g.number)
		cc.NoFlowControl = true
		c, s := tlsPair(t, cc, serverConfig(g.number))
		cu := start(t, c) // and s is not started: it reads nothing
		cu.send(repeat(200, message{0x100, strings.Repeat("q", 200_000)})...)
		began := time.Now()
		c.Close()
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("Close took %v", d)
		}
		wantCause(t, c, ErrClosed)
		s.Close()
	})
}

// Covers: C-limits
func TestIdleReaderOverTLS(t *testing.T) {
	// The reader's deadline for giving a large buffer back does not disturb TLS.
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p, q := net.Pipe()
		alpn := []string{"n-pamp/3"}
		var s *Association
		var serr error
		var wg sync.WaitGroup
		wg.Go(func() {
			s, serr = Server(t.Context(), tls.Server(q, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: alpn}), serverConfig())
		})
		c, err := Client(t.Context(), tls.Client(p, &tls.Config{InsecureSkipVerify: true, NextProtos: alpn}), clientConfig())
		wg.Wait()
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		cu, su := start(t, c), start(t, s)
		big := strings.Repeat("b", 300_000)
		for range 3 {
			cu.send(message{0x100, big})
			su.want(t, "a large frame", message{0x100, big})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if n := s.in.frames.Size(); n > idleBuffer {
				t.Errorf("the reader still holds %d octets", n)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
