package floor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
)

// Raw sets a case up with TLS 1.3 alone, without frames: an echo of 200 octets,
// or idle connections.
func Raw(ctx context.Context, c bench.Case) (bench.Bench, error) {
	l, err := tlsLink()
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case bench.Call:
		return newEcho(ctx, l, c)
	case bench.Idle:
		before := bench.Foot()
		for range c.Conns {
			if _, _, err := l.connect(ctx, new(bench.Meter)); err != nil {
				l.Close()
				return nil, err
			}
		}
		return &bench.Still{Found: bench.Foot().Each(before, c.Conns), Stop: l.Close}, nil
	}
	l.Close()
	return nil, fmt.Errorf("%s: not for TLS alone", c.Kind)
}

const echoLen = 200 // octets

// serveEcho returns what it reads. It writes when no more has come yet.
func serveEcho(conn net.Conn) {
	reader, writer := bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	message := make([]byte, echoLen)
	for {
		if _, err := io.ReadFull(reader, message); err != nil {
			return
		}
		if _, err := writer.Write(message); err != nil {
			return
		}
		if reader.Buffered() < len(message) && writer.Flush() != nil {
			return
		}
	}
}

func newEcho(ctx context.Context, l *link, c bench.Case) (bench.Bench, error) {
	server, client, err := l.connect(ctx, new(bench.Meter))
	if err != nil {
		return nil, err
	}
	go serveEcho(server)
	if c.InFlight > 1 {
		return &window{client, c.InFlight, l.Close}, nil
	}
	message, reply := make([]byte, echoLen), make([]byte, echoLen)
	return &bench.Calls{
		InFlight: 1,
		Call: func(context.Context) error {
			if _, err := client.Write(message); err != nil {
				return err
			}
			_, err := io.ReadFull(client, reply)
			return err
		},
		Stop: l.Close,
	}, nil
}

// window keeps messages in flight on one connection.
type window struct {
	client net.Conn
	size   int
	stop   func()
}

func (w *window) Close() { w.stop() }

func (w *window) Round(context.Context) (bench.Round, error) {
	const goesOn = 100 * time.Millisecond
	sent := make(chan time.Time, w.size)
	failed := make(chan error, 1)
	began := time.Now()
	go func() {
		defer close(sent)
		writer := bufio.NewWriterSize(w.client, 64<<10)
		message := make([]byte, echoLen)
		for time.Since(began) < goesOn {
			select {
			case sent <- time.Now():
			default: // full: send what is buffered, and wait
				if err := writer.Flush(); err != nil {
					failed <- err
					return
				}
				sent <- time.Now()
			}
			if _, err := writer.Write(message); err != nil {
				failed <- err
				return
			}
		}
		failed <- writer.Flush()
	}()
	var all bench.Samples
	reader, reply := bufio.NewReaderSize(w.client, 64<<10), make([]byte, echoLen)
	for at := range sent {
		if _, err := io.ReadFull(reader, reply); err != nil {
			return nil, err
		}
		all = append(all, time.Since(at))
	}
	return bench.CallRound(all, time.Since(began)), <-failed
}
