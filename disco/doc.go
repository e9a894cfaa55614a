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
// into one string, ParseResultView leaves it where it is.
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
// Everything here is a function of its arguments.
package disco
