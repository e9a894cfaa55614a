package disco

import (
	"bytes"
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// The oracle is a second receiver, written over the values of the general
// library and with none of this package's code: decode, encode again and compare,
// then look at the fields.
type oracle struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newOracle(t testing.TB) oracle {
	t.Helper()
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		UTF8: cbor.UTF8RejectInvalid, TimeTag: cbor.DecTagIgnored, MaxNestedLevels: 64}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	return oracle{enc, dec}
}

var errUnknown = errors.New("the library cannot tell")

// judge returns the code that the payload is refused with, or 0.
func (o oracle) judge(t Type, b []byte, generation int) (Code, error) {
	if slices.ContainsFunc([]byte{0xc0, 0xc1, 0xc2, 0xc3, 0xf7, 0x3b}, func(c byte) bool { return bytes.IndexByte(b, c) >= 0 }) {
		return 0, errUnknown // times, bignums, undefined, integers below an int64's
	}
	var v any
	if err := o.dec.Unmarshal(b, &v); err != nil {
		var key *cbor.InvalidMapKeyTypeError
		var twice *cbor.DupMapKeyError
		if errors.As(err, &key) || errors.As(err, &twice) && bytes.IndexByte(b, 0xf9) >= 0 {
			return 0, errUnknown
		}
		return 1, nil
	}
	again, err := o.enc.Marshal(v)
	if err != nil {
		return 0, errUnknown
	}
	m, isMap := v.(map[any]any)
	if !bytes.Equal(again, b) || !isMap || depth(v) > 8 || generation == 3 && !sober(v) {
		return 1, nil
	}
	kind, ok := m[uint64(0)].(uint64)
	if !ok {
		return 1, nil
	}
	if kind != uint64(t) {
		return 2, nil
	}
	unknown := false
	fault := !keysOK(m)
	field := func(key uint64, required bool, check func(any) bool) {
		if v, there := m[key]; there && !check(v) || !there && required {
			fault = true
		}
	}
	corr := func(v any) bool { s, ok := v.([]byte); return ok && len(s) >= 1 && len(s) <= 64 }
	uints := func(v any) bool { return array(v, isUint) && len(v.([]any)) <= 1024 }
	records := func(v any) bool {
		return array(v, func(v any) bool { ok, known := recordOK(v); unknown = unknown || !known; return ok })
	}
	field(1, t != TypeAnnounce && t != TypeError, corr)
	switch t {
	case TypeQuery, TypeSubscribe:
		field(2, false, uints)
		field(3, false, uints)
		field(4, false, func(v any) bool { s, ok := v.(string); return ok && len(s) <= 1024 })
		if t == TypeQuery {
			field(5, false, isBool)
			field(6, false, isBytes)
		}
	case TypeResult:
		field(2, true, records)
		field(3, true, isBool)
		field(4, m[uint64(3)] != true, func(v any) bool { return isBytes(v) && (m[uint64(3)] == true || len(v.([]byte)) <= 1024) })
	case TypeError:
		field(2, true, isUint)
		field(3, false, isText)
	case TypeAnnounce:
		field(2, true, records)
	case TypeUpdate:
		field(2, false, records)
		field(3, false, func(v any) bool { return array(v, isID) })
		added, _ := m[uint64(2)].([]any)
		withdrawn, _ := m[uint64(3)].([]any)
		fault = fault || len(added)+len(withdrawn) == 0
	}
	switch {
	case fault:
		return 1, nil
	case unknown && t == TypeResult:
		return 3, nil
	}
	return 0, nil
}

func recordOK(v any) (ok, known bool) {
	m, isMap := v.(map[any]any)
	if !isMap || !keysOK(m) || !isID(m[uint64(0)]) || !isUint(m[uint64(1)]) || !isUint(m[uint64(2)]) {
		return false, true
	}
	if label, there := m[uint64(3)]; there && !isText(label) {
		return false, true
	}
	body, isMap := m[uint64(4)].(map[any]any)
	if !isMap {
		return false, true
	}
	optional := func(key uint64, check func(any) bool) bool {
		v, there := body[key]
		return !there || check(v)
	}
	octet := func(v any) bool { n, ok := v.(uint64); return ok && n < 256 }
	uints := func(v any) bool { return array(v, isUint) }
	switch m[uint64(1)].(uint64) {
	case 1:
		ok = octet(body[uint64(0)]) && isUint(body[uint64(1)]) && optional(2, uints) && optional(3, uints) &&
			optional(4, func(v any) bool { return array(v, isText) })
	case 2:
		ok = isUint(body[uint64(0)]) && optional(1, uints)
	case 3:
		ok = isText(body[uint64(0)]) && octet(body[uint64(1)]) && optional(2, isUint) && optional(3, isText)
	case 4:
		agent, isBytes := body[uint64(0)].([]byte)
		ok = isBytes && len(agent) >= 1 && len(agent) <= 64 && uints(body[uint64(1)]) && len(body[uint64(1)].([]any)) >= 1 &&
			optional(2, func(v any) bool { return array(v, isID) })
	default:
		return true, false
	}
	return ok && keysOK(body), true
}

func isUint(v any) bool  { _, ok := v.(uint64); return ok }
func isBytes(v any) bool { _, ok := v.([]byte); return ok }
func isText(v any) bool  { s, ok := v.(string); return ok && utf8.ValidString(s) }
func isBool(v any) bool  { _, ok := v.(bool); return ok }
func isID(v any) bool    { s, ok := v.([]byte); return ok && len(s) >= 1 && len(s) <= 32 }

func array(v any, each func(any) bool) bool {
	s, ok := v.([]any)
	for _, v := range s {
		ok = each(v) && ok
	}
	return ok
}

func keysOK(m map[any]any) bool {
	for k := range m {
		if !isUint(k) {
			return false
		}
	}
	return true
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case map[any]any:
		for k, e := range v {
			deepest = max(deepest, depth(k), depth(e))
		}
	case cbor.Tag:
		deepest = depth(v.Content)
	default:
		return 0
	}
	return deepest + 1
}

// sober reports whether v has no float and no tag in it.
func sober(v any) bool {
	switch v := v.(type) {
	case []any:
		return array(v, sober)
	case map[any]any:
		for k, e := range v {
			if !sober(k) || !sober(e) {
				return false
			}
		}
		return true
	case nil, bool, uint64, int64, string, []byte, cbor.ByteString, big.Int, cbor.SimpleValue:
		return true
	}
	return false
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

// agree compares our verdict on b with the oracle's, and what we say with what
// we find on a second look.
func agree(t *testing.T, o oracle, typ Type, b []byte) (ours Code, told bool) {
	t.Helper()
	for _, generation := range []int{2, 3} {
		opts := &Options{Generation: generation}
		_, err := parse(typ, b, opts)
		ours = CodeOf(err)
		if again := Diagnose(b, typ, opts); (again == nil) != (err == nil) {
			t.Errorf("%v, generation %d: %x: parsing says %v, looking again %v", typ, generation, b, err, again)
		}
		theirs, err2 := o.judge(typ, b, generation)
		if err2 != nil {
			continue
		}
		told = true
		if ours != theirs {
			t.Errorf("%v, generation %d: %x: we say %v, the oracle says code %d", typ, generation, b, err, theirs)
		}
	}
	return ours, told
}

// Covers: DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-10, DISC-4.1-11, DISC-4.2-02, C9, C10, C11, C12, C27, C29
func TestOracle(t *testing.T) {
	o := newOracle(t)
	r := rand.New(rand.NewPCG(3, 4))
	vectors := slices.Concat(accepted, withUnknown, refused)
	codes := map[Code]int{}
	for range 60_000 {
		v := vectors[r.IntN(len(vectors))]
		typ := v.typ
		if r.IntN(20) == 0 {
			typ = TypeQuery + Type(r.IntN(7))
		}
		if code, told := agree(t, o, typ, mutate(r, unhex(t, v.octets))); told {
			codes[code]++
		}
		if t.Failed() {
			return
		}
	}
	for code := range Code(4) {
		if codes[code] < 30 {
			t.Errorf("code %d was compared %d times only", code, codes[code])
		}
	}
}

func FuzzOracle(f *testing.F) {
	for _, v := range slices.Concat(accepted, withUnknown, refused) {
		f.Add(uint8(v.typ-TypeQuery), unhex(f, v.octets))
	}
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, typ uint8, b []byte) { agree(t, o, TypeQuery+Type(typ%7), b) })
}
