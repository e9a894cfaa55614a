package keys

import (
	"encoding/binary"
	"hash"

	"github.com/npamp/disco/frame"
)

// A Transcript is the running hash of a handshake (binding §3). It absorbs the
// two octets of a frame type and the octets of TLVs, Type ‖ Length ‖ Value, which
// are their octets on the wire; nothing else of a frame.
//
//	TH_kem  through SERVER_HELLO
//	TH_sId  … ‖ 0x0102 ‖ the server's IdentityKey
//	TH_sCV  … ‖ its CertVerify
//	TH_cId  … ‖ its Finished ‖ 0x0103 ‖ the client's IdentityKey
//	TH_cCV  … ‖ its CertVerify
type Transcript struct{ h hash.Hash }

// NewTranscript returns an empty transcript.
func NewTranscript(h Hash) *Transcript { return &Transcript{h.new()} }

// AddType absorbs a frame type.
func (t *Transcript) AddType(typ frame.Type) {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(typ))
	t.h.Write(b[:])
}

// AddTLV absorbs one TLV.
func (t *Transcript) AddTLV(typ uint16, value []byte) {
	t.h.Write(frame.AppendTLV(nil, typ, value))
}

// AddFrame absorbs a frame type and the whole payload of a HELLO flight, which
// the caller found to consist of TLVs.
func (t *Transcript) AddFrame(typ frame.Type, tlvs []byte) {
	t.AddType(typ)
	t.h.Write(tlvs)
}

// Sum returns the transcript hash at this point. More may be absorbed after it.
func (t *Transcript) Sum() []byte { return t.h.Sum(nil) }

// RekemTranscript returns TH_rekem (binding §9.5): the exchange of REKEM with
// share and REKEM_ACK with ciphertext, for the new generation.
func RekemTranscript(h Hash, share, ciphertext []byte, generation uint64) []byte {
	gen := binary.BigEndian.AppendUint64(nil, generation)
	t := NewTranscript(h)
	t.AddType(frame.TypeRekem)
	t.AddTLV(frame.TagKEMShare, share)
	t.AddTLV(frame.TagRatchetGeneration, gen)
	t.AddType(frame.TypeRekemAck)
	t.AddTLV(frame.TagKEMCiphertext, ciphertext)
	t.AddTLV(frame.TagRatchetGeneration, gen)
	return t.Sum()
}
