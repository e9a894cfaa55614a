package main

import "github.com/npamp/disco/cmd/disco-versus/internal/bench"

// An entry is a case and who takes part.
type entry struct {
	bench.Case
	by []string
}

// group is the name of the entry's table.
func (e entry) group() string { return groupOf(e.Kind) }

func groupOf(k bench.Kind) string {
	switch k {
	case bench.Idle, bench.Subscribe:
		return "memory"
	case bench.Update:
		return string(bench.List)
	case bench.Rate:
		return string(bench.FanOut)
	}
	return string(k)
}

func list(records int) bench.Case { return bench.Case{Kind: bench.List, Records: records} }

func fanOut(subs, conns int) bench.Case {
	return bench.Case{Kind: bench.FanOut, Subs: subs, Conns: conns}
}

func call(inFlight int) bench.Case { return bench.Case{Kind: bench.Call, InFlight: inFlight} }

var (
	listers   = []string{disco, uncached, plain, inTLS, mcp, etcd, natsKV, xds}
	followers = []string{disco, plain, inTLS, etcd, natsCore, natsKV, xds}
	callers   = []string{disco, rawTLS, etcd, natsCore}
)

// suite is what the table is made of. At 10,000 on one association the others
// but NATS core would need from 60 to 500 MB for their subscribers.
var suite = []entry{
	{list(100), listers},
	{list(1_000), listers},
	{list(10_000), listers},
	{list(100_000), listers},
	{call(1), callers},
	{call(64), callers},
	{fanOut(1, 1), append([]string{mcp}, followers...)},
	{fanOut(100, 1), followers},
	{fanOut(1_000, 1), followers},
	{fanOut(10_000, 1), []string{disco, plain, inTLS, natsCore}},
	{fanOut(1_000, 1_000), append([]string{mcp}, followers...)},
	{bench.Case{Kind: bench.Idle, Conns: 200}, []string{disco, rawTLS, natsCore}},
	{bench.Case{Kind: bench.Subscribe, Subs: 10_000}, []string{disco}},
	{bench.Case{Kind: bench.Handshake}, []string{disco}},
}

// curves is what -scale measures.
var curves = makeCurves()

func makeCurves() (out []entry) {
	for n := 100; n <= 1_000_000; n *= 10 {
		out = append(out, entry{list(n), []string{disco, plain}})
	}
	for n := 100; n <= 1_000_000; n *= 10 {
		out = append(out, entry{bench.Case{Kind: bench.Update, Records: n}, []string{disco}})
	}
	for n := 1; n <= 100_000; n *= 10 {
		out = append(out, entry{fanOut(n, 1), []string{disco, plain}})
	}
	for _, n := range []int{10, 100, 1000} {
		out = append(out, entry{fanOut(n, n), []string{disco, plain}})
	}
	for _, n := range []int{100, 1_000, 3_000, 10_000, 30_000, 100_000} {
		out = append(out, entry{bench.Case{Kind: bench.Rate, Subs: 100, PerSecond: n}, []string{disco}})
	}
	return out
}
