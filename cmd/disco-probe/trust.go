package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/npamp/disco/frame/keys"
)

// parseKey reads an identity, an Ed25519 public key in hex or a PeerHandle, and
// returns what recognises it.
func parseKey(s string) (func(ed25519.PublicKey) bool, error) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == ed25519.PublicKeySize {
		return func(pub ed25519.PublicKey) bool { return bytes.Equal(pub, b) }, nil
	}
	if isHandle(s) {
		return func(pub ed25519.PublicKey) bool { return keys.PeerHandle(pub) == s }, nil
	}
	return nil, usagef("%q is no identity: want an Ed25519 public key in hex (64 digits) or a PeerHandle", s)
}

// isHandle reports whether s has the form of a PeerHandle: multibase base32 of a
// SHA-256 multihash.
func isHandle(s string) bool {
	text, ok := strings.CutPrefix(s, "b")
	if !ok || text != strings.ToLower(text) {
		return false
	}
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(text))
	return err == nil && len(b) == 34 && b[0] == 0x12 && b[1] == 32
}

// describeKey names an identity in both ways.
func describeKey(pub ed25519.PublicKey) string {
	return fmt.Sprintf("%x (%s)", []byte(pub), keys.PeerHandle(pub))
}
