// Package floor is what no implementation here can be much faster than: frames
// sealed with AES-256-GCM, a header in the clear before each, over plain TCP or
// inside TLS 1.3. There is no protocol, no queue and no lock. Pages of records
// are read with the same checks as anywhere else.
package floor

import (
	"bufio"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// Plain sets a case up over plain TCP.
func Plain(ctx context.Context, c bench.Case) (bench.Bench, error) { return open(ctx, c, plainLink) }

// TLS sets a case up inside TLS 1.3.
func TLS(ctx context.Context, c bench.Case) (bench.Bench, error) { return open(ctx, c, tlsLink) }

func open(ctx context.Context, c bench.Case, newLink func() (*link, error)) (bench.Bench, error) {
	l, err := newLink()
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case bench.List:
		return list(ctx, l, c)
	case bench.FanOut:
		return fanOut(ctx, l, c)
	}
	l.Close()
	return nil, fmt.Errorf("%s: not the floor's", c.Kind)
}

const headerLen = 36

// A sealer seals or opens the frames of one direction of one connection.
type sealer struct {
	aead  cipher.AEAD
	nonce [12]byte
	count uint64
}

func newAEAD() (cipher.AEAD, error) {
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (s *sealer) next() []byte {
	s.count++
	binary.BigEndian.PutUint64(s.nonce[4:], s.count)
	return s.nonce[:]
}

// append appends the frame of a payload.
func (s *sealer) append(out, payload []byte) []byte {
	var header [headerLen]byte
	binary.BigEndian.PutUint32(header[:], uint32(len(payload)))
	out = append(out, header[:]...)
	return s.aead.Seal(out, s.next(), payload, out[len(out)-headerLen:])
}

// read reads one frame into b and opens it in place.
func (s *sealer) read(from *bufio.Reader, b []byte) ([]byte, error) {
	header := b[:headerLen]
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(header)) + s.aead.Overhead()
	sealed := b[headerLen : headerLen+size]
	if _, err := io.ReadFull(from, sealed); err != nil {
		return nil, err
	}
	return s.aead.Open(sealed[:0], s.next(), sealed, header)
}

// A link makes connections over 127.0.0.1 with both ends here.
type link struct {
	listener net.Listener
	identity *bench.Identity // nil: plain TCP
	conns    []net.Conn
}

func plainLink() (*link, error) {
	listener, err := bench.Loopback()
	return &link{listener: listener}, err
}

func tlsLink() (*link, error) {
	l, err := plainLink()
	if err == nil {
		l.identity, err = bench.NewIdentity()
	}
	return l, err
}

// connect returns both ends of a new connection; TLS has shaken hands.
func (l *link) connect(ctx context.Context, meter *bench.Meter) (server, client net.Conn, err error) {
	if client, err = meter.DialContext(ctx, "tcp", l.listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = l.listener.Accept(); err != nil {
		client.Close()
		return nil, nil, err
	}
	if l.identity != nil {
		s, c := tls.Server(server, l.identity.ServerTLS()), tls.Client(client, l.identity.ClientTLS())
		if err = Shake(ctx, s, c); err != nil {
			return nil, nil, err
		}
		server, client = s, c
	}
	l.conns = append(l.conns, server, client)
	return server, client, nil
}

// Shake does a TLS handshake at both ends at once.
func Shake(ctx context.Context, server, client *tls.Conn) error {
	served := make(chan error, 1)
	go func() { served <- server.HandshakeContext(ctx) }()
	return errors.Join(client.HandshakeContext(ctx), <-served)
}

// Close closes the listener and all connections.
func (l *link) Close() {
	l.listener.Close()
	for _, c := range l.conns {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn() // no farewell
		}
		c.Close()
	}
}
