package main

import (
	"fmt"
	"io"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// writeCurves prints what -scale measured: what one unit of work costs at each
// size, so that a line that does not bend stays level.
func (r *report) writeCurves(w io.Writer) {
	r.writeHead(w)
	r.curve(w, "List: time a record", bench.List, "| records | ms | ns/record | ns/record, floor | ratio | spread % |", func(x *result) string {
		us, spread, _ := x.get("us")
		per := 1000 / float64(x.Records)
		f := r.find(x.Case, plain)
		floor, ratio := "", ""
		if f != nil {
			v, _, _ := f.get("us")
			floor, ratio = number(v*per, 0), fmt.Sprintf("%.2f", us/v)
		}
		return fmt.Sprintf("%s | %s | %s | %s | %s | %.0f", commas(x.Records), number(us/1000, 3), number(us*per, 0), floor, ratio, spread)
	})
	r.curve(w, "Change one record of a set that nobody follows", bench.Update, "| records | µs | spread % |", func(x *result) string {
		us, spread, _ := x.get("us")
		return fmt.Sprintf("%s | %s | %.0f", commas(x.Records), number(us, 1), spread)
	})
	r.curve(w, "One update: time a subscriber", bench.FanOut, "| subscribers on associations | p50 µs | last µs | ns/subscriber | ns/subscriber, floor | ratio | sustained/s | KiB/subscriber | spread % |", func(x *result) string {
		last, spread, _ := x.get("last_us")
		p50, _, _ := x.get("p50_us")
		rate, _, _ := x.get("rate")
		kib, _, _ := x.get("kib")
		per := 1000 / float64(x.Subs)
		floor, ratio := "", ""
		if f := r.find(x.Case, plain); f != nil {
			v, _, _ := f.get("last_us")
			floor, ratio = number(v*per, 0), fmt.Sprintf("%.2f", last/v)
		}
		return fmt.Sprintf("%s | %s | %s | %s | %s | %s | %s | %.2f | %.0f", name(x.Case), number(p50, 0), number(last, 0), number(last*per, 0), floor, ratio, number(rate, 0), kib, spread)
	})
	r.curve(w, "Rate of changes, to 100 subscriptions on one association", bench.Rate, "| offered/s | published/s | deliveries/s | UPDATE frames a change and subscription | mean delay µs |", func(x *result) string {
		published, _, _ := x.get("published_s")
		delivered, _, _ := x.get("delivered_s")
		frames, _, _ := x.get("frames_each")
		late, _, _ := x.get("late_mean_us")
		return fmt.Sprintf("%s | %s | %s | %.3f | %s", commas(x.PerSecond), number(published, 0), number(delivered, 0), frames, number(late, 0))
	})
}

func (r *report) curve(w io.Writer, title string, kind bench.Kind, head string, line func(*result) string) {
	began := false
	for i := range r.Results {
		x := &r.Results[i]
		if x.Kind != kind || x.By != disco {
			continue
		}
		if !began {
			began = true
			fmt.Fprintf(w, "\n### %s\n\n%s\n|", title, head)
			for _, c := range head[1:] {
				if c == '|' {
					fmt.Fprint(w, "---:|")
				}
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "| %s |\n", line(x))
	}
}
