package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
	"github.com/npamp/disco/testvectors"
)

func (a *app) demoCommand() *cobra.Command {
	var link linkFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show both ends of an association, in one process",
		Long: `demo runs a responder and a requester over real TLS and the real handshake on
this machine: it lists records of all four kinds, subscribes, watches a change of
each sort arrive, unsubscribes and closes.`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if link.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, link.timeout)
				defer cancel()
			}
			d := &demo{app: a}
			err := d.run(ctx, &link)
			if errors.Is(err, context.DeadlineExceeded) {
				err = &failure{exit: exitTimeout, err: err}
			}
			if err != nil {
				return classify(ctx, err)
			}
			return d.finish()
		}),
	}
	link.add(cmd.Flags(), defaultTimeout, "how long it may take")
	return cmd
}

// A demo shows what happens, step by step.
type demo struct {
	app    *app
	events []object // of -o json, which is one document
}

// say shows one step: as text, or as an event.
func (d *demo) say(event string, lines []string, fields ...field) error {
	o := append(object{{"event", event}}, fields...)
	switch d.app.format {
	case formatJSON:
		d.events = append(d.events, o)
		return nil
	case formatNDJSON:
		return d.app.out.json(append(versioned(), o...))
	}
	return d.app.out.text(lines...)
}

func (d *demo) finish() error {
	if d.app.format != formatJSON {
		return nil
	}
	return d.app.out.json(versioned(field{"events", d.events}))
}

func (d *demo) run(ctx context.Context, link *linkFlags) error {
	set, err := demoSet()
	if err != nil {
		return err
	}
	hub := subscribe.NewHub(set)
	defer hub.Close()

	// The responder: listens, and serves whoever comes.
	serverCfg, err := link.config()
	if err != nil {
		return err
	}
	l, err := link.transport.listen("127.0.0.1:0", serverCfg)
	if err != nil {
		return err
	}
	defer l.Close()
	serving := make(chan *channel.Peer, 1)
	go func() {
		defer close(serving)
		as, err := l.Accept(ctx)
		if err != nil {
			return
		}
		if p, err := newPeer(as, channel.Config{Hub: hub}); err == nil {
			serving <- p
		}
	}()
	responder := serverCfg.Identity.Public().(ed25519.PublicKey)
	if err := d.say("listening", []string{
		fmt.Sprintf("responder    %v, %s", l.Addr(), keys.PeerHandle(responder)),
		fmt.Sprintf("             identity %x", []byte(responder)),
	}, field{"addr", l.Addr().String()}, field{"identity", octets(responder)}, field{"handle", keys.PeerHandle(responder)}); err != nil {
		return err
	}

	// The requester, who knows whom to expect. Its own identity is a fresh one.
	mine := *link
	mine.identity = ""
	mine.pin = keys.PeerHandle(responder)
	to, err := d.app.newDialer(l.Addr().String(), &mine)
	if err != nil {
		return err
	}
	as, err := to.dial(ctx)
	if err != nil {
		return err
	}
	info := as.Info()
	p, err := newPeer(as, channel.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	server := <-serving
	if server == nil {
		return errors.New("the responder did not come up")
	}
	defer server.Close()
	if err := d.say("association", []string{
		fmt.Sprintf("requester    %s", keys.PeerHandle(info.LocalIdentity)),
		fmt.Sprintf("             identity %x", []byte(info.LocalIdentity)),
		fmt.Sprintf("association  n-pamp/%d, TLS 1.3 below, %v, both ends authenticated", info.Generation, info.Suite),
	}, field{"identity", octets(info.LocalIdentity)}, field{"handle", keys.PeerHandle(info.LocalIdentity)},
		field{"peer", octets(info.PeerIdentity)}, field{"generation", info.Generation}, field{"suite", info.Suite.String()}); err != nil {
		return err
	}
	if err := d.list(ctx, p); err != nil {
		return err
	}
	if err := d.watch(ctx, p, set); err != nil {
		return err
	}

	// The responder knows of no subscription any more, and sees a clean end.
	p.Close()
	if err := server.Wait(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the association did not close in order: %w", err)
	}
	return d.say("closed", []string{"closed       in order, by the requester"})
}

// list shows everything that is advertised.
func (d *demo) list(ctx context.Context, p *channel.Peer) error {
	l, err := ask(ctx, p, channel.Query{}, false)
	if err != nil {
		return err
	}
	lines := append([]string{"", fmt.Sprintf("query        %s in %s, complete", plural(len(l.records), "record"), plural(l.pages, "page")), ""}, recordTable(l.records)...)
	return d.say("listing", append(lines, ""), field{"records", recordsJSON(l.records)}, field{"meta", l.meta()})
}

// watch subscribes to the tools, has the responder change them, and shows what
// arrives.
func (d *demo) watch(ctx context.Context, p *channel.Peer, set *record.Set) error {
	events := make(chan channel.Event)
	stop := make(chan struct{})
	defer close(stop)
	tools := record.Filter{Kinds: []record.Kind{record.KindTool}}
	sub, err := p.Subscribe(tools, func(e channel.Event) {
		select {
		case events <- e:
		case <-stop:
		}
	})
	if err != nil {
		return err
	}
	next := func(want channel.EventKind) (channel.Event, error) {
		select {
		case e := <-events:
			if e.Kind != want {
				return e, errors.Join(fmt.Errorf("%v came instead of %v", e.Kind, want), e.Err)
			}
			return e, nil
		case <-ctx.Done():
			return channel.Event{}, ctx.Err()
		}
	}
	n := 0
	for range len(toolsOf(set)) {
		if _, err := next(channel.EventSnapshot); err != nil {
			return err
		}
		n++
	}
	if _, err := next(channel.EventSynced); err != nil {
		return err
	}
	if err := d.say("synced", []string{fmt.Sprintf("subscribe    to tools: %s, synced", plural(n, "record"))}, field{"records", n}); err != nil {
		return err
	}
	for _, step := range demoChanges() {
		if err := set.Update(step.change); err != nil {
			return err
		}
		e, err := next(step.want)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%-11s  %v", e.Kind, e.ID)
		fields := []field{{"record_id", octets(e.ID)}}
		if !e.Record.IsZero() {
			row := recordRow(e.Record)
			line += fmt.Sprintf("  %s  revision %s  %s", row[3], row[2], row[5])
			fields = []field{{"record", recordJSON(e.Record)}}
		}
		if e.Kind == channel.EventReplaced {
			line += fmt.Sprintf(" (was revision %d)", e.Was)
			fields = append(fields, field{"was", fmt.Sprint(e.Was)})
		}
		if err := d.say(e.Kind.String(), []string{line}, fields...); err != nil {
			return err
		}
	}
	sub.Unsubscribe()
	if _, err := next(channel.EventEnded); err != nil {
		return err
	}
	// UNSUBSCRIBE has no answer (§7.3). That of a query after it shows that it went
	// out, before CLOSE overtakes what waits.
	if _, err := p.QueryPage(ctx, channel.Query{Filter: record.Filter{Kinds: []record.Kind{}}}); err != nil {
		return err
	}
	return d.say("unsubscribed", []string{"unsubscribe  done"})
}

func toolsOf(set *record.Set) (tools []record.Record) {
	m := record.Filter{Kinds: []record.Kind{record.KindTool}}.Matcher()
	for r := range set.Snapshot().Match(&m) {
		tools = append(tools, r)
	}
	return tools
}

// demoSet is a set of the sample records.
func demoSet() (*record.Set, error) {
	b, err := testvectors.Sample("demo.json")
	if err != nil {
		return nil, err
	}
	records, err := parseNative(json.RawMessage(b))
	if err != nil {
		return nil, err
	}
	set := record.NewSet(record.SetConfig{Carries: func(uint64) bool { return true }})
	return set, set.Update(func(tx *record.Tx) error {
		for _, r := range records {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

type demoChange struct {
	want   channel.EventKind
	change func(*record.Tx) error
}

// demoChanges are a change of each sort.
func demoChanges() []demoChange {
	put := func(name string, effect record.Effect, label string) func(*record.Tx) error {
		return func(tx *record.Tx) error {
			r, err := record.Tool{ID: record.ID(name), Label: &label, Name: name, ProtocolID: mcpProtocolID, Effect: &effect}.Record()
			if err != nil {
				return err
			}
			return tx.Put(r)
		}
	}
	return []demoChange{
		{channel.EventAdded, put("git.push", record.NonIdempotentWrite, "Git push")},
		{channel.EventReplaced, put("git.push", record.NonIdempotentWrite, "Git push, to the default remote")},
		{channel.EventWithdrawn, func(tx *record.Tx) error { return tx.Withdraw("git.push") }},
	}
}
