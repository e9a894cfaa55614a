package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/testvectors"
)

// An abortee is a transport that remembers with what code it was aborted.
type abortee struct {
	frame.Transport
	code frame.ErrorCode
}

func (a *abortee) Abort(code frame.ErrorCode, cause error) {
	a.code = code
	a.Transport.Abort(code, cause)
}

// Every plaintext that a frame may open to, as a QUERY: what stands behind its
// TLVs is answered as if nothing stood before, and a fault has its reaction.
//
// Covers: CORE-4.4-01, CORE-4.4-02, DISC-2-07, DISC-4.1-01, C14, C45, C64
func TestPlaintexts(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	send := func(t *testing.T, generation int, payload []byte) (*Peer, *channeltest.Script, *abortee, []string) {
		info := channeltest.Info()
		info.Generation = generation
		a, b := channeltest.Pair(info, channeltest.Info())
		tr := &abortee{Transport: a}
		p, err := New(tr, Config{Hub: hub(t, four(t))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		s, err := channeltest.NewScript(b)
		if err != nil {
			t.Fatal(err)
		}
		s.Send(channeltest.Frame{Type: query, Payload: payload})
		later(time.Second)
		return p, s, tr, came(s)
	}
	for _, v := range set.Plaintexts {
		for _, generation := range v.Generations {
			t.Run(fmt.Sprintf("%s/g%d", v.Name, generation), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p, s, tr, got := send(t, generation, v.Plaintext)
					switch {
					case v.Fault == "":
						_, _, _, bare := send(t, generation, v.Payload)
						want(t, "as the payload alone", got, bare...)
						if len(bare) != 1 {
							t.Fatalf("the payload alone gets %v", bare)
						}
					case v.Reaction == testvectors.ReactionMalformed:
						want(t, "malformed, without a corr", got, errorFrame("", 1))
					default:
						want(t, "no answer", got)
					}
					if st := p.Stats(); (st.CriticalTLV == 1) != (v.Fault == testvectors.FaultCritical) || (st.BridgeOnDiscovery == 1) != (v.Fault == testvectors.FaultBridge) {
						t.Errorf("CriticalTLV = %d, BridgeOnDiscovery = %d", st.CriticalTLV, st.BridgeOnDiscovery)
					}
					if v.Reaction == testvectors.ReactionFatal5 {
						if ended, _ := s.Ended(); !ended || tr.code != frame.CodeUnknownCriticalTLV {
							t.Errorf("ended: %v, code %v", ended, tr.code)
						}
						return
					}
					if again := ask(t, s, query, v1); len(again) != 1 || again[0][:5] != "0101:" {
						t.Errorf("V1 after it gets %v", again)
					}
				})
			})
		}
	}
}
