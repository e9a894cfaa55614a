package association

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// waiting returns how many orders wait for the writer. Nothing runs.
func (a *Association) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue) + len(a.out.orders)
}

// updates sends n KEY_UPDATEs on ch, the first to epoch from.
func (r *rogue) updates(ch frame.ChannelID, from uint64, n int) {
	r.t.Helper()
	for epoch := from; epoch < from+uint64(n); epoch++ {
		r.mustFire(shot{ch: ch, typ: frame.TypeKeyUpdate, payload: epochMarker(epoch)})
		r.send.nextEpoch(ch)
	}
}

// Covers: CORE-g3-05, C51
func TestKeyUpdateFlood(t *testing.T) {
	// Nobody reads our answers: they wait as one, whatever their number. All are
	// sent in the end, and a peer that asks for too many is let go.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		r.conn.SetDeadline(time.Time{})
		start(t, a)
		r.updates(onDiscovery, 1, changeBurst)
		synctest.Wait()
		if n := a.waiting(); n > 2 {
			t.Errorf("%d orders wait", n)
		}
		for epoch := uint64(1); epoch <= changeBurst; epoch++ {
			r.want("each is acknowledged", onDiscovery, frame.TypeKeyUpdateAck, epochMarker(epoch))
		}
		synctest.Wait()
		if a.queued != 0 || a.waiting() != 0 {
			t.Errorf("%d orders are left, %d counted", a.waiting(), a.queued)
		}
		time.Sleep(time.Second / 2)
		r.updates(onDiscovery, changeBurst+1, changeRate/2)
		for n := range uint64(changeRate / 2) {
			r.want("as many as half a second gives", onDiscovery, frame.TypeKeyUpdateAck, epochMarker(changeBurst+1+n))
		}
		r.fire(shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: epochMarker(changeBurst + changeRate/2 + 1)})
		r.wantRefusal("and one more", frame.CodeUnexpectedMessage)
		wantCause(t, a, errFlood)
	})
}

// Covers: HB-9-01
func TestRatchetFlood(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		ratchet := func(gen uint64) error {
			err := r.fire(shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchetMarker(gen)})
			r.send.advance(keys.RatchetStep(keys.SHA256, r.send.root, gen))
			return err
		}
		for gen := uint64(1); gen <= changeBurst; gen++ {
			if err := ratchet(gen); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := a.waiting(); n > 2 {
			t.Errorf("%d orders wait", n)
		}
		for gen := uint64(1); gen <= changeBurst; gen++ {
			r.want("each is acknowledged", onControl, frame.TypeMasterRatchetAck, ratchetMarker(gen))
		}
		ratchet(changeBurst + 1)
		r.wantRefusal("one too many", frame.CodeUnexpectedMessage)
		wantCause(t, a, errFlood)
	})
}

// Covers: HB-9-01
func TestRekemRate(t *testing.T) {
	// A REKEM counts for many simple changes; one that is refused counts too.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		s := shot{ch: onControl, typ: frame.TypeRekem, payload: rekemBody(frame.TagKEMShare, make([]byte, keys.KEMShareLen), 9)}
		for range changeBurst / rekemPrice {
			r.mustFire(s)
			synctest.Wait()
		}
		if n := a.Stats().RekemRefused; n != changeBurst/rekemPrice {
			t.Errorf("%d refused", n)
		}
		r.fire(s)
		r.wantRefusal("one too many", frame.CodeUnexpectedMessage)
		wantCause(t, a, errFlood)
	})
}

// Covers: CORE-g3-05, CORE-g3-06, C62
func TestAcksWaitForTheWindow(t *testing.T) {
	// Acknowledgements on a channel that the peer's window is closed for wait as one
	// too, across a ratchet, and go out when there is room.
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, func(c *Config) { c.MaxSend = 2 << 20 })
		u := start(t, a)
		fill := strings.Repeat("f", 1<<20-frame.TagLen)
		u.send(message{0x101, fill})
		r.want("the whole window", onDiscovery, 0x101, fill)
		r.updates(onDiscovery, 1, 500)
		r.mustFire(shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchetMarker(1)})
		r.send.advance(keys.RatchetStep(keys.SHA256, r.send.root, 1))
		r.want("Control has no window", onControl, frame.TypeMasterRatchetAck, ratchetMarker(1))
		r.updates(onDiscovery, 1, 500)
		synctest.Wait()
		if n := a.waiting(); n != 2 {
			t.Errorf("%d orders wait, want those of two generations", n)
		}
		const each = markerLen + frame.TagLen
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1<<20 + 300*each)})
		for n := range uint64(300) {
			r.want("as many as there is room for", onDiscovery, frame.TypeKeyUpdateAck, epochMarker(n+1))
		}
		synctest.Wait()
		if n := a.waiting(); n != 2 {
			t.Errorf("%d orders wait", n)
		}
		r.mustFire(shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: limitBody(1 << 40)})
		for n := range uint64(700) {
			r.want("the rest", onDiscovery, frame.TypeKeyUpdateAck, epochMarker((n+300)%500+1))
		}
		synctest.Wait()
		if a.queued != 0 || a.waiting() != 0 {
			t.Errorf("%d orders are left, %d counted", a.waiting(), a.queued)
		}
	})
}
