package disco

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// The structures that one would write to decode with the general library, which
// is what the benchmarks compare with.

type fxRecord[B any] struct {
	ID       []byte  `cbor:"0,keyasint"`
	Kind     uint64  `cbor:"1,keyasint"`
	Revision uint64  `cbor:"2,keyasint"`
	Label    *string `cbor:"3,keyasint,omitempty"`
	Body     B       `cbor:"4,keyasint"`
}

type fxProtocol struct {
	ProtocolID   uint64   `cbor:"0,keyasint"`
	Class        uint64   `cbor:"1,keyasint"`
	Channels     []uint64 `cbor:"2,keyasint,omitempty"`
	ContentTypes []uint64 `cbor:"3,keyasint,omitempty"`
	Methods      []string `cbor:"4,keyasint,omitempty"`
}

type fxCarriage struct {
	Class        uint64   `cbor:"0,keyasint"`
	ContentTypes []uint64 `cbor:"1,keyasint,omitempty"`
}

type fxTool struct {
	Name       string  `cbor:"0,keyasint"`
	ProtocolID uint64  `cbor:"1,keyasint"`
	Effect     *uint64 `cbor:"2,keyasint,omitempty"`
	SchemaRef  *string `cbor:"3,keyasint,omitempty"`
}

type fxAgent struct {
	AgentID   []byte   `cbor:"0,keyasint"`
	Protocols []uint64 `cbor:"1,keyasint"`
	Tools     [][]byte `cbor:"2,keyasint,omitempty"`
}

type fxResult[B any] struct {
	FrameKind uint64        `cbor:"0,keyasint"`
	Corr      []byte        `cbor:"1,keyasint"`
	Records   []fxRecord[B] `cbor:"2,keyasint"`
	Complete  bool          `cbor:"3,keyasint"`
	Cursor    []byte        `cbor:"4,keyasint,omitempty"`
}

// fxRaw keeps a body's octets until the record's kind is known.
type fxRaw struct {
	raw   []byte
	value any
}

func (r *fxRaw) UnmarshalCBOR(b []byte) error { r.raw = b; return nil }

func fxModes(t testing.TB) (cbor.EncMode, cbor.DecMode) {
	t.Helper()
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden, UTF8: cbor.UTF8RejectInvalid, MaxNestedLevels: 8, MaxArrayElements: 1 << 20}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	return enc, dec
}

func fxParse(dec cbor.DecMode, b []byte) (*fxResult[fxRaw], error) {
	r := new(fxResult[fxRaw])
	if err := dec.Unmarshal(b, r); err != nil {
		return nil, err
	}
	if r.FrameKind != uint64(TypeResult) || len(r.Corr) == 0 || len(r.Corr) > 64 {
		return nil, errors.New("envelope")
	}
	for i := range r.Records {
		rec := &r.Records[i]
		switch rec.Kind {
		case 1:
			rec.Body.value = new(fxProtocol)
		case 2:
			rec.Body.value = new(fxCarriage)
		case 3:
			rec.Body.value = new(fxTool)
		case 4:
			rec.Body.value = new(fxAgent)
		default:
			return nil, fmt.Errorf("kind %d", rec.Kind)
		}
		if len(rec.ID) == 0 || len(rec.ID) > 32 {
			return nil, errors.New("record_id")
		}
		if err := dec.Unmarshal(rec.Body.raw, rec.Body.value); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fxToEncode returns the payload as structures that the library encodes.
func fxToEncode(t testing.TB, dec cbor.DecMode, b []byte) *fxResult[any] {
	t.Helper()
	r, err := fxParse(dec, b)
	if err != nil {
		t.Fatal(err)
	}
	out := &fxResult[any]{FrameKind: r.FrameKind, Corr: r.Corr, Complete: r.Complete, Cursor: r.Cursor}
	for _, rec := range r.Records {
		out.Records = append(out.Records, fxRecord[any]{rec.ID, rec.Kind, rec.Revision, rec.Label, rec.Body.value})
	}
	return out
}
