//go:build !linux

package main

import "os"

// whenUnread would call gone once the reader of f has closed it. Here that shows
// at the next write.
func whenUnread(*os.File, <-chan struct{}, func()) {}
