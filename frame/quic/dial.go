package quic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame/association"
)

// nextAddress is after how long the next address of a host is tried as well (RFC
// 8305 §5): a port of UDP that nobody listens on is merely silent.
const nextAddress = 250 * time.Millisecond

// Dial is association.Dial over QUIC. Where the host has several addresses, the
// first that answers is taken.
func Dial(ctx context.Context, addr string, cfg *association.Config) (*association.Association, error) {
	return dial(ctx, addr, cfg, defaultTiming)
}

func dial(ctx context.Context, addr string, cfg *association.Config, t timing) (*association.Association, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("quic: %w", err)
	}
	return association.DialWith(ctx, host, cfg, func(ctx context.Context, cfg *association.Config) (net.Conn, error) {
		addrs, err := resolve(ctx, host, port)
		if err != nil {
			return nil, err
		}
		return dialFirst(ctx, addrs, cfg, t)
	})
}

// resolve returns the addresses of host, at least one.
func resolve(ctx context.Context, host, port string) ([]netip.AddrPort, error) {
	n, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(n))
	}
	return addrs, nil
}

// dialFirst tries the addresses in turn, the next one when one has failed or taken
// long, and returns the connection that is there first. No goroutine is left when
// it returns. The error is that of the first address that failed.
func dialFirst(ctx context.Context, addrs []netip.AddrPort, cfg *association.Config, t timing) (net.Conn, error) {
	type result struct {
		conn *conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	timer := time.NewTimer(0) // begins the first
	defer timer.Stop()
	var found *conn
	var failed error
	for started, running := 0, 0; ; {
		var next <-chan time.Time
		if started < len(addrs) && found == nil && ctx.Err() == nil {
			next = timer.C
		} else if running == 0 {
			break
		}
		select {
		case <-next:
			addr := addrs[started]
			started++
			running++
			go func() {
				c, err := dialOne(ctx, addr, cfg, t)
				results <- result{c, err}
			}()
			timer.Reset(nextAddress)
		case r := <-results:
			running--
			switch {
			case r.err == nil && found == nil:
				found = r.conn
				cancel() // the others; found is not bound to ctx any more
			case r.err == nil:
				r.conn.Close()
			case failed == nil:
				failed = r.err
				timer.Reset(0)
			default:
				timer.Reset(0)
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case failed != nil:
		return nil, failed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("quic: the host has no address")
}

// dialOne makes a connection with one address, over a socket of its own, and opens
// Control's stream.
func dialOne(ctx context.Context, addr netip.AddrPort, cfg *association.Config, t timing) (*conn, error) {
	network := "udp6"
	if addr.Addr().Is4() {
		network = "udp4"
	}
	udp, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err
	}
	s := newSocket(&quicgo.Transport{Conn: udp}, udp)
	qc, err := s.tr.Dial(ctx, net.UDPAddrFromAddrPort(addr), cfg.TLS, config(cfg, t, 0))
	if err != nil {
		s.release()
		return nil, dialFailed(err, cfg)
	}
	c := newConn(qc, s, cfg, true)
	if err := c.begin(); err != nil {
		c.Cut()
		c.Close()
		return nil, err
	}
	return c, nil
}

// noApplicationProtocol is the TLS alert of a server that shares no ALPN name with
// the client, as QUIC carries it (RFC 9001 §4.8).
const noApplicationProtocol = 0x100 + 120

// dialFailed says of a failed QUIC handshake what it was.
func dialFailed(err error, cfg *association.Config) error {
	var transport *quicgo.TransportError
	var idle *quicgo.IdleTimeoutError
	var slow *quicgo.HandshakeTimeoutError
	switch {
	case errors.As(err, &transport) && transport.Remote && transport.ErrorCode == noApplicationProtocol:
		return fmt.Errorf("%w: the server takes none of %q: %w", association.ErrGeneration, cfg.TLS.NextProtos, err)
	case errors.As(err, &idle), errors.As(err, &slow):
		return fmt.Errorf("%w: %w", association.ErrHandshakeTimeout, err)
	}
	return fmt.Errorf("quic: %w", err)
}
