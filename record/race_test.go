//go:build race

package record_test

const raceEnabled = true // allocations are not what they are without it
