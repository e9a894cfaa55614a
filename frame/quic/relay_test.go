package quic

import (
	"net"
	"sync"
	"testing"
)

// A relay stands between a client and a server on this machine, as a NAT does.
type relay struct {
	t      *testing.T
	front  *net.UDPConn // where clients send to
	server *net.UDPAddr
	wg     sync.WaitGroup

	mu     sync.Mutex
	back   *net.UDPConn // what the server sees
	client *net.UDPAddr
	silent bool                     // drops everything
	lose   func(toServer bool) bool // drops what it says
}

func newRelay(t *testing.T, server net.Addr) *relay {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, front: front, server: server.(*net.UDPAddr)}
	r.rebind()
	r.wg.Go(r.forth)
	t.Cleanup(func() {
		front.Close()
		r.mu.Lock()
		r.back.Close()
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.front.LocalAddr().String() }

// rebind makes the server see another source port.
func (r *relay) rebind() {
	back, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	old := r.back
	r.back = back
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	r.wg.Go(func() { r.backwards(back) })
}

// cut makes everything vanish.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
}

// drops reports whether a packet is lost. It is called with mu held.
func (r *relay) drops(toServer bool) bool {
	return r.silent || r.lose != nil && r.lose(toServer)
}

func (r *relay) forth() {
	buf := make([]byte, 2048)
	for {
		n, from, err := r.front.ReadFromUDP(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.client = from
		if !r.drops(true) {
			r.back.WriteToUDP(buf[:n], r.server)
		}
		r.mu.Unlock()
	}
}

func (r *relay) backwards(back *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		n, err := back.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		if !r.drops(false) {
			r.front.WriteToUDP(buf[:n], r.client)
		}
		r.mu.Unlock()
	}
}
