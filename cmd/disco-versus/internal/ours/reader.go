package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
)

// A reader is a requester that keeps nothing of what it gets: what grows while
// it reads is the responder's.
type reader struct {
	tr     frame.Transport
	server *channel.Peer
	got    chan disco.Type
	lost   chan error

	mu     sync.Mutex
	send   []message
	cursor disco.Cursor
	last   bool
}

type message struct {
	typ     disco.Type
	payload []byte
}

func (n *node) newReader(ctx context.Context) (*reader, error) {
	ct, st, err := n.associate(ctx, new(bench.Meter))
	if err != nil {
		return nil, err
	}
	r := &reader{tr: ct, got: make(chan disco.Type, 1024), lost: make(chan error, 1)}
	if r.server, err = channel.New(st, channel.Config{Hub: n.hub, Limits: raised}); err != nil {
		return nil, err
	}
	return r, ct.Start(r)
}

// Close ends the association.
func (r *reader) Close() {
	r.tr.Close()
	r.server.Close()
}

// page asks for the next page and reports whether it was the last.
func (r *reader) page(ctx context.Context) (last bool, err error) {
	r.mu.Lock()
	q := disco.Query{Corr: "reader", Cursor: r.cursor, HasCursor: r.cursor != ""}
	r.mu.Unlock()
	b, err := disco.AppendQuery(nil, &q)
	if err != nil {
		return false, err
	}
	if err := r.ask(ctx, disco.TypeQuery, b); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, nil
}

// ask sends a request and waits for its RESULT.
func (r *reader) ask(ctx context.Context, t disco.Type, payload []byte) error {
	r.mu.Lock()
	r.send = append(r.send, message{t, payload})
	r.mu.Unlock()
	r.tr.Wake()
	select {
	case got := <-r.got:
		if got != disco.TypeResult {
			return fmt.Errorf("%v in answer to %v", got, t)
		}
		return nil
	case err := <-r.lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reader) Receive(f frame.Frame) {
	if t := disco.Type(f.Type); t == disco.TypeResult {
		v, err := disco.ParseResultView(f.Payload, nil)
		if err != nil {
			r.Closed(err)
			return
		}
		r.mu.Lock()
		r.cursor, r.last = disco.Cursor(v.Cursor), v.Complete
		r.mu.Unlock()
	}
	r.got <- disco.Type(f.Type)
}

func (r *reader) Append(b []byte) ([]byte, frame.Type, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.send) == 0 {
		return b, 0, false
	}
	m := r.send[0]
	r.send = r.send[1:]
	return append(b, m.payload...), frame.Type(m.typ), true
}

func (r *reader) Written() {}

func (r *reader) Closed(cause error) {
	if cause == nil {
		cause = errors.New("association ended")
	}
	select {
	case r.lost <- cause:
	default:
	}
}
