package main

import (
	"os"
	"syscall"
)

// unreadInterval is how soon whenUnread heeds stop, in milliseconds.
const unreadInterval = 200

// whenUnread calls gone once the reader of f has closed it. It returns then, or
// when stop is closed, or at once where f is nothing that has a reader.
func whenUnread(f *os.File, stop <-chan struct{}, gone func()) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return
	}
	defer syscall.Close(poll)
	fd := int(f.Fd())
	// No event is asked for: an error on the pipe is told in any case.
	if syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Fd: int32(fd)}) != nil {
		return
	}
	for {
		n, err := syscall.EpollWait(poll, make([]syscall.EpollEvent, 1), unreadInterval)
		if err != nil && err != syscall.EINTR {
			return
		}
		select {
		case <-stop:
			return
		default:
		}
		if n > 0 {
			gone()
			return
		}
	}
}
