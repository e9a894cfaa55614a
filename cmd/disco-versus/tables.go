package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// A column is a metric of a table, divided by unit.
type column struct {
	title, metric string
	unit          float64
	digits        int
}

// A table is what one kind of case is printed as.
type table struct {
	title   string
	kinds   []bench.Kind
	main    string // the metric whose spread and ratio to the floor are shown
	less    bool   // less of it is better
	columns []column
}

var tables = []table{
	{"List all records", []bench.Kind{bench.List}, "us", true, []column{
		{"ms", "us", 1000, 3}, {"the first, ms", "first_us", 1000, 2}, {"octets/record on the wire", "wire", 1, 1}, {"responder keeps, MiB", "kept_mib", 1, 1}}},
	{"Ask for one record", []bench.Kind{bench.Call}, "p50_us", true, []column{
		{"p50 µs", "p50_us", 1, 1}, {"p99 µs", "p99_us", 1, 1}, {"a second", "ops_s", 1, 0}}},
	{"One update to all subscribers, and updates back to back", []bench.Kind{bench.FanOut}, "last_us", true, []column{
		{"p50 µs", "p50_us", 1, 0}, {"p99 µs", "p99_us", 1, 0}, {"last µs", "last_us", 1, 0},
		{"sustained deliveries/s", "rate", 1, 0}, {"KiB/subscriber, both ends", "kib", 1, 2}, {"goroutines/subscriber", "goroutines", 1, 2}}},
	{"What is kept", []bench.Kind{bench.Idle, bench.Subscribe}, "kib", true, []column{
		{"KiB each", "kib", 1, 2}, {"goroutines each", "goroutines", 1, 2}}},
	{"Handshake, both ends, in memory", []bench.Kind{bench.Handshake}, "us", true, []column{
		{"µs", "us", 1, 0}, {"TLS 1.3 of the same KEM µs", "tls_us", 1, 0}, {"our own primitives µs", "primitives_us", 1, 0}, {"ratio", "ratio", 1, 2}}},
}

// name says in words what a case is.
func name(c bench.Case) string {
	switch c.Kind {
	case bench.List, bench.Update:
		return commas(c.Records) + " records"
	case bench.Call:
		return fmt.Sprintf("%d in flight", c.InFlight)
	case bench.FanOut:
		return fmt.Sprintf("%s on %s", commas(c.Subs), commas(c.Conns))
	case bench.Idle:
		return "idle connection"
	case bench.Subscribe:
		return "subscription, at the responder"
	case bench.Rate:
		return fmt.Sprintf("%s changes/s to %d", commas(c.PerSecond), c.Subs)
	}
	return string(c.Kind)
}

// writeHead says with what and how the report was made.
func (r *report) writeHead(w io.Writer) {
	fmt.Fprintf(w, "`%s`, %s, %s, GOMAXPROCS %d, %s, %d rounds, %.0f s; others used %.2f cores meanwhile. %s\n",
		r.Command, r.Time, r.Go, r.CPUs, r.CPU, r.Passes, r.Seconds, r.Others, limitsNote)
	for _, f := range r.Failures {
		fmt.Fprintf(w, "\n**Failed:** %s\n", f)
	}
}

func (r *report) writeTables(w io.Writer) {
	r.writeHead(w)
	fmt.Fprintf(w, "\n%s\n", r.versions())
	if v := r.verdicts(); len(v) > 0 {
		fmt.Fprint(w, "\n### Verdicts\n\n| figure | value | bound | |\n|---|---:|---:|---|\n")
		for _, v := range v {
			sign, word := "≤", "ok"
			if v.Least {
				sign = "≥"
			}
			if !v.ok() {
				word = "**out**"
			}
			fmt.Fprintf(w, "| %s | %.2f %s | %s %s | %s |\n", v.Name, v.Value, v.Unit, sign, trim(v.Bound), word)
		}
	}
	for _, t := range tables {
		r.writeTable(w, t)
	}
}

func (r *report) writeTable(w io.Writer, t table) {
	head := false
	for i := range r.Results {
		x := &r.Results[i]
		if !t.has(x.Kind) {
			continue
		}
		if !head {
			head = true
			titles := []string{"case", "by"}
			for _, c := range t.columns {
				titles = append(titles, c.title)
			}
			titles = append(titles, "of the floor", "spread %", "rounds")
			fmt.Fprintf(w, "\n### %s\n\n| %s |\n|---|---|%s\n", t.title, strings.Join(titles, " | "), strings.Repeat("---:|", len(titles)-2))
		}
		cells := []string{name(x.Case), x.By}
		for _, c := range t.columns {
			cell := ""
			if v, _, ok := x.get(c.metric); ok {
				cell = number(v/c.unit, c.digits)
			}
			cells = append(cells, cell)
		}
		of := ""
		if v, ok := ratio(x, r.find(x.Case, plain), t.main); ok && x.By != plain {
			of = fmt.Sprintf("%.2fx", v)
		}
		_, spread, _ := x.get(t.main)
		cells = append(cells, of, number(spread, 0), strconv.Itoa(len(x.Rounds)))
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

func (t table) has(k bench.Kind) bool {
	for _, x := range t.kinds {
		if x == k {
			return true
		}
	}
	return false
}

// number prints a number with commas between its thousands.
func number(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	whole, fraction, has := strings.Cut(s, ".")
	n, err := strconv.Atoi(whole)
	if err != nil || n == 0 {
		return s
	}
	if has {
		return commas(n) + "." + fraction
	}
	return commas(n)
}

func commas(n int) string {
	s := strconv.Itoa(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func trim(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
