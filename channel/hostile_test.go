package channel

import (
	"errors"
	"testing"
	"time"
)

// A link that was idle owes nothing: the time without progress begins when
// something waits for it.
func TestStallIsCountedFromWhenSomethingWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		l.putHex(query, v1)
		l.takeAll()
		later(29 * time.Second)
		l.putHex(query, v1)
		l.give()
		later(29 * time.Second)
		if l.why() != nil {
			t.Fatalf("ended after 29 s: %v", l.why())
		}
		later(2 * time.Second)
		if !errors.Is(l.why(), errStalled) || p.Wait() != errStalled {
			t.Errorf("after 31 s: %v", l.why())
		}
	})
}
