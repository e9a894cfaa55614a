package keys

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"fmt"

	"github.com/npamp/disco/frame"
)

// A KEM is a key encapsulation's code point (core §7.1).
type KEM uint16

// The code points. 0x11ED is X25519MLKEM1024 in crypto generation 2 and
// SecP384r1MLKEM1024 in 3; neither is implemented.
const (
	KEMX25519MLKEM768 KEM = 0x11EC
	KEM1024           KEM = 0x11ED
)

// AllowedAt reports whether profile p accepts k: the KEM has to reach the
// profile's minimum, 0x11EC at Standard, 0x11ED above (core §6, §7.1).
func (k KEM) AllowedAt(p frame.Profile) bool {
	switch p {
	case frame.ProfileStandard:
		return k == KEMX25519MLKEM768 || k == KEM1024
	case frame.ProfileHigh, frame.ProfileSovereign:
		return k == KEM1024
	}
	return false
}

// String returns the code point's name.
func (k KEM) String() string {
	if k == KEMX25519MLKEM768 {
		return "X25519MLKEM768"
	}
	return fmt.Sprintf("0x%04x", uint16(k))
}

// Sizes of X25519MLKEM768 in octets. ML-KEM comes first in all three, whatever
// the name says (binding §4).
const (
	KEMShareLen      = mlkem.EncapsulationKeySize768 + x25519Len // 1216
	KEMCiphertextLen = mlkem.CiphertextSize768 + x25519Len       // 1120
	KEMSecretLen     = mlkem.SharedKeySize + x25519Len           // 64

	x25519Len = 32
)

// A KEMPrivate is the ephemeral private half of X25519MLKEM768: the client's in
// a handshake, the initiator's in a re-KEM.
type KEMPrivate struct {
	mlkem  *mlkem.DecapsulationKey768
	x25519 *ecdh.PrivateKey
}

// GenerateKEM makes a fresh pair.
func GenerateKEM() (*KEMPrivate, error) {
	m, err := mlkem.GenerateKey768()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return &KEMPrivate{m, x}, nil
}

// NewKEMPrivate makes the pair of an ML-KEM seed d ‖ z (64 octets) and an X25519
// private key (32 octets), for replaying recorded handshakes. The error is
// ErrKeyLength.
func NewKEMPrivate(mlkemSeed, x25519 []byte) (*KEMPrivate, error) {
	m, err := mlkem.NewDecapsulationKey768(mlkemSeed)
	if err != nil {
		return nil, ErrKeyLength
	}
	x, err := ecdh.X25519().NewPrivateKey(x25519)
	if err != nil {
		return nil, ErrKeyLength
	}
	return &KEMPrivate{m, x}, nil
}

// Share returns the public share: ML-KEM encapsulation key (1184) ‖ X25519 public
// key (32).
func (k *KEMPrivate) Share() []byte {
	return append(k.mlkem.EncapsulationKey().Bytes(), k.x25519.PublicKey().Bytes()...)
}

// Decapsulate returns the 64-octet secret, ML-KEM's ‖ X25519's, of a ciphertext.
// A corrupt ML-KEM part gives a pseudorandom secret, not an error (FIPS 203). The
// errors are ErrKEMLength and ErrLowOrder.
func (k *KEMPrivate) Decapsulate(ciphertext []byte) ([]byte, error) {
	if len(ciphertext) != KEMCiphertextLen {
		return nil, ErrKEMLength
	}
	m, err := k.mlkem.Decapsulate(ciphertext[:mlkem.CiphertextSize768])
	if err != nil {
		return nil, ErrKEMLength
	}
	defer clear(m)
	return combine(m, k.x25519, ciphertext[mlkem.CiphertextSize768:])
}

// Encapsulate answers a share: it returns the ciphertext, ML-KEM's (1088) ‖ a
// fresh X25519 public key (32), and the 64-octet secret. The errors are
// ErrKEMLength, ErrKEMShare and ErrLowOrder.
func Encapsulate(share []byte) (ciphertext, secret []byte, err error) {
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	return encapsulate(share, x, (*mlkem.EncapsulationKey768).Encapsulate)
}

// encapsulate is Encapsulate with both sources of randomness in the caller's
// hands.
func encapsulate(share []byte, x *ecdh.PrivateKey,
	encaps func(*mlkem.EncapsulationKey768) (secret, ciphertext []byte)) (ciphertext, secret []byte, err error) {
	if len(share) != KEMShareLen {
		return nil, nil, ErrKEMLength
	}
	ek, err := mlkem.NewEncapsulationKey768(share[:mlkem.EncapsulationKeySize768])
	if err != nil {
		return nil, nil, ErrKEMShare // FIPS 203 §7.2: not reduced modulo q
	}
	m, ct := encaps(ek)
	defer clear(m)
	secret, err = combine(m, x, share[mlkem.EncapsulationKeySize768:])
	if err != nil {
		return nil, nil, err
	}
	return append(ct, x.PublicKey().Bytes()...), secret, nil
}

// combine returns mlkemSecret ‖ X25519(x, peer). An all-zero X25519 result is
// refused (binding §4).
func combine(mlkemSecret []byte, x *ecdh.PrivateKey, peer []byte) ([]byte, error) {
	pub, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return nil, ErrKEMLength
	}
	s, err := x.ECDH(pub)
	if err != nil {
		return nil, ErrLowOrder
	}
	defer clear(s)
	secret := make([]byte, 0, KEMSecretLen)
	return append(append(secret, mlkemSecret...), s...), nil
}
