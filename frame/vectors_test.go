package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/npamp/disco/testvectors"
)

func vectors(t *testing.T) *testvectors.Set {
	t.Helper()
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Every header, both ways.
//
// Covers: CORE-4.2-01, CORE-4.3-01
func TestHeaderVectors(t *testing.T) {
	for _, v := range vectors(t).Headers {
		want := Header{Flags(v.Flags), Type(v.FrameType), ChannelID(v.Channel), uint64(v.Seq), v.PayloadLen}
		if h, err := ParseHeader(v.Frame); err != nil || h != want {
			t.Errorf("%s: got %+v, %v, want %+v", v.Name, h, err, want)
		}
		if b := AppendHeader(nil, want); !bytes.Equal(b, v.Frame) {
			t.Errorf("%s: appended %x, want %v", v.Name, b, v.Frame)
		}
	}
}

// Every frame that is refused: with the error of its header's fault in the order
// of the checks, or handed out, where more than the header is to be looked at.
//
// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.3-01, C34, C42, DASP-011-01
func TestRefusedVectors(t *testing.T) {
	faults := map[string]error{
		testvectors.FaultChecksum: ErrChecksum,
		testvectors.FaultMagic:    ErrMagic,
		testvectors.FaultVersion:  ErrVersion,
		testvectors.FaultReserved: ErrReserved,
		testvectors.FaultFlags:    ErrReservedFlag,
		testvectors.FaultCap:      ErrTooLong,
	}
	for _, v := range vectors(t).Refused {
		for _, generation := range v.Generations {
			var reserved Flags
			if generation == 3 {
				reserved = ReservedFlags3
			}
			r := NewReader(io.MultiReader(bytes.NewReader(v.Frame), silence{}), reserved)
			h, raw, err := r.Next()
			if want := faults[v.Fault]; !errors.Is(err, want) || err != nil && want == nil {
				t.Errorf("%s, generation %d: got %v, want %v", v.Name, generation, err, want)
			}
			if err == nil && (!bytes.Equal(raw, v.Frame) || int(h.PayloadLen) != len(raw)-HeaderLen) {
				t.Errorf("%s, generation %d: handed out %+v, %x", v.Name, generation, h, raw)
			}
		}
	}
}

// silence is a stream that must not be read on.
type silence struct{}

var errReadOn = errors.New("read on")

func (silence) Read([]byte) (int, error) { return 0, errReadOn }

// Every plaintext: what stands behind the TLVs, or their fault.
//
// Covers: CORE-4.4-01, CORE-4.4-02, DISC-2-07, C14, C45
func TestPlaintextVectors(t *testing.T) {
	faults := map[string]error{
		testvectors.FaultTruncated: ErrTruncatedTLV,
		testvectors.FaultCritical:  ErrCriticalTLV,
		testvectors.FaultBridge:    ErrBridgeEnvelope,
	}
	for _, v := range vectors(t).Plaintexts {
		payload, err := Peel(v.Plaintext)
		if want := faults[v.Fault]; !errors.Is(err, want) || err != nil && want == nil || !bytes.Equal(payload, v.Payload) {
			t.Errorf("%s: got %x, %v, want %v, %v", v.Name, payload, err, v.Payload, want)
		}
	}
}
