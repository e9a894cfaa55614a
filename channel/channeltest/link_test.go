package channeltest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
)

// scripts starts a script on each end of a link.
func scripts(t *testing.T) (l *Link, a, b *Script) {
	t.Helper()
	l = NewLink(Info(), Info())
	ta, tb := l.Ends()
	a, err := NewScript(ta)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = NewScript(tb); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return l, a, b
}

// numbered is n frames of some octets each, told apart by the first.
func numbered(n, octets int) (frames []Frame) {
	for i := range n {
		p := make([]byte, octets)
		p[0] = byte(i)
		frames = append(frames, Frame{Type: 0x0100, Payload: p})
	}
	return frames
}

// firsts are the first octets of what came.
func firsts(s *Script) string {
	var b strings.Builder
	for _, f := range s.Take() {
		fmt.Fprintf(&b, "%d ", f.Payload[0])
	}
	return strings.TrimSpace(b.String())
}

func want(t *testing.T, why, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", why, got, want)
	}
}

func TestLinkCarriesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := scripts(t)
		a.Send(numbered(5, 1)...)
		b.Send(numbered(3, 1)...)
		synctest.Wait()
		want(t, "from A", firsts(b), "0 1 2 3 4")
		want(t, "from B", firsts(a), "0 1 2")
	})
}

func TestDelayKeepsOrderAndMovesAcrossDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		l.AB.Delay(time.Second)
		began := time.Now()
		a.Send(numbered(1, 1)...)
		synctest.Wait()
		l.AB.Delay(0) // what was sent before still goes first
		a.Send(Frame{Type: 0x0100, Payload: []byte{9}})
		b.Send(numbered(1, 1)...)
		synctest.Wait()
		want(t, "the other direction is not delayed", firsts(a), "0")
		want(t, "not yet", firsts(b), "")
		b.WantFrame(t, "delayed", OfType(0x0100))
		if d := time.Since(began); d != time.Second {
			t.Errorf("came after %v", d)
		}
		synctest.Wait()
		want(t, "after it", firsts(b), "9")
	})
}

func TestStallAndRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		l.AB.Stall()
		l.AB.Room(25)
		a.Send(numbered(10, 10)...)
		b.WantSilence(t, "stalled", time.Hour)
		if n, octets := l.AB.UnderWay(); n != 3 || octets != 30 { // up to one frame more
			t.Errorf("%d frames, %d octets under way", n, octets)
		}
		l.AB.Resume()
		synctest.Wait()
		want(t, "resumed", firsts(b), "0 1 2 3 4 5 6 7 8 9")
		if n, octets := l.AB.UnderWay(); n != 0 || octets != 0 {
			t.Errorf("%d frames, %d octets under way", n, octets)
		}
	})
}

func TestEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		for _, test := range []struct {
			name string
			edit func(Frame) []Frame
			want string
		}{
			{"second twice", Nth(2, Twice), "0 1 1 2"},
			{"third lost", Nth(3, Lose), "0 1"},
			{"all lost", Lose, ""},
			{"a bit", Nth(1, FlipBit(3)), "8 1 2"},
			{"a bit beyond the end", FlipBit(8 + 1), "2 3 0"},
			{"none", nil, "0 1 2"},
		} {
			l.AB.Edit(test.edit)
			a.Send(numbered(3, 1)...)
			synctest.Wait()
			want(t, test.name, firsts(b), test.want)
		}
		l.AB.Edit(func(f Frame) []Frame {
			f.Flags = frame.FlagCOMP
			return []Frame{f}
		})
		a.SendHex(0x0103, "01 02")
		if f := b.WantFrame(t, "flagged", Hex(0x0103, "0102")); f.Flags != frame.FlagCOMP {
			t.Errorf("flags %v", f.Flags)
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		l.AB.Delay(time.Second)
		a.Send(numbered(2, 1)...)
		synctest.Wait()
		l.Cut()
		for _, s := range []*Script{a, b} {
			if err := s.WantEnd(t, "cut"); err != ErrCut {
				t.Error(err)
			}
		}
		want(t, "what was under way", firsts(b), "")
		if ta, _ := l.Ends(); !errors.Is(ta.Start(nil), ErrCut) {
			t.Error("started after the end")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		l.AB.CutAfter(25)
		a.Send(numbered(5, 10)...)
		b.WantEnd(t, "over the limit")
		want(t, "what passed", firsts(b), "0 1")
		a.WantEnd(t, "the other side")
	})
}

func TestCloseDeliversWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		l.AB.Delay(time.Second)
		l.BA.Stall()
		a.Send(numbered(2, 1)...)
		b.Send(numbered(2, 1)...)
		synctest.Wait()
		a.Close()
		if ended, err := a.Ended(); !ended || !errors.Is(err, frame.ErrClosed) {
			t.Errorf("A: %v, %v", ended, err)
		}
		if ended, _ := b.Ended(); ended {
			t.Error("B has ended before it has all")
		}
		if err := b.WantEnd(t, "closed"); err != io.EOF {
			t.Errorf("B: %v", err)
		}
		want(t, "what was under way", firsts(b), "0 1")
		want(t, "to the end that closed", firsts(a), "")
		a.Close() // again
	})
	synctest.Test(t, func(t *testing.T) {
		l, a, b := scripts(t)
		ta, _ := l.Ends()
		ta.Abort(0, errStarted)
		if err := a.WantEnd(t, "aborted"); err != errStarted {
			t.Errorf("A: %v", err)
		}
		if err := b.WantEnd(t, "aborted"); err != io.ErrUnexpectedEOF {
			t.Errorf("B: %v", err)
		}
	})
}

// An endpoint is not asked before it wakes, and may close from elsewhere while it
// is inside.
type slowEnd struct {
	scriptEnd
	asked int
	gate  chan bool
	done  bool
}

func (e *slowEnd) Append(b []byte) ([]byte, frame.Type, bool) {
	e.asked++
	if e.gate != nil {
		<-e.gate
	}
	return b, 0, false
}

func (e *slowEnd) Closed(error) { e.done = true }

func TestEndpointContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(Info(), Info()).ByHand()
		ta, _ := l.Ends()
		e := &slowEnd{}
		if l.Take(A, 1) != 0 || ta.Start(e) != nil || ta.Start(e) == nil {
			t.Fatal("Start")
		}
		l.Take(A, 1)
		l.Take(A, 1)
		if e.asked != 1 {
			t.Errorf("asked %d times without a wake", e.asked)
		}
		ta.Wake()
		e.gate = make(chan bool)
		go l.Take(A, 1)
		synctest.Wait()
		go ta.Close()
		synctest.Wait()
		if e.done {
			t.Fatal("Closed while Append runs")
		}
		close(e.gate)
		synctest.Wait()
		if !e.done || e.asked != 2 || l.Take(A, 1) != 0 {
			t.Errorf("done: %v, asked %d times", e.done, e.asked)
		}
	})
}

func TestByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(Info(), Info()).ByHand()
		ta, tb := l.Ends()
		a, _ := NewScript(ta)
		b, _ := NewScript(tb)
		a.Send(numbered(5, 1)...)
		synctest.Wait()
		want(t, "nothing moves by itself", firsts(b), "")
		if n := l.Take(A, 3); n != 3 {
			t.Errorf("took %d", n)
		}
		l.AB.Delay(time.Minute)
		if n := l.Take(A, 9); n != 2 {
			t.Errorf("took %d", n)
		}
		if n := l.Deliver(B, 9); n != 3 { // the rest is not due
			t.Errorf("delivered %d", n)
		}
		want(t, "delivered", firsts(b), "0 1 2")
		a.Close()
		time.Sleep(time.Minute)
		if n := l.Deliver(B, 9); n != 2 {
			t.Errorf("delivered %d", n)
		}
		if err := b.WantEnd(t, "after the last"); err != io.EOF {
			t.Error(err)
		}
	})
}

func TestTap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(Info(), Info())
		ta, tb := l.Ends()
		var seen []string
		a, _ := NewScript(Tap(ta, func(sent bool, f frame.Frame) {
			seen = append(seen, fmt.Sprintf("%v %04x %x", sent, uint16(f.Type), f.Payload))
		}))
		b, _ := NewScript(tb)
		defer b.Close()
		defer a.Close()
		a.SendHex(0x0100, "01")
		b.WantFrame(t, "sent")
		b.SendHex(0x0101, "02")
		a.WantFrame(t, "answered")
		synctest.Wait()
		if want := []string{"true 0100 01", "false 0101 02"}; !slices.Equal(seen, want) {
			t.Errorf("saw %q", seen)
		}
	})
}

// A recorder stands for a test that fails.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(r)
}

func failure(f func(testing.TB)) string {
	r := new(recorder)
	func() {
		defer func() { recover() }()
		f(r)
	}()
	return r.failed
}

func TestMatchersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := scripts(t)
		if f := failure(func(t testing.TB) { a.WantFrame(t, "why") }); f != "why: nothing came for 10s" {
			t.Errorf("%q", f)
		}
		b.Send(numbered(3, 1)...)
		for _, test := range []struct {
			want string
			f    func(testing.TB)
		}{
			{"why:\n got 0100:00\nwant 0101:00", func(t testing.TB) { a.WantFrame(t, "why", OfType(0x0100), Hex(0x0101, "00")) }},
			{"why:\n got 0100:01\nwant a frame of type [0101 0102]", func(t testing.TB) { a.WantFrame(t, "why", OfType(0x0101, 0x0102)) }},
			{"why: 1 frames came, first 0100:02", func(t testing.TB) { a.WantSilence(t, "why", time.Second) }},
			{"why: it did not end within 10s", func(t testing.TB) { a.WantEnd(t, "why") }},
		} {
			if f := failure(test.f); f != test.want {
				t.Errorf("got %q, want %q", f, test.want)
			}
		}
		a.Take()
		b.Close()
		if f := failure(func(t testing.TB) { a.WantFrame(t, "why") }); f != "why: the association has ended: EOF" {
			t.Errorf("%q", f)
		}
	})
}

func TestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := scripts(t)
		b.Reply(func(f Frame) []Frame { return []Frame{{Type: f.Type + 1, Payload: f.Payload}} })
		a.SendHex(0x0100, "aa")
		a.WantFrame(t, "answered by rule", Hex(0x0101, "aa"))
		b.WantFrame(t, "and kept", Hex(0x0100, "aa"))
	})
}

// Flush takes a frame at once, but not while the endpoint is asked for one: then
// the link's own goroutine does later.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, byHand := range []bool{true, false} {
			l := NewLink(Info(), Info())
			if byHand {
				l.ByHand()
			}
			ta, _ := l.Ends()
			tapped := Tap(ta, func(bool, frame.Frame) {})
			if _, late := tapped.(later); late {
				t.Error("Late where there is none")
			}
			f := tapped.(flusher)
			f.Flush() // before Start
			e := &slowEnd{}
			if err := tapped.Start(e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			asked := e.asked
			f.Flush()
			if e.asked != asked+1 {
				t.Errorf("asked %d times, %d before", e.asked, asked)
			}
			synctest.Wait()
			e.gate = make(chan bool)
			go f.Flush()
			synctest.Wait()
			f.Flush() // returns
			asked = e.asked
			close(e.gate)
			synctest.Wait()
			if byHand {
				l.Take(A, 1)
			}
			if e.asked != asked+1 {
				t.Errorf("asked %d times, %d before", e.asked, asked)
			}
			ta.Close()
		}
	})
}
