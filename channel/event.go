package channel

import (
	"fmt"

	"github.com/npamp/disco/record"
)

// EventKind says what an Event tells.
type EventKind uint8

const (
	EventSnapshot  EventKind = iota + 1 // a record that was there when the subscription began
	EventSynced                         // the snapshot is whole: exactly one after each beginning
	EventAdded                          // a record that came
	EventReplaced                       // a record at a greater revision
	EventWithdrawn                      // a record that left the set, or the filter (§7.2)
	EventReset                          // the view could not be kept: what follows is a new snapshot and its Synced [C36]
	EventEnded                          // the last event: nothing more will come
)

var eventNames = [...]string{"", "snapshot", "synced", "added", "replaced", "withdrawn", "reset", "ended"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && k > 0 {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// An Event is one thing that happened to a subscription.
type Event struct {
	Kind   EventKind
	ID     record.ID     // Snapshot, Added, Replaced, Withdrawn
	Record record.Record // Snapshot, Added, Replaced
	Was    uint64        // Replaced: the revision before
	Err    error         // Reset, Ended: why; ErrUnsubscribed after Unsubscribe
}
