package fuzz

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/testvectors"
)

// FuzzFrames feeds the frame reader a stream whole and one octet at a time: it
// cuts both into the same frames and ends both with the same error, and every
// frame it hands out is a header that says so with the payload it names.
func FuzzFrames(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	var all []byte
	for _, fr := range set.Frames {
		f.Add([]byte(fr.Frame))
		all = append(all, fr.Frame...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, reserved := range []frame.Flags{0, frame.ReservedFlags3} {
			whole, err := cut(frame.NewReader(bytes.NewReader(b), reserved), t)
			single, err1 := cut(frame.NewReader(iotest.OneByteReader(bytes.NewReader(b)), reserved), t)
			if err != err1 {
				t.Fatalf("whole: %v; one octet at a time: %v", err, err1)
			}
			if len(whole) != len(single) {
				t.Fatalf("whole: %d frames; one octet at a time: %d", len(whole), len(single))
			}
			for i := range whole {
				if !bytes.Equal(whole[i], single[i]) {
					t.Fatalf("frame %d:\n%x\n%x", i, whole[i], single[i])
				}
			}
			if err == io.EOF && !bytes.Equal(bytes.Join(whole, nil), b) {
				t.Fatal("octets were lost")
			}
		}
	})
}

func cut(r *frame.Reader, t *testing.T) (frames [][]byte, err error) {
	for {
		h, raw, err := r.Next()
		if err != nil {
			return frames, err
		}
		if len(raw) != frame.HeaderLen+int(h.PayloadLen) || !bytes.Equal(frame.AppendHeader(nil, h), raw[:frame.HeaderLen]) {
			t.Fatalf("header %+v of %x", h, raw)
		}
		frames = append(frames, bytes.Clone(raw))
	}
}
