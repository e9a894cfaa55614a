package main

import (
	"strconv"

	"github.com/npamp/disco/record"
)

// recordJSON is the JSON form of a record.
func recordJSON(r record.Record) object {
	kind := r.Kind()
	o := object{
		{"record_id", octets(r.ID())},
		{"kind", nameOrNumber(uint64(kind), kindNames(), kind.String())},
		{"revision", strconv.FormatUint(r.Revision(), 10)},
	}
	if label, ok := r.Label(); ok {
		o = append(o, field{"label", label})
	}
	o = append(o, field{"body", append(bodyJSON(r), extraJSON(r.BodyExtra())...)})
	return append(o, extraJSON(r.Extra())...)
}

func recordsJSON(records []record.Record) []object {
	out := make([]object, len(records))
	for i, r := range records {
		out[i] = recordJSON(r)
	}
	return out
}

func bodyJSON(r record.Record) object {
	if p, ok := r.Protocol(); ok {
		o := object{{"protocol_id", p.ProtocolID}, {"carriage_class", uint64(p.CarriageClass)}}
		if p.Channels != nil {
			o = append(o, field{"channels", p.Channels})
		}
		if p.ContentTypes != nil {
			o = append(o, field{"content_types", p.ContentTypes})
		}
		if p.Methods != nil {
			o = append(o, field{"methods", p.Methods})
		}
		return o
	}
	if c, ok := r.Carriage(); ok {
		o := object{{"carriage_class", uint64(c.CarriageClass)}}
		if c.ContentTypes != nil {
			o = append(o, field{"content_types", c.ContentTypes})
		}
		return o
	}
	if t, ok := r.Tool(); ok {
		o := object{{"name", t.Name}, {"protocol_id", t.ProtocolID}}
		if t.Effect != nil {
			o = append(o, field{"effect", nameOrNumber(uint64(*t.Effect), effectNames(), t.Effect.String())})
		}
		if t.SchemaRef != nil {
			o = append(o, field{"schema_ref", *t.SchemaRef})
		}
		return o
	}
	a, _ := r.Agent()
	o := object{{"agent_id", octets(a.AgentID)}, {"protocols", a.Protocols}}
	if a.Tools != nil {
		o = append(o, field{"tools", idsJSON(a.Tools)})
	}
	return o
}

func idsJSON(ids []record.ID) []octets {
	out := make([]octets, len(ids))
	for i, id := range ids {
		out[i] = octets(id)
	}
	return out
}

// extraJSON is the field that holds unknown keys, if there are any.
func extraJSON(extra []record.Field) object {
	if len(extra) == 0 {
		return nil
	}
	o := make(object, len(extra))
	for i, f := range extra {
		o[i] = field{strconv.FormatUint(f.Key, 10), octets(f.Value)}
	}
	return object{{"extra", o}}
}

func skippedJSON(skipped []record.Skipped) []object {
	out := make([]object, len(skipped))
	for i, s := range skipped {
		out[i] = object{{"record_id", octets(s.ID)}, {"kind", uint64(s.Kind)}}
	}
	return out
}
