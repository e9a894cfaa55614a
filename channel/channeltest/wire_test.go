package channeltest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// read is one Read.
func read(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWire()
		w.A.Write([]byte("hello, "))
		w.A.Write([]byte("world"))
		want(t, "one write at a time", read(t, w.B, 99), "hello, ")
		want(t, "in part", read(t, w.B, 3), "wor")
		w.AB.Pieces(1)
		want(t, "an octet at a time", read(t, w.B, 99), "l")
		w.AB.Pieces(0)
		want(t, "the rest", read(t, w.B, 99), "d")

		w.BA.Delay(time.Second)
		began := time.Now()
		w.B.Write([]byte("late"))
		want(t, "delayed", read(t, w.A, 99), "late")
		if d := time.Since(began); d != time.Second {
			t.Errorf("came after %v", d)
		}
		if n, err := w.A.Read(nil); n != 0 || err != nil {
			t.Errorf("Read(nil): %d, %v", n, err)
		}
		if a := w.A.LocalAddr(); a.String() != "A" || a.Network() != "memory" || w.A.RemoteAddr().String() != "B" {
			t.Errorf("addresses %v, %v", a, w.A.RemoteAddr())
		}
	})
}

func TestWireRoomAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWire()
		w.AB.Room(4)
		w.A.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := w.A.Write([]byte("0123456789"))
		var nerr net.Error
		if n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &nerr) || !nerr.Timeout() {
			t.Errorf("Write: %d, %v", n, err)
		}
		w.A.SetDeadline(time.Time{})
		wrote := make(chan bool)
		go func() {
			w.A.Write([]byte("456789"))
			close(wrote)
		}()
		all, err := io.ReadAll(io.LimitReader(w.B, 10))
		if string(all) != "0123456789" || err != nil {
			t.Errorf("read %q, %v", all, err)
		}
		<-wrote
		w.B.SetReadDeadline(time.Now().Add(time.Second))
		began := time.Now()
		if _, err := w.B.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Read: %v after %v", err, time.Since(began))
		}
	})
}

func TestWireEnds(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *Wire){
		"Close": func(t *testing.T, w *Wire) {
			w.A.Write([]byte("last"))
			w.A.Close()
			want(t, "what was sent", read(t, w.B, 99), "last")
			if _, err := w.B.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("Read: %v", err)
			}
			if _, err := w.B.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("Write: %v", err)
			}
			if _, err := w.A.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Read of what is closed: %v", err)
			}
			if err := w.A.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Close twice: %v", err)
			}
		},
		"CloseWrite": func(t *testing.T, w *Wire) {
			w.A.(interface{ CloseWrite() error }).CloseWrite()
			if _, err := w.B.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("Read: %v", err)
			}
			w.B.Write([]byte("x"))
			want(t, "the other direction", read(t, w.A, 9), "x")
			if _, err := w.A.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write: %v", err)
			}
		},
		"Cut": func(t *testing.T, w *Wire) {
			w.A.Write([]byte("lost"))
			w.Cut()
			if _, err := w.B.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Read: %v", err)
			}
			if _, err := w.A.Write([]byte("x")); !errors.Is(err, ErrCut) {
				t.Errorf("Write: %v", err)
			}
		},
		"CutAfter": func(t *testing.T, w *Wire) {
			w.AB.CutAfter(6)
			w.A.Write([]byte("0123"))
			w.A.Write([]byte("4567"))
			want(t, "before", read(t, w.B, 4)+read(t, w.B, 4), "012345")
			if _, err := w.B.Read(make([]byte, 1)); !errors.Is(err, ErrCut) {
				t.Errorf("Read: %v", err)
			}
		},
		"unblocked by Close": func(t *testing.T, w *Wire) {
			w.AB.Stall()
			errs := make(chan error, 2)
			go func() {
				_, err := w.B.Read(make([]byte, 1))
				errs <- err
			}()
			go func() {
				_, err := w.A.Write(make([]byte, 1<<20))
				errs <- err
			}()
			synctest.Wait()
			w.B.Close()
			for range 2 {
				if err := <-errs; !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.EPIPE) {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, NewWire()) })
		})
	}
}

// associated are scripts on both ends of an association over a wire.
func associated(t *testing.T, w *Wire, change ...func(*association.Config)) (a, b *Script, c, s *association.Association) {
	t.Helper()
	cfg := [2]*association.Config{{Identity: Identity(1)}, {Identity: Identity(2)}}
	for _, f := range change {
		f(cfg[0])
		f(cfg[1])
	}
	c, s, err := Associate(t.Context(), w.A, w.B, cfg[0], cfg[1])
	if err != nil {
		t.Fatal(err)
	}
	start := func(x *association.Association) *Script {
		tr, err := x.Transport(frame.ChannelDiscovery)
		if err != nil {
			t.Fatal(err)
		}
		script, err := NewScript(tr)
		if err != nil {
			t.Fatal(err)
		}
		return script
	}
	a, b = start(c), start(s)
	t.Cleanup(func() {
		var wg sync.WaitGroup // both at once: neither waits for the other to read
		wg.Go(func() { c.Close() })
		s.Close()
		wg.Wait()
	})
	return a, b, c, s
}

func TestAssociationOverAnyWire(t *testing.T) {
	large := bytes.Repeat([]byte("p"), 100_000)
	for name, knob := range map[string]func(*Wire){
		"plain":              func(*Wire) {},
		"an octet at a time": func(w *Wire) { w.AB.Pieces(1); w.BA.Pieces(1) },
		"next to no room":    func(w *Wire) { w.AB.Room(1); w.BA.Room(1) },
		"slow":               func(w *Wire) { w.AB.Delay(300 * time.Millisecond); w.BA.Delay(200 * time.Millisecond) },
	} {
		for _, generation := range []int{2, 3} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := NewWire()
					knob(w)
					a, b, c, _ := associated(t, w, func(cfg *association.Config) { cfg.Generations = []int{generation} })
					a.Send(Frame{Type: 0x0100, Payload: large})
					b.SendHex(0x0101, "0102")
					if f := b.WantFrame(t, "whole"); !bytes.Equal(f.Payload, large) {
						t.Error("changed on the way")
					}
					a.WantFrame(t, "the other way", Hex(0x0101, "0102"))
					c.KeyUpdate(frame.ChannelDiscovery)
					a.SendHex(0x0100, "03")
					b.WantFrame(t, "under another key", Hex(0x0100, "03"))
				})
			})
		}
	}
}

// A bit that is inverted below an association is noticed: generation 2 ends for
// the gap that the lost frame leaves, generation 3 drops all that follow.
func TestFlippedBitBelowAnAssociation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWire()
		a, b, _, s := associated(t, w, func(cfg *association.Config) { cfg.Generations = []int{3} })
		w.AB.Edit(Nth(1, FlipBit(8*(frame.HeaderLen+2))))
		a.SendHex(0x0100, "01")
		b.WantSilence(t, "not authentic", time.Second)
		if st := s.Stats(); st.BadTag != 1 {
			t.Errorf("BadTag = %d", st.BadTag)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := NewWire()
		a, b, _, _ := associated(t, w)
		w.AB.Edit(Nth(1, FlipBit(3)))
		a.SendHex(0x0100, "01")
		if err := b.WantEnd(t, "a header that is not one"); !errors.Is(err, frame.ErrChecksum) {
			t.Error(err)
		}
	})
}

func TestCutEndsBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWire()
		a, b, _, _ := associated(t, w)
		w.Cut()
		for _, s := range []*Script{a, b} {
			if err := s.WantEnd(t, "cut"); err == nil {
				t.Error("no cause")
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // within the handshake
		w := NewWire()
		w.BA.CutAfter(500)
		if c, s, err := Associate(context.Background(), w.A, w.B, nil, nil); err == nil || c != nil || s != nil {
			t.Errorf("%v, %v, %v", c, s, err)
		}
	})
}

// TLS runs over a wire too.
func TestAssociationOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert := selfSigned(t)
		w := NewWire()
		protos := []string{"n-pamp/3"}
		c, s, err := Associate(t.Context(),
			tls.Client(w.A, &tls.Config{InsecureSkipVerify: true, NextProtos: protos, MinVersion: tls.VersionTLS13}),
			tls.Server(w.B, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos, MinVersion: tls.VersionTLS13}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if g := c.Info().Generation; g != 3 {
			t.Errorf("generation %d", g)
		}
		var wg sync.WaitGroup
		wg.Go(func() { c.Close() })
		s.Close()
		wg.Wait()
	})
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := Identity(9)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
