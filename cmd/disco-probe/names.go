package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// kindNames, effectNames and classNames are the specification's and the
// registry's names of numbers, for reading; for writing there is String.
func kindNames() map[string]uint64 {
	return nameTable(record.KindProtocol, record.KindCarriageClass, record.KindTool, record.KindAgent)
}

func effectNames() map[string]uint64 {
	return nameTable(record.ReadOnly, record.IdempotentWrite, record.NonIdempotentWrite, record.Destructive)
}

func classNames() map[string]uint64 {
	return nameTable(record.ClassJSONRPC, record.ClassHTTP, record.ClassMSG, record.ClassStream, record.ClassDOC, record.ClassOpaque)
}

func nameTable[T interface {
	~uint64
	String() string
}](values ...T) map[string]uint64 {
	m := make(map[string]uint64, len(values))
	for _, v := range values {
		m[v.String()] = uint64(v)
	}
	return m
}

// protocolNames are the registered protocol_ids, by short names.
func protocolNames() map[string]uint64 {
	return map[string]uint64{
		"mcp": 1, "a2a": 2, "http2": 3, "websocket": 4, "grpc": 5,
		"nlip": 6, "anp": 7, "agntcy": 8, "ap2": 9, "x402": 10,
	}
}

// nameOrNumber is the JSON form of a number that may have a name.
func nameOrNumber(n uint64, names map[string]uint64, name string) any {
	if known, ok := names[name]; ok && known == n {
		return name
	}
	return n
}

// parseType reads a frame type: 0x0100, 256, query or DISCO_QUERY.
func parseType(s string) (disco.Type, error) {
	for t := disco.TypeQuery; t <= disco.TypeUnsubscribe; t++ {
		name := t.String()
		if strings.EqualFold(s, name) || strings.EqualFold(s, strings.TrimPrefix(name, "DISCO_")) {
			return t, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil {
		return 0, fmt.Errorf("frame type %q is neither a number nor a name such as query or DISCO_QUERY", s)
	}
	return disco.Type(n), nil
}
