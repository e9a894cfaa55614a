package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// payloadChecks are those of clause 2, payloads and their refusal.
func payloadChecks(vectors []testvectors.Payload) []check {
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
			title: "an unknown non-negative key changes nothing", run: func(ctx context.Context, s *session) error {
				return checkUnknownKeys(ctx, s, vectors)
			}},
		{name: "leading-tlv", clause: 2, level: levelMust, rows: rows("DISC-4.1-01"),
			title: "an unknown TLV before the payload, below 0x8000, is stepped over", run: checkLeadingTLV},
	}
	var others, accepted []testvectors.Payload
	seen := map[string]bool{}
	alone := regexp.MustCompile(`^N\d+$`)
	for _, named := range []bool{true, false} { // the same octets may stand under two names
		for _, v := range vectors {
			t := disco.Type(v.FrameType)
			if alone.MatchString(v.Name) != named || v.Direction != testvectors.ToResponder || !t.TakesReply() || seen[v.Octets.String()] {
				continue
			}
			seen[v.Octets.String()] = true
			switch {
			case v.Name == "F1", v.Name == "F3" && v.Expect.OK: // in unknown-keys
			case v.Expect.OK:
				accepted = append(accepted, v)
			case named:
				clause, of := 2, refusalRows(v)
				if slices.Equal(of, []string{"DISC-4.2-03"}) {
					clause = 3 // what is wrong is the corr
				}
				checks = append(checks, check{name: "refuse-" + v.Name, clause: clause, level: levelMust, rows: of,
					title: v.Title + ": " + verdictText(v.Expect),
					run:   func(ctx context.Context, s *session) error { return s.refuses(ctx, v) }})
			default:
				others = append(others, v)
			}
		}
	}
	return append(checks,
		check{name: "refuse-others", clause: 2, level: levelMust, rows: rows("DISC-4.1-06 DISC-4.1-07 DISC-4.1-08 DISC-4.1-11"),
			title: fmt.Sprintf("%s are refused with their code", plural(len(others), "further golden request")),
			run:   func(ctx context.Context, s *session) error { return checkRefuseOthers(ctx, s, others) }},
		check{name: "accept-others", clause: 2, level: levelMust, rows: rows("DISC-4.1-06 DISC-4.1-10"),
			title: fmt.Sprintf("%s that keep the rules are not taken for malformed", plural(len(accepted), "further golden request")),
			run:   func(ctx context.Context, s *session) error { return checkAcceptOthers(ctx, s, accepted) }})
}

// refusalRows are the rows of NPAMP-DISC that a vector is evidence for.
func refusalRows(v testvectors.Payload) []string {
	return slices.DeleteFunc(slices.Clone(v.Rows), func(r string) bool { return !strings.HasPrefix(r, "DISC-") })
}

func verdictText(e testvectors.Expect) string {
	s := fmt.Sprintf("DISCO_ERROR %d", e.Code)
	if e.Reply == testvectors.ReplyUncorrelated {
		return s + " without a corr"
	}
	return s
}

// refuses sends a golden payload that is to be refused.
func (s *session) refuses(ctx context.Context, v testvectors.Payload) error {
	if v.Expect.Reply == testvectors.ReplyUncorrelated {
		return s.refusesUnread(ctx, v)
	}
	corr, err := hex.DecodeString(*v.Expect.Corr)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for {
		if err := s.send(ctx, disco.Type(v.FrameType), v.Octets); err != nil {
			return err
		}
		rx, err := s.soon(ctx, disco.Corr(corr))
		if err != nil {
			return err
		}
		if rx.code != disco.CodeNotAdvertised || !s.run.slower() {
			return rx.expect(disco.Code(v.Expect.Code))
		}
	}
}

// soon is answerTo for a request that a peer may wrongly leave unanswered: it
// waits no longer than until the peer has answered another.
func (s *session) soon(ctx context.Context, corr disco.Corr) (*received, error) {
	rx, err := s.await(ctx, min(patience, s.run.timeout), isAnswer(corr))
	if err == nil && rx == nil {
		if err = s.fence(ctx); err == nil {
			rx, err = s.await(ctx, s.run.quiet, isAnswer(corr))
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
	var unread []disco.Code
	for _, v := range vectors {
		if v.Expect.Reply == testvectors.ReplyUncorrelated {
			// Together, since at most one of them a second is answered.
			if err := s.send(ctx, disco.Type(v.FrameType), v.Octets); err != nil {
				return err
			}
			unread = append(unread, disco.Code(v.Expect.Code))
			continue
		}
		if err := s.refuses(ctx, v); err != nil {
			if _, ok := err.(*differs); !ok {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			wrong = append(wrong, v.Name+": "+err.Error())
		}
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

func checkUnknownKeys(ctx context.Context, s *session, vectors []testvectors.Payload) error {
	for _, v := range vectors {
		if v.Name != "F1" && v.Name != "F3" || !v.Expect.OK {
			continue
		}
		corr, _ := disco.ScanCorr(v.Octets)
		if err := s.asPlain(ctx, corr, v.Octets); err != nil {
			return fmt.Errorf("%s (%s): %w", v.Name, v.Title, err)
		}
	}
	return nil
}

func checkLeadingTLV(ctx context.Context, s *session) error {
	corr := s.newCorr()
	b := frame.AppendTLV(nil, 0x7F00, []byte{0xAA})
	return s.asPlain(ctx, corr, append(b, must(disco.AppendQuery(nil, &disco.Query{Corr: corr}))...))
}
