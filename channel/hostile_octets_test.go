package channel

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
)

// everything is an exchange of all that there is: a listing of three pages, a subscription with a
// change, an announcement, and an unsubscription. It returns its first error.
func everything(ctx context.Context, a, b *Peer, set *record.Set) error {
	list, err := a.Query(ctx, Query{})
	if err != nil {
		return err
	}
	synced, changed := make(chan error, 3), make(chan error, 3)
	sub, err := a.Subscribe(record.Filter{}, func(e Event) {
		switch e.Kind {
		case EventSynced:
			synced <- nil
		case EventReplaced:
			changed <- nil
		case EventEnded:
			synced <- e.Err
			changed <- e.Err
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	for i, c := range []chan error{synced, changed} {
		if i == 1 {
			r := list.Records[0]
			name, _ := r.Name()
			if err := set.Update(func(tx *record.Tx) error { return tx.Put(tool(string(r.ID()), name+"x")) }); err != nil {
				return err
			}
		}
		select {
		case err := <-c:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if _, err := a.Announce(ctx, list.Records); err != nil {
		return err
	}
	return nil
}

// lostAt makes an association over a wire, and runs an exchange that spoil
// spoils. Whatever happens, both peers end, promptly and with nothing left.
func lostAt(t *testing.T, generation int, spoil func(w *channeltest.Wire, a *Peer, cancel func())) (passed [2]int, err error) {
	t.Helper()
	set := newSet(t, many(5)...)
	h := hub(t, set)
	w := channeltest.NewWire()
	count := func(n *int) func(channeltest.Frame) []channeltest.Frame {
		return func(f channeltest.Frame) []channeltest.Frame {
			*n += len(f.Payload)
			return []channeltest.Frame{f}
		}
	}
	cb := Config{Hub: h, Limits: Limits{MaxPageRecords: 2}}
	gen := func(n byte) *association.Config {
		return &association.Config{Identity: channeltest.Identity(n), Generations: []int{generation}}
	}
	a, b, _ := associated(t, w, gen(1), gen(2), Config{}, &cb)
	w.AB.Edit(count(&passed[0]))
	w.BA.Edit(count(&passed[1]))
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // nobody misses a last UPDATE
	defer cancel()
	spoil(w, a, cancel)
	begun := time.Now()
	err = everything(ctx, a, b, set)
	synctest.Wait()
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, p := range []*Peer{a, b} {
		p.Close()
		if st := p.Stats(); st.Outstanding+st.Unanswered+st.Subscriptions+st.Own+st.Snapshots+st.Unsent+st.Cached+st.Memory != 0 {
			t.Errorf("left: %+v", st)
		}
	}
	if h.Len() != 0 {
		t.Errorf("%d subscriptions are left", h.Len())
	}
	return passed, err
}

// stride is how many octets lie between two cuts.
func stride() int {
	if raced || testing.Short() {
		return 41
	}
	return 1
}

// Covers: DISC-4.3-06, DISC-8-05
//
// The wire is cut after every octet of an exchange, in either direction: each
// call ends with an error, and nothing is left at either end.
func TestHostileCutAtEveryOctet(t *testing.T) {
	for _, generation := range []int{2, 3} {
		var total [2]int
		bubble(t, func(t *testing.T) {
			passed, err := lostAt(t, generation, func(*channeltest.Wire, *Peer, func()) {})
			if err != nil || passed[0] < 300 || passed[1] < 300 {
				t.Fatalf("whole: %v, %v octets", err, passed)
			}
			total = passed
		})
		for side := range 2 {
			for n := 0; n < total[side]; n += stride() * (1 + 6*(generation-2)) {
				bubble(t, func(t *testing.T) {
					_, err := lostAt(t, generation, func(w *channeltest.Wire, _ *Peer, _ func()) {
						if side == 0 {
							w.AB.CutAfter(n)
						} else {
							w.BA.CutAfter(n)
						}
					})
					if err != nil && !strings.Contains(err.Error(), "cut") && !strings.Contains(err.Error(), "EOF") {
						t.Errorf("generation %d, %d octets from side %d: %v", generation, n, side, err)
					}
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

// The context is cancelled when so many octets have come: the call returns with
// it or with the answer, and the association lives on.
func TestHostileCancelAtEveryOctet(t *testing.T) {
	var total [2]int
	bubble(t, func(t *testing.T) {
		total, _ = lostAt(t, 3, func(*channeltest.Wire, *Peer, func()) {})
	})
	for side := range 2 {
		for n := 0; n < total[side]; n += 2 * stride() {
			bubble(t, func(t *testing.T) {
				var peer *Peer
				_, err := lostAt(t, 3, func(w *channeltest.Wire, a *Peer, cancel func()) {
					peer = a
					left := n
					way := []*channeltest.Way{w.AB, w.BA}[side]
					way.Edit(func(f channeltest.Frame) []channeltest.Frame {
						if left -= len(f.Payload); left <= 0 {
							cancel()
						}
						return []channeltest.Frame{f}
					})
				})
				if err != nil && err != context.Canceled {
					t.Errorf("%d octets from side %d: %v", n, side, err)
				}
				if cause := peer.Wait(); cause != ErrClosed {
					t.Errorf("%d octets from side %d: the association ended with %v", n, side, cause)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

// One octet is altered on the way: the frame is not what it was, so nothing of it
// is used, and nobody hangs.
func TestHostileOctetAltered(t *testing.T) {
	for n := 0; n < 1200; n += 13 * stride() {
		bubble(t, func(t *testing.T) {
			_, err := lostAt(t, 2, func(w *channeltest.Wire, _ *Peer, _ func()) {
				at := n
				way := w.AB
				if n%2 == 1 {
					way = w.BA
				}
				way.Edit(func(f channeltest.Frame) []channeltest.Frame {
					if at >= 0 && at < len(f.Payload) {
						f.Payload[at] ^= 0x40
					}
					at -= len(f.Payload)
					return []channeltest.Frame{f}
				})
			})
			if err != nil && strings.Contains(err.Error(), "BUG") {
				t.Error(err)
			}
		})
		if t.Failed() {
			return
		}
	}
}
