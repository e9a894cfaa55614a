package association

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

func epochMarker(n uint64) string { return string(marker(frame.TagKeyUpdateMarker, n)) }
func ratchetMarker(n uint64) string {
	return string(marker(frame.TagRatchetGeneration, n))
}

// nextEpoch makes the line go to ch's next epoch.
func (l *line) nextEpoch(ch frame.ChannelID) {
	l.epoch[ch]++
	l.seq[ch] = 0
}

// Covers: CORE-11.5-01, CORE-7.5-02, HB-5-01, C51
func TestKeyUpdateByBound(t *testing.T) {
	long := time.Hour
	tests := []struct {
		name   string
		change func(*Config)
		pause  time.Duration // before the fourth frame
	}{
		{"frames", func(c *Config) { c.UpdateFrames = 3 }, 0},
		{"octets", func(c *Config) { c.UpdateOctets = 3 * (1 + frame.TagLen) }, 0},
		{"age", func(c *Config) { c.UpdateAge = long }, long},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				a, r := withRogue(t, g, client, test.change)
				r.conn.SetDeadline(time.Time{})
				u := start(t, a)
				for i := range 3 {
					u.send(message{0x101, fmt.Sprint(i)})
					r.want("under the first key", onDiscovery, 0x101, fmt.Sprint(i))
				}
				synctest.Wait()
				time.Sleep(test.pause)
				synctest.Wait()
				old := a.channel(onDiscovery).out.key // the association is idle
				u.send(message{0x101, "3"})
				r.want("before the fourth frame", onDiscovery, frame.TypeKeyUpdate, epochMarker(1))
				r.recv.nextEpoch(onDiscovery)
				r.want("without waiting for the ACK", onDiscovery, 0x101, "3")
				synctest.Wait()
				if !old.Erased() {
					t.Error("the old key is not erased")
				}
				r.mustFire(shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)})
				r.wantAlive("after the ACK")
				if s := a.Stats(); s.KeyUpdatesOut != 1 || s.KeyUpdateAcks != 1 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// Covers: CORE-11.5-01, CORE-g3-05
func TestKeyUpdateOnDemand(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		if err := a.KeyUpdate(0x0001); !errors.Is(err, ErrNotAdvertised) {
			t.Errorf("unadvertised: %v", err)
		}
		// Two in a row on one channel, one on Control; the ACKs come in another order.
		for _, ch := range []frame.ChannelID{onDiscovery, onDiscovery, onControl} {
			if err := a.KeyUpdate(ch); err != nil {
				t.Fatal(err)
			}
		}
		r.want("first", onDiscovery, frame.TypeKeyUpdate, epochMarker(1))
		r.recv.nextEpoch(onDiscovery)
		r.want("second", onDiscovery, frame.TypeKeyUpdate, epochMarker(2))
		r.recv.nextEpoch(onDiscovery)
		r.want("control", onControl, frame.TypeKeyUpdate, epochMarker(1))
		r.recv.nextEpoch(onControl)
		r.mustFire(
			shot{ch: onControl, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(2)},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)},
		)
		u.send(message{0x101, "epoch 2"})
		r.want("data", onDiscovery, 0x101, "epoch 2")
		r.wantAlive("all three are acknowledged")
		// A fourth ACK answers nothing.
		r.fire(shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)})
		if g.number == 3 {
			r.wantRefusal("one ACK too many", frame.CodeUnexpectedMessage)
		} else {
			r.wantAlive("informational")
		}
	})
}

// Covers: CORE-g3-05, CORE-7.5-02
func TestPeerKeyUpdate(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "epoch 0"})
		u.want(t, "epoch 0", message{0x100, "epoch 0"})
		old := r.load(shot{ch: onDiscovery, typ: 0x100, seq: at(0), payload: "old key"})
		for epoch := uint64(1); epoch <= 3; epoch++ {
			update := shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: epochMarker(epoch)}
			b := r.load(update)
			r.send.nextEpoch(onDiscovery)
			text := fmt.Sprint("epoch ", epoch)
			b = append(b, r.load(shot{ch: onDiscovery, typ: 0x100, payload: text})...)
			if _, err := r.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			r.want("ACK with the epoch adopted", onDiscovery, frame.TypeKeyUpdateAck, epochMarker(epoch))
			u.want(t, "under the new key", message{0x100, text})
		}
		// A frame under the old key whose number fits no longer opens.
		b := reseal(func(b []byte) { b[16] = byte(r.send.seq[onDiscovery]) })(old)
		if _, err := r.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		r.wantAlive("a frame under an old key")
		if s := a.Stats(); s.BadTag != 1 || s.KeyUpdatesIn != 3 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Covers: CORE-g3-05
func TestUnacknowledgedUpdates(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		start(t, a)
		last := 0
		for i := range maxOutstanding + 1 {
			if a.KeyUpdate(onDiscovery) != nil {
				break
			}
			if _, _, err := r.next(); err != nil {
				break
			}
			r.recv.nextEpoch(onDiscovery)
			last = i + 1
		}
		synctest.Wait()
		if g.number == 3 {
			wantCause(t, a, ErrUnacknowledged)
			return
		}
		if last != maxOutstanding+1 {
			t.Errorf("ended after %d updates", last)
		}
		r.wantAlive("informational")
	})
}

// Covers: HB-9-01
func TestPeerRatchet(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "generation 0"})
		u.want(t, "generation 0", message{0x100, "generation 0"})
		old := a.in.root
		for gen := uint64(1); gen <= 3; gen++ {
			b := r.load(shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchetMarker(gen)})
			r.send.advance(keys.RatchetStep(keys.SHA256, r.send.root, gen))
			text := fmt.Sprint("generation ", gen)
			b = append(b, r.load(shot{ch: onDiscovery, typ: 0x100, payload: text})...)
			if _, err := r.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			r.want("ACK", onControl, frame.TypeMasterRatchetAck, ratchetMarker(gen))
			u.want(t, "every channel starts over", message{0x100, text})
		}
		if !bytes.Equal(old, make([]byte, len(old))) {
			t.Error("the old root is not erased")
		}
	})
}

// Covers: HB-9-01, CORE-g3-05
func TestRatchet(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		// An update before and after the ratchet owes two equal ACKs.
		for gen := uint64(1); gen <= 2; gen++ {
			if err := a.KeyUpdate(onDiscovery); err != nil {
				t.Fatal(err)
			}
			r.want("update", onDiscovery, frame.TypeKeyUpdate, epochMarker(1))
			r.recv.nextEpoch(onDiscovery)
			if err := a.Ratchet(); err != nil {
				t.Fatal(err)
			}
			r.want("ratchet", onControl, frame.TypeMasterRatchet, ratchetMarker(gen))
			r.recv.advance(keys.RatchetStep(keys.SHA256, r.recv.root, gen))
			synctest.Wait()
		}
		u.send(message{0x101, "generation 2"})
		r.want("data", onDiscovery, 0x101, "generation 2")
		r.mustFire(
			shot{ch: onControl, typ: frame.TypeMasterRatchetAck, payload: ratchetMarker(1)},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)},
			shot{ch: onControl, typ: frame.TypeMasterRatchetAck, payload: ratchetMarker(2)},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)},
		)
		r.wantAlive("each ACK is owed once")
		r.fire(shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: epochMarker(1)})
		if g.number == 3 {
			r.wantRefusal("a third", frame.CodeUnexpectedMessage)
		}
	})
}

// rekemBody is the body of REKEM or REKEM_ACK.
func rekemBody(tag uint16, kem []byte, gen uint64) string {
	return string(frame.AppendTLV(nil, tag, kem)) + ratchetMarker(gen)
}

// Covers: HB-9-01, HB-4-01
func TestPeerRekem(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		private, err := keys.GenerateKEM()
		if err != nil {
			t.Fatal(err)
		}
		share := private.Share()
		// Another generation than the next is refused without advancing.
		r.mustFire(shot{ch: onControl, typ: frame.TypeRekem, payload: rekemBody(frame.TagKEMShare, share, 2)})
		r.wantAlive("generation skew")
		if s := a.Stats(); s.RekemRefused != 1 || s.RatchetsOut != 0 {
			t.Errorf("stats %+v", s)
		}
		r.mustFire(shot{ch: onControl, typ: frame.TypeRekem, payload: rekemBody(frame.TagKEMShare, share, 1)})
		h, plain, err := r.next()
		if err != nil || h.Type != frame.TypeRekemAck || h.Channel != onControl {
			t.Fatal(h, err)
		}
		tlvs, err := exactTLVs([]byte(plain), frame.TagKEMCiphertext, frame.TagRatchetGeneration)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := private.Decapsulate(tlvs[0])
		if err != nil {
			t.Fatal(err)
		}
		th := keys.RekemTranscript(keys.SHA256, share, tlvs[0], 1)
		r.recv.advance(keys.RekemStep(keys.SHA256, r.recv.root, secret, th))
		u.send(message{0x101, "healed"})
		r.want("under the new root", onDiscovery, 0x101, "healed")

		low := bytes.Clone(share)
		clear(low[len(low)-32:])
		r.fire(shot{ch: onControl, typ: frame.TypeRekem, payload: rekemBody(frame.TagKEMShare, low, 2)})
		r.wantRefusal("low-order X25519", frame.CodeUnexpectedMessage)
		wantCause(t, a, keys.ErrLowOrder)
	})
}

// Covers: HB-9-01
func TestRekemFlood(t *testing.T) {
	// Nobody reads the answers, so that they pile up.
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		u.send(message{0x101, "stuck"})
		synctest.Wait()
		private, err := keys.GenerateKEM()
		if err != nil {
			t.Fatal(err)
		}
		s := shot{ch: onControl, typ: frame.TypeRekem, payload: rekemBody(frame.TagKEMShare, private.Share(), 1)}
		for range maxRekems {
			r.mustFire(s)
		}
		r.fire(s)
		synctest.Wait()
		r.want("what was stuck", onDiscovery, 0x101, "stuck")
		r.wantRefusal("flood", frame.CodeUnexpectedMessage)
		wantCause(t, a, errFlood)
	})
}

// Covers: HB-9-01
func TestRekem(t *testing.T) {
	begin := func(t *testing.T, g *generation, client bool) (a *Association, r *rogue, u *user, share []byte) {
		t.Helper()
		a, r = withRogue(t, g, client, nil)
		u = start(t, a)
		if err := a.Rekem(); err != nil {
			t.Fatal(err)
		}
		if err := a.Rekem(); err != ErrBusy {
			t.Errorf("second Rekem: %v", err)
		}
		h, plain, err := r.next()
		if err != nil || h.Type != frame.TypeRekem || h.Channel != onControl {
			t.Fatal(h, err)
		}
		tlvs, err := exactTLVs([]byte(plain), frame.TagKEMShare, frame.TagRatchetGeneration)
		if err != nil || !bytes.Equal(tlvs[1], []byte{7: 1}) {
			t.Fatal(err, tlvs)
		}
		return a, r, u, tlvs[0]
	}
	t.Run("healed", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r, u, share := begin(t, g, client)
			ciphertext, secret, err := keys.Encapsulate(share)
			if err != nil {
				t.Fatal(err)
			}
			r.mustFire(shot{ch: onControl, typ: frame.TypeRekemAck, payload: rekemBody(frame.TagKEMCiphertext, ciphertext, 1)})
			th := keys.RekemTranscript(keys.SHA256, share, ciphertext, 1)
			r.send.advance(keys.RekemStep(keys.SHA256, r.send.root, secret, th))
			r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "healed"})
			u.want(t, "under the new root", message{0x100, "healed"})
			if err := a.Rekem(); err != nil {
				t.Errorf("the next one: %v", err)
			}
			if _, plain, err := r.next(); err != nil || !bytes.HasSuffix([]byte(plain), []byte{0, 0, 0, 0, 0, 0, 0, 2}) {
				t.Errorf("the next one: %v", err)
			}
		})
	})
	t.Run("overtaken", func(t *testing.T) {
		// The peer ratchets by itself before it sees REKEM, and so refuses it.
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r, u, _ := begin(t, g, client)
			r.mustFire(shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchetMarker(1)})
			r.send.advance(keys.RatchetStep(keys.SHA256, r.send.root, 1))
			r.want("ACK", onControl, frame.TypeMasterRatchetAck, ratchetMarker(1))
			r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "on"})
			u.want(t, "life goes on", message{0x100, "on"})
			if err := a.Rekem(); err != nil {
				t.Errorf("a new Rekem: %v", err)
			}
			if _, plain, err := r.next(); err != nil || !bytes.HasSuffix([]byte(plain), []byte{0, 0, 0, 0, 0, 0, 0, 2}) {
				t.Errorf("its generation: %v", err)
			}
		})
	})
	for _, bad := range []string{"generation", "layout", "low order"} {
		t.Run(bad, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				a, r, _, share := begin(t, g, client)
				ciphertext, _, err := keys.Encapsulate(share)
				if err != nil {
					t.Fatal(err)
				}
				s := shot{ch: onControl, typ: frame.TypeRekemAck}
				switch bad {
				case "generation":
					s.payload = rekemBody(frame.TagKEMCiphertext, ciphertext, 2)
				case "layout":
					s.payload = rekemBody(frame.TagKEMShare, share, 1)
				case "low order":
					clear(ciphertext[len(ciphertext)-32:])
					s.payload = rekemBody(frame.TagKEMCiphertext, ciphertext, 1)
				}
				r.fire(s)
				r.wantRefusal(bad, frame.CodeUnexpectedMessage)
				if n := a.Stats().RatchetsIn; n != 0 {
					t.Errorf("the root advanced %d times", n)
				}
			})
		})
	}
}

// Covers: HB-9-01, CORE-11.5-01, CORE-5-06
func TestUpdatesUnderLoad(t *testing.T) {
	// Both ends exchange frames over TLS while keys and roots change in every way at
	// once; each frame arrives, in order.
	rows(t, func(t *testing.T, g *generation) {
		cc, sc := clientConfig(g.number), serverConfig(g.number)
		cc.UpdateFrames, sc.UpdateFrames = 7, 11
		c, s := tlsPair(t, cc, sc)
		cu, su := start(t, c), start(t, s)
		const frames = 1000
		var want []message
		for i := range frames {
			want = append(want, message{0x105, fmt.Sprintf("%d %s", i, make([]byte, i%300))})
		}
		for i := range 10 {
			cu.send(want[i*100 : i*100+100]...)
			su.send(want[i*100 : i*100+100]...)
			for _, a := range []*Association{c, s} {
				if err := a.KeyUpdate(onDiscovery); err != nil {
					t.Fatal(err)
				}
				if err := a.Ratchet(); err != nil {
					t.Fatal(err)
				}
				if err := a.Rekem(); err != nil && err != ErrBusy {
					t.Fatal(err)
				}
			}
		}
		su.want(t, "client to server", want...)
		cu.want(t, "server to client", want...)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
