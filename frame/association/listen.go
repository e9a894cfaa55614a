package association

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Listener accepts associations, over TCP and TLS 1.3 unless ListenWith made it.
// Its methods may be called from any goroutine.
type Listener struct {
	ln      net.Listener
	cfg     *config
	tls     *tls.Config // over each connection; nil for none
	ready   chan *Association
	slots   chan struct{} // one for each handshake at once
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Listen listens on addr ("host:port"). One goroutine accepts connections and one
// more runs for each handshake, at most Config.MaxHandshakes; while there are so
// many, further connections wait in the system's queue. Config.TLS has to have a
// certificate, or nothing in it that could give one: then the listener makes
// itself a self-signed one, for the handshake above it is what authenticates.
func Listen(addr string, cfg *Config) (*Listener, error) {
	c, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	t, err := c.serverTLS()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("association: %w", err)
	}
	return serve(ln, c, t), nil
}

// ListenWith is Listen over something else than TCP. listen gets cfg with its
// defaults and the TLS configuration of a server, and must not change it. What it
// returns is accepted from and closed as a listener of TCP is, and what that gives
// is handed to Server.
func ListenWith(cfg *Config, listen func(*Config) (net.Listener, error)) (*Listener, error) {
	c, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	if c.TLS, err = c.serverTLS(); err != nil {
		return nil, err
	}
	ln, err := listen(&c.Config)
	if err != nil {
		return nil, fmt.Errorf("association: %w", err)
	}
	return serve(ln, c, nil), nil
}

// serve returns the listener on ln, over TLS unless t is nil.
func serve(ln net.Listener, c *config, t *tls.Config) *Listener {
	l := &Listener{
		ln:    ln,
		cfg:   c,
		tls:   t,
		ready: make(chan *Association),
		slots: make(chan struct{}, c.MaxHandshakes),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Add(1)
	go l.run()
	return l
}

// Addr returns the address listened on.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Accept returns the next association whose handshake is done. Handshakes that
// fail are logged and not returned. The errors are ctx's, and ErrClosed after
// Close. Associations that nobody accepts count as handshakes.
func (l *Listener) Accept(ctx context.Context) (*Association, error) {
	select {
	case a := <-l.ready:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ctx.Done():
		return nil, ErrClosed
	}
}

// Close stops listening, ends the handshakes under way and closes the associations
// that were not accepted. No goroutine of the listener is left when it returns;
// accepted associations live on. It is idempotent.
func (l *Listener) Close() error {
	l.cancel()
	err := l.ln.Close()
	l.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// run accepts connections.
func (l *Listener) run() {
	defer l.running.Done()
	var pause time.Duration
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		conn, err := l.ln.Accept()
		if err != nil {
			<-l.slots
			if l.ctx.Err() != nil {
				return
			}
			// Out of descriptors, or the like: wait for some to come free.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			l.cfg.Logger.Warn("accept", "error", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-l.ctx.Done():
				return
			}
			continue
		}
		pause = 0
		l.running.Add(1)
		go l.handshake(conn)
	}
}

// handshake does one handshake and hands the association out.
func (l *Listener) handshake(conn net.Conn) {
	defer l.running.Done()
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.HandshakeTimeout)
	defer cancel()

	// What the client offers is needed to say why there is nothing in common.
	var offered []string
	stream := conn
	if l.tls != nil {
		t := l.tls.Clone()
		choose := t.GetConfigForClient
		t.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			offered = hello.SupportedProtos
			if choose == nil {
				return nil, nil
			}
			return choose(hello)
		}
		stream = tls.Server(Direct(conn), t)
	}
	a, err := connect(ctx, stream, l.cfg, false)
	if err != nil {
		if len(offered) > 0 && !slices.ContainsFunc(offered, func(p string) bool { return l.cfg.negotiated(p) != nil }) {
			err = fmt.Errorf("%w: the client offers %s, we take %s: %w", ErrGeneration,
				strings.Join(offered, ", "), strings.Join(l.cfg.alpn(), ", "), err)
		}
		l.cfg.Logger.Info("handshake failed", "peer", conn.RemoteAddr(), "error", err)
		return
	}
	select {
	case l.ready <- a:
	case <-l.ctx.Done():
		a.Close()
	}
}

// serverTLS returns the TLS configuration for listening.
func (c *config) serverTLS() (*tls.Config, error) {
	t := c.baseTLS(c.TLS)
	if len(t.Certificates) == 0 && t.GetCertificate == nil && t.GetConfigForClient == nil {
		cert, err := selfSigned()
		if err != nil {
			return nil, fmt.Errorf("association: self-signed certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	if choose := t.GetConfigForClient; choose != nil {
		t.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen != nil {
				chosen = c.baseTLS(chosen)
			}
			return chosen, err
		}
	}
	return t, nil
}

// selfSigned makes a certificate that nobody has reason to trust.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
