package channel

import (
	"encoding/binary"

	"github.com/npamp/disco/disco"
)

// corrs are the corrs of our own requests: 8 octets that are random for each
// peer, then the request's number, from 1 on. What we keep of a request is kept
// under its number.
type corrs struct {
	prefix [8]byte
	last   uint64
}

const ownCorrLen = 16

// next returns a number that was never used.
func (c *corrs) next() uint64 {
	c.last++
	return c.last
}

// corr returns the corr of a number.
func (c *corrs) corr(number uint64) disco.Corr {
	var b [ownCorrLen]byte
	copy(b[:], c.prefix[:])
	binary.BigEndian.PutUint64(b[len(c.prefix):], number)
	return disco.Corr(b[:])
}

// number returns the number of a corr; 0 for one that is not of ours.
func number[T ~string | ~[]byte](c *corrs, corr T) uint64 {
	if len(corr) != ownCorrLen || string(corr[:len(c.prefix)]) != string(c.prefix[:]) {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(corr[len(c.prefix):]))
}

// retiredCorrs remembers the own corrs that are done, the last max of them.
type retiredCorrs struct {
	max  int
	ring []retiredCorr
	next int
}

// retiredCorr counts the QUERYs sent and the RESULTs that came under one corr;
// asked is 0 for a subscription.
type retiredCorr struct {
	number     uint64
	asked, got int32
}

func (r *retiredCorrs) add(number uint64, asked, got int) {
	c := retiredCorr{number, int32(asked), int32(got)}
	switch {
	case r.max <= 0:
	case len(r.ring) < r.max:
		r.ring = append(r.ring, c)
	default:
		r.ring[r.next] = c
		r.next = (r.next + 1) % r.max
	}
}

// find returns what is remembered of a corr, or nil. Nearly no reply is late, so
// that adding has to be quick, and not this.
func (r *retiredCorrs) find(number uint64) *retiredCorr {
	for i := range r.ring {
		if r.ring[i].number == number {
			return &r.ring[i]
		}
	}
	return nil
}
