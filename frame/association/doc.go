// Package association makes and keeps N-PAMP associations: TLS 1.3 dial and
// listen, the four-flight handshake (core §8, binding §1–§6), sealed frames, key
// update and master ratchet (core §11.5, binding §9), flow control, PING, CLOSE,
// ERROR and optionally NPAMP-HELLO. Each channel of an association is used through
// a [frame.Transport].
//
//	a, err := association.Dial(ctx, "host:port", &association.Config{Identity: key})
//	…
//	t, err := a.Transport(frame.ChannelDiscovery)
//	…
//	err = t.Start(endpoint)
//	…
//	a.Close()
//
// The stream below is TCP and TLS ([Dial], [Listen]), any other net.Conn ([Client],
// [Server]), or a connection with a stream for each channel ([Streams], which
// package quic has).
//
// # Generations
//
// Crypto generations 2 (ALPN n-pamp/2) and 3 (n-pamp/3) are one construction with
// one row of constants and switches each. TLS picks the row by ALPN; without TLS
// the first of Config.Generations counts. Nothing changes it afterwards.
//
// # Goroutines
//
// An association that has been handed out runs nothing until the first Start of
// any of its transports (or Close, or Abort). Then it has two goroutines:
//
//   - the reader cuts the stream into frames, opens them in place and calls
//     Endpoint.Receive. It waits for the stream alone: never for a user, a queue or
//     the writer. It ends with the stream, or with the first cause of the end.
//   - the writer sends what the association itself has to say, then what the
//     endpoints give by Endpoint.Append, in turn, in batches of at most 32 frames
//     and about 64 KiB. It ends after the last frame, closes the stream, waits for
//     the reader, calls Endpoint.Closed, erases the keys, and only then do Close and
//     Wait return.
//
// Over TCP and TLS ([Dial], [Listen], [Direct]) the writer is not woken for the
// answer to a frame that came alone: the reader writes it, as much as the socket
// takes at once, and leaves the rest to the writer. So does whoever calls Flush of a
// transport. One of them writes at a time.
//
// Timers run only for the liveness check, where that is on, for writes that take
// too long, and from the first cause of the end until the end. A [Listener] has one
// goroutine, and one more for each handshake under way (where crypto/tls has one of
// its own as long as TLS takes); Close waits for all of them.
//
// # Limits
//
// All are fields of [Config] or named here: 256 handshakes at once of 10 s each,
// frames of at most 4 KiB until the peer is known and of 16 MiB afterwards, of at
// most 1 MiB from our endpoints, 16 PONGs and 1024 other answers waiting for the
// writer (acknowledgements in a row are one), 100 PONGs a second, 1000 new keys of
// the peer's a second and 4096 in a burst, 1024 acknowledgements owed by the peer,
// in generation 2 1024 frames that fail authentication. An idle end holds one
// buffer of 4 KiB, and less than 20 KiB in all beyond its stream.
//
// # Speed
//
// A frame is sealed and opened in place and costs no allocation; small ones that
// are ready together share a write, a record of TLS and a system call. What is
// left is two ciphers an octet, ours and that of TLS: with AES instructions some
// 0.25 µs a small frame each way. There ChaCha20-Poly1305 takes twice as long. A
// handshake takes about as long as that of TLS 1.3 with the same KEM, besides that
// of TLS itself.
//
// Config.Trace is called for each frame, between two system calls: what it does,
// everybody waits for. KeepAlive costs a look at the clock for each read, and a new
// key 4 µs, so that UpdateFrames shows from 100 down. KeyLogWriter costs a line a
// key. Over a stream that is not [Direct] a single query takes half as long again.
//
// # Limitations
//
// Profile Standard alone: X25519MLKEM768, Ed25519, both AEAD suites. There is no
// 0-RTT and no path migration, and no ratchet over a [Streams]. Keys are erased as
// far as the runtime allows (see package keys), and those given to
// Config.KeyLogWriter are wherever that took them.
//
// # Notes on the specification
//
// Nothing in the handshake says which channels a side accepts (C8): both sets are
// configured, and HELLO, which could say it, is off unless asked for, because
// public peers send none.
//
// A CLOSE ends the association whatever advertised channel it comes on, in
// generation 3 too, whose text gives it Control alone; it is acknowledged on
// Control there (C50).
//
// A server of generation 2 cannot say that it refuses a CLIENT_AUTH: it ends the
// stream. A client that sees the stream end before anything has come reports
// [ErrAuthentication]. One of generation 3 says ERROR 2 under its handshake key, at
// sequence number 1, and a client keeps that key until the server's first other
// frame.
//
// A ratchet changes the keys of all channels with one frame on Control. Where each
// channel is an ordered sequence of its own (C57), nothing says which frames of the
// others were sealed before it: there we offer none, and end the association with a
// reason where the peer starts one.
//
// Flow control of generation 3 is granted late (C62): a peer that uses less than
// half of its first window of 1 MiB never sees FLOW_UPDATE, which some public peers
// take as fatal.
package association
