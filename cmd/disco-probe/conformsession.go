package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// What a check comes to, other than a pass.
type (
	differs struct{ why string } // the peer does it otherwise
	unseen  struct{ why string } // it could not be seen
)

func (e *differs) Error() string { return e.why }
func (e *unseen) Error() string  { return e.why }

func differ(format string, args ...any) error { return &differs{fmt.Sprintf(format, args...)} }
func notSeen(format string, args ...any) error {
	return &unseen{fmt.Sprintf(format, args...)}
}

// A refusedError is a DISCO_ERROR where a RESULT was asked for.
type refusedError disco.Code

func (e refusedError) Error() string {
	return fmt.Sprintf("answered by DISCO_ERROR %d (%v)", uint64(e), disco.Code(e))
}

// A lostError says that the association has ended.
type lostError struct{ cause error }

func (e *lostError) Error() string { return fmt.Sprintf("the association ended: %v", e.cause) }

// Times of a session that are no flags.
const (
	uncorrelatedGap = 1100 * time.Millisecond // C4: at most one error without a corr a second
	pushWait        = 2 * time.Second         // for a page that is pushed [C15]
	patience        = time.Second             // for an answer, before the peer is asked whether it lives
	maxListing      = 64                      // pages of one listing
)

// A session is one association with the peer under test, frame by frame.
type session struct {
	run  *conformance
	link *link
	e    *rawEndpoint
	num  int // of the association, from 1

	inbox    []*received
	requests []*received // the peer's own, and what it announces
	asked    map[disco.Corr]*question
	sent     map[disco.Corr]bool // in any frame
	corr     [8]byte             // 4 random octets, then a counter
	waiting  int                 // octets in inbox and requests
	held     bool                // the check that runs answers requests itself
	spoiled  bool                // something was left open: no further check runs on it
}

// A question is what became of a request.
type question struct {
	typ    disco.Type
	filter record.Filter
	during int  // which check asked
	done   bool // answered in full
	left   bool // nothing more is expected

	// Of a subscription.
	live bool                 // not refused, and not given up
	view map[record.ID]uint64 // revision of what it has
	high map[record.ID]uint64 // the greatest revision ever
}

// A received frame.
type received struct {
	typ     disco.Type
	payload []byte
	body    []byte // behind the TLVs
	corr    disco.Corr
	hasCorr bool
	fault   *disco.PayloadError // why it cannot be read
	result  *disco.Result       // one of them, by type
	code    disco.Code
	update  *disco.Update
}

// open makes an association.
func (c *conformance) open(ctx context.Context, change func(*channel.Config)) (*session, error) {
	lk, err := c.target.open(ctx, change)
	if err != nil {
		return nil, err
	}
	c.opened++
	s := &session{run: c, link: lk, e: newRawEndpoint(), num: c.opened,
		asked: map[disco.Corr]*question{}, sent: map[disco.Corr]bool{}}
	copy(s.corr[:], random(4))
	if err := lk.tr.Start(s.e); err != nil {
		return nil, &failure{exit: exitConnect, err: err}
	}
	c.identity, c.generation = lk.identity, lk.tr.Info().Generation
	return s, nil
}

// close ends the association, unless that has been done.
func (s *session) close() error {
	s.spoiled = true
	return s.link.close()
}

// ended reports whether the association has ended.
func (s *session) ended() bool {
	select {
	case <-s.e.finished:
		return true
	default:
		return false
	}
}

// newCorr returns a corr that was not used before.
func (s *session) newCorr() disco.Corr {
	n := binary.BigEndian.Uint32(s.corr[4:]) + 1
	binary.BigEndian.PutUint32(s.corr[4:], n)
	return disco.Corr(s.corr[:])
}

func (s *session) options() *disco.Options {
	return &disco.Options{Generation: s.link.tr.Info().Generation, Tolerant: true}
}

// send sends a frame, no faster than the default limits allow.
func (s *session) send(ctx context.Context, t disco.Type, payload []byte) error {
	if err := s.run.pace(ctx); err != nil {
		return err
	}
	if s.ended() {
		return &lostError{s.e.cause}
	}
	body, err := frame.Peel(payload)
	if corr, ok := disco.ScanCorr(body); ok && err == nil {
		s.sent[corr] = true
		s.register(t, corr, body)
	} else if t.TakesReply() {
		s.run.unreadable = time.Now()
	}
	s.run.record(entry{assoc: s.num, out: true, typ: t, payload: payload})
	s.e.send(rawFrame{frame.Type(t), payload})
	s.link.tr.Wake()
	return nil
}

// register notes what is asked under a corr.
func (s *session) register(t disco.Type, corr disco.Corr, payload []byte) {
	old := s.asked[corr]
	switch {
	case t == disco.TypeUnsubscribe && old != nil && old.typ == disco.TypeSubscribe:
		old.live = false
	case t.TakesReply() && (old == nil || !old.live):
		q := &question{typ: t, during: s.run.running, live: t == disco.TypeSubscribe, view: map[record.ID]uint64{}, high: map[record.ID]uint64{}}
		if q.live {
			sub, _ := disco.ParseSubscribe(payload, s.options()) // where it is malformed there is nothing to follow
			q.filter = sub.Filter
		}
		s.asked[corr] = q
	}
}

// pump takes what came.
func (s *session) pump() {
	for _, f := range s.e.take() {
		rx := &received{typ: disco.Type(f.typ), payload: f.payload}
		s.run.record(entry{assoc: s.num, typ: rx.typ, payload: rx.payload})
		s.judge(rx)
		switch rx.typ {
		case disco.TypeQuery, disco.TypeSubscribe, disco.TypeUnsubscribe, disco.TypeAnnounce:
			s.requests = append(s.requests, rx)
			if !s.held {
				s.answerEmpty(rx)
			}
		default:
			s.inbox = append(s.inbox, rx)
		}
		if s.waiting += len(rx.payload); s.waiting > maxWaiting || len(s.inbox)+len(s.requests) > maxFrames {
			s.link.tr.Abort(0, errFlood)
		}
	}
}

// Bounds of what a check leaves unread, above which the peer floods us.
const (
	maxWaiting = 64 << 20 // octets
	maxFrames  = 10_000
)

var errFlood = errors.New("the peer sends far more than it was asked for")

// answerEmpty is what we say to a request of the peer's own: we advertise
// nothing.
func (s *session) answerEmpty(rx *received) {
	if rx.typ.TakesReply() && rx.hasCorr {
		s.reply(disco.TypeResult, must(disco.AppendResult(nil, &disco.Result{Corr: rx.corr, Complete: true})))
	}
}

// reply sends at once: what the peer asked for is no load of ours.
func (s *session) reply(t disco.Type, payload []byte) {
	s.run.record(entry{assoc: s.num, out: true, typ: t, payload: payload})
	s.e.send(rawFrame{frame.Type(t), payload})
	s.link.tr.Wake()
}

// must is for payloads that are ours and so can be encoded.
func must(b []byte, err error) []byte {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// wait takes what comes until ready says so; false after d.
func (s *session) wait(ctx context.Context, d time.Duration, ready func() bool) (bool, error) {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		s.pump()
		if ready() {
			return true, nil
		}
		select {
		case <-s.e.arrived:
		case <-s.e.finished:
			s.pump()
			if ready() {
				return true, nil
			}
			return false, &lostError{s.e.cause}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-over.C:
			return false, nil
		}
	}
}

// await returns the first frame that matches, taking it out of the inbox; nil
// after d.
func (s *session) await(ctx context.Context, d time.Duration, match func(*received) bool) (rx *received, err error) {
	_, err = s.wait(ctx, d, func() bool {
		i := slices.IndexFunc(s.inbox, match)
		if i < 0 {
			return false
		}
		rx = s.inbox[i]
		s.inbox = slices.Delete(s.inbox, i, i+1)
		s.waiting -= len(rx.payload)
		return true
	})
	return rx, err
}

// awaitRequest returns the peer's next own request of a type that nothing was
// done about yet.
func (s *session) awaitRequest(ctx context.Context, t disco.Type) (rx *received, err error) {
	ok, err := s.wait(ctx, s.run.timeout, func() bool {
		i := slices.IndexFunc(s.requests, func(rx *received) bool { return rx.typ == t })
		if i < 0 {
			return false
		}
		rx = s.requests[i]
		s.requests = slices.Delete(s.requests, i, i+1)
		s.waiting -= len(rx.payload)
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, differ("no %v came from the peer within %v", t, s.run.timeout)
	case rx.fault != nil:
		return nil, notSeen("a request of the peer's own cannot be read: %s", faultText(rx.fault))
	}
	return rx, nil
}

// settle lets d pass.
func (s *session) settle(ctx context.Context, d time.Duration) error {
	_, err := s.wait(ctx, d, func() bool { return false })
	return err
}

// isAnswer matches the answer to a request.
func isAnswer(corr disco.Corr) func(*received) bool {
	return func(rx *received) bool {
		return (rx.typ == disco.TypeResult || rx.typ == disco.TypeError) && rx.hasCorr && rx.corr == corr
	}
}

// answerTo waits for the answer to a request.
func (s *session) answerTo(ctx context.Context, corr disco.Corr) (*received, error) {
	rx, err := s.await(ctx, s.run.timeout, isAnswer(corr))
	switch {
	case err != nil:
		return nil, err
	case rx == nil:
		s.spoiled = true
		return nil, differ("no answer under corr %v within %v", corr, s.run.timeout)
	case rx.fault != nil:
		return nil, notSeen("the answer cannot be read: %s", faultText(rx.fault))
	}
	return rx, nil
}

// query asks and returns the answer, a RESULT or an ERROR. Where no corr is
// given it takes a new one, and where the peer is asked too fast it asks again,
// slower.
func (s *session) query(ctx context.Context, q disco.Query) (*received, error) {
	own := q.Corr == ""
	for {
		if own {
			q.Corr = s.newCorr()
		}
		if err := s.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &q))); err != nil {
			return nil, err
		}
		rx, err := s.answerTo(ctx, q.Corr)
		if err != nil || rx.code != disco.CodeNotAdvertised {
			s.run.recovered = s.run.recovered || err == nil && s.run.throttled > 0
			return rx, err
		}
		if !s.run.slower() {
			return rx, nil
		}
	}
}

// page is query for a RESULT alone.
func (s *session) page(ctx context.Context, q disco.Query) (*disco.Result, error) {
	rx, err := s.query(ctx, q)
	if err != nil {
		return nil, err
	}
	if rx.result == nil {
		return nil, refusedError(rx.code)
	}
	return rx.result, nil
}

// A listing of records by id, as it was put together from pages.
type collected struct {
	records map[record.ID]record.Record
	order   []record.ID // as they came
	pages   []*disco.Result
	octets  int // of records
}

func (l *collected) add(r *disco.Result) {
	if l.records == nil {
		l.records = map[record.ID]record.Record{}
	}
	l.pages = append(l.pages, r)
	for _, rec := range r.Records {
		l.octets += rec.Len()
		if _, ok := l.records[rec.ID()]; !ok {
			l.order = append(l.order, rec.ID())
		}
		l.records[rec.ID()] = rec
	}
}

// bounded says where a listing is too large to go on with.
func (l *collected) bounded() error {
	if len(l.pages) >= maxListing || l.octets > maxWaiting {
		return notSeen("there are more than %s of %s to compare", plural(len(l.pages), "page"), plural(l.octets, "octet"))
	}
	return nil
}

// list reads a whole listing, in whatever way the peer gives its pages [C1].
func (s *session) list(ctx context.Context, q disco.Query) (*collected, error) {
	if q.Corr == "" {
		q.Corr = s.newCorr()
	}
	l := new(collected)
	r, err := s.page(ctx, q)
	for {
		if err != nil {
			return nil, err
		}
		l.add(r)
		if r.Complete {
			return l, nil
		}
		if err := l.bounded(); err != nil {
			return nil, err
		}
		q.Cursor, q.HasCursor = r.Cursor, true
		r, err = s.further(ctx, q)
	}
}

// further gets the next page: one that is pushed, else by a follow-up under the
// finished corr, else by one under a fresh corr [C1].
func (s *session) further(ctx context.Context, q disco.Query) (*disco.Result, error) {
	c := s.run
	if rx, err := s.pushed(ctx, q.Corr); err != nil {
		return nil, err
	} else if rx != nil && rx.result != nil {
		return rx.result, nil
	}
	if c.sameCorr != doesNot {
		rx, err := s.query(ctx, q)
		if err == nil && rx.result != nil {
			c.sameCorr = does
			return rx.result, nil
		}
		if err == nil && rx.code != disco.CodeMalformedPayload {
			return nil, refusedError(rx.code)
		}
		if d := (*differs)(nil); err != nil && !errors.As(err, &d) {
			return nil, err
		}
		if c.sameCorr == does {
			if err == nil {
				err = refusedError(rx.code)
			}
			return nil, err
		}
		c.sameCorr, s.spoiled = doesNot, false
	}
	q.Corr = ""
	return s.page(ctx, q)
}

// pushed waits for a page that is pushed, if the peer is one that does so; nil
// if none comes.
func (s *session) pushed(ctx context.Context, corr disco.Corr) (*received, error) {
	c := s.run
	wait := pushWait
	switch c.pushes {
	case doesNot:
		return nil, nil
	case notKnown:
		wait = c.quiet
	}
	rx, err := s.await(ctx, wait, isAnswer(corr))
	if err == nil && rx != nil {
		c.pushes = does
	} else if err == nil {
		c.pushes = doesNot
	}
	return rx, err
}

// drain takes the pages that are pushed after one that nobody reads on from.
func (s *session) drain(ctx context.Context, corr disco.Corr, r *disco.Result) error {
	for r != nil && !r.Complete {
		rx, err := s.pushed(ctx, corr)
		if err != nil || rx == nil {
			return err
		}
		r = rx.result
	}
	return nil
}

// A tristate is what is known of a peer's ways.
type tristate uint8

const (
	notKnown tristate = iota
	does
	doesNot
)

// snapshot waits for the whole snapshot of a subscription [C15]. A page that is
// not pushed is asked for.
func (s *session) snapshot(ctx context.Context, corr disco.Corr, f record.Filter) (*collected, error) {
	l := new(collected)
	rx, err := s.answerTo(ctx, corr)
	for {
		if err != nil {
			return nil, err
		}
		if rx.result == nil {
			return nil, refusedError(rx.code)
		}
		l.add(rx.result)
		if rx.result.Complete {
			return l, nil
		}
		if err := l.bounded(); err != nil {
			return nil, err
		}
		cursor := rx.result.Cursor
		if rx, err = s.await(ctx, pushWait, isAnswer(corr)); err == nil && rx == nil {
			rx, err = s.query(ctx, disco.Query{Filter: f, Cursor: cursor, HasCursor: true})
		}
		if err == nil && rx.fault != nil {
			err = notSeen("a page cannot be read: %s", faultText(rx.fault))
		}
	}
}

// subscribe subscribes and waits for the snapshot. corr may be "".
func (s *session) subscribe(ctx context.Context, corr disco.Corr, f record.Filter) (disco.Corr, *collected, error) {
	if corr == "" {
		corr = s.newCorr()
	}
	if err := s.send(ctx, disco.TypeSubscribe, must(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr, Filter: f}))); err != nil {
		return corr, nil, err
	}
	l, err := s.snapshot(ctx, corr, f)
	return corr, l, err
}

func (s *session) unsubscribe(ctx context.Context, corr disco.Corr) error {
	return s.send(ctx, disco.TypeUnsubscribe, must(disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: corr})))
}

// tidy gives up every subscription that a check left, and waits until nothing
// more of it comes.
func (s *session) tidy(ctx context.Context) error {
	any := false
	for _, corr := range slices.Sorted(maps.Keys(s.asked)) {
		q := s.asked[corr]
		if q.typ == disco.TypeQuery && !q.done && !q.left { // pages may be on their way
			q.left, any = true, true
		}
		if q.live {
			any = true
			if err := s.unsubscribe(ctx, corr); err != nil {
				return err
			}
		}
	}
	if any {
		if err := s.fence(ctx); err != nil {
			return err
		}
	}
	s.inbox, s.requests, s.waiting, s.held = nil, nil, 0, false
	return nil
}

// fence asks for nothing at all, which any peer answers somehow, and waits for
// that answer: what was sent before has been dealt with by then.
func (s *session) fence(ctx context.Context) error {
	corr := s.newCorr()
	q := disco.Query{Corr: corr, Filter: record.Filter{Kinds: []record.Kind{}}}
	if err := s.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &q))); err != nil {
		return err
	}
	rx, err := s.await(ctx, s.run.timeout, isAnswer(corr))
	if err == nil && rx == nil {
		s.spoiled = true
		err = differ("the peer answers nothing any more")
	}
	return err
}

// silent holds the peer to having sent nothing in answer to what.
func (s *session) silent(ctx context.Context, what string) error {
	if err := s.fence(ctx); err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	if err := s.settle(ctx, s.run.quiet); err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	for _, rx := range s.inbox {
		switch q := s.asked[rx.corr]; {
		case q != nil && rx.typ == disco.TypeUpdate && q.live: // a change of the peer's records
			continue
		case q != nil && q.during != s.run.running: // late, for another check
			continue
		}
		return differ("%s was answered by %v", what, rx.typ)
	}
	return nil
}

// awaitUpdate waits for an UPDATE of a subscription that has what is wanted.
func (s *session) awaitUpdate(ctx context.Context, corr disco.Corr, what string, want func(*disco.Update) bool) (*disco.Update, error) {
	unreadable := false
	rx, err := s.await(ctx, s.run.timeout, func(rx *received) bool {
		if rx.typ != disco.TypeUpdate || rx.corr != corr {
			return false
		}
		unreadable = unreadable || rx.update == nil
		return rx.update != nil && want(rx.update)
	})
	switch {
	case err != nil:
		return nil, err
	case rx == nil && unreadable:
		return nil, notSeen("an UPDATE cannot be read")
	case rx == nil:
		return nil, differ("no UPDATE under corr %v within %v: %s", corr, s.run.timeout, what)
	}
	return rx.update, nil
}

// noUpdate holds the peer to sending no UPDATE to a subscription.
func (s *session) noUpdate(ctx context.Context, corr disco.Corr, why string) error {
	if err := s.fence(ctx); err != nil {
		return err
	}
	rx, err := s.await(ctx, s.run.quiet, func(rx *received) bool { return rx.typ == disco.TypeUpdate && rx.corr == corr })
	if err == nil && rx != nil {
		err = differ("an UPDATE came under corr %v: %s", corr, why)
	}
	return err
}

// adds and withdraws look for a record in an UPDATE.
func adds(id record.ID) func(*disco.Update) bool {
	return func(u *disco.Update) bool { return added(u, id) != nil }
}

func withdraws(id record.ID) func(*disco.Update) bool {
	return func(u *disco.Update) bool { return slices.Contains(u.Withdrawn, id) }
}

func added(u *disco.Update, id record.ID) *record.Record {
	for i := range u.Added {
		if u.Added[i].ID() == id {
			return &u.Added[i]
		}
	}
	return nil
}

// baseline is everything the peer advertises, as it was listed last.
func (s *session) baseline(ctx context.Context, again bool) (map[record.ID]record.Record, error) {
	if s.run.base == nil || again {
		l, err := s.list(ctx, disco.Query{})
		if err != nil {
			return nil, err
		}
		s.run.base = l.records
		if s.run.base == nil {
			s.run.base = map[record.ID]record.Record{}
		}
	}
	return s.run.base, nil
}

// agrees holds a listing to what the filter selects from the baseline, as far
// as records are of interest; nil: all. Records of a living peer may have
// changed between the two, so a difference has to last.
func (s *session) agrees(ctx context.Context, what string, f record.Filter, interest func(record.Record) bool, get func() (*collected, error)) error {
	m := f.Matcher()
	for try := 1; ; try++ {
		base, err := s.baseline(ctx, try > 1)
		if err != nil {
			return err
		}
		l, err := get()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		want := pick(base, func(r record.Record) bool { return m.MatchRecord(r) && (interest == nil || interest(r)) })
		got := pick(l.records, func(r record.Record) bool { return interest == nil || interest(r) })
		if slices.Equal(got, want) {
			return nil
		}
		if try == 3 {
			return differ("%s: got %s, want %s", what, idList(got), idList(want))
		}
	}
}

// pick returns the ids of the records that match, ascending.
func pick(records map[record.ID]record.Record, match func(record.Record) bool) []record.ID {
	var ids []record.ID
	for id, r := range records {
		if match(r) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b record.ID) int { return cmp.Compare(a, b) })
	return ids
}

// filterText is a filter for people.
func filterText(f record.Filter) string {
	var m message
	m.filter(f)
	return string(appendJSON(nil, append(object{}, m.json...)))
}

func faultText(e *disco.PayloadError) string {
	at := e.Path
	if at == "" {
		at = "payload"
	}
	return fmt.Sprintf("%v: %s: %s at octet %d (§%s)", e.Type, at, e.Rule, e.Offset, e.Section)
}
