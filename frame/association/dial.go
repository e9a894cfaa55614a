package association

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Dial connects to addr ("host:port") over TCP and TLS 1.3, does the handshake as
// client and returns the association, of which nothing runs before a transport is
// started. ctx and Config.HandshakeTimeout bound all of it, and nothing after it.
// The caller has to Close the association.
func Dial(ctx context.Context, addr string, cfg *Config) (*Association, error) {
	c, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("association: %w", err)
	}
	return c.dial(ctx, host, func(ctx context.Context, c *Config) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return tls.Client(Direct(conn), c.TLS), nil
	})
}

// DialWith is Dial over something else than TCP. dial gets cfg with its defaults
// and the TLS configuration for host, and must not change it. What it returns is
// handed to Client.
func DialWith(ctx context.Context, host string, cfg *Config, dial func(context.Context, *Config) (net.Conn, error)) (*Association, error) {
	c, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, host, dial)
}

func (c *config) dial(ctx context.Context, host string, dial func(context.Context, *Config) (net.Conn, error)) (*Association, error) {
	c.TLS = c.clientTLS(host)
	ctx, cancel := context.WithTimeout(ctx, c.HandshakeTimeout)
	defer cancel()
	conn, err := dial(ctx, &c.Config)
	if err != nil {
		return nil, timedOut(ctx, fmt.Errorf("association: %w", err))
	}
	return connect(ctx, conn, c, true)
}

// Client does the handshake as client over any reliable, ordered stream. Of a
// *tls.Conn, whose handshake it does if need be, and of a [Streams], ALPN gives
// the generation; elsewhere Config.Generations[0] does. conn belongs to the
// association from then on, and is closed on failure.
func Client(ctx context.Context, conn net.Conn, cfg *Config) (*Association, error) {
	return over(ctx, conn, cfg, true)
}

// Server is Client for the other side.
func Server(ctx context.Context, conn net.Conn, cfg *Config) (*Association, error) {
	return over(ctx, conn, cfg, false)
}

func over(ctx context.Context, conn net.Conn, cfg *Config, client bool) (*Association, error) {
	c, err := cfg.resolve()
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.HandshakeTimeout)
	defer cancel()
	return connect(ctx, conn, c, client)
}

// connect does TLS where there is any, and the handshake.
func connect(ctx context.Context, conn net.Conn, c *config, client bool) (*Association, error) {
	alpn := c.generations[0].alpn
	switch t := conn.(type) {
	case *tls.Conn:
		if err := t.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, timedOut(ctx, c.tlsFailed(err))
		}
		alpn = t.ConnectionState().NegotiatedProtocol
	case Streams:
		alpn = t.NegotiatedProtocol()
	}
	gen := c.negotiated(alpn)
	if gen == nil {
		hangUp(conn)
		return nil, fmt.Errorf("%w: TLS negotiated %q, we take %s", ErrGeneration, alpn, strings.Join(c.alpn(), ", "))
	}
	if gen.number == 2 && slices.Contains(c.generations, &generation3) {
		// The peer may be of generation 2, or someone may have taken 3 out of an
		// unverified TLS handshake; at Standard that costs no strength (C61).
		c.Logger.Info("crypto generation 2 negotiated", "peer", conn.RemoteAddr())
	}
	return shake(ctx, conn, c, gen, client)
}

// negotiated returns the generation of an ALPN name, nil if it is none of ours.
func (c *config) negotiated(alpn string) *generation {
	for _, g := range c.generations {
		if g.alpn == alpn {
			return g
		}
	}
	return nil
}

// alertNoApplicationProtocol is the TLS alert of a server that shares no ALPN name
// with the client (RFC 7301 §3.2).
const alertNoApplicationProtocol tls.AlertError = 120

// tlsFailed adds to a failed TLS handshake that the generations were the cause.
func (c *config) tlsFailed(err error) error {
	// crypto/tls gives a received alert no type of its own outside QUIC; its text
	// is that of the exported AlertError.
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == alertNoApplicationProtocol.Error() {
		return fmt.Errorf("%w: the server takes none of %s: %w", ErrGeneration, strings.Join(c.alpn(), ", "), err)
	}
	return fmt.Errorf("association: TLS: %w", err)
}

// clientTLS returns the TLS configuration for dialling host.
func (c *config) clientTLS(host string) *tls.Config {
	t := c.baseTLS(c.TLS)
	if t.ServerName == "" {
		t.ServerName = host
	}
	return t
}

// baseTLS returns from, which may be nil, with what the association decides:
// ALPN, at least TLS 1.3, and no resumption, since N-PAMP has no 0-RTT.
func (c *config) baseTLS(from *tls.Config) *tls.Config {
	t := from.Clone() // nil stays nil
	if t == nil {
		t = &tls.Config{}
	}
	t.NextProtos = c.alpn()
	t.MinVersion = max(t.MinVersion, tls.VersionTLS13)
	t.SessionTicketsDisabled = true
	t.ClientSessionCache = nil
	if t.KeyLogWriter == nil {
		t.KeyLogWriter = c.KeyLogWriter
	}
	return t
}
