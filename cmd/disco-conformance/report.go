package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// print writes m for people: P0 rows by clause, P1 rows by document, what cannot
// be met, and the counts.
func (m *matrix) print(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, "NPAMP-DISC §11, and the P0 rows it takes")
	for _, c := range m.clauses {
		printRows(&b, fmt.Sprintf("Clause %d: %s", c.Clause, c.About),
			m.where(func(s rowState) bool { return slices.Contains(s.Clauses, c.Clause) }))
	}
	printRows(&b, "P0 rows that no clause names",
		m.where(func(s rowState) bool { return s.Priority == "P0" && s.Clauses == nil }))

	fmt.Fprintln(&b, "\nP1 rows, by document")
	for _, d := range documents {
		printRows(&b, d.title,
			m.where(func(s rowState) bool { return s.Priority == "P1" && s.document() == d.prefix }))
	}

	fmt.Fprintln(&b, "\nRows that cannot be met, and never count as passed")
	for _, s := range m.where(func(s rowState) bool { return s.State == unmet }) {
		fmt.Fprintf(&b, "  %-15s %-8s %s  %s\n", s.ID, s.Level, s.Priority, s.Unmet)
	}

	fmt.Fprintln(&b, "\nRows")
	for _, p := range []string{"P0", "P1", "P2"} {
		fmt.Fprintf(&b, "  %s  %s\n", p, count(m.where(func(s rowState) bool { return s.Priority == p })))
	}
	_, err := b.WriteTo(w)
	return err
}

// printRows writes a heading and rows, or nothing where there are none.
func printRows(b *bytes.Buffer, title string, rows []rowState) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s (%s)\n", title, count(rows))
	for _, s := range rows {
		line := fmt.Sprintf("  %-12s %-10s %-1s  %-7s  %s", s.ID, s.Level, s.Side, s.State, s.tests())
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
}

// tests lists the tests of a row, those of one package together.
func (s rowState) tests() string {
	var b strings.Builder
	pkg := ""
	for _, t := range s.Tests {
		if t.Package != pkg {
			if pkg != "" {
				b.WriteString("; ")
			}
			b.WriteString(t.Package + ":")
			pkg = t.Package
		}
		b.WriteString(" " + t.Name)
		switch {
		case t.State != passed && t.Remark != "":
			fmt.Fprintf(&b, " (%s: %s)", t.State, t.Remark)
		case t.State != passed:
			fmt.Fprintf(&b, " (%s)", t.State)
		case t.Remark != "":
			fmt.Fprintf(&b, " (%s)", t.Remark)
		}
	}
	return b.String()
}

// count says how many rows there are in each state that occurs.
func count(rows []rowState) string {
	out := []string{fmt.Sprintf("%d rows", len(rows))}
	if len(rows) == 1 {
		out[0] = "1 row"
	}
	for _, o := range []outcome{passed, failed, skip, notRun, noTest, unmet} {
		n := 0
		for _, s := range rows {
			if s.State == o {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(out, ", ")
}

// marshal returns m as conformance.json: all rows, P2 too, one to a line.
func (m *matrix) marshal() ([]byte, error) {
	b := []byte("{\n  \"format\": \"npamp-conformance/1\",\n  \"clauses\": [")
	b, err := appendLines(b, m.clauses)
	if err != nil {
		return nil, err
	}
	b = append(b, "\n  ],\n  \"rows\": ["...)
	if b, err = appendLines(b, m.rows); err != nil {
		return nil, err
	}
	return append(b, "\n  ]\n}\n"...), nil
}

func appendLines[T any](b []byte, list []T) ([]byte, error) {
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		line, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(append(b, "\n    "...), line...)
	}
	return b, nil
}
