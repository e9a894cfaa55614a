package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

func (a *app) rawCommand() *cobra.Command {
	var (
		link  linkFlags
		quiet time.Duration
	)
	cmd := &cobra.Command{
		Use:   "raw ADDR",
		Short: "Exchange bare frames on the Discovery channel",
		Long: `raw sends what standard input says and prints what comes, with no peer in between.
A line {"type":"0x0100","payload":"a2…"} is one frame, {"wait":"500ms"} a pause.
A received frame is a line of standard output. When standard input has ended and
nothing came for --quiet it sends PING and ends.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		a.format = formatNDJSON // whatever -o says
		if quiet <= 0 || link.timeout < 0 {
			return usagef("--quiet must be positive, --timeout not negative")
		}
		limit := link.timeout
		link.timeout = 0
		ctx, stop := a.out.follow(ctx)
		defer stop()
		d, err := a.newDialer(args[0], &link)
		if err != nil {
			return err
		}
		d.cfg.MaxSend = frame.MaxFrameLen
		as, err := d.dial(ctx)
		if err != nil {
			return err
		}
		defer as.Close()
		return a.raw(ctx, as, quiet, limit)
	})
	link.add(cmd.Flags(), 0, "end after this time in any case (default never)")
	link.addDial(cmd.Flags())
	cmd.Flags().DurationVar(&quiet, "quiet", time.Second, "how long nothing must come before the end")
	return cmd
}

// A rawFrame is a frame to send, or received.
type rawFrame struct {
	typ     frame.Type
	payload []byte
}

// maxRawOctets bounds what waits to be sent or printed, in octets of payload.
const maxRawOctets = 64 << 20

// A rawEndpoint is the user of the channel: two queues.
type rawEndpoint struct {
	mu       sync.Mutex
	out, in  []rawFrame
	held     int // octets in in
	lost     int // received frames that found no room
	sent     int
	arrived  chan struct{} // one slot: in is not empty
	written  chan struct{} // one slot: out was written
	finished chan struct{} // the association has ended
	cause    error
}

func newRawEndpoint() *rawEndpoint {
	return &rawEndpoint{arrived: make(chan struct{}, 1), written: make(chan struct{}, 1), finished: make(chan struct{})}
}

// Receive implements frame.Endpoint.
func (e *rawEndpoint) Receive(f frame.Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held+len(f.Payload) > maxRawOctets {
		e.lost++
		return
	}
	e.held += len(f.Payload)
	e.in = append(e.in, rawFrame{f.Type, append([]byte{}, f.Payload...)})
	signal1(e.arrived)
}

// Append implements frame.Endpoint.
func (e *rawEndpoint) Append(b []byte) ([]byte, frame.Type, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.out) == 0 {
		return b, 0, false
	}
	f := e.out[0]
	e.out = e.out[1:]
	e.sent++
	return append(b, f.payload...), f.typ, true
}

// Written implements frame.Endpoint.
func (e *rawEndpoint) Written() { signal1(e.written) }

// Closed implements frame.Endpoint.
func (e *rawEndpoint) Closed(cause error) {
	e.cause = cause
	close(e.finished)
}

func (e *rawEndpoint) send(f rawFrame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out = append(e.out, f)
}

// take returns what came since it was last called.
func (e *rawEndpoint) take() []rawFrame {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.in
	e.in, e.held = nil, 0
	return in
}

// counts returns how many frames were sent, how many wait to be, and how many
// were lost.
func (e *rawEndpoint) counts() (sent, waiting, lost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent, len(e.out), e.lost
}

// signal1 fills a slot of one.
func signal1(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// raw carries frames both ways until the script is over and the peer quiet.
func (a *app) raw(ctx context.Context, as *association.Association, quiet, limit time.Duration) error {
	tr, err := as.Transport(frame.ChannelDiscovery)
	if err != nil {
		return &failure{exit: exitConnect, err: err}
	}
	e := newRawEndpoint()
	if err := tr.Start(e); err != nil {
		return &failure{exit: exitConnect, err: err}
	}
	over := make(<-chan time.Time)
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	stop := make(chan struct{})
	defer close(stop)
	steps := make(chan rawStep)
	go readScript(a.stdin, steps, stop)

	still := time.NewTimer(quiet)
	defer still.Stop()
	next := steps // nil while a step is being waited for
	var pause <-chan time.Time
	var ended bool // the script is over
	received := 0
	print := func() error {
		for _, f := range e.take() {
			if f.typ < 0x0100 {
				continue
			}
			received++
			if err := a.out.json(receivedJSON(f)); err != nil {
				return err
			}
		}
		still.Reset(quiet)
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errStdoutClosed) {
				return errStdoutClosed
			}
			return a.interrupted()
		case <-e.finished:
			if err := print(); err != nil {
				return err
			}
			a.note("the association is lost: %v", e.cause)
			if err := a.rawEnded(e, received, false, false); err != nil {
				return err
			}
			return verdict(exitConnect)
		case <-e.arrived:
			if err := print(); err != nil {
				return err
			}
			continue
		case s, ok := <-next:
			switch {
			case !ok:
				ended, next = true, nil
			case s.err != nil:
				return s.err
			case s.wait > 0:
				pause, next = time.After(s.wait), nil
			default:
				e.send(s.frame)
				tr.Wake()
			}
			still.Reset(quiet)
			continue
		case <-pause:
			pause, next = nil, steps
			continue
		case <-e.written:
			still.Reset(quiet)
			continue
		case <-still.C:
			if _, waiting, _ := e.counts(); !ended || waiting > 0 {
				still.Reset(quiet)
				continue
			}
		case <-over:
		}
		break
	}
	ping, cancel := context.WithTimeout(ctx, max(quiet, time.Second))
	defer cancel()
	pong := as.Ping(ping, frame.ChannelDiscovery) == nil
	if err := print(); err != nil {
		return err
	}
	alive := true
	select {
	case <-e.finished:
		alive = false
	default:
	}
	if err := a.rawEnded(e, received, alive, pong); err != nil {
		return err
	}
	if !alive {
		return verdict(exitConnect)
	}
	return nil
}

func (a *app) rawEnded(e *rawEndpoint, received int, alive, pong bool) error {
	sent, waiting, lost := e.counts()
	if waiting > 0 {
		a.note("%s not sent", plural(waiting, "frame"))
	}
	if lost > 0 {
		a.note("%s not printed: more than %d octets came at once", plural(lost, "received frame"), maxRawOctets)
	}
	return a.out.json(versioned(field{"event", "ended"}, field{"sent", sent}, field{"received", received},
		field{"alive", alive}, field{"pong", pong}))
}

func receivedJSON(f rawFrame) object {
	o := versioned(field{"dir", "in"}, field{"type", fmt.Sprintf("0x%04x", uint16(f.typ))})
	if t := disco.Type(f.typ); t.Known() {
		o = append(o, field{"name", t.String()})
	}
	if body, err := frame.Peel(f.payload); err == nil {
		if corr, ok := disco.ScanCorr(body); ok {
			o = append(o, field{"corr", octets(corr)})
		}
	}
	return append(o, field{"payload", octets(f.payload)})
}

// A rawStep is one line of a script: a frame, a pause, or what is wrong with it.
type rawStep struct {
	frame rawFrame
	wait  time.Duration
	err   error
}

// readScript hands over the lines of r as steps until it ends, a line cannot be
// read, or stop is closed. It closes steps, unless stop came first. A read that
// never returns keeps it: standard input cannot be interrupted.
func readScript(r io.Reader, steps chan<- rawStep, stop <-chan struct{}) {
	defer close(steps)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4*maxPayloadLen)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		s, err := parseStep(lines.Bytes())
		if err != nil {
			s.err = usagef("line %d: %w", n, err)
		}
		select {
		case steps <- s:
		case <-stop:
			return
		}
		if s.err != nil {
			return
		}
	}
	if err := lines.Err(); err != nil {
		select {
		case steps <- rawStep{err: usagef("standard input: %w", err)}:
		case <-stop:
		}
	}
}

func parseStep(line []byte) (rawStep, error) {
	if err := checkJSON(line); err != nil {
		return rawStep{}, err
	}
	f := parseFields("", json.RawMessage(line))
	if wait := f.text("wait"); wait != nil {
		d, err := time.ParseDuration(*wait)
		if err != nil || d < 0 {
			f.fail("wait", `must be a duration such as "500ms"`)
		}
		return rawStep{wait: max(d, 1)}, f.done()
	}
	typ, payload := f.text("type"), f.text("payload")
	if typ == nil {
		f.fail("type", "is required")
	}
	if payload == nil {
		f.fail("payload", "is required")
	}
	if n := f.number("flags", nil); n != nil && *n != uint64(frame.FlagENC) {
		f.fail("flags", "must be 2: the association seals every frame")
	}
	if err := f.done(); err != nil {
		return rawStep{}, err
	}
	t, err := parseType(*typ)
	if err != nil {
		return rawStep{}, err
	}
	if t < 0x30 {
		return rawStep{}, errors.New("frame types below 0x0030 are the association's own")
	}
	b, err := hex.DecodeString(*payload)
	if err != nil {
		return rawStep{}, &fieldError{"payload", "must be hex"}
	}
	if len(b) > maxRawSend {
		return rawStep{}, &fieldError{"payload", fmt.Sprintf("must be at most %d octets", maxRawSend)}
	}
	return rawStep{frame: rawFrame{frame.Type(t), b}}, nil
}

// maxRawSend is the longest payload that raw sends, in octets: with its header
// and tag the longest frame that there is.
const maxRawSend = frame.MaxFrameLen - frame.HeaderLen - frame.TagLen
