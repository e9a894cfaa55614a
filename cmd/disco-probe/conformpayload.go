package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// payloadChecks are those of clause 2, payloads and their refusal.
func payloadChecks(vectors []testvectors.Payload, generation int) []check {
	tlv := levelMust
	if generation < 3 {
		tlv = levelChoice // its text does not say where TLVs end [C14]
	}
	checks := []check{
		{name: "sent-deterministic", clause: 2, level: levelMust, rows: rows("DISC-4.1-01 DISC-4.1-02 DISC-4.1-03 DISC-4.1-04 DISC-4.1-05"),
			title: "every payload it sends is one deterministic CBOR map", judged: anyFrame},
		{name: "sent-bare", clause: 2, level: levelChoice, rows: rows("DISC-4.1-09"),
			title: "no TLV stands before a payload it sends", judged: anyFrame},
		{name: "sent-frame-kind", clause: 3, level: levelMust, rows: rows("DISC-4.2-01"),
			title: "frame_kind is the frame type in every payload it sends", judged: anyFrame},
		{name: "sent-fields", clause: 2, level: levelMust, rows: rows("DISC-4.2-03 DISC-6.2-01 DISC-9-01"),
			title: "every payload it sends has its required keys, each of its type", judged: anyFrame},
		{name: "error-codes", clause: 2, level: levelMust, rows: rows("DISC-9-03"),
			title: "its error codes are defined ones", judged: frameCame(disco.TypeError)},
		{name: "unknown-keys", clause: 2, level: levelMust, rows: rows("DISC-4.1-10"),
			title: "an unknown non-negative key changes nothing", run: checkUnknownKeys},
		{name: "leading-tlv", clause: 2, level: tlv, rows: rows("DISC-4.1-01"),
			title: "an unknown TLV before the payload, below 0x8000, is stepped over", run: checkLeadingTLV},
	}
	var refused, accepted [2][]testvectors.Payload // what the specification says, and what it leaves open
	seen := map[string]bool{}
	alone := regexp.MustCompile(`^N\d+$`)
	for _, named := range []bool{true, false} { // the same octets may stand under two names
		for _, v := range vectors {
			t := disco.Type(v.FrameType)
			if alone.MatchString(v.Name) != named || v.Direction != testvectors.ToResponder || !t.TakesReply() || seen[v.Octets.String()] {
				continue
			}
			seen[v.Octets.String()] = true
			open := 0
			if isReading(v) {
				open = 1
			}
			switch {
			case v.Expect.OK:
				accepted[open] = append(accepted[open], v)
			case named:
				clause, of := 2, refusalRows(v)
				if slices.Equal(of, []string{"DISC-4.2-03"}) {
					clause = 3 // what is wrong is the corr
				}
				checks = append(checks, check{name: "refuse-" + v.Name, clause: clause, level: levelMust, rows: of,
					title: v.Title + ": " + verdictText(v.Expect),
					run:   func(ctx context.Context, s *session) error { return s.refuses(ctx, v) }})
			default:
				refused[open] = append(refused[open], v)
			}
		}
	}
	for open, g := range []struct {
		suffix, what string
		level        level
	}{
		{"others", "further", levelMust},
		{"readings", "by a reading or a limit of this project", levelChoice},
	} {
		checks = append(checks,
			check{name: "refuse-" + g.suffix, clause: 2, level: g.level, rows: rows("DISC-4.1-06 DISC-4.1-07 DISC-4.1-08 DISC-4.1-11"),
				title: fmt.Sprintf("golden requests are refused with their code: %d, %s", len(refused[open]), g.what),
				run:   func(ctx context.Context, s *session) error { return checkRefuseOthers(ctx, s, refused[open]) }},
			check{name: "accept-" + g.suffix, clause: 2, level: g.level, rows: rows("DISC-4.1-06 DISC-4.1-10"),
				title: fmt.Sprintf("golden requests are not taken for malformed: %d, %s", len(accepted[open]), g.what),
				run:   func(ctx context.Context, s *session) error { return checkAcceptOthers(ctx, s, accepted[open]) }})
	}
	return checks
}

// isReading reports whether the expectation of a vector rests on a limit, or on a
// decision of the requirement ledger: other than those on corrs that are hard to
// read [C4], on UTF-8 [C28] and on mistyped optional keys [C29], which decide
// nothing that the specification leaves open.
func isReading(v testvectors.Payload) bool {
	return v.Expect.Rule == "limit" || v.Expect.Rule == "depth" || slices.ContainsFunc(v.Rows, func(r string) bool {
		n, isDecision := strings.CutPrefix(r, "C")
		return isDecision && n != "" && n[0] >= '0' && n[0] <= '9' && r != "C4" && r != "C28" && r != "C29"
	})
}

// refusalRows are the rows of NPAMP-DISC that a refused vector is evidence for.
func refusalRows(v testvectors.Payload) []string {
	of := slices.DeleteFunc(slices.Clone(v.Rows), func(r string) bool { return !strings.HasPrefix(r, "DISC-") })
	if len(of) == 0 {
		return rows("DISC-4.1-06") // what is not valid is not deterministic either
	}
	return of
}

func verdictText(e testvectors.Expect) string {
	s := fmt.Sprintf("DISCO_ERROR %d", e.Code)
	if e.Reply == testvectors.ReplyUncorrelated {
		return s + " without a corr"
	}
	return s
}

// refuses sends a golden payload that is to be refused. A refusal without the
// corr, which a receiver need not look for in what it cannot read, is one too
// [C4].
func (s *session) refuses(ctx context.Context, v testvectors.Payload) error {
	c := s.run
	if v.Expect.Reply == testvectors.ReplyUncorrelated || c.blind {
		return s.refusesUnread(ctx, v)
	}
	b, err := hex.DecodeString(*v.Expect.Corr)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	corr := disco.Corr(b)
	for {
		if err := s.send(ctx, disco.Type(v.FrameType), v.Octets); err != nil {
			return err
		}
		rx, err := s.soon(ctx, corr)
		if err != nil {
			blind := func(rx *received) bool { return rx.typ == disco.TypeError && !rx.hasCorr && rx.fault == nil }
			if i := slices.IndexFunc(s.inbox, blind); i >= 0 {
				rx, err = s.inbox[i], nil
				s.inbox = slices.Delete(s.inbox, i, i+1)
				c.blind, c.unreadable = true, time.Now()
				c.say("it does not look for the corr of what it cannot read")
			}
		}
		if err != nil {
			return err
		}
		if rx.code != disco.CodeNotAdvertised || !c.slower() {
			return rx.expect(disco.Code(v.Expect.Code))
		}
	}
}

// soon is answerTo for a request that a peer may wrongly leave unanswered: it
// waits no longer than until the peer has answered another.
func (s *session) soon(ctx context.Context, corr disco.Corr) (*received, error) {
	match := isAnswer(corr)
	rx, err := s.await(ctx, min(patience, s.run.timeout), match)
	if err == nil && rx == nil {
		if err = s.fence(ctx); err == nil {
			rx, err = s.await(ctx, s.run.quiet, match)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case rx == nil:
		return nil, differ("no answer, while a later request has one")
	case rx.fault != nil:
		return nil, notSeen("the answer cannot be read: %s", faultText(rx.fault))
	}
	return rx, nil
}

// refusesUnread is refuses for a payload whose corr cannot be read. Silence is
// no acceptance, and cannot be told from it being dropped.
func (s *session) refusesUnread(ctx context.Context, v testvectors.Payload) error {
	if err := s.run.uncorrelated(ctx); err != nil {
		return err
	}
	if err := s.send(ctx, disco.Type(v.FrameType), v.Octets); err != nil {
		return err
	}
	s.run.unreadable = time.Now()
	n, err := s.unread(ctx, []disco.Code{disco.Code(v.Expect.Code)})
	if err == nil && n == 0 {
		err = notSeen("nothing came: refused, or dropped unread")
	}
	return err
}

// unread looks at what came after payloads whose corr cannot be read: at most
// errors of the codes, which it counts.
func (s *session) unread(ctx context.Context, codes []disco.Code) (n int, err error) {
	if err := s.fence(ctx); err != nil {
		return 0, err
	}
	if err := s.settle(ctx, s.run.quiet); err != nil {
		return 0, err
	}
	for _, rx := range s.inbox {
		switch {
		case rx.typ == disco.TypeResult:
			return 0, differ("accepted: a RESULT came")
		case rx.typ == disco.TypeError && rx.fault == nil:
			if !slices.Contains(codes, rx.code) {
				return 0, rx.expect(codes[0])
			}
			n++
		}
	}
	s.inbox = nil
	return n, nil
}

func checkRefuseOthers(ctx context.Context, s *session, vectors []testvectors.Payload) error {
	if len(vectors) == 0 {
		return notSeen("there are none")
	}
	var wrong []string
	var unreadable []testvectors.Payload
	for _, v := range vectors {
		if v.Expect.Reply == testvectors.ReplyUncorrelated || s.run.blind {
			unreadable = append(unreadable, v)
			continue
		}
		if err := s.refuses(ctx, v); err != nil {
			if _, ok := err.(*differs); !ok {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			wrong = append(wrong, v.Name+": "+err.Error())
		}
	}
	// Together, since at most one of them a second is answered.
	var unread []disco.Code
	for _, v := range unreadable {
		if err := s.send(ctx, disco.Type(v.FrameType), v.Octets); err != nil {
			return err
		}
		unread = append(unread, disco.Code(v.Expect.Code))
	}
	if len(unread) > 0 {
		if _, err := s.unread(ctx, unread); err != nil {
			wrong = append(wrong, "requests without a readable corr: "+err.Error())
		}
	}
	return wrongs(wrong)
}

// wrongs is the failure that the list amounts to, nil if it is empty.
func wrongs(list []string) error {
	const most = 8
	if n := len(list); n > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	if len(list) == 0 {
		return nil
	}
	return differ("%s", strings.Join(list, "; "))
}

func checkAcceptOthers(ctx context.Context, s *session, vectors []testvectors.Payload) error {
	var wrong []string
	for _, v := range vectors {
		t := disco.Type(v.FrameType)
		corr, _ := disco.ScanCorr(v.Octets)
		if err := s.send(ctx, t, v.Octets); err != nil {
			return err
		}
		rx, err := s.soon(ctx, corr)
		if d, ok := err.(*differs); ok {
			wrong = append(wrong, v.Name+": "+d.why)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		if err := s.drain(ctx, corr, rx.result); err != nil {
			return err
		}
		if rx.code == disco.CodeMalformedPayload || rx.code == disco.CodeKindMismatch {
			wrong = append(wrong, fmt.Sprintf("%s (%s): code %d", v.Name, v.Title, uint64(rx.code)))
		}
		if t == disco.TypeSubscribe {
			if err := s.unsubscribe(ctx, corr); err != nil {
				return err
			}
			if err := s.fence(ctx); err != nil { // what was under way has come
				return err
			}
		}
	}
	return wrongs(wrong)
}

// firstPage sends a QUERY as it is and returns the ids of its first page.
func (s *session) firstPage(ctx context.Context, corr disco.Corr, payload []byte) ([]record.ID, error) {
	if err := s.send(ctx, disco.TypeQuery, payload); err != nil {
		return nil, err
	}
	rx, err := s.soon(ctx, corr)
	if err != nil {
		return nil, err
	}
	if rx.result == nil {
		return nil, refusedError(rx.code)
	}
	if err := s.drain(ctx, corr, rx.result); err != nil {
		return nil, err
	}
	var ids []record.ID
	for _, r := range rx.result.Records {
		ids = append(ids, r.ID())
	}
	slices.Sort(ids)
	return ids, nil
}

// asPlain holds a QUERY to the answer of one without any filter.
func (s *session) asPlain(ctx context.Context, corr disco.Corr, payload []byte) error {
	for try := 1; ; try++ {
		plain := s.newCorr()
		want, err := s.firstPage(ctx, plain, must(disco.AppendQuery(nil, &disco.Query{Corr: plain})))
		if err != nil {
			return err
		}
		got, err := s.firstPage(ctx, corr, payload)
		if err != nil || slices.Equal(got, want) {
			return err
		}
		if try == 3 {
			return differ("got %s, want %s", idList(got), idList(want))
		}
	}
}

func checkUnknownKeys(ctx context.Context, s *session) error {
	for _, tt := range []struct {
		what string
		pair []byte
	}{
		{"key 99, a text", []byte{0x18, 99, 0x61, 'x'}},
		{"key 7, a map with an array", []byte{7, 0xa1, 0, 0x80}},
	} {
		corr := s.newCorr()
		if err := s.asPlain(ctx, corr, mapOf(disco.TypeQuery, corr, 1, tt.pair...)); err != nil {
			return fmt.Errorf("%s: %w", tt.what, err)
		}
	}
	return nil
}

func checkLeadingTLV(ctx context.Context, s *session) error {
	corr := s.newCorr()
	b := frame.AppendTLV(nil, 0x7F00, []byte{0xAA})
	return s.asPlain(ctx, corr, append(b, must(disco.AppendQuery(nil, &disco.Query{Corr: corr}))...))
}
