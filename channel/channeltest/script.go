package channeltest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
)

// String is the type in hex and the payload in hex.
func (f Frame) String() string {
	return fmt.Sprintf("%04x:%x", uint16(f.Type), f.Payload)
}

// A Script is an end without a peer: it sends what it is told to and keeps what
// it receives. Its methods may be called from any goroutine.
type Script struct {
	tr frame.Transport

	b     board
	out   []Frame
	in    []Frame
	reply func(Frame) []Frame
	ended bool
	cause error
}

// NewScript starts a script on a transport.
func NewScript(tr frame.Transport) (*Script, error) {
	s := &Script{tr: tr}
	s.b.init()
	return s, tr.Start((*scriptEnd)(s))
}

// Send queues frames, in order. Flags are not sent: see Way.Edit.
func (s *Script) Send(frames ...Frame) {
	s.b.mu.Lock()
	s.out = append(s.out, frames...)
	s.b.mu.Unlock()
	s.tr.Wake()
}

// SendHex queues one frame whose payload is given in hex, spaces allowed. It
// panics if that is not hex.
func (s *Script) SendHex(t frame.Type, payload string) {
	s.Send(Frame{Type: t, Payload: unhex(payload)})
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic("channeltest: " + err.Error())
	}
	return b
}

// Reply has fn called for every frame that comes, on the reading goroutine, and
// sends what it returns. The frame is kept all the same. nil, as at first, is no
// reply.
func (s *Script) Reply(fn func(Frame) []Frame) { s.b.with(func() { s.reply = fn }) }

// Take returns the frames that came and were not taken yet.
func (s *Script) Take() []Frame {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	in := s.in
	s.in = nil
	return in
}

// Ended reports whether the association has ended, and why.
func (s *Script) Ended() (bool, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.ended, s.cause
}

// Close ends the association.
func (s *Script) Close() error { return s.tr.Close() }

// Patience is how long the Want methods wait. In a bubble it takes no time.
const Patience = 10 * time.Second

// A Matcher says what is wrong with a frame; "" is nothing.
type Matcher func(Frame) string

// OfType matches frames of one of the types.
func OfType(types ...frame.Type) Matcher {
	return func(f Frame) string {
		if slices.Contains(types, f.Type) {
			return ""
		}
		return fmt.Sprintf("want a frame of type %04x", types)
	}
}

// Hex matches one frame alone; spaces are allowed.
func Hex(t frame.Type, payload string) Matcher {
	want := Frame{Type: t, Payload: unhex(payload)}.String()
	return func(f Frame) string {
		if f.String() == want {
			return ""
		}
		return "want " + want
	}
}

// WantFrame takes the next frame, for which it waits, and fails the test if none
// comes or one of the matchers does not match; why is why it should.
func (s *Script) WantFrame(t testing.TB, why string, matchers ...Matcher) Frame {
	t.Helper()
	s.b.mu.Lock()
	deadline := time.Now().Add(Patience)
	for len(s.in) == 0 && !s.ended && time.Now().Before(deadline) {
		s.b.wait(deadline)
	}
	if len(s.in) == 0 {
		ended, cause := s.ended, s.cause
		s.b.mu.Unlock()
		if ended {
			t.Fatalf("%s: the association has ended: %v", why, cause)
		}
		t.Fatalf("%s: nothing came for %v", why, Patience)
	}
	f := s.in[0]
	s.in = s.in[1:]
	s.b.mu.Unlock()
	for _, m := range matchers {
		if wrong := m(f); wrong != "" {
			t.Fatalf("%s:\n got %v\n%s", why, f, wrong)
		}
	}
	return f
}

// WantSilence fails the test if a frame waits, or comes within d; in a bubble, d
// of any length finds what is under way.
func (s *Script) WantSilence(t testing.TB, why string, d time.Duration) {
	t.Helper()
	s.b.mu.Lock()
	for deadline := time.Now().Add(d); len(s.in) == 0 && !s.ended && time.Now().Before(deadline); {
		s.b.wait(deadline)
	}
	in := s.in
	s.b.mu.Unlock()
	if len(in) > 0 {
		t.Fatalf("%s: %d frames came, first %v", why, len(in), in[0])
	}
}

// WantEnd waits until the association ends and returns the cause. It fails the
// test if it does not; frames that come before stay to be taken.
func (s *Script) WantEnd(t testing.TB, why string) error {
	t.Helper()
	s.b.mu.Lock()
	for deadline := time.Now().Add(Patience); !s.ended && time.Now().Before(deadline); {
		s.b.wait(deadline)
	}
	ended, cause := s.ended, s.cause
	s.b.mu.Unlock()
	if !ended {
		t.Fatalf("%s: it did not end within %v", why, Patience)
	}
	return cause
}

type scriptEnd Script

func (e *scriptEnd) Receive(f frame.Frame) {
	got := Frame{Type: f.Type, Payload: slices.Clone(f.Payload), Flags: f.Flags &^ frame.FlagENC}
	var reply func(Frame) []Frame
	e.b.with(func() {
		e.in = append(e.in, got)
		reply = e.reply
	})
	if reply != nil {
		(*Script)(e).Send(reply(got)...)
	}
}

func (e *scriptEnd) Append(b []byte) ([]byte, frame.Type, bool) {
	e.b.mu.Lock()
	defer e.b.mu.Unlock()
	if len(e.out) == 0 {
		return b, 0, false
	}
	f := e.out[0]
	e.out = e.out[1:]
	return append(b, f.Payload...), f.Type, true
}

func (e *scriptEnd) Written() {}

func (e *scriptEnd) Closed(cause error) {
	e.b.with(func() { e.ended, e.cause = true, cause })
}
