package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeLedger has two rows for clause 1, one for the other clauses, and one of each
// priority that no clause names.
const fakeLedger = `{
  "format": "npamp-requirements/1",
  "rows": [
    {"id": "DISC-1-01", "level": "MUST", "side": "S", "priority": "P0", "clauses": [1]},
    {"id": "DISC-1-02", "level": "MUST NOT", "side": "R", "priority": "P0", "clauses": [1, 2, 3, 4, 5, 6, 7, 8]},
    {"id": "DISC-2-01", "level": "FACT", "side": "B", "priority": "P0"},
    {"id": "CORE-1-01", "level": "MUST", "side": "B", "priority": "P1"},
    {"id": "HELLO-1-01", "level": "SHOULD", "side": "B", "priority": "P2", "unmet": "no code point"},
    {"id": "DASP-1-01", "level": "MUST", "priority": "P2"}
  ],
  "labels": ["C1"]
}
`

const fakeTests = `package p

import "testing"

// Covers: DISC-1-01, C1
func TestA(t *testing.T) {}

// Covers: DISC-1-02, DISC-2-01, CORE-1-01, HELLO-1-01
func TestB(t *testing.T) {}

// Covers: DISC-1-02
func TestC(t *testing.T) { t.Skip("no corpus") }
`

// enter writes a module of these files, and those above where they are not
// named, and makes it the working directory.
func enter(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range [][2]string{
		{"go.mod", "module m\n\ngo 1.26\n"},
		{"testvectors/requirements.json", fakeLedger},
		{"p/x_test.go", fakeTests},
	} {
		if _, ok := files[f[0]]; !ok {
			write(t, filepath.Join(dir, f[0]), f[1])
		}
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	t.Chdir(dir)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try runs the command with results on its standard input.
func try(t *testing.T, results string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(results), &out, &errs)
	return status, out.String(), errs.String()
}

const fakeReport = `NPAMP-DISC §11, and the P0 rows it takes

Clause 1: frame types (2 rows, 2 pass)
  DISC-1-01    MUST       S  pass     p: TestA
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 2: payloads and their refusal (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 3: correlation (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 4: records and their replacement (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 5: faithful results (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 6: subscriptions (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 7: a claim, no authorisation (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

Clause 8: nothing beyond what is carried, nothing kept (1 row, 1 pass)
  DISC-1-02    MUST NOT   R  pass     p: TestB TestC (skip: no corpus)

P0 rows that no clause names (1 row, 1 pass)
  DISC-2-01    FACT       B  pass     p: TestB

P1 rows, by document

core specification (1 row, 1 pass)
  CORE-1-01    MUST       B  pass     p: TestB

Rows that cannot be met, and never count as passed
  HELLO-1-01      SHOULD   P2  no code point

Rows
  P0  3 rows, 3 pass
  P1  1 row, 1 pass
  P2  2 rows, 1 no test, 1 unmet
`

const fakeMatrix = `{
  "format": "npamp-conformance/1",
  "clauses": [
    {"clause":1,"about":"frame types","state":"pass","rows":["DISC-1-01","DISC-1-02"]},
    {"clause":2,"about":"payloads and their refusal","state":"pass","rows":["DISC-1-02"]},
    {"clause":3,"about":"correlation","state":"pass","rows":["DISC-1-02"]},
    {"clause":4,"about":"records and their replacement","state":"pass","rows":["DISC-1-02"]},
    {"clause":5,"about":"faithful results","state":"pass","rows":["DISC-1-02"]},
    {"clause":6,"about":"subscriptions","state":"pass","rows":["DISC-1-02"]},
    {"clause":7,"about":"a claim, no authorisation","state":"pass","rows":["DISC-1-02"]},
    {"clause":8,"about":"nothing beyond what is carried, nothing kept","state":"pass","rows":["DISC-1-02"]}
  ],
  "rows": [
    {"id":"DISC-1-01","level":"MUST","side":"S","priority":"P0","clauses":[1],"state":"pass","tests":[{"package":"p","name":"TestA","state":"pass"}]},
    {"id":"DISC-1-02","level":"MUST NOT","side":"R","priority":"P0","clauses":[1,2,3,4,5,6,7,8],"state":"pass","tests":[{"package":"p","name":"TestB","state":"pass"},{"package":"p","name":"TestC","state":"skip","remark":"no corpus"}]},
    {"id":"DISC-2-01","level":"FACT","side":"B","priority":"P0","state":"pass","tests":[{"package":"p","name":"TestB","state":"pass"}]},
    {"id":"CORE-1-01","level":"MUST","side":"B","priority":"P1","state":"pass","tests":[{"package":"p","name":"TestB","state":"pass"}]},
    {"id":"HELLO-1-01","level":"SHOULD","side":"B","priority":"P2","unmet":"no code point","state":"unmet","tests":[{"package":"p","name":"TestB","state":"pass"}]},
    {"id":"DASP-1-01","level":"MUST","priority":"P2","state":"no test","tests":[]}
  ]
}
`

func TestReport(t *testing.T) {
	enter(t, nil)
	in := stream("TestA pass", "TestB pass", "TestC: no corpus", "TestC skip", "pass")
	status, stdout, stderr := try(t, in, "-results", "-")
	if status != exitPassed || stderr != "" {
		t.Errorf("got %d, %q", status, stderr)
	}
	if stdout != fakeReport {
		t.Errorf("got\n%s\nwant\n%s", stdout, fakeReport)
	}
	got, err := os.ReadFile("testvectors/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != fakeMatrix {
		t.Errorf("got\n%s\nwant\n%s", got, fakeMatrix)
	}
	if !json.Valid(got) {
		t.Error("not JSON")
	}

	// From a folder below, from a file, to another file: the same.
	write(t, "results.json", in)
	t.Chdir("p")
	if status, again, _ := try(t, "", "-results", "../results.json", "-o", "../out.json"); status != exitPassed || again != stdout {
		t.Errorf("got %d,\n%s", status, again)
	}
	if again, err := os.ReadFile("../out.json"); err != nil || !bytes.Equal(again, got) {
		t.Errorf("got %s, %v", again, err)
	}
}

// A P0 or P1 row without a passing test fails the run, and its clauses.
//
// Covers: DISC-11-01
func TestOpenRows(t *testing.T) {
	for _, c := range []struct {
		name    string
		results string
		ledger  func(string) string
		want    string // the line about the row; "" for none
		clauses string // the states of clauses 1 and 2
	}{
		{"fails", stream("TestA fail", "TestB pass", "TestC skip", "fail"), nil,
			"DISC-1-01    P0  fail     p: TestA (fail)", "fail pass"},
		{"one of two fails", stream("TestA pass", "TestB pass", "TestC fail", "fail"), nil,
			"DISC-1-02    P0  fail     p: TestB TestC (fail)", "fail fail"},
		{"skipped", stream("TestA: why", "TestA skip", "TestB pass", "TestC pass", "pass"), nil,
			"DISC-1-01    P0  skip     p: TestA (skip: why)", "fail pass"},
		{"not run", stream("TestB pass", "TestC pass", "pass"), nil,
			"DISC-1-01    P0  not run  p: TestA (not run)", "fail pass"},
		{"P0 without a test", stream("TestA pass", "TestB pass", "TestC pass", "pass"), addRow("DISC-2-02", "P0"),
			"DISC-2-02    P0  no test", "pass pass"},
		{"P1 without a test", stream("TestA pass", "TestB pass", "TestC pass", "pass"), addRow("HB-1-01", "P1"),
			"HB-1-01      P1  no test", "pass pass"},
		{"P0 that cannot be met", stream("TestA pass", "TestB pass", "TestC pass", "pass"), func(s string) string {
			return strings.Replace(s, `"P0", "clauses": [1]`, `"P0", "clauses": [1], "unmet": "why"`, 1)
		}, "DISC-1-01    P0  unmet    p: TestA", "fail pass"},
		{"P2 without a test", stream("TestA pass", "TestB pass", "TestC pass", "pass"), addRow("DGP-1-01", "P2"),
			"", "pass pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fakeLedger
			if c.ledger != nil {
				if l = c.ledger(l); l == fakeLedger {
					t.Fatal("changes nothing")
				}
			}
			enter(t, map[string]string{"testvectors/requirements.json": l})
			status, stdout, stderr := try(t, c.results, "-results", "-")
			if c.want == "" {
				if status != exitPassed || stderr != "" {
					t.Errorf("got %d, %q", status, stderr)
				}
			} else if want := "disco-conformance: P0 and P1 rows that have not passed: 1\n  " + c.want + "\n"; status != exitOpen || stderr != want {
				t.Errorf("got %d, %q, want %d, %q", status, stderr, exitOpen, want)
			}
			if !strings.HasPrefix(stdout, "NPAMP-DISC §11") {
				t.Errorf("no report: %q", stdout)
			}
			var m struct{ Clauses []clauseState }
			b, err := os.ReadFile("testvectors/conformance.json")
			if err == nil {
				err = json.Unmarshal(b, &m)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(m.Clauses[0].State + " " + m.Clauses[1].State); got != c.clauses {
				t.Errorf("clauses: got %s, want %s", got, c.clauses)
			}
		})
	}
}

func addRow(id, priority string) func(string) string {
	return func(s string) string {
		return strings.Replace(s, `"rows": [`, `"rows": [{"id": "`+id+`", "level": "MUST", "priority": "`+priority+`"},`, 1)
	}
}

func TestCannotTell(t *testing.T) {
	whole := stream("TestA pass", "TestB pass", "TestC pass", "pass")
	for _, c := range []struct {
		name    string
		files   map[string]string
		results string
		args    []string
		want    string
	}{
		{"unknown row", map[string]string{"q/y_test.go": "package q\n\n// Covers: DISC-7-77\nfunc TestQ(t *testing.T) {}\n"}, whole, []string{"-results", "-"},
			`q/y_test.go:4: TestQ: no row or label "DISC-7-77"`},
		{"lost comment", map[string]string{"q/y_test.go": "package q\n\n// Covers: DISC-1-01\n\nfunc TestQ(t *testing.T) {}\n"}, whole, []string{"-results", "-"},
			"q/y_test.go:3: not directly above"},
		{"bad ledger", map[string]string{"testvectors/requirements.json": "{}"}, whole, []string{"-results", "-"}, "requirements.json: format"},
		{"cut results", nil, stream("TestA pass"), []string{"-results", "-"}, "cut short"},
		{"no results", nil, "", []string{"-results", "none.json"}, "none.json"},
		{"nowhere to write", nil, whole, []string{"-results", "-", "-o", "none/x.json"}, "none/x.json"},
		{"argument", nil, whole, []string{"x"}, `unexpected argument "x"`},
		{"flag", nil, whole, []string{"-x"}, "-x"},
		{"no module line", map[string]string{"go.mod": "go 1.26\n"}, whole, []string{"-results", "-"}, "names no module"},
	} {
		t.Run(c.name, func(t *testing.T) {
			enter(t, c.files)
			status, stdout, stderr := try(t, c.results, c.args...)
			if status != exitError || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("got %d, %q, %q, want %d and %q", status, stdout, stderr, exitError, c.want)
			}
		})
	}
}

// Without -results the tests are run: one passes, one fails, one is skipped, and
// one package does not build.
func TestRunsTheTests(t *testing.T) {
	enter(t, map[string]string{
		"p/x_test.go": strings.Replace(fakeTests, "func TestA(t *testing.T) {}", `func TestA(t *testing.T) { t.Error("no") }`, 1),
		"q/y_test.go": "package q\n\nimport \"testing\"\n\n// Covers: DISC-2-01\nfunc TestQ(t *testing.T) { nothing() }\n",
	})
	status, _, stderr := try(t, "")
	const want = `disco-conformance: P0 and P1 rows that have not passed: 2
  DISC-1-01    P0  fail     p: TestA (fail)
  DISC-2-01    P0  fail     p: TestB; q: TestQ (fail: the package does not build)
`
	if status != exitOpen || stderr != want {
		t.Errorf("got %d,\n%s\nwant %d,\n%s", status, stderr, exitOpen, want)
	}
	b, err := os.ReadFile("testvectors/conformance.json")
	if err != nil || !bytes.Contains(b, []byte(`{"package":"p","name":"TestC","state":"skip","remark":"no corpus"}`)) {
		t.Errorf("got %s, %v", b, err)
	}

	// A go command that has no result to show.
	t.Setenv("GOTOOLCHAIN", "local")
	write(t, "go.mod", "module m\n\ngo 9.99\n")
	if status, _, stderr := try(t, ""); status != exitError || !strings.Contains(stderr, "disco-conformance: go test: exit status") {
		t.Errorf("got %d, %q", status, stderr)
	}
}
