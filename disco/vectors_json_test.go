package disco

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// The JSON form of messages, both ways. What is absent is nil.
type (
	jsonMessage struct {
		FrameKind   *uint64              `json:"frame_kind,omitempty"`
		Corr        *testvectors.Hex     `json:"corr,omitempty"`
		Kinds       []testvectors.Number `json:"kinds,omitzero"`
		ProtocolIDs []testvectors.Number `json:"protocol_ids,omitzero"`
		NamePrefix  *string              `json:"name_prefix,omitempty"`
		Tolerant    *bool                `json:"tolerant,omitempty"`
		Cursor      *testvectors.Hex     `json:"cursor,omitempty"`
		Records     []jsonRecord         `json:"records,omitzero"`
		Complete    *bool                `json:"complete,omitempty"`
		Code        *testvectors.Number  `json:"code,omitempty"`
		Reason      *string              `json:"reason,omitempty"`
		Added       []jsonRecord         `json:"added,omitzero"`
		Withdrawn   []testvectors.Hex    `json:"withdrawn,omitzero"`
	}
	jsonRecord struct {
		RecordID *testvectors.Hex           `json:"record_id,omitempty"`
		Kind     any                        `json:"kind,omitempty"`
		Revision *string                    `json:"revision,omitempty"`
		Label    *string                    `json:"label,omitempty"`
		Body     *jsonBody                  `json:"body,omitempty"`
		Extra    map[string]testvectors.Hex `json:"extra,omitempty"`
	}
	jsonBody struct {
		Name          *string                    `json:"name,omitempty"`
		AgentID       *testvectors.Hex           `json:"agent_id,omitempty"`
		ProtocolID    *testvectors.Number        `json:"protocol_id,omitempty"`
		CarriageClass *testvectors.Number        `json:"carriage_class,omitempty"`
		Channels      []testvectors.Number       `json:"channels,omitzero"`
		ContentTypes  []testvectors.Number       `json:"content_types,omitzero"`
		Methods       []string                   `json:"methods,omitzero"`
		Effect        any                        `json:"effect,omitempty"`
		SchemaRef     *string                    `json:"schema_ref,omitempty"`
		Protocols     []testvectors.Number       `json:"protocols,omitzero"`
		Tools         []testvectors.Hex          `json:"tools,omitzero"`
		Extra         map[string]testvectors.Hex `json:"extra,omitempty"`
	}
	jsonSkipped struct {
		RecordID testvectors.Hex    `json:"record_id"`
		Kind     testvectors.Number `json:"kind"`
	}
)

var errInexpressible = errors.New("the types have no place for that")

// decode parses a payload into its JSON form.
func decode(typ Type, b []byte, o *Options) (m jsonMessage, skipped []jsonSkipped, err error) {
	kind := uint64(typ)
	m.FrameKind = &kind
	var left []record.Skipped
	switch typ {
	case TypeQuery:
		var q Query
		q, err = ParseQuery(b, o)
		m.Corr = octetsOf(q.Corr, true)
		m.filter(q.Filter)
		m.Tolerant, m.Cursor = optional(q.Tolerant, q.HasTolerant), octetsOf(q.Cursor, q.HasCursor)
	case TypeResult:
		var r Result
		r, err = ParseResult(b, o)
		m.Corr, m.Complete, m.Cursor = octetsOf(r.Corr, true), &r.Complete, octetsOf(r.Cursor, r.HasCursor)
		m.Records, left = recordsOf(r.Records), r.Skipped
	case TypeError:
		var e ErrorMsg
		e, err = ParseError(b, o)
		code := testvectors.Number(e.Code)
		m.Corr, m.Code, m.Reason = octetsOf(e.Corr, e.HasCorr), &code, optional(e.Reason, e.HasReason)
	case TypeAnnounce:
		var a Announce
		a, err = ParseAnnounce(b, o)
		m.Corr, m.Records, left = octetsOf(a.Corr, a.HasCorr), recordsOf(a.Records), a.Skipped
	case TypeSubscribe:
		var s Subscribe
		s, err = ParseSubscribe(b, o)
		m.Corr = octetsOf(s.Corr, true)
		m.filter(s.Filter)
	case TypeUpdate:
		var u Update
		u, err = ParseUpdate(b, o)
		m.Corr, left = octetsOf(u.Corr, true), u.Skipped
		if len(u.Added)+len(left) > 0 {
			m.Added = recordsOf(u.Added)
		}
		for _, id := range u.Withdrawn {
			m.Withdrawn = append(m.Withdrawn, testvectors.Hex(id))
		}
	default:
		var u Unsubscribe
		u, err = ParseUnsubscribe(b, o)
		m.Corr = octetsOf(u.Corr, true)
	}
	skipped = []jsonSkipped{}
	for _, s := range left {
		skipped = append(skipped, jsonSkipped{testvectors.Hex(s.ID), testvectors.Number(s.Kind)})
	}
	return m, skipped, err
}

func octetsOf[T ~string](v T, has bool) *testvectors.Hex {
	if !has {
		return nil
	}
	h := testvectors.Hex(v)
	return &h
}

func optional[T any](v T, has bool) *T {
	if !has {
		return nil
	}
	return &v
}

func (m *jsonMessage) filter(f record.Filter) {
	m.Kinds, m.ProtocolIDs = numbersOf(f.Kinds), numbersOf(f.ProtocolIDs)
	m.NamePrefix = optional(f.NamePrefix, f.HasPrefix)
}

func numbersOf[T ~uint64](v []T) []testvectors.Number {
	if v == nil {
		return nil
	}
	out := make([]testvectors.Number, len(v))
	for i := range v {
		out[i] = testvectors.Number(v[i])
	}
	return out
}

func recordsOf(records []record.Record) []jsonRecord {
	out := make([]jsonRecord, len(records))
	for i, r := range records {
		revision := strconv.FormatUint(r.Revision(), 10)
		j := jsonRecord{RecordID: octetsOf(r.ID(), true), Kind: r.Kind().String(), Revision: &revision, Body: new(jsonBody), Extra: extraOf(r.Extra())}
		if label, ok := r.Label(); ok {
			j.Label = &label
		}
		b := j.Body
		b.Extra = extraOf(r.BodyExtra())
		if p, ok := r.Protocol(); ok {
			id, class := testvectors.Number(p.ProtocolID), testvectors.Number(p.CarriageClass)
			b.ProtocolID, b.CarriageClass = &id, &class
			b.Channels, b.ContentTypes, b.Methods = numbersOf(p.Channels), numbersOf(p.ContentTypes), p.Methods
		}
		if c, ok := r.Carriage(); ok {
			class := testvectors.Number(c.CarriageClass)
			b.CarriageClass, b.ContentTypes = &class, numbersOf(c.ContentTypes)
		}
		if tool, ok := r.Tool(); ok {
			id := testvectors.Number(tool.ProtocolID)
			b.Name, b.ProtocolID, b.SchemaRef = &tool.Name, &id, tool.SchemaRef
			if e := tool.Effect; e != nil && *e <= record.Destructive {
				b.Effect = e.String()
			} else if e != nil {
				b.Effect = testvectors.Number(*e)
			}
		}
		if a, ok := r.Agent(); ok {
			b.AgentID, b.Protocols = octetsOf(a.AgentID, true), numbersOf(a.Protocols)
			if a.Tools != nil {
				b.Tools = make([]testvectors.Hex, len(a.Tools))
				for k, id := range a.Tools {
					b.Tools[k] = testvectors.Hex(id)
				}
			}
		}
		out[i] = j
	}
	return out
}

func extraOf(extra []record.Field) map[string]testvectors.Hex {
	m := map[string]testvectors.Hex{}
	for _, f := range extra {
		m[strconv.FormatUint(f.Key, 10)] = testvectors.Hex(f.Value)
	}
	return m
}

// encode appends the message that the JSON form says. errInexpressible is for
// what Go's types cannot say.
func encode(raw json.RawMessage) ([]byte, error) {
	var m jsonMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if m.FrameKind == nil || !Type(*m.FrameKind).Known() {
		return nil, errInexpressible
	}
	records, err := buildRecords(m.Records)
	added, err2 := buildRecords(m.Added)
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	corr := Corr(or(m.Corr))
	f := record.Filter{Kinds: valuesOf[record.Kind](m.Kinds), ProtocolIDs: valuesOf[uint64](m.ProtocolIDs), NamePrefix: or(m.NamePrefix), HasPrefix: m.NamePrefix != nil}
	switch Type(*m.FrameKind) {
	case TypeQuery:
		return AppendQuery(nil, &Query{Corr: corr, Filter: f, Tolerant: or(m.Tolerant), HasTolerant: m.Tolerant != nil, Cursor: Cursor(or(m.Cursor)), HasCursor: m.Cursor != nil})
	case TypeResult:
		if m.Records == nil || m.Complete == nil {
			return nil, errInexpressible
		}
		return AppendResult(nil, &Result{Corr: corr, Records: records, Complete: *m.Complete, Cursor: Cursor(or(m.Cursor)), HasCursor: m.Cursor != nil})
	case TypeError:
		if m.Code == nil {
			return nil, errInexpressible
		}
		return AppendError(nil, &ErrorMsg{Corr: corr, HasCorr: m.Corr != nil, Code: Code(*m.Code), Reason: or(m.Reason), HasReason: m.Reason != nil})
	case TypeAnnounce:
		return AppendAnnounce(nil, &Announce{Corr: corr, HasCorr: m.Corr != nil, Records: records})
	case TypeSubscribe:
		return AppendSubscribe(nil, &Subscribe{Corr: corr, Filter: f})
	case TypeUpdate:
		u := Update{Corr: corr, Added: added}
		for _, id := range m.Withdrawn {
			u.Withdrawn = append(u.Withdrawn, record.ID(id))
		}
		return AppendUpdate(nil, &u)
	}
	return AppendUnsubscribe(nil, &Unsubscribe{Corr: corr})
}

func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func valuesOf[T ~uint64](v []testvectors.Number) []T {
	if v == nil {
		return nil
	}
	out := make([]T, len(v))
	for i := range v {
		out[i] = T(v[i])
	}
	return out
}

func buildRecords(in []jsonRecord) (out []record.Record, err error) {
	for _, j := range in {
		r, err := buildRecord(j)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func buildRecord(j jsonRecord) (record.Record, error) {
	if j.RecordID == nil || j.Revision == nil || j.Body == nil {
		return record.Record{}, errInexpressible
	}
	revision, err := strconv.ParseUint(*j.Revision, 10, 64)
	if err != nil {
		return record.Record{}, errInexpressible
	}
	id, b := record.ID(*j.RecordID), j.Body
	var protocol, class uint64
	if b.ProtocolID != nil {
		protocol = uint64(*b.ProtocolID)
	}
	if b.CarriageClass != nil {
		class = uint64(*b.CarriageClass)
	}
	extra, bodyExtra := fieldsOf(j.Extra), fieldsOf(b.Extra)
	switch j.Kind {
	case "protocol", 1.0:
		if b.ProtocolID == nil || b.CarriageClass == nil {
			return record.Record{}, errInexpressible
		}
		return record.Protocol{ID: id, Revision: revision, Label: j.Label, ProtocolID: protocol, CarriageClass: record.CarriageClass(class),
			Channels: valuesOf[uint64](b.Channels), ContentTypes: valuesOf[uint64](b.ContentTypes), Methods: b.Methods, Extra: extra, BodyExtra: bodyExtra}.Record()
	case "carriage_class", 2.0:
		if b.CarriageClass == nil {
			return record.Record{}, errInexpressible
		}
		return record.Carriage{ID: id, Revision: revision, Label: j.Label, CarriageClass: record.CarriageClass(class),
			ContentTypes: valuesOf[uint64](b.ContentTypes), Extra: extra, BodyExtra: bodyExtra}.Record()
	case "tool", 3.0:
		if b.Name == nil || b.ProtocolID == nil {
			return record.Record{}, errInexpressible
		}
		effect, err := effectOf(b.Effect)
		if err != nil {
			return record.Record{}, err
		}
		return record.Tool{ID: id, Revision: revision, Label: j.Label, Name: *b.Name, ProtocolID: protocol, Effect: effect, SchemaRef: b.SchemaRef,
			Extra: extra, BodyExtra: bodyExtra}.Record()
	case "agent", 4.0:
		if b.AgentID == nil {
			return record.Record{}, errInexpressible
		}
		a := record.Agent{ID: id, Revision: revision, Label: j.Label, AgentID: string(*b.AgentID), Protocols: valuesOf[uint64](b.Protocols),
			Extra: extra, BodyExtra: bodyExtra}
		if b.Tools != nil {
			a.Tools = []record.ID{}
		}
		for _, tool := range b.Tools {
			a.Tools = append(a.Tools, record.ID(tool))
		}
		return a.Record()
	}
	return record.Record{}, errInexpressible
}

func effectOf(v any) (*record.Effect, error) {
	if v == nil {
		return nil, nil
	}
	if n, ok := v.(float64); ok {
		e := record.Effect(n)
		return &e, nil
	}
	for e := record.ReadOnly; e <= record.Destructive; e++ {
		if e.String() == v {
			return &e, nil
		}
	}
	return nil, errInexpressible
}

func fieldsOf(extra map[string]testvectors.Hex) (out []record.Field) {
	for key, value := range extra {
		k, err := strconv.ParseUint(key, 10, 64)
		if err != nil {
			panic(err)
		}
		out = append(out, record.Field{Key: k, Value: string(value)})
	}
	slices.SortFunc(out, func(a, b record.Field) int { return cmp.Compare(a.Key, b.Key) })
	return out
}
