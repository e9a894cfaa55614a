package main

import (
	"fmt"
	"sync"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// maxHeldTrace bounds the lines that wait for their association to be named.
const maxHeldTrace = 256

// A tracer says each frame on standard error. Those of a handshake wait until
// the association is there, so that the line that names both ends is first.
type tracer struct {
	app  *app
	mu   sync.Mutex
	held []string
}

// opened names an association, then says the frames of its handshake.
func (t *tracer) opened(info association.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.app.note("n-pamp/%d %v, we are %x, peer is %x at %v", info.Generation, info.Suite,
		[]byte(info.LocalIdentity), []byte(info.PeerIdentity), info.RemoteAddr)
	for _, l := range t.held {
		t.app.note("%s", l)
	}
	t.held = nil
}

// frame is association.Config.Trace.
func (t *tracer) frame(f association.TraceFrame) {
	line := traceLine(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	if isHandshake(f.Header) && len(t.held) < maxHeldTrace {
		t.held = append(t.held, line)
		return
	}
	t.app.note("%s", line)
}

func isHandshake(h frame.Header) bool {
	return h.Channel == frame.ChannelControl && h.Type >= frame.TypeClientHello && h.Type <= frame.TypeClientAuth
}

func traceLine(f association.TraceFrame) string {
	dir := "<-"
	if f.Sent {
		dir = "->"
	}
	h := f.Header
	line := fmt.Sprintf("%s %v %s seq %d epoch %d flags %v, %s", dir, h.Channel, frame.TypeName(h.Channel, h.Type),
		h.Seq, f.Epoch, h.Flags, plural(len(f.Plaintext), "octet"))
	if h.Channel != frame.ChannelDiscovery || h.Type < 0x100 {
		return line
	}
	if body, err := frame.Peel(f.Plaintext); err == nil {
		if corr, ok := disco.ScanCorr(body); ok {
			line += ", corr " + corr.String()
		}
	}
	return line
}
