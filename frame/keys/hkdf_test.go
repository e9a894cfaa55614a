package keys

import (
	"bytes"
	"strings"
	"testing"

	"github.com/npamp/disco/frame"
)

// Covers: CORE-7.4-01
func TestExpandLabelLimits(t *testing.T) {
	secret := goldenMaster()
	tests := []struct {
		name          string
		label         string
		context, size int
		ok            bool
	}{
		{"longest label", strings.Repeat("l", 248), 0, 32, true},
		{"label too long", strings.Repeat("l", 249), 0, 32, false},
		{"longest context", "key", 255, 32, true},
		{"context too long", "key", 256, 32, false},
		{"longest output", "key", 0, 255 * 32, true},
		{"output too long", "key", 0, 255*32 + 1, false},
		{"no output", "key", 0, 0, true},
		{"negative output", "key", 0, -1, false},
	}
	for _, tt := range tests {
		context := make([]byte, tt.context)
		got, err := ExpandLabel(SHA256, secret, tt.label, context, tt.size)
		if tt.ok && (err != nil || !bytes.Equal(got, oracleLabel(secret, tt.label, context, tt.size))) {
			t.Errorf("%s: %d octets, %v, want the oracle's", tt.name, len(got), err)
		}
		if !tt.ok && (err != ErrLength || got != nil) {
			t.Errorf("%s: %d octets, %v, want ErrLength", tt.name, len(got), err)
		}
	}
	for _, n := range []int{-1, 255*48 + 1} {
		if _, err := Expand(SHA384, secret, nil, n); err != ErrLength {
			t.Errorf("Expand to %d octets: %v, want ErrLength", n, err)
		}
	}
}

func TestHashes(t *testing.T) {
	for p, want := range map[frame.Profile]Hash{frame.ProfileStandard: SHA256, frame.ProfileHigh: SHA384, frame.ProfileSovereign: SHA384} {
		if got := ProfileHash(p); got != want {
			t.Errorf("%s hashes with %s, want %s", p, got, want)
		}
	}
	if SHA256.String() != "SHA-256" || SHA256.Len() != 32 || SHA384.String() != "SHA-384" || SHA384.Len() != 48 {
		t.Errorf("%s %d, %s %d", SHA256, SHA256.Len(), SHA384, SHA384.Len())
	}
	// The ladder follows the hash (binding §2).
	s := DeriveHandshake(SHA384, make([]byte, KEMSecretLen), make([]byte, 48))
	for name, v := range map[string][]byte{"handshake": s.Handshake, "c hs": s.Client, "s hs": s.Server,
		"master": s.Master(make([]byte, 48)), "Finished": s.Finished(ClientToServer, make([]byte, 48)),
		"traffic": TrafficSecret(SHA384, s.Client, 0, 0, 1, 0), "tier 1": RatchetStep(SHA384, s.Client, 1),
		"tier 2": RekemStep(SHA384, s.Client, make([]byte, KEMSecretLen), nil), "transcript": NewTranscript(SHA384).Sum()} {
		if len(v) != 48 {
			t.Errorf("%s at SHA-384 has %d octets, want 48", name, len(v))
		}
	}
	k, iv := TrafficKeyIV(SHA384, s.Client)
	if len(k) != KeyLen || len(iv) != NonceLen {
		t.Errorf("key and IV of %d and %d octets at SHA-384", len(k), len(iv))
	}
}

// The two tiers against the oracle, and what binding §9.7 asks of them.

func TestRatchet(t *testing.T) {
	root, secret := goldenMaster(), bytes.Repeat([]byte{0x5A}, KEMSecretLen)
	th := bytes.Repeat([]byte{0xA5}, 32)
	chain := root
	for g := byte(1); g <= 3; g++ {
		want := oracleLabel(chain, "master ratchet", []byte{0, 0, 0, 0, 0, 0, 0, g}, 32)
		wantOctets(t, "tier 1", RatchetStep(SHA256, chain, uint64(g)), want)
		if bytes.Equal(RatchetStep(SHA256, chain, uint64(g)+1), want) {
			t.Error("another generation gives the same root")
		}
		chain = want
	}
	want := oracleLabel(oracleExtract(root, secret), "master ratchet rekem", th, 32)
	wantOctets(t, "tier 2", RekemStep(SHA256, root, secret, th), want)
	for name, other := range map[string][]byte{
		"salt and IKM swapped": RekemStep(SHA256, secret, root, th),
		"another KEM secret":   RekemStep(SHA256, root, bytes.Repeat([]byte{0x5B}, KEMSecretLen), th),
		"another transcript":   RekemStep(SHA256, root, secret, root),
		"another root":         RekemStep(SHA256, th, secret, th),
	} {
		if bytes.Equal(other, want) {
			t.Errorf("%s gives the same root", name)
		}
	}
}

// Covers: CORE-7.5-01
func TestNonce(t *testing.T) {
	iv := [NonceLen]byte{0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xAB}
	for seq, want := range map[uint64]string{
		0:                  "a0a1a2a3a4a5a6a7a8a9aaab",
		1:                  "a0a1a2a3a4a5a6a7a8a9aaaa",
		0xFF00000A:         "a0a1a2a3a4a5a6a757a9aaa1",
		1<<64 - 1:          "a0a1a2a35b5a595857565554",
		0x0102030405060708: "a0a1a2a3a5a7a5a3adafada3",
	} {
		got := Nonce(iv, seq)
		wantOctets(t, "nonce", got[:], unhex(t, want))
	}
	if iv[11] != 0xAB {
		t.Error("Nonce changed the caller's IV")
	}
}

func TestDirectionString(t *testing.T) {
	if ClientToServer.String() != "c2s" || ServerToClient.String() != "s2c" {
		t.Errorf("%s, %s", ClientToServer, ServerToClient)
	}
}
