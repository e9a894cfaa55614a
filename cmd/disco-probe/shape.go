package main

import (
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A shape gives the items of a payload their names: those of a map's keys, by
// key, and the shape of what stands under them, or in the array under them.
type shape struct {
	keys   []string
	nested map[uint64]*shape
	record bool // the map is a record: what kind it has decides on its body
}

// at returns the name of a key and the shape of its value; "" and nil where
// the specification has none. kind is that of the record the map is, if any.
func (s *shape) at(key uint64, kind record.Kind) (string, *shape) {
	if s == nil || key >= uint64(len(s.keys)) {
		return "", nil
	}
	if s.record && s.keys[key] == "body" {
		return "body", bodyShape(kind)
	}
	return s.keys[key], s.nested[key]
}

// payloadShape returns the shape of a payload (§6, §7, §9), nil for a type
// without one.
func payloadShape(t disco.Type) *shape {
	switch t {
	case disco.TypeQuery:
		return &shape{keys: []string{"frame_kind", "corr", "kinds", "protocol_ids", "name_prefix", "tolerant", "cursor"}}
	case disco.TypeResult:
		return &shape{keys: []string{"frame_kind", "corr", "records", "complete", "cursor"}, nested: map[uint64]*shape{2: recordShape()}}
	case disco.TypeError:
		return &shape{keys: []string{"frame_kind", "corr", "code", "reason"}}
	case disco.TypeAnnounce:
		return &shape{keys: []string{"frame_kind", "corr", "records"}, nested: map[uint64]*shape{2: recordShape()}}
	case disco.TypeSubscribe:
		return &shape{keys: []string{"frame_kind", "corr", "kinds", "protocol_ids", "name_prefix"}}
	case disco.TypeUpdate:
		return &shape{keys: []string{"frame_kind", "corr", "added", "withdrawn"}, nested: map[uint64]*shape{2: recordShape()}}
	case disco.TypeUnsubscribe:
		return &shape{keys: []string{"frame_kind", "corr"}}
	}
	return nil
}

func recordShape() *shape {
	return &shape{keys: []string{"record_id", "kind", "revision", "label", "body"}, record: true}
}

func bodyShape(k record.Kind) *shape {
	switch k {
	case record.KindProtocol:
		return &shape{keys: []string{"protocol_id", "carriage_class", "channels", "content_types", "methods"}}
	case record.KindCarriageClass:
		return &shape{keys: []string{"carriage_class", "content_types"}}
	case record.KindTool:
		return &shape{keys: []string{"name", "protocol_id", "effect", "schema_ref"}}
	case record.KindAgent:
		return &shape{keys: []string{"agent_id", "protocols", "tools"}}
	}
	return nil
}
