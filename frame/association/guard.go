package association

import (
	"sync/atomic"
	"time"
)

// A writeGuard ends a Write that takes longer than Config.WriteTimeout. A
// deadline for each Write has the runtime set and clear a timer for each, which
// is a twentieth of a change that goes to 1,000 associations; this one is set
// once in WriteTimeout, and lets a Write that is over be.
type writeGuard struct {
	since atomic.Int64 // when the Write under way began, in ns since epoch; 0: none
	runs  atomic.Bool  // timer does
	timer *time.Timer  // the writer's; made by the first Write
	epoch time.Time
}

// begin says that a Write begins. It is the writer's, as end is.
func (g *writeGuard) begin(a *Association, now time.Time) {
	limit := a.cfg.WriteTimeout
	if limit <= 0 {
		return
	}
	if g.timer == nil {
		g.epoch = now.Add(-1)
		g.runs.Store(true)
		g.since.Store(1)
		g.timer = time.AfterFunc(limit, func() { g.check(a, limit) })
		return
	}
	g.since.Store(int64(now.Sub(g.epoch)))
	if g.runs.CompareAndSwap(false, true) {
		g.timer.Reset(limit)
	}
}

// end says that it is over.
func (g *writeGuard) end() { g.since.Store(0) }

func (g *writeGuard) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// check is the timer.
func (g *writeGuard) check(a *Association, limit time.Duration) {
	since := g.since.Load()
	if since == 0 {
		g.runs.Store(false)
		if since = g.since.Load(); since == 0 || !g.runs.CompareAndSwap(false, true) {
			return
		}
	}
	left := limit - (time.Since(g.epoch) - time.Duration(since))
	if left <= 0 {
		a.conn.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	g.timer.Reset(left)
}
