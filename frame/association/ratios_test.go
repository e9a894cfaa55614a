package association

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRatios measures a whole handshake, both sides on one stream in memory,
// against one of TLS 1.3 with the same KEM and the same kind of proof by both sides:
// X25519MLKEM768, Ed25519. Each pair in one process, in turn within a round, the
// median of the rounds' ratios. It prints a JSON line for each figure and fails
// where one is out of its bound, so it runs only when asked for:
//
//	NPAMP_RATIOS=1 go test -v -run TestRatios ./frame/association
func TestRatios(t *testing.T) {
	if os.Getenv("NPAMP_RATIOS") == "" {
		t.Skip("a measurement: set NPAMP_RATIOS")
	}
	const rounds, each = 31, 10
	mutualTLS := tlsHandshake(t)
	for _, g := range []*generation{&generation2, &generation3} {
		client, server := resolved(t, clientConfig(g.number)), resolved(t, serverConfig(g.number))
		ours := func() { bareHandshake(t, g, client, server) }
		var ratios []float64
		for range rounds {
			n, m := timed(each, ours), timed(each, mutualTLS)
			ratios = append(ratios, float64(n)/float64(m))
		}
		slices.Sort(ratios)
		report(t, fmt.Sprintf("handshake of generation %d / TLS 1.3 with X25519MLKEM768 and Ed25519, both sides proven", g.number), ratios[rounds/2], 1)
		report(t, fmt.Sprintf("allocations of a handshake of generation %d, both sides", g.number), allocations(ours), maxHandshakeAllocs)
	}
	t.Logf("allocations of the TLS handshake: %v", allocations(mutualTLS))
}

// maxHandshakeAllocs bounds the allocations of a handshake, both sides together. A
// public Go implementation makes about 1,360.
const maxHandshakeAllocs = 450

// Covers: DASP-011-01
func TestHandshakeAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rows(t, func(t *testing.T, g *generation) {
		client, server := resolved(t, clientConfig(g.number)), resolved(t, serverConfig(g.number))
		if n := allocations(func() { bareHandshake(t, g, client, server) }); n > maxHandshakeAllocs {
			t.Errorf("%v allocations, want at most %d", n, maxHandshakeAllocs)
		} else {
			t.Logf("%v allocations", n)
		}
	})
}

func report(t *testing.T, name string, value, bound float64) {
	t.Helper()
	line, err := json.Marshal(map[string]any{"name": name, "value": float64(int(value*1000)) / 1000, "bound": bound, "ok": value <= bound})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	if value > bound {
		t.Errorf("%s: %.3f, bound %v", name, value, bound)
	}
}

func timed(n int, f func()) time.Duration {
	began := time.Now()
	for range n {
		f()
	}
	return time.Since(began)
}

// allocations of f, in the median of several calls: goroutines make some too.
func allocations(f func()) float64 {
	f()
	var counts []float64
	var before, after runtime.MemStats
	for range 21 {
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs))
	}
	slices.Sort(counts)
	return counts[len(counts)/2]
}

func resolved(t *testing.T, cfg *Config) *config {
	t.Helper()
	c, err := cfg.resolve()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bareHandshake does the four flights, and nothing after them.
func bareHandshake(t *testing.T, g *generation, client, server *config) {
	p, q := net.Pipe()
	c := &handshake{conn: p, gen: g, cfg: client, client: true}
	s := &handshake{conn: q, gen: g, cfg: server}
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = s.run() })
	if cerr := c.run(); cerr != nil {
		t.Error(cerr)
	}
	if wg.Wait(); err != nil {
		t.Error(err)
	}
	p.Close()
	q.Close()
}

// tlsHandshake returns what does the same by TLS.
func tlsHandshake(t *testing.T) func() {
	t.Helper()
	cert := func(n byte) tls.Certificate {
		key := testIdentity(n)
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(n)), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public().(ed25519.PublicKey), key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	config := func(n byte) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert(n)}, MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
			CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}, SessionTicketsDisabled: true, InsecureSkipVerify: true}
	}
	client, server := config(1), config(2)
	return func() {
		p, q := net.Pipe()
		c, s := tls.Client(p, client), tls.Server(q, server)
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { err = s.Handshake() })
		if cerr := c.Handshake(); cerr != nil {
			t.Error(cerr)
		}
		if wg.Wait(); err != nil {
			t.Error(err)
		}
		p.Close()
		q.Close()
	}
}
