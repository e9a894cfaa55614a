package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// realLedger is the one of this module.
func realLedger(t *testing.T) *ledger {
	t.Helper()
	b, err := os.ReadFile("../../testvectors/requirements.json")
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLedger(b)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shared reads a document that stands beside the module.
func shared(t *testing.T, name string) string {
	t.Helper()
	root, _, err := findModule()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "..", "shared", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("skipped: no ../shared/" + name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A tableRow is a line of a table in the ledger, with the section it stands in.
type tableRow struct {
	section string // "A2", "B1", "C"
	cells   []string
}

var (
	sectionHead = regexp.MustCompile(`^##? ([ABC]\d*)[. ]`)
	label       = regexp.MustCompile(`^C\d+`)
)

func tables(md string) []tableRow {
	var out []tableRow
	section := ""
	for line := range strings.Lines(md) {
		line = strings.TrimSpace(line)
		switch m := sectionHead.FindStringSubmatch(line); {
		case m != nil:
			section = m[1]
		case strings.HasPrefix(line, "## "):
			section = strings.TrimPrefix(line, "## ")
		case strings.HasPrefix(line, "| "):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
			out = append(out, tableRow{section, cells})
		}
	}
	return out
}

// The ledger in the repository is the governing one without its prose.
func TestLedgerAgrees(t *testing.T) {
	var want []row
	column := -1 // of the side; the abstract documents have none
	for _, r := range tables(shared(t, "REQUIREMENTS.md")) {
		switch {
		case !strings.HasPrefix(r.section, "B"):
		case r.cells[0] == "ID":
			column = slices.Index(r.cells, "Side")
		case len(r.cells) != 6:
			t.Fatalf("row %q has %d cells", r.cells[0], len(r.cells))
		default:
			s := row{ID: r.cells[0], Level: r.cells[1], Priority: r.cells[5]}
			if column >= 0 {
				s.Side = r.cells[column]
			}
			want = append(want, s)
		}
	}
	got := realLedger(t).Rows
	for i := range max(len(got), len(want)) {
		var g, w row
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g.ID != w.ID || g.Level != w.Level || g.Side != w.Side || g.Priority != w.Priority {
			t.Fatalf("row %d: got %+v, want %+v", i, g, w)
		}
	}
}

// Labels are the sections A, the decisions, the limits and the failures.
func TestLabelsAgree(t *testing.T) {
	var want []string
	md := shared(t, "REQUIREMENTS.md")
	for line := range strings.Lines(md) {
		if m := sectionHead.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[1], "A") && len(m[1]) > 1 {
			want = append(want, m[1])
		}
	}
	for _, r := range tables(md) {
		if id := label.FindString(r.cells[0]); r.section == "C" && id != "" {
			want = append(want, id)
		}
	}
	want = append(want, "C-limits")
	for line := range strings.Lines(shared(t, "FAILURES.md")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "###" {
			want = append(want, f[1])
		}
	}
	if got := realLedger(t).Labels; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Every row that the trace of DISC-11-01 gives to a clause is there: "4→5-xx" is
// all of section 5, "6.3" all of section 6.3, "9-04/05" two rows.
//
// Covers: DISC-11-01
func TestClausesFollowTheTrace(t *testing.T) {
	md := shared(t, "REQUIREMENTS.md")
	rows := realLedger(t).Rows
	_, trace, ok := strings.Cut(md, "Clause trace: ")
	if !ok {
		t.Fatal("no trace")
	}
	trace, _, _ = strings.Cut(trace, " |")
	parts := strings.Split(trace, "; ")
	if len(parts) != len(clauses) {
		t.Fatalf("the trace has %d clauses", len(parts))
	}
	for i, part := range parts {
		n, list, _ := strings.Cut(part, "→")
		if n != strconv.Itoa(i+1) {
			t.Fatalf("%q, want clause %d", part, i+1)
		}
		var want []string // begins of rows
		for item := range strings.SplitSeq(list, ", ") {
			section, numbers, _ := strings.Cut(item, "-")
			switch numbers {
			case "xx":
				want = append(want, "DISC-"+section+"-", "DISC-"+section+".")
			case "":
				want = append(want, "DISC-"+section+"-")
			default:
				for k := range strings.SplitSeq(numbers, "/") {
					want = append(want, "DISC-"+section+"-"+k)
				}
			}
		}
		found := 0
		for _, r := range rows {
			if slices.ContainsFunc(want, func(p string) bool { return strings.HasPrefix(r.ID, p) }) {
				found++
				if !slices.Contains(r.Clauses, i+1) {
					t.Errorf("%s: not under clause %d", r.ID, i+1)
				}
			}
		}
		if found == 0 {
			t.Errorf("clause %d: no row begins with any of %q", i+1, want)
		}
	}
}

func TestLedgerRefused(t *testing.T) {
	const good = `{"format":"npamp-requirements/1","labels":[],"rows":[{"id":"DISC-1-01","level":"MUST","side":"B","priority":"P0","clauses":[1,2,3,4,5,6,7,8]}]}`
	if _, err := parseLedger([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"format", "requirements/1", "requirements/2", "format"},
		{"unknown field", `"labels"`, `"title"`, "title"},
		{"level", `"MUST"`, `"OUGHT"`, "level"},
		{"side", `"B"`, `"X"`, "side"},
		{"priority", `"P0"`, `"P3"`, "priority"},
		{"document", "DISC-1-01", "ABC-1-01", "document"},
		{"clause 9", "7,8]", "7,8,9]", "clauses"},
		{"clause 0", "[1,", "[0,1,", "clauses"},
		{"clause twice", "[1,2,", "[1,1,2,", "clauses"},
		{"clause missing", "3,4,", "3,", "clause 4"},
		{"clause of a P1 row", `"P0"`, `"P1"`, "with a clause"},
		{"row twice", `"rows":[`, `"rows":[{"id":"DISC-1-01","level":"MUST","priority":"P2"},`, "twice"},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%s: changes nothing", c.name)
		}
		_, err := parseLedger([]byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}
