package main

import (
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
)

// clauseTitle says what a clause of §11 is about; 0 is what it does not number.
func clauseTitle(n int) string {
	return [...]string{"other sections", "frame types", "payloads and their refusal", "correlation", "records and their replacement",
		"faithful results", "subscriptions", "a claim, no authorisation", "nothing beyond what is carried, nothing kept"}[n]
}

func (c *conformance) printed() object {
	n := c.count()
	o := object{{"target", c.target.name}, {"generation", c.generation}}
	if c.identity != nil {
		o = append(o, field{"identity", octets(c.identity)})
	}
	return append(o, field{"pass", n.passed}, field{"fail", n.failed}, field{"not_observable", n.unseen},
		field{"must_failed", n.required}, field{"associations", c.opened})
}

func (a *app) printConformance(c *conformance, brief bool) error {
	switch a.format {
	case formatJSON:
		var all []object
		for _, r := range c.results {
			all = append(all, r.json())
		}
		var hidden []object
		for _, h := range hiddenRows() {
			hidden = append(hidden, object{{"row", h.row}, {"why", h.why}})
		}
		return a.out.json(versioned(field{"checks", all}, field{"summary", c.printed()}, field{"rows_not_visible", hidden}))
	case formatNDJSON:
		for _, r := range c.results {
			if err := a.out.json(versioned(field{"check", r.json()})); err != nil {
				return err
			}
		}
		return a.out.json(versioned(field{"summary", c.printed()}))
	}
	var lines []string
	clause := -1
	for _, r := range c.results {
		if r.clause != clause {
			clause = r.clause
			head := clauseTitle(clause)
			if clause > 0 {
				head = fmt.Sprintf("§11 clause %d: %s", clause, head)
			}
			lines = append(lines, head)
		}
		lines = append(lines, r.lines(brief)...)
	}
	n := c.count()
	lines = append(lines, fmt.Sprintf("%d pass, %d fail (%d of them a MUST), %d not observable", n.passed, n.failed, n.required, n.unseen))
	return a.out.text(lines...)
}

// json is one check of -o json.
func (r *checked) json() object {
	o := object{
		{"name", r.name},
		{"clause", r.clause},
		{"level", string(r.level)},
		{"rows", r.rows},
		{"title", r.title},
		{"verdict", string(r.outcome)},
	}
	if r.why != "" {
		o = append(o, field{"why", r.why})
	}
	entries := make([]object, len(r.exchange))
	for i, e := range r.exchange {
		entries[i] = e.json()
	}
	o = append(o, field{"exchange", entries})
	if r.cut {
		o = append(o, field{"cut", true})
	}
	return o
}

func (e *entry) json() object {
	var o object
	if e.typ != 0 {
		dir := "in"
		if e.out {
			dir = "out"
		}
		o = object{{"association", e.assoc}, {"dir", dir}, {"type", fmt.Sprintf("0x%04x", uint16(e.typ))}}
		if e.typ.Known() {
			o = append(o, field{"name", e.typ.String()})
		}
		if corr, ok := e.corr(); ok {
			o = append(o, field{"corr", octets(corr)})
		}
		if e.note == "" {
			return append(o, field{"payload", octets(e.payload)})
		}
	}
	return append(o, field{"note", e.note})
}

// corr is that of the frame, where one can be found.
func (e *entry) corr() (disco.Corr, bool) {
	body, err := frame.Peel(e.payload)
	if err != nil {
		return "", false
	}
	return disco.ScanCorr(body)
}

// maxShown is how many octets of a payload a table shows.
const maxShown = 48

// lines is one check of a table.
func (r *checked) lines(brief bool) []string {
	lines := []string{fmt.Sprintf("  %-14s  %-6s  %-20s  %s [%s]", r.outcome, r.level, r.name, r.title, strings.Join(r.rows, " "))}
	if r.why != "" {
		lines = append(lines, "      "+visible(r.why, 0))
	}
	if brief && r.outcome == passed {
		return lines
	}
	for _, e := range r.exchange {
		lines = append(lines, "        "+e.line())
	}
	if r.cut {
		lines = append(lines, "        … not all of it was kept")
	}
	return lines
}

func (e *entry) line() string {
	if e.typ == 0 {
		return "-- " + visible(e.note, 0)
	}
	dir := "<-"
	if e.out {
		dir = "->"
	}
	what := e.note
	if what == "" {
		what = hex.EncodeToString(e.payload[:min(len(e.payload), maxShown)])
		if len(e.payload) > maxShown {
			what += fmt.Sprintf("… (%s)", plural(len(e.payload), "octet"))
		}
	}
	return fmt.Sprintf("%d %s %v %s", e.assoc, dir, e.typ, what)
}

// writeJUnit writes the result as JUnit XML. What is no failure at level MUST is
// none there either: a check that could not be seen, or that differs in what is
// a peer's own choice, is skipped.
func (c *conformance) writeJUnit(path string) error {
	type message struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *message `xml:"failure"`
		Skipped *message `xml:"skipped"`
		Out     string   `xml:"system-out"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	all := suite{Name: "disco-probe conform " + visible(c.target.name, 0), Tests: len(c.results)}
	for _, r := range c.results {
		t := testcase{Class: fmt.Sprintf("NPAMP-DISC.11-%d", r.clause), Name: r.name,
			Out: joinLines(append([]string{r.title + " [" + strings.Join(r.rows, " ") + "]"}, r.lines(false)[1:]...))}
		why := visible(r.why, 0)
		switch {
		case r.outcome == failed && r.level == levelMust:
			t.Failure = &message{Message: why, Type: string(r.level)}
			all.Failures++
		case r.outcome == failed:
			t.Skipped = &message{Message: "fails, but is no MUST (" + string(r.level) + "): " + why}
			all.Skipped++
		case r.outcome == notObservable:
			t.Skipped = &message{Message: "not observable: " + why}
			all.Skipped++
		}
		all.Cases = append(all.Cases, t)
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(b, '\n')...), 0o644)
}
