package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

func (a *app) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Print a recorded exchange and hold it to the rules",
		Long: `replay prints what --record wrote to FILE, - for standard input, a line a frame,
and checks both sides anew: every Discovery payload through the codec in the
association's generation, sequence numbers, which answer belongs to which request,
filters and revisions. A line that starts with !! names a rule that a frame breaks;
then it ends with 7.`,
		Example: `  disco-probe query host:4433 --record exchange.jsonl
  disco-probe replay exchange.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error { return a.replay(args[0]) }),
	}
}

// maxRecordedLine is the longest line of a recording, in octets: the longest frame
// in hex, and what is said about it.
const maxRecordedLine = 2*frame.MaxFrameLen + 4096

func (a *app) replay(name string) error {
	r := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return &failure{exit: exitUsage, err: err}
		}
		defer f.Close()
		r = f
	}
	p := &replayer{app: a, open: map[association.ID]*exchange{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRecordedLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		err := p.line(lines.Bytes())
		if err == nil || errors.Is(err, errStdoutClosed) {
			if err != nil {
				return err
			}
			continue
		}
		return usagef("%s: line %d: %w", name, n, err)
	}
	if err := lines.Err(); err != nil {
		return usagef("%s: %w", name, err)
	}
	return p.finish()
}

// A replayer prints and checks a recording.
type replayer struct {
	app    *app
	open   map[association.ID]*exchange
	frames int
	faults int
	unasks int // requests without an answer
	out    []object
}

// A recorded frame is a line of a recording.
type recorded struct {
	association.TraceFrame
	corr disco.Corr // as the line has it
}

// line takes one line. The error says what does not read.
func (p *replayer) line(b []byte) error {
	if err := checkJSON(b); err != nil {
		return err
	}
	f := parseFields("", json.RawMessage(b))
	if v := f.required("v", nil); f.err == nil && v != 1 {
		f.fail("v", "must be 1")
	}
	f.text("time")
	event := f.text("event")
	switch {
	case f.err != nil:
		return f.err
	case event == nil:
		return p.frame(f)
	case *event == "association":
		return p.association(f)
	case *event == "ended":
		id := recordedID(f)
		cause := f.text("cause")
		f.take("close_incomplete")
		if err := f.done(); err != nil {
			return err
		}
		x := p.open[id]
		if x == nil {
			return errors.New("the end of an association that did not begin")
		}
		p.unasks += x.unanswered()
		delete(p.open, id)
		return p.say(fmt.Sprintf("%s ended: %s", shortID(id), orEmpty(cause)), nil, object{{"event", "ended"}, {"id", octets(id[:])}, {"cause", orEmpty(cause)}})
	case *event == "failed":
		cause := f.text("cause")
		if err := f.done(); err != nil {
			return err
		}
		return p.say("failed: "+orEmpty(cause), nil, object{{"event", "failed"}, {"cause", orEmpty(cause)}})
	}
	return &fieldError{"event", "is none of association, ended, failed"}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func recordedID(f *fields) (id association.ID) {
	if s := f.octets("id"); len(s) == len(id) {
		copy(id[:], s)
	} else {
		f.fail("id", "must be 32 octets")
	}
	return id
}

// association takes the facts about an association.
func (p *replayer) association(f *fields) error {
	id := recordedID(f)
	generation := f.required("generation", nil)
	if generation != 2 && generation != 3 {
		f.fail("generation", "must be 2 or 3")
	}
	suite, role := orEmpty(f.text("suite")), orEmpty(f.text("role"))
	if role != "client" && role != "server" {
		f.fail("role", "must be client or server")
	}
	identity, peer := f.octets("identity"), f.octets("peer")
	local, remote := orEmpty(f.text("local")), orEmpty(f.text("remote"))
	if err := f.done(); err != nil {
		return err
	}
	if p.open[id] != nil {
		return errors.New("the association is there already")
	}
	p.open[id] = newExchange(int(generation))
	return p.say(fmt.Sprintf("%s n-pamp/%d %s, we are the %s %x at %s, peer is %x at %s", shortID(id), generation, suite, role, identity, local, peer, remote), nil,
		object{{"event", "association"}, {"id", octets(id[:])}, {"generation", generation}, {"suite", suite}, {"role", role},
			{"identity", octets(identity)}, {"peer", octets(peer)}, {"local", local}, {"remote", remote}})
}

// frame takes one frame.
func (p *replayer) frame(f *fields) error {
	var r recorded
	switch orEmpty(f.text("dir")) {
	case "in":
	case "out":
		r.Sent = true
	default:
		f.fail("dir", "must be in or out")
	}
	r.ID = recordedID(f)
	r.Header = frame.Header{Channel: frame.ChannelID(hexField(f, "channel")), Type: frame.Type(hexField(f, "type"))}
	f.text("name")
	flags := f.required("flags", nil)
	if flags > 0xF {
		f.fail("flags", "must be 0 to 15")
	}
	r.Header.Flags = frame.Flags(flags)
	r.Header.Seq = f.required("seq", nil)
	r.Ratchet, r.Epoch = f.required("ratchet", nil), f.required("epoch", nil)
	if _, ok := f.raw["corr"]; ok {
		r.corr = disco.Corr(f.octets("corr"))
	}
	r.Plaintext = []byte(f.octets("payload"))
	if err := f.done(); err != nil {
		return err
	}
	x := p.open[r.ID]
	if x == nil && !isHandshake(r.Header) && r.Header.Type != frame.TypeError {
		return errors.New("a frame of an association that did not begin")
	}
	p.frames++
	var faults []fault
	generation := 0
	if x != nil {
		generation = x.generation
		faults = x.check(&r)
	}
	o := frameJSON(r.TraceFrame, time.Time{})
	o = append(o[1:3:3], o[4:]...) // without "v", and the time
	if s := summary(r.Header, r.Plaintext, generation); s != "" {
		o = append(o, field{"summary", s})
	}
	return p.say(traceLine(r.TraceFrame, generation), faults, o)
}

func isHandshake(h frame.Header) bool {
	return h.Channel == frame.ChannelControl && h.Type >= frame.TypeClientHello && h.Type <= frame.TypeClientAuth
}

// hexField is a required field such as "0x0010".
func hexField(f *fields, key string) uint16 {
	s := orEmpty(f.text(key))
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 16)
	if err != nil || !strings.HasPrefix(s, "0x") {
		f.fail(key, "must be text such as 0x0010")
	}
	return uint16(n)
}

// say prints one line of the recording, and what is wrong with it.
func (p *replayer) say(line string, faults []fault, o object) error {
	p.faults += len(faults)
	var list []object
	lines := []string{line}
	for _, f := range faults {
		lines = append(lines, fmt.Sprintf("!! %s: %s", f.rule, f.why))
		list = append(list, object{{"rule", f.rule}, {"why", f.why}})
	}
	if len(list) > 0 {
		o = append(o, field{"faults", list})
	}
	switch p.app.format {
	case formatJSON:
		p.out = append(p.out, o)
		return nil
	case formatNDJSON:
		return p.app.out.json(append(versioned(), o...))
	case formatHex:
		for _, f := range o {
			if f.key == "payload" {
				return p.app.out.text(hex.EncodeToString([]byte(f.val.(octets))))
			}
		}
		return nil
	}
	return p.app.out.text(lines...)
}

// finish prints the end and returns the verdict.
func (p *replayer) finish() error {
	for _, x := range p.open {
		p.unasks += x.unanswered()
	}
	meta := object{{"frames", p.frames}, {"faults", p.faults}, {"unanswered", p.unasks}}
	var err error
	switch p.app.format {
	case formatJSON:
		err = p.app.out.json(versioned(field{"lines", p.out}, field{"meta", meta}))
	case formatNDJSON:
		err = p.app.out.json(versioned(field{"meta", meta}))
	}
	if err != nil {
		return err
	}
	p.app.note("%s, %s, %s unanswered", plural(p.frames, "frame"), plural(p.faults, "fault"), plural(p.unasks, "request"))
	if p.faults > 0 {
		return verdict(exitProtocol)
	}
	return nil
}
