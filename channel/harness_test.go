package channel

import (
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for wait := time.Millisecond; runtime.NumGoroutine() > before && wait < 2*time.Second; wait *= 2 {
		<-time.After(wait) // one that has been told to end may take a moment
	}
	if n := runtime.NumGoroutine(); n > before && code == 0 {
		buf := make([]byte, 1<<20)
		fmt.Printf("%d goroutines left:\n%s\n", n-before, buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

// bubble runs f in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// carries affirms the assigned protocols.
func carries(id uint64) bool { return id >= 1 && id <= 4 }

// newSet returns a set with the records.
func newSet(t *testing.T, recs ...record.Record) *record.Set {
	t.Helper()
	s := record.NewSet(record.SetConfig{Carries: carries})
	put(t, s, recs...)
	return s
}

func put(t *testing.T, s *record.Set, recs ...record.Record) {
	t.Helper()
	err := s.Update(func(tx *record.Tx) error {
		for _, r := range recs {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func withdraw(t *testing.T, s *record.Set, ids ...record.ID) {
	t.Helper()
	err := s.Update(func(tx *record.Tx) error {
		for _, id := range ids {
			if err := tx.Withdraw(id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must(r record.Record, err error) record.Record {
	if err != nil {
		panic(err)
	}
	return r
}

// effect is for the optional field.
func effect(e record.Effect) *record.Effect { return &e }

// tool is a tool record on MCP.
func tool(id, name string) record.Record { return toolOn(id, name, 1) }

func toolOn(id, name string, protocol uint64) record.Record {
	return must(record.Tool{ID: record.ID(id), Name: name, ProtocolID: protocol, Effect: effect(record.ReadOnly)}.Record())
}

// four is the set of the golden payload V6: one record of each kind.
func four(t *testing.T) *record.Set {
	return newSet(t,
		must(record.Agent{ID: "a1", AgentID: "g", Protocols: []uint64{1}, Tools: []record.ID{"t1"}}.Record()),
		must(record.Carriage{ID: "c1", CarriageClass: record.ClassJSONRPC}.Record()),
		must(record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC}.Record()),
		tool("t1", "git.log"))
}

// scripted starts a peer on one end of a pair and a script on the other. Both
// are closed when the test ends.
func scripted(t *testing.T, cfg Config, change ...func(*frame.Info)) (*Peer, *channeltest.Script) {
	t.Helper()
	info := channeltest.Info()
	for _, f := range change {
		f(&info)
	}
	a, b := channeltest.Pair(info, channeltest.Info())
	p, err := New(a, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := channeltest.NewScript(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, s
}

// pair starts two peers that talk to each other.
func pair(t *testing.T, ca, cb Config) (a, b *Peer) {
	t.Helper()
	ta, tb := channeltest.Pair(channeltest.Info(), channeltest.Info())
	a, err := New(ta, ca)
	if err != nil {
		t.Fatal(err)
	}
	b, err = New(tb, cb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// hub is a hub of a set, closed when the test ends.
func hub(t *testing.T, s record.Source) *subscribe.Hub {
	h := subscribe.NewHub(s)
	t.Cleanup(h.Close)
	return h
}

// ask sends payloads of a type and returns what comes back, as type:hex.
func ask(t *testing.T, s *channeltest.Script, typ frame.Type, payloads ...string) []string {
	t.Helper()
	for _, p := range payloads {
		s.SendHex(typ, p)
	}
	return came(s)
}

// came waits until nothing moves and returns what the script received.
func came(s *channeltest.Script) (out []string) {
	synctest.Wait()
	for _, f := range s.Take() {
		out = append(out, f.String())
	}
	return out
}

// want compares what came with what should have.
func want(t *testing.T, why string, got []string, want ...string) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %s\nwant %s", why, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// errorFrame is a DISCO_ERROR, corr in hex ("" for none), with our reason.
func errorFrame(corr string, code byte) string {
	reason := reasons[code]
	head := fmt.Sprintf("78%02x", len(reason))
	if len(reason) < 24 {
		head = fmt.Sprintf("%02x", 0x60+len(reason))
	}
	tail := fmt.Sprintf("02%02x03%s%x", code, head, reason)
	if corr == "" {
		return "0102:a300190102" + tail
	}
	return fmt.Sprintf("0102:a40019010201%02x%s", 0x40+len(corr)/2, corr) + tail
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// later moves the bubble's clock.
func later(d time.Duration) {
	time.Sleep(d) // of the bubble: it takes no time
	synctest.Wait()
}
