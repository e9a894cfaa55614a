package channel

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/record"
)

// setLimit returns Limits with one field set, to v of whatever type it has.
func setLimit(field string, v int) (l Limits) {
	f := reflect.ValueOf(&l).Elem().FieldByName(field)
	if f.CanInt() {
		f.SetInt(int64(v))
	} else {
		f.SetFloat(float64(v))
	}
	return l
}

// A negative field is off where Limits says so, and an error elsewhere; zero is
// the default.
func TestLimitsRange(t *testing.T) {
	off := map[string]bool{"QueryRate": true, "PageRate": true, "StallTimeout": true, "UncorrelatedErrors": true,
		"RequestTimeout": true, "MaxRestarts": true, "MaxPeerMemory": true}
	fields := reflect.TypeFor[Limits]()
	bubble(t, func(t *testing.T) {
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			tr, other := channeltest.Pair(channeltest.Info(), channeltest.Info())
			channeltest.NewScript(other)
			p, err := New(tr, Config{Limits: setLimit(name, -1)})
			if off[name] != (err == nil) || err != nil && !strings.Contains(err.Error(), "Limits."+name) {
				t.Errorf("%s: -1: %v", name, err)
			}
			if err == nil {
				p.Close()
			} else {
				tr.Close()
			}
			if reflect.ValueOf(Limits{}.withDefaults()).Field(i).IsZero() && name != "MinUpdateInterval" {
				t.Errorf("%s has no default", name)
			}
		}
	})
	if err := (Limits{MaxFrameLen: 511}).withDefaults().check(); err == nil {
		t.Error("MaxFrameLen of 511 is taken, and holds no record")
	}
}

// A rate below one a second is a rate, too.
//
// Covers: C4
func TestUncorrelatedErrorsBelowOneASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 0.5}})
		l.putHex(query, "05", "05")
		want(t, "one at once", l.takeAll(), errorFrame("", 1))
		later(time.Second)
		l.putHex(query, "05")
		want(t, "none after a second", l.takeAll())
		later(time.Second)
		l.putHex(query, "05")
		want(t, "one after two", l.takeAll(), errorFrame("", 1))
	})
}

// limitCases exercises each field of Limits at its value and one above: what the
// peer sees there, and which counter shows it.
var limitCases = map[string]func(t *testing.T){
	"MaxRequestLen": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxRequestLen: 100, UncorrelatedErrors: 10}})
		// An ignored value pads each request to the limit.
		pad := func(head string, to int) string {
			n := to - len(head)/2 - 3
			return head + fmt.Sprintf("0758%02x%s", n, strings.Repeat("00", n))
		}
		l.putHex(query, pad("a300190100014101", 100))
		l.putHex(subscribe_, pad("a300190104014105", 100))
		want(t, "at the limit", l.takeAll(), "0101:"+v4, "0101:a400190101014105028003f5")
		l.putHex(query, pad("a300190100014101", 101))
		l.putHex(subscribe_, pad("a300190104014102", 101))
		l.putHex(unsubscribe, pad("a300190106014105", 101))
		want(t, "beyond", l.takeAll(), errorFrame("", 1), errorFrame("", 1))
		if st := p.Stats(); st.Malformed != 3 || st.Subscriptions != 1 {
			t.Errorf("Malformed = %d, Subscriptions = %d", st.Malformed, st.Subscriptions)
		}
		l.putHex(unsubscribe, pad("a300190106014105", 100))
		if st := p.Stats(); st.Subscriptions != 0 {
			t.Error("UNSUBSCRIBE at the limit")
		}
		// What we ask ourselves is far below the default.
		kinds := make([]record.Kind, 1024)
		for i := range kinds {
			kinds[i] = record.Kind(1<<63 + uint64(i))
		}
		start(p, Query{Filter: record.Filter{Kinds: kinds, NamePrefix: strings.Repeat("x", 1024), HasPrefix: true}})
		synctest.Wait()
		if n := len(l.take()) / 2; n < 10_000 || n > (Limits{}.withDefaults().MaxRequestLen) {
			t.Errorf("a QUERY of %d octets", n)
		}
	},
	"MaxFilterEntries": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxFilterEntries: 3}})
		l.putHex(query, "a400190100014101028301020303830102"+"03")
		want(t, "at the limit", l.takeAll(), "0101:"+v4)
		l.putHex(query, "a3001901000141010284"+"01020304", "a3001901000141010384"+"01020304")
		l.putHex(subscribe_, "a3001901040141010384"+"01020304")
		want(t, "beyond", l.takeAll(), errorFrame("01", 1), errorFrame("01", 1), errorFrame("01", 1))
		if n := p.Stats().Malformed; n != 3 {
			t.Errorf("Malformed = %d", n)
		}
		kinds := make([]record.Kind, 1025)
		for i := range kinds {
			kinds[i] = record.Kind(i)
		}
		for n, ok := range map[int]bool{1024: true, 1025: false} {
			if sub, err := p.Subscribe(record.Filter{Kinds: kinds[:n]}, nil); (err == nil) != ok {
				t.Errorf("Subscribe with %d kinds: %v", n, err)
			} else if ok {
				sub.Unsubscribe()
			}
		}
		l.takeAll()
		c := start(p, Query{Filter: record.Filter{Kinds: kinds}})
		synctest.Wait()
		if c.err == nil || l.take() != "" || p.Stats().Outstanding != 0 {
			t.Errorf("our own of 1025 entries: %v", c.err)
		}
	},
	"MaxPrefixLen": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxPrefixLen: 3}})
		l.putHex(query, "a3001901000141010463616161")
		want(t, "at the limit", l.takeAll(), "0101:"+v4)
		l.putHex(query, "a300190100014101046461616161")
		l.putHex(subscribe_, "a300190104014101046461616161")
		want(t, "beyond", l.takeAll(), errorFrame("01", 1), errorFrame("01", 1))
		if n := p.Stats().Malformed; n != 2 {
			t.Errorf("Malformed = %d", n)
		}
		c := start(p, Query{Filter: record.Filter{NamePrefix: strings.Repeat("x", 1025), HasPrefix: true}})
		synctest.Wait()
		if c.err == nil || l.take() != "" {
			t.Errorf("our own of 1025 octets: %v", c.err)
		}
	},
	"QueryRate":  testQueryBucket,
	"QueryBurst": testQueryBucket,
	"PageRate":   testPageBucket,
	"PageBurst":  testPageBucket,
	"MaxUnanswered": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxUnanswered: 3}})
		l.putHex(query, "a200190100014101", "a200190100014102")
		l.putHex(subscribe_, "a200190104014105")
		if st := p.Stats(); st.Unanswered != 3 || st.Overloaded != 0 {
			t.Errorf("at the limit: %d, Overloaded = %d", st.Unanswered, st.Overloaded)
		}
		l.putHex(query, "a200190100014103")
		l.putHex(subscribe_, "a200190104014106")
		got := l.takeAll()
		want(t, "beyond", got[2:4], errorFrame("03", 7), errorFrame("06", 6))
		if st := p.Stats(); st.Unanswered != 0 || st.Overloaded != 2 || len(got) != 5 {
			t.Errorf("Unanswered = %d, Overloaded = %d, %d frames", st.Unanswered, st.Overloaded, len(got))
		}
	},
	"MaxUnsent": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxUnsent: 3}})
		l.putHex(query, "a200190100014101", "a200190100014102", "a2001901000141012009")
		synctest.Wait()
		if n := p.Stats().Unsent; n != 3 || l.why() != nil {
			t.Fatalf("at the limit: %d, ended: %v", n, l.why())
		}
		l.putHex(query, "a200190100014103")
		synctest.Wait()
		if l.why() != errUnsent || p.Wait() != errUnsent {
			t.Errorf("beyond: %v", l.why())
		}
	},
	"StallTimeout": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{StallTimeout: 3 * time.Second}})
		l.putHex(query, v1)
		for range 3 { // each frame is progress
			later(2 * time.Second)
			l.putHex(query, v1)
			l.takeAll()
			l.putHex(query, v1)
		}
		later(3*time.Second - 1)
		if l.why() != nil {
			t.Fatalf("ended too soon: %v", l.why())
		}
		later(1)
		if p.Wait() != errStalled {
			t.Errorf("ended with %v", l.why())
		}
		_, l = linked(t, Config{Limits: Limits{StallTimeout: -1}})
		l.putHex(query, v1)
		later(time.Hour)
		if l.why() != nil {
			t.Errorf("off, and ended: %v", l.why())
		}
	},
	"MaxSubscriptions": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxSubscriptions: 2}})
		l.putHex(subscribe_, "a200190104014101", "a200190104014102")
		if n := len(l.takeAll()); n != 2 || p.Stats().Subscriptions != 2 {
			t.Errorf("at the limit: %d frames, %d subscriptions", n, p.Stats().Subscriptions)
		}
		l.putHex(subscribe_, "a200190104014103")
		want(t, "beyond", l.takeAll(), errorFrame("03", 6))
		if n := p.Stats().SubsRefused; n != 1 {
			t.Errorf("SubsRefused = %d", n)
		}
	},
	"MaxOwnSubscriptions": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxOwnSubscriptions: 2}})
		var subs []*Subscription
		for range 2 {
			s, err := p.Subscribe(record.Filter{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, s)
		}
		if _, err := p.Subscribe(record.Filter{}, nil); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "MaxOwnSubscriptions") {
			t.Errorf("beyond: %v", err)
		}
		if n := len(l.takeAll()); n != 2 || p.Stats().Own != 2 {
			t.Errorf("%d frames, Own = %d", n, p.Stats().Own)
		}
		subs[0].Unsubscribe()
		if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
			t.Errorf("no room after the end of one: %v", err)
		}
	},
	"MaxQueuedUpdates": func(t *testing.T) {
		for changes, updates := range map[int]int{3: 3, 4: 1} {
			set := newSet(t)
			_, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxQueuedUpdates: 3}})
			l.putHex(subscribe_, v10)
			l.takeAll()
			for i := range changes {
				put(t, set, tool("t1", fmt.Sprint("x", i)))
			}
			got := l.takeAll()
			if len(got) != updates || !strings.Contains(got[len(got)-1], hex.EncodeToString(fmt.Append(nil, "x", changes-1))) {
				t.Errorf("%d changes, %d UPDATEs, want %d; the last: %v", changes, len(got), updates, got[len(got)-1])
			}
		}
	},
	"MinUpdateInterval": func(t *testing.T) {
		set := newSet(t)
		ta, tb := channeltest.Pair(channeltest.Info(), channeltest.Info())
		p, err := New(ta, Config{Hub: hub(t, set), Limits: Limits{MinUpdateInterval: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s, err := channeltest.NewScript(tb)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, s, subscribe_, v10)
		put(t, set, tool("t1", "x0"))
		if n := len(came(s)); n != 1 {
			t.Errorf("the first: %d UPDATEs", n)
		}
		put(t, set, tool("t1", "x1"))
		put(t, set, tool("t1", "x2"))
		later(50*time.Millisecond - 1)
		want(t, "too soon", came(s))
		later(1)
		if got := came(s); len(got) != 1 || !strings.Contains(got[0], "627832") {
			t.Errorf("in time: %v", got)
		}
	},
	"MaxSnapshots": func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(3)...)), Limits: Limits{MaxSnapshots: 2, MaxPageRecords: 1}})
		var curs []string
		for range 3 {
			l.putHex(query, v1)
			curs = append(curs, cursorOf(t, l.take()))
			if n := p.Stats().Snapshots; n != min(len(curs), 2) {
				t.Errorf("%d snapshots after %d", n, len(curs))
			}
		}
		l.putHex(query, "a3001901000141010650"+curs[0])
		want(t, "the oldest", l.takeAll(), errorFrame("01", 5))
		if n := p.Stats().StaleCursors; n != 1 {
			t.Errorf("StaleCursors = %d", n)
		}
		l.putHex(query, "a3001901000141010650"+curs[1])
		cursorOf(t, l.take())
	},
	"SnapshotTTL": func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(3)...)), Limits: Limits{SnapshotTTL: 5 * time.Second, MaxPageRecords: 1}})
		l.putHex(query, v1)
		cur := cursorOf(t, l.take())
		later(5*time.Second - 1)
		l.putHex(query, "a3001901000141010650"+cur)
		cursorOf(t, l.take())
		later(5 * time.Second)
		l.putHex(query, "a3001901000141010650"+cur)
		want(t, "too late", l.takeAll(), errorFrame("01", 5))
		if st := p.Stats(); st.StaleCursors != 1 || st.Snapshots != 0 {
			t.Errorf("StaleCursors = %d, Snapshots = %d", st.StaleCursors, st.Snapshots)
		}
	},
	"MaxPageRecords": func(t *testing.T) {
		for n, pages := range map[int]int{3: 1, 4: 2} {
			set := newSet(t, many(n)...)
			p, l := linked(t, Config{Hub: hub(t, set), PushPages: true, AnnounceOnOpen: true, Limits: Limits{MaxPageRecords: 3}})
			l.putHex(query, v1)
			l.putHex(subscribe_, v10)
			l.takeAll()
			put(t, set, many(n + 20)[20:]...)
			l.takeAll()
			out := p.Stats().FramesOut
			if out[1] != uint64(2*pages) || out[3] != uint64(pages) || out[5] != uint64(pages) {
				t.Errorf("%d records: %v", n, out)
			}
		}
	},
	"MaxPageLen": func(t *testing.T) {
		recs := many(4)
		octets := 3 * recs[0].WithRevision(1).Len()
		for _, c := range []struct{ len, pages int }{{octets, 2}, {octets - 1, 2}, {octets*4/3 - 1, 2}, {octets * 4 / 3, 1}} {
			set := newSet(t, recs...)
			p, l := linked(t, Config{Hub: hub(t, set), PushPages: true, AnnounceOnOpen: true, Limits: Limits{MaxPageLen: c.len}})
			l.putHex(query, v1)
			l.putHex(subscribe_, v10)
			l.takeAll()
			if out := p.Stats().FramesOut; out[1] != uint64(2*c.pages) || out[3] != uint64(c.pages) {
				t.Errorf("%d octets: %v", c.len, out)
			}
		}
	},
	"MaxFrameLen": func(t *testing.T) { // see also TestNoPayloadPassesMaxFrameLen
		const most = 1000 - resultOverhead
		name := func(n int) record.Record { // a tool whose record has n octets
			r := big("t1", 300)
			return big("t1", 300+n-r.Len())
		}
		set := newSet(t, name(most))
		_, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxFrameLen: 1000}})
		l.putHex(query, v1)
		if f := l.take(); !strings.HasPrefix(f, "0101:") {
			t.Errorf("at the limit: %.40s", f)
		}
		put(t, set, name(most+1))
		l.putHex(query, v1, "a30019010001410205f5")
		want(t, "beyond", l.takeAll(), errorFrame("01", 3), "0101:a400190101014102028003f5")
	},
	"UncorrelatedErrors": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 2}})
		l.putHex(query, "05", "05", "05")
		want(t, "two a second", l.takeAll(), errorFrame("", 1), errorFrame("", 1))
		if st := p.Stats(); st.SuppressedErrors != 1 || st.Malformed != 3 {
			t.Errorf("SuppressedErrors = %d, Malformed = %d", st.SuppressedErrors, st.Malformed)
		}
		_, l = linked(t, Config{Limits: Limits{UncorrelatedErrors: -1}})
		l.putHex(query, "05")
		want(t, "off", l.takeAll())
	},
	"MaxOutstanding": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxOutstanding: 2}})
		a, b := start(p, Query{}), start(p, Query{})
		synctest.Wait()
		if n := p.Stats().Outstanding; n != 2 {
			t.Errorf("%d outstanding", n)
		}
		if _, err := p.Query(t.Context(), Query{}); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "MaxOutstanding") {
			t.Errorf("beyond: %v", err)
		}
		sent := l.takeAll()
		l.putHex(result, page(corrOf(t, sent[0]), ""))
		c := start(p, Query{})
		synctest.Wait()
		if a.done == b.done || c.done || len(l.takeAll()) != 1 || len(sent) != 2 {
			t.Error("no room after an answer")
		}
	},
	"RequestTimeout": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{RequestTimeout: 3 * time.Second}})
		c := start(p, Query{})
		sub, _ := p.Subscribe(record.Filter{}, nil)
		later(3*time.Second - 1)
		if c.done || sub.Err() != nil {
			t.Fatalf("too soon: %v, %v", c.err, sub.Err())
		}
		later(1)
		if c.err != ErrTimeout || sub.Err() != ErrTimeout {
			t.Errorf("%v, %v", c.err, sub.Err())
		}
		l.takeAll()
		c = start(p, Query{}) // each page has as long
		for range 3 {
			synctest.Wait()
			l.putHex(result, page(l.lastCorr(), "41aa", tool("t1", "a")))
			later(2 * time.Second)
		}
		later(time.Second)
		if !errors.Is(c.err, ErrTimeout) || !errors.Is(c.err, ErrIncomplete) {
			t.Errorf("between pages: %v", c.err)
		}
		p, l = linked(t, Config{Limits: Limits{RequestTimeout: -1, StallTimeout: -1}})
		c = start(p, Query{})
		synctest.Wait()
		sub, _ = p.Subscribe(record.Filter{}, nil)
		later(24 * time.Hour)
		if c.done || sub.Err() != nil {
			t.Errorf("off: %v, %v", c.err, sub.Err())
		}
		out := l.takeAll()
		l.putHex(result, page(corrOf(t, out[0]), ""))
		synctest.Wait()
		if c.err != nil || !c.done {
			t.Errorf("after a day: %v", c.err)
		}
	},
	"PageStall": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{PageStall: 3 * time.Second}})
		if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
			t.Fatal(err)
		}
		corr := l.lastCorr()
		l.putHex(result, page(corr, "41aa", tool("t1", "a")))
		later(3*time.Second - 1)
		want(t, "it may be pushed", l.takeAll())
		later(1)
		if out := l.takeAll(); len(out) != 1 || !strings.HasPrefix(out[0], "0100:") || p.Stats().Pulls != 1 {
			t.Errorf("asked for: %v", out)
		}
	},
	"MaxPages": func(t *testing.T) {
		testEnumeration(t, Limits{MaxPages: 3}, "MaxPages", 3, func(i int) []record.Record { return []record.Record{tool(fmt.Sprint("t", i), "x")} })
	},
	"MaxListRecords": func(t *testing.T) {
		testEnumeration(t, Limits{MaxListRecords: 3}, "MaxListRecords", 4, func(i int) []record.Record { return []record.Record{tool(fmt.Sprint("t", i), "x")} })
	},
	"MaxListLen": func(t *testing.T) {
		one := []record.Record{big("t0", 900)}
		testEnumeration(t, Limits{MaxListLen: 3 * pageMemory(one, nil)}, "MaxListLen", 4, func(i int) []record.Record { return []record.Record{big(fmt.Sprint("t", i), 900)} })
	},
	"MaxBarren": func(t *testing.T) {
		testEnumeration(t, Limits{MaxBarren: 3}, "MaxBarren", 4, func(i int) []record.Record { return []record.Record{tool("t0", "x")} })
	},
	"MaxRestarts": func(t *testing.T) {
		for restarts, want := range map[int]int{1: 1, 2: 2, -1: 0} {
			p, l := linked(t, Config{Limits: Limits{MaxRestarts: restarts}})
			c := start(p, Query{})
			for range 5 {
				synctest.Wait()
				if c.done {
					break
				}
				corr := l.lastCorr()
				l.putHex(result, page(corr, "41aa", tool("t1", "a")))
				synctest.Wait()
				l.putHex(errorMsg, errorFor(corr, 5))
			}
			if n := p.Stats().Restarts; !errors.Is(c.err, ErrIncomplete) || n != uint64(want) {
				t.Errorf("%d: %d restarts, %v", restarts, n, c.err)
			}
		}
	},
	"ResyncInterval": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{ResyncInterval: 3 * time.Second}})
		if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
			t.Fatal(err)
		}
		breakIt := func() {
			corr := l.lastCorr()
			l.putHex(result, page(corr, ""))
			l.putHex(update, "a3001901050150"+corr+"02f6")
			synctest.Wait()
		}
		breakIt()
		breakIt()
		if out := l.takeAll(); len(out) != 1 { // UNSUBSCRIBE
			t.Errorf("at once: %v", out)
		}
		later(3*time.Second - 1)
		want(t, "too soon", l.takeAll())
		later(1)
		if out := l.takeAll(); len(out) != 1 || p.Stats().Resyncs != 2 {
			t.Errorf("in time: %v", out)
		}
	},
	"MaxQueuedEvents": func(t *testing.T) {
		for changes, merged := range map[int]int{3: 0, 4: 3} {
			p, l := linked(t, Config{Limits: Limits{MaxQueuedEvents: 3}})
			release := make(chan struct{})
			var ev recorder
			_, err := p.Subscribe(record.Filter{}, func(e Event) {
				ev.handle(e)
				if e.Kind == EventSynced {
					<-release
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			corr := l.lastCorr()
			l.putHex(result, page(corr, "", tool("t1", "a")))
			synctest.Wait()
			for i := range changes {
				l.put(update, updateOf(corr, []record.Record{tool("t1", "b").WithRevision(uint64(i + 1))}))
			}
			if n := p.Stats().MergedEvents; n != uint64(merged) {
				t.Errorf("%d changes: %d merged, want %d", changes, n, merged)
			}
			close(release)
			if got := ev.take(); len(got) != 2+changes-merged || got[len(got)-1] != fmt.Sprintf("replaced t1/%d", changes) {
				t.Errorf("%d changes: %v", changes, got)
			}
		}
	},
	"MaxCallbacks": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxCallbacks: 2}})
		release := make(chan struct{})
		running := 0
		for range 3 {
			if _, err := p.Subscribe(record.Filter{}, func(Event) { running++; <-release }); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range l.takeAll() {
			l.putHex(result, page(corrOf(t, f), ""))
			synctest.Wait()
		}
		time.Sleep(10 * callPatience)
		synctest.Wait()
		if running != 2 {
			t.Errorf("%d run at once", running)
		}
		close(release)
		synctest.Wait()
		if running != 3 {
			t.Errorf("%d ran", running)
		}
	},
	"MaxCacheRecords": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxCacheRecords: 3}})
		l.put(announce, announceOf(many(3)...))
		if st := p.Stats(); st.Cached != 3 || st.AnnounceRefused != 0 {
			t.Errorf("at the limit: %d, %d refused", st.Cached, st.AnnounceRefused)
		}
		l.put(announce, announceOf(many(4)...))
		if st := p.Stats(); st.Cached != 3 || st.AnnounceRefused != 1 {
			t.Errorf("beyond: %d, %d refused", st.Cached, st.AnnounceRefused)
		}
		c := start(p, Query{})
		synctest.Wait()
		l.put(result, resultOf(l.lastCorr(), "", tool("x1", "a"), tool("x2", "b"))) // these take the room of two
		synctest.Wait()
		if _, ok, _ := p.Lookup("x1"); !ok || c.err != nil || p.Stats().Cached != 3 {
			t.Errorf("a listing finds no room: %v, %d", c.err, p.Stats().Cached)
		}
	},
	"MaxCacheLen": func(t *testing.T) {
		recs := many(4)
		p, l := linked(t, Config{Limits: Limits{MaxCacheLen: 3 * recs[0].Len()}})
		l.put(announce, announceOf(recs...))
		if st := p.Stats(); st.Cached != 3 || st.AnnounceRefused != 1 {
			t.Errorf("%d, %d refused", st.Cached, st.AnnounceRefused)
		}
	},
	"MaxTombstones": func(t *testing.T) { // see also TestForgottenWithdrawalsBeginAnew
		// A listing that began before a withdrawal does not bring the record back,
		// as far as that is remembered; beyond, nothing unknown is learned from it.
		for n, learned := range map[int]int{3: 1, 4: 0} {
			p, l := linked(t, Config{Limits: Limits{MaxTombstones: 3}})
			if _, err := p.Subscribe(record.Filter{}, nil); err != nil {
				t.Fatal(err)
			}
			sub := l.lastCorr()
			recs := many(4)
			for i := range recs {
				recs[i] = recs[i].WithRevision(1)
			}
			l.put(result, resultOf(sub, "", recs...))
			c := start(p, Query{})
			synctest.Wait()
			list := l.lastCorr()
			var ids []record.ID
			for _, r := range recs[:n] {
				ids = append(ids, r.ID())
			}
			l.put(update, updateOf(sub, nil, ids...))
			l.put(result, resultOf(list, "", append(recs[:n:n], tool("x1", "new"))...))
			synctest.Wait()
			if got := p.Stats().Cached - (4 - n); c.err != nil || got != learned {
				t.Errorf("%d withdrawn: %d of %d learned, want %d (%v)", n, got, n+1, learned, c.err)
			}
		}
	},
	"MaxRetired": func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxRetired: 2}})
		var corrs []string
		for range 3 {
			start(p, Query{})
			synctest.Wait()
			corrs = append(corrs, l.lastCorr())
			l.putHex(result, page(corrs[len(corrs)-1], ""))
		}
		l.putHex(result, page(corrs[1], ""), page(corrs[2], ""))
		if st := p.Stats(); st.Late != 2 || st.Bogus != 0 {
			t.Errorf("remembered: Late = %d, Bogus = %d", st.Late, st.Bogus)
		}
		l.putHex(result, page(corrs[0], ""))
		if st := p.Stats(); st.Late != 2 || st.Bogus != 1 {
			t.Errorf("forgotten: Late = %d, Bogus = %d", st.Late, st.Bogus)
		}
	},
	"MaxPeerMemory": func(t *testing.T) { // see also TestMemoryIsBounded
		p, l := linked(t, Config{Limits: Limits{MaxPeerMemory: 40_000, PageStall: time.Hour}})
		sub, err := p.Subscribe(record.Filter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		corr := l.lastCorr()
		l.put(result, resultOf(corr, "", big("t1", 30_000)))
		l.put(announce, announceOf(big("x1", 5000), big("x2", 9000)))
		if st := p.Stats(); st.AnnounceRefused != 1 || sub.Err() != nil {
			t.Errorf("announced records go first: %d refused, %v", st.AnnounceRefused, sub.Err())
		}
		c := start(p, Query{})
		synctest.Wait()
		l.put(result, resultOf(l.lastCorr(), "", big("x3", 9000)))
		synctest.Wait()
		if !errors.Is(c.err, ErrLimit) || !strings.Contains(c.err.Error(), "MaxPeerMemory") || sub.Err() != nil {
			t.Errorf("then a listing: %v, %v", c.err, sub.Err())
		}
		l.putHex(subscribe_, v10)
		l.takeAll()
		l.put(update, updateOf(corr, []record.Record{big("t2", 9000)}))
		if !errors.Is(sub.Err(), ErrLimit) || !strings.Contains(sub.Err().Error(), "MaxPeerMemory") {
			t.Errorf("then a subscription: %v", sub.Err())
		}
		want(t, "which the peer is told", l.takeAll(), "0106:a2001901060150"+corr)
		if n := p.Stats().Memory; n > 40_000 || l.why() != nil {
			t.Errorf("%d octets, ended: %v", n, l.why())
		}
		l.put(announce, announceOf(big("x4", 3000)))
		p, l = linked(t, Config{Limits: Limits{MaxPeerMemory: -1}})
		l.put(announce, announceOf(big("x1", 500_000)))
		if p.Stats().Cached != 1 {
			t.Error("off, and refused")
		}
	},
}

// testQueryBucket is the bucket of QUERY and SUBSCRIBE.
func testQueryBucket(t *testing.T) {
	p, l := linked(t, Config{Limits: Limits{QueryRate: 2, QueryBurst: 3}})
	l.putHex(query, v1, "a200190100014102")
	l.putHex(subscribe_, v10)
	want(t, "at the burst", l.takeAll(), "0101:"+v4, "0101:a400190101014102028003f5", "0101:a400190101014105028003f5")
	l.putHex(query, v1)
	l.putHex(subscribe_, "a200190104014106")
	want(t, "beyond", l.takeAll(), errorFrame("01", 7), errorFrame("06", 6))
	if n := p.Stats().RateLimited; n != 2 {
		t.Errorf("RateLimited = %d", n)
	}
	l.putHex(unsubscribe, v13) // costs nothing, and is no QUERY
	later(500*time.Millisecond - 1)
	l.putHex(query, v1)
	want(t, "too soon", l.takeAll(), errorFrame("01", 7))
	later(1)
	l.putHex(query, v1)
	want(t, "refilled", l.takeAll(), "0101:"+v4)
	later(time.Hour) // the bucket holds no more than the burst
	l.putHex(query, "a200190100014101", "a200190100014102", "a200190100014103", "a200190100014104")
	if got := l.takeAll(); len(got) != 4 || !strings.HasPrefix(got[2], "0101:") || got[3] != errorFrame("04", 7) {
		t.Errorf("after an hour: %v", got)
	}
	_, l = linked(t, Config{Limits: Limits{QueryRate: -1, MaxUnanswered: 1000}})
	for i := range 500 {
		l.putHex(query, fmt.Sprintf("a2001901000142%04x", i))
	}
	for _, f := range l.takeAll() {
		if !strings.HasPrefix(f, "0101:") {
			t.Fatalf("off: %s", f)
		}
	}
}

// testPageBucket is that of QUERYs with a live cursor.
func testPageBucket(t *testing.T) {
	p, l := linked(t, Config{Hub: hub(t, newSet(t, many(9)...)),
		Limits: Limits{QueryRate: 1, QueryBurst: 1, PageRate: 1, PageBurst: 3, MaxPageRecords: 1}})
	l.putHex(query, v1)
	cur := cursorOf(t, l.take())
	for range 3 {
		l.putHex(query, "a3001901000141010650"+cur)
		cursorOf(t, l.take())
	}
	l.putHex(query, "a3001901000141010650"+cur)
	want(t, "beyond", l.takeAll(), errorFrame("01", 7))
	if n := p.Stats().RateLimited; n != 1 {
		t.Errorf("RateLimited = %d", n)
	}
	later(time.Second)
	l.putHex(query, "a3001901000141010650"+cur)
	cursorOf(t, l.take())
	l.putHex(query, "a30019010001410106500000"+cur[4:]) // not a live one: it is a QUERY as any
	want(t, "a dead cursor", l.takeAll(), errorFrame("01", 5))
	l.putHex(query, "a30019010001410106500000"+cur[4:])
	want(t, "and another", l.takeAll(), errorFrame("01", 7))
}

// testEnumeration runs a listing and a snapshot whose pages never end into a
// bound, which breaks at the page given and not before it, and one that ends in
// time.
func testEnumeration(t *testing.T, lim Limits, name string, at int, recs func(i int) []record.Record) {
	broke := func(err error) bool {
		return errors.Is(err, ErrLimit) && errors.Is(err, ErrIncomplete) && strings.Contains(err.Error(), name)
	}
	lim.PageStall = time.Hour
	lim.RequestTimeout = -1
	p, l := linked(t, Config{Limits: lim})
	c := start(p, Query{})
	sub, err := p.Subscribe(record.Filter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	asked := l.takeAll()
	list, snap := corrOf(t, asked[0]), corrOf(t, asked[1])
	if strings.HasPrefix(asked[1], "0100:") {
		list, snap = snap, list
	}
	for i := range at {
		if c.done || sub.Err() != nil {
			t.Fatalf("page %d: %v, %v", i, c.err, sub.Err())
		}
		l.put(result, resultOf(list, "aa", recs(i)...))
		l.put(result, resultOf(snap, "aa", recs(i)...))
		synctest.Wait()
		l.takeAll()
	}
	if !broke(c.err) || !broke(sub.Err()) {
		t.Errorf("beyond: %v, %v", c.err, sub.Err())
	}
	if st := p.Stats(); st.Outstanding != 0 || st.Own != 0 || p.holds() != 0 {
		t.Errorf("left: %d outstanding, %d subscriptions, %d octets", st.Outstanding, st.Own, p.holds())
	}

	p, l = linked(t, Config{Limits: lim})
	c = start(p, Query{})
	synctest.Wait()
	list = l.lastCorr()
	for i := range at - 1 {
		cursor := "aa"
		if i == at-2 {
			cursor = ""
		}
		l.put(result, resultOf(list, cursor, recs(i)...))
		synctest.Wait()
		l.takeAll()
	}
	if !c.done || c.err != nil || c.list.Pages != at-1 {
		t.Errorf("at the limit: %v", c.err)
	}
}

// Covers: DISC-10-06, DISC-10-07, DISC-10-08, DISC-10-10, DASP-011-01
//
// Every field of Limits is enforced.
func TestEveryLimit(t *testing.T) {
	fields := reflect.TypeFor[Limits]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		test := limitCases[name]
		if test == nil {
			t.Errorf("Limits.%s has no case", name)
			continue
		}
		t.Run(name, func(t *testing.T) { bubble(t, test) })
	}
	if len(limitCases) != fields.NumField() {
		t.Errorf("%d cases for %d fields", len(limitCases), fields.NumField())
	}
}
