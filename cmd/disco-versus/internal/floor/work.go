package floor

import (
	"bufio"
	"context"
	"net"
	"sync"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

const perPage = 500 // records

// list sends the records, encoded beforehand, in a frame a page; the reader
// opens each and checks every record in it.
func list(ctx context.Context, l *link, c bench.Case) (bench.Bench, error) {
	aead, err := newAEAD()
	if err != nil {
		return nil, err
	}
	meter := new(bench.Meter)
	server, client, err := l.connect(ctx, meter)
	if err != nil {
		return nil, err
	}
	var pages [][]byte
	for from := 0; from < c.Records; from += perPage {
		r := disco.Result{Corr: "correlation-0001", Complete: true}
		for i := from; i < min(from+perPage, c.Records); i++ {
			r.Records = append(r.Records, sample.Record(i, 0))
		}
		page, err := disco.AppendResult(nil, &r)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	ask := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		out := sealer{aead: aead}
		var frame []byte
		for range ask {
			for _, page := range pages {
				frame = out.append(frame[:0], page)
				if _, err := server.Write(frame); err != nil {
					return
				}
			}
		}
	})
	in := sealer{aead: aead}
	reader, buffer := bufio.NewReaderSize(client, 128<<10), make([]byte, 512<<10)
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		List: func(context.Context) (got int, err error) {
			ask <- struct{}{}
			for got < c.Records {
				page, err := in.read(reader, buffer)
				if err != nil {
					return got, err
				}
				v, err := disco.ParseResultView(page, nil)
				if err != nil {
					return got, err
				}
				got += v.Records.Len()
			}
			return got, nil
		},
		Stop: func() {
			l.Close()
			close(ask)
			wg.Wait()
		},
	}, nil
}

// fanOut seals a frame for each subscriber and writes those of a connection
// together; the reader of each connection opens them.
func fanOut(ctx context.Context, l *link, c bench.Case) (bench.Bench, error) {
	aead, err := newAEAD()
	if err != nil {
		return nil, err
	}
	track := bench.NewTracker(c.Subs)
	each := c.Subs / c.Conns
	payload, err := disco.AppendUpdate(nil, &disco.Update{Corr: "correlation-0001", Added: []record.Record{sample.Record(0, 0)}})
	if err != nil {
		return nil, err
	}
	type outgoing struct {
		net.Conn
		sealer
	}
	var wg sync.WaitGroup
	before := bench.Foot()
	servers := make([]outgoing, c.Conns)
	for i := range servers {
		server, client, err := l.connect(ctx, new(bench.Meter))
		if err != nil {
			return nil, err
		}
		servers[i] = outgoing{server, sealer{aead: aead}}
		wg.Go(func() {
			in := sealer{aead: aead}
			reader, buffer := bufio.NewReaderSize(client, 16<<10), make([]byte, 512)
			for at := 0; ; at = (at + 1) % each {
				if _, err := in.read(reader, buffer); err != nil {
					return
				}
				track.Delivered(i*each + at)
			}
		})
	}
	facts := bench.Foot().Each(before, c.Subs)
	if c.Conns == 1 { // all share it, and a subscriber is a number
		facts = bench.Round{"kib": 0, "goroutines": 0}
	}
	const writeLen = 32 << 10
	buffer := make([]byte, 0, 2*writeLen)
	publish := func(context.Context) error {
		for i := range servers {
			s := &servers[i]
			buffer = buffer[:0]
			for left := each; left > 0; left-- {
				buffer = s.append(buffer, payload)
				if len(buffer) < writeLen && left > 1 {
					continue
				}
				if _, err := s.Write(buffer); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
		}
		return nil
	}
	return &bench.FanOuts{
		Case: c, Track: track, Facts: facts,
		Publish: publish, Burst: bench.Repeat(publish),
		Stop: func() { l.Close(); wg.Wait() },
	}, nil
}
