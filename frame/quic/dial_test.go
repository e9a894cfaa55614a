package quic

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// Where nobody is, or nobody who speaks it, Dial fails in time, and says why.
//
// Covers: C57
func TestDialFails(t *testing.T) {
	nobody, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	cfg := clientConfig()
	cfg.HandshakeTimeout = 200 * time.Millisecond
	if _, err := Dial(t.Context(), nobody.LocalAddr().String(), cfg); !errors.Is(err, association.ErrHandshakeTimeout) {
		t.Errorf("silence: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	if _, err := Dial(ctx, nobody.LocalAddr().String(), clientConfig()); !errors.Is(err, enough) {
		t.Errorf("cancelled: %v", err)
	}
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:99999", "127.0.0.1:no-such-service", ":1"} {
		if _, err := Dial(t.Context(), addr, cfg); err == nil {
			t.Errorf("dialled %q", addr)
		}
	}
	if _, err := Dial(t.Context(), "127.0.0.1:1", &association.Config{}); !errors.Is(err, association.ErrConfig) {
		t.Errorf("no identity: %v", err)
	}

	// QUIC of another protocol.
	cfg = serverConfig()
	cfg.TLS = nil
	l := listenOn(t, cfg, defaultTiming)
	other := clientConfig().TLS.Clone()
	other.NextProtos = []string{"h3"}
	if qc, err := quicgo.DialAddr(wait(t), l.Addr().String(), other, nil); err == nil {
		t.Errorf("h3 was accepted")
		qc.CloseWithError(0, "")
	}
	// A certificate that nobody vouches for.
	strict := clientConfig()
	strict.TLS = nil
	if _, err := Dial(wait(t), l.Addr().String(), strict); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("self-signed: %v", err)
	}
}

// Of several addresses the first that answers is taken, also where the first in
// order is silent, and nothing is left of the others.
//
// Covers: C57
func TestDialFirst(t *testing.T) {
	silent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l := listenOn(t, serverConfig(), defaultTiming)
	dialThem := func(addrs ...string) (*association.Association, error) {
		return association.DialWith(wait(t), "127.0.0.1", clientConfig(), func(ctx context.Context, cfg *association.Config) (net.Conn, error) {
			return dialFirst(ctx, addrPorts(t, addrs...), cfg, defaultTiming)
		})
	}
	there, quiet, gone := l.Addr().String(), silent.LocalAddr().String(), "[::1]:9"
	for _, addrs := range [][]string{
		{there}, {there, quiet}, {quiet, there}, {gone, there}, {quiet, quiet, there, quiet}, {there, there, there},
	} {
		began := time.Now()
		c, err := dialThem(addrs...)
		if err != nil {
			t.Errorf("%v: %v", addrs, err)
			continue
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%v: took %v", addrs, took)
		}
		if c.Info().RemoteAddr.String() != there {
			t.Errorf("%v: reached %v", addrs, c.Info().RemoteAddr)
		}
		s, err := l.Accept(wait(t))
		if err != nil {
			t.Fatal(err)
		}
		closeBoth(c, s)
	}
	if _, err := dialThem(); err == nil {
		t.Error("no address was reached")
	}
}

// A name with addresses of both families finds a listener on one.
//
// Covers: C57
func TestResolve(t *testing.T) {
	addrs, err := resolve(t.Context(), "127.0.0.1", "4433")
	if err != nil || len(addrs) != 1 || addrs[0] != netip.MustParseAddrPort("127.0.0.1:4433") {
		t.Errorf("%v, %v", addrs, err)
	}
	if addrs, err := resolve(t.Context(), "::ffff:127.0.0.1", "domain"); err != nil || addrs[0] != netip.MustParseAddrPort("127.0.0.1:53") {
		t.Errorf("%v, %v", addrs, err)
	}
	if addrs, err := resolve(t.Context(), "::1", "1"); err != nil || addrs[0] != netip.MustParseAddrPort("[::1]:1") {
		t.Errorf("%v, %v", addrs, err)
	}
	l := listenOn(t, serverConfig(), defaultTiming)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := Dial(wait(t), net.JoinHostPort("localhost", port), clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}

// What a listener gave lives on when it is closed, and the socket goes with the
// last of it.
//
// Covers: C57
func TestListenerClose(t *testing.T) {
	l := listenOn(t, serverConfig(), defaultTiming)
	addr := l.Addr().String()
	var ends []*association.Association
	for range 2 {
		c, err := Dial(wait(t), addr, clientConfig())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept(wait(t))
		if err != nil {
			t.Fatal(err)
		}
		start(t, c)
		start(t, s)
		ends = append(ends, c, s)
	}
	pending, err := Dial(wait(t), addr, clientConfig()) // that nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	u := start(t, pending)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-u.closed
	if _, err := l.Accept(t.Context()); !errors.Is(err, association.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if _, err := Listen(addr, serverConfig()); err == nil {
		t.Error("the address is free while associations use it")
	}
	for i, a := range ends {
		if err := a.Ping(wait(t), frame.ChannelDiscovery); err != nil {
			t.Errorf("end %d: %v", i, err)
		}
	}
	closeBoth(ends[0], ends[1])
	if err := ends[2].Ping(wait(t), frame.ChannelDiscovery); err != nil {
		t.Error(err)
	}
	closeBoth(ends[2], ends[3])
	again, err := Listen(addr, serverConfig())
	if err != nil {
		t.Fatalf("the socket is still there: %v", err)
	}
	again.Close()
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:99999", "192.0.2.1:0"} {
		if _, err := Listen(addr, serverConfig()); err == nil {
			t.Errorf("listens on %q", addr)
		}
	}
}

// logLines is a log that can be read, a line at a time.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// Handshakes are bounded in number and in time, on both levels, a client that does
// not go on holds no place for longer, and one that fails is logged.
//
// Covers: C57
func TestHandshakesBounded(t *testing.T) {
	log := make(logLines, 100)
	cfg := serverConfig()
	cfg.MaxHandshakes = 2
	cfg.HandshakeTimeout = 500 * time.Millisecond
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	l := listenOn(t, cfg, defaultTiming)
	// Clients that do QUIC's handshake and nothing more.
	tlsConfig := clientConfig().TLS.Clone()
	tlsConfig.NextProtos = []string{"n-pamp/3"}
	var idle []*quicgo.Conn
	refused := 0
	for range 12 {
		qc, err := quicgo.DialAddr(wait(t), l.Addr().String(), tlsConfig, nil)
		if err != nil {
			refused++
			continue
		}
		idle = append(idle, qc)
		defer qc.CloseWithError(0, "")
	}
	// Two in the listener's hands, two that wait for it, and what time let through.
	if refused == 0 || len(idle) < 2 {
		t.Errorf("%d clients of %d were refused", refused, refused+len(idle))
	}
	for _, qc := range idle {
		<-qc.Context().Done() // each in its time
	}
	c, err := Dial(wait(t), l.Addr().String(), clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s, err := l.Accept(wait(t)); err != nil {
		t.Error(err)
	} else {
		defer s.Close()
	}
	if line := <-log; !strings.Contains(line, "handshake failed") || !strings.Contains(line, "handshake timed out") {
		t.Errorf("log says %s", line)
	}

	// A client that speaks another protocol.
	tlsConfig.NextProtos = []string{"h3"}
	if _, err := quicgo.DialAddr(wait(t), l.Addr().String(), tlsConfig, nil); err == nil {
		t.Error("h3 was accepted")
	}
	for {
		if line := <-log; strings.Contains(line, "QUIC handshake failed") {
			break
		}
	}
}
