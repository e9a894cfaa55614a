package record_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/npamp/disco/record"
)

// Covers: REG-4-01
func TestRangeOf(t *testing.T) {
	for id, want := range map[uint64]record.ProtocolRange{
		0: record.RangeNull, 1: record.RangeStandard, 0x0f: record.RangeStandard, 0x10: record.RangeExperimental,
		0x7f: record.RangeExperimental, 0x80: record.RangePrivate, 0xff: record.RangePrivate, 0x100: record.RangeBeyond, 1 << 63: record.RangeBeyond,
	} {
		if got := record.RangeOf(id); got != want {
			t.Errorf("%#x: got %v, want %v", id, got, want)
		}
	}
}

// Covers: REG-5-01, REG-7.1-02, REG-7.2-02, REG-8-01, DISC-5.1-02
func TestClasses(t *testing.T) {
	c := record.RegisteredClasses()
	for id := range uint64(0x200) {
		class, ok := c.Of(id)
		switch {
		case id >= 1 && id <= 0x0a:
			if !ok || !c.Allows(id, class) {
				t.Errorf("%#x: to be published as %v, %v", id, class, ok)
			}
		case id >= 0x80 && id <= 0xff:
			if !ok || class != record.ClassOpaque || c.Allows(id, class) {
				t.Errorf("%#x: to be published as %v, %v", id, class, ok)
			}
		case ok || c.Allows(id, record.ClassJSONRPC):
			t.Errorf("%#x: a class, though none is registered", id)
		}
	}
	if c.Allows(4, record.ClassHTTP) || !c.Allows(4, record.ClassStream) || !c.Allows(8, record.ClassDOC) {
		t.Error("classes of 4 and 8")
	}
	c[4] = nil
	if class, _ := record.RegisteredClasses().Of(4); class != record.ClassStream {
		t.Error("the table is shared between callers")
	}
}

// dataFile returns a file of the shared data, or skips the test.
func dataFile(t *testing.T, name string) *os.File {
	t.Helper()
	root := os.Getenv("NPAMP_DATA")
	if root == "" {
		dir, err := os.Getwd()
		for err == nil {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
				break
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		t.Skip("skipped: no corpus: ", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Covers: REG-6-01
func TestClassesAgainstRegistry(t *testing.T) {
	numbers := map[string]record.CarriageClass{}
	for c := record.ClassJSONRPC; c <= record.ClassOpaque; c++ {
		numbers[c.String()] = c
	}
	word := regexp.MustCompile(`\b(JSONRPC|HTTP|MSG|STREAM|DOC|OPAQUE)\b`)
	for _, name := range []string{"registries/bridge_protocol_ids.csv", "generation3/registries/bridge_protocol_ids.csv"} {
		rows, err := csv.NewReader(dataFile(t, name)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, row := range rows[1:] {
			id, err := strconv.ParseUint(row[0], 0, 64)
			if err != nil || row[2] == "--" {
				continue // a range, or reserved
			}
			seen++
			var want []record.CarriageClass
			for _, w := range word.FindAllString(row[2], -1) {
				want = append(want, numbers[w])
			}
			if got := record.RegisteredClasses()[id]; !slices.Equal(got, want) {
				t.Errorf("%s: %#x: got %v, want %v", name, id, got, want)
			}
		}
		if seen < 4 {
			t.Errorf("%s: only %d assignments", name, seen)
		}
	}
}
