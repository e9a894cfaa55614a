package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// A request to a contender's process: to set Open up, to do a round of it, or to
// give it back.
type request struct {
	Open  *bench.Case `json:"open,omitempty"`
	Close bool        `json:"close,omitempty"`
}

type answer struct {
	Round  bench.Round `json:"round,omitempty"`
	Failed string      `json:"failed,omitempty"`
}

// answer does what was asked for. b is what is set up, nil for nothing.
func (r *request) answer(ctx context.Context, open bench.Open, b *bench.Bench) (a answer) {
	var err error
	switch {
	case r.Open != nil:
		*b, err = open(ctx, *r.Open)
	case *b == nil:
		err = errors.New("nothing is set up")
	case r.Close:
		(*b).Close()
		*b = nil
		debug.FreeOSMemory()
	default:
		runtime.GC()
		a.Round, err = (*b).Round(ctx)
	}
	if err != nil {
		a.Failed = err.Error()
	}
	return a
}

// A process is a contender's.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	dead error
}

const answerTime = 3 * time.Minute // the longest that a process may take to answer

func start(ctx context.Context, name string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, program, "-contender", name)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// ask sends a request and returns the answer. A process that does not answer is
// killed, and asked nothing any more.
func (p *process) ask(r request) (bench.Round, error) {
	if p.dead != nil {
		return nil, p.dead
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(answerTime, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.dead = err
		return nil, err
	}
	if !p.out.Scan() {
		p.dead = fmt.Errorf("its process ended: %v", p.out.Err())
		return nil, p.dead
	}
	var a answer
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return nil, err
	}
	if a.Failed != "" {
		return nil, errors.New(a.Failed)
	}
	return a.Round, nil
}

func (p *process) stop() {
	p.in.Close()
	timer := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	p.cmd.Wait()
}
