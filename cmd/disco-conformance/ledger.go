package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const ledgerFormat = "npamp-requirements/1"

// clauses says in a word what each clause of NPAMP-DISC §11 is about; clause n
// is at n-1.
var clauses = [8]string{
	"frame types",
	"payloads and their refusal",
	"correlation",
	"records and their replacement",
	"faithful results",
	"subscriptions",
	"a claim, no authorisation",
	"nothing beyond what is carried, nothing kept",
}

// documents are what the numbers of rows begin with, in the order of the report.
var documents = []struct{ prefix, title string }{
	{"DISC", "NPAMP-DISC"},
	{"CORE", "core specification"},
	{"HB", "handshake binding"},
	{"CH00", "channel reference 0x0000"},
	{"CH10", "channel reference 0x0010"},
	{"BRIDGE", "NPAMP-BRIDGE"},
	{"REG", "NPAMP-REG"},
	{"SIGNED", "NPAMP-DISC-SIGNED"},
	{"PEERHANDLE", "NPAMP-PEERHANDLE"},
	{"HELLO", "NPAMP-HELLO"},
	{"CONF", "NPAMP-CONFORM"},
	{"DASP", "DASP"},
	{"DGP", "Decision Graph Protocol"},
	{"ACP", "Raxol ACP"},
}

// A ledger is requirements.json.
type ledger struct {
	Format string   `json:"format"`
	Rows   []row    `json:"rows"`   // in the ledger's order
	Labels []string `json:"labels"` // what else a test may name
}

// A row is one requirement without its prose.
type row struct {
	ID       string `json:"id"`
	Level    string `json:"level"`          // MUST …; FACT: definitional
	Side     string `json:"side,omitempty"` // S, R, B, Q, P; absent for abstract documents
	Priority string `json:"priority"`       // P0, P1, P2
	Clauses  []int  `json:"clauses,omitempty"`
	Unmet    string `json:"unmet,omitempty"` // why it cannot be met
}

// document returns what r's number begins with.
func (r row) document() string {
	prefix, _, _ := strings.Cut(r.ID, "-")
	return prefix
}

// required reports whether r must pass.
func (r row) required() bool { return r.Priority == "P0" || r.Priority == "P1" }

// parseLedger reads requirements.json.
func parseLedger(b []byte) (*ledger, error) {
	l := new(ledger)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, err
	}
	if l.Format != ledgerFormat {
		return nil, fmt.Errorf("format %q, want %q", l.Format, ledgerFormat)
	}
	seen := make(map[string]bool)
	for _, r := range l.Rows {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("row %q: %w", r.ID, err)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("row %q is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	for i, about := range clauses {
		if !slices.ContainsFunc(l.Rows, func(r row) bool { return slices.Contains(r.Clauses, i+1) }) {
			return nil, fmt.Errorf("clause %d (%s) has no row", i+1, about)
		}
	}
	return l, nil
}

func (r row) check() error {
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{
		{"level", r.Level, []string{"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "FACT"}},
		{"side", r.Side, []string{"S", "R", "B", "Q", "P", ""}},
		{"priority", r.Priority, []string{"P0", "P1", "P2"}},
	} {
		if !slices.Contains(f.allowed, f.value) {
			return fmt.Errorf("%s %q", f.name, f.value)
		}
	}
	for i, c := range r.Clauses {
		if c < 1 || c > len(clauses) || i > 0 && c <= r.Clauses[i-1] {
			return fmt.Errorf("clauses %v", r.Clauses)
		}
	}
	if len(r.Clauses) > 0 && r.Priority != "P0" {
		return fmt.Errorf("%s, with a clause", r.Priority)
	}
	for _, d := range documents {
		if d.prefix == r.document() {
			return nil
		}
	}
	return fmt.Errorf("unknown document")
}
