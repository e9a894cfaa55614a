package channel

import (
	"encoding/binary"
	"iter"

	"github.com/npamp/disco/disco"
)

// An exchange is an own request under way. Its methods run on the reading
// goroutine with the peer's mutex held.
type exchange interface {
	// result takes a RESULT under the exchange's corr.
	result(r disco.Result)
	// refused takes a DISCO_ERROR, or the fault of a reply that cannot be read.
	refused(err error)
	// ended takes the end of the association.
	ended(cause error)
}

// exchanges are our own requests under way, and their corrs: 8 octets that are
// random for each peer, then the request's number, which only rises. A request is
// kept at the place that its number's last bits name, and a number whose place is
// taken is left out: so that nothing has to be looked for. With a map a change that
// concerns 10,000 subscriptions takes a tenth more time.
type exchanges struct {
	prefix [8]byte
	last   uint64  // number
	places []place // 2^k of them
	n      int     // under way
}

type place struct {
	number uint64
	x      exchange // nil where the place is free
}

const ownCorrLen = 16

// begin gives an exchange a number that was never used, from 1 on.
func (e *exchanges) begin(x exchange) uint64 {
	if 4*e.n >= 3*len(e.places) {
		e.grow()
	}
	for {
		e.last++
		if p := e.place(e.last); p.x == nil {
			*p = place{e.last, x}
			e.n++
			return e.last
		}
	}
}

// grow makes twice as many places. What had different ones has so again.
func (e *exchanges) grow() {
	old := e.places
	e.places = make([]place, max(8, 2*len(old)))
	for _, p := range old {
		if p.x != nil {
			*e.place(p.number) = p
		}
	}
}

func (e *exchanges) place(number uint64) *place {
	return &e.places[number&uint64(len(e.places)-1)]
}

// end gives the place up, once.
func (e *exchanges) end(number uint64) {
	if e.find(number) != nil {
		*e.place(number) = place{}
		e.n--
	}
}

// find returns the exchange under way, nil for none.
func (e *exchanges) find(number uint64) exchange {
	if len(e.places) > 0 {
		if p := e.place(number); p.number == number {
			return p.x
		}
	}
	return nil
}

// all yields the exchanges under way. They may end meanwhile.
func (e *exchanges) all() iter.Seq2[uint64, exchange] {
	return func(yield func(uint64, exchange) bool) {
		for _, p := range e.places {
			if p.x != nil && !yield(p.number, p.x) {
				return
			}
		}
	}
}

// corr returns the corr of a number.
func (e *exchanges) corr(number uint64) disco.Corr {
	var b [ownCorrLen]byte
	copy(b[:], e.prefix[:])
	binary.BigEndian.PutUint64(b[len(e.prefix):], number)
	return disco.Corr(b[:])
}

// number returns the number of a corr; 0 for one that is not of ours.
func number[T ~string | ~[]byte](e *exchanges, corr T) uint64 {
	if len(corr) != ownCorrLen || string(corr[:len(e.prefix)]) != string(e.prefix[:]) {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(corr[len(e.prefix):]))
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
