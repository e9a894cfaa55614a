package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/npamp/disco/frame"
)

// Sizes of either suite, in octets (core §7.2).
const (
	KeyLen   = 32
	NonceLen = 12
	TagLen   = frame.TagLen
)

// A Suite is an AEAD's code point (core §7.2).
type Suite uint16

// The suites.
const (
	SuiteAES256GCM        Suite = 0x0001
	SuiteChaCha20Poly1305 Suite = 0x0002
)

// Valid reports whether s is one of the two suites.
func (s Suite) Valid() bool { return s == SuiteAES256GCM || s == SuiteChaCha20Poly1305 }

// String returns the registry's name.
func (s Suite) String() string {
	switch s {
	case SuiteAES256GCM:
		return "AES-256-GCM"
	case SuiteChaCha20Poly1305:
		return "ChaCha20-Poly1305"
	}
	return fmt.Sprintf("unknown(0x%04x)", uint16(s))
}

// NewAEAD returns the suite's cipher under key. The errors are ErrSuite and
// ErrKeyLength.
func (s Suite) NewAEAD(key []byte) (cipher.AEAD, error) {
	if !s.Valid() {
		return nil, ErrSuite
	}
	if len(key) != KeyLen {
		return nil, ErrKeyLength
	}
	if s == SuiteChaCha20Poly1305 {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Nonce returns the nonce of sequence number seq: iv XOR (4 zero octets ‖ seq)
// (core §7.5).
func Nonce(iv [NonceLen]byte, seq uint64) [NonceLen]byte {
	putNonce(&iv, &iv, seq)
	return iv
}

func putNonce(nonce, iv *[NonceLen]byte, seq uint64) {
	copy(nonce[:4], iv[:4])
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(iv[4:])^seq)
}

// A Key seals or opens the frames of one (channel, direction, epoch). It caches
// the cipher object and builds nonces in its own memory, so that sealing and
// opening in place allocate nothing.
//
// A Key belongs to one goroutine. It does not look after sequence numbers:
// whoever seals must never use one twice.
type Key struct {
	aead  cipher.AEAD // nil after Erase
	iv    [NonceLen]byte
	nonce [NonceLen]byte
}

// NewKey returns a Key of suite s. It keeps neither key nor iv, which the caller
// may erase. The errors are ErrSuite and ErrKeyLength.
func NewKey(s Suite, key, iv []byte) (*Key, error) {
	if len(iv) != NonceLen {
		return nil, ErrKeyLength
	}
	aead, err := s.NewAEAD(key)
	if err != nil {
		return nil, err
	}
	k := &Key{aead: aead}
	copy(k.iv[:], iv)
	return k, nil
}

// Seal appends ciphertext and tag of plaintext to dst, with aad authenticated
// too. plaintext[:0] as dst seals in place. It panics on an erased key.
func (k *Key) Seal(dst, aad []byte, seq uint64, plaintext []byte) []byte {
	if k.aead == nil {
		panic("BUG: keys: Seal with an erased key")
	}
	putNonce(&k.nonce, &k.iv, seq)
	return k.aead.Seal(dst, k.nonce[:], plaintext, aad)
}

// Open appends the plaintext of sealed, which is ciphertext and tag, to dst.
// sealed[:0] as dst opens in place; where that fails, sealed is overwritten, so a
// second key has to be tried on a copy. The errors are ErrOpen and ErrErased.
func (k *Key) Open(dst, aad []byte, seq uint64, sealed []byte) ([]byte, error) {
	if k.aead == nil {
		return nil, ErrErased
	}
	putNonce(&k.nonce, &k.iv, seq)
	out, err := k.aead.Open(dst, k.nonce[:], sealed, aad)
	if err != nil {
		return nil, ErrOpen
	}
	return out, nil
}

// SealFrame seals the frame that starts at b[at]: frame.HeaderLen octets of room
// for the header, then the plaintext up to len(b). It writes h there, with
// PayloadLen set to plaintext and tag, seals in place under h.Seq, and returns b
// longer by the tag. h.Flags are taken as they are. It allocates only if b lacks
// the room for the tag, and panics if the frame would exceed frame.MaxFrameLen or
// the key is erased.
func (k *Key) SealFrame(b []byte, at int, h frame.Header) []byte {
	body := at + frame.HeaderLen
	if len(b)+TagLen-at > frame.MaxFrameLen {
		panic("BUG: keys: frame longer than 16 MiB")
	}
	h.PayloadLen = uint32(len(b) - body + TagLen)
	frame.PutHeader(b[at:], h)
	return k.Seal(b[:body], b[at:at+frame.AADLen], h.Seq, b[body:])
}

// OpenFrame opens a frame as frame.Reader gives it, header and payload, in
// place, and returns the plaintext, which aliases raw. h is raw's parsed header.
// The errors are those of Open; after one, raw's payload is overwritten.
func (k *Key) OpenFrame(h frame.Header, raw []byte) ([]byte, error) {
	sealed := raw[frame.HeaderLen:]
	return k.Open(sealed[:0], raw[:frame.AADLen], h.Seq, sealed)
}

// Erase makes the key unusable and overwrites the IV. The expanded key inside
// the cipher object is out of reach and is left to the collector.
func (k *Key) Erase() { *k = Key{} }

// Erased reports whether Erase was called.
func (k *Key) Erased() bool { return k.aead == nil }
