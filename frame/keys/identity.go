package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A Scheme is a signature scheme's code point (core §7.3).
type Scheme uint16

// SchemeEd25519 is the one scheme implemented.
const SchemeEd25519 Scheme = 0x0807

// CertVerifyLen is the length of a CertVerify value in octets: scheme (2) ‖
// Ed25519 signature (64).
const CertVerifyLen = 2 + ed25519.SignatureSize

// CertVerifyInput returns what a CertVerify signs (binding §6.1):
//
//	64 × 0x20 ‖ "N-PAMP/<generation>, server|client CertificateVerify" ‖ 0x00 ‖ th
//
// d is the direction the signer sends in, th TH_sId or TH_cId. It panics on a
// generation other than 2 and 3.
func CertVerifyInput(generation int, d Direction, th []byte) []byte {
	if generation != 2 && generation != 3 {
		panic(fmt.Sprintf("BUG: keys: crypto generation %d", generation))
	}
	role := "server"
	if d == ClientToServer {
		role = "client"
	}
	in := []byte(strings.Repeat(" ", 64))
	in = fmt.Appendf(in, "N-PAMP/%d, %s CertificateVerify\x00", generation, role)
	return append(in, th...)
}

// SignCertVerify returns the value of d's CertVerify TLV over th.
func SignCertVerify(generation int, d Direction, th []byte, key ed25519.PrivateKey) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(SchemeEd25519))
	return append(b, ed25519.Sign(key, CertVerifyInput(generation, d, th))...)
}

// VerifyCertVerify checks the value of d's CertVerify TLV over th under pub. A
// value of the other role or another transcript does not verify. The errors are
// ErrScheme, ErrPublicKey and ErrSignature.
func VerifyCertVerify(generation int, d Direction, th []byte, pub ed25519.PublicKey, value []byte) error {
	if len(value) < 2 || Scheme(binary.BigEndian.Uint16(value)) != SchemeEd25519 {
		return ErrScheme
	}
	if err := CheckPublicKey(pub); err != nil {
		return err
	}
	if !ed25519.Verify(pub, CertVerifyInput(generation, d, th), value[2:]) {
		return ErrSignature
	}
	return nil
}

// CheckPublicKey refuses, with ErrPublicKey, what is no sound Ed25519 identity:
// another length than 32 octets, a y coordinate that is not reduced modulo
// 2^255−19 (a second encoding of one key would be a second identity), and the
// points of order 1, 2, 4 and 8, under which anybody can sign. Whether the point
// is on the curve shows when a signature is verified.
func CheckPublicKey(pub []byte) error {
	if len(pub) != ed25519.PublicKeySize {
		return ErrPublicKey
	}
	y := [32]byte(pub)
	y[31] &= 0x7F // the top bit is the sign of x
	slices.Reverse(y[:])
	if string(y[:]) >= fieldPrime {
		return ErrPublicKey
	}
	switch string(y[:]) {
	case order1Y, order2Y, order4Y, order8Y, otherOrder8Y:
		return ErrPublicKey
	}
	return nil
}

// Field elements of edwards25519, big-endian: the modulus 2^255−19 and the y
// coordinates of the eight points of small order.
const (
	fieldPrime = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xed"
	order1Y = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	order2Y = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xec" // −1
	order4Y = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	order8Y = "\x05\xfc\x53\x6d\x88\x02\x38\xb1\x39\x33\xc6\xd3\x05\xac\xdf\xd5" +
		"\xf0\x98\xef\xf2\x89\xf4\xc3\x45\xb0\x27\xb2\xc2\x8f\x95\xe8\x26"
	otherOrder8Y = "\x7a\x03\xac\x92\x77\xfd\xc7\x4e\xc6\xcc\x39\x2c\xfa\x53\x20\x2a" +
		"\x0f\x67\x10\x0d\x76\x0b\x3c\xba\x4f\xd8\x4d\x3d\x70\x6a\x17\xc7" // −order8Y
)

// PeerHandle returns the handle of an Ed25519 identity (NPAMP-PEERHANDLE §2):
// multibase base32 of the multihash (SHA-256) of the multicodec 0xED and the raw
// 32-octet key, 56 characters. It does not check the key.
func PeerHandle(pub ed25519.PublicKey) string { return peerHandle(codecEd25519, pub) }

// codecEd25519 is the multicodec of a raw Ed25519 public key.
const codecEd25519 = 0xED

func peerHandle(codec uint64, key []byte) string {
	sum := sha256.Sum256(append(binary.AppendUvarint(nil, codec), key...))
	multihash := append([]byte{0x12, sha256.Size}, sum[:]...) // function sha2-256, length
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(multihash))
}
