package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/bridge"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// conformChecks are all checks, in the order of the clauses of §11, for an
// association of the generation.
func conformChecks(vectors []testvectors.Payload, generation int) []check {
	vectors = slices.Clone(vectors)
	vectors = slices.DeleteFunc(vectors, func(v testvectors.Payload) bool {
		return !slices.Contains(v.Generations, generation) || len(v.Octets) > maxVector
	})
	checks := slices.Concat(
		typeChecks(vectors),
		payloadChecks(vectors, generation),
		corrChecks(),
		recordChecks(),
		listChecks(),
		subscribeChecks(vectors),
		scopeChecks(),
	)
	slices.SortStableFunc(checks, func(a, b check) int { return (a.clause+8)%9 - (b.clause+8)%9 }) // 0 last
	return checks
}

// maxVector is the longest golden payload that is sent, in octets: what is
// longer meets limits that each peer sets for itself.
const maxVector = 4096

// rows splits the names of rows.
func rows(list string) []string { return strings.Fields(list) }

// frameCame is for a check of the frames of some types.
func frameCame(types ...disco.Type) func(*sighting) string {
	return func(v *sighting) string {
		var names []string
		for _, t := range types {
			if v.of(t) > 0 {
				return ""
			}
			names = append(names, t.String())
		}
		return "no " + strings.Join(names, " or ") + " came"
	}
}

func anyFrame(v *sighting) string {
	for _, n := range v.frames {
		if n > 0 {
			return ""
		}
	}
	return "no frame came"
}

func anyRecord(v *sighting) string {
	if v.records == 0 {
		return "no record came"
	}
	return ""
}

// typeChecks are those of clause 1, frame types.
func typeChecks(vectors []testvectors.Payload) []check {
	return []check{
		{name: "types-sent", clause: 1, level: levelMust, rows: rows("DISC-3-01 DISC-3-03 DISC-3-05"),
			title: "every frame it sends is of one of the seven types", judged: anyFrame},
		{name: "reserved-types", clause: 1, level: levelMust, rows: rows("DISC-3-02 DISC-3-04"),
			title: "PING on the channel gets PONG and nothing of Discovery", run: checkPing},
		{name: "key-update", clause: 1, level: levelMust, rows: rows("DISC-3-02"),
			title: "KEY_UPDATE on the channel changes the key and nothing else", run: checkKeyUpdate},
		{name: "close", clause: 1, level: levelMust, rows: rows("DISC-3-02"),
			title: "CLOSE ends the association in order", run: checkClose},
		{name: "unknown-types", clause: 1, level: levelChoice, rows: rows("DISC-3-05 CH10-7-04"),
			title: "types that the channel does not define are dropped", run: checkUnknownTypes},
		{name: "replies-unanswered", clause: 1, level: levelMust, rows: rows("DISC-3-06"),
			title: "RESULT, ERROR and UPDATE get no answer, malformed ones neither",
			run: func(ctx context.Context, s *session) error {
				for _, v := range vectors {
					if t := disco.Type(v.FrameType); v.Direction == testvectors.ToRequester && t != disco.TypeAnnounce {
						if err := s.send(ctx, t, v.Octets); err != nil {
							return err
						}
					}
				}
				return s.silent(ctx, "a RESULT, ERROR or UPDATE")
			}},
	}
}

func checkPing(ctx context.Context, s *session) error {
	s.run.note("we send PING")
	limit, cancel := context.WithTimeout(ctx, s.run.timeout)
	defer cancel()
	if err := s.link.ping(limit); err != nil {
		s.spoiled = true
		return differ("no PONG: %v", err)
	}
	s.run.note("PONG came")
	return s.silent(ctx, "PING")
}

func checkKeyUpdate(ctx context.Context, s *session) error {
	for range 2 {
		s.run.note("we send KEY_UPDATE on the channel")
		if err := s.link.keyUpdate(); err != nil {
			return differ("KEY_UPDATE: %v", err)
		}
		if err := s.fence(ctx); err != nil {
			return fmt.Errorf("after KEY_UPDATE: %w", err)
		}
	}
	return nil
}

func checkClose(ctx context.Context, s *session) error {
	other, err := s.run.open(ctx, nil)
	if err != nil {
		return notSeen("no second association: %v", err)
	}
	if err := other.fence(ctx); err != nil {
		other.close()
		return err
	}
	s.run.note("we send CLOSE on association %d", other.num)
	if err := other.close(); err != nil {
		return differ("CLOSE: %v", err)
	}
	switch {
	case other.link.owner != nil:
		select {
		case <-other.link.owner.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.run.timeout):
			return differ("the other end has not closed within %v", s.run.timeout)
		}
		if err := other.link.owner.Wait(); err != io.EOF {
			return differ("the other end saw no orderly end: %v", err)
		}
	case s.run.generation < 3:
		return notSeen("generation 2 does not acknowledge CLOSE")
	}
	return nil
}

func checkUnknownTypes(ctx context.Context, s *session) error {
	for _, t := range []disco.Type{0x0030, 0x00FF, 0x0107, 0xFFFF} {
		// What would be a good QUERY, were the type one.
		b := dcbor.AppendUint(append(dcbor.AppendMap(nil, 2), 0), uint64(t))
		b = dcbor.AppendBytes(append(b, 1), s.newCorr())
		if err := s.send(ctx, t, b); err != nil {
			return err
		}
	}
	return s.silent(ctx, "a frame of an unknown type")
}

// scopeChecks are those of clause 8 and of the sections that §11 does not
// number.
func scopeChecks() []check {
	return []check{
		{name: "answers-afresh", clause: 8, level: levelMust, rows: rows("DISC-8-06 DISC-10-11"),
			title: "after a new handshake it advertises again", run: checkAfresh},
		{name: "nothing-survives", clause: 8, level: levelMust, rows: rows("DISC-8-05 DISC-8-07 DISC-4.3-06"),
			title: "a subscription ends with its association", run: checkNothingSurvives},
		{name: "bridge-traffic", clause: 0, level: levelChoice, rows: rows("DISC-2-07"),
			title: "a bridge envelope on the channel is dropped", run: checkBridge},
		{name: "discovery-off", clause: 2, level: levelMust, rows: rows("DISC-9-03"),
			title: "where discovery is off, QUERY and SUBSCRIBE get NotAdvertised", run: checkDiscoveryOff},
		{name: "query-rate", clause: 0, level: levelMust, rows: rows("DISC-10-07"),
			title: "the rate of queries is bounded, and the bound passes", run: checkQueryRate},
		{name: "page-size", clause: 0, level: levelShould, rows: rows("DISC-10-08 DISC-10-09"),
			title: "a large result comes in pages of at most 1 MiB", judged: func(v *sighting) string {
				if v.partial == 0 {
					return "no result needed a second page"
				}
				return ""
			}},
		{name: "tables-separate", clause: 0, level: levelMust, rows: rows("DISC-2-04"),
			title: "our replies under the corr of our own request do not touch it", run: checkTables},
		{name: "both-directions", clause: 0, level: levelMust, rows: rows("DISC-2-04 DISC-4.2-06"),
			title: "both ends ask at once under one corr, and each gets its own answer", run: checkBothDirections},
		{name: "peer-corrs", clause: 3, level: levelMust, rows: rows("DISC-4.2-04 DISC-4.3-02"),
			title: "its own outstanding requests have corrs of their own", run: checkPeerCorrs},
		{name: "peer-matches", clause: 3, level: levelMust, rows: rows("DISC-4.2-06 DISC-2-05"),
			title: "it matches our answers by corr, in whatever order they come", run: checkPeerMatches},
		{name: "peer-follow-up", clause: 5, level: levelMust, rows: rows("DISC-6.2-05"),
			title: "its follow-up query echoes the cursor with the filter unchanged", run: checkPeerFollowUp},
		{name: "peer-unsubscribes", clause: 3, level: levelMust, rows: rows("DISC-4.3-04"),
			title: "its UNSUBSCRIBE has the corr of the subscription", run: checkPeerUnsubscribes},
		{name: "peer-announces", clause: 3, level: levelMust, rows: rows("DISC-4.2-07 DISC-7.1-04"),
			title: "its ANNOUNCE has records and no corr", run: checkPeerAnnounces},
	}
}

func checkAfresh(ctx context.Context, s *session) error {
	other, err := s.run.open(ctx, nil)
	if err != nil {
		return notSeen("no second association: %v", err)
	}
	defer other.close()
	return s.agrees(ctx, "the listing on a new association", record.Filter{}, nil, func() (*collected, error) {
		return other.list(ctx, disco.Query{Corr: "afresh"})
	})
}

func checkNothingSurvives(ctx context.Context, s *session) error {
	const corr = "survivor"
	old, err := s.run.open(ctx, nil)
	if err != nil {
		return notSeen("no second association: %v", err)
	}
	_, _, err = old.subscribe(ctx, corr, record.Filter{})
	s.run.note("we close association %d", old.num)
	old.close()
	if err != nil {
		return err
	}
	next, err := s.run.open(ctx, nil)
	if err != nil {
		return notSeen("no third association: %v", err)
	}
	defer next.close()
	if s.run.target.ours() {
		if err := next.fence(ctx); err != nil {
			return err
		}
		undo := s.run.put(conformTool("survivor", 1, "x"))
		defer undo()
		if err := next.noUpdate(ctx, corr, "the subscription was made on another association"); err != nil {
			return err
		}
	}
	if err := next.unsubscribe(ctx, corr); err != nil {
		return err
	}
	if err := next.silent(ctx, "an UNSUBSCRIBE of another association's subscription"); err != nil {
		return err
	}
	_, err = next.page(ctx, disco.Query{Corr: corr, Filter: record.Filter{Kinds: []record.Kind{}}})
	return err
}

func checkBridge(ctx context.Context, s *session) error {
	m := bridge.Message{Type: bridge.TypeRequest, Protocol: bridge.ProtocolMCP, ContentType: bridge.ContentJSON, Corr: "conform", Method: "tools/list",
		Foreign: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)}
	b := must(bridge.DefaultWidth(s.run.generation).Append(nil, &m))
	// Bridge types 0x0100 to 0x0105 are numbers of Discovery's too.
	for _, t := range []disco.Type{disco.TypeQuery, disco.TypeSubscribe} {
		if err := s.send(ctx, t, b); err != nil {
			return err
		}
	}
	return s.silent(ctx, "a bridge envelope")
}

// variant opens an association with our own responder configured otherwise.
func (s *session) variant(ctx context.Context, what string, change func(*channel.Config)) (*session, error) {
	v, err := s.run.open(ctx, change)
	if err != nil {
		return nil, err
	}
	s.run.note("association %d: the responder %s", v.num, what)
	return v, nil
}

func checkDiscoveryOff(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		if s.run.throttled > 0 && !s.run.recovered {
			s.run.say("it answers NotAdvertised to us")
			return nil
		}
		return notSeen("discovery is on for us")
	}
	v, err := s.variant(ctx, "has discovery off", func(c *channel.Config) { c.Disabled = channel.FeatureDiscovery })
	if err != nil {
		return err
	}
	defer v.close()
	for _, t := range []disco.Type{disco.TypeQuery, disco.TypeSubscribe} {
		corr := v.newCorr()
		b := must(disco.AppendQuery(nil, &disco.Query{Corr: corr}))
		if t == disco.TypeSubscribe {
			b = must(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr}))
		}
		if err := v.send(ctx, t, b); err != nil {
			return err
		}
		if err := v.expect(ctx, corr, disco.CodeNotAdvertised); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	return nil
}

// expect waits for the answer and holds it to a code.
func (s *session) expect(ctx context.Context, corr disco.Corr, want disco.Code) error {
	rx, err := s.answerTo(ctx, corr)
	if err != nil {
		return err
	}
	return rx.expect(want)
}

func (rx *received) expect(want disco.Code) error {
	switch {
	case rx.typ == disco.TypeResult:
		return differ("answered by a RESULT, want code %d (%v)", uint64(want), want)
	case rx.code == disco.CodeNotAdvertised && want != disco.CodeNotAdvertised:
		return refusedError(rx.code) // it may refuse anybody anything
	case rx.code != want:
		return differ("answered with code %d (%v), want %d (%v)", uint64(rx.code), rx.code, uint64(want), want)
	}
	return nil
}

func checkQueryRate(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		switch {
		case s.run.recovered:
			s.run.say("code 7 was met %d times, and passed", s.run.throttled)
			return nil
		case s.run.throttled > 0:
			return notSeen("code 7 was met, and did not pass while we looked")
		}
		return notSeen("no bound is met at the pace that is kept here, a frame every %v", s.run.interval)
	}
	const burst, rate = 5, 2
	v, err := s.variant(ctx, fmt.Sprintf("takes %d queries at once and %d a second", burst, rate), func(c *channel.Config) {
		c.Limits.QueryRate, c.Limits.QueryBurst = rate, burst
	})
	if err != nil {
		return err
	}
	defer v.close()
	ask := func() (*received, error) {
		corr := v.newCorr()
		if err := v.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &disco.Query{Corr: corr, Filter: record.Filter{Kinds: []record.Kind{}}}))); err != nil {
			return nil, err
		}
		return v.answerTo(ctx, corr)
	}
	var refused *received
	for range 4 * burst {
		rx, err := ask()
		if err != nil {
			return err
		}
		if rx.result == nil {
			refused = rx
		}
	}
	if refused == nil {
		return differ("%d queries at once were all answered", 4*burst)
	}
	if err := refused.expect(disco.CodeNotAdvertised); err != nil {
		return err
	}
	if err := v.settle(ctx, time.Second); err != nil {
		return err
	}
	rx, err := ask()
	if err == nil && rx.result == nil {
		err = differ("a second later the bound still holds: code %d", uint64(rx.code))
	}
	return err
}

func checkTables(ctx context.Context, s *session) error {
	const corr = "separate"
	if _, _, err := s.subscribe(ctx, corr, record.Filter{Kinds: []record.Kind{record.KindTool}}); err != nil {
		return err
	}
	for _, f := range []struct {
		t disco.Type
		b []byte
	}{
		{disco.TypeResult, must(disco.AppendResult(nil, &disco.Result{Corr: corr, Complete: true}))},
		{disco.TypeUpdate, must(disco.AppendUpdate(nil, &disco.Update{Corr: corr, Withdrawn: []record.ID{"x"}}))},
		{disco.TypeError, must(disco.AppendError(nil, &disco.ErrorMsg{Corr: corr, Code: disco.CodeStaleCursor, HasCorr: true}))},
	} {
		if err := s.send(ctx, f.t, f.b); err != nil {
			return err
		}
	}
	if err := s.silent(ctx, "a reply under the corr of our own subscription"); err != nil {
		return err
	}
	if !s.run.target.ours() {
		s.run.say("whether the subscription lives on was not looked at: that takes a change of its records")
		return nil
	}
	undo := s.run.put(conformTool("separate", 1, "x"))
	defer undo()
	_, err := s.awaitUpdate(ctx, corr, "the subscription should live on", adds("separate"))
	return err
}

// fromOwner is for what the peer's owner alone can have it do.
func (s *session) fromOwner() (*channel.Peer, error) {
	if s.link.owner == nil {
		return nil, notSeen("the peer makes no request of its own when it is asked from outside")
	}
	return s.link.owner, nil
}

// hold keeps the peer's own requests for the check to answer.
func (s *session) hold() { s.held = true }

// ownQuery has the peer list what we have.
func (s *session) ownQuery(ctx context.Context, owner *channel.Peer, f record.Filter) <-chan ownResult {
	s.run.note("the peer is made to query us, filter %s", filterText(f))
	done := make(chan ownResult, 1)
	go func() {
		l, err := owner.Query(ctx, channel.Query{Filter: f})
		done <- ownResult{l, err}
		signal1(s.e.arrived) // somebody may be waiting for that
	}()
	return done
}

type ownResult struct {
	listing *channel.Listing
	err     error
}

// got waits for a query of the peer's own and returns what it learned.
func (s *session) got(ctx context.Context, done <-chan ownResult) (ids []record.ID, err error) {
	var r ownResult
	ready, err := s.wait(ctx, s.run.timeout, func() bool {
		select {
		case r = <-done:
			return true
		default:
			return false
		}
	})
	switch {
	case err != nil:
		return nil, err
	case !ready:
		return nil, differ("the peer's query does not end")
	case r.err != nil:
		return nil, differ("the peer's query failed: %v", r.err)
	}
	for _, rec := range r.listing.Records {
		ids = append(ids, rec.ID())
	}
	return ids, nil
}

// ourResult is a RESULT of ours: the records, and a cursor unless it is "".
func ourResult(corr disco.Corr, cursor disco.Cursor, records ...record.Record) []byte {
	return must(disco.AppendResult(nil, &disco.Result{Corr: corr, Records: records, Complete: cursor == "", Cursor: cursor, HasCursor: cursor != ""}))
}

func checkBothDirections(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		return err
	}
	s.hold()
	done := s.ownQuery(ctx, owner, record.Filter{})
	rx, err := s.awaitRequest(ctx, disco.TypeQuery)
	if err != nil {
		return err
	}
	// Under the very corr of its query, which is still open.
	ours, err := s.page(ctx, disco.Query{Corr: rx.corr, Filter: record.Filter{Kinds: []record.Kind{record.KindCarriageClass}}})
	if err != nil {
		return err
	}
	s.reply(disco.TypeResult, ourResult(rx.corr, "", conformTool("theirs", 1, "x")))
	ids, err := s.got(ctx, done)
	if err != nil {
		return err
	}
	if !slices.Equal(ids, []record.ID{"theirs"}) || slices.ContainsFunc(ours.Records, func(r record.Record) bool { return r.Kind() != record.KindCarriageClass }) {
		return differ("the answers got mixed up: the peer has %s", idList(ids))
	}
	return nil
}

func checkPeerCorrs(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		return err
	}
	s.hold()
	const n = 6
	seen := map[disco.Corr]bool{}
	for i := range n {
		if i%2 == 0 {
			s.ownQuery(ctx, owner, record.Filter{})
		} else {
			s.run.note("the peer is made to subscribe to us")
			sub, err := owner.Subscribe(record.Filter{}, nil)
			if err != nil {
				return differ("the peer does not subscribe: %v", err)
			}
			defer sub.Unsubscribe()
		}
		t := []disco.Type{disco.TypeQuery, disco.TypeSubscribe}[i%2]
		rx, err := s.awaitRequest(ctx, t)
		if err != nil {
			return err
		}
		if seen[rx.corr] {
			return differ("corr %v is used for two requests at once", rx.corr)
		}
		seen[rx.corr] = true
		defer s.answerEmpty(rx)
	}
	return nil
}

func checkPeerMatches(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		return err
	}
	s.hold()
	kinds := []record.Kind{record.KindTool, record.KindTool, record.KindTool}
	names := []record.ID{"first", "second", "third"}
	var done []<-chan ownResult
	var asked []*received
	for range kinds {
		done = append(done, s.ownQuery(ctx, owner, record.Filter{}))
		rx, err := s.awaitRequest(ctx, disco.TypeQuery)
		if err != nil {
			return err
		}
		asked = append(asked, rx)
	}
	for _, i := range []int{2, 0, 1} {
		s.reply(disco.TypeResult, ourResult(asked[i].corr, "", conformTool(string(names[i]), 1, "x")))
	}
	for i := range done {
		ids, err := s.got(ctx, done[i])
		if err != nil {
			return err
		}
		if !slices.Equal(ids, names[i:i+1]) {
			return differ("query %d got %s, want [%v]", i+1, idList(ids), names[i])
		}
	}
	return nil
}

func checkPeerFollowUp(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		return err
	}
	s.hold()
	f := record.Filter{Kinds: []record.Kind{record.KindTool, record.KindAgent}, ProtocolIDs: []uint64{1, 2}, NamePrefix: "conform.", HasPrefix: true}
	done := s.ownQuery(ctx, owner, f)
	first, err := s.awaitRequest(ctx, disco.TypeQuery)
	if err != nil {
		return err
	}
	cursor := disco.Cursor(random(16))
	s.reply(disco.TypeResult, ourResult(first.corr, cursor, conformTool("one", 1, "x")))
	next, err := s.awaitRequest(ctx, disco.TypeQuery)
	if err != nil {
		return err
	}
	s.reply(disco.TypeResult, ourResult(next.corr, "", conformTool("two", 1, "x")))
	if _, err := s.got(ctx, done); err != nil {
		return err
	}
	a, errA := disco.ParseQuery(first.body, s.options())
	b, errB := disco.ParseQuery(next.body, s.options())
	switch {
	case errA != nil || errB != nil:
		return notSeen("a query of the peer's own cannot be read")
	case !b.HasCursor || b.Cursor != cursor:
		return differ("the follow-up has cursor %v, want %v", b.Cursor, cursor)
	case !a.Filter.Equal(b.Filter) || a.Tolerant != b.Tolerant:
		return differ("the follow-up has filter %s, want %s", filterText(b.Filter), filterText(a.Filter))
	}
	return nil
}

func checkPeerUnsubscribes(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		return err
	}
	s.run.note("the peer is made to subscribe to us")
	sub, err := owner.Subscribe(record.Filter{}, nil)
	if err != nil {
		return differ("the peer does not subscribe: %v", err)
	}
	rx, err := s.awaitRequest(ctx, disco.TypeSubscribe)
	if err != nil {
		return err
	}
	s.run.note("the peer is made to unsubscribe")
	sub.Unsubscribe()
	end, err := s.awaitRequest(ctx, disco.TypeUnsubscribe)
	if err == nil && end.corr != rx.corr {
		err = differ("UNSUBSCRIBE has corr %v, the subscription %v", end.corr, rx.corr)
	}
	return err
}

func checkPeerAnnounces(ctx context.Context, s *session) error {
	owner, err := s.fromOwner()
	if err != nil {
		if s.run.sighted.of(disco.TypeAnnounce) > 0 {
			return nil // what came was looked at
		}
		return notSeen("no ANNOUNCE came")
	}
	s.run.note("the peer is made to announce a record")
	if _, err := owner.Announce(ctx, []record.Record{conformTool("announced", 1, "x")}); err != nil {
		return differ("ANNOUNCE: %v", err)
	}
	_, err = s.awaitRequest(ctx, disco.TypeAnnounce)
	return err
}

// put has our own responder advertise a record; undo withdraws it.
func (c *conformance) put(r record.Record) (undo func()) {
	c.change("a record "+r.ID().String()+" is put", func(tx *record.Tx) error { return tx.Put(r) })
	return func() {
		if _, ok := c.target.set.Snapshot().Get(r.ID()); ok {
			c.withdraw(r.ID())
		}
	}
}

func (c *conformance) withdraw(id record.ID) {
	c.change("the record "+id.String()+" is withdrawn", func(tx *record.Tx) error { return tx.Withdraw(id) })
}

// change changes what our own responder advertises.
func (c *conformance) change(what string, fn func(*record.Tx) error) {
	c.note("%s at the responder", what)
	if err := c.target.set.Update(fn); err != nil {
		panic("BUG: conform: " + err.Error())
	}
}

// uncorrelated waits until an error without a corr may be hoped for again [C4].
func (c *conformance) uncorrelated(ctx context.Context) error {
	return pause(ctx, c.target.gap-time.Since(c.unreadable))
}

// mapOf is a payload of frame_kind, corr and what follows, n pairs.
func mapOf(t disco.Type, corr disco.Corr, n int, pairs ...byte) []byte {
	b := dcbor.AppendUint(append(dcbor.AppendMap(nil, 2+n), 0), uint64(t))
	b = dcbor.AppendBytes(append(b, 1), corr)
	return append(b, pairs...)
}

// cborUint is an unsigned integer of four octets.
func cborUint(n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0x1a}, n) }
