// Package record implements Discovery Records (NPAMP-DISC §5), filters (§6.1)
// and the state on both sides of an association (§8): Set, what we advertise,
// and Cache and View, what we learned.
//
// # A record is its octets
//
// A Record is an immutable, comparable value around checked canonical octets.
// It is made by parsing, or by building it from one of the typed forms
// (Protocol, Carriage, Tool, Agent) whose Record methods encode and then parse,
// so its accessors cannot fail, and unknown keys survive octet for octet when it
// is stored or forwarded. Absent is not zero: optional scalars of the typed forms
// are pointers, and a nil slice is absent where an empty one is present.
//
//	tool := record.Tool{ID: "t1", Name: "git.log", ProtocolID: 1}
//	rec, err := tool.Record()
//
// A List is the array of records of a payload, checked in place and copied with
// at most two allocations by Own, or looked at where it is.
//
// A claim in a record is the peer's, and is no permission to invoke anything
// (§10). Its texts are untrusted: escape them where they are shown.
//
// # Concurrency
//
// Record, Filter, Matcher and Facts are values: safe for concurrent use as long
// as nobody writes to a Filter's slices. A List, a Ref and IDs are as safe as the
// buffer that they look into.
//
// # Speed
//
// A Snapshot costs nothing: it is the present version. A change of one record
// copies its chunk and the list of chunks, 10 to 30 µs at any size up to 100,000
// records; a thousand changes are much cheaper as one Update than as a thousand.
// Filters by kind, protocol_id and name prefix use an index that each change
// maintains, a hundredth of a scan; a page of all records is one copy.
//
// A Record costs its octets, one string header, and a parse of what is asked for at
// each call: 27 ns for its Facts. The first listing into a Cache costs a copy and
// an entry of a map for each record, 0.5 µs; the same again 18 ns.
//
// # Notes on the specification
//
// Numbers of carriage classes are assigned nowhere; these count in the
// registry's order and are never a reason to refuse a record [C7].
//
// protocol_ids restricts kinds 1, 3 and 4 and name_prefix kinds 3 and 4; a kind
// that a filter does not restrict passes it [C5]. Only printed bounds are
// enforced: a protocol_id of a protocol or a tool is at most 255, an agent's may
// be more and then matches nothing [C27].
//
// The body of a record of unknown kind may be any map [C9].
package record
