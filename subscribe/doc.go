// Package subscribe is the responder's side of subscriptions (§7.2, §7.3): who
// is told of which change, in what order, and what a slow link costs.
//
// A Hub matches every change of a record.Source against all subscriptions. An
// Outbox is what one association has to send: the writer takes from it when the
// link has room, a frame at a time, the subscriptions in turn. Nothing is
// encoded before that, and nothing is copied to wait: the queue of a
// subscription is pointers to changes that all of them share.
//
//	hub := subscribe.NewHub(set)
//	box := subscribe.NewOutbox(wake)
//	box.SetFlush(flush) // optional
//	s := hub.Subscribe(box, corr, filter, subscribe.Options{})
//	for s := box.Next(); s != nil; s = box.Next() {
//		payload, t, _ := s.AppendFrame(b[:0], page, cursor) // t is 0: nothing to send
//	}
//
// # What a subscriber is sent
//
// First the snapshot as it was when Subscribe returned, in RESULT pages under
// the subscription's corr, the last with complete true [C15]. Then one UPDATE
// for each transaction that concerns it, in order: added are the records that
// match now, withdrawn those that matched before and do not now, whether they
// left the set, the filter or the peer's view. Within an UPDATE ids ascend. What
// does not fit a page goes out as consecutive UPDATEs, withdrawals last.
//
// When more than Options.MaxQueued changes wait, all that wait are merged to one
// net state for each record_id: what came and went is not told [C31]. So a slow
// subscriber costs that queue and the size of its live set, and loses no final
// state. With Options.MinInterval whatever waits when the time has come is
// merged likewise.
//
// What a record.Projection hides is gone at once: a snapshot under way goes on
// without it, and what waits is merged, so that no frame made after
// Projection.Refresh has returned carries it.
//
// # Concurrency
//
// A change that concerns 64 associations or more is sent by goroutines of the hub,
// at most half as many as there are processors, which call the flush of each outbox
// and end when all have been; otherwise none is started. All methods may be called
// concurrently, but for Outbox.Next and Subscription.AppendFrame of one outbox, of
// which one is called at a time. A publisher waits for no subscriber: it holds the
// hub's lock, and an outbox's at a time, long enough to queue a pointer, and for a
// subscriber that is more than MaxQueued changes behind to merge two of them.
// Nothing is encoded under either but the change of one small record, under the
// outbox's, and neither is held while wake or cursor is called. A source tells of
// its changes with its own lock held, so wake must not block nor call the source,
// the hub or the outbox.
//
// # Speed
//
// A change costs its publisher one comparison with each filter, 4 ns, and 35 ns for
// each subscription that it concerns; the writer assembles an UPDATE in 41 ns, by
// copying the record's octets behind a short head. Neither allocates for each
// subscription. Options.MinInterval and changes that are merged cost a map for each
// subscription that has any, for as long as they wait.
//
// # Memory
//
// A subscription that has nothing to send costs some 400 octets. Outbox.Memory
// counts what an association's subscriptions keep.
package subscribe
