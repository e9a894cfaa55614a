package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"fmt"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/keys"
)

// An identity is recognised by every octet of it, in hex and as a PeerHandle, and
// what is neither is refused.
//
// Covers: PEERHANDLE-4-01, PEERHANDLE-2-01
func TestParseKey(t *testing.T) {
	pub := ed25519.PublicKey(bytes.Repeat([]byte{0xA5}, ed25519.PublicKeySize))
	handle := keys.PeerHandle(pub)
	for _, text := range []string{fmt.Sprintf("%x", pub), fmt.Sprintf("%X", pub), handle} {
		match, err := parseKey(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !match(pub) {
			t.Errorf("%s does not recognise its key", text)
		}
		for i := range pub {
			other := bytes.Clone(pub)
			other[i] ^= 1
			if match(other) {
				t.Errorf("%s recognises %x", text, other)
			}
		}
	}
	multihash := func(b ...byte) string {
		return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
	}
	digest := make([]byte, 33)
	for _, text := range []string{
		"", "a5", fmt.Sprintf("%x", pub[1:]), fmt.Sprintf("%xa5", pub), fmt.Sprintf("%xzz", pub[1:]),
		strings.ToUpper(handle), handle[1:], handle + "=", "z" + handle[1:],
		multihash(append([]byte{0x12, 32}, digest[:31]...)...), // an octet short
		multihash(append([]byte{0x12, 32}, digest[:33]...)...), // one too many
		multihash(append([]byte{0x13, 32}, digest[:32]...)...), // another function
		multihash(append([]byte{0x12, 31}, digest[:32]...)...), // another length
	} {
		if _, err := parseKey(text); err == nil || exitOf(t.Context(), err) != exitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}
