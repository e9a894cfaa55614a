package association

import "time"

// A bucket bounds how often something may happen: burst times at once, and rate
// times a second. The zero bucket is full.
type bucket struct {
	tokens float64
	at     time.Time // when there were so many
}

// take takes n tokens; false says that there are not so many, and takes none.
func (b *bucket) take(n, rate, burst float64) bool {
	now := time.Now()
	b.tokens = min(b.tokens+rate*now.Sub(b.at).Seconds(), burst)
	b.at = now
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}
