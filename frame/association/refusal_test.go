package association

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/npamp/disco/frame"
)

const (
	onControl   = frame.ChannelControl
	onDiscovery = frame.ChannelDiscovery
)

// A fate is what becomes of a frame in one generation.
type fate struct {
	dies  bool            // the association ends
	code  frame.ErrorCode // with this in a ProtocolError, and ERROR if sent
	mute  bool            // ERROR is not sent all the same
	count func(Stats) uint64
}

func drop(count func(Stats) uint64) fate { return fate{count: count} }
func fatal(code frame.ErrorCode) fate    { return fate{dies: true, code: code} }

// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.3-01, CORE-4.6-01, CORE-4.6-02, CORE-4.7-01
// Covers: CORE-4.7-02, CORE-4.7-03, CORE-5-02, CORE-9-01, CORE-11.3-01, CORE-11.4-01, CORE-11.6-01
// Covers: CORE-g3-01, CORE-g3-02, CORE-g3-04, CORE-g3-05, CH00-3-01, CH00-3-02, DISC-2-02, DISC-2-03
// Covers: DISC-3-04, CH10-7-02, C13, C33, C35, C50, C58
func TestRefusals(t *testing.T) {
	forbidden := func(s Stats) uint64 { return s.Forbidden }
	grease := func(s Stats) uint64 { return s.Grease }
	unadvertised := func(s Stats) uint64 { return s.Unadvertised }
	clear := func(s Stats) uint64 { return s.Clear }
	forged := func(s Stats) uint64 { return s.ForgedClose }
	badTag := func(s Stats) uint64 { return s.BadTag }
	gap := func(s Stats) uint64 { return s.Gap }
	reserved := func(s Stats) uint64 { return s.Reserved }
	unlisted := func(s Stats) uint64 { return s.Unlisted }
	path := func(s Stats) uint64 { return s.Path }
	flow := func(s Stats) uint64 { return s.Flow }
	unsolicited := func(s Stats) uint64 { return s.Unsolicited }
	peerErrors := func(s Stats) uint64 { return s.PeerErrors }
	pong := func(s Stats) uint64 { return s.PongIgnored }

	const (
		unexpected = frame.CodeUnexpectedMessage
		outOfOrder = frame.CodeKeyUpdateOutOfOrder
		marker1    = "\x00\x17\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01"
		marker2    = "\x00\x17\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"
		ratchet1   = "\x00\x19\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01"
		ratchet2   = "\x00\x19\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"
	)
	framing := fatal(unexpected)
	tests := []struct {
		name   string
		shot   shot
		g2, g3 fate
	}{
		// Framing.
		{"crc and magic", shot{ch: onDiscovery, typ: 0x100, raw: func(b []byte) []byte { b[0] ^= 1; return b }}, framing, framing},
		{"reserved octets", shot{ch: onDiscovery, typ: 0x100, raw: func(b []byte) []byte { b[30] = 1; return b }}, framing, framing},
		{"version", shot{ch: onDiscovery, typ: 0x100, raw: reseal(func(b []byte) { b[4] = 0x32 })}, framing, framing},
		{"magic", shot{ch: onDiscovery, typ: 0x100, raw: reseal(func(b []byte) { b[0] = 'M' })}, framing, framing},
		{"length cap", shot{ch: onDiscovery, typ: 0x100, raw: reseal(func(b []byte) { b[17] = 1 })}, framing, framing},

		// Channels.
		{"channel ffff", shot{ch: 0xFFFF, typ: 0x100}, drop(forbidden), drop(forbidden)},
		{"grease", shot{ch: 0xF000, typ: 0x100}, drop(grease), drop(grease)},
		{"last grease", shot{ch: 0xFFFE, typ: frame.TypeClose}, drop(grease), drop(grease)},
		{"unadvertised", shot{ch: 0x0001, typ: 0x100}, drop(unadvertised), drop(unadvertised)},
		{"future core channel", shot{ch: 0x0014, typ: 0x100}, drop(unadvertised), drop(unadvertised)},
		{"extension channel", shot{ch: 0xEFFF, typ: frame.TypePing}, drop(unadvertised), drop(unadvertised)},
		{"unadvertised, clear", shot{ch: 0x0001, typ: 0x100, clear: true}, drop(unadvertised), drop(unadvertised)},

		// Authentication and sequence.
		{"clear", shot{ch: onDiscovery, typ: 0x100, payload: "\xa2\x00", clear: true}, drop(clear), drop(clear)},
		{"bad tag", shot{ch: onDiscovery, typ: 0x100, tag: true}, drop(badTag), drop(badTag)},
		{"no room for a tag", shot{ch: onDiscovery, typ: 0x100, raw: func([]byte) []byte {
			return frame.AppendHeader(nil, frame.Header{Flags: frame.FlagENC, Type: 0x100, Channel: onDiscovery})
		}}, drop(badTag), drop(badTag)},
		{"forged close", shot{ch: onControl, typ: frame.TypeClose, tag: true}, drop(forged), drop(forged)},
		{"clear close", shot{ch: onControl, typ: frame.TypeClose, clear: true}, drop(forged), drop(forged)},
		{"gap", shot{ch: onDiscovery, typ: 0x100, seq: at(5)}, fate{dies: true, code: unexpected, mute: true}, drop(gap)},
		{"forged gap", shot{ch: onDiscovery, typ: 0x100, seq: at(5), tag: true}, drop(badTag), drop(gap)},

		// Types.
		{"type 0", shot{ch: onDiscovery, typ: 0}, drop(reserved), fatal(unexpected)},
		{"type 0 on control", shot{ch: onControl, typ: 0}, drop(reserved), fatal(unexpected)},
		{"type 000b", shot{ch: onDiscovery, typ: 0x0B}, drop(reserved), fatal(unexpected)},
		{"type 002f", shot{ch: onControl, typ: 0x2F}, drop(reserved), fatal(unexpected)},
		{"type 0080 on control", shot{ch: onControl, typ: 0x80}, drop(unlisted), fatal(unexpected)},
		{"type 00fe on control", shot{ch: onControl, typ: 0xFE}, drop(unlisted), fatal(unexpected)},
		{"type 0108 on control", shot{ch: onControl, typ: 0x108}, drop(unlisted), fatal(unexpected)},
		{"hello on control", shot{ch: onControl, typ: frame.TypeHello, payload: "\xa2\x00\x01\x01\x81\x10"}, drop(unlisted), fatal(unexpected)},
		{"sealed CLIENT_HELLO", shot{ch: onControl, typ: frame.TypeClientHello}, drop(unlisted), fatal(unexpected)},
		{"sealed SERVER_AUTH", shot{ch: onControl, typ: frame.TypeServerAuth}, drop(unlisted), fatal(unexpected)},
		{"clear CLIENT_HELLO", shot{ch: onControl, typ: frame.TypeClientHello, clear: true}, drop(clear), drop(clear)},

		// Acknowledgements of nothing.
		{"CLOSE_ACK", shot{ch: onControl, typ: frame.TypeCloseAck}, drop(unsolicited), fatal(unexpected)},
		{"KEY_UPDATE_ACK", shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: marker1}, fate{}, fatal(unexpected)},
		{"MASTER_RATCHET_ACK", shot{ch: onControl, typ: frame.TypeMasterRatchetAck, payload: ratchet1}, fate{}, fatal(unexpected)},
		{"REKEM_ACK", shot{ch: onControl, typ: frame.TypeRekemAck}, drop(unsolicited), fatal(unexpected)},

		// Bodies.
		{"KEY_UPDATE + 2", shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: marker2}, fatal(outOfOrder), fatal(outOfOrder)},
		{"KEY_UPDATE empty", shot{ch: onDiscovery, typ: frame.TypeKeyUpdate}, fatal(outOfOrder), fatal(outOfOrder)},
		{"KEY_UPDATE trailing", shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: marker1 + "\x00"}, fatal(outOfOrder), fatal(outOfOrder)},
		{"KEY_UPDATE other TLV", shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: ratchet1}, fatal(outOfOrder), fatal(outOfOrder)},
		{"KEY_UPDATE_ACK malformed", shot{ch: onDiscovery, typ: frame.TypeKeyUpdateAck, payload: "x"}, fate{}, fatal(outOfOrder)},
		{"MASTER_RATCHET + 2", shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchet2}, fatal(unexpected), fatal(unexpected)},
		{"MASTER_RATCHET malformed", shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: marker1}, fatal(unexpected), fatal(unexpected)},
		{"REKEM malformed", shot{ch: onControl, typ: frame.TypeRekem, payload: ratchet1}, fatal(unexpected), fatal(unexpected)},
		{"CLOSE with a body", shot{ch: onControl, typ: frame.TypeClose, payload: "x"}, fate{dies: true}, fatal(unexpected)},
		{"FLOW_UPDATE of 7", shot{ch: onControl, typ: frame.TypeFlowUpdate, payload: "1234567"}, drop(flow), fatal(unexpected)},
		{"FLOW_UPDATE on 0010", shot{ch: onDiscovery, typ: frame.TypeFlowUpdate, payload: "12345678"}, drop(flow), fatal(unexpected)},

		// Ignored by design.
		{"PATH_CHALLENGE", shot{ch: onControl, typ: frame.TypePathChallenge}, drop(path), drop(path)},
		{"PATH_RESPONSE", shot{ch: onDiscovery, typ: frame.TypePathResponse}, drop(path), drop(path)},
		{"PONG", shot{ch: onDiscovery, typ: frame.TypePong, payload: "12345678"}, drop(pong), drop(pong)},
		{"ERROR", shot{ch: onControl, typ: frame.TypeError, payload: "\xa2\x01\x07\x02\x40"}, drop(peerErrors), fate{dies: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				want := test.g2
				if g.number == 3 {
					want = test.g3
				}
				a, r := withRogue(t, g, client, nil)
				u := start(t, a)
				err := r.fire(test.shot)
				if !want.dies {
					if err != nil {
						t.Fatal(err)
					}
					r.wantAlive(test.name)
					if want.count != nil && want.count(a.Stats()) != 1 {
						t.Errorf("counted %+v", a.Stats())
					}
					a.Close()
				} else {
					switch {
					case test.shot.typ == frame.TypeError:
						r.wantEnd(test.name) // never answered
						want := &PeerError{}
						if !errors.As(a.Wait(), &want) || want.Code != 7 || want.Handshake {
							t.Errorf("cause %v", a.Wait())
						}
					case test.shot.typ == frame.TypeClose && want.code == 0:
						r.want(test.name, onControl, frame.TypeCloseAck, "")
						r.wantEnd(test.name)
						wantCause(t, a, io.EOF)
					case want.mute:
						r.wantEnd(test.name)
					default:
						r.wantRefusal(test.name, want.code)
					}
					var pe *ProtocolError
					if err := a.Wait(); errors.As(err, &pe) && pe.Code != want.code {
						t.Errorf("cause %v has code %d, want %d", err, pe.Code, want.code)
					}
				}
				if n := u.received(); n != 0 {
					t.Errorf("%d frames were handed up", n)
				}
			})
		})
	}
}

// reseal changes a header and makes its checksum right again.
func reseal(change func(b []byte)) func([]byte) []byte {
	return func(b []byte) []byte {
		change(b)
		crc := frame.CRC32C(b[:frame.AADLen])
		for i := range 4 {
			b[frame.AADLen+i] = byte(crc >> (24 - 8*i))
		}
		return b
	}
}

// Covers: CORE-4.3-01, C34
func TestReservedFlags(t *testing.T) {
	for _, flag := range []frame.Flags{frame.FlagURG, frame.FlagFRAG, frame.FlagCOMP} {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			u := start(t, a)
			err := r.fire(shot{ch: onDiscovery, typ: 0x100, payload: "x", flags: flag})
			if g.number == 3 && flag != frame.FlagCOMP {
				r.wantRefusal("reserved flag", frame.CodeUnexpectedMessage)
				if err := a.Wait(); !errors.Is(err, frame.ErrReservedFlag) {
					t.Errorf("cause %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			u.want(t, "flags go up as they are", message{0x100, "x"})
			if u.flags[0] != flag|frame.FlagENC {
				t.Errorf("flags %v", u.flags[0])
			}
		})
	}
}

// Covers: CORE-11.4-01, C35
func TestReplay(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		first := r.load(shot{ch: onDiscovery, typ: 0x100, payload: "once"})
		second := r.load(shot{ch: onDiscovery, typ: 0x100, payload: "twice"})
		for _, b := range [][]byte{first, second, first, second} {
			if _, err := r.conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		u.want(t, "each frame once", message{0x100, "once"}, message{0x100, "twice"})
		r.wantAlive("after the replay")
		if s := a.Stats(); s.Replay != 2 || u.received() != 0 {
			t.Errorf("replay %d, handed up %d more", s.Replay, u.received())
		}
	})
}

// Covers: CORE-g3-01
func TestForgedFrames(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, nil)
		u := start(t, a)
		sent := 0
		for sent < 5000 {
			s := shot{ch: onDiscovery, typ: 0x100, payload: "forged", tag: true}
			if sent%2 == 1 {
				s = shot{ch: onDiscovery, typ: 0x100, payload: "forged", clear: true}
			}
			if r.fire(s) != nil {
				break
			}
			sent++
		}
		if g.number == 2 {
			r.wantEnd("past the budget")
			var pe *ProtocolError
			if err := a.Wait(); !errors.As(err, &pe) || pe.Err != errBudget {
				t.Errorf("cause %v", err)
			}
			if s := a.Stats(); s.BadTag+s.Clear != 1025 {
				t.Errorf("ended after %d forged frames", s.BadTag+s.Clear)
			}
			return
		}
		if sent != 5000 {
			t.Fatalf("association ended after %d forged frames: %v", sent, a.Wait())
		}
		r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "real"})
		u.want(t, "the real one", message{0x100, "real"})
		if s := a.Stats(); s.BadTag != 2500 || s.Clear != 2500 {
			t.Errorf("counted %d, %d", s.BadTag, s.Clear)
		}
	})
}

// Covers: CORE-5-01, A11
func TestPeerDidNotAdvertise(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, func(c *Config) { c.PeerChannels = []frame.ChannelID{} })
		u := start(t, a)
		if u.t.Info().PeerAdvertised || !u.t.Info().Advertised {
			t.Fatalf("info %+v", u.t.Info())
		}
		u.send(message{0x100, "must not leave"})
		r.mustFire(
			shot{ch: onDiscovery, typ: frame.TypePing, payload: "no answer"},
			shot{ch: onDiscovery, typ: frame.TypeKeyUpdate, payload: string(marker(frame.TagKeyUpdateMarker, 1))},
		)
		r.send.epoch[onDiscovery], r.send.seq[onDiscovery] = 1, 0
		r.mustFire(shot{ch: onDiscovery, typ: 0x103, payload: "heard"})
		u.want(t, "we accept what we advertise", message{0x103, "heard"})
		go a.Close()
		r.want("nothing but CLOSE", onControl, frame.TypeClose, "")
		if s := a.Stats(); s.PingsDropped != 1 || s.Unanswered != 1 || s.KeyUpdatesIn != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Covers: CORE-4.2-04
func TestSequenceExhausted(t *testing.T) {
	t.Run("sending", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, func(c *Config) { c.UpdateFrames = 1<<64 - 1 })
			c := a.channel(onDiscovery)
			c.out.seq = 1<<64 - 2
			r.recv.seq[onDiscovery] = 1<<64 - 2
			u := start(t, a)
			u.send(message{0x100, "under the new key"})
			r.want("the last number goes to", onDiscovery, frame.TypeKeyUpdate, string(marker(frame.TagKeyUpdateMarker, 1)))
			r.recv.epoch[onDiscovery], r.recv.seq[onDiscovery] = 1, 0
			r.want("no number is used twice", onDiscovery, 0x100, "under the new key")
		})
	})
	t.Run("receiving", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, r := withRogue(t, g, client, nil)
			a.channel(onDiscovery).in.seq = 1<<64 - 2
			r.send.seq[onDiscovery] = 1<<64 - 2
			u := start(t, a)
			r.mustFire(shot{ch: onDiscovery, typ: 0x100, payload: "last"})
			u.want(t, "the last number but one", message{0x100, "last"})
			r.fire(shot{ch: onDiscovery, typ: 0x100, payload: "none left after this"})
			r.wantRefusal("the last number", frame.CodeUnexpectedMessage)
			wantCause(t, a, ErrSequence)
		})
	})
}

// Covers: C42, CORE-4.2-02
func TestFrameLimit(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		const limit = 70000
		a, r := withRogue(t, g, client, func(c *Config) { c.MaxFrame = limit })
		u := start(t, a)
		for _, n := range []int{65535, 65536, 65537, limit - frame.HeaderLen - frame.TagLen} {
			big := string(make([]byte, n))
			r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: big})
			u.want(t, fmt.Sprint(n), message{0x101, big})
		}
		// The header alone is enough.
		h := frame.AppendHeader(nil, frame.Header{Flags: frame.FlagENC, Type: 0x101, Channel: onDiscovery,
			Seq: 4, PayloadLen: limit - frame.HeaderLen + 1})
		if _, err := r.conn.Write(h); err != nil {
			t.Fatal(err)
		}
		r.wantRefusal("one octet more", frame.CodeUnexpectedMessage)
		wantCause(t, a, frame.ErrTooLong)
	})
}
