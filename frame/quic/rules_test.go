package quic

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// What breaks the rules of the streams ends the association, on either side, with
// ERROR 1 where the generation has it.
//
// Covers: C57, CORE-g3-02
func TestBrokenRules(t *testing.T) {
	stream := func(t *testing.T, c *conn, id frame.ChannelID) *quicgo.Stream {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.find(id).s
	}
	send := func(t *testing.T, s *quicgo.Stream, b []byte) {
		if _, err := s.Write(b); err != nil {
			t.Error(err)
		}
	}
	open := func(t *testing.T, c *conn) *quicgo.Stream {
		s, err := c.qc.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, tt := range []struct {
		name   string
		client bool // alone can do it
		quiet  bool // no ERROR: not a frame that is wrong
		do     func(t *testing.T, c *conn)
		want   string
	}{
		{"Discovery on Control's stream", false, false, func(t *testing.T, c *conn) {
			send(t, stream(t, c, frame.ChannelControl), aFrame(frame.ChannelDiscovery, 0x100, strings.Repeat("x", 20)))
		}, "one of Discovery on that of Control"},
		{"Control on Discovery's stream", false, false, func(t *testing.T, c *conn) {
			send(t, stream(t, c, frame.ChannelDiscovery), aFrame(frame.ChannelControl, frame.TypeClose, strings.Repeat("x", 16)))
		}, "one of Control on that of Discovery"},
		{"GREASE on Discovery's stream", false, false, func(t *testing.T, c *conn) {
			send(t, stream(t, c, frame.ChannelDiscovery), aFrame(0xF001, 0x100, ""))
		}, "on that of Discovery"},
		{"a second stream for Discovery", true, false, func(t *testing.T, c *conn) {
			send(t, open(t, c), aFrame(frame.ChannelDiscovery, frame.TypePing, ""))
		}, "a second one for Discovery"},
		{"a second stream for Control", true, false, func(t *testing.T, c *conn) {
			send(t, open(t, c), aFrame(frame.ChannelControl, frame.TypePing, ""))
		}, "a second one for Control"},
		{"no frame", false, false, func(t *testing.T, c *conn) {
			send(t, stream(t, c, frame.ChannelDiscovery), make([]byte, 40))
		}, frame.ErrChecksum.Error()},
		{"a stream that ends inside a frame", false, true, func(t *testing.T, c *conn) {
			s := stream(t, c, frame.ChannelDiscovery)
			send(t, s, aFrame(frame.ChannelDiscovery, 0x100, "payload")[:40])
			s.Close()
		}, "unexpected EOF"},
		{"a stream that is reset", false, true, func(t *testing.T, c *conn) {
			stream(t, c, frame.ChannelDiscovery).CancelWrite(5)
		}, "cancelled a stream"},
	} {
		generations(t, func(t *testing.T, g int) {
			for _, byClient := range []bool{true, false} {
				if tt.client && !byClient {
					continue
				}
				c, s, cc, sc := conns(t, clientConfig(g), serverConfig(g))
				start(t, c)
				start(t, s)
				if err := c.Ping(wait(t), frame.ChannelDiscovery); err != nil {
					t.Fatal(err)
				}
				rogue, honest, conn := c, s, cc
				if !byClient {
					rogue, honest, conn = s, c, sc
				}
				tt.do(t, conn)
				if err := cause(t, tt.name, honest); !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: ended with %v, want %q", tt.name, err, tt.want)
				}
				var told *association.PeerError
				switch err := cause(t, tt.name, rogue); {
				case g == 3 && !tt.quiet:
					if !errors.As(err, &told) || told.Code != frame.CodeUnexpectedMessage {
						t.Errorf("%s: the peer ended with %v, want ERROR 1", tt.name, err)
					}
				case !strings.Contains(err.Error(), "code 1"):
					t.Errorf("%s: the peer ended with %v, want code 1", tt.name, err)
				}
			}
		})
	}
}

// conns returns an association's ends with the connections below them.
func conns(t *testing.T, client, server *association.Config) (c, s *association.Association, cc, sc *conn) {
	t.Helper()
	l, err := association.ListenWith(server, func(cfg *association.Config) (net.Listener, error) {
		ln, err := newListener("127.0.0.1:0", cfg, defaultTiming)
		return watcher{ln, &sc}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r, s := dialRogue(t, l, client)
	return r.a, s, r.conn, sc
}

// watcher notes the last connection accepted.
type watcher struct {
	net.Listener
	last **conn
}

func (w watcher) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err == nil {
		*w.last = c.(*conn)
	}
	return c, err
}

// GREASE has a stream of its own like any channel, is dropped, and costs nothing.
//
// Covers: CORE-9-01, C57
func TestGreaseStream(t *testing.T) {
	c, s, cc, _ := conns(t, clientConfig(), serverConfig())
	start(t, c)
	start(t, s)
	write(t, cc, aFrame(0xF0F0, 0x100, "anything"), aFrame(0xF0F0, 0x100, "else"), aFrame(0x7777, 0x100, "unknown"))
	soon := wait(t)
	for s.Stats().Grease < 2 || s.Stats().Unadvertised < 1 {
		if err := c.Ping(soon, frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
	}
}

// What is not a bidirectional stream of the client is not granted: to a client,
// nothing but as many of these as there are channels, and to a server nothing.
//
// Covers: C57, CORE-11.4-02
func TestNotGranted(t *testing.T) {
	c, s, cc, sc := conns(t, clientConfig(), serverConfig())
	start(t, c)
	start(t, s)
	if _, err := sc.qc.OpenStream(); !errors.As(err, new(*quicgo.StreamLimitReachedError)) {
		t.Errorf("a stream of the server: %v", err)
	}
	for side, qc := range map[string]*quicgo.Conn{"client": cc.qc, "server": sc.qc} {
		if _, err := qc.OpenUniStream(); !errors.As(err, new(*quicgo.StreamLimitReachedError)) {
			t.Errorf("%s: a unidirectional stream: %v", side, err)
		}
		if err := qc.SendDatagram([]byte("x")); err == nil {
			t.Errorf("%s: a datagram", side)
		}
		if qc.ConnectionState().Used0RTT || qc.ConnectionState().SupportsDatagrams.Local {
			t.Errorf("%s: %+v", side, qc.ConnectionState())
		}
	}
	// Control and Discovery are there; four more are. None comes free when it ends.
	for i := range 4 {
		qs, err := cc.qc.OpenStream()
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		qs.Write(aFrame(0xF100+frame.ChannelID(i), 0x100, ""))
		qs.Close()
		qs.CancelRead(0)
		if err := c.Ping(wait(t), frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cc.qc.OpenStream(); !errors.As(err, new(*quicgo.StreamLimitReachedError)) {
		t.Errorf("a stream too many: %v", err)
	}
	if _, err := cc.Write(aFrame(0xF200, 0x100, "")); err == nil || !strings.Contains(err.Error(), "takes no stream") {
		t.Errorf("a channel too many: %v", err)
	}
	if err := c.Ping(wait(t), frame.ChannelDiscovery); err != nil {
		t.Errorf("the association: %v", err)
	}
}

// No session is resumed, and nothing sent before the handshake, even where the
// caller's TLS configuration would allow it.
//
// Covers: CORE-11.4-02, C57
func TestNoResumption(t *testing.T) {
	client, server := clientConfig(), serverConfig()
	client.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	server.TLS = nil
	l := listenOn(t, server, defaultTiming)
	for range 2 {
		r, s := dialRogue(t, l, client)
		start(t, r.a)
		start(t, s)
		if err := r.a.Ping(wait(t), frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
		state := r.qc.ConnectionState()
		if state.TLS.DidResume || state.Used0RTT || state.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%+v", state)
		}
		closeBoth(r.a, s)
	}
}

// ALPN decides the generation, 3 before 2, and nothing in common is said to be so.
//
// Covers: CORE-10.1-01, C61, C57
func TestGenerations(t *testing.T) {
	for _, tt := range []struct {
		client, server []int
		want           int
	}{
		{nil, nil, 3}, {[]int{2, 3}, nil, 3}, {nil, []int{2}, 2}, {[]int{2}, nil, 2}, {[]int{3}, []int{2, 3}, 3},
		{[]int{3}, []int{2}, 0}, {[]int{2}, []int{3}, 0},
	} {
		if tt.want != 0 {
			c, s := pair(t, clientConfig(tt.client...), serverConfig(tt.server...))
			if c.Info().Generation != tt.want || s.Info().Generation != tt.want {
				t.Errorf("%v to %v: generations %d and %d, want %d", tt.client, tt.server, c.Info().Generation, s.Info().Generation, tt.want)
			}
			continue
		}
		l := listenOn(t, serverConfig(tt.server...), defaultTiming)
		if _, err := Dial(wait(t), l.Addr().String(), clientConfig(tt.client...)); !errors.Is(err, association.ErrGeneration) {
			t.Errorf("%v to %v: %v, want ErrGeneration", tt.client, tt.server, err)
		}
	}
}

// The peer's identity is checked on both sides, and a refusal is told as over TCP.
//
// Covers: C57
func TestRefusedIdentity(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		nobody := func(ed25519.PublicKey) error { return errors.New("not you") }
		client, server := clientConfig(g), serverConfig(g)
		client.VerifyPeer = nobody
		l := listenOn(t, server, defaultTiming)
		if _, err := Dial(wait(t), l.Addr().String(), client); !errors.Is(err, association.ErrAuthentication) {
			t.Errorf("the client refuses: %v", err)
		}

		client, server = clientConfig(g), serverConfig(g)
		server.VerifyPeer = nobody
		l = listenOn(t, server, defaultTiming)
		c, err := Dial(wait(t), l.Addr().String(), client)
		if err == nil { // it has sent CLIENT_AUTH and heard nothing yet
			start(t, c)
			err = cause(t, "client", c)
		}
		if !errors.Is(err, association.ErrAuthentication) {
			t.Errorf("the server refuses: %v", err)
		}
	})
}

// HELLO goes over Control before the other streams begin.
//
// Covers: C57, C48
func TestHello(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		client, server := clientConfig(g), serverConfig(g)
		client.Hello, server.Hello = &association.Hello{}, &association.Hello{}
		client.Channels = []frame.ChannelID{frame.ChannelDiscovery, frame.ChannelWorkflow}
		server.Channels = client.Channels
		l := listenOn(t, server, defaultTiming)
		accepted := make(chan *association.Association, 1)
		go func() {
			s, err := l.Accept(context.Background())
			if err != nil {
				t.Error(err)
			}
			accepted <- s
		}()
		c, err := Dial(wait(t), l.Addr().String(), client)
		if err != nil {
			t.Fatal(err)
		}
		s := <-accepted
		defer closeBoth(c, s)
		u, v := start(t, c), start(t, s)
		w, x := startOn(t, c, frame.ChannelWorkflow), startOn(t, s, frame.ChannelWorkflow)
		x.send(message{0x100, "on a channel that HELLO added"})
		w.want(t, "Workflow", message{0x100, "on a channel that HELLO added"})
		u.send(message{0x100, "a"})
		v.want(t, "Discovery", message{0x100, "a"})
		if st := s.Stats(); st.HelloRequired != 0 || st.PongIgnored != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Keys are replaced under load, on each channel's own stream.
//
// Covers: C57, CORE-11.5-01
func TestKeyUpdates(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		client, server := clientConfig(g), serverConfig(g)
		client.UpdateFrames, server.UpdateFrames = 5, 7
		client.Channels = []frame.ChannelID{frame.ChannelDiscovery, frame.ChannelBridge}
		client.PeerChannels, server.Channels, server.PeerChannels = client.Channels, client.Channels, client.Channels
		c, s := pair(t, client, server)
		var users []*user
		for _, id := range client.Channels {
			users = append(users, startOn(t, c, id), startOn(t, s, id))
		}
		var sent []message
		for i := range 200 {
			sent = append(sent, message{frame.Type(0x100 + i), strings.Repeat("x", i)})
		}
		for _, u := range users {
			u.send(sent...)
		}
		for _, u := range users {
			u.want(t, "under key updates", sent...)
		}
		if n := c.Stats().KeyUpdatesIn; n < 50 {
			t.Errorf("%d key updates", n)
		}
	})
}
