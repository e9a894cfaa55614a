package bridge

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/internal/corpus"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fields is a message as the corpus writes it.
type fields struct {
	FrameType   uint16 `json:"frameType,omitempty"`
	Protocol    uint16 `json:"protocol_id"`
	Kind        uint8  `json:"message_kind"`
	ContentType uint8  `json:"content_type"`
	Flags       uint8  `json:"flags"`
	Final       bool   `json:"final"`
	Corr        string `json:"corr"`
	Method      string `json:"method"`
	Safety      *struct {
		Effect uint8  `json:"effect"`
		Scope  string `json:"scope"`
	} `json:"safety"`
	Foreign string `json:"foreign"`
}

func (f *fields) message(t *testing.T) *Message {
	m := &Message{Type: frame.Type(f.FrameType), Protocol: ProtocolID(f.Protocol), ContentType: ContentType(f.ContentType), Flags: f.Flags,
		Corr: string(unhex(t, f.Corr)), Method: f.Method, Foreign: unhex(t, f.Foreign)}
	if f.Safety != nil {
		m.Label = &Label{Effect(f.Safety.Effect), f.Safety.Scope}
	}
	return m
}

// same compares two messages octet for octet.
func same(a, b *Message) bool {
	x, y := *a, *b
	if (x.Label == nil) != (y.Label == nil) || x.Label != nil && *x.Label != *y.Label || !bytes.Equal(x.Foreign, y.Foreign) {
		return false
	}
	x.Label, y.Label, x.Foreign, y.Foreign = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// Every Bridge case of both conformance corpora, each with its own width.
//
// Covers: BRIDGE-1-01, BRIDGE-4-01, BRIDGE-4-02, BRIDGE-5-01, BRIDGE-5-02, BRIDGE-5-03, BRIDGE-5-04, BRIDGE-6-01, C63
func TestCorpus(t *testing.T) {
	for _, tt := range []struct {
		dir                       string
		width                     Width
		decode, encode, correlate int
	}{
		{"vectors/", Width8, 16, 6, 3},
		{"generation3/vectors/", Width16, 26, 16, 5},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			var c struct {
				TestGroups []struct {
					Op    string
					Tests []struct {
						TcID         int
						In, Expected json.RawMessage
						Result       string
					}
				}
			}
			corpus.ReadJSON(t, tt.dir+"conformance-corpus.json", &c)
			ran := make(map[string]int)
			for _, g := range c.TestGroups {
				for _, tc := range g.Tests {
					name := fmt.Sprintf("%s tc%d", g.Op, tc.TcID)
					unmarshal := func(b []byte, v any) {
						if err := json.Unmarshal(b, v); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
					}
					switch g.Op {
					case "bridge.envelope.decode":
						ran[g.Op]++
						var in struct {
							FrameType frame.Type
							Payload   string
						}
						unmarshal(tc.In, &in)
						payload := unhex(t, in.Payload)
						got, err := tt.width.Parse(in.FrameType, payload)
						if tc.Result == "invalid" {
							if e := (*Error)(nil); !errors.As(err, &e) || e.Code != CodeEnvelopeMalformed {
								t.Errorf("%s: error %v, want EnvelopeMalformed", name, err)
							}
							continue
						}
						var want fields
						unmarshal(tc.Expected, &want)
						want.FrameType = uint16(in.FrameType)
						if err != nil || !same(&got, want.message(t)) {
							t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
						}
						if got.Final() != want.Final || messageKind(got.Type) != want.Kind {
							t.Errorf("%s: final %v, kind %d, want %v, %d", name, got.Final(), messageKind(got.Type), want.Final, want.Kind)
						}
						if again, err := tt.width.AppendReceived(nil, &got); err != nil || string(again) != string(payload) {
							t.Errorf("%s: passed on as %x, %v, want %x", name, again, err, payload)
						}
					case "bridge.envelope.encode":
						ran[g.Op]++
						var in struct{ Fields fields }
						var want struct{ Payload string }
						unmarshal(tc.In, &in)
						unmarshal(tc.Expected, &want)
						got, err := tt.width.AppendReceived([]byte("prefix"), in.Fields.message(t))
						if err != nil || string(got) != "prefix"+string(unhex(t, want.Payload)) {
							t.Errorf("%s: %x, %v, want %s after the prefix", name, got, err, want.Payload)
						}
						_, err = tt.width.Append(nil, in.Fields.message(t))
						if reserved := in.Fields.Flags&^FlagFinal != 0; reserved != errors.Is(err, ErrReservedFlags) || !reserved && err != nil {
							t.Errorf("%s: Append with flags %#x: %v", name, in.Fields.Flags, err)
						}
					case "bridge.correlate":
						ran[g.Op]++
						var in struct {
							RequestFrameType, ReplyFrameType frame.Type
							RequestPayload, ReplyPayload     string
						}
						var want struct{ Match bool }
						unmarshal(tc.In, &in)
						unmarshal(tc.Expected, &want)
						request, err := tt.width.Parse(in.RequestFrameType, unhex(t, in.RequestPayload))
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						reply, err := tt.width.Parse(in.ReplyFrameType, unhex(t, in.ReplyPayload))
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if got := Correlates(&request, &reply); got != want.Match {
							t.Errorf("%s: %v, want %v", name, got, want.Match)
						}
					}
				}
			}
			want := map[string]int{"bridge.envelope.decode": tt.decode, "bridge.envelope.encode": tt.encode, "bridge.correlate": tt.correlate}
			if fmt.Sprint(ran) != fmt.Sprint(want) {
				t.Errorf("cases run %v, want %v", ran, want)
			}
		})
	}
}
