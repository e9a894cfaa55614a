package channeltest

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"sync"

	"github.com/npamp/disco/frame/association"
)

// Identity returns an Ed25519 key that depends on n alone.
func Identity(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// Associate makes an association over the two ends of a stream, such as those of
// a Wire: it does the handshake of both sides and returns its ends, the client's
// on a. A nil Config is one with an Identity. Both conns are closed on failure.
func Associate(ctx context.Context, a, b net.Conn, client, server *association.Config) (c, s *association.Association, err error) {
	if client == nil {
		client = &association.Config{Identity: Identity(1)}
	}
	if server == nil {
		server = &association.Config{Identity: Identity(2)}
	}
	var wg sync.WaitGroup
	var serr error
	wg.Go(func() { s, serr = association.Server(ctx, b, server) })
	c, err = association.Client(ctx, a, client)
	wg.Wait()
	if err = errors.Join(err, serr); err == nil {
		return c, s, nil
	}
	// One side may think that it is done. Both at once: neither reads yet.
	for _, x := range []*association.Association{c, s} {
		if x != nil {
			wg.Go(func() { x.Close() })
		}
	}
	wg.Wait()
	return nil, nil, err
}
