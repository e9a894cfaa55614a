package record

import (
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Shape returns the specification's tables of a record and its bodies as data:
// field names, types, printed bounds, sections. It is what faults are told by;
// scan is the same in code.
func Shape() *dcbor.Shape {
	bodies := [...]*dcbor.Shape{shapeOf(0), shapeOf(KindProtocol), shapeOf(KindCarriageClass), shapeOf(KindTool), shapeOf(KindAgent)}
	return &dcbor.Shape{Major: dcbor.MajorMap, Section: "5", Fields: []dcbor.Field{
		{Key: keyID, Name: "record_id", Required: true, Shape: octetsShape(MaxIDLen)},
		{Key: keyKind, Name: "kind", Required: true, Shape: uintShape(0)},
		{Key: keyRevision, Name: "revision", Required: true, Shape: uintShape(0)},
		{Key: keyLabel, Name: "label", Shape: textShape()},
		{Key: keyBody, Name: "body", Required: true, By: keyKind, Of: func(kind uint64) *dcbor.Shape {
			if Kind(kind).Known() {
				return bodies[kind]
			}
			return bodies[0]
		}},
	}}
}

// shapeOf returns the shape of a body.
func shapeOf(kind Kind) *dcbor.Shape {
	switch kind {
	case KindProtocol:
		return &dcbor.Shape{Major: dcbor.MajorMap, Section: "5.1", Fields: []dcbor.Field{
			{Key: keyProtocolID, Name: "protocol_id", Required: true, Shape: uintShape(MaxProtocolID)},
			{Key: keyProtocolClass, Name: "carriage_class", Required: true, Shape: uintShape(0)},
			{Key: keyChannels, Name: "channels", Shape: arrayShape(0, uintShape(0))},
			{Key: keyContentTypes, Name: "content_types", Shape: arrayShape(0, uintShape(0))},
			{Key: keyMethods, Name: "methods", Shape: arrayShape(0, textShape())},
		}}
	case KindCarriageClass:
		return &dcbor.Shape{Major: dcbor.MajorMap, Section: "5.2", Fields: []dcbor.Field{
			{Key: keyClass, Name: "carriage_class", Required: true, Shape: uintShape(0)},
			{Key: keyClassContentTypes, Name: "content_types", Shape: arrayShape(0, uintShape(0))},
		}}
	case KindTool:
		return &dcbor.Shape{Major: dcbor.MajorMap, Section: "5.3", Fields: []dcbor.Field{
			{Key: keyName, Name: "name", Required: true, Shape: textShape()},
			{Key: keyToolProtocol, Name: "protocol_id", Required: true, Shape: uintShape(MaxProtocolID)},
			{Key: keyEffect, Name: "effect", Shape: uintShape(0)},
			{Key: keySchemaRef, Name: "schema_ref", Shape: textShape()},
		}}
	case KindAgent:
		return &dcbor.Shape{Major: dcbor.MajorMap, Section: "5.4", Fields: []dcbor.Field{
			{Key: keyAgentID, Name: "agent_id", Required: true, Shape: octetsShape(MaxAgentIDLen)},
			{Key: keyProtocols, Name: "protocols", Required: true, Shape: arrayShape(1, uintShape(0))},
			{Key: keyTools, Name: "tools", Shape: arrayShape(0, octetsShape(MaxIDLen))},
		}}
	}
	return &dcbor.Shape{Major: dcbor.MajorMap, AnyKeys: true, Section: "5"}
}

func uintShape(max uint64) *dcbor.Shape { return &dcbor.Shape{Major: dcbor.MajorUint, Max: max} }
func octetsShape(max uint64) *dcbor.Shape {
	return &dcbor.Shape{Major: dcbor.MajorBytes, Min: 1, Max: max}
}
func textShape() *dcbor.Shape { return &dcbor.Shape{Major: dcbor.MajorText} }
func arrayShape(min uint64, elem *dcbor.Shape) *dcbor.Shape {
	return &dcbor.Shape{Major: dcbor.MajorArray, Min: min, Elem: elem}
}

// diagnose says what scan found wrong with b, whose kind may only be unknown.
func diagnose(b []byte, m dcbor.Mode) *Error {
	sh := Shape()
	if e := dcbor.Check(b, recordDepth, m, math.MaxInt); e != nil {
		return &Error{e.Rule, e.Offset, sh.Path(b, e.Offset), "4.1"}
	}
	if v := sh.Check(b); v != nil {
		path := sh.Path(b, v.Offset)
		if v.Missing != "" && path != "" {
			path += "."
		}
		return &Error{v.Rule, v.Offset, path + v.Missing, v.Section}
	}
	return &Error{dcbor.RecordKind, kindAt(b), "kind", "5"}
}
