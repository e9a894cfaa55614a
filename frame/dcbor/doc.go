// Package dcbor reads and writes deterministically encoded CBOR (RFC 8949
// §4.2.1; core §4.5, core §11.9; NPAMP-DISC §4.1) and nothing else: what it accepts has
// exactly one encoding. It knows no message.
//
// # Writing
//
// The Append functions append one head or item in its shortest form to the
// caller's slice. The caller appends a map's keys in ascending order.
//
// # Reading
//
// A reader takes the input and the index of an item, and returns the item and
// the index after it. A negative index is a fault, which every reader hands on,
// so that a run of reads is checked once, at its end, by Done. Known keys are
// asked for in ascending order with Key and Has, and what is left goes to Rest;
// order, duplicates and presence are checked by the asking:
//
//	n, i := dcbor.Map(b, 0)
//	code, i := dcbor.Uint(b, dcbor.Key(b, i, 1), 255)
//	context, i := dcbor.Bytes(b, dcbor.Key(b, i, 2), 0, 256)
//	err := dcbor.Done(b, dcbor.Rest(b, i, n-2, 2, 1, mode))
//
// A count read from the input is at most the number of octets left. Nothing
// here allocates from it, or at all, but for the error.
//
// A run of reads reports the fault that it meets first, and one of truncation
// where the reading stops. Check and Shape are slower and say exactly what is
// wrong: Check with the encoding of the whole input, Shape, given as data, with
// what the items mean.
//
// # Limits
//
// Arrays, maps and tags nest at most MaxDepth deep, values that nobody reads
// included. Head and Next are for input that has been checked; on other input
// they may panic. An input has at most MaxLen octets, of which an index can name
// each with its fault; N-PAMP frames are far below.
//
// # Notes on the specification
//
// Depth counts arrays, maps and tags; a scalar within the eighth is accepted.
// Additional information 28 to 30 belongs to no item: it is reported as
// shortest-form, and for major type 7 as simple-value. A tag of number 2 or 3
// around anything but a byte string is only a tag.
package dcbor
