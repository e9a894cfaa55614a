// Package mcppeer sets up the Go SDK of the Model Context Protocol: tools/list
// over all its pages, and tools/list_changed, over HTTP and TLS 1.3.
package mcppeer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/npamp/disco/cmd/disco-versus/internal/bench"
	"github.com/npamp/disco/cmd/disco-versus/internal/sample"
)

// Open sets a case up.
func Open(ctx context.Context, c bench.Case) (bench.Bench, error) {
	switch c.Kind {
	case bench.List:
		return list(ctx, c)
	case bench.FanOut:
		return fanOut(ctx, c)
	}
	return nil, fmt.Errorf("%s: not MCP's", c.Kind)
}

// tool carries what a record does, and the least schema that MCP allows.
func tool(i int) *mcp.Tool {
	return &mcp.Tool{
		Name:        sample.Name(i),
		Title:       sample.Label(i, 0),
		Description: sample.Schema(i),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: map[string]any{"type": "object"},
	}
}

func unused(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("only listed")
}

func newServer(tools int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	for i := range tools {
		s.AddTool(tool(i), unused)
	}
	return s
}

func newClient(changed func()) *mcp.Client {
	var options mcp.ClientOptions
	if changed != nil {
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { changed() }
	}
	return mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &options)
}

// endpoint is a server behind HTTPS.
type endpoint struct {
	url      string
	identity *bench.Identity
	http     *http.Server
	served   chan error
	sessions []*mcp.ClientSession
}

func serve(s *mcp.Server) (*endpoint, error) {
	id, err := bench.NewIdentity()
	if err != nil {
		return nil, err
	}
	listener, err := bench.Loopback()
	if err != nil {
		return nil, err
	}
	e := &endpoint{
		url:      "https://" + listener.Addr().String(),
		identity: id,
		http: &http.Server{
			Handler:   mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil),
			TLSConfig: id.ServerTLS(),
			ErrorLog:  log.New(io.Discard, "", 0), // clients that hang up
		},
		served: make(chan error, 1),
	}
	go func() { e.served <- e.http.ServeTLS(listener, "", "") }()
	return e, nil
}

func (e *endpoint) connect(ctx context.Context, client *mcp.Client, meter *bench.Meter) (*mcp.ClientSession, error) {
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: e.url,
		HTTPClient: &http.Client{Transport: &http.Transport{
			TLSClientConfig:   e.identity.ClientTLS(),
			DialContext:       meter.DialContext,
			ForceAttemptHTTP2: true,
		}},
	}, nil)
	if err == nil {
		e.sessions = append(e.sessions, session)
	}
	return session, err
}

// Close ends the sessions and the server.
func (e *endpoint) Close() {
	for _, s := range e.sessions {
		s.Close()
	}
	e.http.Close()
	<-e.served
}

func list(ctx context.Context, c bench.Case) (bench.Bench, error) {
	e, err := serve(newServer(c.Records))
	if err != nil {
		return nil, err
	}
	meter := new(bench.Meter)
	session, err := e.connect(ctx, newClient(nil), meter)
	if err != nil {
		return nil, err
	}
	return &bench.Lists{
		Records: c.Records,
		Meter:   meter,
		List: func(ctx context.Context) (got int, err error) {
			for _, err := range session.Tools(ctx, nil) {
				if err != nil {
					return got, err
				}
				got++
			}
			return got, nil
		},
		Stop: e.Close,
	}, nil
}

// fanOut notifies sessions, each on a connection of its own, that something has
// changed. What it was they would have to list.
func fanOut(ctx context.Context, c bench.Case) (bench.Bench, error) {
	s := newServer(100)
	e, err := serve(s)
	if err != nil {
		return nil, err
	}
	track := bench.NewTracker(c.Subs)
	meter := new(bench.Meter)
	before := bench.Foot()
	for i := range c.Subs {
		if _, err := e.connect(ctx, newClient(func() { track.Delivered(i) }), meter); err != nil {
			return nil, err
		}
	}
	return &bench.FanOuts{
		Case: c, Track: track, Facts: bench.Foot().Each(before, c.Subs),
		Publish: func(context.Context) error {
			s.AddTool(tool(7), unused)
			return nil
		},
		Stop: e.Close,
	}, nil
}
