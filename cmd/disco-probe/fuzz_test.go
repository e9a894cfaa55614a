package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/npamp/disco/testvectors"
)

// Whatever the octets, decode ends with 0 or 7, says one thing in every format,
// and drives no terminal.
func FuzzDecode(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range set.Payloads {
		if len(v.Octets) < 400 {
			f.Add([]byte(v.Octets), v.FrameType-0x100, v.Generations[0] == 3)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint16, gen3 bool) {
		args := []string{"decode", "--binary", "--type", strconv.Itoa(0x100 + int(typ%7)), "-"}
		if gen3 {
			args = append(args, "--generation", "3")
		}
		codes := map[int]bool{}
		for _, format := range []string{"table", "json", "diag", "hex"} {
			r := probeIn(string(b), append(args, "-o", format)...)
			codes[r.code] = true
			safe(t, format+" stdout", r.stdout)
			safe(t, format+" stderr", r.stderr)
			if format == "json" && (r.code == 0) != strings.HasPrefix(r.stdout, `{"v":1,"ok":true,`) {
				t.Errorf("exit %d, %s", r.code, r.stdout)
			}
		}
		if len(codes) != 1 || !codes[0] && !codes[exitProtocol] {
			t.Errorf("exit statuses %v", codes)
		}
	})
}
