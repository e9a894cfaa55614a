package association

import (
	"fmt"
	"net"
	"time"

	"github.com/npamp/disco/frame"
)

// A Streams is a connection that carries each channel on a stream of its own, as
// QUIC does, instead of all on one (C57). Write takes whole frames and routes
// them. Read gives whole frames, one after the other, of whatever stream: in order
// on each channel, and a CLOSE after all that the peer sent before it. A frame on
// a stream of another channel makes Read fail with ErrStream.
//
// The client opens the streams: that of Control for the handshake, every other one
// when the handshake is done, with PING as its first frame, so that the server
// learns of it whoever has something to say first.
type Streams interface {
	net.Conn

	// NegotiatedProtocol returns what ALPN agreed on. It does not block.
	NegotiatedProtocol() string
	// Open is called once, when the handshake is done. Before, nothing but Control's
	// stream is to be read, and no frame longer than 4 KiB.
	Open()
	// Cut closes without a farewell, at once, also under a Close that is busy with
	// one.
	Cut()
}

func isStreams(conn net.Conn) bool {
	_, ok := conn.(Streams)
	return ok
}

// openStreams begins the other channels' streams where they have one each. It runs
// on the handshake's goroutine.
func (a *Association) openStreams() error {
	s, ok := a.conn.(Streams)
	if !ok {
		return nil
	}
	s.Open()
	if !a.client {
		return nil
	}
	w := &a.out
	w.borrow(a.cfg.buffers)
	w.now = time.Now()
	for _, c := range a.channels {
		if c.id != frame.ChannelControl && c.peerAdvertised {
			a.pings.started++
			a.put(c, frame.TypePing, nil)
		}
	}
	if len(w.buf) > 0 {
		if _, err := s.Write(w.buf); err != nil {
			return fmt.Errorf("association: opening streams: %w", err)
		}
	}
	w.empty()
	w.giveBack(a.cfg.buffers)
	return nil
}
