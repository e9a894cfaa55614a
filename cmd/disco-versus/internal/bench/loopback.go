package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// An Identity is a self-signed P-256 certificate for 127.0.0.1.
type Identity struct {
	Certificate tls.Certificate
	Pool        *x509.CertPool
}

// NewIdentity returns one with a fresh key.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &Identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool}, nil
}

// ServerTLS returns a TLS 1.3 configuration with the certificate.
func (id *Identity) ServerTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.Certificate}}
}

// ClientTLS returns one that trusts it.
func (id *Identity) ClientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: id.Pool, ServerName: "127.0.0.1"}
}

// WriteFiles stores certificate and key as PEM in dir.
func (id *Identity) WriteFiles(dir string) (cert, key string, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(id.Certificate.PrivateKey)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate.Certificate[0]})
	if err := os.WriteFile(cert, certPEM, 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// Loopback listens on a free port of 127.0.0.1.
func Loopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// Scratch returns a new directory, in memory where there is one, so that no
// contender waits for a disk.
func Scratch() (string, error) {
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	return os.MkdirTemp(parent, "disco-versus-")
}

// A Meter dials and counts the octets received.
type Meter struct{ received atomic.Int64 }

// Received returns the octets so far; a nil meter has none.
func (m *Meter) Received() int64 {
	if m == nil {
		return 0
	}
	return m.received.Load()
}

// DialContext dials.
func (m *Meter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &metered{conn, m}, nil
}

type metered struct {
	net.Conn
	meter *Meter
}

// SyscallConn is for what is not to be read.
func (c *metered) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

func (c *metered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.meter.received.Add(int64(n))
	return n, err
}
