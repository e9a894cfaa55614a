package association

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/frame"
)

func limitBody(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// Covers: CORE-g3-06, C62
func TestFlowControlSending(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		// 2 MiB in frames of 64 KiB on the wire, header included.
		page := strings.Repeat("p", 64<<10-frame.HeaderLen-frame.TagLen)
		u.send(repeat(32, message{0x101, page})...)
		cost, got := len(page)+frame.TagLen, 0
		if g.number == 2 {
			for range 32 {
				r.want("no flow control", onDiscovery, 0x101, page)
			}
			return
		}
		for ; got+cost <= 1<<20; got += cost {
			r.want("within the first window", onDiscovery, 0x101, page)
		}
		synctest.Wait()
		if a.Stats().FlowStalls != 1 {
			t.Errorf("stats %+v", a.Stats())
		}
		// What is left takes a PONG; Control counts for nothing; no update to a lower limit.
		r.mustFire(
			shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1000)},
			shot{ch: onDiscovery, typ: frame.TypePing, payload: "small"},
		)
		r.want("small enough", onDiscovery, frame.TypePong, "small")
		got += len("small") + frame.TagLen
		if err := a.KeyUpdate(onControl); err != nil {
			t.Fatal(err)
		}
		r.want("Control", onControl, frame.TypeKeyUpdate, epochMarker(1))
		r.recv.nextEpoch(onControl)
		// One octet short of the next page, then enough.
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(uint64(got + cost - 1))})
		r.mustFire(shot{ch: onControl, typ: frame.TypePing, payload: "barrier"})
		r.want("not one octet too many", onControl, frame.TypePong, "barrier")
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(uint64(got + cost))})
		r.want("resumes", onDiscovery, 0x101, page)
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1 << 40)})
		for n := 1 + (1<<20)/cost; n < 32; n++ {
			r.want("the rest", onDiscovery, 0x101, page)
		}
		synctest.Wait()
		if s := a.Stats(); s.FlowUpdatesIn != 4 || u.written != 32 {
			t.Errorf("written %d, stats %+v", u.written, s)
		}
	})
}

// A frame that waits for the window is not written, though it was taken with others
// that are.
//
// Covers: C62
func TestHeldFrameIsNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		if g.number == 2 {
			return // no window
		}
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		page := strings.Repeat("p", 20<<10-frame.TagLen) // several in a batch
		u.send(repeat(60, message{0x101, page})...)
		const room = 1 << 20 / (20 << 10)
		for range room {
			r.want("within the first window", onDiscovery, 0x101, page)
		}
		synctest.Wait()
		if u.sent != room+1 || u.written > room {
			t.Errorf("%d frames taken, %d of them called written, %d were", u.sent, u.written, room)
		}
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1 << 40)})
		for range 60 - room {
			r.want("the rest", onDiscovery, 0x101, page)
		}
		synctest.Wait()
		if u.written != 60 {
			t.Errorf("%d called written at the end", u.written)
		}
	})
}

// Covers: CORE-g3-06, C51, C62
func TestFlowControlCountsKeyUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, nil)
		u := start(t, a)
		// The window has room for the frame, but not for KEY_UPDATE before it.
		fill := strings.Repeat("f", 1<<20-frame.TagLen-100)
		a.cfg.MaxSend = 2 << 20
		u.send(message{0x101, fill})
		r.want("fills all but 100 octets", onDiscovery, 0x101, fill)
		synctest.Wait()
		a.cfg.UpdateOctets = 1 // nothing runs: from here on every frame needs a new key
		u.send(message{0x101, strings.Repeat("x", 100-frame.TagLen)})
		synctest.Wait()
		if a.Stats().FlowStalls != 1 || a.Stats().KeyUpdatesOut != 0 {
			t.Errorf("stats %+v", a.Stats())
		}
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1<<20 + 28)})
		r.want("KEY_UPDATE", onDiscovery, frame.TypeKeyUpdate, epochMarker(1))
		r.recv.nextEpoch(onDiscovery)
		r.want("the frame", onDiscovery, 0x101, strings.Repeat("x", 100-frame.TagLen))
	})
}

// Covers: CORE-g3-06, C62
func TestFlowControlReceiving(t *testing.T) {
	page := strings.Repeat("p", 64<<10-frame.TagLen) // 64 KiB of payload
	t.Run("granted at half use", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			for range 7 {
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			}
			r.wantAlive("short exchanges never show the frame")
			// The PING took a few octets: one frame more passes the half.
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			if g.number == 2 {
				r.wantAlive("no flow control")
				return
			}
			r.want("half is used", onControl, frame.TypeFlowUpdate, limitBody(initialWindow+grantWindow))
			// And again at half of that.
			for i := uint64(8); i*64<<10 < initialWindow+grantWindow/2-64<<10; i++ {
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			}
			r.wantAlive("not before")
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			r.want("half is used again", onControl, frame.TypeFlowUpdate, limitBody(initialWindow+2*grantWindow))
			synctest.Wait()
			if n := u.received(); n != (initialWindow+grantWindow/2)/(64<<10) {
				t.Errorf("%d frames", n)
			}
			if s := a.Stats(); s.FlowUpdatesOut != 2 {
				t.Errorf("stats %+v", s)
			}
		})
	})
	t.Run("granted at exactly half", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, r := withRogue(t, &generation3, true, nil)
			start(t, a)
			for range 8 {
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			}
			r.want("half is used", onControl, frame.TypeFlowUpdate, limitBody(initialWindow+grantWindow))
		})
	})
	t.Run("exceeded", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			exact := strings.Repeat("e", 1<<20-frame.TagLen)
			if g.number == 3 {
				// Exactly the window is fine, whatever Control carries besides.
				r.mustFire(shot{ch: onControl, typ: frame.TypePing, payload: exact})
				r.want("Control is not counted", onControl, frame.TypePong, exact[:64])
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: exact})
				u.want(t, "exactly the window", message{0x101, exact})
				r.want("grant", onControl, frame.TypeFlowUpdate, limitBody(initialWindow+grantWindow))
			}
			a2, r := withRogue(t, g, client, nil)
			u = start(t, a2)
			err := r.fire(shot{ch: onDiscovery, typ: 0x101, payload: exact + "!"})
			if g.number == 2 {
				if err != nil {
					t.Fatal(err)
				}
				u.want(t, "no flow control", message{0x101, exact + "!"})
				return
			}
			r.wantRefusal("one octet more", frame.CodeFlowControl)
			var pe *ProtocolError
			if err := a2.Wait(); !errors.As(err, &pe) || pe.Code != frame.CodeFlowControl || u.received() != 0 {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("late", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			u.t.(interface{ Late() }).Late()
			if g.number == 2 {
				r.wantAlive("nothing to grant")
				return
			}
			r.want("room for a frame of any length", onControl, frame.TypeFlowUpdate, limitBody(initialWindow+grantWindow))
			a.Late()
			r.wantAlive("there still is")
		})
	})
	t.Run("forged frames count for nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, r := withRogue(t, &generation3, true, nil)
			start(t, a)
			for range 20 {
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page, tag: true})
			}
			r.wantAlive("1.25 MiB of forged frames")
		})
	})
	t.Run("off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, r := withRogue(t, &generation3, true, func(c *Config) { c.NoFlowControl = true })
			u := start(t, a)
			for range 20 {
				r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: page})
			}
			r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(5)})
			r.wantAlive("nothing granted or enforced")
			u.send(repeat(20, message{0x101, page})...)
			for range 20 {
				r.want("nothing heeded", onDiscovery, 0x101, page)
			}
			if s := a.Stats(); s.Flow != 1 {
				t.Errorf("stats %+v", s)
			}
		})
	})
}
