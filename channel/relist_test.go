package channel

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// What the last listing had is not read anew, whatever has changed in between: the
// records that came again share the cache's memory.
//
// Covers: DISC-8-02
func TestListedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var recs []record.Record
		for i := range 300 {
			recs = append(recs, tool(fmt.Sprintf("t%03d", i), "one"))
		}
		set := newSet(t, recs...)
		hub := subscribe.NewHub(set)
		defer hub.Close()
		a, _ := pair(t, Config{}, Config{Hub: hub, Limits: Limits{MaxPageRecords: 100}})
		list := func(q Query) []record.Record {
			t.Helper()
			l, err := a.Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			m := q.Filter.Matcher()
			if want := slices.Collect(set.Snapshot().Match(&m)); !slices.Equal(l.Records, want) {
				t.Fatalf("%d records listed, or others than the %d there are", len(l.Records), len(want))
			}
			return l.Records
		}
		shared := func(recs []record.Record) (n int) {
			for _, r := range recs {
				c, _, _ := a.Lookup(r.ID())
				if unsafe.StringData(c.Octets()) == unsafe.StringData(r.Octets()) {
					n++
				}
			}
			return n
		}
		for _, x := range []struct {
			name   string
			change func()
			query  Query
			shared int
		}{
			{"the first", func() {}, Query{}, 0},
			{"the same", func() {}, Query{}, 300},
			{"one replaced", func() { put(t, set, tool("t050", "two")) }, Query{}, 299},
			{"one new at the start of the second page", func() { put(t, set, tool("t0991", "one")) }, Query{}, 300},
			{"the first page withdrawn", func() {
				for i := range 100 {
					withdraw(t, set, record.ID(fmt.Sprintf("t%03d", i)))
				}
			}, Query{}, 101},
			{"others", func() {}, Query{Filter: record.Filter{NamePrefix: "t2", HasPrefix: true}}, 0},
			{"all of them after others", func() {}, Query{}, 201},
			{"and one in between", func() {
				list(Query{Filter: record.Filter{Kinds: []record.Kind{record.KindTool}, NamePrefix: "no", HasPrefix: true}})
			}, Query{}, 201},
		} {
			x.change()
			if n := shared(list(x.query)); n != x.shared {
				t.Errorf("%s: %d records share the cache's memory, want %d", x.name, n, x.shared)
			}
		}
	})
}
