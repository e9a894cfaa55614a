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
