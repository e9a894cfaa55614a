package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A reader that closes our standard output is not a fault: the write fails
	// with EPIPE, which ends the command quietly, instead of killing it.
	signal.Ignore(syscall.SIGPIPE)
	// QUIC's advice on the system's settings goes there.
	log.SetFlags(0)
	log.SetPrefix("disco-probe: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt kills
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command as a function: it returns the exit status. A cancelled ctx
// stands for an interrupt.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newApp(stdin, stdout, stderr).main(ctx, args)
}

func (a *app) main(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(append([]string{}, args...)) // never nil: nil is os.Args
	err := root.ExecuteContext(ctx)
	if a.look != nil {
		a.look.close()
	}
	return a.finish(ctx, err)
}
