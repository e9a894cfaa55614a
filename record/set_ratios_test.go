package record

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// TestRatios measures this package's figures as disco's TestRatios does: each
// pair in one process, in turn within a round, the median of the rounds'
// ratios.
//
//	NPAMP_RATIOS=1 go test -v -run TestRatios ./record
func TestRatios(t *testing.T) {
	if os.Getenv("NPAMP_RATIOS") == "" {
		t.Skip("a measurement: set NPAMP_RATIOS")
	}
	const n = 100_000
	s := testSet(t, n).Snapshot()
	report := func(name string, value, bound float64, ok bool) {
		line, err := json.Marshal(map[string]any{"name": name, "value": float64(int(value*100)) / 100, "bound": bound, "ok": ok})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(line))
		if !ok {
			t.Errorf("%s: %.2f, bound %v", name, value, bound)
		}
	}

	// One page again and again, and so from the processor's cache, which shows
	// what the chunks cost. From memory both take some four times as long.
	b := make([]byte, 0, 256<<10)
	from := Position{chunk: int32(len(s.chunks) / 2), index: 10}
	page := func() { b, _, _, _ = s.AppendPage(b[:0], nil, from, 500, 256<<10) }
	page()
	octets := slices.Clone(b)
	oneCopy := func() { b = append(b[:0], octets...) }
	ratio := medianRatio(page, oneCopy, 31)
	report(fmt.Sprintf("unfiltered page of 500 of %d / one copy of as much", n), ratio, 1.5, ratio <= 1.5)

	for _, f := range benchFilters {
		m := f.f.Matcher()
		visited, found := 0, 0
		index := func() {
			for range s.Match(&m) {
				visited++
			}
		}
		scan := func() {
			for r := range s.All() {
				if m.MatchRecord(r) {
					found++
				}
			}
		}
		ratio := medianRatio(scan, index, 31)
		report(fmt.Sprintf("linear scan of %d / indexed filter: %s", n, f.name), ratio, 50, ratio >= 50)
	}
}

func medianRatio(a, b func(), rounds int) float64 {
	const slice = 5 * time.Millisecond
	spent := func(f func(), n int) time.Duration {
		start := time.Now()
		for range n {
			f()
		}
		return time.Since(start)
	}
	times := func(f func()) int {
		f()
		for n := 1; ; n *= 2 {
			if spent(f, n) > slice/2 {
				return n
			}
		}
	}
	na, nb := times(a), times(b)
	ratios := make([]float64, rounds)
	for i := range ratios {
		ratios[i] = float64(spent(a, na)) / float64(na) / (float64(spent(b, nb)) / float64(nb))
	}
	slices.Sort(ratios)
	return ratios[rounds/2]
}
