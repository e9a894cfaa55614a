package channel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

// The correlation discipline that Discovery takes over from the bridge: an id is
// there and unique, comes back octet for octet, and is what replies are matched
// by.
//
// Covers: DISC-2-05, DISC-4.2-04, DISC-4.2-05, DISC-4.2-06, BRIDGE-5-03
func TestCorrelationDiscipline(t *testing.T) {
	random := make([]byte, 64)
	rand.Read(random)
	for _, c := range []string{"\x01", string(random), strings.Repeat("\x00", 32), strings.Repeat("\xff", 64)} {
		bubble(t, func(t *testing.T) {
			corr := disco.Corr(c)
			set := newSet(t, many(3)...)
			_, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
			l.put(query, encoded(disco.AppendQuery(nil, &disco.Query{Corr: corr})))
			r, err := disco.ParseResult(unhex(l.take()[5:]), nil)
			if err != nil || r.Corr != corr {
				t.Errorf("RESULT under %x, want %x: %v", string(r.Corr), c, err)
			}
			l.put(subscribe_, encoded(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr})))
			for _, f := range l.takeAll() {
				if r, err := disco.ParseResult(unhex(f[5:]), nil); err != nil || r.Corr != corr {
					t.Errorf("a page under %x, want %x: %v", string(r.Corr), c, err)
				}
			}
			put(t, set, tool("t9", "x"))
			u, err := disco.ParseUpdate(unhex(l.take()[5:]), nil)
			if err != nil || u.Corr != corr {
				t.Errorf("UPDATE under %x, want %x: %v", string(u.Corr), c, err)
			}
			l.put(unsubscribe, encoded(disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: corr})))
			l.put(query, encoded(disco.AppendQuery(nil, &disco.Query{Corr: corr, Cursor: "x", HasCursor: true})))
			e, err := disco.ParseError(unhex(l.take()[5:]), nil)
			if err != nil || e.Corr != corr {
				t.Errorf("ERROR under %x, want %x: %v", string(e.Corr), c, err)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		var calls []*call
		seen := map[string]bool{}
		for range 20 {
			calls = append(calls, start(p, Query{}))
			if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		asked := l.takeAll()
		for _, f := range asked {
			if corr := corrOf(t, f); seen[corr] || strings.Trim(corr, "0") == "" {
				t.Errorf("corr %s", corr)
			} else {
				seen[corr] = true
			}
		}
		for i := len(asked) - 1; i >= 0; i-- { // the answers come in the other order
			corr := corrOf(t, asked[i])
			l.put(result, resultOf(corr, "", tool(corr, "x")))
		}
		synctest.Wait()
		for _, c := range calls {
			if c.err != nil || !seen[string(c.list.Records[0].ID())] {
				t.Fatal(c.err)
			}
			delete(seen, string(c.list.Records[0].ID()))
		}
		if len(seen) != 20 {
			t.Errorf("%d answers went to another", 20-len(seen))
		}
	})
}

// Covers: DISC-4.3-04, DISC-7.3-01
func TestUnsubscribeHasTheSubscriptionsCorr(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		one, c1 := follows(t, p, l, record.Filter{}, nil)
		two, c2 := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(c2, ""))
		two.Unsubscribe() // acknowledged
		want(t, "the second", l.takeAll(), "0106:a2001901060150"+c2)
		one.Unsubscribe() // not yet
		want(t, "the first", l.takeAll(), "0106:a2001901060150"+c1)
		golden := encoded(disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: "\x05"}))
		if hex.EncodeToString(golden) != v13 {
			t.Errorf("V13: %x", golden)
		}
	})
}

// Covers: DISC-8-04, C16
func TestAbsenceIsNoWithdrawal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		l.put(result, resultOf(corr, "", at("t1", "a", 1), at("t2", "b", 1)))
		c := start(p, Query{})
		synctest.Wait()
		l.put(result, resultOf(l.lastCorr(), "", at("t2", "b", 1)))
		synctest.Wait()
		l.put(announce, announceOf(at("t2", "b", 1)))
		l.put(update, updateOf(corr, []record.Record{at("t2", "c", 2)}))
		if _, ok := sub.Get("t1"); !ok || len(c.list.Records) != 1 {
			t.Error("t1 is gone from the view")
		}
		if _, confirmed, ok := p.Lookup("t1"); !ok || !confirmed {
			t.Error("t1 is gone from what was learned")
		}
		l.put(update, updateOf(corr, nil, "t1")) // that is one
		if _, _, ok := p.Lookup("t1"); ok || sub.Len() != 1 {
			t.Error("t1 is still there")
		}
	})
}

// Covers: DISC-8-06, DISC-8-07, C56
func TestNewAssociationGetsThePresent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "a"))
		h := hub(t, set)
		answers := func() (announced, listed string) {
			a, b, s := associated(t, channeltest.NewWire(), nil, nil, Config{Hub: h, AnnounceOnOpen: true}, nil)
			defer a.Close()
			if b != nil {
				t.Fatal("two peers")
			}
			synctest.Wait()
			for _, f := range s.Take() {
				announced += f.String()
			}
			s.SendHex(query, v1)
			synctest.Wait()
			for _, f := range s.Take() {
				listed += f.String()
			}
			return announced, listed
		}
		announced, listed := answers()
		if announced != "0103:a2001901030281"+hex.EncodeToString([]byte(must(tool("t1", "a").WithRevision(1), nil).Octets())) {
			t.Errorf("announced: %s", announced)
		}
		put(t, set, tool("t1", "b"), tool("t2", "c"))
		again, relisted := answers()
		now := ""
		for r := range set.Snapshot().All() {
			now += hex.EncodeToString([]byte(r.Octets()))
		}
		if again != "0103:a2001901030282"+now || relisted != "0101:a4001901010141010282"+now+"03f5" || relisted == listed {
			t.Errorf("afterwards: announced %s, listed %s", again, relisted)
		}
	})
}

// Covers: DISC-10-05, DASP-015-01, DGP-19.3-03
func TestSetIsSensitive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const secret = "payroll.delete-everything"
		var log strings.Builder
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		set := newSet(t, append(many(4), tool("secret-id", secret))...)
		h := hub(t, set)
		peer := func() (*Peer, *link) {
			return linked(t, Config{Hub: h, Logger: logger, Limits: Limits{MaxPageRecords: 2}})
		}
		_, one := peer()
		_, two := peer()
		one.putHex(query, v1)
		cur := cursorOf(t, one.take())
		two.putHex(query, v1)
		if other := cursorOf(t, two.take()); other == cur {
			t.Error("one cursor for two peers")
		}
		two.putHex(query, "a3001901000141010650"+cur)
		want(t, "another peer's cursor", two.takeAll(), errorFrame("01", 5))
		// Faults of every kind, with the names in them.
		name := hex.EncodeToString([]byte(secret))
		rec := "a400" + "49" + hex.EncodeToString([]byte("secret-id")) + "0103020104a20078" + fmt.Sprintf("%02x", len(secret)) + name + "0101"
		one.putHex(query, "a30019010001410104"+"7819"+name+"00", "a4001901000141010478"+"19"+name+"2000")
		one.putHex(announce, "a2001901030281"+rec+"00", "a2001901030282"+rec+"f6", "a2001901030281"+strings.Replace(rec, "0101", "0161", 1))
		one.putHex(errorMsg, "a4001901020141010299ff03"+"7819"+name)
		one.end(fmt.Errorf("the link is lost"))
		if log.Len() == 0 {
			t.Fatal("nothing was logged")
		}
		for _, s := range []string{secret, "secret-id", name, hex.EncodeToString([]byte("secret-id"))} {
			if strings.Contains(log.String(), s) {
				t.Errorf("the log has %s:\n%s", s, log.String())
			}
		}
	})
}

// Covers: DISC-10-11, DISC-7.1-03, DASP-013-02
func TestNothingReliesOnAnAnnouncement(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(3)...)
		// The responder answers in full, announced or not, and whatever it was told.
		_, l := linked(t, Config{Hub: hub(t, set), AnnounceOnOpen: true})
		l.putHex(announce, hex.EncodeToString(announceOf(many(3)...)))
		l.putHex(query, v1)
		l.putHex(subscribe_, "a200190104014105")
		for _, f := range l.takeAll()[1:] {
			r, err := disco.ParseResult(unhex(f[5:]), nil)
			if err != nil || len(r.Records) != 3 || !r.Complete {
				t.Errorf("suppressed: %v, %d records", err, len(r.Records))
			}
		}
		// The requester takes nothing announced for an answer, whether the peer is
		// silent or says that there is nothing.
		p, l := linked(t, Config{})
		l.put(announce, announceOf(many(3)...))
		sub, corr := follows(t, p, l, record.Filter{}, nil)
		c := start(p, Query{})
		synctest.Wait()
		list := l.lastCorr()
		if sub.Len() != 0 || c.done {
			t.Error("answered by an announcement")
		}
		l.put(result, resultOf(list, ""))
		l.put(result, resultOf(corr, ""))
		synctest.Wait()
		if c.err != nil || len(c.list.Records) != 0 || sub.Len() != 0 || p.Stats().Cached != 3 {
			t.Errorf("%v, %d in the view", c.err, sub.Len())
		}
		c = start(p, Query{})
		later(p.lim.RequestTimeout)
		if c.err != ErrTimeout {
			t.Errorf("a mute peer: %v", c.err)
		}
	})
	// A peer that was not there when it was announced finds all by asking.
	bubble(t, func(t *testing.T) {
		a, _ := pair(t, Config{}, Config{Hub: hub(t, newSet(t, many(3)...))})
		list, err := a.Query(context.Background(), Query{})
		if err != nil || len(list.Records) != 3 {
			t.Error(err)
		}
	})
}

// Covers: CH10-7-02, DISC-2-01, DISC-2-02, DISC-2-03, CORE-5-01, CORE-5-02, ACP-01
func TestChannelIsGatedByTheAssociation(t *testing.T) {
	control := []frame.ChannelID{frame.ChannelControl}
	for name, c := range map[string]struct {
		ours, theirs []frame.ChannelID // nil: Discovery too
		heard        bool              // is what the peer sends taken in
	}{
		"both":              {nil, nil, true},
		"we do not":         {control, nil, false},
		"the peer does not": {nil, control, true},
	} {
		bubble(t, func(t *testing.T) {
			client := &association.Config{Identity: channeltest.Identity(1), Channels: c.ours, PeerChannels: c.theirs}
			a, _, s := associated(t, channeltest.NewWire(), client, nil, Config{Hub: hub(t, four(t))}, nil)
			both := name == "both"
			_, err := a.Announce(t.Context(), many(1))
			if both != (err == nil) || !both && err != ErrNotAdvertised {
				t.Errorf("%s: Announce: %v", name, err)
			}
			if _, err := a.Subscribe(record.Filter{}, nil); both != (err == nil) {
				t.Errorf("%s: Subscribe: %v", name, err)
			}
			synctest.Wait()
			if n := len(s.Take()); n != map[bool]int{true: 2, false: 0}[both] {
				t.Errorf("%s: %d frames went out", name, n)
			}
			s.SendHex(announce, "a2001901030281a4004270390101020104a200010101")
			s.SendHex(query, v1)
			s.SendHex(subscribe_, v10)
			synctest.Wait()
			if n := len(s.Take()); n != map[bool]int{true: 2, false: 0}[both] {
				t.Errorf("%s: %d answers", name, n)
			}
			if _, _, heard := a.Lookup("p9"); heard != c.heard || a.Stats().Subscriptions != map[bool]int{true: 1, false: 0}[both] {
				t.Errorf("%s: heard: %v, %+v", name, heard, a.Stats())
			}
			if ended, _ := s.Ended(); ended {
				t.Errorf("%s: the association has ended", name)
			}
		})
	}
}

// Covers: CH10-7-04, CH10-7-05, DISC-3-05, C33, ACP-05
func TestTypesBelowAndBeyondAreNotDiscoverys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, four(t))})
		n := uint64(0)
		drop := func(typ frame.Type) {
			l.putHex(typ, v1)
			if f := l.take(); f != "" {
				t.Fatalf("type %#x: %s", uint16(typ), f)
			}
			n++
		}
		for typ := frame.Type(0x30); typ < 0x100; typ++ {
			drop(typ)
		}
		for _, typ := range []frame.Type{0x107, 0x108, 0x110, 0x111, 0x200, 0x7fff, 0x8000, 0xffff} {
			drop(typ)
		}
		if st := p.Stats(); st.UnknownType != n || st.FramesIn != [7]uint64{} || l.why() != nil {
			t.Errorf("UnknownType = %d of %d, ended: %v", st.UnknownType, n, l.why())
		}
	})
	for _, generation := range []int{2, 3} { // through an association
		bubble(t, func(t *testing.T) {
			gen := func(n byte) *association.Config {
				return &association.Config{Identity: channeltest.Identity(n), Generations: []int{generation}}
			}
			a, _, s := associated(t, channeltest.NewWire(), gen(1), gen(2), Config{}, nil)
			for _, typ := range []frame.Type{0x30, 0x35, 0x60, 0x80, 0xff, 0x107, 0xffff} {
				s.SendHex(typ, v1)
			}
			s.SendHex(query, v1)
			synctest.Wait()
			if in := s.Take(); len(in) != 1 || in[0].String() != "0101:"+v4 || a.Stats().UnknownType != 7 {
				t.Errorf("generation %d: %v, %+v", generation, in, a.Stats())
			}
		})
	}
}

// What each kind of failure looks like to the caller, and what is done about it
// by itself: only a stale cursor starts over, only a refused page is asked for
// again, and nothing but the code decides.
//
// Covers: DASP-012-01, DGP-12.1-01, DISC-9-02, C20
func TestFailuresAndWhatIsDone(t *testing.T) {
	for code, c := range map[disco.Code]struct {
		temporary bool
		asksAgain bool // when a further page is refused so
	}{
		disco.CodeMalformedPayload: {false, true}, // once, under a fresh corr [C1]
		disco.CodeKindMismatch:     {}, disco.CodeUnknownRecordKind: {}, disco.CodeFilterUnsupported: {},
		disco.CodeStaleCursor:         {false, true},
		disco.CodeSubscriptionRefused: {true, false},
		disco.CodeNotAdvertised:       {true, true},
	} {
		bubble(t, func(t *testing.T) {
			refuse := func(l *link, corr string) {
				l.putHex(errorMsg, errorFor(corr, byte(code)))
				synctest.Wait()
			}
			p, l := linked(t, Config{Limits: Limits{MaxRestarts: -1}})
			first := start(p, Query{})
			synctest.Wait()
			refuse(l, l.lastCorr())
			if disco.CodeOf(first.err) != code || Temporary(first.err) != c.temporary {
				t.Errorf("code %d: %v, temporary: %v", code, first.err, Temporary(first.err))
			}
			want(t, "nothing by itself", l.takeAll())

			p, l = linked(t, Config{})
			further := start(p, Query{})
			synctest.Wait()
			corr := l.lastCorr()
			l.put(result, resultOf(corr, "aa", tool("t1", "a")))
			synctest.Wait()
			l.takeAll()
			refuse(l, corr)
			later(time.Second)
			if again := len(l.takeAll()) > 0; again != c.asksAgain || again == further.done {
				t.Errorf("code %d on a further page: asked again: %v, %v", code, again, further.err)
			}
			if further.done && (disco.CodeOf(further.err) != code || p.Stats().Cached != 0) {
				t.Errorf("code %d: %v", code, further.err)
			}
			sub, corr := follows(t, p, l, record.Filter{}, nil)
			refuse(l, corr)
			later(30 * time.Second)
			if disco.CodeOf(sub.Err()) != code || len(l.takeAll()) > 0 && !c.asksAgain {
				t.Errorf("code %d on a subscription: %v", code, sub.Err())
			}
		})
	}
}

// Asking reads the set and does nothing else: the set is as it was, and nobody is
// asked what can be carried. What one association taught is advertised on no
// other.
//
// Covers: DASP-001-03, DASP-014-01, DGP-18.1-01, DISC-10-11
func TestAskingChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		set := record.NewSet(record.SetConfig{Carries: func(uint64) bool { asked++; return true }})
		put(t, set, many(10)...)
		before := asked
		digest := set.Digest()
		h := hub(t, set)
		p, l := linked(t, Config{Hub: h, Limits: Limits{QueryRate: -1}})
		for i := range 1000 {
			l.putHex(query, v1, "a30019010001410202"+fmt.Sprintf("81%02x", i%6))
			l.takeAll()
		}
		l.put(announce, announceOf(tool("foreign", "x"), must(record.Carriage{ID: "c", CarriageClass: record.ClassJSONRPC}.Record())))
		if set.Digest() != digest || asked != before || p.Stats().Cached != 2 {
			t.Errorf("the set changed, or was asked %d times; %d cached", asked-before, p.Stats().Cached)
		}
		_, other := linked(t, Config{Hub: h})
		l.putHex(query, v1)
		other.putHex(query, v1)
		if a, b := l.take(), other.take(); a != b || strings.Contains(b, hex.EncodeToString([]byte("foreign"))) {
			t.Error("what was learned is advertised")
		}
	})
}

// Covers: DGP-22-03, DGP-22-07, DASP-004-01, C43, DISC-8-03
func TestEventsRepeatAndCursorsAreNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		var ev recorder
		sub, corr := follows(t, p, l, record.Filter{}, ev.handle)
		l.put(result, resultOf(corr, ""))
		u := updateOf(corr, []record.Record{at("t1", "a", 2)}, "t9")
		l.put(update, u)
		digest := sub.Digest()
		want(t, "once", ev.take(), "synced", "added t1/2")
		for range 3 {
			l.put(update, u)
		}
		want(t, "and no more", ev.take())
		if sub.Digest() != digest {
			t.Error("the view changed")
		}

		// tolerant and cursor mean nothing on a SUBSCRIBE, whatever they hold.
		_, l = linked(t, Config{Hub: hub(t, newSet(t, many(3)...)), Limits: Limits{MaxPageRecords: 2}})
		l.putHex(query, v1)
		cur := cursorOf(t, l.take())
		for i, tail := range []string{"0650" + cur, "0506", "05f5", "06f6"} {
			l.putHex(subscribe_, fmt.Sprintf("a30019010401410%d", i)+tail)
			if got := l.takeAll(); len(got) != 2 || !strings.Contains(got[0], hex.EncodeToString([]byte("t00000"))) {
				t.Errorf("%s: not the whole snapshot: %v", tail, got)
			}
		}

		// Who answers a QUERY may refuse a SUBSCRIBE: nothing else is tried.
		p, l = linked(t, Config{})
		c := start(p, Query{})
		synctest.Wait()
		l.put(result, resultOf(l.lastCorr(), "", tool("t1", "a")))
		sub, corr = follows(t, p, l, record.Filter{}, nil)
		l.putHex(errorMsg, errorFor(corr, 6))
		later(time.Minute)
		want(t, "no polling by itself", l.takeAll())
		if !c.done || c.err != nil || sub.Err() == nil || sub.Len() != 0 {
			t.Errorf("%v, %v", c.err, sub.Err())
		}
	})
}

// Covers: ACP-02, ACP-04, ACP-06, ACP-07
func TestCapabilityGate(t *testing.T) {
	// Only what is there and true permits, and nothing panics.
	for name, change := range map[string]func(*frame.Info){
		"nothing known":     func(i *frame.Info) { *i = frame.Info{} },
		"not ours":          func(i *frame.Info) { i.Advertised = false },
		"not theirs":        func(i *frame.Info) { i.PeerAdvertised = false },
		"an odd generation": func(i *frame.Info) { *i = frame.Info{Generation: -7} },
	} {
		bubble(t, func(t *testing.T) {
			p, s := scripted(t, Config{Hub: hub(t, four(t)), Visible: func(record.Record) bool { panic("a policy that fails") }}, change)
			for typ, payloads := range tampered {
				for _, payload := range payloads {
					s.SendHex(typ, payload)
					s.SendHex(typ, payload[:len(payload)/4*2])
				}
			}
			want(t, name, came(s))
			if _, err := p.Query(t.Context(), Query{}); err != ErrNotAdvertised {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	// What the association does itself is not gated, and what is gated is frozen.
	bubble(t, func(t *testing.T) {
		client := &association.Config{Identity: channeltest.Identity(1), Channels: []frame.ChannelID{frame.ChannelDiscovery}}
		w := channeltest.NewWire()
		ca, sa, err := channeltest.Associate(t.Context(), w.A, w.B, client, nil)
		if err != nil {
			t.Fatal(err)
		}
		client.Channels[0], client.PeerChannels = frame.ChannelControl, []frame.ChannelID{frame.ChannelControl}
		tc, err := ca.Transport(frame.ChannelDiscovery)
		if err != nil {
			t.Fatal(err)
		}
		ts, err := sa.Transport(frame.ChannelDiscovery)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Disabled: FeatureDiscovery}
		p, err := New(tc, cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Disabled = 0
		defer p.Close()
		s, err := channeltest.NewScript(ts)
		if err != nil {
			t.Fatal(err)
		}
		s.SendHex(query, "a3001901000141012009") // malformed besides: the gate comes first
		want(t, "the gate", came(s), errorFrame("01", 7))
		if err := sa.Ping(t.Context(), frame.ChannelDiscovery); err != nil {
			t.Errorf("PING: %v", err)
		}
		if err := sa.KeyUpdate(frame.ChannelDiscovery); err != nil {
			t.Errorf("KEY_UPDATE: %v", err)
		}
		s.SendHex(query, v1)
		want(t, "the gate again", came(s), errorFrame("01", 7))
		sa.Close()
		synctest.Wait()
		if p.Wait() == nil {
			t.Error("CLOSE")
		}
	})
}
