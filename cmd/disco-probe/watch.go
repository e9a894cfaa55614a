package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

func (a *app) watchCommand() *cobra.Command {
	var (
		link    linkFlags
		filters filterFlags
		w       = watcher{app: a, view: map[record.ID]record.Record{}}
	)
	cmd := &cobra.Command{
		Use:   "watch ADDR",
		Short: "Follow what a peer advertises",
		Long: `watch subscribes to the records of a peer that match the filters and prints one
event a line, as a JSON object unless -o asks for another form: snapshot for each
record that is there, synced, then added, replaced and withdrawn as they happen.
A lost association is dialled again, after a random time that grows from 1 to 30
seconds, which a reset and a new snapshot tell. The last line is ended.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		a.defaultFormat(formatNDJSON)
		if cmd.Flags().Changed("count") && w.count < 1 {
			return usagef("--count must be positive")
		}
		var err error
		if w.filter, err = filters.filter(cmd); err != nil {
			return err
		}
		limit := link.timeout
		link.timeout = 0 // it bounds the watch; the link has its defaults
		if limit < 0 {
			return usagef("--timeout must not be negative")
		}
		if w.dialer, err = a.newDialer(args[0], &link); err != nil {
			return err
		}
		w.strict = link.strict
		return w.run(ctx, limit)
	})
	filters.add(cmd)
	link.add(cmd.Flags(), 0, "end after this time (default never)")
	link.addDial(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&w.count, "count", 0, "end after this many changes (default never)")
	f.BoolVar(&w.untilSynced, "until-synced", false, "end when the snapshot is whole")
	f.BoolVar(&w.noReconnect, "no-reconnect", false, "end when the association is lost")
	return cmd
}

// A watcher follows one peer, over as many associations as it takes. It runs on
// one goroutine.
type watcher struct {
	app    *app
	dialer *dialer
	filter record.Filter

	count                    int // end after so many changes; 0: never
	untilSynced, noReconnect bool
	strict                   bool

	view    map[record.ID]record.Record // what the events since the last reset amount to
	told    bool                        // there were any
	reached bool                        // the peer was, once
	synced  bool                        // once at least
	changes int                         // since then
	partial bool                        // records of unknown kind were left out
}

// An ending is why a watch, or one association of it, is over.
type ending struct {
	reason string // as ended prints it
	exit   int
	err    error // for people; nil: nothing went wrong
}

// run follows the peer until something ends the watch. limit is how long at
// most, 0 for ever.
func (w *watcher) run(ctx context.Context, limit time.Duration) error {
	outer := ctx
	ctx, stop := w.app.out.follow(ctx)
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for attempt := 0; ; attempt++ {
		began := time.Now()
		end, err := w.follow(ctx)
		if err != nil {
			return err // nobody reads us, or it never began
		}
		switch {
		case outer.Err() != nil:
			end = ending{"interrupted", exitInterrupted, errors.New("interrupted")}
		case errors.Is(context.Cause(ctx), errStdoutClosed):
			return errStdoutClosed
		case ctx.Err() != nil:
			end = ending{"timeout", exitTimeout, fmt.Errorf("%v are over", limit)}
		case w.mends(end) && !w.noReconnect:
			if err := w.reset(end); err != nil {
				return err
			}
			if time.Since(began) >= time.Minute { // it was stable
				attempt = 0
			}
			w.pause(ctx, attempt, end.err)
			continue
		}
		return w.ended(end)
	}
}

// mends reports whether dialling again may mend it. A refusal that asks to come
// back later does where the peer took us before; at first it is an answer. Another
// one in the peer's place is never followed.
func (w *watcher) mends(end ending) bool {
	if stranger := (*strangerError)(nil); errors.As(end.err, &stranger) {
		return false
	}
	return end.reason == "lost" || end.reason == "closed" || w.synced && channel.Temporary(end.err)
}

// follow makes one association and prints its events. An error means that the
// command is over: standard output is closed, or nothing was there to follow.
func (w *watcher) follow(ctx context.Context) (ending, error) {
	p, err := w.dialer.connect(ctx, channel.Config{})
	if err != nil {
		err = classify(ctx, err)
		if ctx.Err() == nil && !w.reached {
			return ending{}, err
		}
		return ending{"lost", exitConnect, err}, nil
	}
	defer p.Close()
	first := !w.reached
	w.reached = true
	events := make(chan channel.Event)
	stop := make(chan struct{})
	defer close(stop) // before p.Close, which waits for the handler
	sub, err := p.Subscribe(w.filter, func(e channel.Event) {
		select {
		case events <- e:
		case <-stop:
		}
	})
	if errors.Is(err, channel.ErrNotAdvertised) || first && errors.Is(err, association.ErrAuthentication) {
		return ending{}, classify(ctx, err)
	}
	if err != nil {
		return w.endingOf(classify(ctx, err)), nil
	}
	for {
		select {
		case <-ctx.Done():
			return ending{}, nil
		case e := <-events:
			if e.Kind == channel.EventEnded {
				if first && errors.Is(e.Err, association.ErrAuthentication) {
					return ending{}, classify(ctx, e.Err) // the server refuses us, after what was the handshake for us
				}
				return w.endingOf(classify(ctx, e.Err)), nil
			}
			w.partial = w.partial || sub.Partial()
			over, err := w.event(e)
			if over != "" || err != nil {
				return ending{reason: over}, err
			}
		}
	}
}

// endingOf says what the end of a subscription means.
func (w *watcher) endingOf(err error) ending {
	end := ending{"lost", exitConnect, err}
	var f *failure
	switch {
	case errors.Is(err, io.EOF):
		end.reason = "closed"
	case !errors.As(err, &f) || f.exit == exitConnect:
	case f.exit == exitTimeout:
		end.reason, end.exit = "timeout", exitTimeout
	default:
		end.reason, end.exit = "error", f.exit
	}
	return end
}

// event prints one event. over is the reason to end if it is the last wanted.
func (w *watcher) event(e channel.Event) (over string, err error) {
	name := e.Kind.String()
	switch e.Kind {
	case channel.EventSnapshot:
		w.view[e.ID] = e.Record
		return "", w.record(name, e.Record)
	case channel.EventSynced:
		w.synced = true
		if w.untilSynced {
			over = "synced"
		}
		return over, w.sync()
	case channel.EventReset:
		return "", w.reset(ending{reason: "resync", err: e.Err})
	case channel.EventAdded:
		w.view[e.ID] = e.Record
		err = w.record(name, e.Record)
	case channel.EventReplaced:
		w.view[e.ID] = e.Record
		err = w.record(name, e.Record, field{"was", strconv.FormatUint(e.Was, 10)})
	case channel.EventWithdrawn:
		delete(w.view, e.ID)
		err = w.say(name, e.ID.String(), field{"record_id", octets(e.ID)})
	}
	if w.synced {
		if w.changes++; w.changes == w.count {
			over = "count"
		}
	}
	return over, err
}

func (w *watcher) sync() error {
	ids := slices.Sorted(maps.Keys(w.view))
	records := make([]record.Record, len(ids))
	for i, id := range ids {
		records[i] = w.view[id]
	}
	digest := digestOf(records)
	return w.say("synced", fmt.Sprintf("%s, digest %x", plural(len(ids), "record"), string(digest)),
		field{"records", len(ids)}, field{"digest", digest})
}

// reset says that what was printed counts no more: a new snapshot follows.
func (w *watcher) reset(end ending) error {
	if end.err != nil {
		w.app.note("%s: %v", end.reason, end.err)
	}
	if !w.told {
		return nil
	}
	clear(w.view)
	err := w.say("reset", end.reason, field{"reason", end.reason})
	w.told = false
	return err
}

// ended prints the last line.
func (w *watcher) ended(end ending) error {
	exit := end.exit
	if exit == exitOK && w.strict && w.partial {
		exit, end.err = exitIncomplete, errors.New("records of unknown kind were skipped")
	}
	fields := []field{{"reason", end.reason}}
	if code := disco.CodeOf(end.err); end.reason == "error" && code != 0 {
		fields = append(fields, field{"code", uint64(code)}, field{"name", code.String()})
	}
	if err := w.say("ended", end.reason, fields...); err != nil {
		return err
	}
	if end.err != nil {
		w.app.note("%v", end.err)
	}
	if exit == exitOK {
		return nil
	}
	return verdict(exit)
}

// record prints an event about a record.
func (w *watcher) record(event string, r record.Record, more ...field) error {
	var text string
	switch w.app.format {
	case formatDiag:
		text = diagRecord(r)
	case formatHex:
		text = hex.EncodeToString([]byte(r.Octets()))
	case formatTable:
		row := recordRow(r)
		text = fmt.Sprintf("%s  %s  revision %s  %s  %s", row[0], row[1], row[2], row[3], row[5])
	}
	return w.say(event, text, append([]field{{"record", recordJSON(r)}}, more...)...)
}

// say prints one event, as text where -o asks for that.
func (w *watcher) say(event, text string, fields ...field) error {
	w.told = true
	if w.app.format.json() {
		return w.app.out.json(append(versioned(field{"event", event}), fields...))
	}
	return w.app.out.text(fmt.Sprintf("%-9s  %s", event, text))
}

// pause waits before the next attempt to dial.
func (w *watcher) pause(ctx context.Context, attempt int, cause error) {
	d := w.app.backoff(attempt)
	w.app.note("dialling again in %v", d.Round(time.Millisecond))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
