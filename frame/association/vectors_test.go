package association

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/testvectors"
)

// Every frame that is refused, on an association with the master secret of the
// vectors, after the frames that come before its turn: it is not handed up, is
// counted as what it is, and the association goes on with the next one or ends,
// as the vector says.
//
// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.3-01, CORE-4.7-01, CORE-4.7-02, CORE-4.7-03, CORE-11.3-01, CORE-11.4-01, CORE-g3-01, C34, C35, C42
func TestRefusedVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	// good returns V1 as the vectors' receiver would take it at a sequence number.
	good := func(t *testing.T, v testvectors.Refused, seq uint64) []byte {
		h := frame.Header{Flags: frame.FlagENC, Type: 0x100, Channel: frame.ChannelID(v.Channel), Seq: seq, PayloadLen: 24}
		k, err := keys.NewTrafficKey(keys.SHA256, v.Master, keys.Direction(v.Direction), uint64(v.Epoch), keys.Suite(v.Suite), h.Channel)
		if err != nil {
			t.Fatal(err)
		}
		return k.SealFrame(append(make([]byte, frame.HeaderLen), v1...), 0, h)
	}
	faults := map[string]error{
		testvectors.FaultChecksum: frame.ErrChecksum, testvectors.FaultMagic: frame.ErrMagic, testvectors.FaultVersion: frame.ErrVersion,
		testvectors.FaultReserved: frame.ErrReserved, testvectors.FaultFlags: frame.ErrReservedFlag, testvectors.FaultCap: frame.ErrTooLong,
		testvectors.FaultSequence: errGap,
	}
	for _, v := range set.Refused {
		for _, generation := range v.Generations {
			t.Run(fmt.Sprintf("%s/g%d", v.Name, generation), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := &generation2
					if generation == 3 {
						g = &generation3
					}
					a, q := fixedPair(t, g, v.Direction == int(keys.ServerToClient))
					u := start(t, a)
					for seq := range uint64(v.Seq) {
						if _, err := q.Write(good(t, v, seq)); err != nil {
							t.Fatal(err)
						}
						u.want(t, "before it", message{0x100, v1})
					}
					if _, err := q.Write(v.Frame); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if n := u.received(); n != 0 {
						t.Fatalf("%d frames handed up", n)
					}
					if v.Reaction == testvectors.ReactionClose {
						q.Close() // ERROR may be on its way out
						if err := a.Wait(); !errors.Is(err, faults[v.Fault]) || faults[v.Fault] == nil {
							t.Errorf("ended with %v, want %v", err, faults[v.Fault])
						}
						return
					}
					if got, want := refusals(a.Stats()), refused(v); got != want {
						t.Errorf("counted %+v, want %+v", got, want)
					}
					if _, err := q.Write(good(t, v, uint64(v.Seq))); err != nil {
						t.Fatal(err)
					}
					u.want(t, "after it", message{0x100, v1})
				})
			})
		}
	}
}

const v1 = "\xa2\x00\x19\x01\x00\x01\x41\x01"

// refusals is what Stats says of frames that are not authentic.
func refusals(s Stats) Stats {
	return Stats{Clear: s.Clear, Replay: s.Replay, Gap: s.Gap, BadTag: s.BadTag, ForgedClose: s.ForgedClose}
}

// refused is what a frame that is dropped must be counted as.
func refused(v testvectors.Refused) (s Stats) {
	h, _ := frame.ParseHeader(v.Frame)
	switch {
	case v.Fault == testvectors.FaultSequence && h.Seq < uint64(v.Seq):
		s.Replay = 1
	case v.Fault == testvectors.FaultSequence:
		s.Gap = 1
	case h.Type == frame.TypeClose:
		s.ForgedClose = 1
	case v.Fault == testvectors.FaultEnc:
		s.Clear = 1
	case v.Fault == testvectors.FaultTag:
		s.BadTag = 1
	}
	return s
}
