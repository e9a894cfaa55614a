package testvectors

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// The rules that are a matter of the encoding, which a general library can tell.
var encodingRules = strings.Fields("truncated trailing shortest-form key-order duplicate-key indefinite utf8 float-form simple-value")

// A general CBOR library takes what is accepted and writes it again octet for
// octet; of what is refused for its encoding it takes nothing, or writes it
// otherwise; and what is refused for its meaning is in order as CBOR.
//
// Covers: DISC-4.1-01, DISC-4.1-03, DISC-4.1-06
func TestGeneralLibraryAgrees(t *testing.T) {
	compared := 0
	for _, v := range load(t).Payloads {
		same, ok := again(v.Octets)
		if !ok {
			continue
		}
		e := v.Expect
		want := !slices.Contains(encodingRules, e.Rule)
		switch {
		case e.Rule == "not-a-map", !e.OK && e.Rule == "":
			continue // may be either
		case v.Generations[0] == 3 && (e.Rule == "float-form" || e.Rule == "wrong-type"):
			continue // a float or a tag that is in order, in a generation that has none
		}
		if compared++; same != want {
			t.Errorf("%s, rule %q: written again the same: %v, want %v", v.Name, e.Rule, same, want)
		}
	}
	if compared < 700 {
		t.Errorf("the library could tell of %d payloads", compared)
	}
	for _, x := range load(t).Exchanges {
		for i, st := range x.Steps {
			records := slices.Clone(st.Set)
			if st.Change != nil {
				records = append(records, st.Change.Put...)
			}
			if st.From != "" && st.Fault == 0 {
				records = append(records, st.Payload)
			}
			for _, r := range records {
				if same, ok := again(r); !same || !ok {
					t.Errorf("%s: step %d: %v is not deterministic", x.Name, i, r)
				}
			}
		}
	}
}

// again reports whether the library writes b as it was. ok is false for what it
// cannot hold: times, bignums, undefined, integers below an int64's, arrays as
// keys, and a NaN as key.
func again(b []byte) (same, ok bool) {
	if slices.ContainsFunc([]byte{0xc0, 0xc1, 0xc2, 0xc3, 0xf7, 0x3b}, func(c byte) bool { return bytes.IndexByte(b, c) >= 0 }) {
		return false, false
	}
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return false, false
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, UTF8: cbor.UTF8RejectInvalid,
		MaxNestedLevels: 256, MaxArrayElements: 1 << 20}.DecMode()
	if err != nil {
		return false, false
	}
	var v any
	if err := dec.Unmarshal(b, &v); err != nil {
		return false, !strings.Contains(err.Error(), "invalid map key type")
	}
	out, err := enc.Marshal(v)
	return bytes.Equal(out, b), err == nil
}

func decodeMap(b []byte) (map[uint64]any, bool) {
	var m map[uint64]any
	err := cbor.Unmarshal(b, &m)
	return m, err == nil
}

// tools/judge.py, a second receiver and writer in another language, agrees with
// every vector.
//
// Covers: DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-10, DISC-4.1-11, DISC-4.2-02, DISC-4.2-03, C4, C9, C10, C11, C12
func TestJudgeAgrees(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("skipped: no python3")
	}
	out, err := exec.Command(python, "-B", "tools/judge.py", "data").CombinedOutput()
	if err != nil || !bytes.HasSuffix(out, []byte(" 0 differences\n")) {
		t.Errorf("%v\n%s", err, out)
	}
	// Told another verdict, it says so.
	wrong := exec.Command(python, "-B", "-c", `
import sys; sys.path.insert(0, "tools")
import judge
v = {"octets": "a200190100014101", "frame_type": 256}
assert judge.verdict(v, 2) == {"ok": True, "message": {"frame_kind": 256, "corr": "01"}, "skipped": []}
assert judge.verdict(dict(v, octets="a2001901000140"), 3)["rule"] == "empty"
`)
	if out, err := wrong.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
