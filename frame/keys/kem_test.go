package keys

import (
	"bytes"
	"testing"

	"github.com/npamp/disco/frame"
)

func TestKEM(t *testing.T) {
	k, err := GenerateKEM()
	if err != nil {
		t.Fatal(err)
	}
	other, err := GenerateKEM()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(k.Share(), other.Share()) {
		t.Error("two fresh pairs are the same")
	}
	ct, want, err := Encapsulate(k.Share())
	if err != nil || len(ct) != KEMCiphertextLen || len(want) != KEMSecretLen {
		t.Fatalf("ciphertext of %d octets, secret of %d, %v", len(ct), len(want), err)
	}
	got, err := k.Decapsulate(ct)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("secrets differ: %x, %v, want %x", got, err, want)
	}
	if got, err := other.Decapsulate(ct); err != nil || bytes.Equal(got, want) {
		t.Errorf("another pair: %x, %v, want another secret", got, err)
	}
	ct2, want2, err := Encapsulate(k.Share())
	if err != nil || bytes.Equal(ct2, ct) || bytes.Equal(want2, want) {
		t.Errorf("two encapsulations to one share are the same (%v)", err)
	}
	for _, n := range []int{0, 63, 65} {
		if _, err := NewKEMPrivate(make([]byte, n), make([]byte, 32)); err != ErrKeyLength {
			t.Errorf("seed of %d octets: %v, want ErrKeyLength", n, err)
		}
	}
	for _, n := range []int{0, 31, 33} {
		if _, err := NewKEMPrivate(make([]byte, 64), make([]byte, n)); err != ErrKeyLength {
			t.Errorf("X25519 key of %d octets: %v, want ErrKeyLength", n, err)
		}
	}
}

// Covers: CORE-7.1-01
func TestKEMAllowedAt(t *testing.T) {
	for _, tt := range []struct {
		p    frame.Profile
		k    KEM
		want bool
	}{
		{frame.ProfileStandard, KEMX25519MLKEM768, true},
		{frame.ProfileStandard, KEM1024, true},
		{frame.ProfileHigh, KEMX25519MLKEM768, false},
		{frame.ProfileHigh, KEM1024, true},
		{frame.ProfileSovereign, KEMX25519MLKEM768, false},
		{frame.ProfileSovereign, KEM1024, true},
		{frame.ProfileStandard, 0x11EB, false},
		{frame.ProfileSovereign, 0x11EE, false},
		{0, KEMX25519MLKEM768, false},
		{4, KEM1024, false},
	} {
		if got := tt.k.AllowedAt(tt.p); got != tt.want {
			t.Errorf("%s at %s: %v, want %v", tt.k, tt.p, got, tt.want)
		}
	}
	if KEMX25519MLKEM768.String() != "X25519MLKEM768" || KEM1024.String() != "0x11ed" {
		t.Errorf("%s, %s", KEMX25519MLKEM768, KEM1024)
	}
}
