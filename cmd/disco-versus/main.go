package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/etcdpeer"
	"github.com/npamp/disco/cmd/disco-versus/internal/floor"
	"github.com/npamp/disco/cmd/disco-versus/internal/mcppeer"
	"github.com/npamp/disco/cmd/disco-versus/internal/natspeer"
	"github.com/npamp/disco/cmd/disco-versus/internal/ours"
	"github.com/npamp/disco/cmd/disco-versus/internal/xdspeer"
)

// contenders set cases up, by the name that the tables have.
var contenders = map[string]bench.Open{
	disco:    ours.Open,
	uncached: ours.Uncached,
	plain:    floor.Plain,
	inTLS:    floor.TLS,
	rawTLS:   floor.Raw,
	mcp:      mcppeer.Open,
	etcd:     etcdpeer.Open,
	natsCore: natspeer.Core,
	natsKV:   natspeer.KV,
	xds:      xdspeer.Open,
}

const (
	disco    = "disco"
	uncached = "disco uncached"
	plain    = "floor"
	inTLS    = "floor in TLS"
	rawTLS   = "TLS alone"
	mcp      = "MCP"
	etcd     = "etcd"
	natsCore = "NATS core"
	natsKV   = "NATS KV"
	xds      = "xDS delta"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("disco-versus: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		stop()
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("disco-versus", flag.ContinueOnError)
	var (
		only     = flags.String("only", "", "kinds of cases, contenders, or both, comma-separated: list, fanout, call, memory, handshake")
		passes   = flags.Int("passes", 21, "rounds of each case")
		patience = flags.Duration("patience", 10*time.Second, "for one contender's rounds of a case, from the sixth on")
		scale    = flags.Bool("scale", false, "measure how cost grows with records, subscriptions and the rate of changes")
		jsonFile = flags.String("json", "", "also write the report to this file, as JSON")
		svgFile  = flags.String("svg", "", "also draw the figures into this file")
		child    = flags.String("contender", "", "internal: be this contender")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *child != "" {
		return serve(ctx, contenders[*child], stdin, stdout)
	}
	cases := suite
	if *scale {
		cases = curves
	}
	selected, err := selectCases(cases, *only)
	if err != nil {
		return err
	}
	r := measure(ctx, selected, *passes, *patience)
	r.Command = "disco-versus " + strings.Join(args, " ")
	if *scale {
		r.writeCurves(stdout)
	} else {
		r.writeTables(stdout)
	}
	if *jsonFile != "" {
		data, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*jsonFile, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if *svgFile != "" {
		if err := os.WriteFile(*svgFile, r.svg(), 0o644); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if n := len(r.Failures); n > 0 {
		return fmt.Errorf("%d failures", n)
	}
	return nil
}

// selectCases narrows the cases down to the kinds and contenders named.
func selectCases(all []entry, only string) ([]entry, error) {
	if only == "" {
		return all, nil
	}
	var kinds, names []string
	for name := range strings.SplitSeq(only, ",") {
		if _, ok := contenders[name]; ok {
			names = append(names, name)
		} else if slices.ContainsFunc(all, func(e entry) bool { return e.group() == name }) {
			kinds = append(kinds, name)
		} else {
			return nil, fmt.Errorf("-only: no kind and no contender %q", name)
		}
	}
	var out []entry
	for _, e := range all {
		if len(kinds) > 0 && !slices.Contains(kinds, e.group()) {
			continue
		}
		if len(names) > 0 {
			e.by = slices.DeleteFunc(slices.Clone(e.by), func(n string) bool { return !slices.Contains(names, n) })
		}
		if len(e.by) > 0 {
			out = append(out, e)
		}
	}
	return out, nil
}

// serve is the child's side of a contender: each line of in asks for something,
// each line of out answers.
func serve(ctx context.Context, open bench.Open, in io.Reader, out io.Writer) error {
	if open == nil {
		return fmt.Errorf("no such contender")
	}
	var b bench.Bench
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var ask request
		if err := json.Unmarshal(lines.Bytes(), &ask); err != nil {
			return err
		}
		if err := answers.Encode(ask.answer(ctx, open, &b)); err != nil {
			return err
		}
	}
	return lines.Err()
}
