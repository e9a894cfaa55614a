package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// subscribeChecks are those of clause 6, subscriptions, and of clauses 3 and 4
// that it takes one to see.
func subscribeChecks(vectors []testvectors.Payload) []check {
	all := []check{
		{name: "subscribe-snapshot", level: levelMust, rows: rows("DISC-7.2-02"),
			title: "SUBSCRIBE is acknowledged with a snapshot under its corr", run: checkSnapshot},
		{name: "subscribe-filter", level: levelMust, rows: rows("DISC-7.2-01"),
			title: "the snapshot is what the filter selects", run: checkSnapshotFilter},
		{name: "subscribe-keys", level: levelChoice, rows: rows("DISC-7.2-01"),
			title: "keys 5 and 6, which SUBSCRIBE does not have, are ignored", run: checkSubscribeKeys},
		{name: "snapshot-cursor", level: levelChoice, rows: rows("DISC-7.2-02"),
			title: "the cursor of a snapshot's page works in a QUERY", run: checkSnapshotCursor},
		{name: "subscribe-refused", level: levelMust, rows: rows("DISC-7.2-02"),
			title: "where subscriptions are off, SUBSCRIBE gets SubscriptionRefused", run: checkSubscribeRefused},
		{name: "subscribe-bound", level: levelMust, rows: rows("DISC-10-06"),
			title: "the number of subscriptions is bounded, and those within the bound live on", run: checkSubscribeBound},
		{name: "update-added", level: levelMust, rows: rows("DISC-7.2-03"),
			title: "a record that comes is told in an UPDATE", run: checkUpdateAdded},
		{name: "update-replaced", level: levelMust, rows: rows("DISC-7.2-04 DISC-5-04"),
			title: "a record that is replaced is told in full under its record_id", run: checkUpdateReplaced},
		{name: "update-withdrawn", level: levelMust, rows: rows("DISC-7.2-05"),
			title: "a record that goes is told as withdrawn", run: checkUpdateWithdrawn},
		{name: "update-leaves", level: levelMust, rows: rows("DISC-7.2-06"),
			title: "a record that leaves the filter is told as withdrawn", run: checkUpdateLeaves},
		{name: "update-enters", level: levelMust, rows: rows("DISC-7.2-06"),
			title: "a record that comes into the filter is told as added", run: checkUpdateEnters},
		{name: "update-in-filter", level: levelMust, rows: rows("DISC-7.2-01"),
			title: "a change outside the filter is not told", run: checkUpdateInFilter},
		{name: "update-every", level: levelMust, rows: rows("DISC-7.2-07 DISC-4.3-03"),
			title: "each subscription is told, under its own corr", run: checkUpdateEvery},
		{name: "update-no-op", level: levelMust, rows: rows("DISC-7.2-08 DISC-8-01"),
			title: "no UPDATE is empty, and what changes nothing is not told", run: checkUpdateNoOp},
		{name: "revision-rises", level: levelMust, rows: rows("DISC-5-07 DISC-8-01"),
			title: "a revision rises with every change, and is not lower after a withdrawal", run: checkRevisionRises},
		{name: "unsubscribe-stops", level: levelMust, rows: rows("DISC-7.3-01 DISC-4.3-05"),
			title: "after UNSUBSCRIBE no UPDATE comes", run: checkUnsubscribeStops},
		{name: "unsubscribe-silent", level: levelMust, rows: rows("DISC-7.3-02"),
			title: "UNSUBSCRIBE gets no answer: live, unknown or malformed", run: func(ctx context.Context, s *session) error {
				return checkUnsubscribeSilent(ctx, s, vectors)
			}},
		{name: "unsubscribe-unknown", level: levelMust, rows: rows("DISC-7.3-03"),
			title: "UNSUBSCRIBE of what is no subscription changes nothing", run: checkUnsubscribeUnknown},
		{name: "announce-silent", level: levelMust, rows: rows("DISC-7.1-01"),
			title: "ANNOUNCE gets no answer, a malformed one neither", run: func(ctx context.Context, s *session) error {
				return checkAnnounceSilent(ctx, s, vectors)
			}},
	}
	for i := range all {
		switch all[i].name {
		case "subscribe-bound", "announce-silent": // §11 does not number §10 and §7.1
		case "revision-rises":
			all[i].clause = 4
		default:
			all[i].clause = 6
		}
	}
	return all
}

func checkSnapshot(ctx context.Context, s *session) error {
	return s.agrees(ctx, "the snapshot", record.Filter{}, nil, func() (*collected, error) {
		const corr = "snapshot"
		_, l, err := s.subscribe(ctx, corr, record.Filter{})
		if err != nil {
			return nil, err
		}
		if err := s.unsubscribe(ctx, corr); err != nil {
			return nil, err
		}
		return l, s.fence(ctx)
	})
}

func checkSnapshotFilter(ctx context.Context, s *session) error {
	f := record.Filter{Kinds: []record.Kind{record.KindTool}}
	return s.agrees(ctx, "the snapshot for "+filterText(f), f, nil, func() (*collected, error) {
		const corr = "snapshot-filter"
		_, l, err := s.subscribe(ctx, corr, f)
		if err != nil {
			return nil, err
		}
		if err := s.unsubscribe(ctx, corr); err != nil {
			return nil, err
		}
		return l, s.fence(ctx)
	})
}

func checkSubscribeKeys(ctx context.Context, s *session) error {
	corr := s.newCorr()
	b := mapOf(disco.TypeSubscribe, corr, 2, 5, 0x01, 6, 0x61, 'x') // neither of its type in a QUERY
	if err := s.send(ctx, disco.TypeSubscribe, b); err != nil {
		return err
	}
	rx, err := s.answerTo(ctx, corr)
	if err == nil && rx.result == nil {
		err = refusedError(rx.code)
	}
	return err
}

func checkSnapshotCursor(ctx context.Context, s *session) error {
	_, l, err := s.subscribe(ctx, "", record.Filter{})
	if err != nil {
		return err
	}
	if len(l.pages) == 1 {
		return notSeen("the whole snapshot fits one page")
	}
	rx, err := s.query(ctx, disco.Query{Cursor: l.pages[0].Cursor, HasCursor: true})
	switch {
	case err != nil:
		return err
	case rx.result == nil:
		return refusedError(rx.code)
	case !slices.Equal(rx.result.Records, l.pages[1].Records):
		return differ("it gives another page than the one that came after it")
	}
	return nil
}

func checkSubscribeRefused(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		if n := s.run.sighted.codes[disco.CodeSubscriptionRefused]; n > 0 {
			s.run.say("SubscriptionRefused was met %d times", n)
			return nil
		}
		return notSeen("subscriptions are on")
	}
	v, err := s.variant(ctx, "has subscriptions off", func(c *channel.Config) { c.Disabled = channel.FeatureSubscriptions })
	if err != nil {
		return err
	}
	defer v.close()
	corr := v.newCorr()
	if err := v.send(ctx, disco.TypeSubscribe, must(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr}))); err != nil {
		return err
	}
	return v.expect(ctx, corr, disco.CodeSubscriptionRefused)
}

// maxTried is how many subscriptions are tried for: one more than the default
// limit.
const maxTried = 65

func checkSubscribeBound(ctx context.Context, s *session) error {
	f := record.Filter{Kinds: []record.Kind{record.KindTool}, NamePrefix: "conform.", HasPrefix: true} // nothing yet
	var live []disco.Corr
	for {
		corr := s.newCorr()
		if err := s.send(ctx, disco.TypeSubscribe, must(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr, Filter: f}))); err != nil {
			return err
		}
		rx, err := s.answerTo(ctx, corr)
		if err != nil {
			return err
		}
		if rx.result == nil {
			if len(live) == 0 {
				return notSeen("not even one: code %d (%v)", uint64(rx.code), rx.code)
			}
			if err := rx.expect(disco.CodeSubscriptionRefused); err != nil {
				return err
			}
			break
		}
		if live = append(live, corr); len(live) == maxTried {
			return notSeen("%d were taken; more are not tried", maxTried)
		}
	}
	s.run.say("%d were taken", len(live))
	if !s.run.target.ours() {
		return nil
	}
	undo := s.run.put(conformTool("bound", 1, "x"))
	defer undo()
	for _, corr := range live {
		if _, err := s.awaitUpdate(ctx, corr, "it was within the bound", adds("bound")); err != nil {
			return err
		}
	}
	return nil
}

// An observed is what a peer whose records nobody changes for us showed of its
// own accord.
type observed struct {
	err        error // why nothing could be watched
	updates    int   // that a subscription to everything got
	left, came int   // records that left a filter, or came into one, and went on
	every      error // of two subscriptions alike
	stopped    error // of a subscription that was given up
}

// observe watches the peer once, for --wait.
func (s *session) observe(ctx context.Context) (*observed, error) {
	c := s.run
	if c.changes != nil {
		return c.changes, nil
	}
	o := new(observed)
	err := s.watch(ctx, o)
	var code refusedError
	var u *unseen
	if errors.As(err, &code) || errors.As(err, &u) {
		o.err, err = notSeen("no change could be watched for: %v", err), nil
	}
	if err == nil {
		c.changes = o
	}
	return o, err
}

func (s *session) watch(ctx context.Context, o *observed) error {
	tools := record.Filter{Kinds: []record.Kind{record.KindTool}}
	var corrs [4]disco.Corr // all, all again, tools, given up
	var first *collected
	for i, f := range []record.Filter{{}, {}, tools, {}} {
		corr, l, err := s.subscribe(ctx, "", f)
		if err != nil {
			return err
		}
		if corrs[i] = corr; i == 0 {
			first = l
		}
	}
	if err := s.unsubscribe(ctx, corrs[3]); err != nil {
		return err
	}
	if err := s.fence(ctx); err != nil {
		return err
	}
	s.inbox = nil
	s.run.note("we watch for %v", s.run.wait)
	if err := s.settle(ctx, s.run.wait); err != nil {
		return err
	}
	if err := s.fence(ctx); err != nil { // so that all are told of the same
		return err
	}
	if err := s.settle(ctx, s.run.quiet); err != nil {
		return err
	}
	m := tools.Matcher()
	all, again, some := s.asked[corrs[0]], s.asked[corrs[1]], s.asked[corrs[2]]
	for _, rx := range s.inbox {
		if rx.update == nil {
			continue
		}
		switch rx.corr {
		case corrs[0]:
			o.updates++
		case corrs[2]:
			for _, id := range rx.update.Withdrawn {
				if _, has := all.view[id]; has {
					o.left++
				}
			}
			for _, r := range rx.update.Added {
				if old := first.records[r.ID()]; !old.IsZero() && !m.MatchRecord(old) {
					o.came++
				}
			}
		case corrs[3]:
			o.stopped = differ("an UPDATE came under corr %v after it was given up", corrs[3])
		}
	}
	same := len(all.view) == len(again.view)
	for id, rev := range all.view {
		same = same && again.view[id] == rev
	}
	if !same {
		o.every = differ("two subscriptions to everything were told different things")
	}
	for id := range some.view {
		if _, has := all.view[id]; !has {
			o.every = differ("the subscription to tools has record %v, the one to everything does not", id)
		}
	}
	return nil
}

// fromOutside is how a check fares with a peer whose records it cannot change:
// seen says whether what it is about happened of its own accord.
func (s *session) fromOutside(ctx context.Context, seen func(o *observed) (bool, error)) error {
	o, err := s.observe(ctx)
	if err != nil {
		return err
	}
	if o.err != nil {
		return o.err
	}
	ok, err := seen(o)
	if err == nil && !ok {
		err = notSeen("no such change was seen within %v", s.run.wait)
	}
	return err
}

// told is for a check that passes where a kind of change was told at all.
func (s *session) told(ctx context.Context, n func() int) error {
	return s.fromOutside(ctx, func(*observed) (bool, error) { return n() > 0, nil })
}

func checkUpdateAdded(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.told(ctx, func() int { return s.run.sighted.came })
	}
	corr, _, err := s.subscribe(ctx, "", record.Filter{Kinds: []record.Kind{record.KindTool}})
	if err != nil {
		return err
	}
	r := conformTool("added", 1, "x")
	undo := s.run.put(r)
	defer undo()
	u, err := s.awaitUpdate(ctx, corr, "a record was added", adds(r.ID()))
	if err == nil && !added(u, r.ID()).SameContents(r) {
		err = differ("the UPDATE has other contents than what was added")
	}
	return err
}

// withTool subscribes while a tool is advertised.
func (s *session) withTool(ctx context.Context, r record.Record, f record.Filter) (corr disco.Corr, undo func(), err error) {
	undo = s.run.put(r)
	corr, _, err = s.subscribe(ctx, "", f)
	if err != nil {
		undo()
	}
	return corr, undo, err
}

func checkUpdateReplaced(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.told(ctx, func() int { return s.run.sighted.replaced })
	}
	corr, undo, err := s.withTool(ctx, conformTool("replaced", 1, "before"), record.Filter{})
	if err != nil {
		return err
	}
	defer undo()
	after := conformTool("replaced", 1, "after")
	s.run.put(after)
	u, err := s.awaitUpdate(ctx, corr, "a record was replaced", adds(after.ID()))
	if err == nil && !added(u, after.ID()).SameContents(after) {
		err = differ("the UPDATE has other contents than what it was replaced by")
	}
	return err
}

func checkUpdateWithdrawn(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.told(ctx, func() int { return s.run.sighted.went })
	}
	corr, undo, err := s.withTool(ctx, conformTool("withdrawn", 1, "x"), record.Filter{})
	if err != nil {
		return err
	}
	undo()
	_, err = s.awaitUpdate(ctx, corr, "a record was withdrawn", withdraws("withdrawn"))
	return err
}

// onMCP is the filter that a record moves across.
func onMCP() record.Filter { return record.Filter{ProtocolIDs: []uint64{1}} }

func checkUpdateLeaves(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(o *observed) (bool, error) { return o.left > 0, nil })
	}
	corr, undo, err := s.withTool(ctx, conformTool("leaves", 1, "x"), onMCP())
	if err != nil {
		return err
	}
	defer undo()
	s.run.put(conformTool("leaves", 2, "x"))
	_, err = s.awaitUpdate(ctx, corr, "a record left the filter", withdraws("leaves"))
	return err
}

func checkUpdateEnters(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(o *observed) (bool, error) { return o.came > 0, nil })
	}
	corr, undo, err := s.withTool(ctx, conformTool("enters", 2, "x"), onMCP())
	if err != nil {
		return err
	}
	defer undo()
	s.run.put(conformTool("enters", 1, "x"))
	_, err = s.awaitUpdate(ctx, corr, "a record came into the filter", adds("enters"))
	return err
}

func checkUpdateInFilter(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(o *observed) (bool, error) { return o.updates > 0, nil })
	}
	corr, undo, err := s.withTool(ctx, conformTool("outside", 2, "before"), onMCP())
	if err != nil {
		return err
	}
	defer undo()
	s.run.put(conformTool("outside", 2, "after"))
	undo()
	return s.noUpdate(ctx, corr, "nothing changed in its filter")
}

func checkUpdateEvery(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(o *observed) (bool, error) { return o.updates > 0, o.every })
	}
	tools := record.Filter{Kinds: []record.Kind{record.KindTool}}
	var corrs []disco.Corr
	for _, f := range []record.Filter{tools, tools, {}} {
		corr, _, err := s.subscribe(ctx, "", f)
		if err != nil {
			return err
		}
		corrs = append(corrs, corr)
	}
	r := conformTool("every", 1, "x")
	undo := s.run.put(r)
	defer undo()
	for _, corr := range corrs {
		if _, err := s.awaitUpdate(ctx, corr, "each of three subscriptions is to be told", adds(r.ID())); err != nil {
			return err
		}
	}
	return nil
}

func checkUpdateNoOp(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(*observed) (bool, error) { return s.run.sighted.of(disco.TypeUpdate) > 0, nil })
	}
	r := conformTool("no-op", 1, "x")
	corr, undo, err := s.withTool(ctx, r, record.Filter{})
	if err != nil {
		return err
	}
	defer undo()
	s.run.put(r)
	return s.noUpdate(ctx, corr, "nothing changed")
}

func checkRevisionRises(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.told(ctx, func() int { return s.run.sighted.replaced })
	}
	const id = "rises"
	corr, undo, err := s.withTool(ctx, conformTool(id, 1, "one"), record.Filter{Kinds: []record.Kind{record.KindTool}})
	if err != nil {
		return err
	}
	defer undo()
	last := s.asked[corr].view[id]
	for _, label := range []string{"two", "", "one"} { // "": it is withdrawn
		if label == "" {
			s.run.withdraw(id)
			if _, err := s.awaitUpdate(ctx, corr, "the record was withdrawn", withdraws(id)); err != nil {
				return err
			}
			continue
		}
		s.run.put(conformTool(id, 1, label))
		u, err := s.awaitUpdate(ctx, corr, "the record has label "+label, adds(id))
		if err != nil {
			return err
		}
		rev := added(u, id).Revision()
		if rev <= last {
			return differ("revision %d after %d", rev, last)
		}
		last = rev
	}
	return nil
}

func checkUnsubscribeStops(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return s.fromOutside(ctx, func(o *observed) (bool, error) { return o.updates > 0, o.stopped })
	}
	const corr = "stops"
	if _, _, err := s.subscribe(ctx, corr, record.Filter{}); err != nil {
		return err
	}
	if err := s.unsubscribe(ctx, corr); err != nil {
		return err
	}
	if err := s.fence(ctx); err != nil {
		return err
	}
	undo := s.run.put(conformTool("stops", 1, "x"))
	defer undo()
	return s.noUpdate(ctx, corr, "the subscription was given up")
}

func checkUnsubscribeSilent(ctx context.Context, s *session, vectors []testvectors.Payload) error {
	corr, _, err := s.subscribe(ctx, "", record.Filter{})
	var code refusedError
	if err != nil && !errors.As(err, &code) { // without a subscription there are still the others
		return err
	}
	if err == nil {
		if err := s.unsubscribe(ctx, corr); err != nil {
			return err
		}
	}
	if err := s.unsubscribe(ctx, s.newCorr()); err != nil {
		return err
	}
	bad := [][]byte{
		{0x05}, // no map
		mapOf(disco.TypeQuery, "\x01", 0),
		mapOf(disco.TypeUnsubscribe, "", 0),
	}
	for _, v := range vectors {
		if disco.Type(v.FrameType) == disco.TypeUnsubscribe {
			bad = append(bad, v.Octets)
		}
	}
	for _, b := range bad {
		if err := s.send(ctx, disco.TypeUnsubscribe, b); err != nil {
			return err
		}
	}
	return s.silent(ctx, "UNSUBSCRIBE")
}

func checkUnsubscribeUnknown(ctx context.Context, s *session) error {
	live, _, err := s.subscribe(ctx, "", record.Filter{})
	if err != nil {
		return err
	}
	const corr = "unsubscribed"
	q := disco.Query{Corr: corr, Filter: record.Filter{Kinds: []record.Kind{record.KindTool}}}
	if err := s.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &q))); err != nil {
		return err
	}
	for _, c := range []disco.Corr{corr, corr, s.newCorr()} {
		if err := s.unsubscribe(ctx, c); err != nil {
			return err
		}
	}
	if _, err := s.answerTo(ctx, corr); err != nil {
		return fmt.Errorf("an UNSUBSCRIBE named a query: %w", err)
	}
	if !s.run.target.ours() {
		return nil
	}
	undo := s.run.put(conformTool("unknown", 1, "x"))
	defer undo()
	_, err = s.awaitUpdate(ctx, live, "another subscription should live on", adds("unknown"))
	return err
}

func checkAnnounceSilent(ctx context.Context, s *session, vectors []testvectors.Payload) error {
	for _, v := range vectors {
		if disco.Type(v.FrameType) == disco.TypeAnnounce {
			if err := s.send(ctx, disco.TypeAnnounce, v.Octets); err != nil {
				return err
			}
		}
	}
	for _, b := range [][]byte{
		{0x05}, // no map
		mapOf(disco.TypeQuery, "\x01", 1, 2, 0x80),
		mapOf(disco.TypeAnnounce, s.newCorr(), 1, 2, 0x80),
	} {
		if err := s.send(ctx, disco.TypeAnnounce, b); err != nil {
			return err
		}
	}
	return s.silent(ctx, "ANNOUNCE")
}
