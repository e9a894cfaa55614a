//go:build !race

package association

const raceEnabled = false
