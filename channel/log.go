package channel

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/npamp/disco/disco"
)

// logFault tells of a payload that cannot be read, a few times a second at the
// most, with how many it did not tell of. Nothing of the payload is in it but
// where the fault is.
func (p *Peer) logFault(t disco.Type, err error) {
	if p.cfg.Logger == nil {
		return
	}
	p.mu.Lock()
	told := p.faults.take(time.Now())
	untold := p.untold
	if p.untold++; told {
		p.untold = 0
	}
	p.mu.Unlock()
	if !told {
		return
	}
	attrs := []any{
		slog.String("peer", hex.EncodeToString(p.info.PeerIdentity)),
		slog.String("frame", t.String()),
		slog.Int("untold", untold),
	}
	var pe *disco.PayloadError
	if errors.As(err, &pe) {
		attrs = append(attrs, slog.String("code", pe.Code.String()), slog.String("rule", pe.Rule),
			slog.String("path", pe.Path), slog.Int("offset", pe.Offset))
	}
	p.cfg.Logger.Warn("discovery: payload refused", attrs...)
}
