package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// A target is the peer under test. What its owner alone can have it do is there
// for our own responder only.
type target struct {
	name     string // for people
	set      *record.Set
	interval time.Duration // between two frames that we send
	gap      time.Duration // between two requests whose corr cannot be read [C4]

	// open makes an association. change, nil for none and always for a foreign
	// peer, alters the responder's configuration for this one.
	open func(ctx context.Context, change func(*channel.Config)) (*link, error)
}

// ours reports whether the owner's hooks are there.
func (t *target) ours() bool { return t.set != nil }

// A link is one association with the peer under test.
type link struct {
	tr        frame.Transport
	ping      func(context.Context) error // returns when PONG has come
	keyUpdate func() error
	close     func() error  // in order; the error says what was missing of that
	owner     *channel.Peer // the other end, where it is ours
	identity  []byte        // the peer's
}

// newLink takes the Discovery channel of an association.
func newLink(as *association.Association) (*link, error) {
	tr, err := as.Transport(frame.ChannelDiscovery)
	if err != nil {
		as.Close()
		return nil, &failure{exit: exitConnect, err: err}
	}
	return &link{
		tr:        tr,
		ping:      func(ctx context.Context) error { return as.Ping(ctx, frame.ChannelDiscovery) },
		keyUpdate: func() error { return as.KeyUpdate(frame.ChannelDiscovery) },
		close:     as.Close,
		identity:  as.Info().PeerIdentity,
	}, nil
}

// peerTarget is a peer that is dialled.
func (a *app) peerTarget(addr string, l *linkFlags) (*target, error) {
	d, err := a.newDialer(addr, l)
	if err != nil {
		return nil, err
	}
	d.cfg.MaxSend = frame.MaxFrameLen
	open := func(ctx context.Context, _ func(*channel.Config)) (*link, error) {
		as, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		if l.pin == "" { // all further associations are with whom the first was
			who := as.Info().PeerIdentity
			first, verify := *l, d.cfg.VerifyPeer
			first.pin = keys.PeerHandle(who)
			d.link = &first
			d.cfg.VerifyPeer = func(pub ed25519.PublicKey) error {
				if !who.Equal(pub) {
					return fmt.Errorf("peer is %s, and was %s", describeKey(pub), describeKey(who))
				}
				if verify != nil {
					return verify(pub)
				}
				return nil
			}
		}
		return newLink(as)
	}
	return &target{name: d.addr.hostport, interval: sendInterval, gap: uncorrelatedGap, open: open}, nil
}

// selfTarget is our own responder, at the other end of a real association on
// this machine. close ends it.
func (a *app) selfTarget(l *linkFlags) (t *target, closeAll func(), err error) {
	set, err := conformSet()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := l.config()
	if err != nil {
		return nil, nil, err
	}
	listener, err := l.transport.listen("127.0.0.1:0", cfg)
	if err != nil {
		return nil, nil, err
	}
	hub := subscribe.NewHub(set)
	mine := *l
	mine.identity, mine.known = "", "" // the requester's is a fresh one
	mine.pin = keys.PeerHandle(cfg.Identity.Public().(ed25519.PublicKey))
	d, err := a.newDialer(listener.Addr().String(), &mine)
	if err != nil {
		hub.Close()
		listener.Close()
		return nil, nil, err
	}
	d.cfg.MaxSend = frame.MaxFrameLen
	var owners []*channel.Peer
	t = &target{name: "our own responder at " + d.addr.hostport, set: set}
	t.open = func(ctx context.Context, change func(*channel.Config)) (*link, error) {
		accepted := make(chan *channel.Peer, 1)
		go func() {
			defer close(accepted)
			as, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			if p, err := newPeer(as, conformConfig(hub, change)); err == nil {
				accepted <- p
			}
		}()
		as, err := d.dial(ctx)
		if err != nil {
			listener.Close() // so that Accept returns; nothing can be opened any more
			<-accepted
			return nil, err
		}
		owner := <-accepted
		if owner == nil {
			as.Close()
			return nil, errors.New("our own responder did not come up")
		}
		owners = append(owners, owner)
		lk, err := newLink(as)
		if err != nil {
			return nil, err
		}
		lk.owner = owner
		return lk, nil
	}
	return t, func() {
		for _, p := range owners {
			p.Close()
		}
		hub.Close()
		listener.Close()
	}, nil
}

// conformConfig is our own responder as it is tested: with small pages and few
// subscriptions, so that both show, and with no bounds of rate to wait for but
// those that a check sets.
func conformConfig(hub *subscribe.Hub, change func(*channel.Config)) channel.Config {
	cfg := channel.Config{Hub: hub, Limits: channel.Limits{MaxPageRecords: 4, MaxSubscriptions: 8, UncorrelatedErrors: 1000, QueryRate: -1, PageRate: -1}}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// unrepresentable is longer than a frame of the responder may be in the check
// that needs one.
const unrepresentable = 600 // octets of a label

// conformSet is what our own responder advertises: records of all kinds, names
// that differ in case and in the form of a letter, and a long record.
func conformSet() (*record.Set, error) {
	label := func(s string) *string { return &s }
	effect := func(e record.Effect) *record.Effect { return &e }
	build := []interface {
		Record() (record.Record, error)
	}{
		record.Protocol{ID: "p.mcp", ProtocolID: 1, CarriageClass: record.ClassJSONRPC, Methods: []string{"tools/call", "tools/list"}},
		record.Protocol{ID: "p.a2a", ProtocolID: 2, CarriageClass: record.ClassJSONRPC, Channels: []uint64{record.BridgeChannel}},
		record.Protocol{ID: "p.http2", ProtocolID: 3, CarriageClass: record.ClassHTTP, Channels: []uint64{}},
		record.Carriage{ID: "c.jsonrpc", CarriageClass: record.ClassJSONRPC, ContentTypes: []uint64{1}},
		record.Carriage{ID: "c.http", CarriageClass: record.ClassHTTP},
		record.Tool{ID: "t.git.log", Name: "git.log", ProtocolID: 1, Effect: effect(record.ReadOnly), Label: label("Log")},
		record.Tool{ID: "t.git.commit", Name: "git.commit", ProtocolID: 1, Effect: effect(record.NonIdempotentWrite)},
		record.Tool{ID: "t.Git.Clean", Name: "Git.Clean", ProtocolID: 1, Effect: effect(record.Destructive)},
		record.Tool{ID: "t.eclair", Name: "e\u0301clair", ProtocolID: 2},
		record.Tool{ID: "t.shell", Name: "shell", ProtocolID: 2, Effect: effect(record.IdempotentWrite)},
		record.Tool{ID: "t.verbose", Name: "verbose", ProtocolID: 3, Label: label(strings.Repeat("long ", unrepresentable/5))},
		record.Agent{ID: "a.builder", AgentID: "git.builder", Protocols: []uint64{2, 1}, Tools: []record.ID{"t.git.log", "t.git.commit"}},
		record.Agent{ID: "a.lonely", AgentID: "lonely", Protocols: []uint64{3}},
	}
	set := record.NewSet(record.SetConfig{Carries: func(id uint64) bool { return id >= 1 && id <= 3 }})
	return set, set.Update(func(tx *record.Tx) error {
		for _, b := range build {
			r, err := b.Record()
			if err != nil {
				return err
			}
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// conformTool is a tool of the checks that have records change.
func conformTool(id string, protocol uint64, label string) record.Record {
	r, err := record.Tool{ID: record.ID(id), Name: "conform." + id, ProtocolID: protocol, Label: &label}.Record()
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return r
}

// random returns n random octets.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}

// idList names records for people, a few of them.
func idList(ids []record.ID) string {
	const most = 6
	var parts []string
	for i, id := range ids {
		if i == most {
			parts = append(parts, fmt.Sprintf("… (%d)", len(ids)))
			break
		}
		parts = append(parts, id.String())
	}
	return "[" + strings.Join(parts, " ") + "]"
}
