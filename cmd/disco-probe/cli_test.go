package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/testvectors"
)

// What is wrong with the command line ends with 2, says so on standard error
// and leaves standard output to JSON.
func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"--nonsense"},
		{"decode", "--nonsense"},
		{"decode", "-o", "xml", "a2"},
		{"version", "extra"},
		{"vectors", "extra"},
		{"keygen", "a", "b"},
	} {
		r := probe(args...)
		if r.code != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, "disco-probe: ") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, r.code, r.stdout, r.stderr)
		}
	}
	r := probe("-o", "json", "decode", "zz")
	if r.code != exitUsage || r.stdout != `{"v":1,"error":{"exit":2,"message":"input is not hex: invalid byte: U+007A 'z'"}}`+"\n" {
		t.Errorf("exit %d, %q", r.code, r.stdout)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"decode", "--help"}, {"help", "keygen"}} {
		if r := probe(args...); r.code != 0 || !strings.Contains(r.stdout, "Usage:") || r.stderr != "" {
			t.Errorf("%q: exit %d, stderr %q", args, r.code, r.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	if r := probe("version").ok(t); !strings.HasPrefix(r.stdout, "disco-probe ") || !strings.Contains(r.stdout, runtime.Version()) {
		t.Error(r.stdout)
	}
	var v struct {
		V           int
		Version, Go string
		Generations []int
	}
	probe("version", "-o", "json").ok(t).decode(t, &v)
	if v.V != 1 || v.Version == "" || v.Go == "" || len(v.Generations) != 2 {
		t.Errorf("%+v", v)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := probe("completion", shell).ok(t); !strings.Contains(r.stdout, "disco-probe") {
			t.Errorf("%s: %q", shell, r.stdout)
		}
	}
}

// vectors prints every payload, in every format, and as JSON every part of the
// vectors.
func TestVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	probe("vectors", "-o", "json").ok(t).decode(t, &doc)
	parts := reflect.ValueOf(*set)
	for i := range parts.NumField() {
		name := parts.Type().Field(i).Name
		if name == "Files" {
			continue // not vectors
		}
		b, err := json.Marshal(parts.Field(i).Interface())
		var got, want any
		if err := errors.Join(err, json.Unmarshal(b, &want), json.Unmarshal(doc[strings.ToLower(name)], &got)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %.300s\nwant %.300s", name, err, doc[strings.ToLower(name)], b)
		}
		delete(doc, strings.ToLower(name))
	}
	if string(doc["v"]) != "1" || len(doc) != 1 {
		t.Errorf("besides the parts: %v", slices.Collect(maps.Keys(doc)))
	}
	for _, format := range []string{"table", "json", "ndjson", "diag", "hex"} {
		r := probe("vectors", "-o", format).ok(t)
		safe(t, "vectors "+format, r.stdout)
		want := map[string]int{"table": len(set.Payloads) + 1, "json": 1}[format]
		if want == 0 {
			want = len(set.Payloads)
		}
		if n := len(r.lines()); n != want {
			t.Errorf("%s: %d lines, want %d", format, n, want)
		}
	}
	if r := probe("vectors", "-o", "hex").ok(t); r.lines()[0] != set.Payloads[0].Octets.String() {
		t.Errorf("first line %q", r.lines()[0])
	}
}

func TestKeygenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "id.pem")
	r := probe("keygen", "-o", "json", path).ok(t)
	var v struct {
		V                int
		Identity, Handle string
	}
	r.decode(t, &v)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	key, err := readIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	pub := key.Public().(ed25519.PublicKey)
	if v.V != 1 || v.Identity != fmt.Sprintf("%x", []byte(pub)) || v.Handle != keys.PeerHandle(pub) {
		t.Errorf("%+v is not the key of the file", v)
	}
	before, _ := os.ReadFile(path)
	r = probe("keygen", path)
	after, _ := os.ReadFile(path)
	if r.code != exitLocal || !bytes.Equal(before, after) || !strings.Contains(r.stderr, "exists") {
		t.Errorf("exit %d, stderr %q, changed %v", r.code, r.stderr, !bytes.Equal(before, after))
	}
	if r := probe("keygen", filepath.Join(t.TempDir(), "no", "id.pem")); r.code != exitLocal {
		t.Errorf("exit %d", r.code)
	}
}

func TestKeygenStdout(t *testing.T) {
	r := probe("keygen").ok(t)
	block, rest := pem.Decode([]byte(r.stdout))
	if block == nil || len(rest) != 0 {
		t.Fatalf("stdout %q", r.stdout)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pub := key.(ed25519.PrivateKey).Public().(ed25519.PublicKey)
	if !strings.Contains(r.stderr, fmt.Sprintf("identity %x\n", []byte(pub))) || !strings.Contains(r.stderr, "handle "+keys.PeerHandle(pub)+"\n") {
		t.Errorf("stderr %q", r.stderr)
	}
	if again := probe("keygen").ok(t); again.stdout == r.stdout {
		t.Error("two identities are one")
	}
}

func TestReadIdentityRefuses(t *testing.T) {
	ec := write(t, "x.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for _, path := range []string{"no such file", write(t, "y.pem", "text"), ec} {
		if _, err := readIdentity(path); exitOf(t.Context(), err) != exitUsage {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// closedPipe is standard output after its reader has gone.
type closedPipe struct{ after int }

func (p *closedPipe) Write(b []byte) (int, error) {
	if p.after--; p.after < 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	}
	return len(b), nil
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A closed standard output ends quietly with 0; another fault of it does not.
func TestStdoutClosed(t *testing.T) {
	v3 := "a2001a00000100014101"
	for _, tt := range []struct {
		out  io.Writer
		args []string
		want int
	}{
		{&closedPipe{}, []string{"vectors"}, 0},
		{&closedPipe{1}, []string{"vectors", "-o", "ndjson"}, 0},
		{&closedPipe{}, []string{"keygen"}, 0},
		{&closedPipe{}, []string{"decode", v3}, 0},
		{&closedPipe{}, []string{"--help"}, 0},
		{fullDisk{}, []string{"vectors"}, exitLocal},
		{fullDisk{}, []string{"-o", "json", "decode", "zz"}, exitUsage},
	} {
		var errs bytes.Buffer
		code := run(context.Background(), tt.args, strings.NewReader(""), tt.out, &errs)
		if code != tt.want || code == 0 && errs.Len() > 0 && tt.args[0] != "keygen" {
			t.Errorf("%q: exit %d, want %d, stderr %q", tt.args, code, tt.want, errs.String())
		}
	}
}

func TestExitOf(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, 0},
		{t.Context(), errors.New("x"), exitLocal},
		{t.Context(), fmt.Errorf("wrapped: %w", usagef("x")), exitUsage},
		{t.Context(), verdict(exitProtocol), exitProtocol},
		{t.Context(), fmt.Errorf("x: %w", errStdoutClosed), 0},
		{cancelled, fmt.Errorf("x: %w", context.Canceled), exitInterrupted},
		{t.Context(), context.Canceled, exitLocal},
	} {
		if got := exitOf(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
