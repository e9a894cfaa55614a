package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/record"
)

func (a *app) queryCommand() *cobra.Command {
	var (
		link     linkFlags
		filters  filterFlags
		tolerant bool
		page     bool
	)
	cmd := &cobra.Command{
		Use:   "query ADDR",
		Short: "List what a peer advertises",
		Long: `query lists the records that a peer advertises and that match the filters: the
whole set, whatever number of pages it takes, or with --page the first page.
ADDR is host:port or npamp://host:port.`,
		Example: `  disco-probe query 127.0.0.1:4433 --kind tool --prefix git.
  disco-probe query --pin bciq… npamp://host:4433 -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		f, err := filters.filter(cmd)
		if err != nil {
			return err
		}
		d, err := a.newDialer(args[0], &link)
		if err != nil {
			return err
		}
		p, err := d.connect(ctx, channel.Config{})
		if err != nil {
			return classify(ctx, err)
		}
		defer p.Close()
		l, err := ask(ctx, p, channel.Query{Filter: f, Tolerant: tolerant}, page)
		if err != nil {
			return classify(ctx, err)
		}
		if err := a.printListing(l); err != nil {
			return err
		}
		if link.strict && len(l.skipped) > 0 {
			return failf(exitIncomplete, "%s of unknown kind skipped", plural(len(l.skipped), "record"))
		}
		return nil
	})
	filters.add(cmd)
	link.add(cmd.Flags(), defaultTimeout, "how long each answer may take")
	link.addDial(cmd.Flags())
	cmd.Flags().BoolVar(&tolerant, "tolerant", false, "take what can be represented instead of failing")
	cmd.Flags().BoolVar(&page, "page", false, "the first page alone")
	return cmd
}

// A listing is what a query learned.
type listing struct {
	records  []record.Record // ascending record_id
	skipped  []record.Skipped
	complete bool
	tolerant bool
	pages    int
}

func ask(ctx context.Context, p *channel.Peer, q channel.Query, page bool) (listing, error) {
	if page {
		first, err := p.QueryPage(ctx, q)
		if err != nil {
			return listing{}, err
		}
		slices.SortFunc(first.Records, func(a, b record.Record) int { return cmp.Compare(a.ID(), b.ID()) })
		return listing{first.Records, first.Skipped, first.Complete, q.Tolerant, 1}, nil
	}
	l, err := p.Query(ctx, q)
	if err != nil {
		return listing{}, err
	}
	return listing{l.Records, l.Skipped, true, q.Tolerant, l.Pages}, nil
}

func (l *listing) meta() object {
	return object{
		{"complete", l.complete},
		{"tolerant", l.tolerant},
		{"pages", l.pages},
		{"records", len(l.records)},
		{"skipped", skippedJSON(l.skipped)},
		{"digest", digestOf(l.records)},
	}
}

// digestOf is SHA-256 over the records' octets in the order given.
func digestOf(records []record.Record) octets {
	sum := record.Digest(slices.Values(records))
	return octets(sum[:])
}

func (a *app) printListing(l listing) error {
	switch a.format {
	case formatJSON:
		return a.out.json(versioned(field{"records", recordsJSON(l.records)}, field{"meta", l.meta()}))
	case formatNDJSON:
		for _, r := range l.records {
			if err := a.out.json(versioned(field{"record", recordJSON(r)})); err != nil {
				return err
			}
		}
		return a.out.json(versioned(field{"meta", l.meta()}))
	}
	var lines []string
	switch a.format {
	case formatDiag:
		for _, r := range l.records {
			lines = append(lines, diagRecord(r))
		}
	case formatHex:
		for _, r := range l.records {
			lines = append(lines, hex.EncodeToString([]byte(r.Octets())))
		}
	default:
		lines = recordTable(l.records)
	}
	if err := a.out.text(lines...); err != nil {
		return err
	}
	how := "complete"
	switch {
	case !l.complete:
		how = "the first page of more"
	case l.tolerant:
		how = "complete as far as the peer can represent it"
	}
	a.note("%s in %s, %s", plural(len(l.records), "record"), plural(l.pages, "page"), how)
	for _, s := range l.skipped {
		a.note("skipped record %v of unknown kind %d", s.ID, uint64(s.Kind))
	}
	return nil
}
