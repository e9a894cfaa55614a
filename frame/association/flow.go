package association

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/npamp/disco/frame"
)

// window is connection-level flow control (core, generation 3): per direction,
// the payload octets of all channels but Control since the connection began, and
// how many of them the receiver granted. The limit only rises.
type window struct {
	on        bool
	received  atomic.Uint64 // added by the reader
	limit     atomic.Uint64 // what we granted
	due       atomic.Bool   // the peer has not been told of limit
	peerLimit atomic.Uint64 // what the peer granted
}

func (w *window) init(on bool) {
	w.on = on
	w.limit.Store(initialWindow)
	w.peerLimit.Store(initialWindow)
}

// take counts n received octets; false says that they exceed the limit.
func (w *window) take(n uint64) bool {
	return !w.on || w.received.Add(n) <= w.limit.Load()
}

// grant raises the limit when half of the window is used, or late when what is
// left might not take one frame. It reports whether the peer is to be told.
// Before that no peer sees a FLOW_UPDATE: some do not know it (C62).
func (w *window) grant(late bool) bool {
	for w.on {
		limit := w.limit.Load()
		left, enough := limit-min(w.received.Load(), limit), uint64(grantWindow/2)
		switch {
		case late:
			enough = frame.MaxFrameLen
		case limit == initialWindow:
			enough = initialWindow / 2
		}
		if left > enough {
			return false
		}
		if w.limit.CompareAndSwap(limit, limit+grantWindow) {
			w.due.Store(true)
			return true
		}
	}
	return false
}

// body returns the body of FLOW_UPDATE: the limit.
func (w *window) body() []byte {
	return binary.BigEndian.AppendUint64(nil, w.limit.Load())
}

// update takes the body of a FLOW_UPDATE; false says that it is not one. A limit
// that is not higher changes nothing.
func (w *window) update(body []byte) bool {
	if len(body) != 8 {
		return false
	}
	if n := binary.BigEndian.Uint64(body); n > w.peerLimit.Load() {
		w.peerLimit.Store(n)
	}
	return true
}

// Late says that something has been awaited in vain that may be too long for what
// is left of the window we granted: more is granted unless a frame of any length
// still fits (C62). It does nothing in generation 2. It does not block.
func (a *Association) Late() {
	if a.flow.grant(true) {
		a.signal()
	}
}
