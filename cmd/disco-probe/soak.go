package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/record"
)

// What a soak may be asked for at most: it is a load on this machine and on
// nobody else's.
const (
	soakMaxMinutes = 24 * 60
	soakMaxPeers   = 2_000
	soakMaxSubs    = 100_000
	soakMaxRate    = 10_000 // changes a second
)

// soakRecords is how many records there are to change, of all kinds.
const soakRecords = 4000

// soakOptions say what a soak does.
type soakOptions struct {
	duration time.Duration
	peers    int // associations at a time
	subs     int // subscriptions, spread over the peers
	rate     int // changes a second
	records  int
	faults   bool
	seed     uint64
	settle   time.Duration // how long a checkpoint may take

	// source, in tests, gives a peer something else to be served from than the
	// set; nil: the set.
	source func(peer int, set *record.Set) record.Source
}

func (a *app) soakCommand() *cobra.Command {
	opt := soakOptions{records: soakRecords, settle: soakSettle}
	minutes := 1
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run many associations under change and faults, on this machine alone",
		Long: `soak advertises some thousands of records on a loopback address, has many peers
dial it over real TLS, subscribe and query, changes the records at a steady rate,
and compares what everybody sees with what there is. With --faults peers stop
reading, connections are cut, keys are replaced and records are hidden meanwhile.

The verdict says how many views diverged, what was left behind, how the heap
grew, and how long a change took from the set to a subscriber's callback.
The exit status is 0 for a good one, 7 for a divergence and 1 for the rest.`,
		Example: `  disco-probe soak --minutes 30 --peers 200 --subs 2000 --rate 500 --faults`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		for _, b := range []struct {
			flag     string
			val, max int
		}{{"minutes", minutes, soakMaxMinutes}, {"peers", opt.peers, soakMaxPeers}, {"subs", opt.subs, soakMaxSubs}, {"rate", opt.rate, soakMaxRate}} {
			if b.val < 1 || b.val > b.max {
				return usagef("--%s is 1 to %d", b.flag, b.max)
			}
		}
		opt.duration = time.Duration(minutes) * time.Minute
		if !cmd.Flags().Changed("seed") {
			var b [8]byte
			rand.Read(b[:])
			opt.seed = binary.BigEndian.Uint64(b[:]) >> 16 // short to type
		}
		return a.soak(ctx, opt)
	})
	f := cmd.Flags()
	f.IntVar(&minutes, "minutes", minutes, fmt.Sprintf("how long, 1 to %d", soakMaxMinutes))
	f.IntVar(&opt.peers, "peers", 20, fmt.Sprintf("associations at a time, 1 to %d", soakMaxPeers))
	f.IntVar(&opt.subs, "subs", 200, fmt.Sprintf("subscriptions in all, 1 to %d", soakMaxSubs))
	f.IntVar(&opt.rate, "rate", 100, fmt.Sprintf("changes of a record a second, 1 to %d", soakMaxRate))
	f.BoolVar(&opt.faults, "faults", false, "stall readers, cut connections, replace keys, announce, hide records")
	f.Uint64Var(&opt.seed, "seed", 0, "what chance begins with (default another one each time)")
	return cmd
}

// soak runs one and prints its verdict.
func (a *app) soak(ctx context.Context, opt soakOptions) error {
	faults := "no faults"
	if opt.faults {
		faults = "faults"
	}
	a.note("soak of %v: %s, %s, %s a second, %s, seed %d", opt.duration, plural(opt.peers, "peer"), plural(opt.subs, "subscription"), plural(opt.rate, "change"), faults, opt.seed)
	s, err := newSoak(a, opt)
	if err != nil {
		return err
	}
	r, err := s.run(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return a.interrupted()
		}
		return err
	}
	if a.format.json() {
		err = a.out.json(r.json())
	} else {
		err = a.out.text(r.lines()...)
	}
	if err == nil && r.exit() != exitOK {
		err = verdict(r.exit())
	}
	return err
}
