// Package channeltest is a test kit for what runs on a Discovery channel, and on
// an association at all: two ends in memory, everything that can happen on the
// way between them, and a scripted end that sends any frame at any moment and
// waits for what comes.
//
// There are two levels. A [Link] is a pair of frame.Transports without an
// association: frames go over as they are, so one can be lost, come twice or be
// altered. A [Wire] is a pair of net.Conns, over which [Associate] makes a real
// association, handshake included: there the octets of the stream can be.
//
//	link := channeltest.NewLink(channeltest.Info(), channeltest.Info())
//	a, b := link.Ends()
//	p, err := channel.New(a, channel.Config{…})
//	s, err := channeltest.NewScript(b)
//	s.SendHex(0x0100, "a200190100014101")
//	s.WantFrame(t, "an empty set is a set", channeltest.Hex(0x0101, "a400190101014101028003f5"))
//	s.WantSilence(t, "one RESULT a QUERY", time.Second)
//
// # The way between
//
// Each direction is a [Way]. It can be delayed, stalled and bounded, be cut after
// so many octets, hand over a few octets at a time, and alter what passes. Order
// within a direction is kept, as an association promises; across directions the
// delays decide. A link can also be moved by hand, a frame at a time
// ([Link.ByHand]), so that a test decides who goes first and nothing else does.
//
// # Time
//
// Nothing here waits but on sync.Cond, timers and sync.WaitGroup, so all of it
// works inside a testing/synctest bubble, where a stall of a minute takes no
// time. What one bubble uses is to be made in it.
//
// # Goroutines
//
// An end of a Link has two from Start on, one that asks its endpoint for frames
// and one that hands them over, and none by hand; a Wire has none. The end of a
// Link takes another that calls Endpoint.Closed.
//
// # Not here
//
// The package makes no channel.Peer, so that the tests of package channel itself
// can use it.
package channeltest
