package keys

import (
	"crypto/ed25519"
	"encoding/base32"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// A point of edwards25519 in affine coordinates, in plain big integers: an
// arithmetic of its own to judge the list of small-order points by.
type point struct{ x, y *big.Int }

var (
	fieldP  = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	curveD  = fieldDiv(big.NewInt(-121665), big.NewInt(121666))
	sqrtOfD = new(big.Int).Exp(big.NewInt(2), new(big.Int).Rsh(new(big.Int).Sub(fieldP, big.NewInt(1)), 2), fieldP) // √−1
)

func fieldMul(a, b *big.Int) *big.Int {
	c := new(big.Int).Mul(a, b)
	return c.Mod(c, fieldP)
}

func fieldDiv(a, b *big.Int) *big.Int {
	return fieldMul(a, new(big.Int).ModInverse(new(big.Int).Mod(b, fieldP), fieldP))
}

func (a point) add(b point) point {
	dxxyy := fieldMul(curveD, fieldMul(fieldMul(a.x, b.x), fieldMul(a.y, b.y)))
	one := big.NewInt(1)
	return point{
		fieldDiv(new(big.Int).Add(fieldMul(a.x, b.y), fieldMul(a.y, b.x)), new(big.Int).Add(one, dxxyy)),
		fieldDiv(new(big.Int).Add(fieldMul(a.y, b.y), fieldMul(a.x, b.x)), new(big.Int).Sub(one, dxxyy)),
	}
}

// decompress returns a point with that y coordinate, or false if there is none.
func decompress(y *big.Int) (point, bool) {
	yy := fieldMul(y, y)
	xx := fieldDiv(new(big.Int).Sub(yy, big.NewInt(1)), new(big.Int).Add(fieldMul(curveD, yy), big.NewInt(1)))
	e := new(big.Int).Rsh(new(big.Int).Add(fieldP, big.NewInt(3)), 3)
	x := new(big.Int).Exp(xx, e, fieldP)
	if fieldMul(x, x).Cmp(xx) != 0 {
		x = fieldMul(x, sqrtOfD)
	}
	return point{x, y}, fieldMul(x, x).Cmp(xx) == 0
}

// order returns the order of p if it divides 8, else 0.
func (p point) order() int {
	q := p
	for n := 1; n <= 8; n++ {
		if q.x.Sign() == 0 && q.y.Cmp(big.NewInt(1)) == 0 {
			return n
		}
		q = q.add(p)
	}
	return 0
}

func encodeY(y *big.Int, sign byte) []byte {
	b := y.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	b[31] |= sign << 7
	return b
}

// All points of small order, found by multiplying points by the group order, and
// every second encoding of a coordinate.
//
// Covers: CORE-8.4-01
func TestCheckPublicKey(t *testing.T) {
	// A point of full order times ℓ is one of small order; 8 in all.
	l, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	small := map[string]int{}
	for y := int64(2); len(small) < 5 && y < 300; y++ {
		p, ok := decompress(big.NewInt(y))
		if !ok {
			continue
		}
		r, q := point{big.NewInt(0), big.NewInt(1)}, p
		for i := range l.BitLen() {
			if l.Bit(i) == 1 {
				r = r.add(q)
			}
			q = q.add(q)
		}
		small[r.y.String()] = r.order()
	}
	if len(small) != 5 {
		t.Fatalf("%d y coordinates of small order found, want 5", len(small))
	}
	orders := map[int]int{}
	for s, order := range small {
		orders[order]++
		y, _ := new(big.Int).SetString(s, 10)
		for sign := range byte(2) {
			if err := CheckPublicKey(encodeY(y, sign)); err != ErrPublicKey {
				t.Errorf("point of order %d, %x: %v, want ErrPublicKey", order, encodeY(y, sign), err)
			}
		}
	}
	if orders[1] != 1 || orders[2] != 1 || orders[4] != 1 || orders[8] != 2 {
		t.Errorf("orders found: %v", orders)
	}

	for i := range int64(19) { // y from p to 2^255−1: a second encoding of 0 to 18
		y := new(big.Int).Add(fieldP, big.NewInt(i))
		for sign := range byte(2) {
			if err := CheckPublicKey(encodeY(y, sign)); err != ErrPublicKey {
				t.Errorf("y = p+%d: %v, want ErrPublicKey", i, err)
			}
		}
	}
	if err := CheckPublicKey(encodeY(new(big.Int).Sub(fieldP, big.NewInt(2)), 0)); err != nil {
		t.Errorf("y = p−2, the greatest that is reduced and of large order: %v", err)
	}
	for _, n := range []int{0, 31, 33} {
		if err := CheckPublicKey(make([]byte, n)); err != ErrPublicKey {
			t.Errorf("%d octets: %v, want ErrPublicKey", n, err)
		}
	}
	for range 50 {
		pub, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckPublicKey(pub); err != nil {
			t.Errorf("%x: %v", pub, err)
		}
	}
}

// The forgery that CheckPublicKey stops: under the identity point, a signature
// with R = the identity and S = 0 verifies for every message.
//
// Covers: CORE-8.4-02
func TestSmallOrderForgery(t *testing.T) {
	identity := append([]byte{1}, make([]byte, 31)...)
	sig := append(slices.Clone(identity), make([]byte, 32)...)
	th := make([]byte, 32)
	if !ed25519.Verify(identity, CertVerifyInput(2, ServerToClient, th), sig) {
		t.Fatal("no forgery; the test shows nothing")
	}
	if err := VerifyCertVerify(2, ServerToClient, th, identity, append([]byte{8, 7}, sig...)); !errors.Is(err, ErrPublicKey) {
		t.Errorf("forged CertVerify: %v, want ErrPublicKey", err)
	}
}

func TestCertVerifyGeneration(t *testing.T) {
	for _, g := range []int{0, 1, 4} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("generation %d has a context; only 2 and 3 exist", g)
				}
			}()
			CertVerifyInput(g, ClientToServer, nil)
		}()
	}
}

// Covers: PEERHANDLE-2-01, PEERHANDLE-2-02, PEERHANDLE-6-01
func TestPeerHandle(t *testing.T) {
	pub := unhex(t, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a") // RFC 8032 TEST 1
	const w5 = "bciqn3e4opqx2aihkydyc7c6uif5vn3odubjjhe6rsc5fpdltyr4aizy"
	got := PeerHandle(pub)
	if got != w5 {
		t.Errorf("PeerHandle = %s, want %s", got, w5)
	}
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(got[1:]))
	if err != nil || len(raw) != 34 || raw[0] != 0x12 || raw[1] != 32 {
		t.Errorf("multihash %x, %v, want sha2-256 of 32 octets", raw, err)
	}
	other := peerHandle(0x1212, pub) // the varint of ML-DSA-87's codec is 92 24
	if other == got {
		t.Error("same octets under another codec give the same handle")
	}
	if pub[0]++; PeerHandle(pub) == got {
		t.Error("another key gives the same handle")
	}
}
