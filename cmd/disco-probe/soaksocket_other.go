//go:build !unix

package main

// setReadBuffer would bound what the system keeps of a socket unread.
func setReadBuffer(uintptr, int) {}
