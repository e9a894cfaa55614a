// Package testvectors holds the golden octets of NPAMP-DISC and of the N-PAMP
// frames that carry it: payloads with the verdict a receiver must reach, messages
// with the octets a sender makes of them, whole exchanges, sealed frames, and
// sample record files. The data are JSON files under data and records, so that an
// implementation in any language can use them without Go; README.md says how.
// This package embeds and loads them.
//
// No octet here was made by the encoders of this module. Each file says where
// its octets come from, and tools/judge.py is a second receiver that the tests
// hold them against.
//
// [Load] reads everything once and checks it: formats, unique names, hex. A
// [Set] is plain data; the caller owns it and may change it. The package keeps
// no state and imports nothing else of this module.
package testvectors
