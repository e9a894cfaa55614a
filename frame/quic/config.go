package quic

import (
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// timing is how long a connection lives on silence. Tests shorten it.
type timing struct {
	idle      time.Duration // without anything from the peer, until it is taken to be gone
	keepAlive time.Duration // of silence, until the peer is asked for a sign
}

var defaultTiming = timing{idle: 30 * time.Second, keepAlive: 10 * time.Second}

const (
	// Receive windows, in octets: what a peer can send us unread. They grow to the
	// maximum only as what came is read.
	initialStream, maxStream         = 64 << 10, 1 << 20
	initialConnection, maxConnection = 128 << 10, 3 << 19

	handshakeFrame = 4 << 10 // octets, header included, of a frame before the handshake is done
	idleBuffer     = 4 << 10 // octets of a stream's buffer that are not given back
	idleAfter      = time.Second
	lingerTimeout  = 250 * time.Millisecond // for the peer's end of the streams, and for what CLOSE overtook
	greaseStreams  = 4                      // streams of channels that nobody knows (core §9)
	helloStreams   = 4                      // of channels that HELLO can add: 0x10–0x13
)

// config returns QUIC's configuration. streams is how many a peer may open in all.
func config(cfg *association.Config, t timing, streams int64) *quicgo.Config {
	if streams == 0 {
		streams = -1 // 0 is the default
	}
	return &quicgo.Config{
		HandshakeIdleTimeout:           cfg.HandshakeTimeout,
		MaxIdleTimeout:                 t.idle,
		KeepAlivePeriod:                t.keepAlive,
		InitialStreamReceiveWindow:     initialStream,
		MaxStreamReceiveWindow:         maxStream,
		InitialConnectionReceiveWindow: initialConnection,
		MaxConnectionReceiveWindow:     maxConnection,
		MaxIncomingStreams:             streams,
		MaxIncomingUniStreams:          -1,
	}
}

// streams returns how many streams a client may open: one for each channel that
// either side accepts, and some that are good for nothing.
func streams(cfg *association.Config) int64 {
	ids := make(map[frame.ChannelID]bool)
	for _, id := range cfg.Channels {
		ids[id] = true
	}
	for _, id := range cfg.PeerChannels {
		ids[id] = true
	}
	n := len(ids) + greaseStreams // Control is in both lists
	if cfg.Hello != nil {
		n += helloStreams
	}
	return int64(n)
}
