package disco

import (
	"bytes"
	"errors"
	"testing"

	"github.com/npamp/disco/testvectors"
)

// The golden vectors are composed by someone else from the same tables.
// Covers: DISC-4.1-03, DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-10, DISC-4.1-11, DISC-9-01
func TestVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range set.Payloads {
		for _, generation := range v.Generations {
			o := &Options{Generation: generation, Tolerant: v.Tolerant != nil && *v.Tolerant}
			again, err := parse(Type(v.FrameType), v.Octets, o)
			if v.Expect.OK {
				if err != nil {
					t.Errorf("%s, generation %d: %v", v.Name, generation, err)
				}
				if again != nil && len(again) == len(v.Octets) && !bytes.Equal(again, v.Octets) {
					t.Errorf("%s: appended again\n got %x\nwant %v", v.Name, again, v.Octets)
				}
				continue
			}
			var e *PayloadError
			if !errors.As(err, &e) {
				t.Errorf("%s, generation %d: got error %v, want a *PayloadError", v.Name, generation, err)
				continue
			}
			want := v.Expect
			if uint64(e.Code) != want.Code || e.Reply() != want.Reply || e.HasCorr != (want.Corr != nil) || want.Corr != nil && e.Corr.String() != *want.Corr {
				t.Errorf("%s: %v, reply %s, corr %v %v; want code %d, reply %s", v.Name, e, e.Reply(), e.Corr, e.HasCorr, want.Code, want.Reply)
			}
			if want.Rule != "" && e.Rule != want.Rule || want.Offset != nil && e.Offset != *want.Offset || want.Path != nil && e.Path != *want.Path {
				path := "any"
				if want.Path != nil {
					path = *want.Path
				}
				t.Errorf("%s: %x: got %v; want rule %s at octet %v, %s", v.Name, v.Octets, e, want.Rule, *want.Offset, path)
			}
		}
	}
}
