package association

import "sync"

// buffers are the writers' batches that are not in use, shared by the
// associations of one listener. What it holds has no meaning, and the collector
// may take it.
type buffers struct{ pool sync.Pool }

func (p *buffers) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, idleBuffer)
}

// put gives b back. Very large ones are left to the collector.
func (p *buffers) put(b []byte) {
	if cap(b) <= maxPooled {
		p.pool.Put(&b)
	}
}
