package association

import (
	"fmt"

	"github.com/npamp/disco/frame"
)

// A generation is one crypto generation: the constants and switches in which
// associations differ. Everything else is one construction. ALPN, or Config
// where there is no TLS, picks the row before the first frame, and nothing
// changes it afterwards.
type generation struct {
	number   int
	alpn     string
	reserved frame.Flags // header flags that end the association

	// budget is how many frames that fail authentication an association survives;
	// 0 is any number.
	budget int
	// closeOnGap: an authenticated frame ahead of its turn ends the association;
	// otherwise it is dropped unopened.
	closeOnGap bool
	// strict: a frame that is not legal in the state is answered with ERROR and
	// ends the association; otherwise it is dropped. It covers unlisted types,
	// ACKs that answer nothing and bodies that are not as defined.
	strict bool
	// errors: ERROR is sent, and a received one ends the association; otherwise it
	// is logged.
	errors bool
	// ackedClose: CLOSE goes over Control and its ACK is awaited; otherwise it is
	// answered where it came, best effort.
	ackedClose bool
	// aeadList: AEADSelect is a list, primary first, of one entry at Standard;
	// otherwise one code point.
	aeadList bool
	// flow: connection-level flow control.
	flow bool
}

var (
	generation2 = generation{
		number:     2,
		alpn:       "n-pamp/2",
		budget:     1024,
		closeOnGap: true,
	}
	generation3 = generation{
		number:     3,
		alpn:       "n-pamp/3",
		reserved:   frame.ReservedFlags3,
		strict:     true,
		errors:     true,
		ackedClose: true,
		aeadList:   true,
		flow:       true,
	}
)

// generationOf returns the row of a generation's number, nil if there is none.
func generationOf(number int) *generation {
	switch number {
	case 2:
		return &generation2
	case 3:
		return &generation3
	}
	return nil
}

func (g *generation) String() string {
	return fmt.Sprintf("crypto generation %d (%s)", g.number, g.alpn)
}
