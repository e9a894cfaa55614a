package main

import (
	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/ours"
)

// A verdict says whether a figure is within its bound.
type verdict struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Least bool    `json:"least"` // Bound is the least, not the most
	Bound float64 `json:"bound"`
}

func (v verdict) ok() bool {
	if v.Least {
		return v.Value >= v.Bound
	}
	return v.Value <= v.Bound
}

// verdicts judges what was measured.
func (r *report) verdicts() (out []verdict) {
	// slower is how many times as long we take; faster how many times as long the
	// other takes.
	slower := func(name string, c bench.Case, metric, than string, bound float64) {
		if v, ok := ratio(r.find(c, disco), r.find(c, than), metric); ok {
			out = append(out, verdict{name + " / " + than, v, "x", false, bound})
		}
	}
	faster := func(name string, c bench.Case, metric, than string, bound float64) {
		if v, ok := ratio(r.find(c, than), r.find(c, disco), metric); ok {
			out = append(out, verdict{than + " / " + name, v, "x", true, bound})
		}
	}
	most := func(name string, c bench.Case, metric, unit string, bound float64) {
		if x := r.find(c, disco); x != nil {
			if v, _, ok := x.get(metric); ok {
				out = append(out, verdict{name, v, unit, false, bound})
			}
		}
	}
	slower("list 10,000", list(10_000), "us", plain, 3)
	faster("list 10,000", list(10_000), "us", mcp, 30)
	faster("list 10,000", list(10_000), "us", etcd, 4)
	faster("list 10,000", list(10_000), "us", xds, 4)
	slower("list 100,000", list(100_000), "us", plain, 3)
	if x := r.find(list(100_000), disco); x != nil {
		wire, _, _ := x.get("wire")
		own, _, _ := x.get("own")
		out = append(out, verdict{"octets a record on the wire / its own and the page heads", wire / own, "x", false, 1.05})
	}
	most("what a listing of 100,000 keeps at the responder", list(100_000), "kept_mib", "MiB", 4)

	slower("one record, 1 in flight, p50", call(1), "p50_us", rawTLS, 1.8)
	faster("one record, 1 in flight, p50", call(1), "p50_us", natsCore, 2)
	if v, ok := ratio(r.find(call(64), disco), r.find(call(64), natsCore), "ops_s"); ok {
		out = append(out, verdict{"one record, 64 in flight, rate / " + natsCore, v, "x", true, 4})
	}

	slower("one update to 10,000 on 1, until the last", fanOut(10_000, 1), "last_us", plain, 3.2)
	faster("one update to 10,000 on 1, p50", fanOut(10_000, 1), "p50_us", natsCore, 3)
	thousand := fanOut(1_000, 1_000)
	slower("one update to 1,000 on 1,000, until the last", thousand, "last_us", plain, 1.6)
	faster("one update to 1,000 on 1,000, p50", thousand, "p50_us", natsCore, 1)
	faster("one update to 1,000 on 1,000, p99", thousand, "p99_us", natsCore, 1)
	if v, ok := ratio(r.find(thousand, disco), r.find(thousand, plain), "rate"); ok {
		out = append(out, verdict{"updates back to back, 1,000 on 1,000, rate / " + plain, v, "x", true, 3})
	}

	most("one more subscription, at the responder", bench.Case{Kind: bench.Subscribe, Subs: 10_000}, "kib", "KiB", 0.5)
	most("one more subscription, both ends", fanOut(10_000, 1), "kib", "KiB", 1.5)
	most("one more subscription, both ends", fanOut(10_000, 1), "goroutines", "goroutines", 0.01)
	idle := bench.Case{Kind: bench.Idle, Conns: 200}
	most("one idle association, both ends", idle, "goroutines", "goroutines", 4.01)
	if a, b := r.find(idle, disco), r.find(idle, rawTLS); a != nil && b != nil {
		x, _, _ := a.get("kib")
		y, _, _ := b.get("kib")
		out = append(out, verdict{"one idle association, both ends, beyond its TLS connection", x - y, "KiB", false, 40})
	}
	most("mutual handshake, both ends / TLS 1.3 of the same KEM and our own primitives", bench.Case{Kind: bench.Handshake}, "ratio", "x", 1.35)
	return out
}

const limitsNote = "The limits of channel.Limits that stand in the way are raised: " + ours.Raised + "."
