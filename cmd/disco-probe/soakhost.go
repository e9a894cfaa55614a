package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

// smallReadBuffer makes a socket take little that is not read.
func smallReadBuffer(_ context.Context, _, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { setReadBuffer(fd, soakBuffer) })
}

// A smallListener makes its connections keep little that is not taken.
type smallListener struct{ net.Listener }

func (l smallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok {
		t.SetWriteBuffer(soakBuffer)
	}
	return c, err
}

// listen starts the listener that every peer dials.
func (s *soak) listen() (*association.Listener, error) {
	return association.ListenWith(&association.Config{
		Identity:         s.key,
		HandshakeTimeout: 2 * soakPatience,
		VerifyPeer: func(pub ed25519.PublicKey) error {
			if s.byKey[string(pub)] == nil {
				return errors.New("it is none of us")
			}
			return nil
		},
	}, func(cfg *association.Config) (net.Listener, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		return tls.NewListener(smallListener{l}, cfg.TLS), nil
	})
}

// accept serves whoever dials until ctx is done.
func (s *soak) accept(ctx context.Context, l *association.Listener) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		as, err := l.Accept(ctx)
		if err != nil {
			return
		}
		running.Go(func() { s.serve(ctx, as) })
	}
}

// serve answers one peer until the association ends.
func (s *soak) serve(ctx context.Context, as *association.Association) {
	p := s.byKey[string(as.Info().PeerIdentity)]
	cfg := channel.Config{
		Hub:        s.hubs[p.index],
		Limits:     p.limits(),
		OnAnnounce: func(channel.Announcement) { s.announced.Add(1) },
	}
	if p.flips {
		cfg.Visible = func(r record.Record) bool {
			hidden := p.hidden.Load()
			return hidden == 0 || soakPart(r.ID()) != hidden
		}
	}
	peer, err := newPeer(as, cfg)
	if err != nil {
		return // it had ended
	}
	l := &soakLink{as: as, peer: peer}
	p.mu.Lock()
	p.host = l
	p.mu.Unlock()
	if p.flips {
		peer.Refresh() // what changed before anybody could tell this peer
	}
	stop := context.AfterFunc(ctx, func() { peer.Close() })
	cause := peer.Wait()
	stop()
	peer.Close()
	p.mu.Lock()
	if p.hostCause = cause; p.host == l {
		p.host = nil
	}
	p.mu.Unlock()
}
