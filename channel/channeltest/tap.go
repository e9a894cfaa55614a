package channeltest

import "github.com/npamp/disco/frame"

// Tap returns a transport that is tr, and has see called for every frame on its
// endpoint's goroutines: for one that the endpoint gave just now (sent), and for
// one that it is about to be handed. f.Payload is valid during the call.
func Tap(tr frame.Transport, see func(sent bool, f frame.Frame)) frame.Transport {
	t := &tap{Transport: tr, see: see}
	if l, ok := tr.(later); ok {
		return &lateTap{tap: t, later: l}
	}
	return t
}

// later is what an association's transport has besides.
type later interface{ Late() }

type tap struct {
	frame.Transport
	see func(bool, frame.Frame)
}

type lateTap struct {
	*tap
	later
}

func (t *tap) Start(e frame.Endpoint) error { return t.Transport.Start(&tapped{e, t.see}) }

type tapped struct {
	frame.Endpoint
	see func(bool, frame.Frame)
}

func (e *tapped) Receive(f frame.Frame) {
	e.see(false, f)
	e.Endpoint.Receive(f)
}

func (e *tapped) Append(b []byte) ([]byte, frame.Type, bool) {
	out, typ, ok := e.Endpoint.Append(b)
	if ok {
		e.see(true, frame.Frame{Type: typ, Flags: frame.FlagENC, Payload: out[len(b):]})
	}
	return out, typ, ok
}
