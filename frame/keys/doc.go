// Package keys is the cryptography of an N-PAMP association as pure functions:
// the key schedule and transcript of the handshake binding (spec/10), traffic
// keys (core §7.4, §7.5), sealing and opening of frames, CertVerify and Finished
// (core §8.4), the hybrid key encapsulation X25519MLKEM768, the two steps of the
// master ratchet (binding §9) and the PeerHandle (NPAMP-PEERHANDLE §2).
//
// The order of use in a handshake, both ends:
//
//	KEM           client GenerateKEM, Share; server Encapsulate; client Decapsulate
//	Transcript    AddFrame(CLIENT_HELLO), AddFrame(SERVER_HELLO) → TH_kem
//	Secrets       DeriveHandshake(hash, KEM secret, TH_kem)
//	SERVER_AUTH   IdentityKey → TH_sId → SignCertVerify → TH_sCV → Finished
//	CLIENT_AUTH   IdentityKey → TH_cId → SignCertVerify → TH_cCV → Finished
//	master        Secrets.Master(TH_cCV) → NewTrafficKey per (channel, direction, epoch)
//
// Crypto generations 2 and 3 differ here in one text alone, the context string
// of CertVerify; functions that need it take the generation, 2 or 3.
//
// Nothing here starts a goroutine or keeps state outside the values it returns.
// Functions may be called concurrently. A [Key] and a [Transcript] belong to one
// goroutine each.
//
// # Randomness and erasure
//
// Random octets come from crypto/rand. [Erase] and the Erase methods overwrite
// secrets with zeros. They are bounded by what the runtime shows of its memory:
// the expanded key inside a cipher object, the halves of a [KEMPrivate] and what
// the collector or the stack copied cannot be overwritten; references to them
// are dropped.
//
// # Limitations
//
// Only profile Standard is complete: KEM 0x11EC, Ed25519. The hash and the key
// schedule take SHA-384 too, KEM 0x11ED and ML-DSA-87 are not implemented. Public
// keys with a torsion component other than the small-order points themselves are
// accepted, as RFC 8032 allows.
package keys
