package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/npamp/disco/disco"
)

// Exit statuses; doc.go says what they mean.
const (
	exitOK          = 0
	exitLocal       = 1
	exitUsage       = 2
	exitConnect     = 3
	exitPeerError   = 4
	exitIncomplete  = 5
	exitTimeout     = 6
	exitProtocol    = 7
	exitInterrupted = 130
)

// A failure is an error with the exit status it leads to.
type failure struct {
	exit int
	code disco.Code // the §9 code, 0 where there is none
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failf returns a failure with a message.
func failf(exit int, format string, args ...any) error {
	return &failure{exit: exit, err: fmt.Errorf(format, args...)}
}

// usagef is for a command line that asks for what is not there.
func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// A verdict is an exit status whose reason is in the output already.
type verdict int

func (v verdict) Error() string { return fmt.Sprintf("exit status %d", int(v)) }

// errStdoutClosed says that nobody reads our standard output any more.
var errStdoutClosed = errors.New("standard output is closed")

// exitOf returns the status for an error of a command's own, which is a local
// failure unless it says otherwise.
func exitOf(ctx context.Context, err error) int {
	var f *failure
	var v verdict
	switch {
	case err == nil, errors.Is(err, errStdoutClosed):
		return exitOK
	case errors.As(err, &f):
		return f.exit
	case errors.As(err, &v):
		return int(v)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitLocal
}
