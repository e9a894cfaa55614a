package main

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/npamp/disco/record"
)

// recordTable lists records, one a line. Text of a peer is made visible and
// cut; the other formats have all of it.
func recordTable(records []record.Record) []string {
	rows := [][]string{{"RECORD_ID", "KIND", "REVISION", "NAME", "PROTOCOL", "ABOUT", "LABEL"}}
	for _, r := range records {
		rows = append(rows, recordRow(r))
	}
	return table(rows)
}

func recordRow(r record.Record) []string {
	label := "-"
	if l, ok := r.Label(); ok {
		label = visible(l, maxTextWidth)
	}
	var name, about string
	if p, ok := r.Protocol(); ok {
		name, about = "-", p.CarriageClass.String()
		if p.Methods != nil {
			about += ", " + plural(len(p.Methods), "method")
		}
	}
	if c, ok := r.Carriage(); ok {
		name, about = "-", c.CarriageClass.String()
	}
	if t, ok := r.Tool(); ok {
		name, about = visible(t.Name, maxTextWidth), "no effect stated"
		if t.Effect != nil {
			about = t.Effect.String()
		}
	}
	if a, ok := r.Agent(); ok {
		name, about = visibleOctets(a.AgentID), plural(len(a.Tools), "tool")
	}
	var protocols []string
	for id := range r.ProtocolIDs() {
		if len(protocols) == 8 {
			protocols = append(protocols, "…")
			break
		}
		protocols = append(protocols, strconv.FormatUint(id, 10))
	}
	if protocols == nil {
		protocols = []string{"-"}
	}
	return []string{r.ID().String(), r.Kind().String(), strconv.FormatUint(r.Revision(), 10),
		name, strings.Join(protocols, ","), about, label}
}

// visibleOctets renders octets that are often text: as such where they are,
// else in hex.
func visibleOctets(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "h'" + hex.EncodeToString([]byte(s)) + "'"
	}
	return visible(s, maxTextWidth)
}
