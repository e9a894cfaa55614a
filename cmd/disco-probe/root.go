package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// An app is one run of the command.
type app struct {
	stdin  io.Reader
	out    output
	stderr io.Writer

	format    format // of -o, or of DISCO_OUTPUT
	formatSet bool   // one of them was given

	backoff func(attempt int) time.Duration // before a peer is dialled again
	look    *observer                       // nil: nobody looks inside
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{stdin: stdin, out: output{stdout}, stderr: &lockedWriter{w: stderr}, format: formatTable, backoff: backoff}
}

// defaultFormat sets the format of a command that has one of its own where none
// was asked for.
func (a *app) defaultFormat(f format) {
	if !a.formatSet {
		a.format = f
	}
}

// outputEnv names the environment variable that -o defaults to.
const outputEnv = "DISCO_OUTPUT"

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "disco-probe",
		Short: "Look at, test and debug the N-PAMP Discovery channel of any peer",
		Long: `disco-probe looks at, tests and debugs the N-PAMP Discovery channel (0x0010,
NPAMP-DISC) of any peer. Data goes to standard output, everything else to
standard error.`,
		SilenceErrors: true, // finish says it
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.formatSet = cmd.Flags().Changed("output"); a.formatSet {
				return nil
			}
			env := os.Getenv(outputEnv)
			if env == "" {
				return nil
			}
			a.formatSet = true
			if err := a.format.Set(env); err != nil {
				return fmt.Errorf("%s: %w", outputEnv, err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.New("a command is required: disco-probe --help lists them")
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	root.PersistentFlags().VarP(&a.format, "output", "o", "output `format`: table, json, ndjson, diag or hex (default $"+outputEnv+", else table)")
	root.AddCommand(
		a.demoCommand(),
		a.serveCommand(),
		a.queryCommand(),
		a.watchCommand(),
		a.announceCommand(),
		a.decodeCommand(),
		a.rawCommand(),
		a.replayCommand(),
		a.testeeCommand(),
		a.conformCommand(),
		a.soakCommand(),
		a.vectorsCommand(),
		a.keygenCommand(),
		a.versionCommand(),
	)
	return root
}

// do makes a command's function one of cobra's. What it fails with is told from
// what cobra itself fails with, which is always usage.
func (a *app) do(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := fn(cmd.Context(), args)
		if err != nil {
			return &runError{err}
		}
		return nil
	}
}

type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

// finish says what went wrong and returns the exit status.
func (a *app) finish(ctx context.Context, err error) int {
	var re *runError
	if err != nil && !errors.As(err, &re) && !errors.Is(err, errStdoutClosed) {
		err = &failure{exit: exitUsage, err: err}
	}
	code := exitOf(ctx, err)
	var v verdict
	if err == nil || errors.Is(err, errStdoutClosed) || errors.As(err, &v) {
		return code
	}
	message := err.Error()
	if code == exitInterrupted {
		message = "interrupted"
	}
	a.note("%s", message)
	if a.format.json() {
		e := object{{"exit", code}}
		var f *failure
		if errors.As(err, &f) && f.code != 0 {
			e = append(e, field{"code", uint64(f.code)}, field{"name", f.code.String()})
		}
		e = append(e, field{"message", message})
		if a.out.json(versioned(field{"error", e})) != nil {
			return code // nobody reads it: the status still says it
		}
	}
	return code
}

// note says something to people.
func (a *app) note(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, l := range lines {
		lines[i] = "disco-probe: " + l
	}
	io.WriteString(a.stderr, joinLines(lines))
}
