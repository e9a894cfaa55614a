package association

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that REFUSALS.md names are there.
func TestRefusalsTable(t *testing.T) {
	doc, err := os.ReadFile("REFUSALS.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)(?:/([^`]+))?`").FindAllStringSubmatch(string(doc), -1)
	for _, m := range named {
		if !strings.Contains(source.String(), "\nfunc "+m[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", m[1])
		}
		if sub := strings.ReplaceAll(m[2], "_", " "); sub != "" && !strings.Contains(strings.ReplaceAll(source.String(), "_", " "), `"`+sub+`"`) {
			t.Errorf("%s has no %q", m[1], sub)
		}
	}
	if len(named) < 80 {
		t.Errorf("%d tests are named", len(named))
	}
}
