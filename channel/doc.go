// Package channel is the full-duplex peer of the Discovery channel (NPAMP-DISC
// §§2–10): it answers the other end's queries and subscriptions from a
// record.Set, and makes its own.
//
//	hub := subscribe.NewHub(set) // one for all peers of a set
//	p, err := channel.New(transport, channel.Config{Hub: hub})
//	list, err := p.Query(ctx, channel.Query{Filter: record.Filter{Kinds: …}})
//	sub, err := p.Subscribe(filter, func(e channel.Event) { … })
//	_, err = p.Announce(ctx, records)
//	defer p.Close()
//
// A listing is authority and a whole (§6); an announcement only primes (§7.1);
// a subscription's view is what the peer advertises as far as we were told
// (§7.2). None of them is a permission: whoever is asked to run something
// decides then (§10). All text in records is the peer's: escape it where it is
// shown, and follow nothing that it names.
//
// # Goroutines
//
// An association and its peer have two goroutines while idle, both of the
// transport: one reads, one writes.
//
//   - The reader takes each frame to where it belongs and waits for nothing: not
//     for user code, not for a full queue, not for the writer.
//   - The writer makes each frame when the link has room for it: replies and
//     requests in order, then pages and UPDATEs of subscriptions in turn. What
//     waits for no one the transport may have made elsewhere, the answer to a lone
//     frame by the reader.
//   - Callbacks run on at most Limits.MaxCallbacks goroutines, which the reader
//     starts when there is something to tell and which end when there is not. The
//     second is started when 16 subscriptions wait or one has waited for 1 ms. One
//     subscription's callbacks never run at once, nor out of order.
//
// Close waits for all of them but those inside a callback, so that a callback
// may call it. Timers run no code of the caller's.
//
// # State
//
// One mutex guards what is in flight; no user code, no encoding of records and no
// I/O runs under it. A corr is registered before its frame is queued and retired
// exactly once; one that was cancelled or timed out is never used again, and a late
// reply to it is dropped and counted. Nothing survives the association (§8).
//
// # Limits
//
// Everything a peer can make us hold is bounded by a field of Limits, which says
// what the peer sees at the bound and which counter of Stats shows it.
//
// # Speed
//
// On two processors of a machine that is slow at system calls (see RESULTS.md of
// cmd/disco-versus) a listing takes 300 ns a record at both ends together, of which
// most is ciphers and system calls, where its pages are mostly what the last listing
// of the same filter had: those records are compared with the cache's, and share its
// memory. Where nothing is known it takes twice as long, and the first on its
// association three to ten times: everything in it is new to the cache. A query
// for one record takes 28 µs, nearly all of it system calls and wake-ups, so that
// 90 records of a listing cost as much as one query; with many queries in flight
// each takes 6 µs. An UPDATE takes 0.9 µs where one association has 10,000
// subscriptions, and 17 µs where each has an association of its own.
//
// What options cost:
//
//   - A callback costs a change of goroutine and 0.1 µs; a subscription without
//     one has its view all the same. Slow callbacks cost merged events, never the
//     reader's time.
//   - Config.Visible makes an index of its own for the peer, as large as what it
//     hides cuts the set into, and is called for every record at first and at
//     Refresh, then for each change, for each such peer.
//   - Config.PushPages takes a quarter off a long listing, against §4.3's letter.
//   - Limits.MinUpdateInterval delays and merges: fewer frames, one timer a peer.
//   - What a listing has beyond Limits.MaxCacheRecords is never known.
//   - Small pages mean more round trips: 100 records a page double the time of a
//     listing of 10,000, 10 make it ten times as long.
//
// Three indexes serve filters: by kind, protocol and name.
//
// # Notes on the specification
//
//   - §6.2 says both that later pages bear the same corr and that a follow-up
//     QUERY fetches them, §4.3 that a RESULT consumes its corr. We send one
//     RESULT a QUERY, take a follow-up under the finished corr or a fresh one, and
//     as requester follow up under the finished one and take pushed pages too
//     (TestPages, TestPushingPeer).
//   - §4.1 wants an error for every bad frame, §7 forbids replies to most. Only
//     QUERY and SUBSCRIBE are answered (TestNothingElseIsAnswered); where the corr
//     cannot be read the DISCO_ERROR has none, at most one a second.
//   - §7.2 does not say how a large snapshot is sent: in pushed pages under the
//     live corr, each of whose cursors works in a QUERY too.
//   - UPDATEs have no sequence number: one that cannot be read is mended by
//     subscribing anew (TestResync).
//
// # Not done here
//
// No reconnecting: the association's end is the peer's, and the caller dials
// again. No signed records (NPAMP-DISC-SIGNED): they travel out of band.
package channel
