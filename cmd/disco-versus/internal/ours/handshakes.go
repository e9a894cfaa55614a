package ours

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/floor"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
)

// handshakes is a Bench of the kind Handshake, both ends in this process over a
// stream in memory. Each round does in turn our handshake, TLS 1.3's with the
// same KEM (X25519MLKEM768, the server's certificate alone), and the operations
// that our own adds: a KEM exchange, and an Ed25519 signature a side.
type handshakes struct {
	identity *bench.Identity
	keys     [2]ed25519.PrivateKey
}

func newHandshakes() (bench.Bench, error) {
	id, err := bench.NewIdentity()
	return &handshakes{id, [2]ed25519.PrivateKey{newKey(), newKey()}}, err
}

func (h *handshakes) Close() {}

func (h *handshakes) Round(ctx context.Context) (bench.Round, error) {
	const times = 15
	var ours, theirs, primitives bench.Samples
	for range times {
		for _, step := range []struct {
			to *bench.Samples
			do func(context.Context) (time.Duration, error)
		}{{&ours, h.associate}, {&theirs, h.tls}, {&primitives, h.primitives}} {
			spent, err := step.do(ctx)
			if err != nil {
				return nil, err
			}
			*step.to = append(*step.to, spent)
		}
	}
	a, b, p := bench.Micros(ours.Quantile(0.5)), bench.Micros(theirs.Quantile(0.5)), bench.Micros(primitives.Quantile(0.5))
	return bench.Round{"us": a, "tls_us": b, "primitives_us": p, "ratio": a / (b + p)}, nil
}

func (h *handshakes) configs() (server, client *tls.Config) {
	server, client = h.identity.ServerTLS(), clientTLS(h.identity)
	server.NextProtos = client.NextProtos
	server.SessionTicketsDisabled = true
	client.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	return server, client
}

func (h *handshakes) associate(ctx context.Context) (time.Duration, error) {
	st, ct := h.configs()
	p, q := net.Pipe()
	var server *association.Association
	var failed error
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() {
		server, failed = association.Server(ctx, tls.Server(p, st), &association.Config{Identity: h.keys[0]})
	})
	client, err := association.Client(ctx, tls.Client(q, ct), &association.Config{Identity: h.keys[1]})
	wg.Wait()
	spent := time.Since(start)
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	p.Close() // nobody reads, so that a farewell would take its time
	q.Close()
	server.Close()
	client.Close()
	return spent, nil
}

func (h *handshakes) tls(ctx context.Context) (time.Duration, error) {
	st, ct := h.configs()
	p, q := net.Pipe()
	defer p.Close()
	defer q.Close()
	start := time.Now()
	err := floor.Shake(ctx, tls.Server(p, st), tls.Client(q, ct))
	return time.Since(start), err
}

func (h *handshakes) primitives(context.Context) (time.Duration, error) {
	transcript := make([]byte, 64)
	start := time.Now()
	private, err := keys.GenerateKEM()
	if err != nil {
		return 0, err
	}
	ciphertext, _, err := keys.Encapsulate(private.Share())
	if err != nil {
		return 0, err
	}
	if _, err := private.Decapsulate(ciphertext); err != nil {
		return 0, err
	}
	for _, key := range h.keys {
		if !ed25519.Verify(key.Public().(ed25519.PublicKey), transcript, ed25519.Sign(key, transcript)) {
			return 0, errors.New("a signature does not verify")
		}
	}
	return time.Since(start), nil
}
