//go:build race

package subscribe

const raced = true
