package channel

import "time"

// A bucket is a token bucket: burst tokens at most, rate new ones a second.
type bucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time
}

// newBucket returns a full bucket. A negative rate never runs dry.
func newBucket(rate, burst float64) bucket {
	return bucket{rate: rate, burst: burst, tokens: burst}
}

// take takes a token, if there is one.
func (b *bucket) take(now time.Time) bool {
	if b.rate < 0 {
		return true
	}
	if !b.at.IsZero() {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
