package bridge

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/npamp/disco/frame"
)

func request() *Message {
	return &Message{Type: TypeRequest, Protocol: ProtocolMCP, ContentType: ContentJSON, Corr: "c", Method: "tools/call", Foreign: []byte("{}")}
}

// Covers: DISC-2-06, C63
func TestProtocolOctet(t *testing.T) {
	// A record of MCP has protocol_id 1; so has its envelope, in either width.
	for w, want := range map[Width]string{Width8: "0010001101010100" + "0163" + "0a746f6f6c732f63616c6c" + "7b7d", Width16: "001000120001010100" + "0163" + "0a746f6f6c732f63616c6c" + "7b7d"} {
		got, err := w.Append(nil, request())
		if err != nil || !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("width %d: %x, %v, want %s", w, got, err, want)
		}
	}
	if DefaultWidth(2) != Width8 || DefaultWidth(3) != Width16 {
		t.Errorf("default widths %d, %d, want one octet with generation 2, two with 3", DefaultWidth(2), DefaultWidth(3))
	}
	m := request()
	m.Protocol = 0x0100
	if _, err := Width8.Append(nil, m); !errors.Is(err, ErrProtocol) {
		t.Errorf("protocol 0x0100 in one octet: %v, want ErrProtocol", err)
	}
	b, err := Width16.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Width16.Parse(TypeRequest, b); err != nil || got.Protocol != 0x0100 {
		t.Errorf("protocol %#x, %v, want 0x0100", got.Protocol, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a width that was not configured was guessed")
		}
	}()
	_, _ = Width(0).Parse(TypeRequest, b)
}

// Covers: BRIDGE-4-01, BRIDGE-5-01, BRIDGE-5-04, REG-4-02
func TestParseRefuses(t *testing.T) {
	good := "00100007" + "01010100" + "0163" + "00" // a request with corr "c" and no method
	if m, err := Width8.Parse(TypeRequest, unhex(t, good)); err != nil || m.Corr != "c" {
		t.Fatalf("%+v, %v: the message the others are made from", m, err)
	}
	tests := []struct {
		name    string
		typ     frame.Type
		payload string
	}{
		{"nothing", TypeRequest, ""},
		{"TLV head truncated", TypeRequest, "001000"},
		{"TLV longer than the payload", TypeRequest, "0010000801010100016300"},
		{"no envelope", TypeRequest, "7b7d7b7d"},
		{"label first", TypeRequest, "001300020000" + good},
		{"empty envelope", TypeRequest, "00100000"},
		{"envelope without corr_len", TypeRequest, "0010000401010100"},
		{"envelope without method_len", TypeRequest, "00100006010101000163"},
		{"corr longer than the envelope", TypeRequest, "0010000701010100ff6300"},
		{"method longer than the envelope", TypeRequest, "0010000701010100016301"},
		{"octet left over", TypeRequest, "001000080101010001630000"},
		{"protocol 0", TypeRequest, "0010000700010100016300"},
		{"kind of a response", TypeRequest, "0010000701020100016300"},
		{"kind 0", TypeRequest, "0010000701000100016300"},
		{"kind 7", TypeStreamEnd, "0010000701070100016300"},
		{"request without corr", TypeRequest, "00100006010101000000"},
		{"stream data without corr", TypeStreamData, "00100006010501000000"},
		{"notification with corr", TypeNotify, "0010000701030100016300"},
		{"label head truncated", TypeRequest, good + "0013"},
		{"label longer than the payload", TypeRequest, good + "0013000302"},
		{"label empty", TypeRequest, good + "00130000"},
		{"label without scope_len", TypeRequest, good + "0013000102"},
		{"scope longer than the label", TypeRequest, good + "001300020201"},
		{"octet left over in the label", TypeRequest, good + "00130003020000"},
		{"PING", frame.TypePing, good},
		{"type 0x0106", 0x0106, good},
	}
	for _, tt := range tests {
		m, err := Width8.Parse(tt.typ, unhex(t, tt.payload))
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code != CodeEnvelopeMalformed {
			t.Errorf("%s: error %v, want EnvelopeMalformed", tt.name, err)
		}
		if !same(&m, &Message{}) {
			t.Errorf("%s: %+v along with an error", tt.name, m)
		}
	}
	if _, err := Width16.Parse(TypeRequest, unhex(t, "001000080000010100016300")); err == nil {
		t.Error("protocol 0 in two octets is accepted")
	}
}

// Covers: BRIDGE-2-01, BRIDGE-4-02, BRIDGE-5-01, BRIDGE-5-04
func TestAppendRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	tests := []struct {
		name     string
		edit     func(m *Message)
		want     error
		received error // of AppendReceived
	}{
		{"nothing wrong", func(m *Message) {}, nil, nil},
		{"PING", func(m *Message) { m.Type = frame.TypePing }, ErrType, ErrType},
		{"ERROR of the core", func(m *Message) { m.Type = frame.TypeError }, ErrType, ErrType},
		{"type 0x0106", func(m *Message) { m.Type = 0x0106 }, ErrType, ErrType},
		{"protocol 0", func(m *Message) { m.Protocol = 0 }, ErrProtocol, ErrProtocol},
		{"reserved flag", func(m *Message) { m.Flags = 0x80 }, ErrReservedFlags, nil},
		{"request without corr", func(m *Message) { m.Corr = "" }, ErrCorr, ErrCorr},
		{"corr of 255", func(m *Message) { m.Corr = long[:255] }, nil, nil},
		{"corr of 256", func(m *Message) { m.Corr = long }, ErrCorr, ErrCorr},
		{"notification with corr", func(m *Message) { m.Type = TypeNotify }, ErrCorr, ErrCorr},
		{"notification", func(m *Message) { m.Type, m.Corr = TypeNotify, "" }, nil, nil},
		{"stream end, not final", func(m *Message) { m.Type = TypeStreamEnd }, ErrFinal, nil},
		{"stream end", func(m *Message) { m.Type, m.Flags = TypeStreamEnd, FlagFinal }, nil, nil},
		{"method of 255", func(m *Message) { m.Method = long[:255] }, nil, nil},
		{"method of 256", func(m *Message) { m.Method = long }, ErrText, ErrText},
		{"method not UTF-8", func(m *Message) { m.Method = "\xff" }, ErrText, nil},
		{"scope of 256", func(m *Message) { m.Label = &Label{0, long} }, ErrText, ErrText},
		{"scope not UTF-8", func(m *Message) { m.Label = &Label{0, "\xff"} }, ErrText, nil},
		{"effect 3", func(m *Message) { m.Label = &Label{Effect: 3} }, nil, nil},
		{"effect 4", func(m *Message) { m.Label = &Label{Effect: 4} }, ErrEffect, nil},
		{"foreign message like a label", func(m *Message) { m.Foreign = []byte{0, 0x13} }, ErrAmbiguous, ErrAmbiguous},
		{"the same behind a label", func(m *Message) { m.Foreign, m.Label = []byte{0, 0x13}, &Label{} }, nil, nil},
	}
	for _, tt := range tests {
		m := request()
		tt.edit(m)
		got, err := Width16.Append([]byte("b"), m)
		if !errors.Is(err, tt.want) || err != nil && string(got) != "b" {
			t.Errorf("%s: Append: %x, %v, want %v", tt.name, got, err, tt.want)
		}
		got, err = Width16.AppendReceived([]byte("b"), m)
		if !errors.Is(err, tt.received) || err != nil && string(got) != "b" {
			t.Errorf("%s: AppendReceived: %x, %v, want %v", tt.name, got, err, tt.received)
		}
		if err == nil {
			if again, err := Width16.Parse(m.Type, got[1:]); err != nil || !same(&again, m) {
				t.Errorf("%s: parsed to %+v, %v, want %+v", tt.name, again, err, m)
			}
		}
	}
}

// Covers: BRIDGE-1-01, BRIDGE-1-02, BRIDGE-6-01, BRIDGE-7-02
func TestForeignUnchanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	body := make([]byte, 64<<10)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	for _, foreign := range [][]byte{body, []byte("{ \"jsonrpc\" :\t\"2.0\" ,\r\n\"id\":1.0 }"), {}, []byte(`{"error":{"code":-32601,"message":"x","data":[1, 2]}}`)} {
		for _, typ := range []frame.Type{TypeRequest, TypeResponse, TypeError, TypeStreamData} {
			m := request()
			m.Type, m.Foreign, m.Label = typ, foreign, &Label{EffectNonIdempotentWrite, "fs:/tmp"}
			b, err := Width8.Append(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Width8.Parse(typ, b)
			if err != nil || !bytes.Equal(got.Foreign, foreign) || *got.Label != *m.Label {
				t.Fatalf("%v: foreign message of %d octets became %d octets (%v)", typ, len(foreign), len(got.Foreign), err)
			}
			passed, err := Width8.AppendReceived(nil, &got)
			if err != nil || !bytes.Equal(passed, b) {
				t.Fatalf("%v: passed on, not as it came (%v)", typ, err)
			}
			clear(b)
			if !bytes.Equal(got.Foreign, foreign) {
				t.Fatal("the foreign message aliases the payload")
			}
		}
	}
}

// Covers: BRIDGE-5-02, BRIDGE-5-03, BRIDGE-8-01
func TestCorrelates(t *testing.T) {
	req := request()
	for typ := range frame.Type(0x0108) {
		reply := request()
		reply.Type, reply.Flags = typ, FlagFinal
		want := typ >= TypeResponse && typ <= TypeStreamEnd && typ != TypeNotify
		if got := Correlates(req, reply); got != want || IsReply(typ) != want {
			t.Errorf("type %#04x: correlates %v, want %v", uint16(typ), got, want)
		}
		if MayReply(typ) != (typ == 0x0100) {
			t.Errorf("type %#04x may be replied to: %v", uint16(typ), MayReply(typ))
		}
		reply.Corr = "C"
		if Correlates(req, reply) {
			t.Errorf("type %#04x correlates with another id", uint16(typ))
		}
		if typ == 0x0101 {
			// Neither protocol, method nor content type takes part.
			reply.Corr, reply.Protocol, reply.Method, reply.ContentType = "c", 9, "", 0
			if !Correlates(req, reply) {
				t.Error("the correlation_id does not decide alone")
			}
		}
	}
	empty := &Message{Type: TypeResponse}
	if Correlates(&Message{Type: TypeRequest}, empty) || Correlates(empty, empty) {
		t.Error("empty ids correlate")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(uint16(0x0100), true, unhex(f, "0010001401010100040a0b0c0d0a746f6f6c732f63616c6c00130009020766733a2f746d707b7d"))
	f.Add(uint16(0x0103), false, unhex(f, "0010001c000203010000156e6f74696669636174696f6e732f6d6573736167657b7d"))
	f.Fuzz(func(t *testing.T, typ uint16, narrow bool, b []byte) {
		w := Width16
		if narrow {
			w = Width8
		}
		m, err := w.Parse(frame.Type(typ), b)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || e.Code != CodeEnvelopeMalformed {
				t.Errorf("error %v, want EnvelopeMalformed", err)
			}
			return
		}
		if got, err := w.AppendReceived(nil, &m); err != nil || !bytes.Equal(got, b) {
			t.Errorf("passed on as %x, %v, was %x", got, err, b)
		}
	})
}
