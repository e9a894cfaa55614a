package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// discoDecode reads a payload as decode does, in the generation that the input
// names or its own.
func (t *testee) discoDecode(in *fields) (object, error) {
	generation := t.generation
	if n := in.number("generation", nil); n != nil {
		if generation = int(*n); *n != 2 && *n != 3 {
			in.fail("generation", "must be 2 or 3")
		}
	}
	typ := disco.Type(in.upTo("frameType", 0xFFFF))
	payload := in.hex("payload")
	tolerant := in.flag("tolerant")
	switch {
	case in.err != nil:
		return nil, nil
	case !typ.Known():
		return nil, fmt.Errorf("frame type 0x%04x is none of Discovery's", uint16(typ))
	}
	m, refusal := judge(typ, payload, &disco.Options{Generation: generation, Tolerant: tolerant != nil && *tolerant})
	if refusal != nil {
		at := refusal.Path
		if at == "" {
			at = "payload"
		}
		return nil, fmt.Errorf("%v: %s: %s at octet %d (§%s)", refusal.Code, at, refusal.Rule, refusal.Offset, refusal.Section)
	}
	return object{{"message", m.json}, {"skipped", skippedJSON(m.skipped)}}, nil
}

// flag returns a Boolean field, nil if it is absent.
func (f *fields) flag(key string) *bool {
	raw, ok := f.take(key)
	if !ok {
		return nil
	}
	v, err := parseBool(raw)
	if err != nil {
		f.fail(key, err.Error())
	}
	return &v
}

// discoEncode makes a payload of a message as decode shows it. A message that
// the specification does not allow is an error, and so is a field that it does
// not have.
func (t *testee) discoEncode(in *fields) (object, error) {
	f := parseFields("message.", in.require("message"))
	if in.err != nil {
		return nil, nil
	}
	b, err := encodeMessage(f)
	if f.err != nil { // what is written, before what came of it
		return nil, f.err
	}
	if err != nil {
		return nil, err
	}
	return octetsOut("payload", b), nil
}

// encodeMessage takes the fields of the message that frame_kind names. The
// result counts only if no fault stuck to f.
func encodeMessage(f *fields) ([]byte, error) {
	typ := disco.Type(f.upTo("frame_kind", 0xFFFF))
	if f.err == nil && !typ.Known() {
		f.fail("frame_kind", "must be 256 to 262")
	}
	corr := disco.Corr(f.maybeHex("corr"))
	_, hasCorr := f.raw["corr"]
	f.take("corr")
	switch typ {
	case disco.TypeQuery:
		q := disco.Query{Corr: corr, Filter: f.filter()}
		if tolerant := f.flag("tolerant"); tolerant != nil {
			q.Tolerant, q.HasTolerant = *tolerant, true
		}
		q.Cursor, q.HasCursor = f.cursor()
		f.done()
		return disco.AppendQuery(nil, &q)
	case disco.TypeResult:
		r := disco.Result{Corr: corr, Records: f.records("records")}
		complete := f.flag("complete")
		if complete == nil {
			f.fail("complete", "is required")
		} else {
			r.Complete = *complete
		}
		r.Cursor, r.HasCursor = f.cursor()
		f.done()
		return disco.AppendResult(nil, &r)
	case disco.TypeError:
		e := disco.ErrorMsg{Corr: corr, HasCorr: hasCorr, Code: disco.Code(f.required("code", nil))}
		if reason := f.text("reason"); reason != nil {
			e.Reason, e.HasReason = *reason, true
		}
		f.done()
		return disco.AppendError(nil, &e)
	case disco.TypeAnnounce:
		if hasCorr {
			f.fail("corr", "is not sent in an ANNOUNCE")
		}
		a := disco.Announce{Records: f.records("records")}
		f.done()
		return disco.AppendAnnounce(nil, &a)
	case disco.TypeSubscribe:
		s := disco.Subscribe{Corr: corr, Filter: f.filter()}
		f.done()
		return disco.AppendSubscribe(nil, &s)
	case disco.TypeUpdate:
		u := disco.Update{Corr: corr, Withdrawn: list(f, "withdrawn", parseID)}
		if _, ok := f.raw["added"]; ok {
			u.Added = f.records("added")
		}
		f.done()
		return disco.AppendUpdate(nil, &u)
	case disco.TypeUnsubscribe:
		f.done()
		return disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: corr})
	}
	return nil, nil
}

// maybeHex returns the octets of a field, none if it is absent, and leaves it.
func (f *fields) maybeHex(key string) []byte {
	raw, ok := f.raw[key]
	if !ok || f.err != nil {
		return nil
	}
	s, err := parseText(raw)
	var b []byte
	if err == nil {
		b, err = hex.DecodeString(s)
	}
	if err != nil {
		f.fail(key, "must be octets in hex")
	}
	return b
}

func (f *fields) cursor() (c disco.Cursor, has bool) {
	c = disco.Cursor(f.maybeHex("cursor"))
	_, has = f.take("cursor")
	return c, has
}

func (f *fields) filter() record.Filter {
	var out record.Filter
	if kinds := list(f, "kinds", parseUint); kinds != nil {
		out.Kinds = make([]record.Kind, len(kinds))
		for i, k := range kinds {
			out.Kinds[i] = record.Kind(k)
		}
	}
	out.ProtocolIDs = list(f, "protocol_ids", parseUint)
	if prefix := f.text("name_prefix"); prefix != nil {
		out.NamePrefix, out.HasPrefix = *prefix, true
	}
	return out
}

// records returns a required array of records, each with the revision that a
// record file may leave out.
func (f *fields) records(key string) []record.Record {
	if _, ok := f.raw[key]; !ok {
		f.fail(key, "is required")
	}
	return list(f, key, func(raw json.RawMessage) (record.Record, error) {
		var r struct {
			Revision json.RawMessage `json:"revision"`
		}
		if json.Unmarshal(raw, &r) == nil && r.Revision == nil {
			return record.Record{}, errors.New("has no revision")
		}
		return parseRecord(raw)
	})
}

// parseID reads a record_id in hex.
func parseID(raw json.RawMessage) (record.ID, error) {
	s, err := parseText(raw)
	if err != nil {
		return "", errors.New("must be octets in hex")
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return "", errors.New("must be octets in hex")
	}
	return record.ID(b), nil
}
