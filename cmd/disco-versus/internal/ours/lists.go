package ours

import (
	"context"
	"fmt"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/record"
)

const pageHead = 128 // octets of a page that are not records: frame header, tag, RESULT's own, cursor

// lists reads the whole set by Peer.Query.
func (n *node) lists(ctx context.Context, c bench.Case) (bench.Bench, error) {
	meter := new(bench.Meter)
	client, _, err := n.connect(ctx, meter)
	if err != nil {
		return nil, err
	}
	octets, pages := 0, (c.Records+1023)/1024
	for r := range n.set.Snapshot().All() {
		octets += r.Len()
	}
	facts := bench.Round{"own": (float64(octets) + float64(pages*pageHead)) / float64(c.Records)}
	if c.Records >= 10_000 {
		kept, err := n.keptByResponder(ctx)
		if err != nil {
			return nil, err
		}
		facts["kept_mib"] = kept
	}
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		Facts:   facts,
		List: func(ctx context.Context) (int, error) {
			l, err := client.Query(ctx, channel.Query{})
			if err != nil {
				return 0, err
			}
			return len(l.Records), nil
		},
		Stop: n.Close,
	}, nil
}

// keptByResponder returns by how many MiB the live heap grows, at the most, while
// a listing is read page by page by somebody who keeps nothing.
func (n *node) keptByResponder(ctx context.Context) (float64, error) {
	before := bench.Foot()
	r, err := n.newReader(ctx)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	most := 0.0
	for page := 0; ; page++ {
		last, err := r.page(ctx)
		if err != nil {
			return 0, err
		}
		if page%16 == 0 || last {
			most = max(most, bench.Foot().Each(before, 1)["kib"]/1024)
		}
		if last {
			return most, nil
		}
	}
}

// calls asks for one of 100 records by its name.
func (n *node) calls(ctx context.Context, c bench.Case) (bench.Bench, error) {
	client, _, err := n.connect(ctx, new(bench.Meter))
	if err != nil {
		return nil, err
	}
	filter := record.Filter{NamePrefix: sample.Name(7), HasPrefix: true}
	return &bench.Calls{
		InFlight: c.InFlight,
		Call: func(ctx context.Context) error {
			l, err := client.Query(ctx, channel.Query{Filter: filter})
			if err == nil && len(l.Records) != 1 {
				err = fmt.Errorf("%d records, want 1", len(l.Records))
			}
			return err
		},
		Stop: n.Close,
	}, nil
}

// newUpdates changes one record of a set that nobody follows.
func newUpdates(c bench.Case) (bench.Bench, error) {
	set, err := sample.Set(c.Records)
	if err != nil {
		return nil, err
	}
	versions := [2]record.Record{sample.Record(c.Records/2, 1), sample.Record(c.Records/2, 2)}
	i := 0
	return &bench.Timed{
		Op: func(context.Context) error {
			i++
			return set.Update(func(tx *record.Tx) error { return tx.Put(versions[i%2]) })
		},
		Stop: func() {},
	}, nil
}
