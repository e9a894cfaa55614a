package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// A sighting is what was received in a whole run, and what is wrong with it:
// some checks ask nothing and look at every frame that came.
type sighting struct {
	frames   [7]int               // by type, from DISCO_QUERY on
	foreign  int                  // of other types
	faults   map[string][]sighted // by check
	records  int
	partial  int    // RESULTs that were not the last of their listing
	last     int    // RESULTs that were
	pairs    int    // pages with two records or more
	longest  int    // octets of a payload
	codes    [8]int // DISCO_ERRORs by code, 0 for all others
	came     int    // records that UPDATEs added
	replaced int
	went     int // records that UPDATEs withdrew
	contents map[version]record.Record
}

// A version is one revision of a record on one association (§8).
type version struct {
	assoc    int
	id       record.ID
	revision uint64
}

// A sighted fault, with the frame that has it.
type sighted struct {
	why   string
	entry entry
}

// maxSighted bounds the faults of one check that are kept.
const maxSighted = 8

func (v *sighting) fault(check string, e entry, format string, args ...any) {
	if v.faults == nil {
		v.faults = map[string][]sighted{}
	}
	if len(v.faults[check]) < maxSighted {
		v.faults[check] = append(v.faults[check], sighted{fmt.Sprintf(format, args...), e})
	}
}

// of is how many frames of a type came.
func (v *sighting) of(t disco.Type) int { return v.frames[t-disco.TypeQuery] }

// judge reads a received frame strictly and notes what is wrong with it.
func (s *session) judge(rx *received) {
	v := &s.run.sighted
	e := entry{assoc: s.num, typ: rx.typ, payload: rx.payload}
	fault := func(check, format string, args ...any) { v.fault(check, e, format, args...) }
	v.longest = max(v.longest, len(rx.payload))
	if !rx.typ.Known() {
		v.foreign++
		fault("types-sent", "frame type 0x%04x is none of Discovery's", uint16(rx.typ))
		return
	}
	v.frames[rx.typ-disco.TypeQuery]++
	body, err := frame.Peel(rx.payload)
	if err != nil {
		fault("sent-deterministic", "%v", err)
		body = rx.payload
	}
	if len(body) != len(rx.payload) && err == nil {
		fault("sent-bare", "a TLV stands before the payload")
	}
	rx.body = body
	rx.corr, rx.hasCorr = disco.ScanCorr(body)
	if err := s.parse(rx); err != nil {
		if !errors.As(err, &rx.fault) {
			panic("BUG: " + err.Error())
		}
		fault(faultCheck(rx.fault), "%s", faultText(rx.fault))
		return
	}
	q := s.asked[rx.corr]
	switch rx.typ {
	case disco.TypeResult, disco.TypeError, disco.TypeUpdate:
		if rx.hasCorr && !s.sent[rx.corr] {
			fault("corr-echo", "corr %v is none that was asked under", rx.corr)
			return
		}
	}
	switch rx.typ {
	case disco.TypeResult:
		s.judgeResult(rx, q, fault)
	case disco.TypeError:
		if rx.code.Known() {
			v.codes[rx.code]++
		} else {
			v.codes[0]++
			fault("error-codes", "code %d is not defined", uint64(rx.code))
		}
		if q != nil {
			if q.done && !q.live {
				fault("one-answer", "corr %v was answered again", rx.corr)
			}
			q.done, q.live = true, false
		}
	case disco.TypeUpdate:
		s.judgeUpdate(rx, q, fault)
	case disco.TypeAnnounce:
		if rx.hasCorr {
			fault("peer-announces", "an ANNOUNCE has a corr")
		}
	}
}

// parse reads the payload strictly.
func (s *session) parse(rx *received) (err error) {
	o := s.options()
	switch rx.typ {
	case disco.TypeQuery:
		_, err = disco.ParseQuery(rx.body, o)
	case disco.TypeSubscribe:
		_, err = disco.ParseSubscribe(rx.body, o)
	case disco.TypeUnsubscribe:
		_, err = disco.ParseUnsubscribe(rx.body, o)
	case disco.TypeResult:
		var r disco.Result
		if r, err = disco.ParseResult(rx.body, o); err == nil {
			rx.result = &r
		}
	case disco.TypeError:
		var e disco.ErrorMsg
		e, err = disco.ParseError(rx.body, o)
		rx.code = e.Code
	case disco.TypeUpdate:
		var u disco.Update
		if u, err = disco.ParseUpdate(rx.body, o); err == nil {
			rx.update = &u
		}
	case disco.TypeAnnounce:
		var a disco.Announce
		if a, err = disco.ParseAnnounce(rx.body, o); err == nil {
			if len(a.Records)+len(a.Skipped) == 0 {
				s.run.sighted.fault("peer-announces", entry{assoc: s.num, typ: rx.typ, payload: rx.payload}, "an ANNOUNCE has no records")
			}
			s.judgeRecords(rx, a.Records)
		}
	}
	return err
}

// faultCheck is the check that a fault of a payload belongs to.
func faultCheck(e *disco.PayloadError) string {
	switch e.Rule {
	case "kind-mismatch":
		return "sent-frame-kind"
	case "empty":
		if e.Type == disco.TypeUpdate && e.Path == "" {
			return "update-no-op"
		}
	case "missing", "wrong-type", "range":
	default:
		return "sent-deterministic"
	}
	switch {
	case strings.HasPrefix(e.Path, "records["), strings.HasPrefix(e.Path, "added["):
		return "sent-records"
	case e.Type == disco.TypeResult && e.Path == "cursor":
		return "sent-cursor"
	}
	return "sent-fields"
}

type faulter func(check, format string, args ...any)

func (s *session) judgeResult(rx *received, q *question, fault faulter) {
	v, r := &s.run.sighted, rx.result
	if r.Complete {
		v.last++
		if hasKey(rx.body, 4) {
			fault("page-last", "the last page has a cursor")
		}
	} else {
		v.partial++
		if len(r.Records)+len(r.Skipped) == 0 {
			fault("page-empty", "a page that is not the last has no records")
		}
	}
	if len(r.Records) > 1 {
		v.pairs++
	}
	if n := len(rx.payload); n > maxResult {
		fault("page-size", "a RESULT has %d octets", n)
	}
	seen := map[record.ID]bool{}
	for i, rec := range r.Records {
		if seen[rec.ID()] {
			fault("record-ids", "record_id %v stands twice in a page", rec.ID())
		}
		seen[rec.ID()] = true
		if i > 0 && rec.ID() < r.Records[i-1].ID() {
			fault("page-order", "record_id %v comes after %v", rec.ID(), r.Records[i-1].ID())
		}
	}
	s.judgeRecords(rx, r.Records)
	if q == nil {
		return
	}
	if q.done {
		fault("one-answer", "corr %v was answered again", rx.corr)
	}
	q.done = q.done || r.Complete
	for _, rec := range r.Records {
		if q.live {
			q.view[rec.ID()] = rec.Revision()
			q.high[rec.ID()] = max(q.high[rec.ID()], rec.Revision())
		}
	}
}

// maxResult is more than any page should have, in octets.
const maxResult = 1 << 20

// judgeUpdate holds an UPDATE to its subscription (§7.2).
func (s *session) judgeUpdate(rx *received, q *question, fault faulter) {
	u := rx.update
	s.judgeRecords(rx, u.Added)
	switch {
	case q == nil || q.typ != disco.TypeSubscribe:
		fault("corr-echo", "an UPDATE came under corr %v, which is no subscription", rx.corr)
		return
	case !q.live:
		return // given up; unsubscribe-stops has more to say of it
	}
	v := &s.run.sighted
	m := q.filter.Matcher()
	for _, rec := range u.Added {
		id, rev := rec.ID(), rec.Revision()
		if !m.MatchRecord(rec) {
			fault("update-in-filter", "record %v is outside the filter %s", id, filterText(q.filter))
		}
		had, has := q.view[id]
		if has {
			v.replaced++
		} else {
			v.came++
		}
		switch {
		case has && rev <= had:
			fault("revision-rises", "record %v was replaced at revision %d, which is not above %d", id, rev, had)
		case rev < q.high[id]:
			fault("revision-rises", "record %v came back at revision %d, below %d", id, rev, q.high[id])
		}
		q.view[id], q.high[id] = rev, max(rev, q.high[id])
	}
	for _, id := range u.Withdrawn {
		if _, has := q.view[id]; has {
			v.went++
		}
		delete(q.view, id)
	}
}

// judgeRecords holds what is advertised to what may be (§5, §8).
func (s *session) judgeRecords(rx *received, records []record.Record) {
	v := &s.run.sighted
	e := entry{assoc: s.num, typ: rx.typ, payload: rx.payload}
	classes := record.RegisteredClasses()
	for _, r := range records {
		v.records++
		ids := slices.Collect(r.ProtocolIDs())
		if slices.Contains(ids, 0) {
			v.fault("protocol-null", e, "record %v names protocol_id 0", r.ID())
		}
		if t, ok := r.Tool(); ok && t.Effect != nil && *t.Effect > record.Destructive {
			v.fault("effect-values", e, "record %v has effect %d", r.ID(), uint64(*t.Effect))
		}
		if p, ok := r.Protocol(); ok && len(classes[p.ProtocolID]) > 0 &&
			!classes.Allows(p.ProtocolID, p.CarriageClass) && p.CarriageClass != record.ClassOpaque {
			v.fault("protocol-class", e, "record %v carries protocol_id %d as %v", r.ID(), p.ProtocolID, p.CarriageClass)
		}
		key := version{s.num, r.ID(), r.Revision()}
		if old, ok := v.contents[key]; ok {
			if old != r {
				v.fault("same-revision", e, "record %v has other contents at the same revision %d", r.ID(), r.Revision())
			}
			continue
		}
		if v.contents == nil {
			v.contents = map[version]record.Record{}
		}
		if len(v.contents) < maxVersions {
			v.contents[key] = r
		}
	}
}

// maxVersions bounds the records that are kept to be compared.
const maxVersions = 100_000

// hasKey reports whether the map that a strictly read payload is has the
// unsigned key.
func hasKey(b []byte, key uint64) bool {
	n, i := dcbor.Head(b, 0)
	for range n {
		k, value := dcbor.Head(b, i)
		if k == key {
			return true
		}
		i = dcbor.Next(b, value)
	}
	return false
}
