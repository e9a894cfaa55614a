package channel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

type simOp int

// A simOpDef is an operation: how often it is picked, in which worlds, and what
// it does with the step's numbers.
type simOpDef struct {
	name   string
	weight int
	only   simWorld
	fault  bool
	always bool // in every script
	do     func(s *sim, a, b, c int)
}

type simWorld int

const (
	everywhere simWorld = iota
	onByHand
	onOver
)

var simOps = [...]simOpDef{
	{name: "put", weight: 14, do: (*sim).put},
	{name: "withdraw", weight: 6, do: (*sim).withdraw},
	{name: "batch", weight: 4, do: (*sim).batch},
	{name: "storm", weight: 3, do: (*sim).storm},
	{name: "carry", weight: 1, do: (*sim).carry},
	{name: "flip", weight: 8, do: (*sim).flip},
	{name: "query", weight: 10, always: true, do: (*sim).query},
	{name: "subscribe", weight: 10, always: true, do: (*sim).subscribe},
	{name: "unsubscribe", weight: 4, do: (*sim).unsubscribe},
	{name: "announce", weight: 3, do: (*sim).announce},
	{name: "cancel", weight: 2, do: (*sim).cancel},
	{name: "release", weight: 3, do: (*sim).release},
	{name: "wait", weight: 8, do: (*sim).wait},
	{name: "rest", weight: 3, always: true, do: func(s *sim, _, _, _ int) { s.rest() }},
	{name: "close", weight: 1, do: (*sim).close},
	{name: "open", weight: 6, always: true, do: (*sim).reopen},
	{name: "move", weight: 20, only: onByHand, do: (*sim).move},
	{name: "take", weight: 12, only: onByHand, do: func(s *sim, a, b, c int) { s.links.at(a).take(side(b), 1+c%4) }},
	{name: "deliver", weight: 12, only: onByHand, do: func(s *sim, a, b, c int) { s.links.at(a).link.Deliver(side(b), 1+c%4) }},
	{name: "trickle", weight: 3, only: onByHand, do: (*sim).trickle},
	{name: "room", weight: 2, do: (*sim).room},
	{name: "stall", weight: 2, do: (*sim).stall},
	{name: "delay", weight: 3, do: (*sim).delay},
	{name: "pieces", weight: 1, only: onOver, do: (*sim).pieces},
	{name: "rekey", weight: 5, only: onOver, do: (*sim).rekey},
	{name: "rush", weight: 6, only: onOver, do: func(s *sim, a, _, _ int) { s.rushing = 1 + a%8 }},
	{name: "twice", weight: 2, only: onByHand, fault: true, do: (*sim).twice},
	{name: "spoil", weight: 2, only: onByHand, fault: true, do: (*sim).spoil},
}

func side(n int) channeltest.Side { return channeltest.Side(n % 2) }

// A sim is a world.
type sim struct {
	seed    uint64
	cfg     simConfig
	lim     Limits // with defaults
	nodes   ring[*simNode]
	links   ring[*simLink]
	subs    []*simSub
	calls   []*simCall
	rushing int // steps to go without waiting
	count   simCount
	fault   error
}

type ring[T any] []T

func (r ring[T]) at(n int) T { return r[n%len(r)] }

// fail notes the first thing that is wrong.
func (s *sim) fail(format string, args ...any) {
	if s.fault == nil {
		s.fault = fmt.Errorf(format, args...)
	}
}

// simulate runs a script in the world of a seed.
func simulate(t *testing.T, seed uint64, script []simStep) (count simCount, err error) {
	before := runtime.NumGoroutine()
	synctest.Test(t, func(t *testing.T) {
		s := &sim{seed: seed, cfg: simConfigOf(seed)}
		defer func() {
			if p := recover(); p != nil {
				s.fail("panic: %v\n%s", p, debug.Stack())
			}
			s.end()
			synctest.Wait()
			if dump := leftover(before); dump != "" {
				s.fail("goroutines left:\n%s", dump)
			}
			count, err = s.count, s.fault
		}()
		s.begin()
		for i, step := range script {
			s.count.ops++
			d := &simOps[step.op]
			d.do(s, step.a, step.b, step.c)
			if s.rushing--; s.rushing > 0 {
				continue
			}
			s.check()
			if s.fault != nil {
				s.fault = fmt.Errorf("step %d, %s %d %d %d: %w", i, d.name, step.a, step.b, step.c, s.fault)
				return
			}
		}
		s.rest()
		if s.fault != nil {
			s.fault = fmt.Errorf("at the end: %w", s.fault)
		}
	})
	return count, err
}

// leftover returns the goroutines of the bubble that are left, besides its own
// three, as a stack dump; "" if there are none.
func leftover(before int) string {
	if runtime.NumGoroutine() <= before+3 {
		return ""
	}
	buf := make([]byte, 1<<18) // it may be one of the runtime's, a finalizer say
	dump := string(buf[:runtime.Stack(buf, true)])
	if strings.Count(dump, ", synctest bubble ") <= 3 {
		return ""
	}
	return dump
}

func (s *sim) begin() {
	s.count.worlds++
	s.lim = simLimits[s.cfg.limits].withDefaults()
	for range s.cfg.nodes {
		n := &simNode{high: map[record.ID]uint64{}, gone: map[record.ID]uint64{}}
		n.set = record.NewSet(record.SetConfig{Carries: func(id uint64) bool { return carries(id) && n.off.Load()>>id&1 == 0 }})
		n.hub = subscribe.NewHub(n.set)
		s.nodes = append(s.nodes, n)
		s.batch(len(s.nodes)-1, int(s.seed)%5, 1)
	}
	for i := 1; i < s.cfg.nodes; i++ { // node 0 serves all others from one hub
		l := &simLink{s: s}
		s.links = append(s.links, l)
		l.nodes = [2]*simNode{s.nodes[0], s.nodes[i]}
		l.open()
	}
	synctest.Wait()
}

// end closes everything, whatever state it is in, and looks at what is left.
func (s *sim) end() {
	for _, u := range s.subs {
		u.free(true)
	}
	for _, l := range s.links {
		if l.ends[1] != nil && l.ends[1].peer != nil {
			l.shut()
		}
	}
	synctest.Wait()
	for _, c := range s.calls {
		c.stop()
	}
	synctest.Wait()
	s.collect()
	for _, c := range s.calls {
		if !c.over {
			s.fail("%v has not returned although its association has ended", c)
		}
	}
	for _, u := range s.subs {
		if !u.told {
			s.fail("%v was not told of its end", u)
		}
	}
	for i, n := range s.nodes {
		if k := n.hub.Len(); k != 0 {
			s.fail("the hub of node %d has %d subscriptions left", i, k)
		}
		n.hub.Close()
	}
}

// A simNode is a set and who may see it.
type simNode struct {
	set  *record.Set
	hub  *subscribe.Hub
	off  atomic.Uint32        // protocols not carried now
	high map[record.ID]uint64 // greatest revisions
	gone map[record.ID]uint64 // revisions of records when they were last withdrawn
	ends []*simEnd            // of open associations
}

// A simLink is two nodes and the association between them, if there is one.
type simLink struct {
	s     *sim
	nodes [2]*simNode
	ends  [2]*simEnd
	link  *channeltest.Link
	wire  *channeltest.Wire
	assoc [2]*association.Association
	rules *simRules

	over    bool // somebody has ended it
	dead    bool // it is seen to have ended
	spoiled bool // something could not be read
	doubled bool
	slowed  bool // it may have been too slow for an end to bear
}

// A simEnd is one end of a link: its peer, and what its node shows to the other.
type simEnd struct {
	link     *simLink
	side     channeltest.Side
	node     *simNode
	peer     *Peer
	hidden   atomic.Uint32
	versions [][]record.Record
	told     atomic.Int64 // announcements received
}

func (l *simLink) open() {
	s := l.s
	*l = simLink{s: s, nodes: l.nodes}
	push := [2]bool{s.cfg.push, false}
	l.rules = newSimRules(simLimits[s.cfg.limits], push)
	var tr [2]frame.Transport
	if s.cfg.over {
		l.wire = channeltest.NewWire()
		var err error
		cfg := func(n byte) *association.Config {
			return &association.Config{Identity: channeltest.Identity(n), Generations: []int{s.cfg.gen}, UpdateFrames: 50}
		}
		l.assoc[0], l.assoc[1], err = channeltest.Associate(context.Background(), l.wire.A, l.wire.B, cfg(1), cfg(2))
		if err != nil {
			panic(err)
		}
		for i, a := range l.assoc {
			if tr[i], err = a.Transport(frame.ChannelDiscovery); err != nil {
				panic(err)
			}
		}
	} else {
		info := channeltest.Info()
		info.Generation = s.cfg.gen
		l.link = channeltest.NewLink(info, info).ByHand()
		tr[0], tr[1] = l.link.Ends()
	}
	for i := range l.ends {
		e := &simEnd{link: l, side: channeltest.Side(i), node: l.nodes[i]}
		l.ends[i] = e
		e.node.ends = append(e.node.ends, e)
		e.look()
		cfg := Config{
			Hub: e.node.hub, Limits: simLimits[s.cfg.limits], PushPages: push[i], AnnounceOnOpen: s.cfg.announce,
			OnAnnounce: func(Announcement) { e.told.Add(1) },
		}
		if i == 1 {
			cfg.Disabled = s.cfg.disabled
		}
		if s.cfg.announce {
			l.rules.sides[i].announcing++
		}
		if s.cfg.hides {
			cfg.Visible = e.visible
		}
		var err error
		if e.peer, err = New(channeltest.Tap(tr[i], l.rules.tap(e.side)), cfg); err != nil {
			panic(err)
		}
		if s.cfg.hides && !s.cfg.over {
			l.rules.sides[i].hidden = func(r record.Record) bool {
				_, there := e.node.set.Snapshot().Get(r.ID())
				_, shown := e.peer.snapshot().Get(r.ID())
				return there && !shown && r.Revision() > e.node.gone[r.ID()] // else another has its id
			}
		}
	}
}

// shut closes both ends, if they are not closed, and looks at what is left of
// them.
func (l *simLink) shut() {
	l.over = true
	var wg sync.WaitGroup
	for _, e := range l.ends {
		wg.Go(func() { e.peer.Close() })
	}
	wg.Wait()
	synctest.Wait()
	for i := range l.rules.sides {
		for _, n := range l.rules.sides[i].out {
			l.s.count.frames += int(n)
		}
	}
	for _, e := range l.ends {
		l.s.count.met(e.peer.Stats())
		if err := e.gone(); err != nil {
			l.s.fail("after Close of %v: %v", e, err)
		}
		e.node.ends = slices.DeleteFunc(e.node.ends, func(x *simEnd) bool { return x == e })
	}
	l.s.collect()
	l.dead = true
}

func (e *simEnd) String() string {
	return fmt.Sprintf("end %v of link %d", e.side, slices.Index(e.link.s.links, e.link))
}

// look notes what the end shows now, if that is something new.
func (e *simEnd) look() {
	var now []record.Record
	all := e.node.set.Snapshot()
	for r := range all.All() {
		shown := e.visible(r)
		if a, ok := r.Agent(); ok {
			for _, id := range a.Tools {
				tool, _ := all.Get(id)
				shown = shown && e.visible(tool)
			}
		}
		if shown {
			now = append(now, r)
		}
	}
	if n := len(e.versions); n == 0 || !slices.Equal(e.versions[n-1], now) {
		e.versions = append(e.versions, now)
	}
	if e.peer != nil && !e.link.over && !e.closing() {
		if got := slices.Collect(e.peer.snapshot().All()); !slices.Equal(got, now) && !e.closing() {
			e.link.s.fail("%v shows %v, not %v", e, simNames(got), simNames(now))
		}
	}
}

// visible is what the end shows of its node's records: it depends on which record
// it is, and on what is in it.
func (e *simEnd) visible(r record.Record) bool {
	hidden := e.hidden.Load()
	shown := hidden>>(simIndex(r.ID())%simBlock)&1 == 0
	if t, ok := r.Tool(); ok {
		shown = shown && hidden>>(simBlock+t.ProtocolID)&1 == 0
	}
	return shown
}

// closing reports that the peer has begun to end, and so may show nothing new.
func (e *simEnd) closing() bool {
	e.peer.mu.Lock()
	defer e.peer.mu.Unlock()
	return e.peer.life.closing
}

// latest is the number of the present version.
func (e *simEnd) latest() int { return len(e.versions) - 1 }

// gone says what is left of a peer that was closed.
func (e *simEnd) gone() error {
	p := e.peer
	select {
	case <-p.Done():
	default:
		return errors.New("not done")
	}
	st := p.Stats()
	if st.Outstanding|st.Unanswered|st.Subscriptions|st.Own|st.Snapshots|st.Unsent|st.Cached != 0 {
		return fmt.Errorf("gauges: %+v", st)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.timers() {
		if t.Stop() {
			return errors.New("a timer runs")
		}
	}
	if p.own.n+len(p.stale)+len(p.answering)+len(p.subs)+len(p.writes)+len(p.cursors.marks) > 0 {
		return errors.New("state is left")
	}
	if p.calls.running != p.calls.inside {
		return errors.New("callbacks run")
	}
	if m := p.outbox.Memory(); m != 0 {
		return fmt.Errorf("the outbox keeps %d octets", m)
	}
	return nil
}

// live reports that the link's association has not ended.
func (l *simLink) live() bool { return !l.over && !l.dead }

// take asks one side for frames. All that was handed over before has had its
// effect.
func (l *simLink) take(from channeltest.Side, n int) int {
	l.rules.rest()
	return l.link.Take(from, n)
}

// ---- steps

func (s *sim) put(a, b, c int) {
	s.update(s.nodes.at(a), func(tx *record.Tx) error { return tx.Put(simRecord(b%s.cfg.records, c)) })
}

func (s *sim) withdraw(a, b, _ int) {
	s.update(s.nodes.at(a), func(tx *record.Tx) error { return tx.Withdraw(simID(b % s.cfg.records)) })
}

// batch is many changes at once.
func (s *sim) batch(a, b, c int) {
	s.update(s.nodes.at(a), func(tx *record.Tx) error {
		for i := range s.cfg.records {
			switch (b*7 + i*c) % 5 {
			case 0, 1:
				if err := tx.Put(simRecord(i, b+c*i)); err != nil {
					return err
				}
			case 2:
				if err := tx.Withdraw(simID(i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// storm is many changes of one record, one after the other.
func (s *sim) storm(a, b, c int) {
	for i := range 2 + c%20 {
		s.put(a, b, c+i)
	}
}

// carry has a protocol carried no more, or again.
func (s *sim) carry(a, b, _ int) {
	n := s.nodes.at(a)
	n.off.Store(n.off.Load() ^ 1<<(1+b%3))
	s.changing(n, n.set.Recheck)
}

func (s *sim) update(n *simNode, fn func(*record.Tx) error) {
	s.changing(n, func() error { return n.set.Update(fn) })
}

// changing makes a change and holds the set to the rules of §8 and to atomicity.
func (s *sim) changing(n *simNode, change func() error) {
	old := n.set.Snapshot()
	err := change()
	now := n.set.Snapshot()
	if err != nil {
		if old.Digest() != now.Digest() {
			s.fail("a change failed (%v) and was made", err)
		}
		return
	}
	for r := range old.All() {
		if _, ok := now.Get(r.ID()); !ok {
			n.gone[record.ID(strings.Clone(string(r.ID())))] = r.Revision()
		}
	}
	for r := range now.All() {
		was, _ := old.Get(r.ID())
		if was == r {
			continue
		}
		if r.SameContents(was) || r.Revision() <= n.high[r.ID()] {
			s.fail("%s at revision %d after %d", r.ID(), r.Revision(), n.high[r.ID()])
		}
		n.high[record.ID(strings.Clone(string(r.ID())))] = r.Revision()
	}
	agents := record.Filter{Kinds: []record.Kind{record.KindAgent}}.Matcher()
	for r := range now.Match(&agents) {
		a, _ := r.Agent()
		for _, id := range a.Tools {
			if _, ok := now.Get(id); !ok {
				s.fail("agent %s names the tool %s, which is not there", r.ID(), id)
			}
		}
	}
	for _, e := range n.ends {
		e.look()
	}
}

// flip hides records from one peer, and shows others.
func (s *sim) flip(a, b, c int) {
	e := s.links.at(a).ends[b%2]
	if !s.cfg.hides || !e.link.live() {
		return
	}
	mask := uint32(1) << (c % (simBlock + 4))
	if c%3 == 0 {
		mask = uint32(c) * 2654435761 >> 7
	}
	e.hidden.Store(e.hidden.Load() ^ mask)
	e.peer.Refresh()
	e.look()
}

func (s *sim) wait(a, _, _ int) {
	d := [...]time.Duration{time.Millisecond, 10 * time.Millisecond, 60 * time.Millisecond, 60 * time.Millisecond,
		600 * time.Millisecond, 1100 * time.Millisecond, 2100 * time.Millisecond, 5100 * time.Millisecond,
		10100 * time.Millisecond, 61 * time.Second}[a%10]
	time.Sleep(d)
}

// move moves frames of one side all the way.
func (s *sim) move(a, b, c int) {
	l := s.links.at(a)
	n := 1 + c%5
	l.take(side(b), n)
	l.link.Deliver(side(b).Other(), n)
}

// trickle is a link so slow that pages are asked for which are about to be pushed.
func (s *sim) trickle(a, b, c int) {
	l := s.links.at(a)
	for range 1 + c%6 {
		for _, x := range []channeltest.Side{side(b), side(b + 1)} {
			l.take(x, 1)
			l.link.Deliver(x.Other(), 1)
			synctest.Wait()
		}
		time.Sleep(s.lim.PageStall)
		synctest.Wait()
	}
}

func (l *simLink) way(n int) *channeltest.Way {
	switch {
	case l.link != nil && n%2 == 0:
		return l.link.AB
	case l.link != nil:
		return l.link.BA
	case n%2 == 0:
		return l.wire.AB
	}
	return l.wire.BA
}

func (s *sim) room(a, b, c int) {
	l := s.links.at(a)
	l.way(b).Room([...]int{1, 100, 1000, 10000, 0}[c%5])
	l.slow()
}

func (s *sim) stall(a, b, c int) {
	l := s.links.at(a)
	if c%3 == 0 {
		l.way(b).Resume()
		return
	}
	l.way(b).Stall()
	l.slow()
}

func (s *sim) delay(a, b, c int) {
	l := s.links.at(a)
	l.way(b).Delay([...]time.Duration{0, time.Millisecond, 30 * time.Millisecond, 800 * time.Millisecond,
		2500 * time.Millisecond}[c%5])
	l.slow()
}

// slow says that the link may have become too slow for an end to bear.
func (l *simLink) slow() { l.slowed = true }

func (s *sim) pieces(a, b, c int) { s.links.at(a).way(b).Pieces([...]int{0, 1, 7, 100}[c%4]) }

// rekey is one of the ways to change keys.
func (s *sim) rekey(a, b, c int) {
	l := s.links.at(a)
	if !l.live() {
		return
	}
	switch x := l.assoc[b%2]; c % 4 {
	case 0, 1:
		x.KeyUpdate(frame.ChannelDiscovery)
	case 2:
		x.Ratchet()
	case 3:
		x.Rekem()
	}
}

// twice has one of the next frames arrive twice, spoil makes it unreadable.
func (s *sim) twice(a, b, c int) {
	l := s.links.at(a)
	l.damage(&l.doubled)
	l.way(b).Edit(channeltest.Nth(1+c%3, func(f channeltest.Frame) []channeltest.Frame {
		if f.Type == frame.Type(disco.TypeQuery) { // answered twice, it would splice two listings, and no requester could tell
			return []channeltest.Frame{f}
		}
		return channeltest.Twice(f)
	}))
}

func (s *sim) spoil(a, b, c int) {
	l := s.links.at(a)
	l.damage(&l.spoiled)
	l.way(b).Edit(channeltest.Nth(1+c%3, func(f channeltest.Frame) []channeltest.Frame {
		f.Payload = append(f.Payload, 0) // an octet after the end: the corr can still be read
		return []channeltest.Frame{f}
	}))
}

func (l *simLink) damage(how *bool) {
	*how = true
	l.rules.mu.Lock()
	l.rules.damaged = true
	l.rules.mu.Unlock()
}

// close ends an association, one way or another.
func (s *sim) close(a, b, c int) {
	l := s.links.at(a)
	l.over = true
	switch c % 4 {
	case 0:
		go l.ends[b%2].peer.Close()
	case 1:
		go l.ends[0].peer.Close()
		go l.ends[1].peer.Close()
	case 2:
		l.ends[b%2].peer.tr.Abort(0, errStalled)
	case 3:
		if l.link != nil {
			l.link.Cut()
		} else {
			l.wire.Cut()
		}
	}
}

// reopen makes another association where one has ended.
func (s *sim) reopen(a, _, _ int) {
	l := s.links.at(a)
	if l.live() {
		return
	}
	s.letGo(l)
	l.shut()
	for _, c := range s.calls {
		if c.end.link == l {
			c.stop()
		}
	}
	synctest.Wait()
	s.collect()
	s.forget(l)
	l.open()
}

// letGo frees what waits for the script, so that everything can come to an end.
func (s *sim) letGo(l *simLink) {
	for _, u := range s.subs {
		if u.end.link == l {
			u.free(true)
		}
	}
	for i := range 2 {
		w := l.way(i)
		w.Resume()
		w.Delay(0)
		w.Room(0)
		w.Pieces(0)
	}
}

// forget drops what belongs to an association that has ended.
func (s *sim) forget(l *simLink) {
	for _, c := range s.calls {
		if c.end.link == l && !c.over {
			s.fail("%v has not returned although its association has ended", c)
		}
	}
	s.calls = slices.DeleteFunc(s.calls, func(c *simCall) bool { return c.end.link == l })
	for _, u := range s.subs {
		if u.end.link == l && !u.told {
			s.fail("%v was not told of its end", u)
		}
	}
	s.subs = slices.DeleteFunc(s.subs, func(u *simSub) bool { return u.end.link == l })
}

// rest lets everything come to rest and compares all that is known with all that
// is shown.
func (s *sim) rest() {
	s.rushing = 0
	s.count.rests++
	for _, l := range s.links {
		s.letGo(l)
	}
	const step = 500 * time.Millisecond
	still := 0
	for i := 0; still < 3; i++ {
		moved := false
		for _, l := range s.links {
			for l.link != nil {
				n := 0
				for _, x := range []channeltest.Side{channeltest.A, channeltest.B} {
					n += l.take(x, 3)
					synctest.Wait()
					n += l.link.Deliver(x.Other(), 3)
					synctest.Wait()
				}
				if n == 0 {
					break
				}
				moved = true
			}
		}
		s.check()
		if s.fault != nil {
			return
		}
		if still++; moved || s.busy() != nil {
			still = 0
		}
		if i > 400 {
			s.fail("no rest after %v: %v", 400*step, s.busy())
			return
		}
		if still < 3 {
			time.Sleep(step)
		}
	}
	s.compare()
}

// busy returns what is still under way.
func (s *sim) busy() any {
	for _, c := range s.calls {
		if !c.over {
			return c
		}
	}
	for _, u := range s.subs {
		if u.end.link.live() && u.sub.Err() == nil && u.sub.Stale() {
			return u
		}
	}
	for _, l := range s.links {
		for i, e := range l.ends {
			if n, _ := l.way(i).UnderWay(); l.live() && (n > 0 || e.peer.Stats().Unsent > 0) {
				return e
			}
		}
	}
	return nil
}

// ---- records

// Records come in blocks, each of all kinds, whose agents name tools of the block.
const simBlock = 20

// simID is the record_id of a record, and simIndex the way back.
func simID(i int) record.ID {
	return record.ID([]byte{'r', byte('a' + i/simBlock), byte('a' + i%simBlock)})
}

func simIndex(id record.ID) int { return int(id[1]-'a')*simBlock + int(id[2]-'a') }

func simNames(recs []record.Record) string {
	var b strings.Builder
	for _, r := range recs {
		fmt.Fprintf(&b, " %s@%d", r.ID(), r.Revision())
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}

// simRecord is one of the contents that a record may have. Its kind depends on
// its record_id alone.
func simRecord(i, v int) record.Record {
	id, base := simID(i), i-i%simBlock
	i %= simBlock
	name := [...]string{"git.", "fs.", "Git."}[v%3]
	protocol := uint64(1 + v/3%3)
	var label *string
	if v%4 == 1 {
		s := fmt.Sprint("label ", v%7)
		label = &s
	}
	switch {
	case i < 3:
		class := [...]record.CarriageClass{record.ClassJSONRPC, record.ClassJSONRPC, record.ClassHTTP}[i]
		return must(record.Protocol{ID: id, ProtocolID: uint64(i + 1), CarriageClass: class, Label: label,
			Methods: []string{name}}.Record())
	case i < 5:
		return must(record.Carriage{ID: id, CarriageClass: record.CarriageClass(1 + v%5), Label: label}.Record())
	case i < 16:
		t := record.Tool{ID: id, Name: name + string(id), ProtocolID: protocol, Label: label}
		if n := [...]int{0, 0, 30, 120, 900}[v%5]; n > 0 {
			s := strings.Repeat("s", n)
			t.SchemaRef = &s
		}
		return must(t.Record())
	}
	a := record.Agent{ID: id, AgentID: name + "agent", Protocols: []uint64{protocol}, Label: label}
	switch v % 4 {
	case 1:
		a.Tools = []record.ID{simID(base + 5 + v%11)}
	case 2:
		a.Tools = []record.ID{simID(base + 5 + v%5), simID(base + 10 + v%6)}
	}
	return must(a.Record())
}

// simFilters are what is asked for.
var simFilters = [...]record.Filter{
	{},
	{},
	{Kinds: []record.Kind{record.KindTool}},
	{Kinds: []record.Kind{record.KindAgent, record.KindProtocol}},
	{ProtocolIDs: []uint64{1}},
	{ProtocolIDs: []uint64{3, 2}, Kinds: []record.Kind{record.KindTool, record.KindAgent}},
	{NamePrefix: "git.", HasPrefix: true},
	{NamePrefix: "fs.", HasPrefix: true, ProtocolIDs: []uint64{1, 2}},
	{NamePrefix: "", HasPrefix: true},
	{Kinds: []record.Kind{}},
	{ProtocolIDs: []uint64{300}},
}

// simMatches says by the letter of §6.1 whether a record is meant.
func simMatches(f record.Filter, r record.Record) bool {
	var protocols []uint64
	name, named := "", false
	restricted := true
	switch r.Kind() {
	case record.KindProtocol:
		p, _ := r.Protocol()
		protocols = []uint64{p.ProtocolID}
	case record.KindTool:
		t, _ := r.Tool()
		protocols, name, named = []uint64{t.ProtocolID}, t.Name, true
	case record.KindAgent:
		a, _ := r.Agent()
		protocols, name, named = a.Protocols, string(a.AgentID), true
	default:
		restricted = false
	}
	switch {
	case f.Kinds != nil && !slices.Contains(f.Kinds, r.Kind()):
		return false
	case f.ProtocolIDs != nil && restricted && !slices.ContainsFunc(protocols, func(p uint64) bool { return slices.Contains(f.ProtocolIDs, p) }):
		return false
	case f.HasPrefix && named && !strings.HasPrefix(name, f.NamePrefix):
		return false
	}
	return true
}
