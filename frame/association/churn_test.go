package association

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
)

// descriptors returns how many files and sockets the process has open, -1 where
// the system does not tell.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// settles waits until count is at most want, and returns the last count.
func settles(count func() int, want int) (n int) {
	for wait := time.Millisecond; ; wait *= 2 {
		if n = count(); n <= want || wait > 4*time.Second {
			return n
		}
		<-time.After(wait)
	}
}

// Associations over TCP and TLS, a thousand under the race detector, are opened and
// ended at random moments by either side, in order or not, in the handshake, idle or
// with frames under way. Nothing is left of them.
//
// Covers: CORE-g3-04, DASP-011-01
func TestChurn(t *testing.T) {
	total, workers := 250, 32
	if raceEnabled {
		total = 1000
	}
	if testing.Short() {
		total = 100
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	server := serverConfig()
	server.HandshakeTimeout = 2 * time.Second
	l, err := Listen("127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving, running sync.WaitGroup
	var accepted, dialled atomic.Int64

	// use has an association do something, for a random while.
	use := func(a *Association, r *rand.Rand) {
		moment := make(chan struct{})
		timer := time.AfterFunc(time.Duration(r.IntN(5000))*time.Microsecond, func() { close(moment) })
		defer timer.Stop()
		how := r.IntN(8)
		if how == 0 {
			a.Close() // before anything runs
			return
		}
		u := newUser()
		u.t, _ = a.Transport(frame.ChannelDiscovery)
		if u.t.Start(u) != nil {
			a.Close()
			return
		}
		if how > 1 {
			u.send(repeat(r.IntN(20), message{0x105, string(make([]byte, r.IntN(20_000)))})...)
		}
		if how == 2 {
			a.KeyUpdate(frame.ChannelDiscovery)
			a.Ratchet()
			a.Rekem()
		}
		select {
		case <-moment:
		case <-a.Done():
		}
		switch how {
		case 3:
			u.t.Abort(frame.CodeUnexpectedMessage, ErrFrame)
		case 4:
			cut(a.conn) // the network goes
		case 5:
			go a.Close() // from two sides at once, and twice
		}
		a.Close()
		<-u.closed
	}
	serving.Go(func() {
		for n := uint64(0); ; n++ {
			a, err := l.Accept(ctx)
			if err != nil {
				return
			}
			accepted.Add(1)
			serving.Go(func() { use(a, rand.New(rand.NewPCG(n, 1))) })
		}
	})
	for w := range workers {
		running.Go(func() {
			for n := w; n < total; n += workers {
				r := rand.New(rand.NewPCG(uint64(n), 2))
				dial, stop := context.WithCancel(ctx)
				switch r.IntN(8) {
				case 0: // no TLS, or not all of it
					if conn, err := new(net.Dialer).DialContext(dial, "tcp", l.Addr().String()); err == nil {
						conn.Write(make([]byte, r.IntN(10)))
						conn.Close()
					}
					stop()
					continue
				case 1:
					time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, stop)
				}
				if a, err := Dial(dial, l.Addr().String(), clientConfig()); err == nil {
					dialled.Add(1)
					use(a, r)
				}
				stop()
			}
		})
	}
	running.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	serving.Wait()
	if n := settles(runtime.NumGoroutine, goroutines); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := settles(descriptors, files); n > files {
		t.Errorf("%d descriptors, %d before", n, files)
	}
	t.Logf("%d dialled, %d accepted", dialled.Load(), accepted.Load())
	if dialled.Load() < int64(total/2) || accepted.Load() < int64(total/2) {
		t.Errorf("only %d dialled, %d accepted of %d", dialled.Load(), accepted.Load(), total)
	}
}
