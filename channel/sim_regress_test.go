package channel

import (
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/record"
)

// Faults that the simulation found, each as the shortest course of events.

// A record that was hidden and is shown again has the revision it had [C53]: no
// Replaced, which promises a greater one, may come of it when events are merged.
//
// Covers: C31, C53
func TestMergedEventsOfARecordShownAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, tool("t1", "a"), tool("t2", "a"))
		hidden := false
		a, b := pair(t, Config{Limits: Limits{MaxQueuedEvents: 1}},
			Config{Hub: hub(t, set), Visible: func(r record.Record) bool { return !hidden || r.ID() != "t1" }})
		var events []Event
		gate := make(chan bool)
		sub, err := a.Subscribe(record.Filter{}, func(e Event) {
			events = append(events, e)
			if e.Kind == EventReplaced {
				<-gate
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, set, tool("t2", "b"))
		synctest.Wait() // the handler waits
		for _, hidden = range []bool{true, false} {
			b.Refresh()
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		if got := events[4:]; len(got) != 2 || got[0].Kind != EventWithdrawn || got[1].Kind != EventAdded || got[1].Record.Revision() != 1 {
			t.Errorf("told: %+v", got)
		}
		if n := sub.Len(); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}
