package main

import (
	"crypto/rand"
	"math/big"
	"time"
)

const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// backoff returns how long to wait before attempt n, from 0, to dial again: at
// random between 1 s and a bound that doubles from 2 s to 30 s, so that the many
// who lost one peer do not come back together.
func backoff(n int) time.Duration {
	bound := maxBackoff
	if n < 4 {
		bound = minBackoff << (n + 1)
	}
	d, err := rand.Int(rand.Reader, big.NewInt(int64(bound-minBackoff)))
	if err != nil {
		return bound
	}
	return minBackoff + time.Duration(d.Int64())
}
