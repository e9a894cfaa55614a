package quic

import (
	"net"
	"sync/atomic"

	quicgo "github.com/quic-go/quic-go"
)

// A socket is what connections run over. It is closed with the last that uses it.
type socket struct {
	tr    *quicgo.Transport
	udp   *net.UDPConn
	users atomic.Int32
}

// newSocket returns a socket with one user.
func newSocket(tr *quicgo.Transport, udp *net.UDPConn) *socket {
	s := &socket{tr: tr, udp: udp}
	s.users.Store(1)
	return s
}

// retain adds a user. The caller knows of one that there is.
func (s *socket) retain() { s.users.Add(1) }

// release takes a user off. When it was the last, the goroutines of the transport
// are gone when it returns.
func (s *socket) release() {
	if s.users.Add(-1) == 0 {
		s.tr.Close()
		s.udp.Close()
	}
}
