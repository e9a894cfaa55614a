package keys

import "errors"

var (
	// ErrOpen says that a tag did not verify. Nothing more is known of the frame.
	ErrOpen = errors.New("keys: message authentication failed")
	// ErrErased is returned by Open after Erase.
	ErrErased = errors.New("keys: key has been erased")

	ErrSuite     = errors.New("keys: unknown AEAD suite")
	ErrKeyLength = errors.New("keys: key or IV of the wrong length")
	ErrLength    = errors.New("keys: HKDF output, label or context too long")

	ErrFinished  = errors.New("keys: Finished does not verify")
	ErrScheme    = errors.New("keys: CertVerify uses a signature scheme that was not negotiated")
	ErrSignature = errors.New("keys: CertVerify does not verify")
	ErrPublicKey = errors.New("keys: invalid Ed25519 public key")

	ErrKEMLength = errors.New("keys: KEM share or ciphertext of the wrong length")
	ErrKEMShare  = errors.New("keys: invalid ML-KEM encapsulation key")
	ErrLowOrder  = errors.New("keys: X25519 result is zero")
)
