package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/npamp/disco/record"
)

// parseNative reads the native form: {"v":1,"records":[…]}, as query -o json
// prints it.
func parseNative(b []byte) ([]record.Record, error) {
	f := parseFields("", b)
	version := f.required("v", nil)
	f.take("meta")
	entries := list(f, "records", func(raw json.RawMessage) (json.RawMessage, error) { return raw, nil })
	if entries == nil {
		f.fail("records", "is required")
	}
	if f.err == nil && version != 1 {
		f.fail("v", "must be 1")
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	records := make([]record.Record, len(entries))
	for i, raw := range entries {
		r, err := parseRecord(raw)
		if err != nil {
			return nil, fmt.Errorf("records[%d]%s: %w", i, nameOf(raw), err)
		}
		records[i] = r
	}
	return records, nil
}

// nameOf names the record of an error by its record_id as it is written.
func nameOf(raw json.RawMessage) string {
	var r struct {
		ID *string `json:"record_id"`
	}
	if json.Unmarshal(raw, &r) != nil || r.ID == nil {
		return ""
	}
	return fmt.Sprintf(" (record_id %s)", visible(*r.ID, maxTextWidth))
}

// parseRecord reads one record. An error names the field.
func parseRecord(raw json.RawMessage) (record.Record, error) {
	f := parseFields("", raw)
	id := record.ID(f.octets("record_id"))
	kind := record.Kind(f.required("kind", kindNames()))
	var revision uint64 // absent: no floor
	if n := f.number("revision", nil); n != nil {
		revision = *n
	}
	label := f.text("label")
	body := parseFields("body.", f.require("body"))
	extra := parseExtra(f)
	if err := f.done(); err != nil {
		return record.Record{}, err
	}
	bodyExtra := parseExtra(body)
	var v interface {
		Record() (record.Record, error)
	}
	switch kind {
	case record.KindProtocol:
		v = record.Protocol{
			ID: id, Revision: revision, Label: label, Extra: extra, BodyExtra: bodyExtra,
			ProtocolID:    body.required("protocol_id", nil),
			CarriageClass: record.CarriageClass(body.required("carriage_class", classNames())),
			Channels:      list(body, "channels", parseUint),
			ContentTypes:  list(body, "content_types", parseUint),
			Methods:       list(body, "methods", parseText),
		}
	case record.KindCarriageClass:
		v = record.Carriage{
			ID: id, Revision: revision, Label: label, Extra: extra, BodyExtra: bodyExtra,
			CarriageClass: record.CarriageClass(body.required("carriage_class", classNames())),
			ContentTypes:  list(body, "content_types", parseUint),
		}
	case record.KindTool:
		t := record.Tool{
			ID: id, Revision: revision, Label: label, Extra: extra, BodyExtra: bodyExtra,
			ProtocolID: body.required("protocol_id", nil),
			Effect:     (*record.Effect)(body.number("effect", effectNames())),
			SchemaRef:  body.text("schema_ref"),
		}
		if name := body.text("name"); name != nil {
			t.Name = *name
		} else {
			body.fail("name", "is required")
		}
		v = t
	case record.KindAgent:
		v = record.Agent{
			ID: id, Revision: revision, Label: label, Extra: extra, BodyExtra: bodyExtra,
			AgentID:   body.octets("agent_id"),
			Protocols: list(body, "protocols", parseUint),
			Tools: list(body, "tools", func(raw json.RawMessage) (record.ID, error) {
				s, err := parseOctets(raw)
				return record.ID(s), err
			}),
		}
	default:
		return record.Record{}, &fieldError{"kind", fmt.Sprintf("must be 1 to 4 or one of %v", sortedKeys(kindNames()))}
	}
	if err := body.done(); err != nil {
		return record.Record{}, err
	}
	r, err := v.Record()
	var fe *record.FieldError
	if errors.As(err, &fe) {
		return record.Record{}, &fieldError{fe.Field, fe.Reason}
	}
	return r, err
}

// parseExtra reads {"9":"03"}: unknown keys in decimal with their encoded
// values in hex. The result ascends by key.
func parseExtra(f *fields) []record.Field {
	raw, ok := f.take("extra")
	if !ok {
		return nil
	}
	e := parseFields(f.at+"extra.", raw)
	var out []record.Field
	for key, raw := range e.raw {
		n, err := strconv.ParseUint(key, 10, 64)
		s, errText := parseText(raw)
		b, errHex := hex.DecodeString(s)
		if err != nil || errText != nil || errHex != nil {
			e.fail(key, "must be a key in decimal with its encoded value in hex")
		}
		out = append(out, record.Field{Key: n, Value: string(b)})
	}
	if f.err == nil {
		f.err = e.err
	}
	slices.SortFunc(out, func(a, b record.Field) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return out
}
