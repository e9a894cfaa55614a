package corpus

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// Covers: CONF-4-02
func TestReadVerifies(t *testing.T) {
	good := []byte("a vector")
	fsys := fstest.MapFS{
		"SHA256SUMS":                 {Data: fmt.Appendf(nil, "%x  ./vectors/v.json\n%x  ./vectors/w.json\n", sha256.Sum256(good), sha256.Sum256(good))},
		"generation3/SHA256SUMS":     {Data: fmt.Appendf(nil, "%x  ./vectors/v.json\n", sha256.Sum256([]byte("another")))},
		"vectors/v.json":             {Data: good},
		"vectors/w.json":             {Data: []byte("a Vector")},
		"vectors/extra.json":         {Data: good},
		"generation3/vectors/v.json": {Data: []byte("another")},
	}
	for _, tt := range []struct{ name, wantErr string }{
		{"vectors/v.json", ""},
		{"generation3/vectors/v.json", ""},
		{"vectors/w.json", "altered"},
		{"vectors/extra.json", "not listed"},
		{"vectors/none.json", "not exist"},
	} {
		_, err := read(fsys, tt.name)
		switch {
		case tt.wantErr == "" && err != nil:
			t.Errorf("%s: %v, want it read", tt.name, err)
		case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.wantErr)
		}
	}
}
