package channel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

const (
	query       = frame.Type(0x0100)
	result      = frame.Type(0x0101)
	errorMsg    = frame.Type(0x0102)
	announce    = frame.Type(0x0103)
	subscribe_  = frame.Type(0x0104)
	update      = frame.Type(0x0105)
	unsubscribe = frame.Type(0x0106)
)

// The golden payloads of the ledger's A12 that a responder meets or makes.
const (
	v1  = "a200190100014101"
	v4  = "a400190101014101028003f5"
	v6  = "a4001901010141010284a4004261310104020104a3004261670181010281427431a4004263310102020104a10001a4004270310101020104a200010101a4004274310103020104a300676769742e6c6f670101020003f5"
	v10 = "a300190104014105028103"
	v11 = "a3001901050141050281a4004274310103020204a300676769742e6c6f6701010200"
	v12 = "a3001901050141050381427431"
	v13 = "a200190106014105"
)

// Covers: DISC-6.1-01, DISC-6.2-01, DISC-6.2-07, C41
func TestQueryAnswers(t *testing.T) {
	t.Run("four kinds", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			// V6 writes the agent_id as the two octets "ag".
			set := newSet(t,
				must(record.Agent{ID: "a1", AgentID: "ag", Protocols: []uint64{1}, Tools: []record.ID{"t1"}}.Record()),
				must(record.Carriage{ID: "c1", CarriageClass: record.ClassJSONRPC}.Record()),
				must(record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC}.Record()),
				tool("t1", "git.log"))
			_, s := scripted(t, Config{Hub: hub(t, set)})
			want(t, "V1 gets V6", ask(t, s, query, v1), "0101:"+v6)
		})
	})
	t.Run("nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			_, s := scripted(t, Config{})
			want(t, "V1 gets V4", ask(t, s, query, v1), "0101:"+v4)
		})
	})
}

// Covers: DISC-4.1-02, DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-10, DISC-4.1-11, DISC-4.2-02, DISC-4.2-03, DISC-9-03, C4, C10
func TestQueryRefusals(t *testing.T) {
	for _, c := range []struct{ name, payload, corr string }{
		{"N1", "05", ""}, {"N2", "a1180000", ""}, {"N3", "a2001a00000100014101", "01"},
		{"N4", "a201410100190100", "01"}, {"N5", "a300190100014101014102", ""},
		{"N6", "bf00190100014101ff", "01"}, {"N7", "a3001901000141012009", "01"},
		{"N9", "a2001901000140", ""}, {"N10", "a200190100016161", ""},
		{"N12", "a300190100014101616101", "01"}, {"N13", "a3001901000141010501", "01"},
		{"N14", "a30019010001410102f6", "01"}, {"N15", "a3001901000141010461ff", "01"},
		{"N21", "a1014101", "01"}, {"N22", "a100190100", ""},
		{"N24", "a200190100015841" + strings.Repeat("00", 65), ""},
		{"N25", "a20019010001410100", "01"}, {"N26", "a3001901000141010281f93c00", "01"},
		{"F05 array", "a300190100014101029bffffffffffffffff", ""},
		{"F07", "a30019010001410102" + strings.Repeat("81", 1000), ""},
		{"F13 nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, s := scripted(t, Config{Hub: hub(t, four(t))})
				want(t, c.name, ask(t, s, query, c.payload), errorFrame(c.corr, 1))
				if n := p.Stats().Malformed; n != 1 {
					t.Errorf("Malformed = %d, want 1", n)
				}
				want(t, "the peer still answers", ask(t, s, query, v1)[:1], ask(t, s, query, v1)[0])
			})
		})
	}
	t.Run("N8", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			_, s := scripted(t, Config{})
			want(t, "another frame_kind", ask(t, s, query, "a200190104014101"), errorFrame("01", 2))
		})
	})
}

// Covers: C4
func TestUncorrelatedErrorsAreFew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		want(t, "one a second", ask(t, s, query, "05", "05", "05"), errorFrame("", 1))
		if n := p.Stats().SuppressedErrors; n != 2 {
			t.Errorf("SuppressedErrors = %d, want 2", n)
		}
		later(time.Second)
		want(t, "and another later", ask(t, s, query, "05"), errorFrame("", 1))
	})
}

// Covers: DISC-3-06, DISC-7.1-01, DISC-7.3-02, DISC-7.3-03, CH10-7-04, C4, C33
func TestNothingElseIsAnswered(t *testing.T) {
	for typ, payloads := range map[frame.Type][]string{
		result:      {v4, "a3001901010141010280", "05", "a200190102014101", ""},
		errorMsg:    {"a3001901020141010204", "a2001901020207", "05", "a1014101"},
		announce:    {"a2001901030281a4004270310101020104a200010101", "05", "a2001901000280", "a100190103"},
		update:      {v11, v12, "a200190105014105", "05"},
		unsubscribe: {v13, v13, "a200190106014163", "05", "a100190106"},
		0x0107:      {v1}, 0x0030: {v1}, 0x00ff: {v1}, 0xffff: {v1},
	} {
		t.Run(fmt.Sprintf("%#x", typ), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, s := scripted(t, Config{Hub: hub(t, four(t))})
				want(t, "silence", ask(t, s, typ, payloads...))
				if got := ask(t, s, query, v1); len(got) != 1 {
					t.Fatalf("the peer does not answer any more: %v", got)
				}
			})
		})
	}
}

// Covers: DISC-2-02, DISC-2-03, CH10-7-02, C8, C13
func TestUnadvertised(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Hub: hub(t, four(t))}, func(i *frame.Info) { i.Advertised = false })
		want(t, "silence", ask(t, s, query, v1))
		want(t, "silence", ask(t, s, announce, "a2001901030281a4004270310101020104a200010101"))
		if st := p.Stats(); st.Unadvertised != 2 || st.Cached != 0 {
			t.Errorf("Unadvertised = %d, Cached = %d, want 2, 0", st.Unadvertised, st.Cached)
		}
	})
}

// Covers: C13, ACP-03
func TestDiscoveryDisabled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s := scripted(t, Config{Hub: hub(t, four(t)), Disabled: FeatureDiscovery})
		want(t, "before anything decodes", ask(t, s, query, "a3001901000141012009"), errorFrame("01", 7))
		want(t, "subscribe", ask(t, s, subscribe_, v10), errorFrame("05", 7))
		want(t, "announce", ask(t, s, announce, "a2001901030281a4004270310101020104a200010101"))
	})
}

// Covers: DISC-2-07, CORE-4.4-01, CORE-4.4-02, C14, C45
func TestLeadingTLVs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{})
		want(t, "an ignorable TLV", ask(t, s, query, "7f000001aa"+v1), "0101:"+v4)
		want(t, "a critical TLV", ask(t, s, query, "80010000"+v1))
		want(t, "a bridge envelope", ask(t, s, query, "0010000401010100"+v1))
		if st := p.Stats(); st.CriticalTLV != 1 || st.BridgeOnDiscovery != 1 {
			t.Errorf("CriticalTLV = %d, BridgeOnDiscovery = %d, want 1, 1", st.CriticalTLV, st.BridgeOnDiscovery)
		}
		want(t, "a truncated TLV", ask(t, s, query, "7f0000ff"), errorFrame("", 1))
	})
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{}, func(i *frame.Info) { i.Generation = 3 })
		want(t, "a critical TLV in generation 3", ask(t, s, query, "80010000"+v1))
		if ended, _ := s.Ended(); !ended {
			t.Error("the association lives on")
		}
		if err := p.Wait(); err == nil {
			t.Error("no cause")
		}
	})
}

// Covers: C12
func TestFloatInIgnoredValue(t *testing.T) {
	const f3 = "a3001901000141011863a32001616102617af93e00"
	bubble(t, func(t *testing.T) {
		_, s := scripted(t, Config{})
		want(t, "generation 2", ask(t, s, query, f3), "0101:"+v4)
	})
	bubble(t, func(t *testing.T) {
		_, s := scripted(t, Config{}, func(i *frame.Info) { i.Generation = 3 })
		want(t, "generation 3", ask(t, s, query, f3), errorFrame("01", 1))
	})
}

// Covers: DISC-9-04, DISC-7.2-02, C6, DGP-1.3-03
func TestDisabledFeatures(t *testing.T) {
	for _, c := range []struct {
		name    string
		off     Feature
		typ     frame.Type
		payload string
		code    byte
	}{
		{"kinds", FeatureKinds, query, "a300190100014101028103", 4},
		{"protocol_ids", FeatureProtocolIDs, query, "a300190100014101038101", 4},
		{"name_prefix", FeatureNamePrefix, query, "a30019010001410104646769742e", 4},
		{"tolerant", FeatureTolerant, query, "a30019010001410105f5", 4},
		{"cursor", FeatureCursor, query, "a3001901000141010641aa", 4},
		{"kinds on subscribe", FeatureKinds, subscribe_, "a300190104014101028103", 4},
		{"subscriptions", FeatureSubscriptions, subscribe_, "a200190104014101", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, s := scripted(t, Config{Hub: hub(t, four(t)), Disabled: c.off})
				want(t, c.name, ask(t, s, c.typ, c.payload), errorFrame("01", c.code))
			})
		})
	}
	bubble(t, func(t *testing.T) {
		_, s := scripted(t, Config{})
		want(t, "an unknown key is no filter", ask(t, s, query, "a30019010001410118636178"), "0101:"+v4)
	})
}

// Covers: DISC-4.3-03, DISC-4.3-05, DISC-7.2-01, DISC-7.2-02, DISC-7.2-04, DISC-7.2-05, DISC-7.3-01, DISC-5-04, DISC-8-01
func TestSubscription(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := four(t)
		p, s := scripted(t, Config{Hub: hub(t, set)})
		want(t, "V10", ask(t, s, subscribe_, v10), "0101:a4001901010141050281a4004274310103020104a300676769742e6c6f670101020003f5")
		put(t, set, must(record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC, Methods: []string{"x"}}.Record()))
		want(t, "a change outside the filter", came(s))
		put(t, set, tool("t1", "git.log"))
		want(t, "the same contents again", came(s))
		label := "Log"
		put(t, set, must(record.Tool{ID: "t1", Label: &label, Name: "git.log", ProtocolID: 1, Effect: effect(record.ReadOnly)}.Record()))
		want(t, "a replacement", came(s), "0105:a3001901050141050281a500427431010302020363"+"4c6f67"+"04a300676769742e6c6f6701010200")
		withdraw(t, set, "a1", "t1")
		want(t, "V12", came(s), "0105:"+v12)
		put(t, set, tool("t1", "git.log"))
		want(t, "back at a greater revision", came(s), "0105:a3001901050141050281a4004274310103020304a300676769742e6c6f6701010200")
		want(t, "V13", ask(t, s, unsubscribe, v13))
		withdraw(t, set, "t1")
		want(t, "no UPDATE any more", came(s))
		if n := p.Stats().Subscriptions; n != 0 {
			t.Errorf("%d subscriptions left", n)
		}
	})
}

// Covers: DISC-7.2-06
func TestLeavingTheFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "git.log"))
		_, s := scripted(t, Config{Hub: hub(t, set)})
		ask(t, s, subscribe_, "a300190104014105038101")
		put(t, set, toolOn("t1", "git.log", 2))
		want(t, "leaves protocol 1", came(s), "0105:"+v12)
		put(t, set, toolOn("t1", "git.log", 1))
		want(t, "comes back", came(s), "0105:a3001901050141050281a4004274310103020304a300676769742e6c6f6701010200")
	})
}

// Covers: C21, DISC-4.2-04
func TestDuplicateCorr(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "git.log"))
		p, s := scripted(t, Config{Hub: hub(t, set)})
		got := ask(t, s, subscribe_, v10, v10)
		if len(got) != 1 {
			t.Fatalf("got %v, want one snapshot", got)
		}
		want(t, "QUERY under a live corr", ask(t, s, query, "a200190100014105"))
		if n := p.Stats().DuplicateCorr; n != 2 {
			t.Errorf("DuplicateCorr = %d, want 2", n)
		}
		put(t, set, toolOn("t1", "git.log", 2))
		if got := came(s); len(got) != 1 {
			t.Fatalf("the subscription lost its updates: %v", got)
		}
		ask(t, s, unsubscribe, v13)
		if got := ask(t, s, query, "a200190100014105"); len(got) != 1 {
			t.Fatalf("a finished corr is not free: %v", got)
		}
	})
}

// Covers: DISC-10-06, DISC-10-07, C20
func TestResponderBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Limits: Limits{MaxSubscriptions: 2}})
		got := ask(t, s, subscribe_, "a200190104014101", "a200190104014102", "a200190104014103")
		want(t, "the third is refused", got[2:], errorFrame("03", 6))
		ask(t, s, unsubscribe, "a200190106014101")
		if got := ask(t, s, subscribe_, "a200190104014104"); !strings.HasPrefix(got[0], "0101:") {
			t.Errorf("no room after UNSUBSCRIBE: %v", got)
		}
		if n := p.Stats().SubsRefused; n != 1 {
			t.Errorf("SubsRefused = %d", n)
		}
	})
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Limits: Limits{QueryRate: 1, QueryBurst: 2}})
		want(t, "over the burst", ask(t, s, query, v1, v1, v1), "0101:"+v4, "0101:"+v4, errorFrame("01", 7))
		want(t, "a subscription", ask(t, s, subscribe_, v10), errorFrame("05", 6))
		later(time.Second)
		want(t, "refilled", ask(t, s, query, v1), "0101:"+v4)
		if n := p.Stats().RateLimited; n != 2 {
			t.Errorf("RateLimited = %d", n)
		}
	})
}

// many returns n tools, t00000 on.
func many(n int) (recs []record.Record) {
	for i := range n {
		recs = append(recs, tool(fmt.Sprintf("t%05d", i), fmt.Sprintf("tool.%05d", i)))
	}
	return recs
}

// cursorOf cuts the cursor out of a RESULT that has one of ours.
func cursorOf(t *testing.T, res string) string {
	t.Helper()
	i := strings.LastIndex(res, "03f40450")
	if i < 0 || len(res)-i != 8+32 {
		t.Fatalf("no cursor in …%s", res[max(0, len(res)-60):])
	}
	return res[i+8:]
}

// Covers: DISC-6.2-02, DISC-6.2-03, DISC-6.2-04, DISC-6.2-06, DASP-005-02, DASP-005-04, DASP-006-01, DASP-006-02, C1, C2, C3
func TestPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(5)...)
		_, s := scripted(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
		first := ask(t, s, query, v1)[0]
		cur := cursorOf(t, first)
		withdraw(t, set, "t00003") // the listing is of the moment it began
		next := func(corr, cur string) string {
			got := ask(t, s, query, "a300190100"+"0141"+corr+"0650"+cur)
			if len(got) != 1 {
				t.Fatalf("got %v", got)
			}
			return got[0]
		}
		second := next("01", cur) // under the finished corr
		if !strings.Contains(second, fmt.Sprintf("%x", "tool.00003")) {
			t.Error("the second page lacks a record of the first page's set")
		}
		last := next("02", cursorOf(t, second)) // under a fresh one
		if !strings.HasSuffix(last, "03f5") || !strings.Contains(last, fmt.Sprintf("%x", "tool.00004")) {
			t.Errorf("last page: %s", last)
		}
		if again := next("01", cur); again != second {
			t.Errorf("the same page twice:\n%s\n%s", again, second)
		}
		flipped := "ff" + cur[2:]
		if cur[:2] == "ff" {
			flipped = "00" + cur[2:]
		}
		want(t, "another cursor", ask(t, s, query, "a3001901000141010650"+flipped), errorFrame("01", 5))
		want(t, "no octets", ask(t, s, query, "a3001901000141010640"), errorFrame("01", 5))
		want(t, "another filter", ask(t, s, query, "a4001901000141010281030650"+cur), errorFrame("01", 5))
		want(t, "tolerant now", ask(t, s, query, "a40019010001410105f50650"+cur), errorFrame("01", 5))
		want(t, "tolerant false is the default", ask(t, s, query, "a40019010001410105f40650"+cur), second)
		later(61 * time.Second)
		want(t, "expired", ask(t, s, query, "a3001901000141010650"+cur), errorFrame("01", 5))
	})
}

// Covers: C2, DASP-006-04
func TestSnapshotsAreFew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Hub: hub(t, newSet(t, many(5)...)), Limits: Limits{MaxPageRecords: 2}})
		var curs []string
		for range 9 {
			curs = append(curs, cursorOf(t, ask(t, s, query, v1)[0]))
		}
		want(t, "the ninth listing evicts the first", ask(t, s, query, "a3001901000141010650"+curs[0]), errorFrame("01", 5))
		if got := ask(t, s, query, "a3001901000141010650"+curs[1]); !strings.HasPrefix(got[0], "0101:") {
			t.Errorf("the second is gone too: %v", got)
		}
		if n := p.Stats().Snapshots; n != 8 {
			t.Errorf("%d snapshots", n)
		}
	})
}

// Covers: C1
func TestPushPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := scripted(t, Config{Hub: hub(t, newSet(t, many(5)...)), PushPages: true, Limits: Limits{MaxPageRecords: 2}})
		got := ask(t, s, query, v1)
		if len(got) != 3 || !strings.HasSuffix(got[2], "03f5") {
			t.Fatalf("got %d pages", len(got))
		}
		if n := p.Stats().Unanswered; n != 0 {
			t.Errorf("%d unanswered", n)
		}
	})
}

// Covers: DISC-6.3-01, DISC-6.3-02, DISC-6.3-03, DISC-9-05, DISC-9-06, C30
func TestUnrepresentable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := record.NewSet(record.SetConfig{Carries: carries, MaxRecordLen: 1 << 20})
		put(t, set, tool("t1", "a"), tool("t2", strings.Repeat("b", 3000)), tool("t3", "c"))
		_, s := scripted(t, Config{Hub: hub(t, set), Limits: Limits{MaxFrameLen: 2000}})
		want(t, "not tolerant", ask(t, s, query, v1), errorFrame("01", 3))
		want(t, "subscription", ask(t, s, subscribe_, "a200190104014105"), errorFrame("05", 3))
		want(t, "tolerant", ask(t, s, query, "a30019010001410105f5"),
			"0101:a4001901010141010282a4004274310103020104a3006161010102"+"00a4004274330103020104a3006163010102"+"0003f5")
		want(t, "a filter that leaves it out", ask(t, s, query, "a3001901000141010461"+"61"),
			"0101:a4001901010141010281a4004274310103020104a3006161010102"+"0003f5")
	})
}

// Covers: DISC-10-03, DISC-10-04, C38, C53, C55, DASP-010-03
func TestVisibility(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := four(t)
		hidden := map[record.ID]bool{}
		visible := func(r record.Record) bool {
			if r.ID() == "p1" {
				panic("a policy that fails")
			}
			return !hidden[r.ID()]
		}
		p, s := scripted(t, Config{Hub: hub(t, set), Visible: visible, Limits: Limits{MaxPageRecords: 1}})
		page := ask(t, s, query, v1)[0]
		got := ask(t, s, subscribe_, "a200190104014105")
		if len(got) != 3 { // a1, c1, t1
			t.Fatalf("snapshot of %d pages: %v", len(got), got)
		}
		hidden["t1"] = true
		p.Refresh()
		want(t, "the tool and the agent that names it", came(s),
			"0105:a3001901050141050381426131", "0105:"+v12)
		want(t, "the listing does not go on", ask(t, s, query, "a3001901000141010650"+cursorOf(t, page)), errorFrame("01", 5))
		hidden["t1"] = false
		p.Refresh()
		want(t, "back at the same revisions", came(s),
			"0105:a3001901050141050281a4004261310104020104a30041670181010281427431",
			"0105:a3001901050141050281a4004274310103020104a300676769742e6c6f6701010200")
		hidden["a1"], hidden["c1"], hidden["t1"] = true, true, true
		p.Refresh()
		came(s)
		want(t, "nothing to see", ask(t, s, query, v1), "0101:"+v4)
	})
}

// Covers: DISC-8-05, DISC-8-07, DISC-4.3-06, CH10-7-02
func TestNothingSurvives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(5)...)
		h := hub(t, set)
		p, s := scripted(t, Config{Hub: h, Limits: Limits{MaxPageRecords: 2}})
		cur := cursorOf(t, ask(t, s, query, v1)[0])
		ask(t, s, subscribe_, "a200190104014105")
		s.Close()
		synctest.Wait()
		st := p.Stats()
		if st.Subscriptions+st.Snapshots+st.Cached+st.Unsent+st.Unanswered != 0 {
			t.Errorf("left after the end: %+v", st)
		}
		withdraw(t, set, "t00000")
		_, s = scripted(t, Config{Hub: h, Limits: Limits{MaxPageRecords: 2}})
		want(t, "a cursor of the association before", ask(t, s, query, "a3001901000141010650"+cur), errorFrame("01", 5))
	})
}
