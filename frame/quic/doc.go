// Package quic makes N-PAMP associations over QUIC: the same handshake, the same
// frames and the same Association as over TCP, on QUIC streams instead of one TLS
// stream (core §10, C57).
//
//	a, err := quic.Dial(ctx, "host:port", &association.Config{Identity: key})
//	…
//	l, err := quic.Listen("host:port", &association.Config{Identity: key})
//	a, err := l.Accept(ctx)
//
// TLS is QUIC's own, under the rules that package association has for it: version
// 1.3, ALPN n-pamp/3 before n-pamp/2, which decides the generation, no session
// tickets. There is no 0-RTT.
//
// # Streams
//
// Each channel has one bidirectional stream, opened by the client: Control's first,
// the others after CLIENT_AUTH, each with PING as its first frame. A frame of
// another channel on a stream and a second stream of a channel end the association,
// in generation 3 with an ERROR; so does a stream that is reset or ends inside a
// frame. Streams of the server, unidirectional streams, datagrams, and more streams
// than there are channels and four for GREASE are not granted: QUIC itself ends a
// connection that takes them. The server does not insist on PING as the first frame.
//
// Writing, a batch of frames is cut into runs of one channel, each of which goes to
// its stream. Reading, whole frames of all streams are merged. The order between
// channels is lost on the way, in one case with consequence: CLOSE has to come
// after what the closing side sent before it. So a side ends its other streams when
// it has written CLOSE, and CLOSE is handed up when the peer's other streams have
// ended, or 250 ms later.
//
// # The end
//
// Close ends the streams, waits at most 250 ms for the peer to end its own, or,
// where the peer was first, for the connection to be closed, and closes with code
// 0, which the peer sees as io.EOF, the orderly end. Other codes are 1, the peer
// broke the rules above; 2, cut off without a farewell; 3, the path changed.
//
// A server whose client's address changes ends the association with
// [ErrPathChanged], before it hands up or sends another frame: there is no
// migration (CORE-11.6-01). A peer from which nothing has come for 30 s has gone:
// association.ErrPeerSilent. QUIC's own keep-alive goes out after 10 s, so that an
// idle association lives.
//
// # Goroutines
//
// A connection has one goroutine for each stream, which waits for its next frame,
// and a server's one more, which waits for streams; besides those of QUIC itself, two
// for a connection, two for a socket and two for a listener. All are gone when Close
// returns. A dialled association has a socket of its own; those of a listener share
// one, which is closed when the listener and all that it accepted are.
//
// # Limits
//
// Unread, a peer can make us hold 1.5 MiB of a connection in QUIC's own buffers, of
// which 128 KiB before it has been read from; the frame that each stream is in the
// middle of, 4 KiB at most before the handshake is done and Config.MaxFrame after
// it, of which the peer has to send what it makes us hold; and 4 KiB a stream.
// Config.MaxHandshakes bounds the QUIC handshakes at once, and again those above
// them; from half that number on, a client has to prove its address first.
//
// # Limitations
//
// A channel that only the client accepts has no stream, for nothing may be sent on
// it that would begin one. The transport parameter that asks a client not to migrate
// is not sent. The master ratchet is not available: see package association.
package quic
