package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/association"
)

// errPeerClosed is io.EOF, the peer's orderly end, for people.
var errPeerClosed = fmt.Errorf("the peer closed the association (%w)", io.EOF)

// classify gives the error of a request, or of an association's end, its exit
// status, and its §9 code where there is one.
func classify(ctx context.Context, err error) error {
	var done *failure
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err // an interrupt, or the end of --timeout: the command says which
	case errors.Is(err, errStdoutClosed), errors.As(err, &done):
		return err
	}
	if err == io.EOF {
		err = errPeerClosed
	}
	exit := exitOfRequest(err)
	f := &failure{exit: exit, err: err}
	if exit == exitPeerError || exit == exitProtocol || exit == exitIncomplete {
		f.code = disco.CodeOf(err)
	}
	if errors.Is(err, channel.ErrUnknownKind) {
		f.code = disco.CodeUnknownRecordKind
	}
	return f
}

func exitOfRequest(err error) int {
	var (
		incomplete *channel.IncompleteError
		peer       *disco.PeerError
		payload    *disco.PayloadError
		protocol   *association.ProtocolError
		encode     *disco.EncodeError
	)
	switch {
	case errors.As(err, &incomplete):
		// A cursor that went stale once too often, or a cap of ours: the set is
		// incomplete. Else what broke the listing off decides.
		if disco.CodeOf(incomplete.Cause) == disco.CodeStaleCursor || errors.Is(incomplete.Cause, channel.ErrLimit) {
			return exitIncomplete
		}
		return exitOfRequest(incomplete.Cause)
	case errors.Is(err, channel.ErrLimit):
		return exitIncomplete
	case errors.As(err, &peer):
		return exitPeerError
	case errors.As(err, &payload), errors.As(err, &protocol), errors.Is(err, channel.ErrUnknownKind):
		return exitProtocol
	case errors.As(err, &encode):
		return exitUsage
	case errors.Is(err, channel.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitConnect // the association is lost, or the channel is not there
}
