package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Exit statuses.
const (
	exitPassed = 0 // every P0 and P1 row passed
	exitOpen   = 1 // one did not
	exitError  = 2 // it could not be told
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt kills
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command as a function, for the module around the working
// directory. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("disco-conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	from := flags.String("results", "", "read the output of go test -json from `FILE` (- is standard input) instead of running the tests")
	to := flags.String("o", "", "write the matrix to `FILE` (default testvectors/conformance.json of the module)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitPassed
	} else if err != nil {
		return exitError
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "disco-conformance: unexpected argument %q\n", flags.Arg(0))
		return exitError
	}
	m, err := makeMatrix(ctx, *from, *to, stdin, stderr)
	if err == nil {
		err = m.print(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "disco-conformance: %v\n", err)
		return exitError
	}
	open := m.open()
	if len(open) == 0 {
		return exitPassed
	}
	fmt.Fprintf(stderr, "disco-conformance: P0 and P1 rows that have not passed: %d\n", len(open))
	for _, s := range open {
		fmt.Fprintln(stderr, strings.TrimRight(fmt.Sprintf("  %-12s %s  %-7s  %s", s.ID, s.Priority, s.State, s.tests()), " "))
	}
	return exitOpen
}

// makeMatrix reads the ledger and the tests, takes or makes the results, and
// writes the matrix to a file before it returns it.
func makeMatrix(ctx context.Context, from, to string, stdin io.Reader, stderr io.Writer) (*matrix, error) {
	root, module, err := findModule()
	if err != nil {
		return nil, err
	}
	l, tests, err := readTree(root)
	if err != nil {
		return nil, err
	}
	var rs results
	switch from {
	case "":
		rs, err = runTests(ctx, root, stderr)
	case "-":
		rs, err = readResults(stdin)
	default:
		rs, err = readResultsFile(from)
	}
	if err != nil {
		return nil, err
	}
	m := judge(l, module, tests, rs)
	b, err := m.marshal()
	if err != nil {
		return nil, err
	}
	if to == "" {
		to = filepath.Join(root, "testvectors", "conformance.json")
	}
	return m, os.WriteFile(to, b, 0o644)
}

// readTree reads the ledger and the tests of the module at root, and checks
// that what the tests name is there.
func readTree(root string) (*ledger, []test, error) {
	b, err := os.ReadFile(filepath.Join(root, "testvectors", "requirements.json"))
	if err != nil {
		return nil, nil, err
	}
	l, err := parseLedger(b)
	if err != nil {
		return nil, nil, fmt.Errorf("requirements.json: %w", err)
	}
	tests, err := scan(os.DirFS(root))
	return l, tests, errors.Join(err, checkNames(l, tests))
}

// findModule returns the root of the module around the working directory, and
// its path.
func findModule() (root, module string, err error) {
	root, err = os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		b, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if errors.Is(err, os.ErrNotExist) && root != filepath.Dir(root) {
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("no module around the working directory: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "module" {
				return root, f[1], nil
			}
		}
		return "", "", fmt.Errorf("go.mod names no module")
	}
	return "", "", err
}

func readResultsFile(name string) (results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rs, err := readResults(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rs, nil
}

// runTests runs the module's tests, afresh: a cached result does not notice that
// data outside the module have gone.
func runTests(ctx context.Context, root string, stderr io.Writer) (results, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "./...")
	cmd.Dir, cmd.Stderr = root, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rs, readErr := readResults(out)
	_, _ = io.Copy(io.Discard, out) // let it end where reading did not get to the end
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if readErr != nil {
		return nil, fmt.Errorf("go test: %w", readErr)
	}
	// A failing test is a result. A failure without one, such as a package that
	// does not load, is not.
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && rs.anyFailed()) {
		return nil, fmt.Errorf("go test: %w", err)
	}
	return rs, nil
}
