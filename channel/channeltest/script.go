// Package channeltest is a test kit for what runs on a Discovery channel: a pair
// of transports in memory, and a scripted end that sends any frame at any moment
// and tells what came. It works inside testing/synctest bubbles.
package channeltest

import (
	"encoding/hex"
	"strings"
	"sync"

	"github.com/npamp/disco/frame"
)

// Info is what both ends of a pair say of themselves unless told otherwise:
// Discovery, advertised by both, of crypto generation 2.
func Info() frame.Info {
	return frame.Info{Channel: frame.ChannelDiscovery, Generation: 2, Advertised: true, PeerAdvertised: true}
}

// Pair returns two connected transports and starts the goroutine that moves
// their frames; it ends when either transport is closed.
func Pair(a, b frame.Info) (frame.Transport, frame.Transport) {
	p := frame.NewPipe(a, b)
	go p.Run()
	return p.Ends()
}

// A Script is an end without a peer: it sends what it is told to and keeps what
// it receives. Its methods may be called from any goroutine.
type Script struct {
	tr frame.Transport

	mu    sync.Mutex
	out   []Frame
	in    []Frame
	ended bool
	cause error
}

// A Frame is a frame as a Script sees it.
type Frame struct {
	Type    frame.Type
	Payload []byte
}

// String is the type in hex and the payload in hex.
func (f Frame) String() string {
	return strings.ToLower(hex.EncodeToString([]byte{byte(f.Type >> 8), byte(f.Type)})) + ":" + hex.EncodeToString(f.Payload)
}

// NewScript starts a script on a transport.
func NewScript(tr frame.Transport) (*Script, error) {
	s := &Script{tr: tr}
	return s, tr.Start((*scriptEnd)(s))
}

// Send queues frames, in order.
func (s *Script) Send(frames ...Frame) {
	s.mu.Lock()
	s.out = append(s.out, frames...)
	s.mu.Unlock()
	s.tr.Wake()
}

// SendHex queues one frame whose payload is given in hex.
func (s *Script) SendHex(t frame.Type, payload string) {
	b, err := hex.DecodeString(strings.ReplaceAll(payload, " ", ""))
	if err != nil {
		panic("channeltest: " + err.Error())
	}
	s.Send(Frame{t, b})
}

// Take returns the frames that came since the last call.
func (s *Script) Take() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.in
	s.in = nil
	return in
}

// Ended reports whether the association has ended, and why.
func (s *Script) Ended() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, s.cause
}

// Close ends the association.
func (s *Script) Close() error { return s.tr.Close() }

type scriptEnd Script

func (e *scriptEnd) Receive(f frame.Frame) {
	e.mu.Lock()
	e.in = append(e.in, Frame{f.Type, append([]byte(nil), f.Payload...)})
	e.mu.Unlock()
}

func (e *scriptEnd) Append(b []byte) ([]byte, frame.Type, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.out) == 0 {
		return b, 0, false
	}
	f := e.out[0]
	e.out = e.out[1:]
	return append(b, f.Payload...), f.Type, true
}

func (e *scriptEnd) Written() {}

func (e *scriptEnd) Closed(cause error) {
	e.mu.Lock()
	e.ended, e.cause = true, cause
	e.mu.Unlock()
}
