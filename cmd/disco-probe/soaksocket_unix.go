//go:build unix

package main

import "syscall"

// setReadBuffer bounds what the system keeps of a socket unread, in octets, as
// far as it likes.
func setReadBuffer(fd uintptr, octets int) {
	syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, octets)
}
