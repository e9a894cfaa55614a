package frame

import "io"

// Buffer sizes of a Reader, in octets.
const (
	minReadBuf = 4 << 10 // an idle Reader holds this much
	// shrinkAfter is how many frames in a row have to fit a quarter of the
	// buffer before half of it is given back: long enough that a listing's
	// pages, with small frames between them, do not make it breathe.
	shrinkAfter = 64
	// maxEmptyReads is how often in a row the stream may give nothing and no error.
	maxEmptyReads = 100
)

// A Reader cuts an octet stream into frames. Frames that arrived together are
// handed out without further reads, and no octet is lost when a Read fails with
// a deadline error: the next call of Next goes on where it stopped.
//
// Memory: the buffer starts at 4 KiB. It grows only when it is full of octets
// of one frame whose header was checked, each time to at most twice what has
// arrived, so that a peer has to send what it makes us hold. It
// shrinks again after smaller frames, and at once by Shrink. In steady state a
// frame costs no allocation.
//
// A Reader belongs to one goroutine.
type Reader struct {
	r        io.Reader
	reserved Flags
	maxFrame int // octets, header included

	buf        []byte // buf[start:end] has been read and not handed out
	start, end int
	err        error // framing is lost, or the stream's error that came along with octets
	lost       bool  // err is a framing error and stays

	small int // frames in a row that fitted a quarter of buf
}

// NewReader returns a Reader on r. A frame with a flag of reserved set is
// refused: ReservedFlags3 in crypto generation 3, 0 in generation 2.
func NewReader(r io.Reader, reserved Flags) *Reader {
	return &Reader{r: r, reserved: reserved, maxFrame: MaxFrameLen, buf: make([]byte, minReadBuf)}
}

// SetMaxFrame sets the longest frame accepted, in octets, header included, for
// the frames not yet handed out: a peer that is not authenticated yet need not
// be given MaxFrameLen. n is kept within HeaderLen and MaxFrameLen.
func (r *Reader) SetMaxFrame(n int) { r.maxFrame = min(max(n, HeaderLen), MaxFrameLen) }

// Next returns the next frame: its header, and raw, which holds the header and
// the payload: raw[:AADLen] is what the AEAD authenticates, raw[HeaderLen:] what
// it opens. raw is valid until the next call and may be written to.
//
// A header that ParseHeader refuses, or with a reserved flag, or a frame over
// the limit ends the stream: that error is returned from then on. Errors of the
// stream are returned as they are, those of a deadline included, after every
// frame that had arrived whole; io.EOF comes between frames only, inside one it
// is io.ErrUnexpectedEOF. Next blocks as long as the stream's Read does.
func (r *Reader) Next() (h Header, raw []byte, err error) {
	if r.lost {
		return Header{}, nil, r.err
	}
	need := HeaderLen
	for {
		if r.end-r.start >= HeaderLen {
			h, err = r.parse()
			if err != nil {
				r.err, r.lost = err, true
				return Header{}, nil, err
			}
			need = HeaderLen + int(h.PayloadLen)
			if r.end-r.start >= need {
				break
			}
		}
		if err := r.fill(need); err != nil {
			return Header{}, nil, err
		}
	}
	raw = r.buf[r.start : r.start+need : r.start+need]
	r.start += need
	if need <= len(r.buf)/4 {
		r.small++
	} else {
		r.small = 0
	}
	return h, raw, nil
}

func (r *Reader) parse() (Header, error) {
	h, err := ParseHeader(r.buf[r.start:r.end])
	switch {
	case err != nil:
		return Header{}, err
	case h.Flags&r.reserved != 0:
		return Header{}, ErrReservedFlag
	case HeaderLen+int(h.PayloadLen) > r.maxFrame:
		return Header{}, ErrTooLong
	}
	return h, nil
}

// fill reads once, making room first. need is the length of the frame that
// starts at r.start, as far as it is known.
func (r *Reader) fill(need int) error {
	if err := r.err; err != nil {
		r.err = nil // a deadline may have been moved since
		return r.streamErr(err)
	}
	r.makeRoom(need)
	for range maxEmptyReads {
		n, err := r.r.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			panic("BUG: frame: stream returned an impossible count")
		}
		r.end += n
		switch {
		case n > 0:
			r.err = err
			return nil
		case err != nil:
			return r.streamErr(err)
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) streamErr(err error) error {
	if err == io.EOF && r.end > r.start {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom leaves at least one octet of space behind r.end.
func (r *Reader) makeRoom(need int) {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if r.small >= shrinkAfter && len(r.buf) > minReadBuf {
			r.resize(len(r.buf) / 2)
			r.small = 0
		}
		return
	}
	if r.start+need <= len(r.buf) {
		return // the frame fits where it lies
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end < len(r.buf) {
		return
	}
	// Full of one frame. Half of need, a quarter of it, … whichever is at most
	// twice what arrived: all the steps together allocate less than 2 × need.
	for need > 2*len(r.buf) {
		need = (need + 1) / 2
	}
	r.resize(need)
}

// resize moves what is buffered into a new buffer of n octets, rounded up to
// whole multiples of minReadBuf.
func (r *Reader) resize(n int) {
	buf := make([]byte, (n+minReadBuf-1)/minReadBuf*minReadBuf)
	r.end = copy(buf, r.buf[r.start:r.end])
	r.start, r.buf = 0, buf
}

// Shrink gives back the memory beyond what is buffered, down to 4 KiB. It is
// for a stream that fell silent: Next returned a deadline error. What an
// earlier Next returned is no longer valid.
func (r *Reader) Shrink() {
	if n := max(r.end-r.start, minReadBuf); n < len(r.buf) {
		r.resize(n)
	}
}

// Ready reports whether a whole frame is buffered, if what is buffered is one.
func (r *Reader) Ready() bool {
	b := r.buf[r.start:r.end]
	return len(b) >= HeaderLen && uint64(len(b)-HeaderLen) >= uint64(payloadLen(b))
}

// Size returns how many octets of memory the Reader's buffer takes.
func (r *Reader) Size() int { return len(r.buf) }
