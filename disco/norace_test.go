//go:build !race

package disco

const raceEnabled = false
