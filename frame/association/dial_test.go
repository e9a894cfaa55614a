package association

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// Covers: CORE-10.1-01, CORE-10.1-02, C61
func TestGenerationByALPN(t *testing.T) {
	tests := []struct {
		client, server []int
		want           int // 0: none in common
	}{
		{nil, nil, 3},
		{nil, []int{2}, 2},
		{nil, []int{3}, 3},
		{[]int{2}, nil, 2},
		{[]int{3}, nil, 3},
		{nil, []int{2, 3}, 2}, // the server decides
		{[]int{2, 3}, nil, 3},
		{[]int{2}, []int{3}, 0},
		{[]int{3}, []int{2}, 0},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.client, test.server), func(t *testing.T) {
			var log logged
			sc := serverConfig(test.server...)
			sc.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c, s, err := dialPair(t, clientConfig(test.client...), sc)
			if test.want == 0 {
				if !errors.Is(err, ErrGeneration) || !strings.Contains(err.Error(), fmt.Sprintf("n-pamp/%d", test.client[0])) {
					t.Fatalf("got %v", err)
				}
				log.want(t, "no crypto generation in common", fmt.Sprintf("the client offers n-pamp/%d", test.client[0]))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Info().Generation; got != test.want || s.Info().Generation != test.want {
				t.Errorf("generation %d", got)
			}
			state := c.conn.(*tls.Conn).ConnectionState()
			if want := fmt.Sprintf("n-pamp/%d", test.want); state.NegotiatedProtocol != want || state.Version != tls.VersionTLS13 {
				t.Errorf("TLS %x, %q", state.Version, state.NegotiatedProtocol)
			}
			u := start(t, s)
			start(t, c).send(message{0x100, "q"})
			u.want(t, "a frame", message{0x100, "q"})
		})
	}
}

// logged is a log to look into.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// want waits until the log has all of the texts.
func (l *logged) want(t *testing.T, texts ...string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		l.mu.Lock()
		s := l.b.String()
		l.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(s, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q is not in the log: %s", missing, s)
		}
		<-time.After(time.Millisecond)
	}
}

// Covers: CORE-10.1-01
func TestNoALPN(t *testing.T) {
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("server without", func(t *testing.T) {
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			if conn, err := ln.Accept(); err == nil {
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		if _, err := Dial(t.Context(), ln.Addr().String(), clientConfig()); !errors.Is(err, ErrGeneration) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("client without", func(t *testing.T) {
		var log logged
		sc := serverConfig()
		sc.Logger = slog.New(slog.NewTextHandler(&log, nil))
		l, err := Listen("127.0.0.1:0", sc)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		log.want(t, "no crypto generation in common", "TLS negotiated")
	})
}

// Covers: CORE-10.1-01, C61
func TestCertificateIsVerified(t *testing.T) {
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(leaf)
	sc := serverConfig()
	sc.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	l, err := Listen("127.0.0.1:0", sc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cc := clientConfig()
	for name, test := range map[string]struct {
		tls *tls.Config
		ok  bool
	}{
		"system roots": {nil, false},
		"our root":     {&tls.Config{RootCAs: trusted}, true},
		"other name":   {&tls.Config{RootCAs: trusted, ServerName: "elsewhere"}, false},
	} {
		cc.TLS = test.tls
		a, err := Dial(t.Context(), l.Addr().String(), cc)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			a.Close()
		}
	}
	if cc.TLS = nil; sc.TLS.NextProtos != nil {
		t.Error("the caller's TLS configuration was changed")
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", cc); err == nil {
		t.Error("dialled a port that nobody listens on")
	}
	if _, err := Dial(t.Context(), "no port", cc); err == nil {
		t.Error("dialled an address without a port")
	}
}

// Covers: C57, C61
func TestOverAnyStream(t *testing.T) {
	// A *tls.Conn gives the generation by ALPN, any other stream takes the first.
	cert, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	p, q := net.Pipe()
	client := tls.Client(p, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"n-pamp/2"}})
	server := tls.Server(q, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "n-pamp/2"}})
	var s *Association
	var serr error
	var wg sync.WaitGroup
	wg.Go(func() { s, serr = Server(t.Context(), server, serverConfig()) })
	c, err := Client(t.Context(), client, clientConfig())
	wg.Wait()
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	if c.Info().Generation != 2 || s.Info().Generation != 2 {
		t.Errorf("generation %d", c.Info().Generation)
	}
	closeBoth(c, s)

	c, s = memPair(t, clientConfig(), serverConfig())
	if c.Info().Generation != 3 {
		t.Errorf("generation %d", c.Info().Generation)
	}
	if i, j := c.Info(), s.Info(); !i.Client || j.Client || i.Profile != frame.ProfileStandard ||
		!i.LocalIdentity.Equal(j.PeerIdentity) || !j.LocalIdentity.Equal(i.PeerIdentity) || i.LocalAddr == nil || j.RemoteAddr == nil {
		t.Errorf("%+v, %+v", i, j)
	}
}

// Covers: CORE-5-04, CH10-7-01, CORE-9-02, CORE-7.4-01
func TestConfig(t *testing.T) {
	good := func() *Config { return clientConfig() }
	if _, err := good().resolve(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no identity":         func(c *Config) { c.Identity = nil },
		"short identity":      func(c *Config) { c.Identity = c.Identity[:32] },
		"generation 1":        func(c *Config) { c.Generations = []int{1} },
		"generation twice":    func(c *Config) { c.Generations = []int{2, 2} },
		"unknown suite":       func(c *Config) { c.Suites = []keys.Suite{3} },
		"suite twice":         func(c *Config) { c.Suites = []keys.Suite{1, 1} },
		"Governance":          func(c *Config) { c.Channels = []frame.ChannelID{frame.ChannelGovernance} },
		"Audit":               func(c *Config) { c.PeerChannels = []frame.ChannelID{frame.ChannelAudit} },
		"GREASE":              func(c *Config) { c.Channels = []frame.ChannelID{0xF000} },
		"FFFF":                func(c *Config) { c.PeerChannels = []frame.ChannelID{0xFFFF} },
		"future core":         func(c *Config) { c.Channels = []frame.ChannelID{0x14} },
		"negative timeout":    func(c *Config) { c.HandshakeTimeout = -1 },
		"negative handshakes": func(c *Config) { c.MaxHandshakes = -1 },
		"negative age":        func(c *Config) { c.UpdateAge = -1 },
		"update at each":      func(c *Config) { c.UpdateFrames = 1 },
		"negative liveness":   func(c *Config) { c.KeepAlive = -1 },
		"tiny frames":         func(c *Config) { c.MaxFrame = 100 },
		"huge frames":         func(c *Config) { c.MaxFrame = frame.MaxFrameLen + 1 },
		"huge frames out":     func(c *Config) { c.MaxSend = frame.MaxFrameLen + 1 },
		"HELLO of 0":          func(c *Config) { c.Hello = &Hello{Protocols: []uint64{0}} },
		"HELLO of 10":         func(c *Config) { c.Hello = &Hello{Protocols: []uint64{1, 0x10}} },
		"HELLO of 13":         func(c *Config) { c.Hello = &Hello{Protocols: []uint64{0x13}} },
		"HELLO too large":     func(c *Config) { c.Hello = &Hello{Protocols: []uint64{1 << 16}} },
	} {
		c := good()
		change(c)
		if _, err := Dial(t.Context(), "127.0.0.1:1", c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Dial: %v", name, err)
		}
		if _, err := Listen("127.0.0.1:0", c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Listen: %v", name, err)
		}
		p, q := net.Pipe()
		if _, err := Client(t.Context(), p, c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Client: %v", name, err)
		}
		if _, err := q.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: stream left open: %v", name, err)
		}
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", nil); !errors.Is(err, ErrConfig) {
		t.Errorf("nil: %v", err)
	}
	c := good()
	c.Channels = []frame.ChannelID{0x11, 0x20, 0x0D, 0x11, 0xEFFF}
	if r, err := c.resolve(); err != nil || fmt.Sprint(r.Channels) != "[Control Bridge Workflow 0x0020 0xefff]" {
		t.Errorf("%v, %v", r, err)
	}
	// A Config may be changed while associations are on it.
	r, err := c.resolve()
	if err != nil {
		t.Fatal(err)
	}
	c.Identity[0]++
	if r.Identity.Equal(c.Identity) {
		t.Error("the identity is shared with the caller")
	}
}

// A memListener accepts what it is given.
type memListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// Covers: C-limits
func TestListener(t *testing.T) {
	t.Run("handshakes at once", func(t *testing.T) {
		sc := serverConfig()
		sc.MaxHandshakes = 3
		l, err := Listen("127.0.0.1:0", sc)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		// Three that never get to the end, and one that waits for them.
		var idle []net.Conn
		for range 3 {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			idle = append(idle, conn)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := Dial(ctx, l.Addr().String(), clientConfig()); !errors.Is(err, ErrHandshakeTimeout) {
			t.Errorf("a fourth: %v", err)
		}
		idle[0].Close()
		if _, err := Dial(t.Context(), l.Addr().String(), clientConfig()); err != nil {
			t.Errorf("with a slot free: %v", err)
		}
	})
	t.Run("slow ones do not delay others", func(t *testing.T) {
		l, err := Listen("127.0.0.1:0", serverConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 5 {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		c, err := Dial(t.Context(), l.Addr().String(), clientConfig())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start(t, c)
		start(t, s)
	})
	t.Run("timeout", func(t *testing.T) {
		var log logged
		sc := serverConfig()
		sc.HandshakeTimeout = 50 * time.Millisecond
		sc.Logger = slog.New(slog.NewTextHandler(&log, nil))
		l, err := Listen("127.0.0.1:0", sc)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		log.want(t, "handshake timed out")
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
	t.Run("nobody accepts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ln := &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			c, err := serverConfig().resolve()
			if err != nil {
				t.Fatal(err)
			}
			tc, err := c.serverTLS()
			if err != nil {
				t.Fatal(err)
			}
			l := serve(ln, c, tc)
			p, q := net.Pipe()
			ln.conns <- q
			a, err := Client(t.Context(), tls.Client(p, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"n-pamp/3"}}), clientConfig())
			if err != nil {
				t.Fatal(err)
			}
			start(t, a)
			synctest.Wait() // the server's side waits to be accepted
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			wantCause(t, a, io.EOF)
		})
	})
	t.Run("close", func(t *testing.T) {
		l, err := Listen("127.0.0.1:0", serverConfig())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", l.Addr().String()) // a handshake under way
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		waiting := make(chan error)
		l2, err := Listen("127.0.0.1:0", serverConfig())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := l2.Accept(t.Context())
			waiting <- err
		}()
		l2.Close()
		if err := <-waiting; !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		began := time.Now()
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("Close took %v", d)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if _, err := l.Accept(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l3, err := Listen("127.0.0.1:0", serverConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer l3.Close()
		if _, err := l3.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Accept with a done context: %v", err)
		}
	})
	t.Run("accepted associations live on", func(t *testing.T) {
		c, s := tlsPair(t, clientConfig(), serverConfig())
		l, err := Listen("127.0.0.1:0", serverConfig())
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		su := start(t, s)
		start(t, c).send(message{0x100, "q"})
		su.want(t, "after the listener's end", message{0x100, "q"})
	})
}
