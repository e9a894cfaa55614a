package channel

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	mathrand "math/rand/v2"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// This file has the failures seen elsewhere that concern listings and cursors.

// answers plays a responder: it answers each QUERY that waits on the link with
// what next returns, under its corr, until the call is done or next returns nil.
func answers(c *call, l *link, next func(corr string) []byte) {
	for synctest.Wait(); !c.done; synctest.Wait() {
		b := next(l.lastCorr())
		if b == nil {
			return
		}
		typ := result
		if b[4] == 2 {
			typ = errorMsg
		}
		l.put(typ, b)
	}
}

// Covers: F17, DISC-6.2-02, DISC-6.2-04, DASP-005-05
func TestF17EveryPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := newSet(t, many(101)...)
		a, _ := pair(t, Config{}, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 50}})
		list, err := a.Query(t.Context(), Query{})
		if err != nil || len(list.Records) != 101 || list.Pages != 3 || list.Digest() != set.Digest() {
			t.Errorf("Query: %v", err)
		}
		n := 0
		for _, err := range a.Records(t.Context(), Query{}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 101 {
			t.Errorf("Records: %d", n)
		}
		first, err := a.QueryPage(t.Context(), Query{})
		if err != nil || len(first.Records) != 50 || first.Complete {
			t.Errorf("QueryPage: %v", err)
		}
		sub, err := a.Subscribe(record.Filter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sub.WaitSynced(t.Context()); err != nil || sub.Len() != 101 || sub.Digest() != set.Digest() {
			t.Errorf("a view: %v, %d", err, sub.Len())
		}
		if a.Stats().Cached != 101 {
			t.Errorf("%d cached", a.Stats().Cached)
		}
	})
}

// Covers: F18, C44, DASP-005-06, DISC-10-10
func TestF18ListingWithoutEnd(t *testing.T) {
	for name, c := range map[string]struct {
		bound string
		pages int
		next  func(i int) (cursor string, r record.Record)
	}{
		"the same page for ever": {"MaxBarren", 9, func(int) (string, record.Record) { return "\xaa", tool("t0", "a") }},
		"fresh records for ever": {"MaxPages", 10_000, func(i int) (string, record.Record) { return fmt.Sprint("c", i), tool(fmt.Sprintf("t%06d", i), "a") }},
	} {
		bubble(t, func(t *testing.T) { // with the bounds as they come
			p, l := linked(t, Config{})
			q, i := start(p, Query{}), 0
			var recs []record.Record
			answers(q, l, func(corr string) []byte {
				cursor, r := c.next(i)
				recs = append(recs[:0], r)
				i++
				return resultOf(corr, cursor, recs...)
			})
			var ie *IncompleteError
			if !errors.As(q.err, &ie) || !strings.Contains(q.err.Error(), c.bound) || ie.Pages != c.pages || i != c.pages {
				t.Errorf("%s: %d pages: %v", name, i, q.err)
			}
			if st := p.Stats(); st.Memory != 0 || st.Outstanding != 0 || st.Cached != 0 {
				t.Errorf("%s: %+v", name, st)
			}
		})
	}
}

// Covers: F19, C44
func TestF19OneCursorForAllPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		c, i := start(p, Query{}), 0
		answers(c, l, func(corr string) []byte {
			i++
			cursor := "\x01"
			if i == 4 {
				cursor = ""
			}
			return resultOf(corr, cursor, tool(fmt.Sprint("t", i), "a"))
		})
		if c.err != nil || len(c.list.Records) != 4 || c.list.Pages != 4 {
			t.Errorf("%v, %+v", c.err, c.list)
		}
	})
}

// Covers: F20, C2, C26
func TestF20EmptyCursorAndPrefix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		c := start(p, Query{})
		synctest.Wait()
		corr := l.lastCorr()
		l.putHex(result, page(corr, "40"))
		synctest.Wait()
		want(t, "the cursor is there and empty", l.takeAll(), "0100:a3001901000150"+corr+"0640")
		l.putHex(result, page(corr, ""))
		synctest.Wait()
		if !c.done || c.err != nil {
			t.Error(c.err)
		}
		c = start(p, Query{Filter: record.Filter{HasPrefix: true}})
		synctest.Wait()
		corr = l.lastCorr()
		l.putHex(result, page(corr, "", tool("t1", "")))
		synctest.Wait()
		if c.err != nil || len(c.list.Records) != 1 {
			t.Errorf("an empty prefix, as requester: %v", c.err)
		}
		_, l = linked(t, Config{Hub: hub(t, four(t))})
		l.putHex(query, v1)
		all := l.take()
		l.putHex(query, "a3001901000141010460")
		want(t, "an empty prefix restricts nothing", l.takeAll(), all)
	})
}

// Covers: F21, C3, DISC-6.2-06, DASP-003-02, DASP-005-01
func TestF21CursorWithAnotherFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := four(t)
		put(t, set, many(3)...)
		p, l := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 1}})
		l.putHex(query, "a300190100014101028103")
		cur := cursorOf(t, l.take())
		for name, filter := range map[string]string{
			"kinds 4": "a4001901000141010281040650", "none": "a3001901000141010650", "tolerant": "a50019010001410102810305f50650",
			"kinds 3, 4": "a400190100014101028203040650", "a prefix": "a50019010001410102810304600650",
			"protocol 1": "a50019010001410102810303810106" + "50", "kinds none": "a4001901000141010280" + "0650",
		} {
			l.putHex(query, filter+cur)
			want(t, name, l.takeAll(), errorFrame("01", 5))
		}
		if n := p.Stats().StaleCursors; n != 7 {
			t.Errorf("StaleCursors = %d", n)
		}
		for _, same := range []string{"a400190100014101028103", "a400190100014101028203" + "03", "a50019010001410102810305f4"} {
			l.putHex(query, same+"0650"+cur)
			if f := l.take(); !strings.HasPrefix(f, "0101:") {
				t.Errorf("the same filter: %s", f)
			}
		}
		_, other := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 1}})
		other.putHex(query, "a4001901000141010281030650"+cur)
		want(t, "another association", other.takeAll(), errorFrame("01", 5))
	})
}

// Covers: F22, C2, DASP-003-03, DASP-003-04, DASP-006-05, DASP-012-02
func TestF22BadCursors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Hub: hub(t, newSet(t, many(5)...)), Limits: Limits{MaxPageRecords: 1}})
		l.putHex(query, v1)
		good := disco.Cursor(unhex(cursorOf(t, l.take())))
		flipped := []byte(good)
		flipped[7] ^= 0x10
		random := make([]byte, 32)
		rand.Read(random)
		stale := 0
		for _, cur := range []string{"", "\x00", string(random), string(flipped), string(good) + "\x00", string(good[:15]),
			"\x01", "t00000", strings.Repeat("x", 60_000)} {
			l.put(query, encoded(disco.AppendQuery(nil, &disco.Query{Corr: "\x01", Cursor: disco.Cursor(cur), HasCursor: true})))
			want(t, fmt.Sprintf("cursor %.40x", cur), l.takeAll(), errorFrame("01", 5))
			stale++
		}
		l.put(query, encoded(disco.AppendQuery(nil, &disco.Query{Corr: "\x01", Cursor: disco.Cursor(strings.Repeat("x", 64<<10)), HasCursor: true})))
		want(t, "beyond a request's length", l.takeAll(), errorFrame("", 1))
		if n := p.Stats().StaleCursors; n != uint64(stale) {
			t.Errorf("StaleCursors = %d, want %d", n, stale)
		}
	})
}

// Covers: F23, C2, DASP-005-07, DASP-010-04, DGP-22-06, DGP-19.3-01, DGP-19.3-02
func TestF23ListingThatExpires(t *testing.T) {
	for expiries, complete := range map[int]bool{1: true, 2: true, 3: false} {
		bubble(t, func(t *testing.T) {
			set := newSet(t, many(10)...)
			a, la := linked(t, Config{})
			b, lb := linked(t, Config{Hub: hub(t, set), Limits: Limits{MaxPageRecords: 2}})
			c := start(a, Query{})
			pages := 0
			for synctest.Wait(); !c.done; synctest.Wait() {
				typ, f := la.takeRaw()
				if f == nil {
					t.Fatal("nothing moves")
				}
				lb.put(typ, f)
				typ, f = lb.takeRaw()
				if pages++; pages == 2 && expiries > 0 { // of five: the listing is dropped, and the set another
					expiries--
					b.mu.Lock()
					b.cursors.dropAll()
					b.mu.Unlock()
					withdraw(t, set, record.ID(fmt.Sprintf("t%05d", 2*expiries)))
					put(t, set, tool("t00009", fmt.Sprint("changed", expiries)))
				}
				if typ == errorMsg {
					pages = 0
				}
				la.put(typ, f)
			}
			if complete {
				if c.err != nil || c.list.Digest() != set.Digest() {
					t.Errorf("not the set: %v", c.err)
				}
				return
			}
			if !errors.Is(c.err, ErrIncomplete) || c.list != nil || a.Stats().Cached != 0 {
				t.Errorf("after restarts: %v, %d cached", c.err, a.Stats().Cached)
			}
		})
	}
}

// Covers: F26, C44, DASP-005-04
func TestF26EmptyPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for empty, complete := range map[int]bool{1: true, 7: true, 8: false} {
			p, l := linked(t, Config{})
			c, i := start(p, Query{}), 0
			answers(c, l, func(corr string) []byte {
				if i++; i <= empty {
					return unhex(page(corr, "41aa"))
				}
				return resultOf(corr, "", tool("t1", "a"))
			})
			if complete && (c.err != nil || len(c.list.Records) != 1) || !complete && !errors.Is(c.err, ErrIncomplete) {
				t.Errorf("%d empty pages: %v", empty, c.err)
			}
		}
		// Ours is never empty unless it is the last.
		set := newSet(t, many(20)...)
		put(t, set, must(record.Carriage{ID: "zz", CarriageClass: record.ClassJSONRPC}.Record()))
		for size := 1; size <= 22; size++ {
			_, l := linked(t, Config{Hub: hub(t, set), PushPages: true, Limits: Limits{MaxPageRecords: size}})
			for _, q := range []string{v1, "a300190100014101028103", "a300190100014101028102", "a300190100014101028101"} {
				l.putHex(query, q)
				for _, f := range l.takeAll() {
					r, err := disco.ParseResult(unhex(f[5:]), nil)
					if err != nil || len(r.Records) == 0 && !r.Complete {
						t.Fatalf("pages of %d: %s: %v", size, f, err)
					}
				}
			}
		}
	})
}

// Covers: F27
func TestF27FilterIsNotChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, _ := pair(t, Config{}, Config{Hub: hub(t, newSet(t, many(30)...)), Limits: Limits{MaxPageRecords: 7}})
		q := Query{Filter: record.Filter{Kinds: []record.Kind{4, 3, 3, 1}, ProtocolIDs: []uint64{9, 1, 1}, NamePrefix: "tool.", HasPrefix: true}}
		copied := Query{Filter: record.Filter{Kinds: slices.Clone(q.Filter.Kinds), ProtocolIDs: slices.Clone(q.Filter.ProtocolIDs), NamePrefix: "tool.", HasPrefix: true}}
		one, two := start(a, q), start(a, q)
		sub, err := a.Subscribe(q.Filter, nil)
		synctest.Wait()
		if one.err != nil || two.err != nil || err != nil || len(one.list.Records) != 30 || len(two.list.Records) != 30 || sub.Len() != 30 {
			t.Fatal(one.err, two.err, err)
		}
		if !reflect.DeepEqual(q, copied) {
			t.Errorf("the query is now %v", q)
		}
		one.list.Records[0] = record.Record{}
		if two.list.Records[0].IsZero() {
			t.Error("the results share memory")
		}
	})
}

// listed is SHA-256 over the RESULTs of a set whose records were put in an order
// that the seed gives.
func listed(t *testing.T, seed uint64) string {
	recs := many(190)
	for i := range 10 {
		recs = append(recs, must(record.Agent{ID: record.ID(fmt.Sprint("a", i)), AgentID: "g", Protocols: []uint64{1}, Tools: []record.ID{"t00007", "t00001"}}.Record()))
	}
	rng := mathrand.New(mathrand.NewPCG(seed, 28))
	tools := recs[:190]
	rng.Shuffle(len(tools), func(i, k int) { tools[i], tools[k] = tools[k], tools[i] })
	set := newSet(t, tools...)
	put(t, set, recs[190:]...)
	_, l := linked(t, Config{Hub: hub(t, set)})
	l.putHex(query, v1)
	sum := sha256.Sum256([]byte(l.take()))
	return hex.EncodeToString(sum[:])
}

// Covers: F28, C41, DISC-4.1-03, DASP-005-03
func TestF28SameBytesInEveryProcess(t *testing.T) {
	const env = "DISCO_TEST_F28"
	digest := ""
	bubble(t, func(t *testing.T) {
		if os.Getenv(env) != "" {
			fmt.Println("digest", listed(t, 1000))
			return
		}
		for seed := range uint64(50) {
			switch d := listed(t, seed); {
			case digest == "":
				digest = d
			case d != digest:
				t.Fatalf("seed %d gives other bytes", seed)
			}
		}
	})
	if os.Getenv(env) != "" || t.Failed() {
		return
	}
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestF28SameBytesInEveryProcess$", "-test.v")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "digest "+digest) {
			t.Fatalf("another process: %v\n%s", err, out)
		}
	}
}
