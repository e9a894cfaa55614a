package channel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A Query says what to ask for (§6.1).
type Query struct {
	Filter record.Filter
	// Tolerant takes what the responder can represent, and skips records of a
	// kind unknown here, instead of failing (§6.3). A complete tolerant listing
	// is complete as far as representable.
	Tolerant bool
}

// A Listing is a whole matching set, as of one moment at the responder.
type Listing struct {
	Records  []record.Record  // ascending record_id, each once
	Skipped  []record.Skipped // of unknown kind; tolerant listings only [C9]
	Tolerant bool
	Pages    int
}

// Digest returns SHA-256 over the records' octets in order, which is what
// record.Set.Digest gives for the same records.
func (l *Listing) Digest() [sha256.Size]byte { return record.Digest(slices.Values(l.Records)) }

// A Page is one RESULT of a listing (§6.2).
type Page struct {
	Records  []record.Record // as they came: ascending record_id is the rule, not a promise
	Skipped  []record.Skipped
	Complete bool // the last page
}

// Query asks the peer for all records that match and reads every page. It
// returns the whole set or an error: ErrNotAdvertised, ErrLimit, ErrTimeout,
// ErrUnknownKind, the context's, the association's end, a *disco.PeerError for
// a refusal, a *disco.PayloadError for a reply that cannot be read, or an
// *IncompleteError for a listing that broke off. q is not changed.
func (p *Peer) Query(ctx context.Context, q Query) (*Listing, error) {
	l, err := p.list(q, false)
	if err != nil {
		return nil, err
	}
	defer l.stop()
	for {
		page, err := l.next(ctx)
		if err != nil {
			return nil, err
		}
		if page == nil {
			break
		}
	}
	out := &Listing{Records: l.merged.records(), Skipped: l.skipped, Tolerant: q.Tolerant, Pages: l.pages}
	p.learn(l, out.Records)
	return out, nil
}

// QueryPage asks for the first page alone; page.Complete tells whether that was
// all. Errors are as of Query.
func (p *Peer) QueryPage(ctx context.Context, q Query) (*Page, error) {
	l, err := p.list(q, true)
	if err != nil {
		return nil, err
	}
	defer l.stop()
	return l.next(ctx)
}

// Records is Query page by page: it yields each record as soon as its page has
// come, in the order it came, once, and an error last if there is one. A
// listing whose cursor goes stale is an *IncompleteError here, since what was
// yielded cannot be taken back.
func (p *Peer) Records(ctx context.Context, q Query) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		l, err := p.list(q, false)
		if err != nil {
			yield(record.Record{}, err)
			return
		}
		defer l.stop()
		l.streams = true
		for {
			page, err := l.next(ctx)
			if err != nil {
				yield(record.Record{}, err)
				return
			}
			if page == nil {
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// A listing is one enumeration under way: the reading goroutine queues its
// pages and asks for the next, the caller's merges them.
type listing struct {
	p       *Peer
	q       Query // filter normalised
	matcher record.Matcher
	epoch   record.Epoch // of the cache when it began [C17]
	single  bool         // only the first page is wanted
	streams bool         // pages have been handed out: no restart

	// Guarded by p.mu.
	number     uint64 // of the corr
	request    request
	room       [96]byte // for the request
	asked, got int      // QUERYs sent and RESULTs received under the corr
	cursor     disco.Cursor
	last       record.ID // of the record that came last
	queue      []*Page   // not merged yet
	first      [1]*Page
	octets     int  // held by the queue and by what was merged
	waits      bool // a further page is to come, and not asked for yet
	since      time.Time
	late       bool // nothing has come for PageStall
	fresh      bool // a follow-up was repeated under a fresh corr
	over       bool // the corr is retired
	err        error
	ready      chan struct{} // one slot: something changed

	// The caller's.
	merged           merge
	skipped          []record.Skipped
	pages, barren    int
	restarts, delays int
	finished         bool
}

const maxDelays = 6 // times that one page is asked for again because the peer said not now

const maxQueuedPages = 4 // received and not merged yet, before the next is asked for

// list starts an enumeration, of a single page or of all.
func (p *Peer) list(q Query, single bool) (*listing, error) {
	q.Filter = q.Filter.Normalize()
	l := &listing{
		p: p, q: q, matcher: q.Filter.Matcher(), single: single, ready: make(chan struct{}, 1),
		request: request{t: disco.TypeQuery},
	}
	l.queue, l.request.payload = l.first[:0], l.room[:0] // which most need no more of
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayAsk(); err != nil {
		return nil, err
	}
	if l.matcher == p.listed {
		l.merged.likely = p.cache.NumListed()
	}
	l.begin()
	return l, nil
}

// mayAsk reports why no request can be made. p.mu is held.
func (p *Peer) mayAsk() error {
	switch {
	case p.life.closing:
		return p.closedCause()
	case !p.info.Advertised || !p.info.PeerAdvertised || p.cfg.Disabled&FeatureDiscovery != 0:
		return ErrNotAdvertised
	case p.own.n-p.numOwn >= p.lim.MaxOutstanding:
		return fmt.Errorf("%w: MaxOutstanding", ErrLimit)
	}
	return nil
}

// begin sends the first QUERY, under a new corr. p.mu is held, as in all
// methods of listing up to next.
func (l *listing) begin() {
	l.epoch = l.p.cache.Epoch()
	l.cursor, l.last, l.waits, l.fresh = "", "", false, false
	l.register()
	l.ask(false)
}

func (l *listing) register() {
	l.number = l.p.own.begin(l)
	l.asked, l.got, l.over = 0, 0, false
}

// ask sends a QUERY, with the cursor unless it is the first of the chain.
func (l *listing) ask(further bool) {
	l.asked++
	l.waits, l.late = false, false
	l.since = time.Now()
	q := disco.Query{Corr: l.p.own.corr(l.number), Filter: l.q.Filter, Tolerant: l.q.Tolerant, HasTolerant: l.q.Tolerant}
	if further {
		q.Cursor, q.HasCursor = l.cursor, true
	}
	b, err := disco.AppendQuery(l.request.payload[:0], &q)
	if err != nil {
		l.end(err)
		return
	}
	l.request.number, l.request.payload = l.number, b // one under an earlier corr that still waits was in vain
	l.p.ask(&l.request)
	l.p.lookAfter(l)
}

// due returns when the listing has waited in vain for long enough; ok is false
// for never.
func (l *listing) due() (t time.Time, ok bool) {
	lim := &l.p.lim
	switch {
	case !l.late && (lim.RequestTimeout < 0 || lim.PageStall < lim.RequestTimeout):
		return l.since.Add(lim.PageStall), true
	case lim.RequestTimeout < 0:
		return time.Time{}, false
	}
	return l.since.Add(lim.RequestTimeout), true
}

// lookAfter wakes the listing's caller when it is due, if nothing comes before.
// One timer serves all listings, and is set but once in PageStall for those that
// get their answers in time: a timer each is four allocations more for a query,
// which has ten without. p.mu is held.
func (p *Peer) lookAfter(l *listing) {
	due, ok := l.due()
	if !ok || p.life.closing || !p.lookAt.IsZero() && !due.Before(p.lookAt) {
		return
	}
	p.lookAt = due
	setTimer(&p.impatient, time.Until(due), p.look)
}

func (p *Peer) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAt = time.Time{}
	now := time.Now()
	for _, x := range p.own.all() {
		l, ok := x.(*listing)
		if !ok {
			continue
		}
		if due, ok := l.due(); ok && !now.Before(due) {
			l.wake()
		} else {
			p.lookAfter(l)
		}
	}
}

// ahead asks for the page after that of v, which is about to be copied, if what it
// says will be taken. Then the responder makes the one while the other is copied and
// merged.
func (l *listing) ahead(v *disco.ResultView) bool {
	p := l.p
	n := listMemory(v.Records.Len(), len(v.Records.Octets()))
	if l.over || l.single || p.pusher || l.asked != l.got+1 || len(l.queue)+1 >= maxQueuedPages ||
		v.Records.NumSkipped() > 0 || l.octets+n > p.lim.MaxListLen || p.crowded(n) {
		return false
	}
	l.cursor = disco.Cursor(v.Cursor)
	l.ask(true)
	return true
}

func (l *listing) result(r disco.Result) {
	l.got++
	l.since, l.late = time.Now(), false
	l.p.lookAfter(l)
	asked := l.got < l.asked // ahead did
	if l.got > l.asked {
		l.p.pusher = true // C1
	}
	if len(r.Skipped) > 0 && !l.q.Tolerant {
		l.end(fmt.Errorf("%w: record %s, kind %d", ErrUnknownKind, r.Skipped[0].ID, r.Skipped[0].Kind)) // C9
		return
	}
	page := &Page{Records: r.Records, Skipped: r.Skipped, Complete: r.Complete}
	n := pageMemory(page.Records, page.Skipped)
	switch {
	case l.octets+n > l.p.lim.MaxListLen:
		l.end(fmt.Errorf("%w: MaxListLen", ErrLimit))
		return
	case l.p.crowded(n):
		l.end(fmt.Errorf("%w: MaxPeerMemory", ErrLimit))
		return
	}
	if n := len(r.Records); n > 0 {
		l.last = r.Records[n-1].ID()
	}
	l.hold(n)
	l.queue = append(l.queue, page)
	switch {
	case r.Complete || l.single:
		l.retire()
	case !asked:
		l.cursor = r.Cursor
		l.waits = true
		l.follow()
	}
	l.wake()
}

// follow asks for the page that is still to come, unless the peer pushes it or
// enough pages wait to be merged.
func (l *listing) follow() {
	if l.waits && !l.over && !l.p.pusher && len(l.queue) < maxQueuedPages {
		l.ask(true)
	}
}

func (l *listing) refused(err error) {
	var pe *disco.PeerError
	if errors.As(err, &pe) && pe.Code == disco.CodeMalformedPayload && l.got > 0 && !l.fresh {
		l.retire() // a peer that takes no finished corr again [C1]
		l.register()
		l.fresh = true
		l.ask(true)
		return
	}
	l.end(err)
}

func (l *listing) ended(cause error) {
	l.over = true
	if l.err == nil {
		l.err = cause
	}
	l.wake()
}

// end fails the listing.
func (l *listing) end(err error) {
	if l.over {
		return
	}
	l.retire()
	l.err = err
	l.wake()
}

// retire gives the corr up, once.
func (l *listing) retire() {
	if !l.over {
		l.over = true
		l.p.retire(l.number, l.asked, l.got)
	}
}

func (l *listing) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// hold accounts for n octets more, or less.
func (l *listing) hold(n int) {
	l.octets += n
	l.p.held += n
}

// stop gives up what is still under way. It is the caller's.
func (l *listing) stop() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.retire()
	l.queue, l.first, l.last, l.merged, l.skipped = nil, [1]*Page{}, "", merge{}, nil // a QUERY that still waits for the link keeps l
	l.hold(-l.octets)
}

// next returns the next page with its records merged, or nil after the last.
func (l *listing) next(ctx context.Context) (*Page, error) {
	if l.finished {
		return nil, nil
	}
	for {
		page, err := l.take()
		if page != nil {
			if page.Complete || l.single {
				l.finished = true
			}
			if err := l.merge(page); err != nil {
				return nil, err
			}
			return page, nil
		}
		if err != nil {
			if err = l.recover(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
			select { // a ready result wins
			case <-l.ready:
				continue
			default:
			}
			return nil, ctx.Err()
		}
	}
}

// take returns a queued page, or the listing's error, or neither: then ready is
// to be waited for.
func (l *listing) take() (*Page, error) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(l.queue) > 0 {
		page := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.follow()
		return page, nil
	}
	if l.err != nil {
		return nil, l.err
	}
	waited := time.Since(l.since)
	if waited >= p.lim.PageStall && !l.late {
		l.late = true
		p.late()
		if l.waits && p.pusher { // it should have been pushed
			p.stats.Pulls++
			l.ask(true)
			waited = 0
		}
	}
	if p.lim.RequestTimeout >= 0 && waited >= p.lim.RequestTimeout {
		l.end(ErrTimeout)
		return nil, ErrTimeout
	}
	p.lookAfter(l)
	return nil, nil
}

// recover decides what a failure means for the listing as a whole: a stale
// cursor starts it over, a refused page is asked for again later, the rest ends
// it.
func (l *listing) recover(ctx context.Context, err error) error {
	p := l.p
	var pe *disco.PeerError
	switch incomplete := error(&IncompleteError{l.pages, l.merged.len(), err}); {
	case errors.Is(err, ErrLimit):
		return incomplete
	case !errors.As(err, &pe):
		if l.pages > 0 && !errors.Is(err, ErrUnknownKind) {
			return incomplete
		}
		return err
	case l.pages == 0 && pe.Code != disco.CodeStaleCursor:
		return err
	}
	switch pe.Code {
	case disco.CodeStaleCursor:
		if l.restarts >= p.lim.MaxRestarts || l.streams {
			return &IncompleteError{l.pages, l.merged.len(), err}
		}
		l.restarts++
		p.mu.Lock()
		defer p.mu.Unlock()
		if err := p.mayAsk(); err != nil {
			return err
		}
		p.stats.Restarts++
		l.hold(-l.octets)
		l.queue = nil
		l.merged, l.skipped = merge{}, nil
		l.pages, l.barren = 0, 0
		l.err = nil
		l.begin()
		return nil
	case disco.CodeNotAdvertised: // over the peer's rate: the same page, later [C20]
		if l.delays >= maxDelays {
			return &IncompleteError{l.pages, l.merged.len(), err}
		}
		timer := time.NewTimer(50 * time.Millisecond << l.delays)
		defer timer.Stop()
		l.delays++
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if err := p.mayAsk(); err != nil {
			return err
		}
		l.err = nil
		l.register()
		l.ask(true)
		return nil
	}
	return &IncompleteError{l.pages, l.merged.len(), err}
}

// merge adds a page to what was read and holds the enumeration to its bounds
// [C44]. Records outside the filter are dropped [C40].
func (l *listing) merge(page *Page) error {
	p, lim := l.p, &l.p.lim
	l.pages++
	l.skipped = append(l.skipped, page.Skipped...)
	kept := page.Records[:0]
	var overbroad, doubles uint64
	used := len(page.Skipped) > 0 // of the page's octets, which go together or not at all
	rest := page.Records
	if l.matchesAll(rest) && l.merged.extend(rest) {
		kept, rest, used = rest, nil, used || len(rest) > 0
	}
	for _, r := range rest {
		if !l.matcher.MatchRecord(r) {
			overbroad++
			continue
		}
		switch l.merged.add(r) {
		case mergeNew:
			kept = append(kept, r)
			used = true
		case mergeReplaced:
			used = true
		case mergeDouble:
			doubles++
		}
	}
	page.Records = kept
	if overbroad+doubles > 0 || !used {
		p.mu.Lock()
		p.stats.Overbroad += overbroad
		p.stats.DuplicateRecord += doubles
		if !used {
			l.hold(-pageMemory(rest, page.Skipped))
		}
		p.mu.Unlock()
	}
	if l.barren++; len(kept) > 0 {
		l.barren = 0
	}
	var broke string
	switch {
	case l.merged.len() > lim.MaxListRecords:
		broke = "MaxListRecords"
	case page.Complete || l.single:
	case l.barren >= lim.MaxBarren:
		broke = "MaxBarren"
	case l.pages >= lim.MaxPages:
		broke = "MaxPages"
	}
	if broke == "" {
		return nil
	}
	return &IncompleteError{l.pages, l.merged.len(), fmt.Errorf("%w: %s", ErrLimit, broke)}
}

func (l *listing) matchesAll(recs []record.Record) bool {
	for i := range recs {
		if !l.matcher.MatchRecord(recs[i]) {
			return false
		}
	}
	return true
}

// recordOverhead is what a record costs beyond its octets, in octets: its place on
// the page, in the listing, and in the index of one that is out of order.
const recordOverhead = 64

// listMemory is what n records that came together hold, in octets.
func listMemory(n, octets int) int { return 128 + octets + n*recordOverhead }

// pageMemory is listMemory of what a page or an announcement has.
func pageMemory(recs []record.Record, skipped []record.Skipped) int {
	octets := 0
	for _, r := range recs {
		octets += r.Len()
	}
	for _, r := range skipped {
		octets += len(r.ID) + 24
	}
	return listMemory(len(recs), octets)
}

// merge collects records by record_id. As long as they come in ascending order,
// which is how we send them, it is a plain append.
type merge struct {
	list   []record.Record
	likely int               // how many there will be
	index  map[record.ID]int // where each is; made when the order is first broken
}

type merged int

const (
	mergeNew merged = iota
	mergeReplaced
	mergeDouble
)

func (m *merge) len() int { return len(m.list) }

// extend adds a page that goes on in ascending order, or nothing. With add for each
// record a listing of 10,000 takes a seventh more.
func (m *merge) extend(recs []record.Record) bool {
	if m.index != nil {
		return false
	}
	last := record.ID("")
	if n := len(m.list); n > 0 {
		last = m.list[n-1].ID()
	}
	for i := range recs {
		id := recs[i].ID()
		if id <= last {
			return false
		}
		last = id
	}
	if m.list == nil {
		m.list = recs // nearly every listing is of one page
		return true
	}
	if n := len(m.list) + len(recs); n > cap(m.list) {
		m.list = slices.Grow(m.list, max(n, 2*cap(m.list), m.likely)-len(m.list))
	}
	m.list = append(m.list, recs...)
	return true
}

// add merges one record: of two revisions the greater stays, of equal ones the
// first [C1, C19].
func (m *merge) add(r record.Record) merged {
	id := r.ID()
	if m.index == nil {
		if n := len(m.list); n == 0 || m.list[n-1].ID() < id {
			m.list = append(m.list, r)
			return mergeNew
		}
		m.index = make(map[record.ID]int, len(m.list)+1)
		for i, r := range m.list {
			m.index[r.ID()] = i
		}
	}
	i, ok := m.index[id]
	if !ok {
		m.index[id] = len(m.list)
		m.list = append(m.list, r)
		return mergeNew
	}
	if r.Revision() > m.list[i].Revision() {
		m.list[i] = r
		return mergeReplaced
	}
	return mergeDouble
}

// records returns what was collected, in ascending order.
func (m *merge) records() []record.Record {
	if m.index != nil {
		slices.SortFunc(m.list, func(a, b record.Record) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	}
	return m.list
}
