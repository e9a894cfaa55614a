// Package disco reads and writes the seven payloads of the Discovery channel
// (NPAMP-DISC §§3, 4, 6, 7, 9) in deterministic CBOR.
//
// A payload has a type with its fields, an Append function that appends its only
// encoding, and a Parse function that takes that and nothing else, but for
// unknown non-negative keys, which it ignores (§4.1).
//
//	b, err := disco.AppendQuery(nil, &disco.Query{Corr: "\x01"})
//	q, err := disco.ParseQuery(b, nil)
//
// # Records
//
// A RESULT, an ANNOUNCE or an UPDATE is a short header and the octets of records
// one after the other. AppendResultHead and its kin append the former, so that a
// caller who has the latter only copies. ParseResult copies all that it keeps
// into one string, ParseResultView leaves it where it is and takes less than half
// the time: 38 ns a record of 130 octets, where reading with a general CBOR library
// into structs takes 870. Diagnose takes ten times as long as the reading that
// failed, and so costs who sends bad payloads no more of our time than a dozen good
// ones.
//
// # Errors
//
// What is refused is a *PayloadError, with the §9 code that answers it where the
// type takes a reply. The code depends on the order of the checks: the encoding
// of the whole payload, frame_kind, corr, keys and fields, record kinds. A first
// reading only finds out that something is wrong; Diagnose then says what.
//
// # Limits
//
// Options bounds what a payload may hold; nothing is allocated from a count that
// the payload declares, and nothing at all before the payload has been checked.
// How long a payload may be is the caller's business.
//
// # Concurrency
//
// Everything here is a function of its arguments, but for an UpdateReader, which one
// goroutine uses at a time.
//
// # Notes on the specification
//
// §4.1 wants an error for any malformed payload, and §7 none for those that are
// never answered: a PayloadError says what Reply is due, by the header's type
// alone. A corr is echoed where ScanCorr finds it (vectors N1 to N26) [C4].
//
// Where a payload is both malformed and of another kind, the encoding of the
// whole of it is looked at first, then frame_kind, then the rest: which keys are
// required cannot be known before (N8) [C10].
//
// A DISCO_ERROR without corr is taken, since it is what answers a request whose
// corr cannot be read; one with an empty corr is malformed [C4]. A corr in an
// ANNOUNCE is taken if it is one, and means nothing [C25].
//
// The keys 5 and 6 of a SUBSCRIBE are not in its table and not read [C43]. A
// cursor that comes with complete true is held to its type alone and left out
// [C40]; in a QUERY a cursor may be of any length, for only its issuer can tell.
//
// For a missing key the offset is its map's, and the path names the key. For a
// key of a type that no map may have, the path is its map's.
package disco
