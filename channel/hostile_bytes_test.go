package channel

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// The tests named after failures seen in comparable systems are in the files
// hostile_*_test.go: this one has what is wrong with the bytes of one payload.

// refused sends requests that must all be refused so, and nothing come of them.
func refused(t *testing.T, typ frame.Type, answer string, payloads ...string) {
	t.Helper()
	p, l := linked(t, Config{Hub: hub(t, four(t)), Limits: Limits{UncorrelatedErrors: 1000}})
	for i, payload := range payloads {
		l.putHex(typ, payload)
		want(t, payload, l.takeAll(), answer)
		if st := p.Stats(); st.Malformed != uint64(i+1) || st.Unanswered+st.Subscriptions+st.Cached != 0 {
			t.Errorf("%s: %+v", payload, st)
		}
	}
	l.putHex(query, v1)
	if f := l.take(); !strings.HasPrefix(f, "0101:") || l.why() != nil {
		t.Errorf("no answer any more: %.60s, %v", f, l.why())
	}
}

// failed has a listing answered with a payload, of which %s is the corr, and
// checks that it fails as what cannot be read, and nothing else happens.
func failed(t *testing.T, payload string) {
	t.Helper()
	p, l := linked(t, Config{})
	c := start(p, Query{})
	synctest.Wait()
	l.putHex(result, fmt.Sprintf(payload, l.lastCorr()))
	synctest.Wait()
	var pe *disco.PayloadError
	if !errors.As(c.err, &pe) {
		t.Errorf("%s: %v", payload, c.err)
	}
	want(t, payload, l.takeAll())
	if st := p.Stats(); st.Cached+st.Outstanding != 0 || st.Malformed != 1 {
		t.Errorf("%s: %+v", payload, st)
	}
}

// budget fails the test if f, which handles a payload of n octets, allocates more
// than 4 n and 64 KiB.
func budget(t *testing.T, why string, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(4*n+64<<10) && !raced {
		t.Errorf("%s: %d octets allocated for %d", why, got, n)
	}
}

// handled is budget for a payload that a peer receives. Its copy is not counted.
func (l *link) handled(why string, typ frame.Type, payload []byte) {
	l.t.Helper()
	budget(l.t, why, len(payload), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended {
			l.user.Receive(frame.Frame{Type: typ, Flags: frame.FlagENC, Payload: payload})
		}
	})
}

// Covers: F01, DISC-4.1-06
func TestF01KeyOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a201410100190100", "a40019010001410103810102"+"8103")
		refused(t, subscribe_, errorFrame("01", 1), "a201410100190104")
	})
}

// Covers: F02, DISC-4.1-06
func TestF02DuplicateKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a400190100014101028101028103")
		refused(t, query, errorFrame("", 1), "a300190100014101014102") // whose corr is it?
		failed(t, "a4001901010150%s0281a50042703101010201020204a20001010103f5")
		failed(t, "a4001901010150%s0281a4004270310101020104a300010101010203f5")
	})
}

// Covers: F03, C12, DISC-4.1-06
func TestF03LengthFirstOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1),
			"a4001901000141011818f520f5", // keys 0, 1, 24, -1: in order, and one is negative
			"a40019010001410120f51818f5") // keys 0, 1, -1, 24: the order of lengths
		for payload, offset := range map[string]int{"a4001901000141011818f520f5": 11, "a40019010001410120f51818f5": 10} {
			_, err := disco.ParseQuery(unhex(payload), nil)
			var pe *disco.PayloadError
			if !errors.As(err, &pe) || pe.Offset != offset {
				t.Errorf("%s: %v, want offset %d", payload, err, offset)
			}
		}
	})
}

// Covers: F04, DISC-4.1-05, DISC-4.1-06
func TestF04LongHeadsAndIndefiniteLengths(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a2001a00000100014101", "a20019010001580101", "bf00190100014101ff")
		refused(t, query, errorFrame("", 1), "a200190100015f4101ff")
	})
}

// Covers: F05, DASP-011-01
func TestF05DeclaredLength(t *testing.T) {
	bubble(t, func(t *testing.T) {
		payloads := []string{"a300190100014101029bffffffffffffffff", "a300190100014101029a7fffffff", "a200190100015b7fffffffffffffff",
			// The same in every place that declares a length.
			"bbffffffffffffffff", "a3001901000141010478" + "ff", "a300190100014101047a7fffffff", "a3001901000141010299ffff",
			"a300190100014101069a00100000", "a30019010001410107bb7fffffffffffffff"}
		refused(t, query, errorFrame("", 1), payloads...)
		p, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 1000}})
		for _, payload := range payloads {
			l.handled(payload, query, unhex(payload))
		}
		for typ, payload := range map[frame.Type]string{
			result:   "a40019010101410102" + "9b00000000ffffffff",
			announce: "a200190103029a7fffffff",
			update:   "a300190105014105039b7fffffffffffffff",
		} {
			l.handled(payload, typ, unhex(payload))
		}
		if n := p.Stats().Malformed; n != uint64(len(payloads)+3) || l.why() != nil {
			t.Errorf("Malformed = %d, ended: %v", n, l.why())
		}
	})
}

// Covers: F07, C12
func TestF07DeepNesting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deep := []string{
			"a30019010001410102" + strings.Repeat("81", 60_000),
			"a30019010001410107" + strings.Repeat("81", 200) + "00",   // in an unknown key
			"a30019010001410107" + strings.Repeat("a100", 60) + "00",  // maps
			"a30019010001410107" + strings.Repeat("d818", 60) + "00",  // tags
			"a30019010001410107" + strings.Repeat("81", 8) + "00",     // one too deep
			"a30019010001410107" + strings.Repeat("81a100", 4) + "00", // mixed
		}
		refused(t, query, errorFrame("", 1), deep...)
		_, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 1000}})
		for i, payload := range deep {
			l.handled(fmt.Sprint("payload ", i), query, unhex(payload))
		}
		l.takeAll()
		l.putHex(query, "a30019010001410107"+strings.Repeat("81", 7)+"00")
		want(t, "as deep as may be", l.takeAll(), "0101:"+v4)
		// In records, which have used up three levels.
		for levels, ok := range map[int]bool{5: true, 6: false} {
			p, l := linked(t, Config{})
			l.putHex(announce, "a2001901030281a5004274310103020104a20060010109"+strings.Repeat("81", levels)+"00")
			if got := p.Stats().Cached == 1; got != ok {
				t.Errorf("%d levels in a record: %v", levels, got)
			}
		}
	})
}

// Covers: F08, C28, DISC-4.1-06
func TestF08InvalidUTF8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a3001901000141010462c0ae", "a3001901000141010463eda080",
			"a300190100014101"+"0762c0ae") // nobody reads it, and it is no text
		bad := "\xc0\xae"
		set := newSet(t, tool("t1", "a"))
		before := set.Digest()
		err := set.Update(func(tx *record.Tx) error {
			r, err := record.Tool{ID: "t2", Label: &bad, Name: "a", ProtocolID: 1}.Record()
			if err != nil {
				return err
			}
			return tx.Put(r)
		})
		if err == nil || !strings.Contains(err.Error(), "label") || set.Digest() != before {
			t.Errorf("published: %v", err)
		}
		p, l := linked(t, Config{})
		c := start(p, Query{Filter: record.Filter{NamePrefix: bad, HasPrefix: true}})
		synctest.Wait()
		if c.err == nil || l.take() != "" {
			t.Errorf("our own prefix: %v", c.err)
		}
	})
}

// Covers: F09, C54, DISC-8-02
func TestF09Revisions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{})
		for _, rev := range []uint64{1, math.MaxInt64, 1 << 63, 1<<63 + 1, math.MaxUint64} {
			l.put(announce, announceOf(tool("t1", "a").WithRevision(rev)))
			if r, _, ok := p.Lookup("t1"); !ok || r.Revision() != rev {
				t.Errorf("revision %d: %v, %v", rev, r.Revision(), ok)
			}
		}
		l.put(announce, announceOf(tool("t1", "b").WithRevision(math.MaxInt64)))
		if r, _, _ := p.Lookup("t1"); r.Revision() != math.MaxUint64 || p.Stats().StaleRevision != 1 {
			t.Errorf("revision %d after the greatest", r.Revision())
		}
		set := newSet(t, tool("t1", "a").WithRevision(math.MaxUint64))
		if err := set.Update(func(tx *record.Tx) error { return tx.Put(tool("t1", "b")) }); err == nil {
			t.Error("a change at the greatest revision")
		}
		if r, _ := set.Snapshot().Get("t1"); r.Revision() != math.MaxUint64 {
			t.Errorf("it is at %d", r.Revision())
		}
	})
}

// Covers: F10, DISC-4.1-02, DISC-4.1-08, DISC-5-01
func TestF10MajorTypes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a300190100014101613280")
		refused(t, query, errorFrame("", 1), "a200190100016101")
		failed(t, "a4001901010150%s0281a4004274310103020104a200416e010103f5") // name as bytes
		failed(t, "a4001901010150%s0281a4006274310103020104a200616e010103f5") // record_id as text

		// All that we emit has unsigned integer keys.
		set := four(t)
		r, lr := linked(t, Config{Hub: hub(t, set), AnnounceOnOpen: true, Limits: Limits{MaxPageRecords: 1}})
		q, lq := linked(t, Config{})
		start(q, Query{Filter: record.Filter{Kinds: []record.Kind{3}, ProtocolIDs: []uint64{1}, NamePrefix: "g", HasPrefix: true}, Tolerant: true})
		sub, _ := q.Subscribe(record.Filter{Kinds: []record.Kind{3}}, nil)
		lr.putHex(query, v1, "05")
		lr.putHex(subscribe_, v10)
		synctest.Wait()
		emitted := append(lr.takeAll(), lq.takeAll()...)
		withdraw(t, set, "a1", "t1")
		put(t, set, tool("t2", "a"))
		sub.Unsubscribe()
		emitted = append(append(emitted, lr.takeAll()...), lq.takeAll()...)
		synctest.Wait()
		seen := map[string]bool{}
		for _, f := range append(emitted, lq.takeAll()...) {
			seen[f[:4]] = true
			var v any
			if err := cbor.Unmarshal(unhex(f[5:]), &v); err != nil {
				t.Fatal(err)
			}
			unsignedKeys(t, f, v)
		}
		if len(seen) < 6 || r.Stats().FramesOut[3] == 0 {
			t.Errorf("emitted %v", seen)
		}
	})
}

func unsignedKeys(t *testing.T, f string, v any) {
	switch v := v.(type) {
	case map[any]any:
		for k, v := range v {
			if _, ok := k.(uint64); !ok {
				t.Errorf("%s: key %v (%T)", f, k, k)
			}
			unsignedKeys(t, f, v)
		}
	case []any:
		for _, v := range v {
			unsignedKeys(t, f, v)
		}
	}
}

// Covers: F11, DISC-6.2-07, DISC-5.1-04, DGP-24.3-01
func TestF11NilAndEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		absent := record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC}
		empty := absent
		empty.ID, empty.Channels, empty.Methods = "p2", []uint64{}, []string{}
		set := newSet(t, must(absent.Record()), must(empty.Record()))
		_, l := linked(t, Config{Hub: hub(t, set)})
		l.putHex(query, "a3001901000141010280")
		want(t, "kinds that match nothing", l.takeAll(), "0101:"+v4)
		_, none := linked(t, Config{})
		none.putHex(query, v1)
		want(t, "an empty set", none.takeAll(), "0101:a400190101014101028003f5")

		a, _ := pair(t, Config{}, Config{Hub: hub(t, set)})
		list, err := a.Query(t.Context(), Query{})
		if err != nil || len(list.Records) != 2 {
			t.Fatal(err)
		}
		p1, _ := list.Records[0].Protocol()
		p2, _ := list.Records[1].Protocol()
		if p1.Channels != nil || p1.Methods != nil || p2.Channels == nil || len(p2.Channels) > 0 || p2.Methods == nil || len(p2.Methods) > 0 {
			t.Errorf("%#v, %#v", p1, p2)
		}
	})
}

// Covers: F12, C29
func TestF12Null(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed(t, "a4001901010150%s02f603f5")
		failed(t, "a4001901010150%s0281f603f5")
		failed(t, "a4001901010150%s0281a5004274310103020103f604a20060010103f5") // label
		refused(t, query, errorFrame("01", 1), "a30019010001410102f6", "a3001901000141010281f93c00", "a30019010001410104f6",
			"a30019010001410105f6", "a30019010001410106f6", "a30019010001410102f7", "a3001901000141010281f6")
		p, l := linked(t, Config{})
		l.putHex(announce, "a2001901030281f6", "a20019010302f6")
		l.putHex(update, "a30019010501410502f6", "a3001901050141050381f6")
		want(t, "nobody answers", l.takeAll())
		if st := p.Stats(); st.Malformed != 4 || st.Cached != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Covers: F13, DISC-4.1-01
func TestF13Boundaries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused(t, query, errorFrame("01", 1), "a20019010001410100")
		refused(t, query, errorFrame("", 1), "")
		whole := encoded(disco.AppendQuery(nil, &disco.Query{Corr: "\x01", Tolerant: true, Filter: record.Filter{
			Kinds: []record.Kind{3, 4}, ProtocolIDs: []uint64{1}, NamePrefix: strings.Repeat("x", 180), HasPrefix: true}}))
		if len(whole) != 200 {
			t.Fatalf("%d octets", len(whole))
		}
		p, l := linked(t, Config{Hub: hub(t, four(t)), Limits: Limits{UncorrelatedErrors: 1000}})
		for n := range whole {
			l.put(query, whole[:n])
			if got := l.takeAll(); len(got) != 1 || !strings.HasPrefix(got[0], "0102:") {
				t.Fatalf("the first %d octets: %v", n, got)
			}
		}
		l.put(query, whole)
		want(t, "all of it", l.takeAll(), "0101:"+v4)
		if n := p.Stats().Malformed; n != 200 {
			t.Errorf("Malformed = %d", n)
		}
	})
}

// Covers: F14, DISC-4.1-10, DISC-4.1-11, C6, C11, DGP-1.3-02
func TestF14UnknownKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := linked(t, Config{Hub: hub(t, four(t))})
		l.putHex(query, v1)
		as := l.take()
		l.putHex(query, "a300190100014101181800")
		want(t, "as without it", l.takeAll(), as)
		p, l := linked(t, Config{})
		c := start(p, Query{})
		synctest.Wait()
		l.putHex(result, "a5001901010150"+l.lastCorr()+"0282"+
			"a5004274310103020104a20060010118186161"+"a4004274320103020104a300600101181800"+"03f5"+"1863"+"a10000")
		synctest.Wait()
		if c.err != nil || len(c.list.Records) != 2 {
			t.Errorf("in a payload, a record and a body: %v", c.err)
		}
		refused(t, query, errorFrame("01", 1), "a3001901000141012000")
		failed(t, "a4001901010150%s0281a5004274310103020104a2006001012000"+"03f5")
		failed(t, "a4001901010150%s0281a4004274310103020104a30060010120"+"00"+"03f5")
	})
}

// associated starts two peers, or a peer and a script where b is nil, over a real
// association on a wire.
func associated(t *testing.T, w *channeltest.Wire, client, server *association.Config, ca Config, cb *Config) (a, b *Peer, s *channeltest.Script) {
	t.Helper()
	ends := [2]frame.Transport{}
	ac, as, err := channeltest.Associate(t.Context(), w.A, w.B, client, server)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []*association.Association{ac, as} {
		if ends[i], err = x.Transport(frame.ChannelDiscovery); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = New(ends[0], ca); err != nil {
		t.Fatal(err)
	}
	if cb != nil {
		b, err = New(ends[1], *cb)
	} else {
		s, err = channeltest.NewScript(ends[1])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); as.Close() })
	return a, b, s
}

// padded is a RESULT of n octets: no records, and an ignored value.
func padded(corr string, n int) []byte {
	b := append(unhex("a5001901010150"+corr+"028003f5"), 7)
	for head := 3; ; head += 2 { // the value's length takes 2 octets, or 4
		if v := n - len(b) - head; dcbor.HeadLen(uint64(v)) == head {
			return dcbor.AppendBytes(b, make([]byte, v))
		}
	}
}

// Covers: F15, C42
func TestF15LargeFrames(t *testing.T) {
	const maxFrame = 200_000
	for _, generation := range []int{2, 3} {
		bubble(t, func(t *testing.T) {
			a, _, s := associated(t, channeltest.NewWire(),
				&association.Config{Identity: channeltest.Identity(1), Generations: []int{generation}, MaxFrame: maxFrame},
				&association.Config{Identity: channeltest.Identity(2), Generations: []int{generation}}, Config{}, nil)
			for _, n := range []int{65_535, 65_536, 65_537, maxFrame - frame.HeaderLen - frame.TagLen} {
				other, c := start(a, Query{}), start(a, Query{})
				synctest.Wait()
				in := s.Take()
				s.Send(channeltest.Frame{Type: result, Payload: padded(corrOf(t, in[0].String()), n)})
				synctest.Wait()
				if other.done == c.done || other.err != nil || c.err != nil {
					t.Fatalf("%d octets: %v, %v", n, other.err, c.err)
				}
				s.SendHex(result, page(corrOf(t, in[1].String()), ""))
				synctest.Wait()
				if !other.done || !c.done {
					t.Errorf("the other exchange does not go on")
				}
			}
			c := start(a, Query{})
			synctest.Wait()
			s.Send(channeltest.Frame{Type: result, Payload: padded(corrOf(t, s.Take()[0].String()), maxFrame-frame.HeaderLen-frame.TagLen+1)})
			synctest.Wait()
			if err := a.Wait(); !errors.Is(err, frame.ErrTooLong) || !c.done || c.err == nil {
				t.Errorf("one more: %v, %v", err, c.err)
			}
		})
	}
}

// Covers: F16, C44, DISC-10-10
func TestF16Accumulation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, l := linked(t, Config{Limits: Limits{MaxCacheRecords: 1000, MaxPages: 300}})
		for i := range 200 {
			recs := make([]record.Record, 0, 20)
			for k := range 20 {
				recs = append(recs, tool(fmt.Sprintf("a%05d", 20*i+k), ""))
			}
			l.put(announce, announceOf(recs...))
		}
		if st := p.Stats(); st.Cached != 1000 || st.AnnounceRefused != 3000 || st.Memory > 400_000 {
			t.Errorf("announced: %d cached, %d refused, %d octets", st.Cached, st.AnnounceRefused, st.Memory)
		}
		c := start(p, Query{})
		synctest.Wait()
		for i := 0; !c.done && i < 1000; i++ {
			l.put(result, resultOf(l.lastCorr(), "aa", tool(fmt.Sprintf("q%05d", i), "")))
			synctest.Wait()
		}
		var ie *IncompleteError
		if !errors.As(c.err, &ie) || ie.Pages != 300 || p.Stats().Cached != 1000 {
			t.Errorf("a listing of 1000 pages: %v", c.err)
		}
		if st := p.Stats(); st.Memory > 400_000 || st.Outstanding != 0 {
			t.Errorf("%d octets", st.Memory)
		}
	})
}
