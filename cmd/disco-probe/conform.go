package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// conformFlags are those of conform alone.
type conformFlags struct {
	self        bool
	only        []string
	wait, quiet time.Duration
	junit       string
	brief       bool
}

func (a *app) conformCommand() *cobra.Command {
	var (
		link  linkFlags
		flags conformFlags
	)
	cmd := &cobra.Command{
		Use:   "conform [ADDR | --self]",
		Short: "Hold a live peer to the conformance clauses of NPAMP-DISC",
		Long: `conform runs what of NPAMP-DISC §11 can be seen from outside against a live peer,
check by check, and says of each whether the peer passes, fails, or could not be
seen doing it, with the frames exchanged. It keeps within the default rate limits,
so it takes the better part of a minute, makes some ten associations, and ends with
7 where a check at level MUST failed. Checks at level choice are readings that the
specification leaves open: where a peer differs there it says so and no more. The
peer is queried and subscribed to, sent malformed frames of each type, and announced
a few made-up records.

What needs a change of the peer's records is not observable unless one happens
within --wait. With --self the peer is our own responder, on a real association on
this machine, whose records change when a check asks for it.`,
		Example: `  disco-probe conform --pin bciq… host:4433 --junit report.xml
  disco-probe conform --self --generation 2 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || flags.self == (len(args) == 1) {
				return errors.New("conform takes an address, or --self")
			}
			return nil
		},
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if link.timeout <= 0 || flags.wait < 0 || flags.quiet <= 0 {
			return usagef("--timeout and --quiet must be positive, --wait not negative")
		}
		t, closeAll, err := a.conformTarget(args, &link)
		if err != nil {
			return err
		}
		defer closeAll()
		c := newConformance(t)
		c.timeout, c.quiet, c.wait = link.timeout, flags.quiet, flags.wait
		return a.conform(ctx, c, &flags)
	})
	link.add(cmd.Flags(), defaultTimeout, "how long each answer may take")
	link.addDial(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&flags.self, "self", false, "check our own responder, with its records changing")
	f.StringSliceVar(&flags.only, "check", nil, "run this `check` alone; may be repeated")
	f.DurationVar(&flags.wait, "wait", 3*time.Second, "how long a change of the peer's records is waited for")
	f.DurationVar(&flags.quiet, "quiet", 200*time.Millisecond, "how long nothing must come where nothing may")
	f.StringVar(&flags.junit, "junit", "", "write the result to `FILE` as JUnit XML as well")
	f.BoolVar(&flags.brief, "brief", false, "in a table, leave out the exchanges of what passed")
	return cmd
}

func (a *app) conformTarget(args []string, link *linkFlags) (*target, func(), error) {
	if len(args) == 0 {
		return a.selfTarget(link)
	}
	t, err := a.peerTarget(args[0], link)
	return t, func() {}, err
}

// conform runs the checks and prints what came of them.
func (a *app) conform(ctx context.Context, c *conformance, flags *conformFlags) error {
	set, err := testvectors.Load()
	if err != nil {
		return err
	}
	// The first association says which generation, and so which vectors.
	first, err := c.open(ctx, nil)
	if err != nil {
		return classify(ctx, err)
	}
	c.session = first
	c.checks = conformChecks(set.Payloads, c.generation)
	if err := c.choose(flags.only); err != nil {
		return err
	}
	a.note("%s of %s, n-pamp/%d", plural(len(c.checks), "check"), c.target.name, c.generation)
	if err := c.runAll(ctx); err != nil {
		return err
	}
	if flags.junit != "" {
		if err := c.writeJUnit(flags.junit); err != nil {
			return err
		}
	}
	if err := a.printConformance(c, flags.brief); err != nil {
		return err
	}
	switch n := c.count(); {
	case n.required > 0:
		return verdict(exitProtocol)
	case c.dead != nil:
		return &failure{exit: exitConnect, err: c.dead}
	}
	return nil
}

// A level says what a check rests on.
type level string

const (
	levelMust   level = "MUST"   // a MUST or MUST NOT, or what a definition says
	levelShould level = "SHOULD" // a SHOULD
	levelChoice level = "choice" // a reading of what the specification leaves open
)

// A check is one thing that can be seen of a peer.
type check struct {
	name   string
	clause int // of §11; 0: of another section
	level  level
	rows   []string // of the requirement ledger
	title  string   // what is held to
	run    func(ctx context.Context, s *session) error

	// judged, of a check that asks nothing and looks at what came in the whole
	// run, says whether anything did that could have failed it: "" or why not.
	judged func(v *sighting) string
}

// An outcome is what a check came to.
type outcome string

const (
	passed        outcome = "pass"
	failed        outcome = "fail"
	notObservable outcome = "not observable"
)

// A checked check was run.
type checked struct {
	check
	outcome  outcome
	why      string // of a failure, of what was not seen, or what else there is to say
	exchange []entry
	cut      bool // frames are missing from it
}

// An entry is one frame of an exchange, or something said about it.
type entry struct {
	assoc   int
	out     bool
	typ     disco.Type
	payload []byte
	note    string
}

// A conformance is one run against one target.
type conformance struct {
	target               *target
	timeout, quiet, wait time.Duration
	interval             time.Duration // between two frames that we send

	checks  []check
	results []checked
	session *session // the present one
	opened  int      // associations
	dead    error    // why there can be no more

	identity   []byte
	generation int

	// Of the check that runs.
	running  int
	exchange []entry
	octets   int
	cut      bool
	remark   string

	sighted    sighting
	base       map[record.ID]record.Record
	changes    *observed // what a watch without hooks saw
	due        time.Time // when the next frame may be sent
	unreadable time.Time // when a request without a readable corr was last sent

	// The peer's ways, as far as they are known.
	pushes, sameCorr tristate
	blind            bool // its errors about what it cannot read have no corr
	throttled        int  // code 7 met
	recovered        bool
}

// sendInterval keeps below the default rate of 50 requests a second; burst
// frames may go at once.
const (
	sendInterval = 25 * time.Millisecond
	sendBurst    = 4
)

func newConformance(t *target) *conformance {
	return &conformance{target: t, timeout: defaultTimeout, quiet: 200 * time.Millisecond, wait: 3 * time.Second, interval: t.interval}
}

// choose leaves the named checks; all if there are no names.
func (c *conformance) choose(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, n := range names {
		if !slices.ContainsFunc(c.checks, func(k check) bool { return k.name == n }) {
			return usagef("there is no check %q", n)
		}
	}
	c.checks = slices.DeleteFunc(c.checks, func(k check) bool { return !slices.Contains(names, k.name) })
	return nil
}

// pace waits until the next frame may be sent.
func (c *conformance) pace(ctx context.Context) error {
	now := time.Now()
	if c.due.Before(now) {
		c.due = now
	}
	ahead := c.due.Sub(now) - (sendBurst-1)*c.interval
	c.due = c.due.Add(c.interval)
	return pause(ctx, ahead)
}

// pause waits, no time at all where d is not positive.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// slower halves the pace, for a peer that answers NotAdvertised, and reports
// whether it is worth asking again.
func (c *conformance) slower() bool {
	const most = 5
	if c.throttled++; c.throttled > most {
		return false
	}
	c.interval = max(2*c.interval, sendInterval)
	c.due = time.Now().Add(sendBurst*c.interval + time.Second)
	c.note("the peer answers NotAdvertised (7): from here on a frame every %v", c.interval)
	return true
}

// Bounds of the recorded exchange of one check.
const (
	maxEntryOctets    = 16 << 10 // of one payload
	maxExchangeOctets = 256 << 10
	maxExchange       = 2000 // entries
)

// record adds a frame to the exchange of the check that runs.
func (c *conformance) record(e entry) {
	if len(c.exchange) == maxExchange || c.octets+len(e.payload) > maxExchangeOctets || len(e.payload) > maxEntryOctets {
		c.cut = true
		if len(c.exchange) == maxExchange {
			return
		}
		e.note, e.payload = fmt.Sprintf("%s, left out here", plural(len(e.payload), "octet")), nil
	}
	c.octets += len(e.payload)
	c.exchange = append(c.exchange, e)
}

// note adds something said to the exchange.
func (c *conformance) note(format string, args ...any) {
	c.record(entry{note: fmt.Sprintf(format, args...)})
}

// say is for what there is to say of a check that passes.
func (c *conformance) say(format string, args ...any) { c.remark = fmt.Sprintf(format, args...) }

// runAll runs every check. The error is an interrupt, or a fault of our own.
func (c *conformance) runAll(ctx context.Context) error {
	c.results = make([]checked, len(c.checks))
	for i, k := range c.checks {
		c.results[i].check = k
		if k.run == nil {
			continue
		}
		if err := c.runOne(ctx, &c.results[i]); err != nil {
			return err
		}
	}
	if s := c.session; s != nil && !s.spoiled {
		s.close()
	}
	for i := range c.results {
		c.conclude(&c.results[i])
	}
	return nil
}

// runOne runs one check on an association that nothing was left open on.
func (c *conformance) runOne(ctx context.Context, r *checked) error {
	c.running++
	c.exchange, c.octets, c.cut, c.remark = nil, 0, false, ""
	err := c.ready(ctx)
	if err == nil {
		s := c.session
		err = r.run(ctx, s)
		var d *differs
		s.spoiled = s.spoiled || errors.As(err, &d) || s.ended()
		if !s.spoiled && ctx.Err() == nil && s.tidy(ctx) != nil {
			s.spoiled = true
		}
	}
	r.exchange, r.cut = c.exchange, c.cut
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.decide(r, err)
}

// ready has a session that can be used, making an association if it has to.
func (c *conformance) ready(ctx context.Context) error {
	if s := c.session; s != nil {
		if !s.spoiled && !s.ended() {
			return nil
		}
		s.close()
		c.session = nil
	}
	if c.dead != nil {
		return notSeen("no association: %v", c.dead)
	}
	s, err := c.open(ctx, nil)
	if err != nil {
		if ctx.Err() == nil {
			c.dead = err
		}
		return notSeen("no association: %v", err)
	}
	c.session = s
	return nil
}

// decide gives a check its outcome. The error is a fault of our own.
func (c *conformance) decide(r *checked, err error) error {
	var (
		d    *differs
		u    *unseen
		code refusedError
		lost *lostError
	)
	switch {
	case err == nil:
		r.outcome, r.why = passed, c.remark
		return nil
	case errors.As(err, &u):
		r.outcome = notObservable
	case errors.As(err, &d), errors.As(err, &lost):
		r.outcome = failed
	case errors.As(err, &code):
		r.outcome = failed
		switch disco.Code(code) {
		case disco.CodeUnknownRecordKind, disco.CodeFilterUnsupported, disco.CodeSubscriptionRefused, disco.CodeNotAdvertised:
			r.outcome = notObservable // what the peer may do, and says so
		}
	default:
		return err
	}
	r.why = err.Error()
	return nil
}

// conclude adds to a check what was seen in all: a fault of the check fails it,
// and one that asks nothing passes if there was something to see.
func (c *conformance) conclude(r *checked) {
	faults := c.sighted.faults[r.name]
	if len(faults) > 0 {
		var why []string
		for _, f := range faults {
			if !slices.Contains(why, f.why) {
				why = append(why, f.why)
			}
			r.exchange = append(r.exchange, f.entry)
		}
		if r.outcome == failed {
			why = append([]string{r.why}, why...)
		}
		r.outcome, r.why = failed, strings.Join(why, "; ")
		return
	}
	if r.run != nil {
		return
	}
	if why := r.judged(&c.sighted); why != "" {
		r.outcome, r.why = notObservable, why
		return
	}
	r.outcome = passed
}

// A tally counts outcomes.
type tally struct {
	passed, failed, unseen int
	required               int // failures at level MUST
}

func (c *conformance) count() (n tally) {
	for _, r := range c.results {
		switch r.outcome {
		case passed:
			n.passed++
		case notObservable:
			n.unseen++
		case failed:
			n.failed++
			if r.level == levelMust {
				n.required++
			}
		}
	}
	return n
}
