package channel

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/record"
)

// Covers: DASP-011-01, DISC-10-08
//
// What a frame that is taken allocates: 4 octets for each of its own and 64 KiB,
// and for each record that is held afterwards, however small, its place in the
// tables. Where nothing new is held, nothing more.
func TestHostileHeapBudget(t *testing.T) {
	if raced {
		t.Skip("allocates otherwise under race")
	}
	const perRecord = 320 // octets: entry, version, key, place in a view, event, and tables that double
	bubble(t, func(t *testing.T) {
		for _, size := range []int{0, 30, 1000} {
			var recs, newer []record.Record
			for i := range 2000 {
				r := big(fmt.Sprintf("t%05d", i), size)
				recs, newer = append(recs, r), append(newer, r.WithRevision(5))
			}
			allowed := func(payload []byte, held int) int { return len(payload) + held*perRecord/4 }

			p, l := linked(t, Config{})
			b := announceOf(recs...)
			budget(t, fmt.Sprint("ANNOUNCE, size ", size), allowed(b, 2000), func() { l.put(announce, b) })
			l.handled("the same again", announce, b)
			_, corr := follows(t, p, l, record.Filter{}, nil)
			b = resultOf(corr, "", recs...)
			budget(t, fmt.Sprint("a snapshot, size ", size), allowed(b, 2000), func() { l.put(result, b) })
			b = updateOf(corr, newer)
			budget(t, fmt.Sprint("an UPDATE, size ", size), allowed(b, 2000), func() { l.put(update, b) })
			l.handled("the same UPDATE again", update, updateOf(corr, newer))
			l.handled("older ones", update, updateOf(corr, recs))
			l.handled("withdrawn that never were", update, updateOf(corr, nil, manyIDs(5000)...))
			l.handled("a RESULT nobody asked for", result, resultOf("05", "", recs...))

			full, l := linked(t, Config{Limits: Limits{MaxCacheRecords: 1}})
			l.handled("ANNOUNCE without room", announce, announceOf(recs...))
			if n := full.Stats().AnnounceRefused; n != 1999 {
				t.Errorf("%d refused", n)
			}
		}
		// A page that nobody merges yet is copied once.
		p, l := linked(t, Config{})
		start(p, Query{Filter: record.Filter{Kinds: []record.Kind{4}}}) // it will be dropped
		synctest.Wait()
		l.handled("a page of what nobody asked for", result, resultOf(l.lastCorr(), "", many(2000)...))
	})
}

// manyIDs are ids that many has not.
func manyIDs(n int) (ids []record.ID) {
	for i := range n {
		ids = append(ids, record.ID(fmt.Sprintf("x%05d", i)))
	}
	return ids
}
