package main

import (
	"encoding/json"
	"errors"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/bridge"
)

// width is how many octets protocol_id takes.
func (t *testee) width() bridge.Width { return bridge.DefaultWidth(t.generation) }

func (t *testee) bridgeDecode(in *fields) (object, error) {
	m, payload, err := t.bridgeMessage(in, "frameType", "payload")
	if err != nil || in.err != nil {
		return nil, err
	}
	var safety any
	if m.Label != nil {
		safety = object{{"effect", uint64(m.Label.Effect)}, {"scope", m.Label.Scope}}
	}
	return object{
		{"protocol_id", uint64(m.Protocol)},
		{"message_kind", uint64(t.messageKind(payload))},
		{"content_type", uint64(m.ContentType)},
		{"flags", uint64(m.Flags)},
		{"final", m.Final()},
		{"corr", octets(m.Corr)},
		{"method", m.Method},
		{"safety", safety},
		{"foreign", octets(m.Foreign)},
	}, nil
}

// bridgeMessage reads a Bridge payload under its frame type.
func (t *testee) bridgeMessage(in *fields, typ, payload string) (bridge.Message, []byte, error) {
	ft, b := frame.Type(in.upTo(typ, 0xFFFF)), in.hex(payload)
	if in.err != nil {
		return bridge.Message{}, nil, nil
	}
	m, err := t.width().Parse(ft, b)
	return m, b, err
}

// messageKind is the octet of a payload that Parse has checked.
func (t *testee) messageKind(payload []byte) byte { return payload[4+int(t.width())] }

func (t *testee) bridgeEncode(in *fields) (object, error) {
	f := parseFields("in.fields.", in.require("fields"))
	m := bridge.Message{
		Type:        frame.Type(f.upTo("frameType", 0xFFFF)),
		Protocol:    bridge.ProtocolID(f.upTo("protocol_id", 0xFFFF)),
		ContentType: bridge.ContentType(f.upTo("content_type", 0xFF)),
		Flags:       uint8(f.upTo("flags", 0xFF)),
		Corr:        string(f.hex("corr")),
		Method:      f.word("method"),
		Label:       f.label("safety"),
		Foreign:     f.hex("foreign"),
	}
	kind := f.number("message_kind", nil)
	switch {
	case in.err != nil:
		return nil, nil
	case f.err != nil:
		return nil, f.err
	}
	b, err := t.width().AppendReceived(nil, &m) // reserved flags are passed on as they are (§4)
	if err != nil {
		return nil, err
	}
	if kind != nil && *kind != uint64(t.messageKind(b)) {
		return nil, errors.New("message_kind is not that of the frame type")
	}
	return octetsOut("payload", b), nil
}

// label reads a SafetyLabel, nil where there is none.
func (f *fields) label(key string) *bridge.Label {
	raw, ok := f.take(key)
	if !ok || string(raw) == "null" {
		return nil
	}
	l := parseFields(f.at+key+".", json.RawMessage(raw))
	label := &bridge.Label{Effect: bridge.Effect(l.upTo("effect", 0xFF)), Scope: l.word("scope")}
	if f.err == nil {
		f.err = l.err
	}
	return label
}

func (t *testee) bridgeCorrelate(in *fields) (object, error) {
	request, _, err := t.bridgeMessage(in, "requestFrameType", "requestPayload")
	if err != nil {
		return nil, err
	}
	reply, _, err := t.bridgeMessage(in, "replyFrameType", "replyPayload")
	if err != nil {
		return nil, err
	}
	return object{{"match", bridge.Correlates(&request, &reply)}}, nil
}
