package main

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// A panel is one group of bars, on a logarithmic scale.
type panel struct {
	title, metric, unit string
	c                   bench.Case
	scale               float64 // of the metric, to the unit
	digits              int
}

var panels = []panel{
	{"List 10,000 records", "us", "ms", list(10_000), 1000, 1},
	{"Ask for one record, p50", "p50_us", "µs", call(1), 1, 0},
	{"One update to 1,000 subscribers on 1 connection, until the last", "last_us", "ms", fanOut(1_000, 1), 1000, 2},
	{"One update to 1,000 subscribers on 1,000 connections, until the last", "last_us", "ms", fanOut(1_000, 1_000), 1000, 1},
}

// svg draws the panels, shorter bars being better.
func (r *report) svg() []byte {
	const (
		width, left, right = 760, 110, 90
		bar, gap, head     = 16, 4, 34
	)
	var body bytes.Buffer
	y := 10
	for _, p := range panels {
		var bars []struct {
			by string
			v  float64
		}
		low, high := math.Inf(1), 0.0
		for i := range r.Results {
			x := &r.Results[i]
			if v, _, ok := x.get(p.metric); ok && x.Case == p.c {
				v /= p.scale
				bars = append(bars, struct {
					by string
					v  float64
				}{x.By, v})
				low, high = min(low, v), max(high, v)
			}
		}
		if len(bars) == 0 {
			continue
		}
		fmt.Fprintf(&body, `<text x="10" y="%d" class="t">%s</text>`+"\n", y+18, html.EscapeString(p.title))
		y += head - 8
		from := math.Log10(low) - 0.5 // so that the shortest bar shows
		for _, b := range bars {
			length := (math.Log10(b.v) - from) / (math.Log10(high) - from) * (width - left - right)
			class := "b"
			switch b.by {
			case disco, uncached:
				class = "d"
			case plain, inTLS, rawTLS:
				class = "f"
			}
			fmt.Fprintf(&body, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" class="%s"/><text x="%.1f" y="%d">%s %s</text>`+"\n",
				left-6, y+12, html.EscapeString(b.by), left, y, length, bar, class, left+length+5, y+12, number(b.v, p.digits), p.unit)
			y += bar + gap
		}
		y += 8
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<style>text{fill:#222}.t{font-weight:bold}.d{fill:#1b7837}.f{fill:#999}.b{fill:#6a8caf}</style>
<rect width="%d" height="%d" fill="#fff"/>
`, width, y+20, width, y+20)
	out.Write(body.Bytes())
	fmt.Fprintf(&out, `<text x="10" y="%d">Logarithmic; shorter is better. %s, %d processors, medians of %d interleaved rounds, %s.</text>`+"\n</svg>\n",
		y+10, html.EscapeString(r.Go), r.CPUs, r.Passes, r.Time[:10])
	return out.Bytes()
}
