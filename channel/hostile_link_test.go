package channel

import (
	"bytes"
	"encoding/hex"
	"sync"
	"testing"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
)

// A link is a transport whose writing goroutine is the test: nothing leaves the
// peer before take. So it plays a peer that reads slowly, or not at all.
type link struct {
	t    *testing.T
	info frame.Info
	user frame.Endpoint

	mu    sync.Mutex // one frame at a time, as on a transport
	ended bool
	cause error
	code  frame.ErrorCode
	once  sync.Once
	done  chan struct{}
}

// linked starts a peer on a link. It is closed when the test ends.
func linked(t *testing.T, cfg Config) (*Peer, *link) {
	t.Helper()
	l := &link{t: t, info: channeltest.Info(), done: make(chan struct{})}
	p, err := New(l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, l
}

func (l *link) Info() frame.Info             { return l.info }
func (l *link) Start(e frame.Endpoint) error { l.user = e; return nil }
func (l *link) Wake()                        {}

func (l *link) Abort(code frame.ErrorCode, cause error) { l.code = code; go l.end(cause) }

func (l *link) Close() error {
	l.end(frame.ErrClosed)
	<-l.done
	return nil
}

// end is how the association ends.
func (l *link) end(cause error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.ended, l.cause = true, cause
		l.mu.Unlock()
		l.user.Closed(cause)
		close(l.done)
	})
}

// why waits and returns the cause of the end, nil while there is none.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// put hands a frame to the peer. The buffer is overwritten afterwards, as a
// reader's is.
func (l *link) put(typ frame.Type, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	b := bytes.Clone(payload)
	l.user.Receive(frame.Frame{Type: typ, Flags: frame.FlagENC, Payload: b})
	for i := range b {
		b[i] = 0xff
	}
}

// putHex is put for payloads in hex.
func (l *link) putHex(typ frame.Type, payloads ...string) {
	for _, p := range payloads {
		l.put(typ, unhex(p))
	}
}

// take lets one frame out, written; "" if there is none.
func (l *link) take() string {
	typ, b := l.takeRaw()
	if b == nil {
		return ""
	}
	return hex.EncodeToString([]byte{byte(typ >> 8), byte(typ)}) + ":" + hex.EncodeToString(b)
}

func (l *link) takeRaw() (frame.Type, []byte) {
	typ, b := l.give()
	if b != nil {
		l.user.Written()
	}
	return typ, b
}

// give lets one frame into the link's buffer, where it stays unwritten.
func (l *link) give() (frame.Type, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, nil
	}
	prefix := []byte("before")
	b, typ, ok := l.user.Append(prefix)
	switch {
	case !ok && !bytes.Equal(b, prefix):
		l.t.Error("Append changed the buffer and gave nothing")
	case ok && !bytes.HasPrefix(b, prefix):
		l.t.Error("Append touched what is before its payload")
	case ok:
		return typ, b[len(prefix):]
	}
	return 0, nil
}

// takeAll lets everything out.
func (l *link) takeAll() (out []string) {
	for f := l.take(); f != ""; f = l.take() {
		out = append(out, f)
	}
	return out
}

// holds is what listings, subscriptions and what waits for callbacks hold of the
// peer's, in octets.
func (p *Peer) holds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
