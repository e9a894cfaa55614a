package association

import (
	"testing"

	"github.com/npamp/disco/frame"
)

// A channel that the peer advertises and we do not: we may send on it, and drop
// what comes there, whatever it is.
//
// Covers: DISC-2-02, DISC-2-03, CORE-5-02, CH10-7-02, C8
func TestChannelOfThePeerAlone(t *testing.T) {
	bubble(t, func(t *testing.T, g *generation, client bool) {
		a, r := withRogue(t, g, client, func(c *Config) {
			c.Channels = []frame.ChannelID{onControl}
			c.PeerChannels = []frame.ChannelID{onControl, onDiscovery}
		})
		u := start(t, a)
		if i := u.t.Info(); i.Advertised || !i.PeerAdvertised {
			t.Errorf("info %+v", i)
		}
		u.send(message{0x100, "ours"})
		r.want("what we send", onDiscovery, 0x100, "ours")
		r.mustFire(
			shot{ch: onDiscovery, typ: 0x101, payload: "theirs"},
			shot{ch: onDiscovery, typ: frame.TypePing, payload: "ping"},
			shot{ch: onDiscovery, typ: frame.TypeClose},
			shot{ch: onControl, typ: frame.TypePing, payload: "still there?"},
		)
		r.want("nothing but this", onControl, frame.TypePong, "still there?")
		if s := a.Stats(); s.Unadvertised != 3 || u.received() != 0 {
			t.Errorf("%d frames handed up, stats %+v", u.received(), s)
		}
	})
}
