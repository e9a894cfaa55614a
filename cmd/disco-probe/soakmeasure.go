package main

import (
	"math"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/record"
)

// A histogram counts durations in buckets that are 1/32 of a power of two wide,
// so that a quantile is exact to 3 %. Its memory is fixed. It may be added to by
// many at once.
type histogram struct {
	counts [histogramOctaves * histogramSteps]atomic.Uint64
}

const (
	histogramSteps   = 32 // a power of two
	histogramOctaves = 40 // of microseconds: 12 days
)

// bucket returns the bucket of a duration, which is given in microseconds.
func bucketOf(us uint64) int {
	if us < histogramSteps {
		return int(us)
	}
	octave := bits.Len64(us) - bits.Len64(histogramSteps) // 0: each value has its own
	i := (octave+1)*histogramSteps + int(us>>octave) - histogramSteps
	return min(i, histogramOctaves*histogramSteps-1)
}

// bucketTop returns the greatest duration in a bucket, in microseconds.
func bucketTop(i int) uint64 {
	if i < histogramSteps {
		return uint64(i)
	}
	octave := i/histogramSteps - 1
	return (uint64(i%histogramSteps)+histogramSteps+1)<<octave - 1
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0).Microseconds()))].Add(1)
}

// merge adds all that o has.
func (h *histogram) merge(o *histogram) {
	for i := range o.counts {
		h.counts[i].Add(o.counts[i].Load())
	}
}

func (h *histogram) count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// quantile returns the duration that a part q of all does not exceed, 0 of none.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.count()
	rank := uint64(q * float64(total))
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen > rank || seen == total && total > 0 {
			return time.Duration(bucketTop(i)) * time.Microsecond
		}
	}
	return 0
}

// sentMemory is how many revisions of a record are remembered.
const sentMemory = 16

// A sentTable knows when each of the last revisions of a record was made. The
// records are known from the start, so its memory is fixed.
type sentTable map[record.ID]*sentRecord

type sentRecord struct {
	mu   sync.Mutex
	next int
	revs [sentMemory]struct {
		revision uint64
		at       time.Time
	}
}

func (t sentTable) set(id record.ID, revision uint64, at time.Time) {
	r := t[id]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revs[r.next].revision, r.revs[r.next].at = revision, at
	r.next = (r.next + 1) % sentMemory
}

// at returns when the revision was made, unless that is forgotten.
func (t sentTable) at(id record.ID, revision uint64) (time.Time, bool) {
	r := t[id]
	if r == nil {
		return time.Time{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.revs {
		if r.revs[i].revision == revision {
			return r.revs[i].at, true
		}
	}
	return time.Time{}, false
}

// A versionLog keeps the versions that the set had while somebody asks: a
// listing must be one of them.
type versionLog struct {
	mu     sync.Mutex
	last   uint64             // number of the newest version
	list   []*record.Snapshot // up to it
	asking []uint64           // the oldest version that each may be shown
}

// soakMaxVersions bounds a versionLog.
const soakMaxVersions = 4096

func (l *versionLog) add(s *record.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.list = append(l.list, s)
	l.trim()
}

// trim forgets what nobody needs. The version before the newest is kept, because
// those who are told of a change after us still show it.
func (l *versionLog) trim() {
	oldest := l.last - 1
	for _, v := range l.asking {
		oldest = min(oldest, v)
	}
	keep := min(int(l.last-oldest)+1, len(l.list), soakMaxVersions)
	n := copy(l.list, l.list[len(l.list)-keep:])
	clear(l.list[n:])
	l.list = l.list[:n]
}

// begin is called before somebody asks.
func (l *versionLog) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.last - 1
	l.asking = append(l.asking, v)
	return v
}

// end is called with what begin returned when the answer is there. It returns
// the versions that it may be, newest first; whole tells that none is missing.
func (l *versionLog) end(from uint64) (versions []*record.Snapshot, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.last + 1 - uint64(len(l.list)) // number of list[0]
	for i := len(l.list) - 1; i >= 0 && first+uint64(i) >= from; i-- {
		versions = append(versions, l.list[i])
	}
	for i, v := range l.asking {
		if v == from {
			l.asking = append(l.asking[:i], l.asking[i+1:]...)
			break
		}
	}
	l.trim()
	return versions, first <= from
}

// A heapSample is what was alive after a collection.
type heapSample struct {
	at     time.Duration // since the start
	octets uint64
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A trend is a line fitted to samples of the heap by least squares.
type trend struct {
	mean  float64 // octets
	rise  float64 // octets a second
	error float64 // standard error of rise
	span  time.Duration
}

func fit(samples []heapSample) (tr trend) {
	n := float64(len(samples))
	if n == 0 {
		return tr
	}
	tr.span = samples[len(samples)-1].at - samples[0].at
	var t float64
	for _, s := range samples {
		t += s.at.Seconds() / n
		tr.mean += float64(s.octets) / n
	}
	var ty, tt, yy float64
	for _, s := range samples {
		dt, dy := s.at.Seconds()-t, float64(s.octets)-tr.mean
		ty += dt * dy
		tt += dt * dt
		yy += dy * dy
	}
	if n > 2 && tt > 0 {
		tr.rise = ty / tt
		tr.error = math.Sqrt(max(yy-tr.rise*ty, 0) / (n - 2) / tt)
	}
	return tr
}

// grows reports whether the heap gained more over the samples than the allowance,
// and that is not chance: the rise is more than twice its standard error.
func (tr trend) grows() bool {
	return tr.rise*tr.span.Seconds() > max(soakHeapGrowth*tr.mean, soakHeapAllowance) && tr.rise > 2*tr.error
}

// resources are what a run must give back.
type resources struct {
	goroutines  int
	descriptors int // open files and sockets; -1 where the system does not tell
}

func usedResources() resources {
	r := resources{goroutines: runtime.NumGoroutine(), descriptors: -1}
	if d, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := d.Readdirnames(-1); err == nil {
			r.descriptors = len(names) - 1 // without d
		}
		d.Close()
	}
	return r
}

// within reports whether no more is used than base.
func (r resources) within(base resources) bool {
	return r.goroutines <= base.goroutines && r.descriptors <= base.descriptors
}
