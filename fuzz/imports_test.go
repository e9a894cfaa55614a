package fuzz

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/npamp/disco"

// What each package may import of the others, and no more: one stair, with frame
// on the ground. Commands may import any.
var arrows = map[string]string{
	"frame":                 "",
	"frame/dcbor":           "",
	"frame/internal/corpus": "",
	"frame/keys":            "frame",
	"frame/bridge":          "frame",
	"frame/association":     "frame frame/keys frame/dcbor",
	"frame/quic":            "frame frame/keys frame/association",
	"record":                "frame/dcbor",
	"disco":                 "frame/dcbor record",
	"subscribe":             "frame/dcbor record disco",
	"channel":               "frame frame/dcbor record disco subscribe",
	"channel/channeltest":   "frame frame/dcbor record disco subscribe channel frame/association",
	"testvectors":           "",
	"fuzz":                  "",
}

// What a library package may import of others' modules.
var others = map[string][]string{
	"":           {"github.com/fxamacker/cbor/v2", "golang.org/x/crypto/chacha20poly1305", "golang.org/x/sync/"},
	"frame/quic": {"github.com/quic-go/quic-go"},
}

// seeded is where the files begin that make a load which a seed brings back: it
// has to be guessed.
const seeded = "cmd/disco-probe/soak"

// No package imports what it must not: another one up the stair, a module that is
// not agreed on, or, where it might make a corr, a cursor or a key, random
// numbers that can be guessed. Tests may.
//
// Covers: CORE-7.6-01
func TestImports(t *testing.T) {
	root := ".."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if name != root && (err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir // a module of its own, or no package
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		seen[pkg] = true
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasPrefix(filepath.ToSlash(rel), seeded) && strings.HasPrefix(imported, "math/rand") {
				continue
			}
			if wrong := forbidden(pkg, imported); wrong != "" {
				t.Errorf("%s imports %s: %s", filepath.ToSlash(rel), imported, wrong)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range arrows {
		if !seen[pkg] {
			t.Errorf("no package %s", pkg)
		}
	}
}

// forbidden says why a package may not import another; "" is that it may.
func forbidden(pkg, imported string) string {
	command := strings.HasPrefix(pkg, "cmd/")
	allowed, known := arrows[pkg]
	own, isOwn := strings.CutPrefix(imported, module+"/")
	switch {
	case !known && !command:
		return "the package is none of arrows"
	case strings.HasPrefix(imported, "math/rand"):
		return "numbers that can be guessed"
	case imported == "unsafe":
		return "nothing here needs it"
	case isOwn:
		if !command && !slices.Contains(strings.Fields(allowed), own) {
			return "it lies up the stair"
		}
	case strings.Contains(imported, ".") && !command:
		agreed := slices.Concat(others[""], others[pkg])
		if !slices.ContainsFunc(agreed, func(p string) bool {
			return imported == p || strings.HasSuffix(p, "/") && strings.HasPrefix(imported, p)
		}) {
			return "not agreed on"
		}
	}
	return ""
}

// Each reason, so that the gate is not open.
func TestForbidden(t *testing.T) {
	for _, tt := range []struct {
		pkg, imported string
		fine          bool
	}{
		{"record", module + "/frame/dcbor", true},
		{"record", module + "/disco", false},
		{"frame", module + "/frame/dcbor", false},
		{"channel", module + "/frame/association", false},
		{"cmd/disco-probe", module + "/channel", true},
		{"channel", "math/rand/v2", false},
		{"frame/keys", "math/rand", false},
		{"cmd/disco-probe", "math/rand/v2", false},
		{"frame/keys", "crypto/rand", true},
		{"cmd/disco-probe", "unsafe", false},
		{"record", "github.com/fxamacker/cbor/v2", true},
		{"frame/quic", "github.com/quic-go/quic-go", true},
		{"frame", "github.com/quic-go/quic-go", false},
		{"channel", "golang.org/x/sync/errgroup", true},
		{"channel", "github.com/spf13/cobra", false},
		{"cmd/disco-probe", "github.com/spf13/cobra", true},
		{"elsewhere", "fmt", false},
	} {
		if got := forbidden(tt.pkg, tt.imported); (got == "") != tt.fine {
			t.Errorf("%s imports %s: %q", tt.pkg, tt.imported, got)
		}
	}
}
