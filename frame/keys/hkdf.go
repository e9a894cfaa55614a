package keys

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"

	"github.com/npamp/disco/frame"
)

// A Hash is the KDF hash of a profile (core §6): SHA-256 at Standard, SHA-384
// above.
type Hash uint8

// The hashes. The zero value is SHA-256.
const (
	SHA256 Hash = iota
	SHA384
)

// ProfileHash returns the KDF hash of p.
func ProfileHash(p frame.Profile) Hash {
	if p == frame.ProfileStandard {
		return SHA256
	}
	return SHA384
}

// Len returns the hash length in octets: 32 or 48.
func (h Hash) Len() int {
	if h == SHA384 {
		return sha512.Size384
	}
	return sha256.Size
}

// String returns the registry's name.
func (h Hash) String() string {
	if h == SHA384 {
		return "SHA-384"
	}
	return "SHA-256"
}

func (h Hash) new() hash.Hash {
	if h == SHA384 {
		return sha512.New384()
	}
	return sha256.New()
}

// labelPrefix goes before every label of Expand-Label (core §7.4), space
// included.
const labelPrefix = "n-pamp "

// Extract is HKDF-Extract (RFC 5869 §2.2) of ikm. A nil salt is h.Len() zeros.
func Extract(h Hash, ikm, salt []byte) ([]byte, error) {
	return hkdf.Extract(h.new, ikm, salt)
}

// Expand is HKDF-Expand (RFC 5869 §2.3). length is 0 to 255 × h.Len() octets;
// otherwise the error is ErrLength.
func Expand(h Hash, prk, info []byte, length int) ([]byte, error) {
	if length < 0 || length > 255*h.Len() {
		return nil, ErrLength
	}
	return hkdf.Expand(h.new, prk, string(info), length)
}

// ExpandLabel is HKDF-Expand-Label of RFC 8446 §7.1 with "n-pamp " in place of
// "tls13 " (core §7.4). label is at most 248 octets, context at most 255, length
// 0 to 255 × h.Len(); otherwise the error is ErrLength.
func ExpandLabel(h Hash, secret []byte, label string, context []byte, length int) ([]byte, error) {
	if len(labelPrefix)+len(label) > 255 || len(context) > 255 || length < 0 || length > 255*h.Len() {
		return nil, ErrLength
	}
	info := make([]byte, 0, 4+len(labelPrefix)+len(label)+len(context))
	info = binary.BigEndian.AppendUint16(info, uint16(length))
	info = append(info, byte(len(labelPrefix)+len(label)))
	info = append(info, labelPrefix...)
	info = append(info, label...)
	info = append(info, byte(len(context)))
	info = append(info, context...)
	return Expand(h, secret, info, length)
}

// expandLabel is ExpandLabel for the schedule's own labels, contexts and
// lengths, which are all within bounds.
func expandLabel(h Hash, secret []byte, label string, context []byte, length int) []byte {
	out, err := ExpandLabel(h, secret, label, context, length)
	if err != nil {
		panic("BUG: keys: " + err.Error())
	}
	return out
}

func extract(h Hash, ikm, salt []byte) []byte {
	out, err := Extract(h, ikm, salt)
	if err != nil {
		panic("BUG: keys: " + err.Error())
	}
	return out
}

// Erase overwrites each of the secrets with zeros.
func Erase(secrets ...[]byte) {
	for _, s := range secrets {
		clear(s)
	}
}
