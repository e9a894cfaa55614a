package dcbor

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// A second opinion: the general library decodes the input into plain values and
// encodes them again in its core-deterministic mode. What comes back the same
// was deterministic.
type opinion struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newOpinion(t testing.TB) opinion {
	t.Helper()
	opts := cbor.CoreDetEncOptions()
	opts.NilContainers = cbor.NilContainerAsEmpty
	enc, err := opts.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		UTF8: cbor.UTF8RejectInvalid, TimeTag: cbor.DecTagIgnored, MaxNestedLevels: 32,
		IntDec: cbor.IntDecConvertNone}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	return opinion{enc, dec}
}

// deterministic says whether b is one deterministic item, and whether that can
// be told: some values do not survive the library.
func (o opinion) deterministic(b []byte) (yes, known bool) {
	var v any
	if err := o.dec.Unmarshal(b, &v); err != nil {
		var key *cbor.InvalidMapKeyTypeError
		var twice *cbor.DupMapKeyError // null and undefined are one key to it, and so are 0.0 and -0.0
		return false, !errors.As(err, &key) && !contains(b, 0xc0, 0xc1, 0xc2, 0xc3) &&
			!(errors.As(err, &twice) && contains(b, 0xf7, 0xf9))
	}
	again, err := o.enc.Marshal(v)
	if err != nil || contains(b, 0xc0, 0xc1, 0xc2, 0xc3, 0xf7) { // times, bignums, undefined
		return false, false
	}
	return bytes.Equal(b, again), true
}

func contains(b []byte, any ...byte) bool {
	return slices.ContainsFunc(any, func(c byte) bool { return bytes.IndexByte(b, c) >= 0 })
}

var differentialSeeds = []string{
	"a200190100014101", "a3001901000141011863a32001616102617af93e00", "a40041011818f520f5616100",
	"83001b00000001000000003bffffffffffffffff", "84f4f5f6f820", "83f93e00fa47c35000fb3ff199999999999a",
	"d81863e6b0b4", "a26161006262620181a1006178", "8481820102a181000000",
}

func checkAgainst(t *testing.T, o opinion, b []byte) {
	t.Helper()
	err := Done(b, Skip(b, 0, 1, Generation2))
	if err != nil && err.Rule == Depth {
		return
	}
	if want, known := o.deterministic(b); known && (err == nil) != want {
		t.Errorf("%x: we say %v, the library finds it deterministic: %v", b, err, want)
	}
	// Generation 3 accepts a part of what generation 2 does.
	if err3 := Done(b, Skip(b, 0, 1, Generation3)); err3 == nil && err != nil {
		t.Errorf("%x: accepted in generation 3 alone", b)
	}
	// What is deterministic is well-formed, and ends where Next says.
	if err == nil {
		if next := SkipLenient(b, 0, 1); next != len(b) {
			t.Errorf("%x: deterministic, but well-formed up to %d only", b, next)
		}
		if next := Next(b, 0); next != len(b) {
			t.Errorf("%x: Next goes to %d", b, next)
		}
	}
}

// mutate changes a few octets of b, or cuts or doubles a part of it.
func mutate(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return b
		}
		i, j := r.IntN(len(b)), r.IntN(len(b))
		switch r.IntN(6) {
		case 0:
			b[i] = byte(r.Uint32())
		case 1:
			b[i] ^= 1 << r.IntN(8)
		case 2:
			b = append(b[:i], b[i+1:]...)
		case 3:
			b = append(b[:i], append([]byte{byte(r.Uint32())}, b[i:]...)...)
		case 4:
			b[i], b[j] = b[j], b[i]
		case 5:
			b = append(b[:min(i, j)], append(bytes.Clone(b[min(i, j):max(i, j)]), b[min(i, j):]...)...)
		}
	}
	return b
}

// Covers: DISC-4.1-06, C12
func TestDifferential(t *testing.T) {
	o := newOpinion(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		checkAgainst(t, o, mutate(r, unhex(t, differentialSeeds[r.IntN(len(differentialSeeds))])))
	}
}

func FuzzSkip(f *testing.F) {
	for _, s := range differentialSeeds {
		f.Add(unhex(f, s))
	}
	o := newOpinion(f)
	f.Fuzz(func(t *testing.T, b []byte) { checkAgainst(t, o, b) })
}
