package main

import (
	"encoding/hex"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// diagPayload renders an accepted payload in diagnostic notation (RFC 8949 §8)
// on one line, with the specification's names as comments before the keys.
func diagPayload(t disco.Type, payload []byte) string {
	var b strings.Builder
	diagItem(&b, payload, 0, payloadShape(t))
	return b.String()
}

// diagRecord is diagPayload for a record.
func diagRecord(r record.Record) string {
	var b strings.Builder
	diagItem(&b, []byte(r.Octets()), 0, recordShape())
	return b.String()
}

// diagOrHex renders a payload in diagnostic notation if it is accepted, else as
// one octet string.
func diagOrHex(t disco.Type, payload []byte, accepted bool) string {
	if accepted {
		return diagPayload(t, payload)
	}
	return "h'" + hex.EncodeToString(payload) + "'"
}

// diagItem renders the item at b[i], which has been checked, and returns the
// index after it. Where there is no shape the CBOR library renders it whole.
func diagItem(out *strings.Builder, b []byte, i int, s *shape) int {
	end := dcbor.Next(b, i)
	n, next := dcbor.Head(b, i)
	switch major := b[i] & 0xe0; {
	case s != nil && major == dcbor.MajorArray:
		out.WriteByte('[')
		for k := range n {
			if k > 0 {
				out.WriteString(", ")
			}
			next = diagItem(out, b, next, s)
		}
		out.WriteByte(']')
	case s != nil && major == dcbor.MajorMap:
		var kind record.Kind
		out.WriteByte('{')
		for k := range n {
			if k > 0 {
				out.WriteString(", ")
			}
			key, value := dcbor.Head(b, next)
			name, nested := s.at(key, kind)
			if name != "" {
				out.WriteString("/" + name + "/ ")
			}
			diagItem(out, b, next, nil)
			out.WriteString(": ")
			if s.record && name == "kind" {
				v, _ := dcbor.Head(b, value)
				kind = record.Kind(v)
			}
			next = diagItem(out, b, value, nested)
		}
		out.WriteByte('}')
	default:
		text, err := cbor.Diagnose(b[i:end])
		if err != nil { // a general library's limit, such as nesting
			text = "h'" + hex.EncodeToString(b[i:end]) + "'"
		}
		out.WriteString(text)
	}
	return end
}
