package channel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// TestRatios measures one UPDATE to each of 10,000 subscriptions, a key each:
// assembling and sealing the frames against sealing as many octets under the
// same keys. The change is matched and queued before the clock starts.
//
//	NPAMP_RATIOS=1 go test -v -run TestRatios ./channel
func TestRatios(t *testing.T) {
	if os.Getenv("NPAMP_RATIOS") == "" {
		t.Skip("a measurement: set NPAMP_RATIOS")
	}
	const n, rounds = 10_000, 31
	set := tools(t, 1)
	hub := subscribe.NewHub(set)
	defer hub.Close()
	boxes, sealers := make([]*subscribe.Outbox, n), make([]*keys.Key, n)
	for i := range n {
		boxes[i] = subscribe.NewOutbox(func() {})
		hub.Subscribe(boxes[i], disco.Corr(fmt.Sprintf("correlation-%04d", i)), record.Filter{}, subscribe.Options{})
		secret := make([]byte, keys.KeyLen)
		secret[0], secret[1] = byte(i), byte(i>>8)
		key, err := keys.NewKey(keys.SuiteAES256GCM, secret, make([]byte, keys.NonceLen))
		if err != nil {
			t.Fatal(err)
		}
		sealers[i] = key
	}
	page := record.Page{MaxRecords: 1024, MaxLen: 256 << 10}
	seq, length := uint64(0), 0
	out := make([]byte, 0, 64<<10)
	assemble := func(seals bool) {
		for i, box := range boxes {
			out = out[:frame.HeaderLen]
			for s := box.Next(); s != nil; s = box.Next() {
				var typ disco.Type
				if out, typ, _ = s.AppendFrame(out, page, nil); typ == 0 || !seals {
					continue
				}
				length = len(out)
				out = sealers[i].SealFrame(out, 0, frame.Header{Flags: frame.FlagENC, Type: frame.Type(typ), Channel: frame.ChannelDiscovery, Seq: seq})
			}
		}
	}
	seal := func() {
		for _, key := range sealers {
			out = key.SealFrame(out[:length], 0, frame.Header{Flags: frame.FlagENC, Type: frame.Type(disco.TypeUpdate), Channel: frame.ChannelDiscovery, Seq: seq})
		}
	}
	assemble(false) // the snapshots
	var ratios, sealing []float64
	var before, after runtime.MemStats
	allocations := 0.0
	for range rounds {
		seq++
		err := set.Update(func(tx *record.Tx) error {
			for r := range tx.All() {
				tool, _ := r.Tool()
				label := fmt.Sprintf("label %08d", seq)
				tool.Label = &label
				r, err := tool.Record()
				if err != nil {
					return err
				}
				return tx.Put(r)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&before)
		start := time.Now()
		assemble(true)
		both := time.Since(start)
		runtime.ReadMemStats(&after)
		allocations = max(allocations, float64(after.Mallocs-before.Mallocs)/n)
		seq++
		start = time.Now()
		seal()
		alone := time.Since(start)
		ratios = append(ratios, float64(both)/float64(alone))
		sealing = append(sealing, float64(alone)/n)
	}
	slices.Sort(ratios)
	slices.Sort(sealing)
	report := func(name string, value, bound float64) {
		line, err := json.Marshal(map[string]any{"name": name, "value": float64(int(value*1000)) / 1000, "bound": bound, "ok": value <= bound})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(line))
		if value > bound {
			t.Errorf("%s: %.3f, bound %v", name, value, bound)
		}
	}
	report(fmt.Sprintf("UPDATE to %d subscriptions, a key each: assemble and seal / seal", n), ratios[rounds/2], 1.15)
	report("the same: allocations a subscription", float64(int(allocations*100))/100, 0) // the runtime's own are fewer than one in 100
	t.Logf("%d octets a frame, %.0f ns to seal", length, sealing[rounds/2])
}
