package disco

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// TestRatios measures this package's figures: each pair in one process, in turn
// within a round, the median of the rounds' ratios. It prints a JSON line for
// each and fails where one is out of its bound, so it runs only when asked for:
//
//	NPAMP_RATIOS=1 go test -v -run TestRatios ./disco
func TestRatios(t *testing.T) {
	if os.Getenv("NPAMP_RATIOS") == "" {
		t.Skip("a measurement: set NPAMP_RATIOS")
	}
	enc, dec := fxModes(t)
	payload := corpusPayload(t, 1000)
	texts, dst := textsOf(payload), make([]byte, len(payload))
	view := func() { ParseResultView(payload, nil) }
	owned := func() { ParseResult(payload, nil) }
	library := func() { fxParse(dec, payload) }
	least := func() { floor(dst, payload, texts) }

	hundred := corpusResult(t, 100)
	structs := fxToEncode(t, dec, corpusPayload(t, 100))
	buf := make([]byte, 0, 2*len(payload))
	stored := appendRecords(nil, hundred.Records, 0)
	oneByOne := func() { AppendResult(buf, hundred) }
	aRange := func() {
		AppendResultTail(append(AppendResultHead(buf, hundred.Corr, 100, true), stored...), true, "")
	}
	marshal := func() { enc.Marshal(structs) }

	figures := []struct {
		name     string
		of, over func()
		least    float64 // of / over
		most     float64
	}{
		{"fxamacker / parse RESULT of 1000 with views", library, view, 12, 0},
		{"fxamacker / parse RESULT of 1000 owned", library, owned, 6, 0},
		{"parse RESULT of 1000 with views / memcpy and utf8.Valid", view, least, 0, 2.5},
		{"fxamacker / append RESULT of 100 stored records, one range", marshal, aRange, 30, 0},
		{"fxamacker / append RESULT of 100 stored records, one by one", marshal, oneByOne, 20, 0},
	}
	for _, f := range figures {
		ratio := medianRatio(f.of, f.over, 31)
		bound, ok := f.least, ratio >= f.least
		if f.most > 0 {
			bound, ok = f.most, ratio <= f.most
		}
		line, err := json.Marshal(map[string]any{"name": f.name, "value": float64(int(ratio*100)) / 100, "bound": bound, "ok": ok})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(line))
		if !ok {
			t.Errorf("%s: %.2f, bound %v", f.name, ratio, bound)
		}
	}
	reportCounts(t, payload)
}

// reportCounts reports the figures that no clock measures. TestAllocationBudgets
// and TestHeapBudget hold them in every run of the tests.
func reportCounts(t *testing.T, payload []byte) {
	worst := 0.0
	for _, h := range hostilePayloads(t) {
		for _, tolerant := range []bool{false, true} {
			octets := heapOf(func() { parseOnly(h.typ, h.octets, &Options{Tolerant: tolerant}) })
			worst = max(worst, float64(octets)/float64(len(h.octets)))
		}
	}
	result := corpusResult(t, 1000)
	buf := make([]byte, 0, 2*len(payload))
	for _, f := range []struct {
		name        string
		value, most float64
	}{
		{"hostile payload of 1 MiB: octets allocated / octets received", worst, 3},
		{"parse RESULT of 1000 owned: allocations", testing.AllocsPerRun(20, func() { ParseResult(payload, nil) }), 2},
		{"append RESULT of 1000 stored records: allocations", testing.AllocsPerRun(20, func() { AppendResult(buf, result) }), 0},
	} {
		line, err := json.Marshal(map[string]any{"name": f.name, "value": float64(int(f.value*100)) / 100, "bound": f.most, "ok": f.value <= f.most})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(line))
		if f.value > f.most {
			t.Errorf("%s: %.2f, bound %v", f.name, f.value, f.most)
		}
	}
}

func medianRatio(a, b func(), rounds int) float64 {
	const slice = 5 * time.Millisecond
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

func spent(f func(), n int) time.Duration {
	start := time.Now()
	for range n {
		f()
	}
	return time.Since(start)
}
