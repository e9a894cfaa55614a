package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/subscribe"
)

// maxPeers bounds the associations served at once.
const maxPeers = 4096

func (a *app) serveCommand() *cobra.Command {
	var (
		link    linkFlags
		records recordFlags
		listen  string
		reload  bool
		allow   []string
	)
	cmd := &cobra.Command{
		Use:   "serve --records FILE...",
		Short: "Advertise records from files",
		Long: `serve answers the queries and subscriptions of any peer that connects, or with
--allow of those named, from record files. Its one line on standard output says
where and as whom. It ends when it is interrupted.`,
		Example: `  disco-probe serve --listen 127.0.0.1:4433 --records demo.json
  disco-probe serve --from mcp --records weather.mcp.json --reload`,
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		cfg, err := link.config()
		if err != nil {
			return err
		}
		if cfg.VerifyPeer, err = allowed(allow); err != nil {
			return err
		}
		if link.timeout > 0 {
			cfg.HandshakeTimeout = link.timeout
		}
		lib, err := records.open(a, args)
		if err != nil {
			return err
		}
		s := &server{app: a, lib: lib, over: link.transport}
		if err := a.observe(&link.lookFlags, cfg); err != nil {
			return err
		}
		return s.run(ctx, listen, cfg, reload)
	})
	records.add(cmd)
	link.add(cmd.Flags(), defaultTimeout, "how long a handshake may take")
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "`address` to listen on")
	f.BoolVar(&reload, "reload", false, "look at the files twice a second and follow their changes")
	f.StringArrayVar(&allow, "allow", nil, "accept this peer `KEY`, in hex or as PeerHandle; may be repeated (default any)")
	return cmd
}

// allowed returns the check that lets the listed identities in, nil for any.
func allowed(list []string) (func(ed25519.PublicKey) error, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var matches []func(ed25519.PublicKey) bool
	for _, s := range list {
		m, err := parseKey(s)
		if err != nil {
			return nil, err
		}
		matches = append(matches, m)
	}
	return func(pub ed25519.PublicKey) error {
		for _, m := range matches {
			if m(pub) {
				return nil
			}
		}
		return fmt.Errorf("%s is none of --allow", describeKey(pub))
	}, nil
}

// A server advertises a library to everybody who connects.
type server struct {
	app  *app
	lib  *library
	over transport
	hub  *subscribe.Hub
}

// run serves until ctx is done, and closes everything before it returns.
func (s *server) run(ctx context.Context, addr string, cfg *association.Config, reload bool) error {
	a := s.app
	cfg.Logger = a.logger()
	l, err := s.over.listen(addr, cfg)
	if errors.Is(err, association.ErrConfig) {
		return &failure{exit: exitUsage, err: err}
	}
	if err != nil {
		return err // a local failure: a port
	}
	defer l.Close()
	pub := cfg.Identity.Public().(ed25519.PublicKey)
	if err := s.announceListening(l, pub); err != nil {
		return err
	}
	s.hub = subscribe.NewHub(s.lib.set)
	defer s.hub.Close()

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if reload {
		running.Go(func() { s.lib.follow(ctx) })
	}
	slots := make(chan struct{}, maxPeers)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return a.interrupted()
		}
		as, err := l.Accept(ctx)
		if err != nil {
			return a.interrupted()
		}
		running.Go(func() {
			defer func() { <-slots }()
			s.serve(ctx, as)
		})
	}
}

// interrupted ends a command whose output is complete as it is.
func (a *app) interrupted() error {
	a.note("interrupted")
	return verdict(exitInterrupted)
}

func (s *server) announceListening(l *association.Listener, pub ed25519.PublicKey) error {
	handle, n := keys.PeerHandle(pub), s.lib.set.Len()
	if s.app.format.json() {
		return s.app.out.json(versioned(
			field{"event", "listening"}, field{"addr", l.Addr().String()}, field{"transport", s.over.String()},
			field{"identity", octets(pub)}, field{"handle", handle}, field{"records", n}))
	}
	return s.app.out.text(fmt.Sprintf("listening on %v (%v) as %x %s with %s", l.Addr(), s.over, []byte(pub), handle, plural(n, "record")))
}

// serve answers one peer until it or we end the association.
func (s *server) serve(ctx context.Context, as *association.Association) {
	info := as.Info()
	s.app.look.opened(as)
	who := fmt.Sprintf("peer %s at %v", describeKey(info.PeerIdentity), info.RemoteAddr)
	p, err := newPeer(as, channel.Config{
		Hub:    s.hub,
		Logger: s.app.logger(),
		OnAnnounce: func(an channel.Announcement) {
			s.app.note("%s announced %s, %d of unknown kind", who, plural(len(an.Records), "record"), len(an.Skipped))
		},
	})
	if err != nil {
		s.app.note("%s: %v", who, err)
		return
	}
	s.app.note("%s connected, n-pamp/%d %v", who, info.Generation, info.Suite)
	stop := context.AfterFunc(ctx, func() { p.Close() })
	defer stop()
	switch err := p.Wait(); {
	case errors.Is(err, io.EOF), errors.Is(err, channel.ErrClosed):
		s.app.note("%s closed", who)
	default:
		s.app.note("%s lost: %v", who, err)
	}
	p.Close() // waits for callbacks
}

// logger writes what the library has to say as notes.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(noteWriter{a}, &slog.HandlerOptions{
		Level: slog.LevelInfo,
		ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
			if at.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return at
		},
	}))
}

type noteWriter struct{ app *app }

func (w noteWriter) Write(b []byte) (int, error) {
	w.app.note("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}
