package channel

import (
	"testing"

	"github.com/npamp/disco/disco"
)

// Of a million cursors no two are the same, and neither are the corrs of two
// peers: both come from the system's random numbers.
//
// Covers: CORE-7.6-01, DASP-003-03, C2, DASP-003-01
func TestRandomness(t *testing.T) {
	const n = 1_000_000
	seen := make(map[[cursorLen]byte]struct{}, n)
	for range n {
		c := newCursor()
		if len(c) != cursorLen {
			t.Fatalf("a cursor of %d octets", len(c))
		}
		seen[[cursorLen]byte([]byte(c))] = struct{}{}
	}
	if len(seen) != n {
		t.Errorf("%d of %d cursors are different", len(seen), n)
	}
	bubble(t, func(t *testing.T) {
		corrs := map[disco.Corr]bool{}
		for range 100 {
			p, _ := scripted(t, Config{})
			p.mu.Lock()
			for range 3 {
				k := p.own.begin(new(listing))
				c := p.own.corr(k)
				p.own.end(k)
				if corrs[c] || len(c) != 16 {
					t.Errorf("corr %v again", c)
				}
				corrs[c] = true
			}
			p.mu.Unlock()
		}
		first := map[string]bool{}
		for c := range corrs {
			first[string(c[:8])] = true
		}
		if len(first) != 100 {
			t.Errorf("100 peers begin with %d different octets", len(first))
		}
	})
}
