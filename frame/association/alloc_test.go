package association

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/npamp/disco/frame"
)

// A looper is an endpoint that allocates nothing: it sends what is left to send
// and counts what comes.
type looper struct {
	t       frame.Transport
	payload []byte
	mu      sync.Mutex
	left    int // frames to send
	got     int
	goal    int
	reached chan struct{}
}

func (l *looper) Receive(f frame.Frame) {
	l.mu.Lock()
	l.got++
	reached := l.got == l.goal
	l.mu.Unlock()
	if reached {
		l.reached <- struct{}{}
	}
}

func (l *looper) Append(b []byte) ([]byte, frame.Type, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return b, 0, false
	}
	l.left--
	return append(b, l.payload...), 0x105, true
}

func (l *looper) Written()     {}
func (l *looper) Closed(error) {}

// loop starts a looper at both ends of an association over TCP, or TLS.
func loop(tb testing.TB, g *generation, payload int, overTLS bool) (from, to *looper) {
	tb.Helper()
	cc, sc := clientConfig(g.number), serverConfig(g.number)
	cc.MaxSend, sc.MaxSend = frame.MaxFrameLen, frame.MaxFrameLen
	ctx := context.Background()
	var c, s *Association
	if overTLS {
		l, err := Listen("127.0.0.1:0", sc)
		if err != nil {
			tb.Fatal(err)
		}
		defer l.Close()
		if c, err = Dial(ctx, l.Addr().String(), cc); err != nil {
			tb.Fatal(err)
		}
		if s, err = l.Accept(ctx); err != nil {
			tb.Fatal(err)
		}
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer l.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			if conn, err := l.Accept(); err == nil {
				s, _ = Server(ctx, conn, sc)
			}
		})
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		c, err = Client(ctx, conn, cc)
		wg.Wait()
		if err != nil || s == nil {
			tb.Fatal(err)
		}
	}
	from = &looper{payload: make([]byte, payload)}
	to = &looper{reached: make(chan struct{}, 1)}
	for u, a := range map[*looper]*Association{from: c, to: s} {
		u.t, _ = a.Transport(frame.ChannelDiscovery)
		if err := u.t.Start(u); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() { closeBoth(c, s) })
	return from, to
}

// run sends n frames and waits until they have arrived.
func run(from, to *looper, n int) {
	to.mu.Lock()
	to.got, to.goal = 0, n
	to.mu.Unlock()
	from.mu.Lock()
	from.left = n
	from.mu.Unlock()
	from.t.Wake()
	<-to.reached
}

// Covers: DISC-10-08
func TestAllocationsPerFrame(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	// Sealed, written, read, opened and handed up, with the keys in place. crypto/tls
	// has an allocation of its own for each record it reads, hence bare TCP. What is
	// left is the runtime's: less than one allocation in 20 frames.
	rows(t, func(t *testing.T, g *generation) {
		for _, size := range []int{100, 60_000} {
			from, to := loop(t, g, size, false)
			const batch = 200
			for range 3 {
				run(from, to, batch)
			}
			if n := testing.AllocsPerRun(10, func() { run(from, to, batch) }); n > batch/20 {
				t.Errorf("%d octets: %v allocations for %d frames", size, n, batch)
			}
			// One at a time, so that both ends fall idle in between.
			if n := testing.AllocsPerRun(100, func() { run(from, to, 1) }); n > 0.5 {
				t.Errorf("%d octets: %v allocations for one frame", size, n)
			}
		}
	})
}

// Covers: DASP-011-01
func TestIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	// What an association holds beyond its stream, after frames of 256 KiB and a
	// pause. Streams in memory stand for TLS.
	const pairs = 100
	heap := func() (n uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	var made []*Association
	var users []*looper
	var conns []net.Conn
	for range pairs {
		p, q := net.Pipe()
		conns = append(conns, p, q)
	}
	before := heap()
	for i := range pairs {
		p, q := conns[2*i], conns[2*i+1]
		var s *Association
		var wg sync.WaitGroup
		wg.Go(func() { s, _ = Server(t.Context(), q, serverConfig()) })
		c, err := Client(t.Context(), p, clientConfig())
		wg.Wait()
		if err != nil || s == nil {
			t.Fatal(err)
		}
		made = append(made, c, s)
		for _, a := range []*Association{c, s} {
			u := &looper{payload: make([]byte, 0), reached: make(chan struct{}, 1)}
			u.t, _ = a.Transport(frame.ChannelDiscovery)
			u.t.Start(u)
			users = append(users, u)
		}
	}
	large := make([]byte, 256<<10)
	for i := 0; i < len(users); i += 2 {
		users[i].payload = large
		run(users[i], users[i+1], 2)
		users[i].payload = nil
	}
	deadline := time.Now().Add(30 * time.Second)
	var each uint64
	for {
		<-time.After(idleAfter)
		each = (max(heap(), before) - before) / (2 * pairs)
		if each <= 20<<10 || time.Now().After(deadline) {
			break
		}
	}
	if each > 20<<10 {
		t.Errorf("%d octets an idle end, want at most 20 KiB", each)
	}
	t.Logf("%d octets an idle end", each)
	for i := 0; i < len(made); i += 2 {
		closeBoth(made[i], made[i+1])
	}
	runtime.KeepAlive(conns)
}

func BenchmarkFrames(b *testing.B) {
	for _, g := range []*generation{&generation2, &generation3} {
		for _, size := range []int{100, 1000, 60_000} {
			b.Run(g.alpn[2:]+"/octets="+fmt.Sprint(size), func(b *testing.B) {
				from, to := loop(b, g, size, true)
				run(from, to, 1)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				run(from, to, b.N)
			})
		}
	}
}

func BenchmarkHandshake(b *testing.B) {
	for _, g := range []*generation{&generation2, &generation3} {
		b.Run(g.alpn[2:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, q := net.Pipe()
				var s *Association
				var wg sync.WaitGroup
				wg.Go(func() { s, _ = Server(context.Background(), q, serverConfig(g.number)) })
				c, err := Client(context.Background(), p, clientConfig(g.number))
				wg.Wait()
				if err != nil || s == nil {
					b.Fatal(err)
				}
				closeBoth(c, s)
			}
		})
	}
}
