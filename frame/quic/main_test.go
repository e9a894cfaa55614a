package quic

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for wait := time.Millisecond; runtime.NumGoroutine() > before && wait < 2*time.Second; wait *= 2 {
		<-time.After(wait) // one that has done its work may still be on its way out
	}
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		os.Exit(code) // the fuzzing engine has goroutines of its own
	}
	if n := runtime.NumGoroutine(); n > before && code == 0 {
		var b bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&b, 1)
		fmt.Fprintf(os.Stderr, "%d goroutines are left, %d were there:\n%s", n, before, b.Bytes())
		code = 1
	}
	os.Exit(code)
}
