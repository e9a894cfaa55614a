//go:build !race

package subscribe

const raced = false
