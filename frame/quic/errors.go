package quic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	quicgo "github.com/quic-go/quic-go"

	"github.com/npamp/disco/frame/association"
)

// ErrPathChanged ends an association whose client has another address than it had:
// a path that was not validated for N-PAMP is not used (core §11.6).
var ErrPathChanged = errors.New("quic: the peer's address changed")

// What a connection is closed with.
const (
	codeOrderly quicgo.ApplicationErrorCode = 0
	codeRules   quicgo.ApplicationErrorCode = 1 // the peer broke the rules of the streams
	codeCut     quicgo.ApplicationErrorCode = 2 // without a farewell
	codePath    quicgo.ApplicationErrorCode = 3 // the path changed
)

// codeOf returns the code for a connection that err has broken, nil for none.
func codeOf(err error) quicgo.ApplicationErrorCode {
	switch {
	case err == nil:
		return codeOrderly
	case errors.Is(err, ErrPathChanged):
		return codePath
	}
	return codeRules
}

// ending returns the error that reading gives once qc's context is done, which it
// is a little after streams fail. QUIC's own errors are net.ErrClosed, which an
// association takes for a close of its own: they are not wrapped.
func ending(qc *quicgo.Conn) error {
	err := context.Cause(qc.Context())
	var app *quicgo.ApplicationError
	var idle *quicgo.IdleTimeoutError
	switch {
	case errors.As(err, &app) && !app.Remote:
		return net.ErrClosed
	case errors.As(err, &app) && app.ErrorCode == codeOrderly:
		return io.EOF
	case errors.As(err, &app) && app.ErrorCode == codeCut:
		return fmt.Errorf("quic: %w: %.64q", syscall.ECONNRESET, app.ErrorMessage)
	case errors.As(err, &app):
		return fmt.Errorf("quic: the peer closed the connection with code %d: %.64q", uint64(app.ErrorCode), app.ErrorMessage)
	case errors.As(err, &idle):
		return fmt.Errorf("quic: %w", association.ErrPeerSilent)
	}
	return fmt.Errorf("quic: connection lost: %v", err)
}

// hangUp closes the connection, and tells the peer the code and why.
func (c *conn) hangUp(code quicgo.ApplicationErrorCode, why error) {
	reason := ""
	if why != nil {
		reason = why.Error()
	}
	c.qc.CloseWithError(code, reason)
}
