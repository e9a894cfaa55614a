package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
)

// Limits of a payload as our receiver has them by default, in octets.
const (
	maxPayloadLen = frame.MaxFrameLen - frame.HeaderLen - frame.TagLen
	maxRequestLen = 64 << 10 // of a QUERY, SUBSCRIBE or UNSUBSCRIBE
)

type decodeOptions struct {
	typ        string
	tolerant   bool
	binary     bool
	generation int
}

func (a *app) decodeCommand() *cobra.Command {
	var o decodeOptions
	cmd := &cobra.Command{
		Use:   "decode [HEX | @FILE | -]",
		Short: "Say what a payload means, or why it is refused and where",
		Long: `decode reads one Discovery payload as a receiver with default limits would, and
says what it means (exit 0), or which rule it breaks, at which octet, and what
the receiver sends for it (exit 7). The input is hex, in which white space is
passed over: an argument, a file (@FILE) or standard input (-). With --binary a
file or standard input is raw octets. No input at all is a payload of no octets.`,
		Example: `  disco-probe decode a200190100014101
  disco-probe decode -o diag --type query a2001a00000100014101`,
		RunE: a.do(func(_ context.Context, args []string) error {
			return a.decode(o, args)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.typ, "type", "", "frame `type` of the header: 0x0100, 256, query or DISCO_QUERY (default the payload's frame_kind, else DISCO_QUERY)")
	f.BoolVar(&o.tolerant, "tolerant", false, "read a RESULT as the answer to a tolerant query")
	f.BoolVar(&o.binary, "binary", false, "input is raw octets, not hex")
	f.IntVar(&o.generation, "generation", 2, "crypto generation of the association, 2 or 3")
	return cmd
}

func (a *app) decode(o decodeOptions, args []string) error {
	if o.generation != 2 && o.generation != 3 {
		return usagef("--generation must be 2 or 3")
	}
	payload, err := a.readPayload(args, o.binary)
	if err != nil {
		return err
	}
	t, ok := disco.PeekType(payload)
	if !ok {
		t = disco.TypeQuery
	}
	if o.typ != "" {
		if t, err = parseType(o.typ); err != nil {
			return &failure{exit: exitUsage, err: err}
		}
		if !t.Known() {
			return usagef("frame type 0x%04x is none of Discovery's: a receiver drops such a frame unread", uint16(t))
		}
	}
	m, refusal := judge(t, payload, &disco.Options{Generation: o.generation, Tolerant: o.tolerant})
	if refusal != nil {
		return a.refused(payload, refusal)
	}
	return a.accepted(t, payload, m)
}

// judge reads a payload as our receiver would.
func judge(t disco.Type, payload []byte, o *disco.Options) (message, *disco.PayloadError) {
	request := t.TakesReply() || t == disco.TypeUnsubscribe
	if len(payload) > maxPayloadLen || request && len(payload) > maxRequestLen {
		return message{}, &disco.PayloadError{Type: t, Code: disco.CodeMalformedPayload, Rule: "limit", Section: "10"}
	}
	m, err := parseMessage(t, payload, o)
	var refusal *disco.PayloadError
	if err != nil && !errors.As(err, &refusal) {
		panic("BUG: " + err.Error())
	}
	return m, refusal
}

// readPayload reads the octets that the arguments name.
func (a *app) readPayload(args []string, binary bool) ([]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if len(args) == 1 && (args[0] == "-" || strings.HasPrefix(args[0], "@")) {
		b, err := a.readInput(args[0])
		if err != nil || binary {
			return b, err
		}
		return parseHex(string(b))
	}
	if binary {
		return nil, usagef("--binary is for @FILE and -: an argument is hex")
	}
	return parseHex(strings.Join(args, " "))
}

func (a *app) readInput(arg string) ([]byte, error) {
	const most = 4 * maxPayloadLen // of hex with white space, before it is looked at
	r := a.stdin
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		f, err := os.Open(name)
		if err != nil {
			return nil, &failure{exit: exitUsage, err: err}
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, &failure{exit: exitUsage, err: err}
	}
	if len(b) > most {
		return nil, usagef("%s: more than %d octets", arg, most)
	}
	return b, nil
}

func parseHex(s string) ([]byte, error) {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, usagef("input is not hex: %v", strings.TrimPrefix(err.Error(), "encoding/hex: "))
	}
	return b, nil
}

func (a *app) accepted(t disco.Type, payload []byte, m message) error {
	switch a.format {
	case formatJSON, formatNDJSON:
		return a.out.json(versioned(field{"ok", true}, field{"type", t.String()},
			field{"message", m.json}, field{"skipped", skippedJSON(m.skipped)}))
	case formatDiag:
		return a.out.text(diagPayload(t, payload))
	case formatHex:
		return a.out.text(hex.EncodeToString(payload))
	}
	var rows [][]string
	for _, f := range m.json {
		if _, ok := f.val.([]object); ok { // records have a table of their own
			f.val = len(m.records)
		}
		rows = append(rows, []string{"  " + f.key, string(appendJSON(nil, f.val))})
	}
	if len(m.skipped) > 0 {
		rows = append(rows, []string{"  skipped", string(appendJSON(nil, skippedJSON(m.skipped)))})
	}
	lines := append([]string{"ok " + t.String()}, table(rows)...)
	if len(m.records) > 0 {
		lines = append(append(lines, ""), recordTable(m.records)...)
	}
	return a.out.text(lines...)
}

func (a *app) refused(payload []byte, e *disco.PayloadError) error {
	var err error
	switch a.format {
	case formatJSON, formatNDJSON:
		err = a.out.json(append(versioned(field{"ok", false}, field{"type", e.Type.String()}), refusalJSON(e)...))
	case formatDiag:
		err = a.out.text(append(refusalLines(e), dump(e.Type, payload, e.Offset, e.Rule)...)...)
	case formatHex:
		err = a.out.text(hex.EncodeToString(payload))
	default:
		err = a.out.text(refusalLines(e)...)
	}
	if err != nil {
		return err
	}
	a.note("%s", strings.TrimPrefix(e.Error(), "disco: "))
	return verdict(exitProtocol)
}

// refusalJSON is what is said of a refusal.
func refusalJSON(e *disco.PayloadError) object {
	o := object{
		{"code", uint64(e.Code)},
		{"name", e.Code.String()},
		{"reply", e.Reply()},
		{"corr", nil},
		{"offset", e.Offset},
		{"path", e.Path},
		{"rule", e.Rule},
		{"section", e.Section},
	}
	if e.HasCorr {
		o[3].val = octets(e.Corr)
	}
	return o
}

func refusalLines(e *disco.PayloadError) []string {
	at := e.Path
	if at == "" {
		at = "the payload itself"
	}
	corr := "none found"
	if e.HasCorr {
		corr = e.Corr.String()
	}
	rows := [][]string{
		{"  code", fmt.Sprintf("%d %v", uint64(e.Code), e.Code)},
		{"  reply", e.Reply()},
		{"  corr", corr},
		{"  offset", fmt.Sprint(e.Offset)},
		{"  at", at},
		{"  rule", e.Rule + " (§" + e.Section + ")"},
	}
	return append([]string{"refused " + e.Type.String()}, table(rows)...)
}
