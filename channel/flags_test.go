package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// A payload that is said to be compressed, or in parts, cannot be decoded: a
// request gets MalformedPayload without a corr, whatever its octets look like, and
// nothing else is taken. URG means nothing. (Generation 3 has neither URG nor FRAG;
// the association refuses them.)
//
// Covers: C34
func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		flag       frame.Flags
		generation int
		decoded    bool
	}{
		{0, 2, true}, {frame.FlagURG, 2, true}, {frame.FlagCOMP, 2, false}, {frame.FlagFRAG, 2, false},
		{0, 3, true}, {frame.FlagCOMP, 3, false},
	} {
		t.Run(fmt.Sprintf("%v in generation %d", tt.flag, tt.generation), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				info := channeltest.Info()
				info.Generation = tt.generation
				l := channeltest.NewLink(info, channeltest.Info())
				a, b := l.Ends()
				p, err := New(a, Config{Hub: hub(t, four(t))})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				s, err := channeltest.NewScript(b)
				if err != nil {
					t.Fatal(err)
				}
				l.BA.Edit(func(f channeltest.Frame) []channeltest.Frame {
					f.Flags |= tt.flag
					return []channeltest.Frame{f}
				})
				announced := ask(t, s, announce, "a2001901030281a4004270310101020104a200010101")
				want(t, "no answer to ANNOUNCE", announced)
				if n := p.Stats().Cached; (n == 1) != tt.decoded {
					t.Errorf("%d records of the ANNOUNCE are kept", n)
				}
				for typ, payload := range map[frame.Type]string{query: v1, subscribe_: v10} {
					got := ask(t, s, typ, payload)
					later(time.Second) // at most one such error a second
					if tt.decoded {
						if len(got) != 1 || got[0][:5] != "0101:" {
							t.Errorf("%04x gets %v", uint16(typ), got)
						}
						continue
					}
					want(t, "undecodable", got, errorFrame("", 1))
				}
			})
		})
	}
}

// A listing under way does not go on when a change of the set, and not only of the
// policy, hides something of it; one that hides nothing leaves it alone.
//
// Covers: DASP-010-03, C53
func TestHiddenByAChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "a"), tool("t2", "b"), tool("t3", "c"), tool("t4", "d"), tool("t5", "e"))
		visible := func(r record.Record) bool {
			name, _ := r.Name()
			return name != "secret"
		}
		_, s := scripted(t, Config{Hub: hub(t, set), Visible: visible, Limits: Limits{MaxPageRecords: 2}})
		follow := "a3001901000141010650" + cursorOf(t, ask(t, s, query, v1)[0])
		put(t, set, tool("t0", "new"), tool("t4", "else"))
		before := ask(t, s, query, follow)
		if len(before) != 1 || before[0][:5] != "0101:" {
			t.Fatalf("nothing is hidden: %v", before)
		}
		put(t, set, tool("t4", "secret"))
		want(t, "t4 is hidden", ask(t, s, query, follow), errorFrame("01", 5))
	})
}
