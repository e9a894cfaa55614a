package channel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
)

// A still is a transport on which nothing moves but by the test, which is the
// reading and the writing goroutine.
type still struct {
	frame.Endpoint
	aborted chan error
}

func (s *still) Info() frame.Info                     { return channeltest.Info() }
func (s *still) Start(e frame.Endpoint) error         { s.Endpoint = e; return nil }
func (s *still) Wake()                                {}
func (s *still) Abort(_ frame.ErrorCode, cause error) { s.aborted <- cause }
func (s *still) Close() error                         { s.Closed(frame.ErrClosed); return nil }

func onStill(t *testing.T, cfg Config) (*Peer, *still) {
	t.Helper()
	s := &still{aborted: make(chan error, 10)}
	p, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, s
}

// receive hands over a payload.
func (s *still) receive(t *testing.T, typ disco.Type, payload []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s.Receive(frame.Frame{Type: frame.Type(typ), Payload: payload})
}

// wrote takes the next frame as written.
func (s *still) wrote(t *testing.T) []byte {
	t.Helper()
	b, _, ok := s.Append(nil)
	if !ok {
		t.Fatal("nothing to write")
	}
	s.Written()
	return b
}

// answer hands over a RESULT for the QUERY.
func (s *still) answer(t *testing.T, query []byte, cursor disco.Cursor, recs ...record.Record) {
	t.Helper()
	corr, _ := disco.ScanCorr(query)
	b, err := disco.AppendResult(nil, &disco.Result{Corr: corr, Records: recs, Complete: cursor == "", Cursor: cursor, HasCursor: cursor != ""})
	s.receive(t, disco.TypeResult, b, err)
}

// An UPDATE that the link does not take is looked after, even where the timer
// fires while its writer waits for the mutex.
//
// Covers: C-limits
func TestStallTimerAgainstTheFirstUpdate(t *testing.T) {
	set := newSet(t)
	p, s := onStill(t, Config{Hub: hub(t, set), Limits: Limits{StallTimeout: 200 * time.Millisecond}})
	b, err := disco.AppendSubscribe(nil, &disco.Subscribe{Corr: "s"})
	s.receive(t, disco.TypeSubscribe, b, err)
	s.wrote(t) // the timer still runs
	put(t, set, tool("t1", "a"))
	p.mu.Lock()
	gave := make(chan bool)
	go func() { _, _, ok := s.Append(nil); gave <- ok }() // waits for the mutex
	<-time.After(5 * time.Millisecond)
	if !p.stall.Stop() {
		t.Skip("a slow machine: the timer has fired")
	}
	go p.checkStall()                  // as the timer that fires now, and waits longer than that the mutex takes turns
	<-time.After(5 * time.Millisecond) // from then on
	p.mu.Unlock()
	p.mu.Lock()
	<-time.After(5 * time.Millisecond)
	p.mu.Unlock()
	if !<-gave {
		t.Fatal("no UPDATE")
	}
	select {
	case <-s.aborted: // it is never written
	case <-time.After(3 * time.Second):
		t.Error("nobody looks after the frame")
	}
}

// What a listing that was given up held is free, as Stats.Memory says, though its
// next QUERY still waits for the link.
//
// Covers: C44
func TestListingGivenUpWithItsQueryWaiting(t *testing.T) {
	for _, merged := range []bool{true, false} {
		p, s := onStill(t, Config{})
		freed := make(chan struct{})
		func() {
			l, err := p.list(Query{}, false)
			if err != nil {
				t.Fatal(err)
			}
			s.answer(t, s.wrote(t), "more", tool("t1", "a")) // asks for the next page
			if merged {
				page, err := l.next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				runtime.AddCleanup(&page.Records[0], func(c chan struct{}) { close(c) }, freed)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := l.next(ctx); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			} else {
				runtime.AddCleanup(l.queue[0], func(c chan struct{}) { close(c) }, freed)
			}
			l.stop() // as Query does
		}()
		if st := p.Stats(); st.Memory != 0 || st.Unsent != 1 {
			t.Fatalf("memory %d, %d unsent", st.Memory, st.Unsent)
		}
		isFree := func() bool {
			runtime.GC()
			select {
			case <-freed:
				return true
			case <-time.After(10 * time.Millisecond):
				return false
			}
		}
		for i := 0; !isFree(); i++ {
			if i == 50 {
				t.Fatalf("merged: %v: the records are held all the same", merged)
			}
		}
		runtime.KeepAlive(p)
	}
}

// A page without records costs nothing once it was merged.
//
// Covers: C44
func TestEmptyPageIsGivenBack(t *testing.T) {
	p, s := onStill(t, Config{})
	l, err := p.list(Query{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.stop()
	s.answer(t, s.wrote(t), "more")
	if _, err := l.next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := p.Stats().Memory; m != 0 {
		t.Errorf("%d octets are held for nothing", m)
	}
}

// A QUERY that comes again while its answer is made is dropped, and is no data
// race.
//
// Covers: C21
func TestQueryTwiceWhileItIsAnswered(t *testing.T) {
	set := newSet(t, many(1000)...) // so that it takes a while
	p, s := onStill(t, Config{Hub: hub(t, set), Limits: Limits{QueryRate: -1}})
	query, err := disco.AppendQuery(nil, &disco.Query{Corr: "c"})
	sent, answers := uint64(0), uint64(0)
	for range 200 {
		s.receive(t, disco.TypeQuery, query, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 2 {
				if _, _, ok := s.Append(nil); ok {
					s.Written()
					answers++
				}
			}
		})
		for range 20 {
			s.receive(t, disco.TypeQuery, query, err)
		}
		wg.Wait()
		for _, _, ok := s.Append(nil); ok; _, _, ok = s.Append(nil) {
			answers++
		}
		sent += 21
	}
	if st := p.Stats(); st.DuplicateCorr+answers != sent || st.Unanswered != 0 {
		t.Errorf("%d QUERYs, %d answers: %+v", sent, answers, st)
	}
}

// The octets of an announcement are copied with the mutex free, as those of a
// RESULT are: the reader takes it for each frame.
func TestEncodingWithTheMutexFree(t *testing.T) {
	set := newSet(t)
	var recs []record.Record
	for i := range 1000 {
		recs = append(recs, tool(fmt.Sprintf("t%04d", i), strings.Repeat("n", 200)))
	}
	put(t, set, recs...)
	p, _ := onStill(t, Config{Hub: hub(t, set)})
	for _, make := range []func() item{
		func() item { return &answer{corr: "c"} },
		func() item { return &announcement{recs: recs} },
	} {
		var encoding, over atomic.Bool
		var tried, free atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for !over.Load() {
				if !encoding.Load() {
					runtime.Gosched()
					continue
				}
				tried.Add(1)
				if p.mu.TryLock() {
					p.mu.Unlock()
					free.Add(1)
				}
			}
		})
		var b []byte
		for i := 0; i < 2000 && tried.Load() < 2000; i++ {
			it := make()
			p.mu.Lock()
			encoding.Store(true)
			out, _, ok := it.frame(p, b[:0])
			encoding.Store(false)
			p.mu.Unlock()
			if b = out; !ok || len(out) < 200_000 {
				t.Fatal(len(out), ok)
			}
		}
		over.Store(true)
		wg.Wait()
		t.Logf("%T: free in %d of %d tries", make(), free.Load(), tried.Load())
		if free.Load() < tried.Load()/5 {
			t.Errorf("%T is made under the mutex", make())
		}
	}
}
