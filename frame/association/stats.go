package association

import "sync/atomic"

// A counter is one of the counters.
type counter = *atomic.Uint64

// Stats counts what happened on an association since the handshake. A frame that
// is not handed up or acted upon is counted under exactly one of the refusals.
type Stats struct {
	FramesIn, FramesOut uint64 // authenticated frames received; frames sealed
	OctetsIn, OctetsOut uint64 // of these frames, header and tag included

	// Refused before anything was opened.
	Forbidden    uint64 // channel 0xFFFF
	Grease       uint64 // channels 0xF000–0xFFFE
	Unadvertised uint64 // any other channel that we do not advertise
	Clear        uint64 // not encrypted
	Replay       uint64 // a sequence number that has been
	Gap          uint64 // a sequence number ahead of its turn; generation 3

	// Refused after the attempt to open.
	BadTag      uint64 // not authentic
	ForgedClose uint64 // a CLOSE that was not encrypted or not authentic: a security event (core §4.7)

	// Authentic, but not acted upon.
	Unstarted     uint64 // no endpoint on the channel yet
	Reserved      uint64 // type 0x0000 or 0x000B–0x002F; generation 2
	Unlisted      uint64 // a type that Control does not define, or a handshake flight; generation 2
	Path          uint64 // PATH_CHALLENGE, PATH_RESPONSE
	Flow          uint64 // FLOW_UPDATE without flow control
	PeerErrors    uint64 // ERROR; generation 2 logs it
	Unsolicited   uint64 // an ACK that answers nothing; generation 2
	BadBody       uint64 // a body that is not as defined; generation 2
	PongIgnored   uint64 // a PONG that answers no PING of ours
	PingsDropped  uint64 // a PING that got no PONG of its own: too many at once, or nowhere to send it
	Unanswered    uint64 // a KEY_UPDATE adopted on a channel where the peer takes no ACK
	RekemRefused  uint64 // a REKEM for another generation than the next (generation skew)
	AfterClose    uint64 // application frames after our CLOSE or the peer's
	HelloRequired uint64 // frames before the peer's HELLO

	// What was done.
	Pongs           uint64 // PONGs sent
	KeyUpdatesIn    uint64
	KeyUpdatesOut   uint64
	KeyUpdateAcks   uint64 // received
	RatchetsIn      uint64 // receive root advanced, either tier
	RatchetsOut     uint64 // send root advanced, either tier
	FlowUpdatesIn   uint64
	FlowUpdatesOut  uint64
	FlowStalls      uint64 // times a frame had to wait for the peer's window
	CloseIncomplete uint64 // 1 when our CLOSE was not acknowledged
}

// counters is Stats as it is counted, by either goroutine.
type counters struct {
	framesIn, framesOut, octetsIn, octetsOut                           atomic.Uint64
	forbidden, grease, unadvertised, clear, replay, gap                atomic.Uint64
	badTag, forgedClose                                                atomic.Uint64
	unstarted, reserved, unlisted, path, flow, peerErrors              atomic.Uint64
	unsolicited, badBody, pongIgnored, pingsDropped, unanswered        atomic.Uint64
	rekemRefused, afterClose, helloRequired                            atomic.Uint64
	pongs, keyUpdatesIn, keyUpdatesOut, keyUpdateAcks                  atomic.Uint64
	ratchetsIn, ratchetsOut, flowUpdatesIn, flowUpdatesOut, flowStalls atomic.Uint64
	closeIncomplete                                                    atomic.Uint64
}

// Stats returns the counts so far.
func (a *Association) Stats() Stats {
	c := &a.count
	return Stats{
		FramesIn: c.framesIn.Load(), FramesOut: c.framesOut.Load(),
		OctetsIn: c.octetsIn.Load(), OctetsOut: c.octetsOut.Load(),

		Forbidden: c.forbidden.Load(), Grease: c.grease.Load(), Unadvertised: c.unadvertised.Load(),
		Clear: c.clear.Load(), Replay: c.replay.Load(), Gap: c.gap.Load(),

		BadTag: c.badTag.Load(), ForgedClose: c.forgedClose.Load(),

		Unstarted: c.unstarted.Load(), Reserved: c.reserved.Load(), Unlisted: c.unlisted.Load(),
		Path: c.path.Load(), Flow: c.flow.Load(), PeerErrors: c.peerErrors.Load(),
		Unsolicited: c.unsolicited.Load(), BadBody: c.badBody.Load(), PongIgnored: c.pongIgnored.Load(),
		PingsDropped: c.pingsDropped.Load(), Unanswered: c.unanswered.Load(),
		RekemRefused: c.rekemRefused.Load(), AfterClose: c.afterClose.Load(),
		HelloRequired: c.helloRequired.Load(),

		Pongs: c.pongs.Load(), KeyUpdatesIn: c.keyUpdatesIn.Load(), KeyUpdatesOut: c.keyUpdatesOut.Load(),
		KeyUpdateAcks: c.keyUpdateAcks.Load(), RatchetsIn: c.ratchetsIn.Load(), RatchetsOut: c.ratchetsOut.Load(),
		FlowUpdatesIn: c.flowUpdatesIn.Load(), FlowUpdatesOut: c.flowUpdatesOut.Load(),
		FlowStalls: c.flowStalls.Load(), CloseIncomplete: c.closeIncomplete.Load(),
	}
}
