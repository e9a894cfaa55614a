package channel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// ErrUnsubscribed ends a subscription that its owner gave up.
var ErrUnsubscribed = errors.New("channel: unsubscribed")

// A Subscription follows what the peer offers under one filter (§7.2): a
// snapshot, then every change. Its view is what the peer advertises as far as
// we were told.
type Subscription struct {
	// What an UPDATE needs comes first: of thousands of subscriptions each is in no
	// cache.
	p       *Peer
	matcher record.Matcher
	handler func(Event)

	// Guarded by p.mu.
	view      *record.View // what the methods show
	next      *record.View // the snapshot under way, when it is not the first
	phase     phase
	queued    bool // with the callers, or running
	partial   bool // a record of unknown kind was skipped [C9]
	wasSynced bool
	held      int // octets that the views hold, as Peer.held has them
	waiting   int // octets that the events hold, as Peer.held has them
	mergedTo  int // events left by the last merge
	events    fifo[Event]

	filter   record.Filter // normalised; not guarded
	number   uint64        // of the corr
	asked    *request      // SUBSCRIBE under it
	cursor   disco.Cursor  // of the last page, while more are to come
	pull     uint64        // number of the QUERY that asks for a page that was not pushed
	since    time.Time     // when the last page came, or SUBSCRIBE was sent
	pages    int
	pulledAt int           // pages when pull was sent
	delays   int           // refusals of pulls in a row
	barren   int           // pages in a row that added nothing
	octets   int           // of the snapshot's records
	timer    *time.Timer   // for the acknowledgement, the next page, the next try
	lastSync time.Time     // when it last had to begin anew
	synced   chan struct{} // closed at the first Synced, or the end; made when somebody waits
	err      error         // why it ended
}

// phase is where a subscription stands on the wire.
type phase uint8

const (
	phaseAsked    phase = iota // SUBSCRIBE is sent, nothing came yet
	phaseSnapshot              // pages came, the last did not
	phaseLive
	phaseStale // to be asked for afresh
	phaseEnded
)

// Subscribe follows the records that match f. The handler, unless nil, is
// called for each event, one call at a time and in order; it may call the
// peer's and the subscription's methods, and should return soon: while it does
// not, events beyond Limits.MaxQueuedEvents are merged to one per record. The
// last event is EventEnded. Subscribe does not wait for the peer's answer: see
// WaitSynced.
func (p *Peer) Subscribe(f record.Filter, handler func(Event)) (*Subscription, error) {
	f = f.Normalize()
	s := &Subscription{p: p, filter: f, matcher: f.Matcher(), handler: handler}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numOwn+len(p.stale) >= p.lim.MaxOwnSubscriptions {
		return nil, fmt.Errorf("%w: MaxOwnSubscriptions", ErrLimit)
	}
	if err := p.mayAsk(); err != nil {
		return nil, err
	}
	s.view = p.cache.NewView(s.matcher)
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.account()
	return s, nil
}

// begin sends SUBSCRIBE under a new corr. p.mu is held, as in all of the
// subscription's methods but the exported ones.
func (s *Subscription) begin() error {
	p := s.p
	number := p.own.begin(s)
	b, err := disco.AppendSubscribe(nil, &disco.Subscribe{Corr: p.own.corr(number), Filter: s.filter})
	if err != nil {
		p.own.end(number)
		return err
	}
	delete(p.stale, s)
	s.number, s.phase, s.since = number, phaseAsked, time.Now()
	s.pages, s.barren, s.octets, s.delays = 0, 0, 0, 0
	p.numOwn++
	s.asked = &request{t: disco.TypeSubscribe, number: number, payload: b}
	p.ask(s.asked)
	s.await()
	return nil
}

// await sets the timer for an answer that was asked for just now.
func (s *Subscription) await() {
	lim := &s.p.lim
	if lim.RequestTimeout >= 0 && lim.RequestTimeout < lim.PageStall {
		s.after(lim.RequestTimeout)
	} else {
		s.after(lim.PageStall)
	}
}

// after sets the timer; a negative d switches it off.
func (s *Subscription) after(d time.Duration) {
	if d < 0 {
		s.stopTimer()
	} else {
		setTimer(&s.timer, d, s.tick)
	}
}

func (s *Subscription) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil // a live subscription needs none
	}
}

// tick is the timer: something that was due has not come.
func (s *Subscription) tick() {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := time.Since(s.since)
	switch {
	case s.timer == nil || p.life.closing:
	case s.phase == phaseStale:
		s.timer = nil
		if err := s.begin(); err != nil {
			s.end(err)
		}
	case s.phase == phaseSnapshot && s.pull == 0:
		if waited < p.lim.PageStall { // a page came since the timer was set
			s.after(p.lim.PageStall - waited)
			return
		}
		s.pullPage()
	case s.phase != phaseAsked && s.phase != phaseSnapshot:
	case p.lim.RequestTimeout >= 0 && waited >= p.lim.RequestTimeout:
		s.giveUp(ErrTimeout)
	default: // it is late
		p.late()
		s.after(p.lim.RequestTimeout - waited)
	}
}

// pullPage asks for the page that should have been pushed, under a corr of its
// own [C15].
func (s *Subscription) pullPage() {
	p := s.p
	number := p.own.begin((*pulled)(s))
	b, err := disco.AppendQuery(nil, &disco.Query{
		Corr: p.own.corr(number), Filter: s.filter, Cursor: s.cursor, HasCursor: true,
	})
	if err != nil {
		p.own.end(number)
		s.giveUp(err)
		return
	}
	p.stats.Pulls++
	s.pull, s.pulledAt, s.since = number, s.pages, time.Now()
	p.ask(&request{t: disco.TypeQuery, number: number, payload: b})
	s.await()
}

// pulled is the exchange of a page that a subscription asked for.
type pulled Subscription

func (x *pulled) result(r disco.Result) {
	s := (*Subscription)(x)
	s.dropPull()
	cursor, pushed := s.cursor, s.pages > s.pulledAt
	s.page(&r)
	switch {
	case s.phase != phaseSnapshot:
	case pushed: // what came meanwhile goes further than this
		s.cursor = cursor
	default: // it does not push: ask on
		s.pullPage()
	}
}

func (x *pulled) refused(err error) {
	s := (*Subscription)(x)
	s.dropPull()
	if disco.CodeOf(err) == disco.CodeNotAdvertised && s.delays < maxDelays { // over the peer's rate: later [C20]
		s.delays++
		s.since = time.Now()
		s.after(s.p.lim.PageStall)
		return
	}
	s.resync(err)
}

func (x *pulled) ended(error) { x.pull = 0 }

// dropPull ends the exchange for a pulled page, if there is one.
func (s *Subscription) dropPull() {
	if s.pull != 0 {
		s.p.retire(s.pull, 1, 1)
		s.pull = 0
	}
}

// result takes a page of the snapshot.
func (s *Subscription) result(r disco.Result) {
	if s.phase != phaseAsked && s.phase != phaseSnapshot {
		s.p.stats.Late++
		return
	}
	s.page(&r)
}

func (s *Subscription) page(r *disco.Result) {
	p, lim := s.p, &s.p.lim
	s.phase, s.since, s.cursor = phaseSnapshot, time.Now(), r.Cursor
	s.partial = s.partial || len(r.Skipped) > 0 // C9: skipped, the rest kept
	v := s.growing()
	before := v.Len()
	for _, rec := range r.Records {
		s.octets += rec.Len() + recordOverhead
		if !s.matcher.MatchRecord(rec) {
			p.stats.Overbroad++ // C40
			continue
		}
		was, o := v.Page(rec)
		if o == record.Added || o == record.Replaced {
			rec, _ = v.Get(rec.ID()) // the view's copy: the other one keeps the whole page
		}
		s.tell(rec, was, o, EventSnapshot)
	}
	s.account()
	s.pages, s.delays = s.pages+1, 0
	if s.barren++; v.Len() > before {
		s.barren = 0
	}
	var broke string
	switch {
	case v.Len() > lim.MaxListRecords:
		broke = "MaxListRecords"
	case s.octets > lim.MaxListLen:
		broke = "MaxListLen"
	case s.crowds(0):
		broke = "MaxPeerMemory"
	case r.Complete:
		s.live()
		return
	case s.barren >= lim.MaxBarren:
		broke = "MaxBarren"
	case s.pages >= lim.MaxPages:
		broke = "MaxPages"
	default:
		if s.timer == nil || s.pages == 1 { // else it looks at s.since when it fires
			s.after(lim.PageStall)
		}
		return
	}
	s.giveUp(&IncompleteError{s.pages, v.Len(), fmt.Errorf("%w: %s", ErrLimit, broke)})
}

// growing is the view that the wire speaks of: the one shown, or the one that
// will replace it.
func (s *Subscription) growing() *record.View {
	if s.next != nil {
		return s.next
	}
	return s.view
}

// live takes the end of the snapshot.
func (s *Subscription) live() {
	s.phase = phaseLive
	s.stopTimer()
	s.dropPull()
	s.cursor = ""
	if s.next != nil {
		s.view.Close()
		s.view, s.next = s.next, nil
	}
	s.view.Whole()
	s.account()
	s.emit(Event{Kind: EventSynced})
	if s.synced != nil && !s.wasSynced {
		close(s.synced)
	}
	s.wasSynced = true
}

// tell emits what became of a record, or counts why nothing did.
func (s *Subscription) tell(now, was record.Record, o record.Outcome, fresh EventKind) {
	switch st := &s.p.stats; o {
	case record.Added:
		s.emit(Event{Kind: fresh, ID: now.ID(), Record: now})
	case record.Replaced:
		s.emit(Event{Kind: EventReplaced, ID: now.ID(), Record: now, Was: was.Revision()})
	case record.Conflict:
		st.RevisionConflict++
	default:
		st.StaleRevision++
	}
}

// update takes an UPDATE: what was added first, then what was withdrawn, so that
// an id in both ends withdrawn [C19].
func (s *Subscription) update(u *disco.UpdateView, octets int) {
	switch {
	case s.phase == phaseAsked:
		s.p.stats.EarlyUpdate++ // C15
		return
	case s.crowds(octets):
		s.giveUp(fmt.Errorf("%w: MaxPeerMemory", ErrLimit))
		return
	}
	if n := u.Added.NumSkipped(); n > 0 { // C9
		s.partial = true
		s.p.stats.Skipped += uint64(n)
	}
	v := s.growing()
	for ref := range u.Added.All() {
		if !s.matcher.MatchRef(ref) {
			s.p.stats.Overbroad++ // C40
			continue
		}
		now, was, o := v.Add(ref)
		s.tell(now, was, o, EventAdded)
	}
	for id := range u.Withdrawn.All() {
		if was, ok := v.Withdraw(id); ok {
			s.emit(Event{Kind: EventWithdrawn, ID: record.ID(strings.Clone(string(was.ID()))), Was: was.Revision()})
		}
	}
	s.account()
	if v.Lossy() { // a page to come may bring back what is gone
		s.resync(fmt.Errorf("%w: MaxTombstones", ErrLimit))
	}
}

// refused takes a DISCO_ERROR under the subscription's corr, or a RESULT that
// cannot be read. Either ends it; where the peer may still hold it, it is told
// [C37].
func (s *Subscription) refused(err error) {
	var pe *disco.PeerError
	if s.phase == phaseAsked && errors.As(err, &pe) {
		s.end(err)
		return
	}
	s.giveUp(err)
}

// resync begins anew, at most once in ResyncInterval, because a change was
// lost: there are no sequence numbers to mend it with [C36].
func (s *Subscription) resync(err error) {
	if s.phase == phaseEnded || s.phase == phaseStale {
		return
	}
	p := s.p
	p.stats.Resyncs++
	s.unsubscribe()
	s.phase = phaseStale
	p.stale[s] = struct{}{}
	if s.next != nil {
		s.next.Close()
	}
	s.next = p.cache.NewView(s.matcher)
	s.account()
	s.emit(Event{Kind: EventReset, Err: err})
	now := time.Now()
	wait := max(0, p.lim.ResyncInterval-now.Sub(s.lastSync))
	if s.lastSync.IsZero() {
		wait = 0
	}
	s.lastSync = now.Add(wait)
	s.after(wait)
}

// account brings Peer.held up to date after the views have changed.
func (s *Subscription) account() {
	held := 0
	if s.phase != phaseEnded {
		held = s.view.Memory()
	}
	if s.next != nil {
		held += s.next.Memory()
	}
	s.p.held += held - s.held
	s.held = held
}

// unsubscribe sends UNSUBSCRIBE, if SUBSCRIBE was sent, and gives up the corr.
func (s *Subscription) unsubscribe() {
	if s.asked.sent {
		if b, err := disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: s.p.own.corr(s.number)}); err == nil {
			s.p.ask(&request{t: disco.TypeUnsubscribe, number: s.number, payload: b})
		}
	}
	s.release()
}

// release gives up the corr and what waits under it.
func (s *Subscription) release() {
	s.stopTimer()
	s.dropPull()
	s.cursor = ""
	s.p.retire(s.number, 0, 0)
	s.p.numOwn--
}

// giveUp ends the subscription from this side.
func (s *Subscription) giveUp(err error) {
	if s.phase == phaseEnded {
		return
	}
	if s.phase != phaseStale {
		s.unsubscribe()
		s.phase = phaseStale
	}
	s.end(err)
}

// end ends the subscription: its view is empty from now on, and what was not
// told yet is not told any more.
func (s *Subscription) end(err error) {
	if s.phase == phaseEnded {
		return
	}
	if s.phase != phaseStale {
		s.release()
	}
	s.finish(err)
}

// ended takes the end of the association.
func (s *Subscription) ended(cause error) {
	if s.phase != phaseStale {
		s.p.numOwn--
	}
	s.finish(cause)
}

func (s *Subscription) finish(err error) {
	s.stopTimer()
	delete(s.p.stale, s)
	s.phase, s.err = phaseEnded, err
	s.view.Close()
	if s.next != nil {
		s.next.Close()
		s.next = nil
	}
	s.account()
	s.wait(-s.waiting)
	s.events = fifo[Event]{}
	s.emit(Event{Kind: EventEnded, Err: err})
	if s.synced != nil && !s.wasSynced {
		close(s.synced)
	}
}

// emit queues an event for the handler.
func (s *Subscription) emit(e Event) {
	if s.handler == nil {
		return
	}
	s.events.push(e)
	s.wait(eventMemory(&e))
	if n := s.events.len(); n > s.p.lim.MaxQueuedEvents && n > 2*s.mergedTo {
		s.mergeEvents()
	}
	if !s.queued {
		s.queued = true
		s.p.schedule(s)
	}
}

// wait accounts for n octets more that the events hold, or less.
func (s *Subscription) wait(n int) {
	s.waiting += n
	s.p.held += n
}

// eventMemory is what an event holds, in octets, as if its record were its own.
func eventMemory(e *Event) int {
	const perEvent = 128 // with the room that a queue grows by
	return perEvent + e.Record.Len()
}

// crowds reports whether n octets more would pass MaxPeerMemory, even with the
// events merged.
func (s *Subscription) crowds(n int) bool {
	if !s.p.crowded(n) {
		return false
	}
	s.mergeEvents()
	return s.p.crowded(n)
}

// call runs the handler for one event.
func (s *Subscription) call() (more bool) {
	if e, ok := s.events.pop(); ok {
		s.wait(-eventMemory(&e))
		s.p.outside(func() { s.handler(e) })
	}
	if s.events.len() > 0 {
		return true
	}
	if cap(s.events.items) > 4 {
		s.events = fifo[Event]{}
	}
	s.queued, s.mergedTo = false, 0
	return false
}

// mergeEvents leaves one event per record between two of another kind, with the
// state before the first and after the last. What was to be told before a Reset
// does not matter after it.
func (s *Subscription) mergeEvents() {
	old := s.events.items[s.events.head:]
	from := 0
	for i := range old {
		if old[i].Kind == EventReset {
			from = i
		}
	}
	out := make([]Event, 0, len(old)-from)
	at := make(map[record.ID]int, len(old)-from) // in out
	for _, e := range old[from:] {
		if e.ID == "" { // Synced, Reset, Ended: order matters across them
			clear(at)
			out = append(out, e)
			continue
		}
		i, ok := at[e.ID]
		if !ok {
			at[e.ID] = len(out)
			out = append(out, e)
			continue
		}
		first := &out[i]
		switch absent := first.Kind == EventSnapshot || first.Kind == EventAdded; {
		case absent && e.Kind == EventWithdrawn:
			first.Kind = 0 // came and went
			delete(at, e.ID)
		case absent:
			first.ID, first.Record = e.ID, e.Record // the ID too: it is part of the record
		case e.Kind == EventWithdrawn:
			*first = Event{Kind: EventWithdrawn, ID: e.ID, Was: first.Was}
		case first.Kind == EventWithdrawn && e.Record.Revision() <= first.Was: // hidden, and shown as it was
			at[e.ID] = len(out)
			out = append(out, e)
		default:
			*first = Event{Kind: EventReplaced, ID: e.ID, Record: e.Record, Was: first.Was}
		}
	}
	kept := slices.Clone(slices.DeleteFunc(out, func(e Event) bool { return e.Kind == 0 })) // and the room goes
	held := 0
	for i := range kept {
		held += eventMemory(&kept[i])
	}
	s.p.stats.MergedEvents += uint64(len(old) - len(kept))
	s.events = fifo[Event]{items: kept}
	s.mergedTo = len(kept)
	s.wait(held - s.waiting)
}

// Unsubscribe ends the subscription and tells the peer. It is idempotent; of
// the events not delivered yet only EventEnded follows.
func (s *Subscription) Unsubscribe() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.giveUp(ErrUnsubscribed)
}

// WaitSynced waits until the snapshot was whole for the first time, or the
// subscription ended: then it returns why.
func (s *Subscription) WaitSynced(ctx context.Context) error {
	s.p.mu.Lock()
	if s.wasSynced || s.phase == phaseEnded {
		defer s.p.mu.Unlock()
		return s.errUnlessSynced()
	}
	if s.synced == nil {
		s.synced = make(chan struct{})
	}
	synced := s.synced
	s.p.mu.Unlock()
	select {
	case <-synced:
	case <-ctx.Done():
		select { // a ready result wins
		case <-synced:
		default:
			return ctx.Err()
		}
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.errUnlessSynced()
}

func (s *Subscription) errUnlessSynced() error {
	if s.phase == phaseEnded {
		return s.err
	}
	return nil
}

// Err returns why the subscription ended, or nil while it has not.
func (s *Subscription) Err() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.err
}

// Stale reports that the view is not kept up to date just now: a snapshot is
// under way, or the subscription ended.
func (s *Subscription) Stale() bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.phase != phaseLive
}

// Partial reports that records of a kind unknown here were left out [C9].
func (s *Subscription) Partial() bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.partial
}

// Get returns a record of the view.
func (s *Subscription) Get(id record.ID) (record.Record, bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.view.Get(id)
}

// Len returns the number of records in the view.
func (s *Subscription) Len() int {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.view.Len()
}

// Records returns the view's records, ascending record_id.
func (s *Subscription) Records() []record.Record {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.view.Records()
}

// Digest returns SHA-256 over the view's records in order.
func (s *Subscription) Digest() [sha256.Size]byte {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.view.Digest()
}
