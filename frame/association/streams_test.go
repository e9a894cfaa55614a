package association

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/npamp/disco/frame"
)

// separate is a Streams over one stream of TCP: what it carries is in order, and
// it notes what is asked of it.
type separate struct {
	*net.TCPConn
	alpn string

	mu     sync.Mutex
	opened int
	cuts   int
}

func (s *separate) NegotiatedProtocol() string { return s.alpn }

func (s *separate) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
}

func (s *separate) Cut() {
	s.mu.Lock()
	s.cuts++
	s.mu.Unlock()
	s.Close()
}

func (s *separate) count() (opened, cuts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, s.cuts
}

// tcpPair returns the two ends of a connection over TCP.
func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// separatePair returns the two ends of an association with separate streams.
func separatePair(t *testing.T, alpn string, client, server *Config) (c, s *Association, cs, ss *separate) {
	t.Helper()
	cc, sc := tcpPair(t)
	cs, ss = &separate{TCPConn: cc, alpn: alpn}, &separate{TCPConn: sc, alpn: alpn}
	var wg sync.WaitGroup
	var serr error
	wg.Go(func() { s, serr = Server(t.Context(), ss, server) })
	c, err := Client(t.Context(), cs, client)
	wg.Wait()
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	t.Cleanup(func() { closeBoth(c, s) })
	return c, s, cs, ss
}

// What ALPN agreed on decides the generation, and what it did not agree on with us
// is refused.
//
// Covers: C57, C61, CORE-10.1-01
func TestStreamsGeneration(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		c, s, _, _ := separatePair(t, g.alpn, clientConfig(3, 2), serverConfig(3, 2))
		if c.Info().Generation != g.number || s.Info().Generation != g.number {
			t.Errorf("generations %d and %d, want %d", c.Info().Generation, s.Info().Generation, g.number)
		}
	})
	for _, alpn := range []string{"", "h3", "n-pamp/1", "n-pamp/2"} {
		cc, sc := tcpPair(t)
		defer sc.Close()
		if _, err := Client(t.Context(), &separate{TCPConn: cc, alpn: alpn}, clientConfig(3)); !errors.Is(err, ErrGeneration) {
			t.Errorf("ALPN %q: %v, want ErrGeneration", alpn, err)
		}
	}
}

// The client begins the stream of every channel that the peer accepts with an
// empty PING, as soon as the handshake is done, and its PONG is no stray one. The
// server begins none.
//
// Covers: C57, CORE-5-01, C50
func TestStreamsBegin(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		client, server := clientConfig(), serverConfig()
		client.Channels = []frame.ChannelID{frame.ChannelDiscovery, frame.ChannelMemory}
		client.PeerChannels = []frame.ChannelID{frame.ChannelDiscovery, frame.ChannelBridge}
		server.Channels = client.PeerChannels
		server.PeerChannels = client.Channels
		var mu sync.Mutex
		var sent []TraceFrame
		client.Trace = func(f TraceFrame) {
			mu.Lock()
			defer mu.Unlock()
			if f.Sent && f.Header.Type < 0x100 {
				f.Plaintext = slices.Clone(f.Plaintext)
				sent = append(sent, f)
			}
		}
		c, s, cs, ss := separatePair(t, g.alpn, client, server)
		for _, end := range []*separate{cs, ss} {
			if opened, _ := end.count(); opened != 1 {
				t.Errorf("opened %d times", opened)
			}
		}
		mu.Lock()
		got := sent
		mu.Unlock()
		if len(got) != 2 || got[0].Header.Channel != frame.ChannelDiscovery || got[1].Header.Channel != frame.ChannelBridge ||
			got[0].Header.Type != frame.TypePing || got[0].Header.Seq != 0 || got[1].Header.Type != frame.TypePing ||
			len(got[0].Plaintext) != 0 || len(got[1].Plaintext) != 0 {
			t.Fatalf("the client sent %+v", got)
		}
		u, v := start(t, c), start(t, s)
		u.send(message{0x200, "after it"})
		v.want(t, "a frame behind the PING", message{0x200, "after it"})
		if err := c.Ping(t.Context(), frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
		// The PONG of Ping came behind the first one, on the same channel.
		if st := c.Stats(); st.PongIgnored != 0 {
			t.Errorf("%d PONGs ignored", st.PongIgnored)
		}
		if st := s.Stats(); st.FramesIn != 4 || st.Pongs != 2 {
			t.Errorf("the server had %d frames and sent %d PONGs, want 4 and 2", st.FramesIn, st.Pongs)
		}
	})
}

// There is no ratchet over separate streams: neither ours, nor the peer's, which
// ends the association with a reason.
//
// Covers: HB-9-01, C57
func TestStreamsRatchet(t *testing.T) {
	for name, order := range map[string]order{
		"MASTER_RATCHET": {do: doRatchet},
		"REKEM":          {do: doRekem, rekem: &rekem{share: make([]byte, 1216), generation: 1}},
	} {
		rows(t, func(t *testing.T, g *generation) {
			c, s, _, _ := separatePair(t, g.alpn, clientConfig(), serverConfig())
			if err := c.Ratchet(); !errors.Is(err, ErrRatchet) {
				t.Errorf("Ratchet: %v", err)
			}
			if err := c.Rekem(); !errors.Is(err, ErrRatchet) {
				t.Errorf("Rekem: %v", err)
			}
			start(t, c)
			start(t, s)
			if err := c.order(order); err != nil { // as another implementation might
				t.Fatal(err)
			}
			var pe *ProtocolError
			if err := s.Wait(); !errors.As(err, &pe) || !errors.Is(err, ErrRatchet) {
				t.Errorf("%s: ended with %v", name, err)
			}
			var told *PeerError
			if err := c.Wait(); g.errors && (!errors.As(err, &told) || told.Code != frame.CodeUnexpectedMessage) {
				t.Errorf("%s: the peer ended with %v", name, err)
			}
			if st := s.Stats(); st.RatchetsIn != 0 || st.RatchetsOut != 0 {
				t.Errorf("%s: %+v", name, st)
			}
		})
	}
}

// A stream that broke says so in an ERROR where the generation has one.
//
// Covers: C57, CORE-g3-02
func TestStreamsBroken(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		cc, sc := tcpPair(t)
		broken := &failing{separate: &separate{TCPConn: sc, alpn: g.alpn}}
		var s *Association
		var wg sync.WaitGroup
		var serr error
		wg.Go(func() { s, serr = Server(t.Context(), broken, serverConfig()) })
		c, err := Client(t.Context(), &separate{TCPConn: cc, alpn: g.alpn}, clientConfig())
		wg.Wait()
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		defer closeBoth(c, s)
		start(t, c)
		start(t, s)
		wantCause(t, s, ErrStream)
		var told *PeerError
		if err := c.Wait(); g.errors && (!errors.As(err, &told) || told.Code != frame.CodeUnexpectedMessage) {
			t.Errorf("the peer ended with %v", err)
		}
	})
}

// failing is a separate whose peer breaks the rules once it is open.
type failing struct{ *separate }

func (f *failing) Read(b []byte) (int, error) {
	if opened, _ := f.count(); opened > 0 {
		return 0, ErrStream
	}
	return f.separate.Read(b)
}

// A peer that does not take our farewell is cut off.
func TestStreamsCut(t *testing.T) {
	c, _, cs, _ := separatePair(t, "n-pamp/3", clientConfig(), serverConfig())
	if err := c.Close(); !errors.Is(err, ErrCloseIncomplete) { // the other end reads nothing
		t.Errorf("Close: %v", err)
	}
	if _, cuts := cs.count(); cuts == 0 {
		t.Error("not cut")
	}
}

// What DialWith and ListenWith are given is complete, and what they return is used.
//
// Covers: C57, CORE-10.1-01, CORE-11.4-02
func TestWith(t *testing.T) {
	check := func(side string, c *Config, server bool) {
		tc := c.TLS
		if len(tc.NextProtos) != 2 || tc.NextProtos[0] != "n-pamp/3" || tc.NextProtos[1] != "n-pamp/2" ||
			tc.MinVersion != tls.VersionTLS13 || !tc.SessionTicketsDisabled || tc.ClientSessionCache != nil {
			t.Errorf("%s: TLS %+v", side, tc)
		}
		if server != (len(tc.Certificates) > 0) || !server && tc.ServerName != "host.example" {
			t.Errorf("%s: TLS for the other side", side)
		}
		if c.HandshakeTimeout != defaultHandshakeTimeout || c.MaxHandshakes != defaultMaxHandshakes ||
			c.MaxFrame != frame.MaxFrameLen || len(c.Channels) != 2 || c.Logger == nil {
			t.Errorf("%s: %+v has not its defaults", side, c)
		}
	}
	server := serverConfig()
	server.TLS = nil
	l, err := ListenWith(server, func(c *Config) (net.Listener, error) {
		check("server", c, true)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		return listenerFunc{ln, func(conn net.Conn) net.Conn {
			return &separate{TCPConn: conn.(*net.TCPConn), alpn: "n-pamp/2"}
		}}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := clientConfig()
	client.TLS = &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	c, err := DialWith(t.Context(), "host.example", client, func(ctx context.Context, c *Config) (net.Conn, error) {
		check("client", c, false)
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		return &separate{TCPConn: conn.(*net.TCPConn), alpn: "n-pamp/2"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBoth(c, s)
	if c.Info().Generation != 2 || s.Info().Generation != 2 {
		t.Errorf("generations %d and %d", c.Info().Generation, s.Info().Generation)
	}
	failure := errors.New("no way there")
	if _, err := DialWith(t.Context(), "host.example", client, func(context.Context, *Config) (net.Conn, error) {
		return nil, failure
	}); !errors.Is(err, failure) {
		t.Errorf("DialWith: %v", err)
	}
	if _, err := ListenWith(server, func(*Config) (net.Listener, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("ListenWith: %v", err)
	}
	if _, err := DialWith(t.Context(), "", &Config{}, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("DialWith: %v", err)
	}
	if _, err := ListenWith(&Config{}, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("ListenWith: %v", err)
	}
}

// listenerFunc wraps what a listener accepts.
type listenerFunc struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l listenerFunc) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// A client of separate streams begins one for each channel that the peer accepts,
// more than a batch has frames too, and goes on.
//
// Covers: C57
func TestStreamsOfManyChannels(t *testing.T) {
	many := []frame.ChannelID{frame.ChannelDiscovery}
	for id := frame.ChannelID(0x1000); len(many) < 2*batchFrames; id++ {
		if !id.IsGrease() && !id.IsForbidden() && !id.IsFutureCore() && id.MinProfile() <= frame.ProfileStandard {
			many = append(many, id)
		}
	}
	client, server := clientConfig(), serverConfig()
	client.PeerChannels, server.Channels = many, many
	cc, sc := tcpPair(t)
	var s *Association
	var wg sync.WaitGroup
	wg.Go(func() { s, _ = Server(t.Context(), &separate{TCPConn: sc, alpn: "n-pamp/3"}, server) })
	c, err := Client(t.Context(), &separate{TCPConn: cc, alpn: "n-pamp/3"}, client)
	wg.Wait()
	if err != nil || s == nil {
		t.Fatal(err)
	}
	cu, su := start(t, c), start(t, s)
	after := message{0x200, "after the PINGs"}
	cu.send(after)
	su.want(t, "what comes after the PINGs", after)
	closeBoth(c, s)
}
