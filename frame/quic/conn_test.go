package quic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// aFrame returns a frame, which no key sealed.
func aFrame(id frame.ChannelID, typ frame.Type, payload string) []byte {
	b := frame.AppendHeader(nil, frame.Header{Type: typ, Channel: id, PayloadLen: uint32(len(payload))})
	return append(b, payload...)
}

// connPair returns the two ends of a connection, with no association on it. They
// are open.
func connPair(t *testing.T) (client, server *conn) {
	t.Helper()
	client, server = handshakePair(t)
	client.Open()
	server.Open()
	return client, server
}

// handshakePair is connPair before Open.
func handshakePair(t *testing.T) (client, server *conn) {
	t.Helper()
	accepted := make(chan *conn, 1)
	cfg := serverConfig()
	l, err := association.ListenWith(cfg, func(cfg *association.Config) (net.Listener, error) {
		ln, err := newListener("127.0.0.1:0", cfg, defaultTiming)
		return spy{ln, accepted}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	failed := errors.New("stop here")
	_, err = association.DialWith(wait(t), "127.0.0.1", clientConfig(), func(ctx context.Context, cfg *association.Config) (net.Conn, error) {
		c, err := dialFirst(ctx, addrPorts(t, l.Addr().String()), cfg, defaultTiming)
		if err != nil {
			return nil, err
		}
		client = c.(*conn)
		return nil, failed // the test has it now
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() {
		var wg sync.WaitGroup
		wg.Go(func() { client.Close() })
		server.Close()
		wg.Wait()
	})
	return client, server
}

// spy hands what it accepts to the test instead of an association.
type spy struct {
	net.Listener
	to chan<- *conn
}

func (s spy) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err == nil {
		s.to <- c.(*conn)
		c, err = s.Listener.Accept() // nobody comes
	}
	return c, err
}

// readFrames reads n frames.
func readFrames(t *testing.T, c *conn, n int) (frames []string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := frame.NewReader(c, 0)
	for range n {
		_, raw, err := r.Next()
		if err != nil {
			t.Fatalf("after %d of %d frames: %v", len(frames), n, err)
		}
		frames = append(frames, string(raw))
	}
	return frames
}

// write writes frames in one Write.
func write(t *testing.T, c *conn, frames ...[]byte) {
	t.Helper()
	b := bytes.Join(frames, nil)
	if n, err := c.Write(b); n != len(b) || err != nil {
		t.Fatalf("wrote %d of %d octets: %v", n, len(b), err)
	}
}

// One Write is cut by channel, and each channel arrives in order on a stream of its
// own.
//
// Covers: C57
func TestRouting(t *testing.T) {
	c, s := connPair(t)
	channels := []frame.ChannelID{frame.ChannelControl, frame.ChannelDiscovery, 0xF123}
	var sent [][]byte
	want := make(map[frame.ChannelID][]string)
	for i := range 60 {
		id := channels[i*i/3%len(channels)]
		f := aFrame(id, frame.Type(0x100+i), strings.Repeat("x", i*i*20))
		sent = append(sent, f)
		want[id] = append(want[id], string(f))
	}
	var wg sync.WaitGroup
	wg.Go(func() { write(t, c, sent...) })
	got := make(map[frame.ChannelID][]string)
	for _, f := range readFrames(t, s, len(sent)) {
		h, _ := frame.ParseHeader([]byte(f))
		got[h.Channel] = append(got[h.Channel], f)
	}
	wg.Wait()
	for _, id := range channels {
		if strings.Join(got[id], "") != strings.Join(want[id], "") {
			t.Errorf("%v: %d frames, want %d, or others", id, len(got[id]), len(want[id]))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) != 3 || s.streams[0].s.StreamID() != 0 || s.streams[0].id != frame.ChannelControl {
		t.Errorf("%d streams, the first is %v", len(s.streams), s.streams[0].id)
	}
	for i, st := range s.streams {
		if int(st.s.StreamID()) != 4*i {
			t.Errorf("stream %d is not a bidirectional one of the client", st.s.StreamID())
		}
	}
}

// Only whole frames are taken.
func TestWriteWholeFrames(t *testing.T) {
	c, _ := connPair(t)
	whole := aFrame(frame.ChannelDiscovery, 0x100, "payload")
	for name, b := range map[string][]byte{
		"half a header":  whole[:20],
		"half a frame":   whole[:40],
		"no frame":       make([]byte, 40),
		"one and a half": append(bytes.Clone(whole), whole[:40]...),
	} {
		if n, err := c.Write(b); err == nil || n != 0 {
			t.Errorf("%s: wrote %d octets, %v", name, n, err)
		}
	}
	if n, err := c.Write(nil); n != 0 || err != nil {
		t.Errorf("nothing: wrote %d octets, %v", n, err)
	}
}

// Before Open, one frame of Control at a time is read, none over 4 KiB, and no
// stream but the first.
//
// Covers: C57
func TestBeforeOpen(t *testing.T) {
	c, s := handshakePair(t)
	first := aFrame(frame.ChannelControl, 0x100, "hello")
	long := aFrame(frame.ChannelControl, 0x101, strings.Repeat("x", 5000))
	other := aFrame(frame.ChannelDiscovery, 0x100, "early")
	write(t, c, first, other, long)
	if got := readFrames(t, s, 1); got[0] != string(first) {
		t.Errorf("got %q", got)
	}
	s.Open()
	got := readFrames(t, s, 2)
	if got[0] == string(other) {
		got[0], got[1] = got[1], got[0]
	}
	if got[0] != string(long) || got[1] != string(other) {
		t.Error("not what was sent")
	}

	c, s = handshakePair(t)
	write(t, c, long)
	s.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := s.Read(make([]byte, 10)); !errors.Is(err, frame.ErrTooLong) {
		t.Errorf("a long frame before Open: %v", err)
	}
}

// Deadlines: reading and writing stop at them and go on when they are moved, with
// nothing lost.
//
// Covers: C57
func TestDeadlines(t *testing.T) {
	c, s := connPair(t)
	past := time.Unix(1, 0)
	b := make([]byte, 1000)

	s.SetReadDeadline(past)
	if _, err := s.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after the deadline: %v", err)
	}
	s.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := s.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read until the deadline: %v", err)
	}
	s.SetReadDeadline(time.Time{})
	failed := make(chan error)
	go func() {
		_, err := s.Read(b)
		failed <- err
	}()
	s.SetReadDeadline(past)
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read under way: %v", err)
	}

	// The server waits for the client to begin the channel's stream.
	f := aFrame(frame.ChannelDiscovery, 0x100, "payload")
	s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := s.Write(f); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "began no stream") {
		t.Errorf("wrote %d octets without a stream: %v", n, err)
	}
	s.SetDeadline(time.Time{})
	go func() {
		_, err := s.Write(f)
		failed <- err
	}()
	write(t, c, f)
	if err := <-failed; err != nil {
		t.Errorf("Write once there is a stream: %v", err)
	}
	if got := readFrames(t, c, 1); got[0] != string(f) {
		t.Errorf("got %q", got)
	}

	// A peer that does not read stops the writer.
	huge := aFrame(frame.ChannelDiscovery, 0x101, strings.Repeat("x", 4<<20))
	c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Write(bytes.Repeat(huge, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write to who does not read: %v", err)
	}
}

// A stream's buffer is given back when the stream falls silent, with what has come
// of a frame kept.
//
// Covers: C57
func TestShrink(t *testing.T) {
	c, s := handshakePair(t)
	huge := aFrame(frame.ChannelControl, 0x100, strings.Repeat("x", 1<<20))
	small := aFrame(frame.ChannelControl, 0x101, "small")
	var wg sync.WaitGroup
	wg.Go(func() { write(t, c, huge) })
	// The test reads itself: before Open, receive waits to be asked.
	var st *stream
	for st == nil {
		s.mu.Lock()
		changed := s.changed
		if len(s.streams) > 0 {
			st = s.streams[0]
		}
		s.mu.Unlock()
		if st == nil {
			<-changed
		}
	}
	frames := frame.NewReader(st.s, 0)
	frames.SetMaxFrame(frame.MaxFrameLen)
	if _, raw, err := st.next(frames); err != nil || !bytes.Equal(raw, huge) {
		t.Fatal(err)
	}
	wg.Wait()
	if frames.Size() < 1<<20 {
		t.Fatalf("%d octets hold 1 MiB", frames.Size())
	}
	got := make(chan error)
	go func() {
		_, raw, err := st.next(frames)
		if err == nil && !bytes.Equal(raw, small) {
			err = errors.New("not what was sent")
		}
		got <- err
	}()
	later := time.NewTimer(idleAfter + 500*time.Millisecond)
	defer later.Stop()
	select {
	case err := <-got:
		t.Fatal("came without being sent:", err)
	case <-later.C:
	}
	write(t, c, small)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if frames.Size() > idleBuffer {
		t.Errorf("%d octets are held", frames.Size())
	}
}

// CLOSE waits for what was sent before it on other streams: until these have
// ended, and for streams that are to come too; and no longer than lingerTimeout
// where a peer leaves them open.
//
// Covers: CORE-g3-04, C57
func TestCloseOrder(t *testing.T) {
	closeFrame := aFrame(frame.ChannelControl, frame.TypeClose, "")
	fastest := time.Hour // on a busy machine some take long
	for range 20 {
		c, s := connPair(t)
		var sent [][]byte
		for i := range 50 {
			sent = append(sent, aFrame(frame.ChannelDiscovery, frame.Type(0x100+i), strings.Repeat("x", 2000)))
		}
		var wg sync.WaitGroup
		wg.Go(func() { write(t, c, append(sent, closeFrame)...) })
		began := time.Now()
		got := readFrames(t, s, len(sent)+1)
		wg.Wait()
		if got[len(sent)] != string(closeFrame) {
			t.Fatal("CLOSE is not the last")
		}
		fastest = min(fastest, time.Since(began))
		if _, err := c.Write(sent[0]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a frame after CLOSE: %v", err)
		}
		write(t, c, aFrame(frame.ChannelControl, frame.TypeCloseAck, ""))
		readFrames(t, s, 1)
	}
	if fastest > lingerTimeout/2 {
		t.Errorf("CLOSE came after %v", fastest)
	}

	// A client that never begins Discovery's stream; one that leaves it open.
	c, s := connPair(t)
	write(t, c, closeFrame)
	began := time.Now()
	readFrames(t, s, 1)
	if took := time.Since(began); took < lingerTimeout/2 {
		t.Errorf("CLOSE did not wait for a stream that was to come: %v", took)
	}
	c, s = connPair(t)
	late := aFrame(frame.ChannelDiscovery, 0x100, "late")
	write(t, c, late)
	readFrames(t, s, 1)
	control := c.streams[0].s
	if _, err := control.Write(closeFrame); err != nil { // the stream of Discovery stays open
		t.Fatal(err)
	}
	got := readFrames(t, s, 1)
	if got[0] != string(closeFrame) {
		t.Errorf("got %q", got)
	}
	write(t, c, late)
	if got := readFrames(t, s, 1); got[0] != string(late) {
		t.Errorf("got %q behind a CLOSE that was none", got)
	}
}

// Both directions of the end: io.EOF behind the last frame of every stream, and
// behind a close with code 0; another error otherwise.
//
// Covers: C57
func TestEnds(t *testing.T) {
	read := func(c *conn) error {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := io.Copy(io.Discard, c)
		if err == nil {
			err = io.EOF
		}
		return err
	}
	both := [][]byte{aFrame(frame.ChannelControl, 0x100, "a"), aFrame(frame.ChannelDiscovery, 0x100, "b")}

	c, s := connPair(t)
	write(t, c, both...)
	c.CloseWrite()
	if got := readFrames(t, s, 2); len(got) != 2 {
		t.Error(got)
	}
	if err := read(s); err != io.EOF {
		t.Errorf("after CloseWrite: %v", err)
	}
	write(t, s, both...) // the other direction still goes, also right before Close
	go s.Close()
	readFrames(t, c, 2)
	if err := read(c); err != io.EOF {
		t.Errorf("after both ends: %v", err)
	}

	c, s = connPair(t)
	for range 20 {
		write(t, c, both...)
	}
	go c.Close()
	readFrames(t, s, 40)
	if err := read(s); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("our own Read: %v", err)
	}
	if _, err := c.Write(both[0]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("our own Write: %v", err)
	}
	s.Close()
	c.Close()

	for code, want := range map[uint64]error{0: io.EOF, 1: errText("code 1"), 2: errText("connection reset"), 7: errText(`code 7: "why\n"`)} {
		c, s := connPair(t)
		write(t, c, both...)
		readFrames(t, s, 2)
		c.qc.CloseWithError(quicgo.ApplicationErrorCode(code), "why\n")
		err := read(s)
		if text, ok := want.(errText); ok && !strings.Contains(err.Error(), string(text)) || !ok && err != want {
			t.Errorf("code %d: %v, want %v", code, err, want)
		}
		if errors.Is(err, net.ErrClosed) {
			t.Errorf("code %d: %v is as if we had closed", code, err)
		}
		if _, err := s.Write(both[0]); err == nil || errors.Is(err, net.ErrClosed) {
			t.Errorf("code %d: Write: %v", code, err)
		}
	}

	c, s = connPair(t)
	write(t, c, both...)
	readFrames(t, s, 2)
	c.Cut()
	if err := read(s); err == io.EOF {
		t.Error("cut off, but in order")
	}
	c.Cut() // as often as one likes
	c.Close()
	c.Cut()
	c.Close()
}

type errText string

func (e errText) Error() string { return string(e) }

// Two sides that both have ended their streams wait for nothing.
//
// Covers: C57
func TestCloseTakesNoTime(t *testing.T) {
	fastest := time.Hour // on a busy machine some take long
	for range 20 {
		c, s := connPair(t)
		f := aFrame(frame.ChannelDiscovery, 0x100, "payload")
		write(t, c, f)
		readFrames(t, s, 1)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { c.Close() })
		s.Close()
		wg.Wait()
		fastest = min(fastest, time.Since(began))
	}
	if fastest > lingerTimeout/2 {
		t.Errorf("took %v", fastest)
	}
}

// A deadline passes, is moved, and passes again.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeadline()
		began := time.Now()
		d.set(began.Add(time.Second))
		<-d.wait()
		if time.Since(began) != time.Second {
			t.Errorf("passed after %v", time.Since(began))
		}
		d.set(time.Time{})
		if isClosed(d.wait()) {
			t.Error("passed though there is none")
		}
		first := d.wait()
		d.set(time.Now().Add(time.Hour))
		d.set(time.Now().Add(time.Minute))
		began = time.Now()
		<-first
		if time.Since(began) != time.Minute {
			t.Errorf("passed after %v", time.Since(began))
		}
		d.set(time.Now().Add(-1))
		if !isClosed(d.wait()) {
			t.Error("not passed though it lies behind")
		}
		d.set(time.Now().Add(time.Second))
		d.set(time.Time{})
		time.Sleep(time.Hour)
		if isClosed(d.wait()) {
			t.Error("passed though it was taken back")
		}
	})
}
