package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// A result is what one run of the command did.
type result struct {
	code           int
	stdout, stderr string
}

// probe runs the command with nothing on standard input.
func probe(args ...string) result { return probeIn("", args...) }

func probeIn(stdin string, args ...string) result {
	var out, errs bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// ok fails the test unless the run ended with 0.
func (r result) ok(t *testing.T) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit %d, want 0; stderr:\n%s", r.code, r.stderr)
	}
	return r
}

// decode reads the run's standard output as one JSON document.
func (r result) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
		t.Fatalf("stdout is not one JSON document: %v\n%s", err, r.stdout)
	}
}

// lines returns the lines of standard output.
func (r result) lines() []string {
	if r.stdout == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
}

// safe fails the test if the text holds what can drive a terminal.
func safe(t *testing.T, what, s string) {
	t.Helper()
	for i, r := range s {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%s: %U at octet %d of\n%q", what, r, i, s)
			return
		}
	}
}

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// dataFile returns the path of a file of the shared data, or skips the test.
func dataFile(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("NPAMP_DATA")
	if dir == "" {
		root, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		for !exists(filepath.Join(root, "go.mod")) {
			if root == filepath.Dir(root) {
				t.Fatal("no go.mod above the package")
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if !exists(path) {
		t.Skip("skipped: no corpus: " + path)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// write puts a file into a folder of the test's own.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMain fails where a test left a goroutine of this module behind.
func TestMain(m *testing.M) {
	os.Unsetenv(outputEnv) // or the environment would decide what tests see
	code := m.Run()
	if stacks := leaked(); code == 0 && stacks != "" {
		os.Stderr.WriteString("goroutines left behind:\n\n" + stacks)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of our goroutines that have not ended in a while.
func leaked() string {
	var left []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		buf := make([]byte, 1<<20)
		left = nil
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "npamp/disco") && !strings.Contains(g, "TestMain") {
				left = append(left, g)
			}
		}
		if left == nil {
			return ""
		}
	}
	return strings.Join(left, "\n\n")
}
