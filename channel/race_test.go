//go:build race

package channel

const raced = true
