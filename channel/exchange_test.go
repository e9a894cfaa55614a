package channel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// What a requester of ours never sends, and with it the exchanges that it cannot
// be made to have. A responder has all of them.
var neverAsked = map[string]string{
	"error-1":                   "sends nothing malformed",
	"error-2":                   "sends nothing malformed",
	"error-5":                   "has only cursors that it was given",
	"x-query-unknown-key":       "sends no key that is not defined",
	"x-three-pages-fresh-corr":  "asks for further pages under the corr of the first",
	"x-page-read-again":         "asks for no page twice",
	"x-cursor-filter-reordered": "sends a filter in one order",
	"x-cursor-other-filter":     "keeps the filter of a listing",
	"x-cursor-filter-left-out":  "keeps the filter of a listing",
	"x-cursor-tolerant-added":   "keeps the filter of a listing",
	"x-cursor-blank":            "has only cursors that it was given",
	"x-cursor-long":             "has only cursors that it was given",
	"x-announce-malformed":      "sends nothing malformed",
	"x-announce-kind":           "sends nothing malformed",
	"x-unasked-replies":         "answers what it was asked",
	"x-malformed-replies":       "sends nothing malformed",
	"x-unknown-type":            "sends no type that is not defined",
	"x-error-1-uncorrelated":    "sends nothing malformed",
	"x-error-1-subscribe":       "sends nothing malformed",
	"x-error-1-negative-key":    "sends nothing malformed",
	"x-error-2-uncorrelated":    "sends nothing malformed",
	"x-error-2-subscribe":       "sends nothing malformed",
	"x-error-7-undecoded":       "sends nothing malformed",
	"x-snapshot-page-asked":     "asks for no page of a snapshot that came",
	"x-unsubscribe-unknown":     "ends the subscriptions that it has",
	"x-unsubscribe-twice":       "ends a subscription once",
	"x-unsubscribe-malformed":   "sends nothing malformed",
	"x-corr-in-use":             "uses no corr twice",
}

// Every exchange with a peer of ours at either end, in both generations: it sends
// each of its frames octet for octet, when they are due, and nothing else; and it
// comes to know what the other end told it.
//
// Covers: DISC-11-02, DISC-2-04, DISC-2-05, DISC-10-11, DISC-3-06, DISC-4.2-05, DISC-4.2-06, DISC-4.3-03, DISC-4.3-04, DISC-4.3-05, DISC-6.1-01, DISC-6.1-02, DISC-6.1-03, DISC-6.1-04
// Covers: DISC-6.1-06, DISC-6.2-01, DISC-6.2-02, DISC-6.2-04, DISC-6.2-05, DISC-6.2-06, DISC-6.2-07, DISC-6.3-01, DISC-6.3-02, DISC-7.1-01, DISC-7.1-02
// Covers: DISC-7.2-01, DISC-7.2-02, DISC-7.2-03, DISC-7.2-04, DISC-7.2-05, DISC-7.2-06, DISC-7.2-07, DISC-7.2-08, DISC-7.3-01, DISC-7.3-02, DISC-7.3-03
// Covers: DISC-8-01, DISC-9-01, DISC-9-03, DISC-9-04, DISC-9-05, C1, C2, C3, C5, C13, C15, C20, C21, C22, C23, C24, C31, C41
// Covers: ACP-05, DASP-003-02, DASP-005-01, DASP-005-05, DASP-009-01, DASP-012-02, DGP-1.3-03, DGP-8-01, DGP-12-03, DGP-19.3-01
func TestExchanges(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(neverAsked)
	for _, x := range set.Exchanges {
		delete(left, x.Name)
		for _, live := range []string{testvectors.Responder, testvectors.Requester} {
			for _, generation := range []int{2, 3} {
				t.Run(fmt.Sprintf("%s/%s/g%d", x.Name, live, generation), func(t *testing.T) {
					if why := neverAsked[x.Name]; why != "" && live == testvectors.Requester {
						t.Skip("skipped: our requester " + why)
					}
					bubble(t, func(t *testing.T) { replay(t, x, live, generation) })
				})
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("no such exchanges: %v", left)
	}
}

// A replayer has a peer of ours at the live end of an exchange, and a script at
// the other.
type replayer struct {
	t     *testing.T
	live  string
	p     *Peer
	s     *channeltest.Script
	set   *record.Set
	bound map[string][]byte   // items by name, as this run has them
	ours  map[string]bool     // those that the peer chose
	came  []channeltest.Frame // of the peer's, and not due yet

	calls map[string]*call         // the peer's own requests by the name of their corr
	subs  map[string]*Subscription // without those that it ended
	ended map[string]*Subscription
	told  map[string]*told // what they were answered
}

// told is what the script said under one corr.
type told struct {
	records map[record.ID]record.Record
	code    disco.Code
}

func replay(t *testing.T, x testvectors.Exchange, live string, generation int) {
	r := &replayer{t: t, live: live, bound: map[string][]byte{}, ours: map[string]bool{}, calls: map[string]*call{},
		subs: map[string]*Subscription{}, ended: map[string]*Subscription{}, told: map[string]*told{}}
	cfg := Config{}
	var announced, toAnnounce []record.Record
	cfg.OnAnnounce = func(a Announcement) { announced = append(announced, a.Records...) }
	r.set = newSet(t)
	for _, st := range x.Steps {
		if st.Set != nil && cmp.Or(st.At, testvectors.Responder) == live {
			put(t, r.set, r.records(st.Set)...)
			condition(t, &cfg, r.set, st.Condition)
		}
	}
	cfg.Hub = hub(t, r.set)
	r.p, r.s = scripted(t, cfg, func(i *frame.Info) { i.Generation = generation })
	for i, st := range x.Steps {
		switch {
		case st.From == live:
			if !r.due(st) {
				r.act(st)
				r.take()
				if !r.due(st) {
					t.Fatalf("step %d (%s): want %04x:%v\n have %v", i, st.Meaning, st.FrameType, st.Payload, r.came)
				}
			}
		case st.From != "":
			r.s.Send(channeltest.Frame{Type: frame.Type(st.FrameType), Payload: r.substituted(st)})
			r.take()
			if st.Fault == 0 {
				r.note(st)
				if a, err := disco.ParseAnnounce(st.Payload, nil); err == nil && st.FrameType == uint16(disco.TypeAnnounce) {
					toAnnounce = append(toAnnounce, a.Records...)
				}
			}
		case st.Change != nil && cmp.Or(st.At, testvectors.Responder) == live:
			r.change(st.Change)
			r.take()
		case st.Silence == live:
			r.silent(i)
		}
	}
	r.silent(len(x.Steps))
	r.outcome()
	if !slices.Equal(announced, toAnnounce) {
		t.Errorf("announced: %v, want %v", announced, toAnnounce)
	}
}

// condition makes a condition of README.md hold of the live end.
func condition(t *testing.T, cfg *Config, s *record.Set, name string) {
	switch name {
	case "":
	case "pages-of-two-records":
		cfg.Limits.MaxPageRecords = 2
	case "unrepresentable-record":
		cfg.Limits.MaxFrameLen = 1024
		put(t, s, must(record.Carriage{ID: "z9", CarriageClass: 1,
			BodyExtra: []record.Field{{Key: 9, Value: "\x59\x10\x00" + string(make([]byte, 4096))}}}.Record()))
	case "name-prefix-disabled":
		cfg.Disabled = FeatureNamePrefix
	case "subscriptions-disabled":
		cfg.Disabled = FeatureSubscriptions
	case "discovery-disabled-for-peer":
		cfg.Disabled = FeatureDiscovery
	case "one-subscription":
		cfg.Limits.MaxSubscriptions = 1
	case "one-request":
		cfg.Limits.QueryRate, cfg.Limits.QueryBurst = 1e-6, 1
	default:
		t.Fatalf("condition %q is not known here", name)
	}
}

func (r *replayer) records(encoded []testvectors.Hex) (recs []record.Record) {
	for _, b := range encoded {
		recs = append(recs, must(record.Parse(b, dcbor.Generation3)))
	}
	return recs
}

func (r *replayer) change(c *testvectors.Change) {
	r.t.Helper()
	err := r.set.Update(func(tx *record.Tx) error {
		for _, rec := range r.records(c.Put) {
			if err := tx.Put(rec); err != nil {
				return err
			}
		}
		for _, id := range c.Withdraw {
			if err := tx.Withdraw(record.ID(id)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// take waits until nothing moves and collects what the peer sent.
func (r *replayer) take() {
	synctest.Wait()
	r.came = append(r.came, r.s.Take()...)
}

// silent checks that the peer sent nothing that is not due, and sends nothing.
func (r *replayer) silent(step int) {
	r.t.Helper()
	later(time.Second)
	if r.take(); len(r.came) > 0 {
		r.t.Fatalf("step %d: nothing is due, there is %v", step, r.came)
	}
}

// corrName is the name of a step's corr, or "".
func corrName(st testvectors.Step) string {
	for _, v := range st.Varies {
		if v.Item == "corr" {
			return v.Name
		}
	}
	return ""
}

// substituted is a frame for the peer, with what the peer chose in its places.
func (r *replayer) substituted(st testvectors.Step) (out []byte) {
	at := 0
	for _, v := range st.Varies {
		item := st.Payload[v.Offset : v.Offset+v.Length]
		if r.bound[v.Name] == nil {
			r.bound[v.Name] = item
		}
		out = append(append(out, st.Payload[at:v.Offset]...), r.bound[v.Name]...)
		at = v.Offset + v.Length
	}
	return append(out, st.Payload[at:]...)
}

// due takes the frame of a step from those that came. Only one under another
// corr may have come before it.
func (r *replayer) due(st testvectors.Step) bool {
	r.t.Helper()
	for k, f := range r.came {
		if uint16(f.Type) != st.FrameType || !r.matches(st, withoutReason(f)) {
			continue
		}
		corr, _ := disco.ScanCorr(f.Payload)
		for _, before := range r.came[:k] {
			if c, _ := disco.ScanCorr(before.Payload); c == corr {
				r.t.Fatalf("%s: %v came first", st.Meaning, before)
			}
		}
		r.came = slices.Delete(r.came, k, k+1)
		return true
	}
	return false
}

// matches compares what came with a step, all but the items that vary, and binds
// these. Of two names the peer must have chosen two values.
func (r *replayer) matches(st testvectors.Step, got []byte) bool {
	found := map[string][]byte{}
	at := 0
	for _, v := range st.Varies {
		fixed := st.Payload[at:v.Offset]
		if len(got) <= len(fixed) || !bytes.Equal(got[:len(fixed)], fixed) {
			return false
		}
		got = got[len(fixed):]
		n := dcbor.Next(got, 0)
		switch old := string(r.bound[v.Name]); {
		case old != "" && old != string(got[:n]), old == "" && r.ours[string(got[:n])]:
			return false
		case old == "":
			found[v.Name] = got[:n]
		}
		got = got[n:]
		at = v.Offset + v.Length
	}
	if !bytes.Equal(got, st.Payload[at:]) {
		return false
	}
	for name, item := range found {
		r.bound[name], r.ours[string(item)] = item, true
	}
	return true
}

// withoutReason is a frame's payload without the reason of a DISCO_ERROR, which
// is its last key.
func withoutReason(f channeltest.Frame) []byte {
	b := slices.Clone(f.Payload)
	if f.Type != errorMsg {
		return b
	}
	for i := 1; i < len(b); i = dcbor.Next(b, i+1) {
		if b[i] == 3 {
			b[0]--
			return b[:i]
		}
	}
	return b
}

// act has the peer do what it does by itself only when asked to.
func (r *replayer) act(st testvectors.Step) {
	name := corrName(st)
	switch disco.Type(st.FrameType) {
	case disco.TypeQuery:
		if q, err := disco.ParseQuery(st.Payload, nil); err == nil && !q.HasCursor {
			r.calls[name] = start(r.p, Query{Filter: q.Filter, Tolerant: q.Tolerant})
		}
	case disco.TypeAnnounce:
		a, err := disco.ParseAnnounce(st.Payload, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		go r.p.Announce(context.Background(), a.Records)
	case disco.TypeSubscribe:
		q, err := disco.ParseSubscribe(st.Payload, nil)
		if err == nil {
			r.subs[name], err = r.p.Subscribe(q.Filter, func(Event) {})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	case disco.TypeUnsubscribe:
		if s := r.subs[name]; s != nil {
			s.Unsubscribe()
			r.ended[name] = s
			delete(r.subs, name)
		}
	}
}

// note keeps what the script told the peer under a corr.
func (r *replayer) note(st testvectors.Step) {
	name := corrName(st)
	x := r.told[name]
	if x == nil {
		x = &told{records: map[record.ID]record.Record{}}
		r.told[name] = x
	}
	var added []record.Record
	var withdrawn []record.ID
	switch disco.Type(st.FrameType) {
	case disco.TypeResult:
		m, err := disco.ParseResult(st.Payload, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		added = m.Records
	case disco.TypeUpdate:
		m, err := disco.ParseUpdate(st.Payload, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		added, withdrawn = m.Added, m.Withdrawn
	case disco.TypeError:
		m, err := disco.ParseError(st.Payload, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		x.code = m.Code
	}
	for _, rec := range added {
		x.records[rec.ID()] = rec
	}
	for _, id := range withdrawn {
		delete(x.records, id)
	}
}

// outcome checks what became of the peer's own requests.
func (r *replayer) outcome() {
	r.t.Helper()
	check := func(name string, recs []record.Record, err error) {
		r.t.Helper()
		x := r.told[name]
		if x == nil {
			r.t.Fatalf("%s was never answered", name)
		}
		var pe *disco.PeerError
		if errors.As(err, &pe) != (x.code != 0) || pe != nil && pe.Code != x.code || pe == nil && err != nil {
			r.t.Errorf("%s: got %v, want code %d", name, err, x.code)
		}
		want := slices.SortedFunc(maps.Values(x.records), func(a, b record.Record) int { return cmp.Compare(a.ID(), b.ID()) })
		if err == nil && !slices.Equal(recs, want) {
			r.t.Errorf("%s: got %v, want %v", name, recs, want)
		}
	}
	for name, c := range r.calls {
		if !c.done {
			r.t.Errorf("%s is not done", name)
		} else if c.err != nil {
			check(name, nil, c.err)
		} else {
			check(name, c.list.Records, nil)
		}
	}
	for name, s := range r.subs {
		check(name, s.Records(), s.Err())
		if s.Stale() != (s.Err() != nil) {
			r.t.Errorf("%s: stale %v, error %v", name, s.Stale(), s.Err())
		}
	}
	for name, s := range r.ended {
		if s.Err() != ErrUnsubscribed || s.Len() != 0 {
			r.t.Errorf("%s: ended with %v, %d records", name, s.Err(), s.Len())
		}
	}
}
