package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the command and what it implements",
		Args:  cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			version := "(unknown)"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
			}
			if a.format.json() {
				return a.out.json(versioned(field{"version", version}, field{"go", runtime.Version()},
					field{"channel", 0x0010}, field{"generations", []uint64{3, 2}}))
			}
			return a.out.text(
				fmt.Sprintf("disco-probe %s (%s %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH),
				"NPAMP-DISC on channel 0x0010, over n-pamp/3 and n-pamp/2")
		}),
	}
}
