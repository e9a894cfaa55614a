package association

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/npamp/disco/frame"
)

// Covers: CORE-8.1-01, CORE-5-06, C61
func TestExchangeAndClose(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		for _, closer := range []string{"client", "server", "both"} {
			t.Run(closer, func(t *testing.T) {
				c, s := tlsPair(t, clientConfig(g.number), serverConfig(g.number))
				if got := c.Info().Generation; got != g.number {
					t.Fatalf("generation %d", got)
				}
				cu, su := start(t, c), start(t, s)
				cu.send(message{0x0100, "question"})
				su.want(t, "a query", message{0x0100, "question"})
				su.send(message{0x0101, "answer"})
				cu.want(t, "a result", message{0x0101, "answer"})
				var batch []message
				for i := range 300 {
					batch = append(batch, message{0x0105, fmt.Sprint(i)})
				}
				su.send(batch...)
				cu.want(t, "all updates in order", batch...)

				done := make(chan error, 2)
				if closer != "server" {
					go func() { done <- c.Close() }()
				}
				if closer != "client" {
					go func() { done <- s.Close() }()
				}
				if err := <-done; err != nil {
					t.Errorf("Close: %v", err)
				}
				switch closer {
				case "client":
					wantCause(t, c, ErrClosed)
					wantCause(t, s, io.EOF)
				case "server":
					wantCause(t, s, ErrClosed)
					wantCause(t, c, io.EOF)
				default:
					<-done
				}
				<-cu.closed
				<-su.closed
				if err := c.Wait(); closer == "client" && (!errors.Is(err, net.ErrClosed) || !errors.Is(err, frame.ErrClosed)) {
					t.Errorf("own close gives %v", err)
				}
			})
		}
	})
}
