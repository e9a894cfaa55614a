//go:build race

package disco

const raceEnabled = true // allocations are not what they are without it
