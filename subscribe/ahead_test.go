package subscribe

import (
	"sync/atomic"
	"testing"

	"github.com/npamp/disco/record"
)

// What the peer read ahead of the pages that it is sent is withdrawn when it is
// hidden; what it did not is not mentioned.
//
// Covers: C15, C53
func TestHiddenAheadOfTheSnapshot(t *testing.T) {
	for _, ahead := range []bool{true, false} {
		set := newSet()
		var hidden atomic.Bool
		p := record.Project(set, func(r record.Record) bool { return !hidden.Load() || r.ID() != "t2" })
		h := NewHub(p)
		put(t, set, tool(t, "t1", "a", 1), tool(t, "t2", "a", 1), tool(t, "t3", "a", 1))
		o := NewOutbox(func() {})
		x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
		x.page.MaxRecords = 1
		drain(t, o, 1, x)
		x.s.Ahead(record.NewSet(record.SetConfig{}).Snapshot()) // of another snapshot
		if ahead {
			x.s.Ahead(p.Snapshot())
			x.view["t2"] = tool(t, "t2", "a", 1).WithRevision(1) // by a QUERY
		}
		hidden.Store(true)
		p.Refresh()
		drain(t, o, all, x)
		if x.check(p); x.updates > 0 != ahead {
			t.Errorf("ahead: %v, %d updates", ahead, x.updates)
		}
		h.Close()
	}
}

// What is hidden is gone from what waits also as it was when it matched, although
// its last form does not concern the subscription.
//
// Covers: C53
func TestHiddenAfterItHasLeftTheFilter(t *testing.T) {
	for _, paging := range []bool{true, false} {
		set := newSet()
		var hidden atomic.Bool
		p := record.Project(set, func(r record.Record) bool { return !hidden.Load() || r.ID() != "t2" })
		h := NewHub(p)
		o := NewOutbox(func() {})
		put(t, set, tool(t, "t1", "a", 1))
		if paging {
			put(t, set, tool(t, "t2", "a", 1))
		}
		x := subscribeTo(t, h, o, "1", record.Filter{NamePrefix: "a", HasPrefix: true}, Options{})
		x.page.MaxRecords = 1
		drain(t, o, 1, x)
		put(t, set, tool(t, "t2", "a2", 1))
		put(t, set, tool(t, "t2", "b", 1))
		hidden.Store(true)
		p.Refresh()
		drain(t, o, all, x)
		if x.check(p); x.revision["t2"] != 0 || x.updates != 0 {
			t.Errorf("paging: %v: told of revision %d, %d updates", paging, x.revision["t2"], x.updates)
		}
		h.Close()
	}
}

// The page that acknowledges a subscription which was cancelled before shows
// nothing that was hidden since.
//
// Covers: C24, C53
func TestHiddenAfterCancel(t *testing.T) {
	set := newSet()
	var hidden atomic.Bool
	p := record.Project(set, func(r record.Record) bool { return !hidden.Load() || r.ID() != "t2" })
	h := NewHub(p)
	defer h.Close()
	put(t, set, tool(t, "t1", "a", 1), tool(t, "t2", "a", 1))
	o := NewOutbox(func() {})
	x := subscribeTo(t, h, o, "1", record.Filter{}, Options{})
	x.s.Cancel()
	hidden.Store(true)
	p.Refresh()
	drain(t, o, all, x)
	if x.check(p); x.results != 1 {
		t.Errorf("%d results", x.results)
	}
}
