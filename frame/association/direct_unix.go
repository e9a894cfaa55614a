//go:build unix

package association

import "syscall"

const canTry = true

// tryWrite writes to a socket as much as it takes at once.
func tryWrite(fd uintptr, b []byte) (int, error) {
	for {
		switch n, err := syscall.Write(int(fd), b); err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
