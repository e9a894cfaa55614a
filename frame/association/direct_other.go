//go:build !unix

package association

const canTry = false

func tryWrite(uintptr, []byte) (int, error) { panic("BUG: association: not on this system") }
