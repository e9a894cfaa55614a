// Package frame is the N-PAMP frame layer: the 36-octet header (core §4.2), the
// extension TLVs (core §4.4), the registries of channels, frame types and core
// error codes (core §4.6, §5), framing of an octet stream, and the Transport
// interface by which one channel of an association is used.
//
// A frame is
//
//	header (36) ‖ payload (Payload Length octets)
//
// where the payload is either the cleartext TLVs of a HELLO flight or
// ciphertext ‖ tag (16) of a plaintext that starts with zero or more TLVs.
// Payload Length counts everything after the header, the tag included.
//
// The package knows no CBOR and no keys, starts no goroutine and keeps no state
// of its own. Functions may be called concurrently; a [Reader] belongs to one
// goroutine.
//
// # Limits
//
// A frame is at most [MaxFrameLen] octets, header included, and a plaintext
// carries at most [MaxTLVs] TLVs. A [Reader] allocates as octets arrive, never
// from a declared length.
//
// # Notes on the specification
//
// No field says where the TLVs of a plaintext end and its body starts (core
// §4.1). [Peel] steps over TLVs while the first octet is below 0x80. A first
// octet 0xA0–0xBF is the head of a CBOR map. Any other octet from 0x80 up that
// begins a complete TLV is one the receiver must understand and does not: every
// TLV that may be ignored has a Type below 0x8000, so no body is mistaken for a
// TLV. Types 0xA000–0xBFFF cannot be told from a map and are unusable.
//
// Header flags 0x1 and 0x8 are URG and FRAG in crypto generation 2 and reserved
// in generation 3. The header does not say which generation it belongs to, so
// [ParseHeader] returns all four bits, and the caller passes the mask of the
// reserved ones to [NewReader], or tests Header.Flags itself.
package frame
