package testvectors

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// README.md says of every file how many vectors it has and how they were made.
func TestProvenance(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	total := 0
	for _, f := range load(t).Files {
		fmt.Fprintf(&table, "| `%s` | %d | %s |\n", f.File, f.Vectors, f.Method)
		total += f.Vectors
	}
	fmt.Fprintf(&table, "| all | %d | |\n", total)
	const head = "| File | Vectors | Method |\n|---|---|---|\n"
	_, rest, ok := strings.Cut(string(b), head)
	if got, _, _ := strings.Cut(rest, "\n\n"); !ok || got+"\n" != table.String() {
		t.Errorf("README.md has another table than\n%s%s", head, &table)
	}
}
