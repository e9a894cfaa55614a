package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A lockedWriter lets several goroutines write lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// An output is standard output. Every write goes straight through, so that a
// pipe sees each line when it is written.
type output struct{ w io.Writer }

// Write implements io.Writer. It fails with errStdoutClosed once the reader has
// gone.
func (o output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		err = errStdoutClosed
	}
	return n, err
}

// follow returns a context that is done as well once nobody reads standard
// output any more, for a command that may have nothing to write for long. Its
// cause is errStdoutClosed then. stop ends the watch.
func (o output) follow(ctx context.Context) (watched context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if f, ok := o.w.(*os.File); ok {
		go whenUnread(f, ctx.Done(), func() { cancel(errStdoutClosed) })
	}
	return ctx, func() { cancel(nil) }
}

// json writes one object as a line.
func (o output) json(v object) error {
	_, err := o.Write(append(appendJSON(nil, v), '\n'))
	return err
}

// text writes lines for people. Whatever peer text is left in them unescaped is
// escaped here.
func (o output) text(lines ...string) error {
	_, err := o.Write([]byte(joinLines(lines)))
	return err
}

// joinLines makes each line safe for a terminal and ends it.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(clean(l))
		b.WriteByte('\n')
	}
	return b.String()
}
