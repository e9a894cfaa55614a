package channel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// A flushLink is a link that can be flushed, and keeps what was then there to send.
type flushLink struct {
	*link
	flushed []disco.Query
}

func (l *flushLink) Flush() {
	b, typ, ok := l.user.Append(nil)
	if !ok || typ != frame.Type(disco.TypeQuery) {
		l.t.Errorf("flushed %v, %v", typ, ok)
		return
	}
	q, err := disco.ParseQuery(b, nil)
	if err != nil {
		l.t.Error(err)
	}
	l.flushed = append(l.flushed, q)
	l.user.Written()
}

// The page after the one that came is asked for before this is copied, on the
// reading goroutine, if this will be taken.
//
// Covers: C1, C44
func TestPagesAskedForAhead(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, x := range map[string]struct {
		limits Limits
		query  Query
		page   string // after the corr; a RESULT that says there is more
		asked  bool
	}{
		"a page":                  {asked: true},
		"of nothing":              {page: "028003f4044100", asked: true},
		"too long":                {limits: Limits{MaxListLen: 900}},
		"just not too long":       {limits: Limits{MaxListLen: 128 + 2*(1100+recordOverhead)}, asked: true},
		"beyond the peer's share": {limits: Limits{MaxPeerMemory: 900}},
		"of an unknown kind":      {page: "0281a400410b0109020104a003f4044100"},
		"the same, tolerated":     {query: Query{Tolerant: true}, page: "0281a400410b0109020104a003f4044100"}, // later: what is skipped is seen then
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := &flushLink{link: &link{t: t, info: channeltest.Info(), done: make(chan struct{})}}
				p, err := New(l, Config{Limits: x.limits})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				c := start(p, x.query)
				synctest.Wait()
				corr := corrOf(t, l.take())
				if x.page == "" {
					l.putHex(result, page(corr, "4107", tool("t1", long), tool("t2", "b")))
				} else {
					l.putHex(result, "a50019010101"+fmt.Sprintf("%02x", 0x40+len(corr)/2)+corr+x.page)
				}
				if asked := len(l.flushed) > 0; asked != x.asked {
					t.Errorf("asked ahead: %v", asked)
				}
				if !x.asked {
					return
				}
				if q := l.flushed[0]; q.Corr.String() != corr || !q.HasCursor || len(q.Cursor) != 1 {
					t.Errorf("%+v", q)
				}
				if f := l.take(); f != "" {
					t.Errorf("and again: %s", f)
				}
				l.putHex(result, page(corr, "", tool("t3", "c"))) // the last
				synctest.Wait()
				if len(l.flushed) != 1 {
					t.Errorf("%d asked for ahead", len(l.flushed))
				}
				if got := c.list; c.err != nil || got.Pages != 2 || len(got.Records) < 1 || got.Records[len(got.Records)-1].ID() != "t3" {
					t.Errorf("%+v, %v", got, c.err)
				}
				if st := p.Stats(); st.Pusher || st.Outstanding != 0 || st.Late != 0 || p.holds() != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A listing given up between the two is not served any more.
func TestPagesAskedForAheadInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &flushLink{link: &link{t: t, info: channeltest.Info(), done: make(chan struct{})}}
		p, err := New(l, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Query(ctx, Query{})
		synctest.Wait()
		corr := corrOf(t, l.take())
		cancel()
		synctest.Wait()
		l.putHex(result, page(corr, "4107", tool("t1", "a")))
		if len(l.flushed) != 0 || p.Stats().Late != 1 {
			t.Errorf("%d asked, %+v", len(l.flushed), p.Stats())
		}
	})
}

// A callback that does not return holds up no other, even if few wait.
func TestBlockedCallbackAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		release := make(chan struct{})
		ran := make([]bool, 3)
		for i := range ran {
			if _, err := p.Subscribe(record.Filter{}, func(e Event) {
				if i == 0 {
					<-release
				}
				ran[i] = true
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range l.takeAll() {
			l.putHex(result, page(corrOf(t, f), ""))
		}
		time.Sleep(2 * callPatience)
		synctest.Wait()
		if ran[0] || !ran[1] || !ran[2] {
			t.Errorf("%v ran", ran)
		}
		close(release)
		synctest.Wait()
		p.mu.Lock()
		if !ran[0] || p.calls.running != 0 {
			t.Errorf("%v ran, %d goroutines", ran, p.calls.running)
		}
		p.mu.Unlock()
		if err := p.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Places of exchanges are used again, numbers are not, and whatever ends when, all
// under way are found.
//
// Covers: C21, C23
func TestExchangePlaces(t *testing.T) {
	var e exchanges
	copy(e.prefix[:], "random88")
	if e.find(0) != nil || e.find(1) != nil {
		t.Error("found among none")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	live := map[uint64]exchange{}
	var numbers, dead []uint64
	check := func() {
		t.Helper()
		n := 0
		for number, x := range e.all() {
			if live[number] != x {
				t.Errorf("%d is another", number)
			}
			n++
		}
		if n != len(live) || e.n != n {
			t.Errorf("%d, %d under way, want %d", n, e.n, len(live))
		}
		for m, x := range live {
			if e.find(m) != x || number(&e, e.corr(m)) != m || number(&e, []byte(e.corr(m))) != m {
				t.Errorf("%d is not found", m)
			}
		}
		for _, m := range dead {
			if e.find(m) != nil {
				t.Errorf("%d is found", m)
			}
		}
	}
	last := uint64(0)
	for i := range 3000 {
		x := new(listing)
		m := e.begin(x)
		if m <= last || len(e.corr(m)) != ownCorrLen {
			t.Errorf("number %d after %d", m, last)
		}
		last = m
		live[m] = x
		numbers = append(numbers, m)
		for len(numbers) > 60 || len(numbers) > 20 && i > 1000 { // those of the beginning mostly stay
			at := len(numbers) - 1 - rng.IntN(min(20, len(numbers)))
			m := numbers[at]
			numbers = append(numbers[:at], numbers[at+1:]...)
			e.end(m)
			e.end(m)
			delete(live, m)
			dead = append(dead, m)
		}
		if i%50 == 0 {
			check()
		}
	}
	if len(e.places) != 128 || last > 8000 {
		t.Errorf("%d places for at most 61, numbers up to %d for 3000", len(e.places), last)
	}
	for _, c := range []string{"", "random88", "random89\x00\x00\x00\x00\x00\x00\x00\x01", "random88\x00\x00\x00\x00\x00\x00\x00\x00",
		"random88\xff\xff\xff\xff\xff\xff\xff\xff", "random88\x00\x00\x00\x00\x00\x00\x00\x01\x00"} {
		if x := e.find(number(&e, c)); x != nil && c != "" {
			t.Errorf("%q is found", c)
		}
	}
}
