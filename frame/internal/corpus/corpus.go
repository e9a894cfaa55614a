// Package corpus reads the public N-PAMP vectors and registries for tests. They
// are no part of this module: they are looked for where NPAMP_DATA says, else in
// ../shared/data beside the module.
//
// A file is used only if it has the hash that the SHA256SUMS beside it lists
// (NPAMP-CONFORM §4): a changed vector would make a test prove something else.
package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Read returns the file of that slash-separated name, such as
// "vectors/finished-kat.json" or "generation3/registries/channels.csv". It skips
// the test where there are no data, and fails it where the file is missing,
// unlisted or altered.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	dir, err := find()
	if err != nil {
		t.Skip("skipped: no corpus: " + err.Error())
	}
	b, err := read(os.DirFS(dir), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ReadJSON reads a file into v as Read does.
func ReadJSON(t testing.TB, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(Read(t, name), v); err != nil {
		t.Fatalf("corpus: %s: %v", name, err)
	}
}

// find returns the data directory.
func find() (string, error) {
	dir := os.Getenv("NPAMP_DATA")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(root), "shared", "data")
	}
	_, err := os.Stat(dir)
	return dir, err
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
}

// read reads and verifies one file.
func read(fsys fs.FS, name string) ([]byte, error) {
	base, listed := ".", name
	if rest, ok := strings.CutPrefix(name, "generation3/"); ok {
		base, listed = "generation3", rest
	}
	sums, err := fs.ReadFile(fsys, path.Join(base, "SHA256SUMS"))
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	got := sha256.Sum256(b)
	for line := range strings.Lines(string(sums)) {
		want, file, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || strings.TrimPrefix(file, "./") != listed {
			continue
		}
		if want != hex.EncodeToString(got[:]) {
			return nil, fmt.Errorf("corpus: %s has been altered: sha256 %x, listed %s", name, got, want)
		}
		return b, nil
	}
	return nil, fmt.Errorf("corpus: %s is not listed in SHA256SUMS", name)
}
