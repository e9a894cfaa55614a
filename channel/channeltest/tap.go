package channeltest

import "github.com/npamp/disco/frame"

// Tap returns a transport that is tr, and has see called for every frame on its
// endpoint's goroutines: for one that the endpoint gave just now (sent), and for
// one that it is about to be handed. f.Payload is valid during the call.
func Tap(tr frame.Transport, see func(sent bool, f frame.Frame)) frame.Transport {
	t := &tap{Transport: tr, see: see}
	l, late := tr.(later)
	f, flushes := tr.(flusher)
	switch {
	case late && flushes:
		return &struct {
			*tap
			later
			flusher
		}{t, l, f}
	case late:
		return &struct {
			*tap
			later
		}{t, l}
	case flushes:
		return &struct {
			*tap
			flusher
		}{t, f}
	}
	return t
}

// later and flusher are what an association's transport has besides.
type (
	later   interface{ Late() }
	flusher interface{ Flush() }
)

type tap struct {
	frame.Transport
	see func(bool, frame.Frame)
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
