package frame

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/iotest"
)

// testFrame returns a frame of n payload octets, each of them byte(seq).
func testFrame(seq uint64, n int) []byte {
	b := AppendHeader(nil, Header{Flags: FlagENC, Type: 0x0100, Channel: ChannelDiscovery, Seq: seq, PayloadLen: uint32(n)})
	return append(b, bytes.Repeat([]byte{byte(seq)}, n)...)
}

// A step is what one Read of a script does.
type step struct {
	b   []byte
	err error
}

// A script is a stream that gives one step a Read, or part of one where the
// buffer is short.
type script struct {
	steps []step
	reads int
}

func (s *script) Read(p []byte) (int, error) {
	if len(p) == 0 {
		panic("Read with no room")
	}
	s.reads++
	if len(s.steps) == 0 {
		return 0, io.EOF
	}
	st := &s.steps[0]
	n := copy(p, st.b)
	if st.b = st.b[n:]; len(st.b) > 0 {
		return n, nil
	}
	err := st.err
	s.steps = s.steps[1:]
	return n, err
}

func wantFrame(t *testing.T, r *Reader, want []byte) {
	t.Helper()
	h, raw, err := r.Next()
	if err != nil || !bytes.Equal(raw, want) {
		t.Fatalf("Next: %d octets, %v, want %d octets %x…", len(raw), err, len(want), want[:HeaderLen])
	}
	if int(h.PayloadLen) != len(want)-HeaderLen || !bytes.Equal(AppendHeader(nil, h), want[:HeaderLen]) {
		t.Fatalf("Next: header %+v does not fit %x", h, want[:HeaderLen])
	}
}

func wantErr(t *testing.T, r *Reader, want error) {
	t.Helper()
	if h, raw, err := r.Next(); err != want || raw != nil || h != (Header{}) {
		t.Fatalf("Next: %+v, %d octets, %v, want %v alone", h, len(raw), err, want)
	}
}

func TestReaderCuts(t *testing.T) {
	sizes := []int{0, 1, 24, minReadBuf - HeaderLen - 1, minReadBuf - HeaderLen, minReadBuf - HeaderLen + 1, 3, 0, 300 << 10, 5000, 17, 0}
	var all []byte
	var frames [][]byte
	for i, n := range sizes {
		frames = append(frames, testFrame(uint64(i), n))
		all = append(all, frames[i]...)
	}
	for name, stream := range map[string]io.Reader{
		"at once":      bytes.NewReader(all),
		"one octet":    iotest.OneByteReader(bytes.NewReader(all)),
		"halves":       iotest.HalfReader(bytes.NewReader(all)),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(stream, ReservedFlags3)
			for _, f := range frames {
				wantFrame(t, r, f)
			}
			wantErr(t, r, io.EOF)
			wantErr(t, r, io.EOF)
		})
	}
}

// Frames that arrived in one Read cost one Read.
func TestReaderBatches(t *testing.T) {
	var all []byte
	for i := range 20 {
		all = append(all, testFrame(uint64(i), 50)...)
	}
	s := &script{steps: []step{{b: all}}}
	r := NewReader(s, 0)
	for i := range 20 {
		wantFrame(t, r, testFrame(uint64(i), 50))
	}
	if s.reads != 1 {
		t.Errorf("%d reads for 20 frames that came together, want 1", s.reads)
	}
}

// Ready is true exactly where Next does not read.
func TestReaderReady(t *testing.T) {
	one, two := testFrame(0, 50), testFrame(1, 0)
	all := append(bytes.Clone(one), two...)
	for n := 1; n <= len(all); n++ {
		s := &script{steps: []step{{b: all[:n]}, {b: all[n:]}, {b: one}}}
		r := NewReader(s, 0)
		for _, want := range [][]byte{one, two, one} {
			ready, reads := r.Ready(), s.reads
			wantFrame(t, r, want)
			if ready != (s.reads == reads) {
				t.Errorf("%d octets first: ready %v, %d reads", n, ready, s.reads-reads)
			}
		}
	}
}

// A frame may be written to, and does not reach into the next.
func TestReaderFrameIsolated(t *testing.T) {
	s := &script{steps: []step{{b: append(testFrame(1, 8), testFrame(2, 8)...)}}}
	r := NewReader(s, 0)
	_, raw, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	_ = append(raw, bytes.Repeat([]byte{0xFF}, 100)...)
	wantFrame(t, r, testFrame(2, 8))
}

// Deadline errors come between any two octets; none is lost.
func TestReaderDeadline(t *testing.T) {
	f := append(testFrame(1, 6000), testFrame(2, 10)...)
	for cut := range len(f) + 1 {
		if cut > 50 && cut < len(f)-60 && cut%97 != 0 {
			continue
		}
		for _, together := range []bool{false, true} { // the error with the octets, or after them
			steps := []step{{b: f[:cut:cut], err: os.ErrDeadlineExceeded}, {b: f[cut:]}}
			if !together {
				steps = []step{{b: f[:cut:cut]}, {err: os.ErrDeadlineExceeded}, {b: f[cut:]}}
			}
			r := NewReader(&script{steps: steps}, 0)
			var got []byte
			deadlines := 0
			for {
				_, raw, err := r.Next()
				if errors.Is(err, os.ErrDeadlineExceeded) {
					deadlines++
					r.Shrink()
					continue
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				got = append(got, raw...)
			}
			if !bytes.Equal(got, f) || deadlines != 1 {
				t.Fatalf("cut at %d, together %v: %d octets, %d deadline errors, want %d and 1", cut, together, len(got), deadlines, len(f))
			}
		}
	}
}

func TestReaderEnds(t *testing.T) {
	f := testFrame(1, 10)
	for _, n := range []int{1, HeaderLen - 1, HeaderLen, len(f) - 1} {
		r := NewReader(bytes.NewReader(append(testFrame(0, 3), f[:n]...)), 0)
		wantFrame(t, r, testFrame(0, 3))
		wantErr(t, r, io.ErrUnexpectedEOF)
	}
	boom := errors.New("boom")
	r := NewReader(&script{steps: []step{{b: testFrame(0, 3), err: boom}}}, 0)
	wantFrame(t, r, testFrame(0, 3))
	wantErr(t, r, boom)

	r = NewReader(&script{steps: make([]step, 2*maxEmptyReads)}, 0)
	wantErr(t, r, io.ErrNoProgress)
}

// Covers: CORE-4.3-01
func TestReaderRefuses(t *testing.T) {
	flag := func(f Flags) []byte {
		return AppendHeader(nil, Header{Flags: FlagENC | f, Type: 0x0100, Channel: ChannelDiscovery})
	}
	corrupt := testFrame(1, 4)
	corrupt[22] ^= 1
	tests := []struct {
		name     string
		reserved Flags
		bad      []byte
		want     error
	}{
		{"checksum", 0, corrupt, ErrChecksum},
		{"URG, generation 3", ReservedFlags3, flag(FlagURG), ErrReservedFlag},
		{"FRAG, generation 3", ReservedFlags3, flag(FlagFRAG), ErrReservedFlag},
		{"COMP, generation 3", ReservedFlags3, flag(FlagCOMP), nil},
		{"URG and FRAG, generation 2", 0, flag(FlagURG | FlagFRAG), nil},
		{"100 octets", 0, testFrame(1, 64), nil},
		{"101 octets", 0, testFrame(1, 65), ErrTooLong},
		{"16 MiB and one, by the header alone", 0, AppendHeader(nil, Header{PayloadLen: MaxFrameLen - HeaderLen + 1}), ErrTooLong},
	}
	for _, tt := range tests {
		r := NewReader(bytes.NewReader(append(append(testFrame(0, 3), tt.bad...), testFrame(2, 3)...)), tt.reserved)
		r.SetMaxFrame(100)
		wantFrame(t, r, testFrame(0, 3))
		if tt.want == nil {
			wantFrame(t, r, tt.bad)
			wantFrame(t, r, testFrame(2, 3))
			continue
		}
		wantErr(t, r, tt.want)
		r.SetMaxFrame(MaxFrameLen)
		wantErr(t, r, tt.want) // framing is lost for good
		if r.Size() > minReadBuf {
			t.Errorf("%s: %d octets of buffer for a refused frame", tt.name, r.Size())
		}
	}
}

// A peer has to send what it makes us hold.
func TestReaderGrowth(t *testing.T) {
	const declared = MaxFrameLen - HeaderLen
	head := AppendHeader(nil, Header{PayloadLen: declared})
	r := NewReader(&script{steps: []step{{b: head}, {err: os.ErrDeadlineExceeded}}}, 0)
	wantErr(t, r, os.ErrDeadlineExceeded)
	if r.Size() != minReadBuf {
		t.Errorf("%d octets of buffer for a bare header that declares 16 MiB", r.Size())
	}

	arrived := len(head)
	chunk := make([]byte, 1000)
	r = NewReader(readerFunc(func(p []byte) (int, error) {
		n := copy(p, chunk)
		if arrived == len(head) && r.end == 0 {
			return copy(p, head), nil
		}
		arrived += n
		return n, os.ErrDeadlineExceeded
	}), 0)
	for {
		_, raw, err := r.Next()
		if max := max(2*arrived+minReadBuf, minReadBuf); r.Size() > max {
			t.Fatalf("%d octets of buffer after %d arrived", r.Size(), arrived)
		}
		if err == nil {
			if len(raw) != MaxFrameLen {
				t.Fatalf("frame of %d octets, want %d", len(raw), MaxFrameLen)
			}
			break
		}
	}
	if r.Size() != MaxFrameLen {
		t.Errorf("%d octets of buffer for one frame of 16 MiB", r.Size())
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// All the buffers on the way to a frame of 1 MiB take less than 2 × its length
// and what the Reader started with.
func TestReaderGrowthTotal(t *testing.T) {
	f := testFrame(1, 1<<20)
	r := NewReader(bytes.NewReader(f), 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(2*len(f)+64<<10); got > limit {
		t.Errorf("%d octets allocated for a frame of %d, limit %d", got, len(f), limit)
	}
}

func TestReaderShrinks(t *testing.T) {
	big, small := testFrame(1, 200<<10), testFrame(2, 100)
	steps := []step{{b: big}}
	for range 10 * shrinkAfter {
		steps = append(steps, step{b: small})
	}
	r := NewReader(&script{steps: steps}, 0)
	wantFrame(t, r, big)
	if r.Size() < len(big) {
		t.Fatalf("buffer of %d octets holds a frame of %d", r.Size(), len(big))
	}
	for range shrinkAfter / 2 {
		wantFrame(t, r, small)
	}
	if r.Size() < len(big) {
		t.Errorf("buffer shrank to %d after %d small frames; the next page needs it", r.Size(), shrinkAfter/2)
	}
	for range 10*shrinkAfter - shrinkAfter/2 {
		wantFrame(t, r, small)
	}
	if r.Size() != minReadBuf {
		t.Errorf("buffer of %d octets after %d small frames, want %d", r.Size(), 10*shrinkAfter, minReadBuf)
	}

	// At once, keeping what has arrived of the next frame.
	r = NewReader(&script{steps: []step{{b: append(bytes.Clone(big), small[:50]...)}, {err: os.ErrDeadlineExceeded}, {b: small[50:]}}}, 0)
	wantFrame(t, r, big)
	wantErr(t, r, os.ErrDeadlineExceeded)
	if r.Shrink(); r.Size() != minReadBuf || r.end-r.start != 50 {
		t.Errorf("after Shrink: buffer of %d octets, %d buffered, want %d and 50", r.Size(), r.end-r.start, minReadBuf)
	}
	wantFrame(t, r, small)
}

func TestReaderAllocs(t *testing.T) {
	for _, n := range []int{24, 4096, 300 << 10} {
		f := testFrame(1, n)
		left := f
		r := NewReader(readerFunc(func(p []byte) (int, error) {
			n := copy(p, left)
			if left = left[n:]; len(left) == 0 {
				left = f
			}
			return n, nil
		}), 0)
		next := func() {
			if _, raw, err := r.Next(); err != nil || len(raw) != len(f) {
				t.Fatal(len(raw), err)
			}
		}
		next()
		if got := testing.AllocsPerRun(200, next); got != 0 {
			t.Errorf("payload of %d octets: %v allocations a frame, want 0", n, got)
		}
	}
}

// However a stream is cut into reads, the frames are those of the whole.
func FuzzReader(f *testing.F) {
	f.Add(append(testFrame(1, 5), testFrame(2, 5000)...), uint16(7), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16, every uint8) {
		whole := NewReader(bytes.NewReader(b), ReservedFlags3)
		left, reads := b, 0
		parts := NewReader(readerFunc(func(p []byte) (int, error) {
			if reads++; every > 0 && reads%int(every) == 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if len(left) == 0 {
				return 0, io.EOF
			}
			n := copy(p, left[:min(len(left), int(cut)+1)])
			left = left[n:]
			return n, nil
		}), ReservedFlags3)
		if every == 1 {
			return // nothing but deadlines
		}
		for {
			h1, raw1, err1 := whole.Next()
			h2, raw2, err2 := parts.Next()
			for err2 == os.ErrDeadlineExceeded {
				h2, raw2, err2 = parts.Next()
			}
			if h1 != h2 || !bytes.Equal(raw1, raw2) || err1 != err2 {
				t.Fatalf("whole: %+v, %x, %v\nparts: %+v, %x, %v", h1, raw1, err1, h2, raw2, err2)
			}
			if err1 != nil {
				return
			}
		}
	})
}

func BenchmarkReader(b *testing.B) {
	f := testFrame(1, 100)
	all := bytes.Repeat(f, 160)
	src := bytes.NewReader(all)
	r := NewReader(readerFunc(func(p []byte) (int, error) {
		if src.Len() == 0 {
			src.Reset(all)
		}
		return src.Read(p)
	}), ReservedFlags3)
	b.SetBytes(int64(len(f)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
