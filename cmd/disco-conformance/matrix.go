package main

import (
	"path"
	"slices"
)

// A matrix is the ledger with what became of it.
type matrix struct {
	clauses []clauseState
	rows    []rowState
}

// A clauseState is one clause of NPAMP-DISC §11. It passes when all its rows do.
type clauseState struct {
	Clause int      `json:"clause"`
	About  string   `json:"about"`
	State  outcome  `json:"state"` // pass or fail
	Rows   []string `json:"rows"`
}

type rowState struct {
	row
	State outcome     `json:"state"`
	Tests []testState `json:"tests"`
}

type testState struct {
	Package string  `json:"package"` // directory in the module
	Name    string  `json:"name"`
	State   outcome `json:"state"`
	Remark  string  `json:"remark,omitempty"`
}

// judge gives every row its tests and its state. Tests stand by package and
// name.
func judge(l *ledger, module string, tests []test, rs results) *matrix {
	byRow := make(map[string][]testState)
	for _, t := range tests {
		s := testState{Package: t.pkg, Name: t.name}
		s.State, s.Remark = rs.of(path.Join(module, t.pkg), t.name)
		for _, name := range t.names {
			if !slices.Contains(byRow[name], s) {
				byRow[name] = append(byRow[name], s)
			}
		}
	}
	m := new(matrix)
	for i, about := range clauses {
		m.clauses = append(m.clauses, clauseState{Clause: i + 1, About: about, State: passed})
	}
	for _, r := range l.Rows {
		s := rowState{row: r, Tests: append([]testState{}, byRow[r.ID]...)} // [] in JSON where there are none
		slices.SortFunc(s.Tests, func(a, b testState) int {
			return slices.Compare([]string{a.Package, a.Name}, []string{b.Package, b.Name})
		})
		s.State = s.judge()
		m.rows = append(m.rows, s)
		for _, c := range r.Clauses {
			clause := &m.clauses[c-1]
			clause.Rows = append(clause.Rows, r.ID)
			if s.State != passed {
				clause.State = failed
			}
		}
	}
	return m
}

func (s *rowState) judge() outcome {
	if s.Unmet != "" {
		return unmet
	}
	for _, o := range []outcome{failed, passed, skip, notRun} {
		if slices.ContainsFunc(s.Tests, func(t testState) bool { return t.State == o }) {
			return o
		}
	}
	return noTest
}

// open returns the P0 and P1 rows that did not pass.
func (m *matrix) open() []rowState {
	return m.where(func(s rowState) bool { return s.required() && s.State != passed })
}

// where returns the rows for which ok holds.
func (m *matrix) where(ok func(rowState) bool) []rowState {
	var out []rowState
	for _, s := range m.rows {
		if ok(s) {
			out = append(out, s)
		}
	}
	return out
}
