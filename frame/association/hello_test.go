package association

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/frame"
)

// Covers: HELLO-4-01, HELLO-4-04, HELLO-4-05
func TestHelloBody(t *testing.T) {
	// Recorded from a foreign implementation.
	want := string(unhex(t, "a3000101820110038119f123"))
	if got := string(appendHello(nil, []uint64{1, 0x10}, 0xF123)); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
	tests := []struct {
		name, body string
		version    uint64
		list       []uint64
	}{
		{"golden", "a20001018110", 1, []uint64{0x10}},
		{"recorded", "a3000101820110038119f123", 1, []uint64{1, 0x10}},
		{"newer version", "a20007018102", 7, []uint64{2}},
		{"nothing carried", "a200010180", 1, nil},
		{"params and grease", "a40001018110" + "02a1016178" + "038219f00d00", 1, []uint64{0x10}},
		{"unknown key", "a30001018110" + "09a10102", 1, []uint64{0x10}},
	}
	for _, test := range tests {
		version, list, err := parseHello(unhex(t, test.body))
		if err != nil || version != test.version || !slices.Equal(list, test.list) {
			t.Errorf("%s: %d, %v, %v", test.name, version, list, err)
		}
	}
	for name, body := range map[string]string{
		"empty":            "",
		"no version":       "a1018110",
		"no protocols":     "a10001",
		"negative key":     "a300010181102001",
		"keys disordered":  "a20181100001",
		"long form":        "a2001801018110",
		"text in the list": "a200010181" + "6161",
		"params not a map": "a3000101811002" + "80",
		"grease not uints": "a3000101811003" + "8140",
		"trailing":         "a2000101811000",
		"truncated":        "a200010182" + "10",
	} {
		if _, _, err := parseHello(unhex(t, body)); !errors.Is(err, errHello) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := parseHello(make([]byte, maxHandshakeFrame+1)); !errors.Is(err, errHello) {
		t.Errorf("too long: %v", err)
	}
}

// Covers: HELLO-2-01, HELLO-3-01, HELLO-5-01, HELLO-6-01, HELLO-8-01, CH00-4-01, C8, C48
func TestHello(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			cc, sc := clientConfig(g.number), serverConfig(g.number)
			cc.Hello = &Hello{Protocols: []uint64{2, 1, 0x20}}
			sc.Hello = &Hello{Protocols: []uint64{1, 2, 3}}
			cc.Channels = []frame.ChannelID{0x0D, 0x10, 0x11}
			cc.PeerChannels = []frame.ChannelID{0x01} // replaced
			var order []frame.Type
			cc.Trace = func(f TraceFrame) {
				if f.Sent && f.Header.Channel == onControl {
					order = append(order, f.Header.Type)
					if f.Header.Type >= frame.TypeServerAuth && f.Header.Flags != frame.FlagENC {
						t.Errorf("%v is not sealed", f.Header)
					}
				}
			}
			c, s := memPair(t, cc, sc)
			if want := []frame.Type{0x100, 0x103, frame.TypeHello, frame.TypeHelloDone}; !slices.Equal(order, want) {
				t.Errorf("sent %x, want %x", order, want)
			}
			for _, a := range []*Association{c, s} {
				if got := a.Info().HelloProtocols; !slices.Equal(got, []uint64{2, 1}) || a.Info().HelloVersion != 1 {
					t.Errorf("protocols %v, version %d", got, a.Info().HelloVersion)
				}
			}
			if got := c.Info().PeerChannels; !slices.Equal(got, []frame.ChannelID{0, 0x10}) {
				t.Errorf("server's channels %v", got)
			}
			if got := s.Info().PeerChannels; !slices.Equal(got, []frame.ChannelID{0, 0x10, 0x11}) {
				t.Errorf("client's channels %v", got)
			}
			cu, su := start(t, c), start(t, s)
			cu.send(message{0x100, "q"})
			su.want(t, "after HELLO", message{0x100, "q"})
			workflow, err := s.Transport(0x11)
			if err != nil || !workflow.Info().PeerAdvertised || workflow.Info().Advertised {
				t.Errorf("0x11: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// helloRogue does the handshake with our side, which has HELLO on, and then lets
// talk go on with a rogue. It returns what our side's constructor does.
func helloRogue(t *testing.T, g *generation, client bool, talk func(r *rogue)) (*Association, error) {
	t.Helper()
	p, q := net.Pipe()
	cfg := testConfig(1, []int{g.number})
	cfg.Hello = &Hello{Protocols: []uint64{1}}
	other, err := testConfig(2, []int{g.number}).resolve()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		h := &handshake{conn: q, gen: g, cfg: other, client: !client}
		if err := h.run(); err != nil {
			t.Error(err)
			return
		}
		talk(&rogue{t: t, conn: q, frames: h.frames, gen: g, client: !client, suite: h.suite,
			send: newLine(direction(!client), h.master), recv: newLine(direction(client), h.master)})
	})
	a, err := over(t.Context(), p, cfg, client)
	if err == nil {
		t.Cleanup(func() { q.Close(); a.Close() })
	}
	wg.Wait()
	if err != nil {
		q.Close()
	}
	return a, err
}

// takeHello reads our side's HELLO and HELLO_DONE.
func (r *rogue) takeHello() {
	h, body, err := r.next()
	version, list, perr := parseHello([]byte(body))
	if err != nil || perr != nil || h.Type != frame.TypeHello || h.Channel != onControl || h.Seq != 0 ||
		version != 1 || !slices.Equal(list, []uint64{1, 0x10}) {
		r.t.Errorf("HELLO: %v, %v, %v, %x", h, err, perr, body)
	}
	r.want("HELLO_DONE", onControl, frame.TypeHelloDone, "")
}

// Covers: HELLO-3-01, HELLO-3-02, HELLO-4-02, HELLO-4-03, HELLO-6-01, C48
func TestHelloRefusals(t *testing.T) {
	good := string(unhex(t, "a20001018110"))
	t.Run("early frames", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			a, err := helloRogue(t, g, client, func(r *rogue) {
				r.takeHello()
				r.mustFire(
					shot{ch: onDiscovery, typ: 0x100, payload: "too early"},
					shot{ch: onControl, typ: frame.TypeHello, payload: good},
					shot{ch: onControl, typ: frame.TypeHelloDone},
				)
			})
			if err != nil {
				t.Fatal(err)
			}
			if s := a.Stats(); s.HelloRequired != 1 || a.Info().HelloProtocols != nil {
				t.Errorf("stats %+v", s)
			}
		})
	})
	refused := []struct {
		name  string
		shots []shot
	}{
		{"negative key", []shot{{ch: onControl, typ: frame.TypeHello, payload: string(unhex(t, "a300010181102001"))}}},
		{"malformed", []shot{{ch: onControl, typ: frame.TypeHello, payload: "x"}}},
		{"no common version", []shot{{ch: onControl, typ: frame.TypeHello, payload: string(unhex(t, "a20000018110"))}}},
		{"HELLO_DONE first", []shot{{ch: onControl, typ: frame.TypeHelloDone}}},
	}
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				_, err := helloRogue(t, g, client, func(r *rogue) {
					r.takeHello()
					r.fire(test.shots...)
					r.want(test.name, onControl, frame.TypeClose, "")
					r.wantEnd(test.name)
				})
				var pe *ProtocolError
				if !errors.As(err, &pe) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	later := []struct {
		name string
		shot shot
	}{
		{"second HELLO", shot{ch: onControl, typ: frame.TypeHello, payload: good}},
		{"second HELLO_DONE", shot{ch: onControl, typ: frame.TypeHelloDone}},
	}
	for _, test := range later {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				var r *rogue
				a, err := helloRogue(t, g, client, func(x *rogue) {
					r = x
					r.takeHello()
					r.mustFire(shot{ch: onControl, typ: frame.TypeHello, payload: good}, shot{ch: onControl, typ: frame.TypeHelloDone})
				})
				if err != nil {
					t.Fatal(err)
				}
				start(t, a)
				r.fire(test.shot)
				r.want(test.name, onControl, frame.TypeClose, "")
				r.wantEnd(test.name)
				var pe *ProtocolError
				if err := a.Wait(); !errors.As(err, &pe) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	t.Run("none", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			_, err := helloRogue(t, g, client, func(r *rogue) {
				r.takeHello()
				if _, err := io.Copy(io.Discard, r.conn); err != nil {
					t.Error(err)
				}
			})
			if !errors.Is(err, ErrHandshakeTimeout) {
				t.Errorf("got %v", err)
			}
		})
	})
}
