package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/frame/quic"
)

// linkFlags are the flags of every command that makes associations.
type linkFlags struct {
	identity        string
	tlsCert, tlsKey string
	suite           string
	generation      int
	noFlowControl   bool
	transport       transport
	timeout         time.Duration
	strict          bool
	lookFlags

	// Of a command that dials.
	pin         string
	known       string
	insecureTLS bool
}

const defaultTimeout = 10 * time.Second

// add adds the flags. timeout is the default of --timeout, and meaning what it
// bounds.
func (l *linkFlags) add(f *pflag.FlagSet, timeout time.Duration, meaning string) {
	f.StringVar(&l.identity, "identity", "", "`FILE` with our Ed25519 key, as keygen writes it (default a fresh one)")
	f.StringVar(&l.tlsCert, "tls-cert", "", "`FILE` with our TLS certificate chain in PEM")
	f.StringVar(&l.tlsKey, "tls-key", "", "`FILE` with its key in PEM")
	f.StringVar(&l.suite, "suite", "", "take this AEAD `suite` alone: aes-256-gcm or chacha20-poly1305")
	f.IntVar(&l.generation, "generation", 0, "take this crypto `generation` alone: 2 or 3")
	f.BoolVar(&l.noFlowControl, "no-flow-control", false, "keep to no window, for a generation 3 peer that knows of none")
	f.Var(&l.transport, "transport", "carry associations over this `transport`: tcp, under TLS, or quic")
	f.DurationVar(&l.timeout, "timeout", timeout, meaning)
	f.BoolVar(&l.strict, "strict", false, "end with 5 where records were skipped or the set is partial")
	l.lookFlags.add(f)
}

// addDial adds the flags of a command that dials.
func (l *linkFlags) addDial(f *pflag.FlagSet) {
	f.StringVar(&l.pin, "pin", "", "peer's Ed25519 `KEY`, in hex or as PeerHandle; no other is accepted")
	f.StringVar(&l.known, "known-peers", "", "remember in `FILE` who is at which address, and refuse another one there")
	f.BoolVar(&l.insecureTLS, "insecure-tls", false, "take any TLS certificate: the N-PAMP handshake authenticates")
}

// config makes of the flags what an association needs, without the TLS settings
// that depend on the side.
func (l *linkFlags) config() (*association.Config, error) {
	cfg := &association.Config{TLS: &tls.Config{}, NoFlowControl: l.noFlowControl}
	if l.timeout < 0 {
		return nil, usagef("--timeout must not be negative")
	}
	switch l.generation {
	case 0:
	case 2, 3:
		cfg.Generations = []int{l.generation}
	default:
		return nil, usagef("--generation must be 2 or 3")
	}
	if l.suite != "" {
		s, err := parseSuite(l.suite)
		if err != nil {
			return nil, err
		}
		cfg.Suites = []keys.Suite{s}
	}
	var err error
	if l.identity == "" {
		_, cfg.Identity, err = ed25519.GenerateKey(rand.Reader)
	} else {
		cfg.Identity, err = readIdentity(l.identity)
	}
	if err != nil {
		return nil, err
	}
	if (l.tlsCert == "") != (l.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if l.tlsCert != "" {
		cert, err := tls.LoadX509KeyPair(l.tlsCert, l.tlsKey)
		if err != nil {
			return nil, &failure{exit: exitUsage, err: err}
		}
		cfg.TLS.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

func parseSuite(s string) (keys.Suite, error) {
	for _, suite := range []keys.Suite{keys.SuiteAES256GCM, keys.SuiteChaCha20Poly1305} {
		if strings.EqualFold(s, suite.String()) {
			return suite, nil
		}
	}
	return 0, usagef("--suite must be aes-256-gcm or chacha20-poly1305")
}

// A transport is what is below an association. The zero value is TCP.
type transport struct{ quic bool }

// String implements pflag.Value.
func (t transport) String() string {
	if t.quic {
		return "quic"
	}
	return "tcp"
}

// Set implements pflag.Value.
func (t *transport) Set(s string) error {
	switch s {
	case "tcp", "quic":
		t.quic = s == "quic"
		return nil
	}
	return errors.New("must be tcp or quic")
}

// Type implements pflag.Value.
func (*transport) Type() string { return "transport" }

func (t transport) dial(ctx context.Context, addr string, cfg *association.Config) (*association.Association, error) {
	if t.quic {
		return quic.Dial(ctx, addr, cfg)
	}
	return association.Dial(ctx, addr, cfg)
}

func (t transport) listen(addr string, cfg *association.Config) (*association.Listener, error) {
	if t.quic {
		return quic.Listen(addr, cfg)
	}
	return association.Listen(addr, cfg)
}

// An address is where a peer is.
type address struct{ hostport, host string }

// parseAddress reads host:port or npamp://host:port.
func parseAddress(s string) (address, error) {
	hostport := strings.TrimSuffix(strings.TrimPrefix(s, "npamp://"), "/")
	host, port, err := net.SplitHostPort(hostport)
	if err != nil || host == "" || port == "" || strings.ContainsAny(hostport, "/?#@") {
		return address{}, usagef("%q is not an address: want host:port or npamp://host:port", s)
	}
	return address{hostport, host}, nil
}

// loopback reports whether the host is this machine by its name.
func (a address) loopback() bool {
	if ip, err := netip.ParseAddr(a.host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(a.host, "localhost") || strings.HasSuffix(strings.ToLower(a.host), ".localhost")
}

// A dialer makes associations with one peer, under one identity.
type dialer struct {
	app   *app
	addr  address
	cfg   *association.Config
	link  *linkFlags
	known *knownPeers // nil: nobody is remembered
}

func (a *app) newDialer(addr string, l *linkFlags) (*dialer, error) {
	to, err := parseAddress(addr)
	if err != nil {
		return nil, err
	}
	cfg, err := l.config()
	if err != nil {
		return nil, err
	}
	if l.pin != "" {
		match, err := parseKey(l.pin)
		if err != nil {
			return nil, err
		}
		cfg.VerifyPeer = func(pub ed25519.PublicKey) error {
			if !match(pub) {
				return fmt.Errorf("peer is %s, not the one of --pin", describeKey(pub))
			}
			return nil
		}
	}
	d := &dialer{app: a, addr: to, cfg: cfg, link: l}
	met := false
	if l.known != "" {
		d.known = &knownPeers{l.known}
		if met, err = d.rememberPeers(); err != nil {
			return nil, err
		}
	}
	// TLS only carries: with a pin, where we know who is there, or on this machine,
	// the N-PAMP handshake alone says who the peer is.
	cfg.TLS.InsecureSkipVerify = l.pin != "" || met || l.insecureTLS || to.loopback()
	if l.timeout > 0 {
		cfg.HandshakeTimeout = l.timeout
	}
	if err := a.observe(&l.lookFlags, cfg); err != nil {
		return nil, err
	}
	return d, nil
}

// rememberPeers has the known peers checked in each handshake, and reports whether
// there are any at the address.
func (d *dialer) rememberPeers() (met bool, err error) {
	list, _, err := d.known.read()
	pinned := d.cfg.VerifyPeer
	d.cfg.VerifyPeer = func(pub ed25519.PublicKey) error {
		if pinned != nil {
			if err := pinned(pub); err != nil {
				return err
			}
		}
		return d.known.verify(d.addr, pub)
	}
	return len(at(list, d.addr)) > 0, err
}

// dial makes an association and says with whom.
func (d *dialer) dial(ctx context.Context) (*association.Association, error) {
	as, err := d.link.transport.dial(ctx, d.addr.hostport, d.cfg)
	if err != nil {
		d.app.look.failed(err)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, association.ErrConfig):
		return nil, &failure{exit: exitUsage, err: err}
	default:
		return nil, &failure{exit: exitConnect, err: hint(err)}
	}
	d.app.look.opened(as)
	who := as.Info().PeerIdentity
	switch {
	case d.known != nil:
		first, err := d.known.remember(d.addr, who)
		if err != nil {
			as.Close()
			return nil, failf(exitLocal, "the peer cannot be remembered: %w", err)
		}
		if first {
			d.app.note("peer is %s, met at %s for the first time and written to %s", describeKey(who), d.addr.hostport, d.known.file)
		}
	case d.link.pin == "":
		d.app.note("peer is %s, which no --pin confirms", describeKey(who))
	}
	return as, nil
}

// hint adds to an error what to do about it.
func hint(err error) error {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return fmt.Errorf("%w: --pin KEY says whom to expect, --insecure-tls takes anybody", err)
	}
	return err
}

// connect makes an association and the Discovery peer on it.
func (d *dialer) connect(ctx context.Context, cfg channel.Config) (*channel.Peer, error) {
	as, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if d.link.timeout > 0 {
		cfg.Limits.RequestTimeout = d.link.timeout
	}
	return newPeer(as, cfg)
}

// newPeer starts a Discovery peer on an association, which it owns.
func newPeer(as *association.Association, cfg channel.Config) (*channel.Peer, error) {
	tr, err := as.Transport(frame.ChannelDiscovery)
	if err != nil {
		as.Close()
		return nil, err
	}
	p, err := channel.New(tr, cfg)
	if err != nil {
		as.Close()
		return nil, err
	}
	return p, nil
}
