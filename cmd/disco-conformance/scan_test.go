package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func tree(files map[string]string) fstest.MapFS {
	fsys := make(fstest.MapFS)
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestScan(t *testing.T) {
	const other = "package p\n\n// Covers: DISC-9-99\nfunc TestElsewhere(t *testing.T) {}\n"
	got, err := scan(tree(map[string]string{
		"go.mod": "module m\n",
		"root_test.go": `package m

// Covers: DISC-1-01
func TestRoot(t *testing.T) {}
`,
		"a/b/x_test.go": `package b_test

// TestTwo says why.
//
// Covers: DISC-1-01, C12
// Covers: F05
func TestTwo(t *testing.T) {}

// FuzzIt has none.
func FuzzIt(f *testing.F) {}

// Covers: DISC-1-02
func FuzzThat(f *testing.F) {}

// Covers: DISC-1-03
func Example_suffix() {}

// It covers: nothing.
func TestProse(t *testing.T) {}
`,
		"a/b/x.go":             other, // no test file
		"a/testdata/x_test.go": other,
		"_a/x_test.go":         other,
		".a/x_test.go":         other,
		"vendor/v/x_test.go":   other,
		"nested/go.mod":        "module n\n",
		"nested/in/x_test.go":  other,
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []test{
		{"a/b", "TestTwo", "a/b/x_test.go:7", []string{"DISC-1-01", "C12", "F05"}},
		{"a/b", "FuzzThat", "a/b/x_test.go:13", []string{"DISC-1-02"}},
		{"a/b", "Example_suffix", "a/b/x_test.go:16", []string{"DISC-1-03"}},
		{".", "TestRoot", "root_test.go:4", []string{"DISC-1-01"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestScanRefuses(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"blank line", "// Covers: C1\n\nfunc TestA(t *testing.T) {}", "p/x_test.go:3: not directly above"},
		{"inside", "func TestA(t *testing.T) {\n\t// Covers: C1\n}", "p/x_test.go:4: not directly above"},
		{"helper", "// Covers: C1\nfunc helper() {}", "not directly above"},
		{"method", "type T int\n\n// Covers: C1\nfunc (T) TestA(t *testing.T) {}", "not directly above"},
		{"TestMain", "// Covers: C1\nfunc TestMain(m *testing.M) {}", "not directly above"},
		{"lower case", "// Covers: C1\nfunc Testa(t *testing.T) {}", "not directly above"},
		{"benchmark", "// Covers: C1\nfunc BenchmarkA(b *testing.B) {}", "not directly above"},
		{"type", "// Covers: C1\ntype TestA int", "not directly above"},
		{"no space", "//Covers: C1\nfunc TestA(t *testing.T) {}", "want \"// Covers: \""},
		{"no space after", "// Covers:C1\nfunc TestA(t *testing.T) {}", "want \"// Covers: \""},
		{"case", "// covers: C1\nfunc TestA(t *testing.T) {}", "want \"// Covers: \""},
		{"singular", "// Cover: C1\nfunc TestA(t *testing.T) {}", "want \"// Covers: \""},
		{"nothing", "// Covers:\nfunc TestA(t *testing.T) {}", "want \"// Covers: \""},
		{"syntax", "func TestA(", "expected"},
	} {
		_, err := scan(tree(map[string]string{"p/x_test.go": "package p\n\n" + c.src + "\n"}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestNamesAreKnown(t *testing.T) {
	l := &ledger{Rows: []row{{ID: "DISC-1-01"}}, Labels: []string{"C12"}}
	if err := checkNames(l, []test{{"p", "TestA", "p/x_test.go:4", []string{"DISC-1-01", "C12"}}}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"DISC-1-02", "C1", "disc-1-01", "DISC-1", "DISC-1-01.", ""} {
		err := checkNames(l, []test{{"p", "TestA", "p/x_test.go:4", []string{"C12", name}}})
		if err == nil || !strings.Contains(err.Error(), "p/x_test.go:4: TestA") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// The comments of this module's own tests are in order.
func TestOwnComments(t *testing.T) {
	tests, err := scan(os.DirFS("../.."))
	if err != nil {
		t.Error(err)
	}
	if err := checkNames(realLedger(t), tests); err != nil {
		t.Error(err)
	}
}
