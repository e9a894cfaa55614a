package subscribe

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// TestRatios measures this package's figure as disco's TestRatios does: one
// record of 100,000 changes with 10,000 subscriptions, against matching it to
// 10,000 filters once; by a label, and by the protocol_id it is filtered by.
//
//	NPAMP_RATIOS=1 go test -v -run TestRatios ./subscribe
func TestRatios(t *testing.T) {
	if os.Getenv("NPAMP_RATIOS") == "" {
		t.Skip("a measurement: set NPAMP_RATIOS")
	}
	x := newTenThousand(t)
	defer x.h.Close()
	for _, c := range []struct {
		name     string
		versions []record.Record
	}{{"label", x.labels}, {"protocol_id", x.moves}} {
		facts := c.versions[0].Facts()
		n := 0
		var ratios []float64
		for range 61 {
			start := time.Now()
			for range 20 {
				for i := range x.matchers {
					if x.matchers[i].Match(facts) {
						n++
					}
				}
			}
			match := time.Since(start)
			start = time.Now()
			for i := range 20 {
				if err := x.set.Update(func(tx *record.Tx) error { return tx.Put(c.versions[i]) }); err != nil {
					t.Fatal(err)
				}
			}
			ratios = append(ratios, float64(time.Since(start))/float64(match))
			x.drain()
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		line, err := json.Marshal(map[string]any{"name": "update of a " + c.name + " in 100000 with 10000 subscriptions / one matching pass",
			"value": float64(int(ratio*100)) / 100, "bound": 3, "ok": ratio <= 3})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(line))
		if ratio > 3 || n == 0 {
			t.Errorf("%s: %.2f, bound 3; %d matches", c.name, ratio, n)
		}
	}
}

// tenThousand is 10,000 subscriptions of 1,000 associations to a set of 100,000
// records, and one of those in many versions.
type tenThousand struct {
	set           *record.Set
	h             *Hub
	boxes         []*Outbox
	matchers      []record.Matcher
	labels, moves []record.Record
	out           []byte
}

func newTenThousand(t testing.TB) *tenThousand {
	x := &tenThousand{set: bigSet(t, 100_000)}
	for r := range x.set.Snapshot().All() {
		tool, _ := r.Tool()
		if tool.Name[:7] != "svc007." {
			continue
		}
		for i := range 64 {
			label := fmt.Sprint("label ", i)
			tool.Label = &label
			tool.ProtocolID = 1
			r, _ := tool.Record()
			x.labels = append(x.labels, r)
			tool.ProtocolID = uint64(1 + i%4)
			r, _ = tool.Record()
			x.moves = append(x.moves, r)
		}
		break
	}
	x.h = NewHub(x.set)
	for range 1000 {
		x.boxes = append(x.boxes, NewOutbox(func() {}))
	}
	for i := range 10_000 { // of which some 20 match a tool of svc007
		f := record.Filter{Kinds: []record.Kind{record.KindTool}, NamePrefix: fmt.Sprintf("svc%03d.", i%500), HasPrefix: true}
		if i%2 == 0 {
			f.ProtocolIDs = []uint64{uint64(1 + i%6)}
		}
		x.matchers = append(x.matchers, f.Matcher())
		x.h.Subscribe(x.boxes[i%len(x.boxes)], disco.Corr(fmt.Sprint(i)), f, Options{})
	}
	x.drain()
	return x
}

func (x *tenThousand) drain() {
	page := record.Page{MaxRecords: 1024, MaxLen: 256 << 10}
	cursor := func(*record.Snapshot, record.Position) disco.Cursor { return "" }
	for _, o := range x.boxes {
		for s := o.Next(); s != nil; s = o.Next() {
			x.out, _, _ = s.AppendFrame(x.out[:0], page, cursor)
		}
	}
}
