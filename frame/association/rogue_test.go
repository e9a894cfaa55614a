package association

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// A rogue is a peer that sends what it is told to. It does the handshake by the
// book and then has its own state, so that it can go off it.
type rogue struct {
	t      *testing.T
	conn   net.Conn
	frames *frame.Reader
	gen    *generation
	client bool
	suite  keys.Suite
	send   line
	recv   line
}

// A line is one direction.
type line struct {
	d     keys.Direction
	root  []byte
	seq   map[frame.ChannelID]uint64
	epoch map[frame.ChannelID]uint64
}

func newLine(d keys.Direction, root []byte) line {
	return line{d, append([]byte(nil), root...), map[frame.ChannelID]uint64{}, map[frame.ChannelID]uint64{}}
}

func (l *line) key(t *testing.T, s keys.Suite, ch frame.ChannelID) *keys.Key {
	t.Helper()
	k, err := keys.NewTrafficKey(keys.SHA256, l.root, l.d, l.epoch[ch], s, ch)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// advance makes root the line's, whose channels start over.
func (l *line) advance(root []byte) {
	*l = newLine(l.d, root)
}

// bubble runs a test in a synctest bubble once for each generation and each side
// that we can be on.
func bubble(t *testing.T, test func(t *testing.T, g *generation, client bool)) {
	rows(t, func(t *testing.T, g *generation) {
		for _, client := range []bool{true, false} {
			name := "as-server"
			if client {
				name = "as-client"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, g, client) })
			})
		}
	})
}

// withRogue returns our side of an association, as client or server, whose other
// end is a rogue. change, if not nil, is made to our configuration.
func withRogue(t *testing.T, g *generation, client bool, change func(*Config)) (*Association, *rogue) {
	t.Helper()
	p, q := net.Pipe()
	return rogueOver(t, p, q, g, client, change)
}

func rogueOver(t *testing.T, p, q net.Conn, g *generation, client bool, change func(*Config)) (*Association, *rogue) {
	t.Helper()
	cfg := testConfig(1, []int{g.number})
	if change != nil {
		change(cfg)
	}
	other, err := testConfig(2, []int{g.number}).resolve()
	if err != nil {
		t.Fatal(err)
	}
	h := &handshake{conn: q, gen: g, cfg: other, client: !client}
	var wg sync.WaitGroup
	var herr error
	wg.Go(func() { herr = h.run() })
	var a *Association
	if client {
		a, err = Client(t.Context(), p, cfg)
	} else {
		a, err = Server(t.Context(), p, cfg)
	}
	wg.Wait()
	if err != nil || herr != nil {
		t.Fatal(err, herr)
	}
	q.SetDeadline(time.Now().Add(20 * time.Second))
	h.frames.SetMaxFrame(frame.MaxFrameLen)
	r := &rogue{t: t, conn: q, frames: h.frames, gen: g, client: !client, suite: h.suite,
		send: newLine(direction(!client), h.master), recv: newLine(direction(client), h.master)}
	t.Cleanup(func() { q.Close(); a.Close() })
	return a, r
}

// A shot is a frame that the rogue sends.
type shot struct {
	ch      frame.ChannelID
	typ     frame.Type
	payload string
	flags   frame.Flags // besides ENC
	clear   bool        // not encrypted
	seq     *uint64     // in place of the next
	tag     bool        // flip an octet of the tag
	raw     func([]byte) []byte
}

// at is a sequence number for a shot.
func at(n uint64) *uint64 { return &n }

// load returns the octets of a shot. One that is as it should be takes the next
// sequence number.
func (r *rogue) load(s shot) []byte {
	r.t.Helper()
	h := frame.Header{Flags: s.flags, Type: s.typ, Channel: s.ch, Seq: r.send.seq[s.ch]}
	if s.seq != nil {
		h.Seq = *s.seq
	}
	var b []byte
	if s.clear {
		h.PayloadLen = uint32(len(s.payload))
		b = append(frame.AppendHeader(nil, h), s.payload...)
	} else {
		h.Flags |= frame.FlagENC
		b = append(make([]byte, frame.HeaderLen), s.payload...)
		b = r.send.key(r.t, r.suite, s.ch).SealFrame(b, 0, h)
		if s.tag {
			b[len(b)-1] ^= 1
		}
	}
	if !s.clear && !s.tag && s.seq == nil && s.raw == nil {
		r.send.seq[s.ch]++
	}
	if s.raw != nil {
		b = s.raw(b)
	}
	return b
}

// fire writes shots in one write. An error is returned: our side may have gone.
func (r *rogue) fire(shots ...shot) error {
	r.t.Helper()
	var b []byte
	for _, s := range shots {
		b = append(b, r.load(s)...)
	}
	_, err := r.conn.Write(b)
	return err
}

// mustFire is fire where nothing may fail.
func (r *rogue) mustFire(shots ...shot) {
	r.t.Helper()
	if err := r.fire(shots...); err != nil {
		r.t.Fatalf("rogue: %v", err)
	}
}

// next reads and opens the next frame.
func (r *rogue) next() (frame.Header, string, error) {
	h, raw, err := r.frames.Next()
	if err != nil {
		return h, "", err
	}
	if h.Flags != frame.FlagENC {
		return h, "", fmt.Errorf("flags %v", h.Flags)
	}
	if h.Seq != r.recv.seq[h.Channel] {
		return h, "", fmt.Errorf("sequence number %d on %v, want %d", h.Seq, h.Channel, r.recv.seq[h.Channel])
	}
	r.recv.seq[h.Channel]++
	plain, err := r.recv.key(r.t, r.suite, h.Channel).OpenFrame(h, raw)
	return h, string(plain), err
}

// want reads one frame and checks it.
func (r *rogue) want(why string, ch frame.ChannelID, typ frame.Type, payload string) {
	r.t.Helper()
	h, plain, err := r.next()
	if err != nil {
		r.t.Fatalf("%s: %v", why, err)
	}
	if h.Channel != ch || h.Type != typ || plain != payload {
		r.t.Fatalf("%s: got %s on %v with %x, want %s on %v with %x", why,
			frame.TypeName(h.Channel, h.Type), h.Channel, plain, frame.TypeName(ch, typ), ch, payload)
	}
}

// wantEnd checks that our side ends the stream and sends nothing more.
func (r *rogue) wantEnd(why string) {
	r.t.Helper()
	h, plain, err := r.next()
	if err == nil {
		r.t.Fatalf("%s: got %s with %x, want the end", why, frame.TypeName(h.Channel, h.Type), plain)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		r.t.Fatalf("%s: got %v, want the end", why, err)
	}
}

// wantRefusal checks how our side ends because of what the rogue sent: ERROR with
// the code in generation 3, and silence in 2.
func (r *rogue) wantRefusal(why string, code frame.ErrorCode) {
	r.t.Helper()
	if r.gen.number == 3 && code != 0 {
		r.want(why, frame.ChannelControl, frame.TypeError, "\xa2\x01"+string(rune(code))+"\x02\x40")
	}
	r.wantEnd(why)
}

// wantAlive checks that nothing was sent and the association lives: a PING is
// answered.
func (r *rogue) wantAlive(why string) {
	r.t.Helper()
	r.mustFire(shot{ch: frame.ChannelDiscovery, typ: frame.TypePing, payload: "still there?"})
	r.want(why, frame.ChannelDiscovery, frame.TypePong, "still there?")
}
