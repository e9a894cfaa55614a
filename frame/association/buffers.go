package association

import "sync"

// buffers are the writers' batches that are not in use, shared by the
// associations of one listener. What it holds has no meaning, and the collector
// may take it.
type buffers struct{ pool sync.Pool }

// get returns an empty buffer, of idleBuffer octets if there is no larger one.
func (p *buffers) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, idleBuffer)
	return &b
}

// put gives b back. Very large ones are left to the collector.
func (p *buffers) put(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		p.pool.Put(b)
	}
}
