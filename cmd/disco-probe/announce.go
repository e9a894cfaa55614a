package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/channel"
)

// recordFlags are the flags of a command that reads record files.
type recordFlags struct {
	files []string
	from  string
	agree []uint
}

func (r *recordFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&r.files, "records", nil, "record `FILE`, or mcp:FILE, or native:FILE; may be repeated")
	f.StringVar(&r.from, "from", "native", "`form` of the files: native or mcp")
	f.UintSliceVar(&r.agree, "agree", nil, "protocol_id from 16 up that the peers agreed to; may be repeated")
}

// open reads the files of --records, and those that follow as arguments.
func (r *recordFlags) open(a *app, more []string) (*library, error) {
	files, err := parseRecordFiles(append(slices.Clone(r.files), more...), r.from)
	if err != nil {
		return nil, err
	}
	agreed := make([]uint64, len(r.agree))
	for i, id := range r.agree {
		if id < 16 || id > 255 {
			return nil, usagef("--agree must be 16 to 255")
		}
		agreed[i] = uint64(id)
	}
	return openLibrary(files, agreed, a.note)
}

func (a *app) announceCommand() *cobra.Command {
	var (
		link    linkFlags
		records recordFlags
	)
	cmd := &cobra.Command{
		Use:   "announce ADDR --records FILE...",
		Short: "Publish records to a peer, one way",
		Long: `announce sends the records to a peer as DISCO_ANNOUNCE frames and closes. Nothing
tells whether the peer took them.`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		d, err := a.newDialer(args[0], &link)
		if err != nil {
			return err
		}
		lib, err := records.open(a, args[1:])
		if err != nil {
			return err
		}
		p, err := d.connect(ctx, channel.Config{})
		if err != nil {
			return classify(ctx, err)
		}
		defer p.Close()
		wait := ctx
		if link.timeout > 0 {
			var cancel context.CancelFunc
			wait, cancel = context.WithTimeout(ctx, link.timeout)
			defer cancel()
		}
		recs := slices.Collect(lib.set.Snapshot().All())
		frames, err := p.Announce(wait, recs)
		if err != nil {
			return classify(ctx, err)
		}
		closed := p.Close() // before it is said that it is done
		if err := p.Wait(); !errors.Is(err, channel.ErrClosed) && !errors.Is(err, io.EOF) {
			return classify(ctx, err) // the peer may even have refused us (CORE-g3-07)
		}
		if closed != nil {
			a.note("%v", closed)
		}
		if a.format.json() {
			return a.out.json(versioned(field{"announced", len(recs)}, field{"frames", frames}))
		}
		return a.out.text(fmt.Sprintf("announced %s in %s", plural(len(recs), "record"), plural(frames, "frame")))
	})
	records.add(cmd)
	link.add(cmd.Flags(), defaultTimeout, "how long writing may take")
	link.addDial(cmd.Flags())
	return cmd
}
