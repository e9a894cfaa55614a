package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// corrChecks are those of clause 3, correlation, that queries show.
func corrChecks() []check {
	return []check{
		{name: "corr-echo", clause: 3, level: levelMust, rows: rows("DISC-2-05 DISC-4.2-05"),
			title: "RESULT and ERROR echo the corr octet for octet", run: checkCorrEcho},
		{name: "corr-many", clause: 3, level: levelMust, rows: rows("DISC-2-05 DISC-4.2-05"),
			title: "several queries at once get each its own records", run: checkCorrMany},
		{name: "corr-again", clause: 3, level: levelMust, rows: rows("DISC-4.3-01"),
			title: "a corr that was answered may be used again", run: checkCorrAgain},
		{name: "one-answer", clause: 3, level: levelMust, rows: rows("DISC-4.3-01"),
			title: "a request is answered once", judged: frameCame(disco.TypeResult, disco.TypeError)},
		{name: "corr-duplicate", clause: 3, level: levelChoice, rows: rows("DISC-4.2-04"),
			title: "a request under the corr of a live subscription is dropped", run: checkCorrDuplicate},
	}
}

func checkCorrEcho(ctx context.Context, s *session) error {
	for _, corr := range []disco.Corr{"c", disco.Corr(bytes.Repeat([]byte{0}, 16)), disco.Corr(random(disco.MaxCorrLen))} {
		// A RESULT, then an ERROR.
		if _, err := s.query(ctx, disco.Query{Corr: corr, Filter: record.Filter{Kinds: []record.Kind{}}}); err != nil {
			return err
		}
		if _, err := s.query(ctx, disco.Query{Corr: corr, Cursor: disco.Cursor(random(16)), HasCursor: true}); err != nil {
			return err
		}
	}
	return nil
}

func checkCorrMany(ctx context.Context, s *session) error {
	base, err := s.baseline(ctx, false)
	if err != nil {
		return err
	}
	kinds := []record.Kind{record.KindProtocol, record.KindCarriageClass, record.KindTool, record.KindAgent}
	corrs := make([]disco.Corr, len(kinds))
	for i, k := range kinds {
		corrs[i] = s.newCorr()
		q := disco.Query{Corr: corrs[i], Filter: record.Filter{Kinds: []record.Kind{k}}, HasTolerant: true}
		if err := s.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &q))); err != nil {
			return err
		}
	}
	for i := len(kinds) - 1; i >= 0; i-- {
		rx, err := s.answerTo(ctx, corrs[i])
		if err != nil {
			return err
		}
		if rx.result == nil {
			return refusedError(rx.code)
		}
		for _, r := range rx.result.Records {
			if r.Kind() != kinds[i] {
				return differ("the query for kind %v got record %v of kind %v", kinds[i], r.ID(), r.Kind())
			}
		}
		if want := pick(base, func(r record.Record) bool { return r.Kind() == kinds[i] }); len(want) > 0 && len(rx.result.Records) == 0 {
			return differ("the query for kind %v got nothing, although there is %s", kinds[i], idList(want))
		}
	}
	return nil
}

func checkCorrAgain(ctx context.Context, s *session) error {
	for range 3 {
		if _, err := s.query(ctx, disco.Query{Corr: "again", Filter: record.Filter{Kinds: []record.Kind{}}}); err != nil {
			return err
		}
	}
	return nil
}

func checkCorrDuplicate(ctx context.Context, s *session) error {
	const corr = "duplicate"
	if _, _, err := s.subscribe(ctx, corr, record.Filter{}); err != nil {
		return err
	}
	if err := s.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &disco.Query{Corr: corr}))); err != nil {
		return err
	}
	if err := s.send(ctx, disco.TypeSubscribe, must(disco.AppendSubscribe(nil, &disco.Subscribe{Corr: corr}))); err != nil {
		return err
	}
	return s.silent(ctx, "a request under the corr of a live subscription")
}

// recordChecks are those of clause 4, records.
func recordChecks() []check {
	return []check{
		{name: "sent-records", clause: 4, level: levelMust, rows: rows("DISC-5-01 DISC-5-02 DISC-5.1-01 DISC-5.2-01 DISC-5.2-02 DISC-5.3-01 DISC-5.4-01"),
			title: "every record has its required keys, each of its type and within its bounds", judged: anyRecord},
		{name: "record-ids", clause: 4, level: levelMust, rows: rows("DISC-5-03"),
			title: "a record_id stands once in a page", judged: anyRecord},
		{name: "same-revision", clause: 4, level: levelMust, rows: rows("DISC-8-01"),
			title: "a record has one content at one revision", judged: anyRecord},
		{name: "agent-refs", clause: 4, level: levelMust, rows: rows("DISC-5.4-02"),
			title: "every tool that an agent names is advertised as a tool", run: checkAgentRefs},
		{name: "effect-values", clause: 4, level: levelMust, rows: rows("DISC-5.3-02"),
			title: "effect is one of 0 to 3", judged: anyRecord},
		{name: "protocol-null", clause: 4, level: levelMust, rows: rows("DISC-2-06"),
			title: "protocol_id 0, which no envelope has, is not advertised", judged: anyRecord},
		{name: "protocol-class", clause: 4, level: levelChoice, rows: rows("DISC-5.1-02"),
			title: "a protocol is advertised under a class that the registry lists for it, counted from 1", judged: anyRecord},
		{name: "announce-ignored", clause: 0, level: levelMust, rows: rows("DISC-7.1-03"),
			title: "what is announced to it does not become what it advertises", run: checkAnnounceIgnored},
	}
}

func checkAgentRefs(ctx context.Context, s *session) error {
	for try := 1; ; try++ {
		base, err := s.baseline(ctx, true)
		if err != nil {
			return err
		}
		agents := 0
		var dangling []record.ID
		for _, r := range base {
			a, ok := r.Agent()
			if !ok || len(a.Tools) == 0 {
				continue
			}
			agents++
			for _, id := range a.Tools {
				if t, ok := base[id]; !ok || t.Kind() != record.KindTool {
					dangling = append(dangling, id)
				}
			}
		}
		switch {
		case agents == 0:
			return notSeen("no agent names a tool")
		case len(dangling) == 0:
			return nil
		case try == 3:
			slices.Sort(dangling)
			return differ("not advertised as tools: %s", idList(dangling))
		}
	}
}

func checkAnnounceIgnored(ctx context.Context, s *session) error {
	r := conformTool("theirs-alone", 1, "announced to the peer")
	if err := s.send(ctx, disco.TypeAnnounce, must(disco.AppendAnnounce(nil, &disco.Announce{Records: []record.Record{r}}))); err != nil {
		return err
	}
	base, err := s.baseline(ctx, true)
	if err == nil && !base[r.ID()].IsZero() {
		delete(base, r.ID())
		err = differ("it advertises record %v, which we announced", r.ID())
	}
	return err
}

// listChecks are those of clause 5, faithful results.
func listChecks() []check {
	all := []check{
		{name: "query-all", level: levelMust, rows: rows("DISC-6.1-01 DISC-6.2-01"),
			title: "a query without a filter lists every record", run: checkQueryAll},
		{name: "query-empty", level: levelMust, rows: rows("DISC-6.2-07 DISC-10-04"),
			title: "a query that nothing matches gets one empty RESULT, complete", run: checkQueryEmpty},
		{name: "filter-kinds", level: levelMust, rows: rows("DISC-6.1-02"),
			title: "kinds restricts by kind", run: checkFilterKinds},
		{name: "filter-empty", level: levelMust, rows: rows("DISC-6.1-02 DISC-6.1-03"),
			title: "an empty kinds or protocol_ids matches nothing", run: checkFilterEmpty},
		{name: "filter-protocol-ids", level: levelMust, rows: rows("DISC-6.1-03"),
			title: "protocol_ids restricts protocols, tools and agents", run: checkFilterProtocols},
		{name: "filter-name-prefix", level: levelMust, rows: rows("DISC-6.1-04"),
			title: "name_prefix is a prefix of octets of a tool's name or an agent_id", run: checkFilterPrefix},
		{name: "filter-conjunctive", level: levelMust, rows: rows("DISC-6.1-06"),
			title: "all filters that are there must hold", run: checkFilterConjunctive},
		{name: "filter-scope", level: levelChoice, rows: rows("DISC-6.1-03 DISC-6.1-04"),
			title: "a kind that a filter does not speak of passes it", run: checkFilterScope},
		{name: "filter-loose", level: levelChoice, rows: rows("DISC-6.1-02"),
			title: "entries may be out of order, repeated, or greater than any number in use", run: checkFilterLoose},
		{name: "filter-refused", level: levelMust, rows: rows("DISC-9-04"),
			title: "a filter key that is not supported is refused with FilterUnsupported, never ignored", run: checkFilterRefused},
		{name: "tolerant-default", level: levelMust, rows: rows("DISC-6.1-05"),
			title: "tolerant = false is the same as its absence", run: checkTolerantDefault},
		{name: "tolerant", level: levelMust, rows: rows("DISC-6.3-01"),
			title: "a tolerant query lists all that can be represented", run: checkTolerant},
		{name: "unrepresentable", level: levelMust, rows: rows("DISC-6.3-01 DISC-6.3-02 DISC-6.3-03 DISC-9-05 DISC-9-06"),
			title: "what cannot be represented is left out of a tolerant query, and fails another with UnknownRecordKind", run: checkUnrepresentable},
		{name: "paging", level: levelMust, rows: rows("DISC-6.2-02 DISC-6.2-04 DISC-10-08"),
			title: "pages up to the first complete one are the whole set, each record once", run: checkPaging},
		{name: "sent-cursor", level: levelMust, rows: rows("DISC-6.2-03"),
			title: "a page that is not the last has a cursor", judged: somePartial},
		{name: "page-empty", level: levelChoice, rows: rows("DISC-6.2-04"),
			title: "a page that is not the last has records", judged: somePartial},
		{name: "page-last", level: levelShould, rows: rows("DISC-6.2-03"),
			title: "the last page has no cursor", judged: func(v *sighting) string {
				if v.last == 0 {
					return "no last page came"
				}
				return ""
			}},
		{name: "page-order", level: levelChoice, rows: rows("DISC-6.2-01"),
			title: "records come in ascending order of record_id", judged: func(v *sighting) string {
				if v.pairs == 0 {
					return "no page has two records"
				}
				return ""
			}},
		{name: "cursor-same-corr", level: levelChoice, rows: rows("DISC-6.2-05"),
			title: "a follow-up may use the corr that its first page was answered under", run: checkCursorSameCorr},
		{name: "cursor-fresh-corr", level: levelChoice, rows: rows("DISC-6.2-05"),
			title: "a follow-up may use a fresh corr", run: checkCursorFreshCorr},
		{name: "cursor-twice", level: levelChoice, rows: rows("DISC-6.2-05"),
			title: "a cursor gives the same page when it is used again", run: checkCursorTwice},
		{name: "cursor-unknown", level: levelMust, rows: rows("DISC-6.2-06"),
			title: "a cursor that was never issued is refused with StaleCursor", run: checkCursorUnknown},
		{name: "cursor-filter", level: levelMust, rows: rows("DISC-6.2-06"),
			title: "a cursor with another filter than its own is refused with StaleCursor", run: checkCursorFilter},
		{name: "cursor-association", level: levelMust, rows: rows("DISC-6.2-06 DISC-8-05 DISC-8-07"),
			title: "a cursor of another association is refused with StaleCursor", run: checkCursorAssociation},
		{name: "cursor-expired", level: levelChoice, rows: rows("DISC-6.2-06"),
			title: "a cursor that has expired is refused with StaleCursor", run: checkCursorExpired},
		{name: "listing-stable", level: levelChoice, rows: rows("DISC-6.2-02"),
			title: "a listing is of one moment, whatever changes between its pages", run: checkListingStable},
		{name: "repeatable", level: levelMust, rows: rows("DISC-4.1-03"),
			title: "the same query gets the same octets while nothing changes", run: checkRepeatable},
	}
	for i := range all {
		all[i].clause = 5
	}
	all[len(all)-1].clause = 2
	return all
}

func somePartial(v *sighting) string {
	if v.partial == 0 {
		return "no page but last ones came"
	}
	return ""
}

// filtered holds the listing of a filter to the baseline.
func (s *session) filtered(ctx context.Context, f record.Filter, interest func(record.Record) bool) error {
	return s.agrees(ctx, filterText(f), f, interest, func() (*collected, error) {
		return s.list(ctx, disco.Query{Filter: f})
	})
}

func checkQueryAll(ctx context.Context, s *session) error {
	if err := s.agrees(ctx, "under corr 01", record.Filter{}, nil, func() (*collected, error) {
		return s.list(ctx, disco.Query{Corr: "\x01"}) // V1
	}); err != nil {
		return err
	}
	if s.run.target.ours() {
		l, err := s.list(ctx, disco.Query{Corr: "\x01"})
		if err != nil {
			return err
		}
		for r := range s.run.target.set.Snapshot().All() {
			if got := l.records[r.ID()]; got.IsZero() || got.Revision() != r.Revision() {
				return differ("record %v at revision %d is advertised, and not listed", r.ID(), r.Revision())
			}
		}
		return nil
	}
	// By kinds there must be nothing that was left out.
	for _, k := range []record.Kind{record.KindProtocol, record.KindCarriageClass, record.KindTool, record.KindAgent} {
		var code refusedError
		if err := s.filtered(ctx, record.Filter{Kinds: []record.Kind{k}}, nil); errors.As(err, &code) {
			s.run.say("it refuses kinds, by which the listing could have been compared")
		} else if err != nil {
			return err
		}
	}
	return nil
}

func checkQueryEmpty(ctx context.Context, s *session) error {
	f := record.Filter{Kinds: []record.Kind{record.KindTool}, NamePrefix: "conform: there is no such tool", HasPrefix: true}
	r, err := s.page(ctx, disco.Query{Filter: f})
	switch {
	case err != nil:
		return err
	case !r.Complete:
		return differ("the RESULT is not complete")
	case len(r.Records) > 0:
		return differ("the RESULT has %s", plural(len(r.Records), "record"))
	}
	return nil
}

func checkFilterKinds(ctx context.Context, s *session) error {
	for _, kinds := range [][]record.Kind{{1}, {2}, {3}, {4}, {1, 3}, {9}} {
		if err := s.filtered(ctx, record.Filter{Kinds: kinds}, nil); err != nil {
			return err
		}
	}
	return nil
}

func checkFilterEmpty(ctx context.Context, s *session) error {
	if err := s.filtered(ctx, record.Filter{Kinds: []record.Kind{}}, nil); err != nil {
		return err
	}
	return s.filtered(ctx, record.Filter{ProtocolIDs: []uint64{}}, hasProtocol)
}

// hasProtocol and hasName are the kinds that protocol_ids and name_prefix speak
// of (§6.1).
func hasProtocol(r record.Record) bool { return r.Kind() != record.KindCarriageClass }

func hasName(r record.Record) bool {
	return r.Kind() == record.KindTool || r.Kind() == record.KindAgent
}

// protocolsOf returns the protocol_ids in use, a few of them, ascending.
func protocolsOf(base map[record.ID]record.Record) []uint64 {
	var ids []uint64
	for _, r := range base {
		ids = slices.AppendSeq(ids, r.ProtocolIDs())
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), 3)]
}

func checkFilterProtocols(ctx context.Context, s *session) error {
	base, err := s.baseline(ctx, false)
	if err != nil {
		return err
	}
	used := protocolsOf(base)
	filters := [][]uint64{{255}}
	for _, id := range used {
		filters = append(filters, []uint64{id})
	}
	if len(used) > 1 {
		filters = append(filters, used[:2])
	}
	for _, ids := range filters {
		if err := s.filtered(ctx, record.Filter{ProtocolIDs: ids}, hasProtocol); err != nil {
			return err
		}
	}
	if len(used) == 0 {
		s.run.say("no record names a protocol")
	}
	return nil
}

// namesOf returns the names in use, a few of them, in the order of record_ids:
// those that are text, as a name_prefix has to be, and of a length that any
// receiver takes.
func namesOf(base map[record.ID]record.Record) (names []string) {
	const longest = 255 // octets
	for _, id := range pick(base, hasName) {
		if name, ok := base[id].Name(); ok && utf8.ValidString(name) && name != "" && len(name) < longest && len(names) < 8 {
			names = append(names, name)
		}
	}
	return names
}

// swapCase changes the case of each letter that has one.
func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

func checkFilterPrefix(ctx context.Context, s *session) error {
	base, err := s.baseline(ctx, false)
	if err != nil {
		return err
	}
	names := namesOf(base)
	prefixes := []string{"", "\u00e9"} // the letter that no decomposed form starts with
	for _, name := range names[:min(len(names), 4)] {
		cut := name
		for len(cut) > 4 || !utf8.ValidString(cut) {
			cut = cut[:len(cut)-1]
		}
		prefixes = append(prefixes, cut, swapCase(cut), name, name+"x")
	}
	slices.Sort(prefixes)
	for _, p := range slices.Compact(prefixes) {
		if err := s.filtered(ctx, record.Filter{NamePrefix: p, HasPrefix: true}, hasName); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		s.run.say("no record has a name")
	}
	return nil
}

func checkFilterConjunctive(ctx context.Context, s *session) error {
	base, err := s.baseline(ctx, false)
	if err != nil {
		return err
	}
	prefix, id := "git.", uint64(1) // as in V2
	for _, rid := range pick(base, hasName) {
		r := base[rid]
		if name, _ := r.Name(); len(name) > 2 && utf8.ValidString(name[:3]) {
			for p := range r.ProtocolIDs() {
				prefix, id = name[:3], p
			}
			break
		}
	}
	both := []record.Kind{record.KindTool, record.KindAgent}
	for _, f := range []record.Filter{
		{Kinds: both, ProtocolIDs: []uint64{id}},
		{Kinds: both, NamePrefix: prefix, HasPrefix: true},
		{ProtocolIDs: []uint64{id}, NamePrefix: prefix, HasPrefix: true},
		{Kinds: both[:1], ProtocolIDs: []uint64{id}, NamePrefix: prefix, HasPrefix: true},
		{Kinds: both, ProtocolIDs: []uint64{id}, NamePrefix: prefix, HasPrefix: true},
		{Kinds: both, ProtocolIDs: []uint64{id + 1}, NamePrefix: prefix, HasPrefix: true},
	} {
		if err := s.filtered(ctx, f, hasName); err != nil {
			return err
		}
	}
	return nil
}

func checkFilterScope(ctx context.Context, s *session) error {
	base, err := s.baseline(ctx, false)
	if err != nil {
		return err
	}
	used := protocolsOf(base)
	if len(used) == 0 {
		used = []uint64{1}
	}
	for _, f := range []record.Filter{
		{ProtocolIDs: used[:1]},
		{NamePrefix: "conform: there is no such tool", HasPrefix: true},
	} {
		if err := s.filtered(ctx, f, nil); err != nil {
			return err
		}
	}
	return nil
}

func checkFilterLoose(ctx context.Context, s *session) error {
	many := cborUint(70_000)
	for _, tt := range []struct {
		what  string
		key   byte
		value []byte
		want  record.Filter
		care  func(record.Record) bool
	}{
		{"kinds [3 1 3]", 2, []byte{0x83, 3, 1, 3}, record.Filter{Kinds: []record.Kind{1, 3}}, nil},
		{"kinds [70000]", 2, append([]byte{0x81}, many...), record.Filter{Kinds: []record.Kind{}}, nil},
		{"protocol_ids [70000]", 3, append([]byte{0x81}, many...), record.Filter{ProtocolIDs: []uint64{}}, hasProtocol},
	} {
		get := func() (*collected, error) {
			corr := s.newCorr()
			if err := s.send(ctx, disco.TypeQuery, mapOf(disco.TypeQuery, corr, 1, append([]byte{tt.key}, tt.value...)...)); err != nil {
				return nil, err
			}
			rx, err := s.answerTo(ctx, corr)
			if err != nil {
				return nil, err
			}
			if rx.result == nil {
				return nil, refusedError(rx.code)
			}
			l := new(collected)
			l.add(rx.result)
			for r := rx.result; !r.Complete; {
				r, err = s.further(ctx, disco.Query{Corr: corr, Filter: tt.want, Cursor: r.Cursor, HasCursor: true})
				if err != nil {
					return nil, err
				}
				l.add(r)
			}
			return l, nil
		}
		if err := s.agrees(ctx, tt.what, tt.want, tt.care, get); err != nil {
			return err
		}
	}
	return nil
}

func checkFilterRefused(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		if s.run.sighted.codes[disco.CodeFilterUnsupported] > 0 {
			s.run.say("FilterUnsupported was met %d times", s.run.sighted.codes[disco.CodeFilterUnsupported])
			return nil
		}
		return notSeen("it refuses no filter key")
	}
	const all = channel.FeatureKinds | channel.FeatureProtocolIDs | channel.FeatureNamePrefix | channel.FeatureTolerant | channel.FeatureCursor
	v, err := s.variant(ctx, "supports no filter key", func(c *channel.Config) { c.Disabled = all })
	if err != nil {
		return err
	}
	defer v.close()
	for _, q := range []disco.Query{
		{Filter: record.Filter{Kinds: []record.Kind{record.KindTool}}},
		{Filter: record.Filter{ProtocolIDs: []uint64{1}}},
		{Filter: record.Filter{NamePrefix: "git.", HasPrefix: true}},
		{HasTolerant: true},
		{HasCursor: true, Cursor: "x"},
	} {
		q.Corr = v.newCorr()
		if err := v.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &q))); err != nil {
			return err
		}
		if err := v.expect(ctx, q.Corr, disco.CodeFilterUnsupported); err != nil {
			return err
		}
	}
	sub := disco.Subscribe{Corr: v.newCorr(), Filter: record.Filter{Kinds: []record.Kind{record.KindTool}}}
	if err := v.send(ctx, disco.TypeSubscribe, must(disco.AppendSubscribe(nil, &sub))); err != nil {
		return err
	}
	return v.expect(ctx, sub.Corr, disco.CodeFilterUnsupported)
}

func checkTolerantDefault(ctx context.Context, s *session) error {
	return s.agrees(ctx, "with tolerant = false", record.Filter{}, nil, func() (*collected, error) {
		return s.list(ctx, disco.Query{HasTolerant: true})
	})
}

func checkTolerant(ctx context.Context, s *session) error {
	return s.agrees(ctx, "with tolerant = true", record.Filter{}, nil, func() (*collected, error) {
		return s.list(ctx, disco.Query{Tolerant: true})
	})
}

func checkUnrepresentable(ctx context.Context, s *session) error {
	v := s
	if s.run.target.ours() {
		var err error
		v, err = s.variant(ctx, "has frames too short for one of its records", func(c *channel.Config) { c.Limits.MaxFrameLen = unrepresentable })
		if err != nil {
			return err
		}
		defer v.close()
	} else if s.run.sighted.codes[disco.CodeUnknownRecordKind] == 0 {
		return notSeen("it can represent all of its records")
	}
	corr := v.newCorr()
	if err := v.send(ctx, disco.TypeQuery, must(disco.AppendQuery(nil, &disco.Query{Corr: corr}))); err != nil {
		return err
	}
	if err := v.expect(ctx, corr, disco.CodeUnknownRecordKind); err != nil {
		return fmt.Errorf("not tolerant: %w", err)
	}
	l, err := v.list(ctx, disco.Query{Tolerant: true})
	if err != nil {
		return fmt.Errorf("tolerant: %w", err)
	}
	if !s.run.target.ours() {
		return nil
	}
	want := pick(s.run.base, func(r record.Record) bool { return r.Len() <= unrepresentable/2 })
	if got := pick(l.records, func(record.Record) bool { return true }); len(want) > 0 && !slices.Equal(got, want) {
		return differ("tolerant: got %s, want %s", idList(got), idList(want))
	}
	return nil
}

func checkPaging(ctx context.Context, s *session) error {
	pages, doubled := 0, record.ID("")
	err := s.agrees(ctx, "the union of the pages", record.Filter{}, nil, func() (*collected, error) {
		l, err := s.list(ctx, disco.Query{Corr: "paging"})
		if err != nil {
			return nil, err
		}
		pages, doubled = len(l.pages), ""
		seen := map[record.ID]bool{}
		for _, p := range l.pages {
			for _, r := range p.Records {
				if seen[r.ID()] {
					doubled = r.ID()
				}
				seen[r.ID()] = true
			}
		}
		return l, nil
	})
	switch {
	case err != nil:
		return err
	case doubled != "" && s.run.pushes != does:
		return differ("record %v comes twice", doubled)
	case pages == 1:
		return notSeen("the whole set fits one page")
	}
	s.run.say("%d pages", pages)
	return nil
}

// firstOf asks for the first of several pages.
func (s *session) firstOf(ctx context.Context, q disco.Query) (*disco.Result, error) {
	r, err := s.page(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case r.Complete:
		return nil, notSeen("the whole set fits one page")
	case s.run.pushes == does:
		return nil, notSeen("it pushes its pages")
	}
	return r, nil
}

func checkCursorSameCorr(ctx context.Context, s *session) error {
	q := disco.Query{Corr: s.newCorr()}
	first, err := s.firstOf(ctx, q)
	if err != nil {
		return err
	}
	q.Cursor, q.HasCursor = first.Cursor, true
	return s.takesCursor(ctx, q)
}

func checkCursorFreshCorr(ctx context.Context, s *session) error {
	first, err := s.firstOf(ctx, disco.Query{Corr: s.newCorr()})
	if err != nil {
		return err
	}
	return s.takesCursor(ctx, disco.Query{Corr: s.newCorr(), Cursor: first.Cursor, HasCursor: true})
}

// takesCursor holds the peer to giving a page for a cursor.
func (s *session) takesCursor(ctx context.Context, q disco.Query) error {
	rx, err := s.query(ctx, q)
	if err == nil && rx.result == nil {
		err = refusedError(rx.code)
	}
	return err
}

func checkCursorTwice(ctx context.Context, s *session) error {
	q := disco.Query{Corr: s.newCorr()}
	first, err := s.firstOf(ctx, q)
	if err != nil {
		return err
	}
	q.Cursor, q.HasCursor = first.Cursor, true
	one, err := s.further(ctx, q)
	if err != nil {
		return err
	}
	two, err := s.further(ctx, q)
	var code refusedError
	switch {
	case errors.As(err, &code):
		return differ("the second time: %v", err)
	case err != nil:
		return err
	case !slices.Equal(one.Records, two.Records):
		return differ("the second time there are other records")
	}
	return nil
}

// stale holds the peer to refusing a cursor.
func (s *session) stale(ctx context.Context, what string, q disco.Query) error {
	rx, err := s.query(ctx, q)
	if err == nil && rx.code != disco.CodeFilterUnsupported {
		err = rx.expect(disco.CodeStaleCursor)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	} else if rx.code == disco.CodeFilterUnsupported {
		err = notSeen("it supports no cursors (4)")
	}
	return err
}

func checkCursorUnknown(ctx context.Context, s *session) error {
	for _, tt := range []struct {
		what   string
		cursor disco.Cursor
	}{
		{"16 random octets", disco.Cursor(random(16))},
		{"the empty cursor", ""},
		{"a corr of ours", disco.Cursor(s.newCorr())},
		{"a record_id", "t1"},
	} {
		if err := s.stale(ctx, tt.what, disco.Query{Cursor: tt.cursor, HasCursor: true}); err != nil {
			return err
		}
	}
	return nil
}

func checkCursorFilter(ctx context.Context, s *session) error {
	q := disco.Query{Filter: record.Filter{Kinds: []record.Kind{1, 2, 3, 4}}}
	for _, tt := range []struct {
		what   string
		filter record.Filter
	}{
		{"kinds [3] in place of [1 2 3 4]", record.Filter{Kinds: []record.Kind{3}}},
		{"the filter left out", record.Filter{}},
		{"protocol_ids as well", record.Filter{Kinds: q.Filter.Kinds, ProtocolIDs: []uint64{1}}},
	} {
		q.Corr = s.newCorr()
		first, err := s.firstOf(ctx, q)
		if err != nil {
			return err
		}
		next := disco.Query{Filter: tt.filter, Cursor: first.Cursor, HasCursor: true}
		if s.run.sameCorr == does {
			next.Corr = q.Corr
		}
		if err := s.stale(ctx, tt.what, next); err != nil {
			return err
		}
	}
	return nil
}

func checkCursorAssociation(ctx context.Context, s *session) error {
	first, err := s.firstOf(ctx, disco.Query{})
	if err != nil {
		return err
	}
	other, err := s.run.open(ctx, nil)
	if err != nil {
		return notSeen("no second association: %v", err)
	}
	defer other.close()
	return other.stale(ctx, "on another association", disco.Query{Cursor: first.Cursor, HasCursor: true})
}

func checkCursorExpired(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return notSeen("how long it keeps cursors is its own choice, and not waited for")
	}
	const ttl = 50 * time.Millisecond
	v, err := s.variant(ctx, fmt.Sprintf("keeps cursors for %v", ttl), func(c *channel.Config) { c.Limits.SnapshotTTL = ttl })
	if err != nil {
		return err
	}
	defer v.close()
	first, err := v.firstOf(ctx, disco.Query{})
	if err != nil {
		return err
	}
	if err := v.settle(ctx, 2*ttl); err != nil {
		return err
	}
	return v.stale(ctx, "after twice that time", disco.Query{Cursor: first.Cursor, HasCursor: true})
}

func checkListingStable(ctx context.Context, s *session) error {
	if !s.run.target.ours() {
		return notSeen("its records would have to change between two pages")
	}
	r := conformTool("zz-stable", 1, "x") // of the last page
	undo := s.run.put(r)
	defer undo()
	q := disco.Query{Corr: s.newCorr()}
	first, err := s.firstOf(ctx, q)
	if err != nil {
		return err
	}
	s.run.withdraw(r.ID())
	l := new(collected)
	l.add(first)
	for page := first; !page.Complete; {
		q.Cursor, q.HasCursor = page.Cursor, true
		if page, err = s.further(ctx, q); err != nil {
			return err
		}
		l.add(page)
	}
	if l.records[r.ID()].IsZero() {
		return differ("record %v was withdrawn after the first page, and is missing from the last", r.ID())
	}
	return nil
}

func checkRepeatable(ctx context.Context, s *session) error {
	q := disco.Query{Corr: "repeat"}
	for try := 1; ; try++ {
		var pages [2]*received
		for i := range pages {
			rx, err := s.query(ctx, q)
			if err != nil {
				return err
			}
			if rx.result == nil {
				return refusedError(rx.code)
			}
			if err := s.drain(ctx, q.Corr, rx.result); err != nil {
				return err
			}
			pages[i] = rx
		}
		one, two := pages[0], pages[1]
		a, b := one.body, two.body
		if !one.result.Complete && !two.result.Complete { // a cursor, last of all, may be another
			a = bytes.TrimSuffix(a, []byte(one.result.Cursor))
			b = bytes.TrimSuffix(b, []byte(two.result.Cursor))
		}
		if bytes.Equal(a, b) {
			return nil
		}
		if try == 3 {
			return differ("two answers to one query differ")
		}
	}
}
