package quic

import (
	"io"
	"net/netip"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
)

func addrPorts(t *testing.T, addrs ...string) (list []netip.AddrPort) {
	t.Helper()
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	return list
}

// Both generations and both suites, over QUIC as over TCP: frames both ways, each
// side's identity proven, an orderly end.
//
// Covers: C57, CORE-10.1-01, CORE-5-06
func TestAssociation(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		for _, suite := range []keys.Suite{keys.SuiteAES256GCM, keys.SuiteChaCha20Poly1305} {
			client, server := clientConfig(g), serverConfig()
			client.Suites = []keys.Suite{suite}
			c, s := pair(t, client, server)
			for _, a := range []*association.Association{c, s} {
				if i := a.Info(); i.Generation != g || i.Suite != suite {
					t.Errorf("n-pamp/%d %v, want n-pamp/%d %v", i.Generation, i.Suite, g, suite)
				}
			}
			if !c.Info().PeerIdentity.Equal(s.Info().LocalIdentity) || !s.Info().PeerIdentity.Equal(c.Info().LocalIdentity) {
				t.Error("identities differ")
			}
			if c.Info().RemoteAddr.String() != s.Info().LocalAddr.String() || c.Info().RemoteAddr.Network() != "udp" {
				t.Errorf("client's peer is at %v, server at %v", c.Info().RemoteAddr, s.Info().LocalAddr)
			}
			v := start(t, s)
			v.send(message{0x101, "the server speaks first"})
			u := start(t, c)
			u.want(t, "from the server", message{0x101, "the server speaks first"})
			u.send(message{0x100, "a"}, message{0x100, ""}, message{0x102, "c"})
			v.want(t, "from the client", message{0x100, "a"}, message{0x100, ""}, message{0x102, "c"})
			if err := c.Ping(wait(t), frame.ChannelDiscovery); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-v.closed
			wantCause(t, "server", s, io.EOF)
			wantCause(t, "client", c, association.ErrClosed)
		}
	})
}
