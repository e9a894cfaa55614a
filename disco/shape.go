package disco

import (
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Shape returns the specification's table of the payload as data: field names,
// types, printed bounds, sections. It is what faults are told by; the scan
// functions are the same in code. t is one of the seven.
func Shape(t Type) *dcbor.Shape {
	sh := &dcbor.Shape{Major: dcbor.MajorMap, Fields: []dcbor.Field{
		{Key: keyFrameKind, Name: "frame_kind", Required: true, Section: "4.2", Shape: &dcbor.Shape{Major: dcbor.MajorUint}},
		{Key: keyCorr, Name: "corr", Required: t != TypeAnnounce && t != TypeError, Section: "4.2", Shape: corrShape()},
	}}
	add := func(key uint64, name string, required bool, shape *dcbor.Shape) {
		sh.Fields = append(sh.Fields, dcbor.Field{Key: key, Name: name, Required: required, Shape: shape})
	}
	uints := &dcbor.Shape{Major: dcbor.MajorArray, Elem: &dcbor.Shape{Major: dcbor.MajorUint}}
	text := &dcbor.Shape{Major: dcbor.MajorText}
	octets := &dcbor.Shape{Major: dcbor.MajorBytes}
	boolean := &dcbor.Shape{Major: dcbor.MajorSimple}
	records := &dcbor.Shape{Major: dcbor.MajorArray, Elem: record.Shape()}
	switch t {
	case TypeQuery, TypeSubscribe:
		add(keyKinds, "kinds", false, uints)
		add(keyProtocolIDs, "protocol_ids", false, uints)
		add(keyNamePrefix, "name_prefix", false, text)
		if sh.Section = "7.2"; t == TypeQuery {
			sh.Section = "6.1"
			add(keyTolerant, "tolerant", false, boolean)
			add(keyQueryCursor, "cursor", false, octets)
		}
	case TypeResult:
		sh.Section = "6.2"
		add(keyRecords, "records", true, records)
		add(keyComplete, "complete", true, boolean)
		add(keyResultCursor, "cursor", false, octets)
	case TypeError:
		sh.Section = "9"
		add(keyCode, "code", true, &dcbor.Shape{Major: dcbor.MajorUint})
		add(keyReason, "reason", false, text)
	case TypeAnnounce:
		sh.Section = "7.1"
		add(keyRecords, "records", true, records)
	case TypeUpdate:
		sh.Section = "7.2"
		add(keyAdded, "added", false, records)
		add(keyWithdrawn, "withdrawn", false, &dcbor.Shape{Major: dcbor.MajorArray,
			Elem: &dcbor.Shape{Major: dcbor.MajorBytes, Min: 1, Max: record.MaxIDLen}})
	case TypeUnsubscribe:
		sh.Section = "7.3"
	}
	return sh
}

func corrShape() *dcbor.Shape {
	return &dcbor.Shape{Major: dcbor.MajorBytes, Min: 1, Max: MaxCorrLen}
}
