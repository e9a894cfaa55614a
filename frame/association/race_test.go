//go:build race

package association

const raceEnabled = true
