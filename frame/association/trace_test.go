package association

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// Covers: CORE-4.2-04, CORE-8.1-01
func TestTrace(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		var mu sync.Mutex
		var got []string
		a, r := withRogue(t, g, client, func(c *Config) {
			c.Trace = func(f TraceFrame) {
				dir := "in"
				if f.Sent {
					dir = "out"
				}
				mu.Lock()
				defer mu.Unlock()
				text := ""
				if f.Header.Type < 0x100 || f.Header.Channel != onControl {
					text = string(f.Plaintext)
				}
				got = append(got, fmt.Sprintf("%s %v %04x seq %d key %d.%d %q", dir, f.Header.Channel,
					uint16(f.Header.Type), f.Header.Seq, f.Ratchet, f.Epoch, text))
				if f.Header.Flags&frame.FlagENC != 0 && int(f.Header.PayloadLen) != len(f.Plaintext)+frame.TagLen {
					t.Errorf("%s: length %d, plaintext %d", got[len(got)-1], f.Header.PayloadLen, len(f.Plaintext))
				}
			}
		})
		u := start(t, a)
		u.send(message{0x100, "first"})
		r.want("data", onDiscovery, 0x100, "first")
		synctest.Wait()
		if err := a.KeyUpdate(onDiscovery); err != nil {
			t.Fatal(err)
		}
		r.want("update", onDiscovery, frame.TypeKeyUpdate, epochMarker(1))
		r.recv.nextEpoch(onDiscovery)
		u.send(message{0x100, "second"})
		r.want("data", onDiscovery, 0x100, "second")
		r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "forged", tag: true}) // is not seen
		r.mustFire(shot{ch: onControl, typ: frame.TypeMasterRatchet, payload: ratchetMarker(1)})
		r.send.advance(keys.RatchetStep(keys.SHA256, r.send.root, 1))
		r.want("ack", onControl, frame.TypeMasterRatchetAck, ratchetMarker(1))
		r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "third"})
		u.want(t, "data", message{0x101, "third"})
		synctest.Wait()
		want := []string{
			`out Discovery 0100 seq 0 key 0.0 "first"`,
			`out Discovery 0006 seq 1 key 0.0 "\x00\x17\x00\b\x00\x00\x00\x00\x00\x00\x00\x01"`,
			`out Discovery 0100 seq 0 key 0.1 "second"`,
			`in Control 0104 seq 0 key 0.0 ""`,
			`out Control 0105 seq 0 key 0.0 ""`,
			`in Discovery 0101 seq 0 key 1.0 "third"`,
		}
		flights := []string{"in", "out", "out", "in"}
		if client {
			flights = []string{"out", "in", "in", "out"}
		}
		var all []string
		for i, dir := range flights {
			all = append(all, fmt.Sprintf(`%s Control %04x seq 0 key 0.0 ""`, dir, 0x100+i))
		}
		mu.Lock()
		defer mu.Unlock()
		if all = append(all, want...); !slices.Equal(got, all) {
			t.Errorf("got\n%q\nwant\n%q", got, all)
		}
	})
}

// FuzzReceive hands authentic frames of any type and body to an association of
// either generation and either side, straight into its reader. Whatever a peer
// says, nothing panics, an ended association stays ended, and the answers that
// wait for the writer are bounded.
func FuzzReceive(f *testing.F) {
	f.Add(uint8(0), uint8(0x10), uint16(0x0001), []byte("ping"), uint16(0x0100), []byte("\xa2\x00\x19\x01\x00\x01\x41\x01"))
	f.Add(uint8(1), uint8(0x00), uint16(0x0006), marker(frame.TagKeyUpdateMarker, 1), uint16(0x0104), marker(frame.TagRatchetGeneration, 1))
	f.Add(uint8(2), uint8(0x00), uint16(0x0005), []byte("\xa2\x01\x01\x02\x40"), uint16(0x0003), []byte(nil))
	f.Add(uint8(3), uint8(0x00), uint16(0x000A), []byte("12345678"), uint16(0x0004), []byte(nil))
	f.Add(uint8(7), uint8(0x00), uint16(0x0110), []byte("\xa2\x00\x01\x01\x81\x10"), uint16(0x0111), []byte(nil))
	f.Add(uint8(5), uint8(0x00), uint16(0x0106), frame.AppendTLV(nil, frame.TagKEMShare, make([]byte, 1216)), uint16(0x0107), []byte{0, 8, 0, 0})
	f.Fuzz(func(t *testing.T, how, ch uint8, typ1 uint16, body1 []byte, typ2 uint16, body2 []byte) {
		g, client := &generation2, how&2 != 0
		if how&1 != 0 {
			g = &generation3
		}
		cfg, err := (&Config{Identity: testIdentity(1), Hello: &Hello{}}).resolve()
		if err != nil {
			t.Fatal(err)
		}
		p, q := net.Pipe()
		defer q.Close()
		defer p.Close()
		h := &handshake{conn: p, gen: g, cfg: cfg, client: client, suite: keys.SuiteChaCha20Poly1305,
			frames: frame.NewReader(p, g.reserved), secrets: new(keys.HandshakeSecrets), master: make([]byte, 32)}
		a := newAssociation(h)
		a.launched = true // nothing runs
		a.in.hello.awaited = how&4 != 0
		defer func() {
			if a.hardStop != nil {
				a.hardStop.Stop()
			}
		}()
		line := newLine(direction(!client), make([]byte, 32))
		for i := range 64 {
			typ, body := frame.Type(typ1), body1
			if i%2 == 1 {
				typ, body = frame.Type(typ2), body2
			}
			id := frame.ChannelID(ch)
			key, err := keys.NewTrafficKey(keys.SHA256, a.in.root, line.d, a.rxEpoch(id), a.suite, id)
			if err != nil {
				t.Fatal(err)
			}
			seq := uint64(0)
			if c := a.channel(id); c != nil {
				seq = c.in.seq
			}
			b := key.SealFrame(append(make([]byte, frame.HeaderLen), body...), 0,
				frame.Header{Flags: frame.FlagENC, Type: typ, Channel: id, Seq: seq})
			hdr, err := frame.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			before := a.state.Load()
			a.receive(hdr, b)
			if before == stateEnded && a.state.Load() != stateEnded {
				t.Fatal("an ended association lives")
			}
			if before == stateEnded {
				break
			}
		}
		if len(a.queue) > maxControl+maxPongs || a.pongs > maxPongs {
			t.Fatalf("%d orders wait", len(a.queue))
		}
		var pe *PeerError
		if errors.As(a.cause, &pe) && a.last != 0 {
			t.Fatal("an ERROR is answered")
		}
	})
}

// rxEpoch is the epoch that the peer has to send under.
func (a *Association) rxEpoch(id frame.ChannelID) uint64 {
	if c := a.channel(id); c != nil {
		return c.in.epoch
	}
	return 0
}
