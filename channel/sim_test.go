package channel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The simulation: a seed makes a world of a few nodes, each with a set, and of
// the associations between them, and a script of what happens there. While it
// does, and when all has come to rest, what each end knows is compared with what
// the other one showed it, and every frame with the rules (simrules_test.go).
//
//	go test ./channel -run Sim                        the seeds of every day
//	go test ./channel -run Sim -seed 42 -steps 500    one seed
//	go test ./channel -run Sim -seeds 10000           many
//	go test ./channel -run Sim -seed 42 -script '…'   the script of a failure
//
// Two worlds in three have links that the script moves by hand, a frame at a time
// (channeltest.Link.ByHand): a seed is then the same run each time. The others
// run over real associations, with their goroutines.
var (
	simSeed   = flag.Uint64("seed", 0, "the one seed to simulate; 0: seeds from 1 on")
	simSeeds  = flag.Int("seeds", 200, "how many seeds to simulate")
	simSteps  = flag.Int("steps", 400, "steps of each script")
	simScript = flag.String("script", "", "with -seed: the script, instead of the seed's own")
	simTrace  = flag.Bool("simtrace", false, "print every frame")
	simFor    = flag.Duration("simfor", 0, "stop after the seed during which so much time has passed; 0: never")
)

// Covers: C1, C2, C15, C16, C17, C19, C20, C21, C22, C23, C24, C31, C36, C37, C38, C53, DISC-4.2-04, DISC-6.2-04, DISC-7.2-02, DISC-8-05
func TestSim(t *testing.T) {
	first, n := uint64(1), *simSeeds
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	if testing.Short() {
		n = min(n, 20)
	}
	var total simCount
	began := time.Now()
	for seed := first; seed < first+uint64(n); seed++ {
		if *simFor > 0 && time.Since(began) > *simFor {
			break
		}
		script := simGenerate(seed, *simSteps)
		if *simScript != "" {
			var err error
			if script, err = parseScript(*simScript); err != nil {
				t.Fatal(err)
			}
		}
		count, err := simulate(t, seed, script)
		total.add(count)
		if err == nil {
			continue
		}
		t.Errorf("seed %d (%v): %v", seed, simConfigOf(seed), err)
		if *simScript == "" {
			short, why := shrink(t, seed, script, err)
			t.Logf("the shortest script found, of %d steps:\n%v\n\ngo test ./channel -run Sim -seed %d -script '%s'",
				len(short), why, seed, scriptText(short))
		}
		if total.failed++; total.failed == 3 {
			break
		}
	}
	t.Logf("%d worlds, %d operations, %d frames, %d checks at rest, %v", total.worlds, total.ops, total.frames,
		total.rests, time.Since(began).Round(time.Millisecond))
	t.Logf("met: %v", total.counters)
}

// simCount says how much was simulated.
type simCount struct {
	worlds, ops, frames, rests, failed int
	counters                           map[string]uint64 // of Stats, of all peers
}

func (c *simCount) add(o simCount) {
	c.worlds += o.worlds
	c.ops += o.ops
	c.frames += o.frames
	c.rests += o.rests
	for name, n := range o.counters {
		c.counted(name, n)
	}
}

func (c *simCount) counted(name string, n uint64) {
	if c.counters == nil {
		c.counters = map[string]uint64{}
	}
	c.counters[name] += n
}

// met adds what a peer has met, so that one can see what was simulated at all.
func (c *simCount) met(st Stats) {
	v := reflect.ValueOf(st)
	for i := range v.NumField() {
		if f := v.Field(i); f.CanUint() {
			c.counted(v.Type().Field(i).Name, f.Uint())
		}
	}
}

// shrink takes steps out of a failing script as long as it fails without them: a
// quarter at a time, then fewer, then one.
func shrink(t *testing.T, seed uint64, script []simStep, err error) ([]simStep, error) {
	tries := 1 // runs that must all pass before a script is taken to be fine
	if simConfigOf(seed).over {
		tries = 4
	}
	deadline := time.Now().Add(time.Minute)
	for size := max(1, len(script)/4); ; size = max(1, size/2) {
		shorter := false
		for at := 0; at < len(script) && time.Now().Before(deadline); {
			without := slices.Delete(slices.Clone(script), at, min(at+size, len(script)))
			fails := error(nil)
			for i := 0; i < tries && fails == nil; i++ {
				_, fails = simulate(t, seed, without)
			}
			if fails == nil {
				at += size
				continue
			}
			script, err, shorter = without, fails, true
		}
		if size == 1 && !shorter || !time.Now().Before(deadline) {
			return script, err
		}
	}
}

// A simStep is one thing that happens. What the numbers mean is the operation's
// business, and it takes them modulo what there is, so that a script from which
// steps were taken still makes sense.
type simStep struct {
	op      simOp
	a, b, c int
}

// simGenerate makes the script of a seed.
func simGenerate(seed uint64, n int) []simStep {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := simConfigOf(seed)
	if cfg.records > simBlock { // it takes its time
		n = max(20, n/6)
	}
	var weights [len(simOps)]int
	total := 0
	for op, d := range simOps {
		switch {
		case d.only == onByHand && cfg.over, d.only == onOver && !cfg.over, d.fault && !cfg.faulty:
			continue
		}
		// Each script has a taste: what happens seldom elsewhere is all it does.
		weights[op] = d.weight * [...]int{0, 1, 1, 4}[rng.IntN(4)]
		if d.always {
			weights[op] = d.weight
		}
		total += weights[op]
	}
	script := make([]simStep, n)
	for i := range script {
		r := rng.IntN(total)
		op := simOp(0)
		for ; r >= weights[op]; op++ {
			r -= weights[op]
		}
		script[i] = simStep{op, rng.IntN(1000), rng.IntN(1000), rng.IntN(1000)}
	}
	return script
}

// scriptText and parseScript are a script as a flag has it.
func scriptText(script []simStep) string {
	var b strings.Builder
	for i, s := range script {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %d %d %d", simOps[s.op].name, s.a, s.b, s.c)
	}
	return b.String()
}

func parseScript(text string) (script []simStep, err error) {
	for s := range strings.SplitSeq(text, ";") {
		f := strings.Fields(s)
		if len(f) == 0 {
			continue
		}
		op := slices.IndexFunc(simOps[:], func(d simOpDef) bool { return d.name == f[0] })
		if op < 0 || len(f) != 4 {
			return nil, fmt.Errorf("step %q: want one of the operations and three numbers", s)
		}
		var n [3]int
		for i := range n {
			if n[i], err = strconv.Atoi(f[1+i]); err != nil {
				return nil, err
			}
		}
		script = append(script, simStep{simOp(op), n[0], n[1], n[2]})
	}
	return script, nil
}

// A simConfig is what a seed decides of its world besides the script.
type simConfig struct {
	over     bool // real associations, else links moved by hand
	gen      int  // crypto generation
	nodes    int
	records  int  // that there may be; a set of many has more than one chunk
	limits   int  // which limits
	hides    bool // nodes hide records from each other
	push     bool // node 0 pushes pages
	announce bool // on open
	faulty   bool // frames come twice, or cannot be read
	disabled Feature
}

func simConfigOf(seed uint64) simConfig {
	rng := rand.New(rand.NewPCG(seed, 2))
	c := simConfig{
		over:     rng.IntN(3) == 0,
		gen:      2 + rng.IntN(2),
		nodes:    2 + rng.IntN(2),
		records:  simBlock,
		limits:   rng.IntN(len(simLimits)),
		hides:    rng.IntN(3) > 0,
		push:     rng.IntN(4) == 0,
		announce: rng.IntN(4) == 0,
		faulty:   rng.IntN(4) == 0,
	}
	if rng.IntN(8) == 0 {
		c.disabled = 1 << rng.IntN(7)
	}
	if rng.IntN(12) == 0 {
		c.records = 20 * simBlock
	}
	if c.over {
		c.faulty = false // nothing that is altered gets past the tag
	}
	return c
}

// simLimits are the limits that a world may have: wide ones, and small ones of
// every sort.
var simLimits = [...]Limits{
	{QueryRate: -1, PageRate: -1},
	{QueryRate: -1, PageRate: -1, MaxPageRecords: 2, MaxPageLen: 300, MaxQueuedUpdates: 2, MaxSnapshots: 2,
		MaxQueuedEvents: 3, MaxCallbacks: 1, MaxTombstones: 2, MaxRetired: 4},
	{QueryRate: -1, PageRate: -1, MaxPageRecords: 5, MaxPageLen: 700, MaxQueuedUpdates: 5,
		MinUpdateInterval: 50 * time.Millisecond, MaxQueuedEvents: 16},
	{QueryRate: 2, QueryBurst: 3, PageRate: 4, PageBurst: 4, MaxPageRecords: 3, MaxUnanswered: 2,
		MaxSubscriptions: 2, MaxOwnSubscriptions: 3, MaxOutstanding: 2},
	{QueryRate: -1, MaxPeerMemory: 16000, MaxListRecords: 12, MaxListLen: 3000, MaxCacheRecords: 5, MaxCacheLen: 1500,
		MaxUnsent: 16, MaxPageRecords: 4, SnapshotTTL: time.Second, MaxPages: 4},
	{QueryRate: -1, MaxFrameLen: 1100, MaxPageRecords: 7},
	{QueryRate: -1, PageRate: -1, MaxPageRecords: 1, MaxQueuedUpdates: 1, MaxSnapshots: 1, RequestTimeout: 3 * time.Second,
		PageStall: time.Second, StallTimeout: 5 * time.Second, ResyncInterval: time.Second, MaxRestarts: -1},
}
