package quic

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame/association"
)

// Listen is association.Listen over QUIC.
func Listen(addr string, cfg *association.Config) (*association.Listener, error) {
	return listen(addr, cfg, defaultTiming)
}

func listen(addr string, cfg *association.Config, t timing) (*association.Listener, error) {
	return association.ListenWith(cfg, func(cfg *association.Config) (net.Listener, error) {
		return newListener(addr, cfg, t)
	})
}

// A listener is QUIC's as a net.Listener.
type listener struct {
	ln      *quicgo.Listener
	socket  *socket
	cfg     *association.Config
	pending atomic.Int64 // connections whose QUIC handshake is under way, or that wait for Accept
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	closed bool
}

func newListener(addr string, cfg *association.Config, t timing) (net.Listener, error) {
	udpAddr, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp", udpAddr)
	if err != nil {
		return nil, err
	}
	l := &listener{cfg: cfg}
	l.socket = newSocket(&quicgo.Transport{
		Conn:                udp,
		ConnContext:         l.arrived,
		VerifySourceAddress: func(net.Addr) bool { return l.pending.Load() >= int64(cfg.MaxHandshakes)/2 },
	}, udp)
	if l.ln, err = l.socket.tr.Listen(cfg.TLS, config(cfg, t, streams(cfg))); err != nil {
		l.socket.release()
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Accept returns the next connection whose QUIC handshake is done.
func (l *listener) Accept() (net.Conn, error) {
	qc, err := l.ln.Accept(l.ctx)
	if err != nil {
		return nil, net.ErrClosed
	}
	qc.Context().Value(arrivalKey{}).(*arrival).accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		qc.CloseWithError(codeCut, "closed")
		return nil, net.ErrClosed
	}
	l.socket.retain()
	c := newConn(qc, l.socket, l.cfg, false)
	c.start()
	return c, nil
}

// Close implements net.Listener. The socket lives on for what was accepted.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.ln.Close()
	for { // those that nobody accepted
		qc, err := l.ln.Accept(context.Background())
		if err != nil {
			break
		}
		qc.CloseWithError(codeCut, "closed")
	}
	l.socket.release()
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.ln.Addr() }

var errBusy = errors.New("quic: too many handshakes at once")

// An arrival is a connection that has not been accepted yet, in its context.
type arrival struct {
	listener *listener
	from     net.Addr
	once     sync.Once
}

type arrivalKey struct{}

// arrived is called with each new connection, and refuses it when there are too
// many already.
func (l *listener) arrived(ctx context.Context, info *quicgo.ClientInfo) (context.Context, error) {
	if l.pending.Add(1) > int64(l.cfg.MaxHandshakes) {
		l.pending.Add(-1)
		return nil, errBusy
	}
	a := &arrival{listener: l, from: info.RemoteAddr}
	context.AfterFunc(ctx, func() { a.fail(context.Cause(ctx)) })
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

func (a *arrival) accept() {
	a.once.Do(func() { a.listener.pending.Add(-1) })
}

// fail is accept for a connection that came to nothing.
func (a *arrival) fail(err error) {
	a.once.Do(func() {
		a.listener.pending.Add(-1)
		a.listener.cfg.Logger.Info("QUIC handshake failed", slog.Any("peer", a.from), slog.Any("error", err))
	})
}
