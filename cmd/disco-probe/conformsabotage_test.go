package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// Frames as a saboteur reads and writes them.

func as(t disco.Type, payload []byte) []rawFrame { return []rawFrame{{frame.Type(t), payload}} }

func pass(f rawFrame) []rawFrame { return []rawFrame{f} }

func gotQuery(f rawFrame) (q disco.Query, ok bool) {
	if f.typ != frame.Type(disco.TypeQuery) {
		return q, false
	}
	q, err := disco.ParseQuery(f.payload, nil)
	return q, err == nil
}

func gotSubscribe(f rawFrame) (q disco.Subscribe, ok bool) {
	if f.typ != frame.Type(disco.TypeSubscribe) {
		return q, false
	}
	q, err := disco.ParseSubscribe(f.payload, nil)
	return q, err == nil
}

func gotResult(f rawFrame) (r disco.Result, ok bool) {
	if f.typ != frame.Type(disco.TypeResult) {
		return r, false
	}
	r, err := disco.ParseResult(f.payload, nil)
	return r, err == nil
}

func gotUpdate(f rawFrame) (u disco.Update, ok bool) {
	if f.typ != frame.Type(disco.TypeUpdate) {
		return u, false
	}
	u, err := disco.ParseUpdate(f.payload, nil)
	return u, err == nil
}

func gotError(f rawFrame) (e disco.ErrorMsg, ok bool) {
	if f.typ != frame.Type(disco.TypeError) {
		return e, false
	}
	e, err := disco.ParseError(f.payload, nil)
	return e, err == nil
}

func corrOf(f rawFrame) disco.Corr {
	c, _ := disco.ScanCorr(f.payload)
	return c
}

func encoded(t disco.Type, b []byte, err error) []rawFrame { return as(t, must(b, err)) }

func aQuery(q disco.Query) []rawFrame {
	b, err := disco.AppendQuery(nil, &q)
	return encoded(disco.TypeQuery, b, err)
}

func aResult(r disco.Result) []rawFrame {
	b, err := disco.AppendResult(nil, &r)
	return encoded(disco.TypeResult, b, err)
}

func anError(corr disco.Corr, code disco.Code) []byte {
	return must(disco.AppendError(nil, &disco.ErrorMsg{Corr: corr, HasCorr: corr != "", Code: code}))
}

// wrongError is an ERROR without a corr.
func wrongError(code disco.Code) []byte { return anError("", code) }

func emptyResult(corr disco.Corr) []byte {
	return must(disco.AppendResult(nil, &disco.Result{Corr: corr, Complete: true}))
}

// Parts of saboteurs.

// onAgain replaces the first answer under the corr "again", of which its check
// only asks that it comes.
func onAgain(change func(corr disco.Corr) []rawFrame) sabotage {
	done := false
	return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
		if done || corrOf(f) != "again" {
			return pass(f)
		}
		done = true
		return change("again")
	}}
}

// resultWith is onAgain with a RESULT of the records.
func resultWith(records ...record.Record) sabotage {
	return onAgain(func(corr disco.Corr) []rawFrame {
		return aResult(disco.Result{Corr: corr, Records: records, Complete: true})
	})
}

// rawResult is onAgain with a RESULT put together by hand: n pairs.
func rawResult(n int, pairs ...byte) sabotage {
	return onAgain(func(corr disco.Corr) []rawFrame {
		return as(disco.TypeResult, mapOf(disco.TypeResult, corr, n, pairs...))
	})
}

// answered replies to the frames that match, in the responder's place.
func answered(match func(a *tampered, f rawFrame) bool, reply func(f rawFrame) rawFrame) sabotage {
	return sabotage{in: func(a *tampered, f rawFrame) []rawFrame {
		if !match(a, f) {
			return pass(f)
		}
		r := reply(f)
		a.reply(disco.Type(r.typ), r.payload)
		return nil
	}}
}

// withError and withResult are replies to a frame's corr.
func withError(code disco.Code) func(rawFrame) rawFrame {
	return func(f rawFrame) rawFrame {
		body, _ := frame.Peel(f.payload)
		corr, _ := disco.ScanCorr(body)
		return rawFrame{frame.Type(disco.TypeError), anError(corr, code)}
	}
}

func withResult(f rawFrame) rawFrame {
	return rawFrame{frame.Type(disco.TypeResult), emptyResult(corrOf(f))}
}

func withoutCorr(code disco.Code) func(rawFrame) rawFrame {
	return func(rawFrame) rawFrame { return rawFrame{frame.Type(disco.TypeError), wrongError(code)} }
}

// octetsAre matches one golden frame.
func octetsAre(v testvectors.Payload) func(*tampered, rawFrame) bool {
	return func(_ *tampered, f rawFrame) bool {
		return f.typ == frame.Type(v.FrameType) && bytes.Equal(f.payload, v.Octets)
	}
}

// queries matches a QUERY, not to a responder that is configured otherwise.
func queries(match func(q *disco.Query) bool) func(*tampered, rawFrame) bool {
	return func(a *tampered, f rawFrame) bool {
		q, ok := gotQuery(f)
		return ok && a.cfg.Disabled == 0 && match(&q)
	}
}

// asking alters the QUERYs that match before the responder sees them.
func asking(change func(q *disco.Query) bool) sabotage {
	return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
		if q, ok := gotQuery(f); ok && change(&q) {
			return aQuery(q)
		}
		return pass(f)
	}}
}

// results alters RESULTs; updates drops UPDATEs.
func results(change func(r *disco.Result) bool) sabotage {
	return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
		if r, ok := gotResult(f); ok && change(&r) {
			return aResult(r)
		}
		return pass(f)
	}}
}

func dropUpdates(match func(u *disco.Update) bool) sabotage {
	return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
		if u, ok := gotUpdate(f); ok && match(&u) {
			return nil
		}
		return pass(f)
	}}
}

// shortened takes a record off each page under a corr.
func shortened(corr disco.Corr) sabotage {
	return results(func(r *disco.Result) bool {
		if r.Corr != corr {
			return false
		}
		r.Records = r.Records[1:]
		return true
	})
}

// codes alters the code of the ERRORs of some responders.
func codes(from, to disco.Code, of func(c *channel.Config) bool) sabotage {
	return sabotage{out: func(a *tampered, f rawFrame) []rawFrame {
		if e, ok := gotError(f); ok && e.Code == from && of(&a.cfg) {
			return as(disco.TypeError, anError(e.Corr, to))
		}
		return pass(f)
	}}
}

// bare reports a filter that has nothing but kinds, protocol_ids or a prefix.
func bare(f record.Filter, kinds, protocols, prefix bool) bool {
	return (f.Kinds != nil) == kinds && (f.ProtocolIDs != nil) == protocols && f.HasPrefix == prefix
}

// cursors notes which cursors were issued, on which association, to what.
type cursorNotes struct {
	of   map[disco.Cursor]int // association
	subs map[disco.Cursor]bool
	from map[disco.Cursor]record.Filter
	asks map[string]record.Filter // by association and corr
	seen map[string]bool
}

func newCursorNotes() *cursorNotes {
	return &cursorNotes{map[disco.Cursor]int{}, map[disco.Cursor]bool{}, map[disco.Cursor]record.Filter{}, map[string]record.Filter{}, map[string]bool{}}
}

func (n *cursorNotes) key(a *tampered, corr disco.Corr) string { return fmt.Sprint(a.num, ":", corr) }

// issued is the outward half of a saboteur that knows cursors.
func (n *cursorNotes) issued(a *tampered, f rawFrame) []rawFrame {
	if r, ok := gotResult(f); ok && r.HasCursor {
		n.of[r.Cursor] = a.num
		n.from[r.Cursor] = n.asks[n.key(a, r.Corr)]
		n.subs[r.Cursor] = !n.seen[n.key(a, r.Corr)]
	}
	return pass(f)
}

// refusing replies to the QUERYs with a cursor that match; before says whether
// the corr was used by a QUERY before.
func (n *cursorNotes) replying(match func(a *tampered, q *disco.Query, before bool) bool, reply func(rawFrame) rawFrame) sabotage {
	return sabotage{out: n.issued, in: func(a *tampered, f rawFrame) []rawFrame {
		q, ok := gotQuery(f)
		if !ok || a.cfg.Disabled != 0 || a.cfg.Limits.SnapshotTTL != 0 {
			return pass(f)
		}
		before := n.seen[n.key(a, q.Corr)]
		n.seen[n.key(a, q.Corr)] = true
		n.asks[n.key(a, q.Corr)] = q.Filter
		if q.HasCursor && match(a, &q, before) {
			r := reply(f)
			a.reply(disco.Type(r.typ), r.payload)
			return nil
		}
		return pass(f)
	}}
}

// outstanding keeps the peer's own requests without an answer, in order, of the
// present association.
type outstanding struct {
	num   int
	corrs []disco.Corr
}

func (o *outstanding) on(a *tampered) {
	if o.num != a.num {
		o.num, o.corrs = a.num, nil
	}
}

func (o *outstanding) sent(a *tampered, f rawFrame) {
	o.on(a)
	if t := disco.Type(f.typ); t.TakesReply() {
		o.corrs = append(o.corrs, corrOf(f))
	}
}

func (o *outstanding) done(f rawFrame) {
	o.corrs = slices.DeleteFunc(o.corrs, func(c disco.Corr) bool { return c == corrOf(f) })
}

// withCorr is a payload under another corr of the same length.
func withCorr(f rawFrame, corr disco.Corr) rawFrame {
	old := corrOf(f)
	if len(old) != len(corr) {
		panic("another length")
	}
	f.payload = bytes.Replace(f.payload, []byte(old), []byte(corr), 1)
	return f
}

func flipped(c disco.Corr) disco.Corr {
	b := []byte(c)
	b[len(b)-1] ^= 1
	return disco.Corr(b)
}

func recordOf(v interface {
	Record() (record.Record, error)
}) record.Record {
	r, err := v.Record()
	if err != nil {
		panic(err)
	}
	return r
}

// rawTool is a tool record put together by hand.
func rawTool(id string, pairs ...byte) []byte {
	b := append(dcbor.AppendMap(nil, 4), 0)
	b = append(dcbor.AppendBytes(b, id), 1, 3, 2, 1, 4)
	return append(b, pairs...)
}

// A spoiler breaks one thing; it is named for the check that is to see it.
type spoiler struct {
	breaks string
	make   func(b *bench) sabotage
}

func saboteurs(vectors []testvectors.Payload) []spoiler {
	golden := func(name string) testvectors.Payload {
		for _, v := range vectors {
			if v.Name == name {
				return v
			}
		}
		panic(name)
	}
	fixed := func(s sabotage) func(*bench) sabotage { return func(*bench) sabotage { return s } }
	all := []spoiler{
		// Clause 1.
		{"types-sent", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame {
				return append(as(disco.TypeResult, emptyResult(corr)), as(0x0107, emptyResult(corr))...)
			})
		}},
		{"reserved-types", fixed(sabotage{ping: func(*tampered) error { return errors.New("no answer") }})},
		{"key-update", fixed(sabotage{keyUpdate: func(a *tampered) error { a.deaf.Store(true); return nil }})},
		{"close", fixed(sabotage{close: func(*tampered) error { return errors.New("not acknowledged") }})},
		{"unknown-types", fixed(answered(func(_ *tampered, f rawFrame) bool { return f.typ == 0x0107 }, withError(1)))},
		{"replies-unanswered", fixed(answered(octetsAre(golden("N23")), withoutCorr(1)))},

		// Clause 2.
		{"sent-deterministic", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame { // corr before frame_kind
				b := dcbor.AppendBytes(append(dcbor.AppendMap(nil, 4), 1), corr)
				return as(disco.TypeResult, append(b, 0, 0x19, 1, 1, 2, 0x80, 3, 0xf5))
			})
		}},
		{"sent-bare", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame {
				return as(disco.TypeResult, append([]byte{0x7f, 0, 0, 0}, emptyResult(corr)...))
			})
		}},
		{"sent-frame-kind", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame {
				return as(disco.TypeResult, mapOf(disco.TypeError, corr, 2, 2, 0x80, 3, 0xf5))
			})
		}},
		{"sent-fields", func(*bench) sabotage { return rawResult(1, 2, 0x80) }},
		{"error-codes", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame {
				return as(disco.TypeError, mapOf(disco.TypeError, corr, 1, 2, 0x18, 99))
			})
		}},
		{"unknown-keys", fixed(answered(func(_ *tampered, f rawFrame) bool {
			return f.typ == frame.Type(disco.TypeQuery) && bytes.HasSuffix(f.payload, []byte{7, 0xa1, 0, 0x80})
		}, withError(1)))},
		{"leading-tlv", fixed(answered(func(_ *tampered, f rawFrame) bool { return bytes.HasPrefix(f.payload, []byte{0x7f, 0}) }, withError(1)))},
		{"refuse-others", fixed(answered(octetsAre(golden("F08-overlong")), withResult))},
		{"refuse-readings", fixed(answered(octetsAre(golden("F07-depth-9")), withoutCorr(4)))},
		{"accept-others", fixed(answered(octetsAre(golden("F14-key-24")), withError(1)))},
		{"accept-readings", fixed(answered(octetsAre(golden("F07-depth-8")), withError(1)))},
		{"repeatable", func(*bench) sabotage {
			n := 0
			return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
				if r, ok := gotResult(f); ok && r.Corr == "repeat" {
					if n++; n%2 == 0 { // an unknown key more
						f.payload[0]++
						f.payload = append(f.payload, 0x18, 99, 0)
					}
				}
				return pass(f)
			}}
		}},

		// Clause 3.
		{"corr-echo", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if e, ok := gotError(f); ok && e.Code == 5 && len(e.Corr) == disco.MaxCorrLen {
				return pass(withCorr(f, flipped(e.Corr)))
			}
			return pass(f)
		}})},
		{"corr-many", fixed(asking(func(q *disco.Query) bool {
			if !q.HasTolerant || !slices.Equal(q.Filter.Kinds, []record.Kind{2}) {
				return false
			}
			q.Filter.Kinds = []record.Kind{1}
			return true
		}))},
		{"corr-again", func(*bench) sabotage {
			n := 0
			return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
				if q, ok := gotQuery(f); ok && q.Corr == "again" {
					if n++; n > 1 {
						return nil
					}
				}
				return pass(f)
			}}
		}},
		{"one-answer", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame {
				return append(as(disco.TypeResult, emptyResult(corr)), as(disco.TypeResult, emptyResult(corr))...)
			})
		}},
		{"corr-duplicate", fixed(answered(queries(func(q *disco.Query) bool { return q.Corr == "duplicate" }), withError(1)))},
		{"peer-corrs", func(*bench) sabotage {
			var o outstanding
			return sabotage{out: func(a *tampered, f rawFrame) []rawFrame {
				if o.on(a); f.typ == frame.Type(disco.TypeSubscribe) && len(o.corrs) > 0 {
					f = withCorr(f, o.corrs[0])
				}
				o.sent(a, f)
				return pass(f)
			}, in: func(_ *tampered, f rawFrame) []rawFrame {
				if f.typ == frame.Type(disco.TypeResult) {
					o.done(f)
				}
				return pass(f)
			}}
		}},
		{"peer-matches", func(*bench) sabotage {
			var o outstanding
			return sabotage{out: func(a *tampered, f rawFrame) []rawFrame {
				o.sent(a, f)
				return pass(f)
			}, in: func(_ *tampered, f rawFrame) []rawFrame {
				if r, ok := gotResult(f); ok && len(r.Records) > 0 && len(o.corrs) >= 3 {
					n := len(o.corrs)
					switch three := o.corrs[n-3:]; r.Records[0].ID() {
					case "first":
						return pass(withCorr(f, three[1]))
					case "second":
						return pass(withCorr(f, three[0]))
					}
				}
				return pass(f)
			}}
		}},
		{"peer-unsubscribes", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if f.typ == frame.Type(disco.TypeUnsubscribe) {
				return pass(withCorr(f, flipped(corrOf(f))))
			}
			return pass(f)
		}})},
		{"peer-announces", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if f.typ == frame.Type(disco.TypeAnnounce) { // a corr between frame_kind and records
				f.payload = slices.Insert(f.payload, 5, 1, 0x41, 0x01)
				f.payload[0]++
			}
			return pass(f)
		}})},

		// Clause 4.
		{"sent-records", func(*bench) sabotage {
			return rawResult(2, append(append([]byte{2, 0x81}, 0xa3, 0, 0x41, 'x', 1, 3, 4, 0xa2, 0, 0x61, 'n', 1, 1), 3, 0xf5)...) // no revision
		}},
		{"record-ids", func(*bench) sabotage {
			r := conformTool("twice", 1, "x")
			return resultWith(r, r)
		}},
		{"same-revision", func(*bench) sabotage {
			other := "not what it was"
			return resultWith(recordOf(record.Tool{ID: "t.git.log", Revision: 1, Name: "git.log", ProtocolID: 1, Label: &other}))
		}},
		{"agent-refs", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if f.typ == frame.Type(disco.TypeResult) {
				f.payload = bytes.ReplaceAll(f.payload, []byte("\x82\x49t.git.log"), []byte("\x82\x49t.git.lox"))
			}
			return pass(f)
		}})},
		{"effect-values", func(*bench) sabotage {
			tool := rawTool("x", 0xa3, 0, 0x61, 'n', 1, 1, 2, 4)
			return rawResult(2, append(append([]byte{2, 0x81}, tool...), 3, 0xf5)...)
		}},
		{"protocol-null", func(*bench) sabotage {
			tool := rawTool("x", 0xa2, 0, 0x61, 'n', 1, 0)
			return rawResult(2, append(append([]byte{2, 0x81}, tool...), 3, 0xf5)...)
		}},
		{"protocol-class", func(*bench) sabotage {
			return resultWith(recordOf(record.Protocol{ID: "x", Revision: 1, ProtocolID: 1, CarriageClass: record.ClassHTTP}))
		}},
		{"announce-ignored", func(*bench) sabotage {
			announced := false
			return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
				announced = announced || f.typ == frame.Type(disco.TypeAnnounce) && bytes.Contains(f.payload, []byte("theirs-alone"))
				return pass(f)
			}, out: func(_ *tampered, f rawFrame) []rawFrame {
				if r, ok := gotResult(f); ok && announced && r.Complete && len(r.Records) > 0 {
					announced = false
					r.Records = append(r.Records, conformTool("theirs-alone", 1, "x"))
					return aResult(r)
				}
				return pass(f)
			}}
		}},
		{"revision-rises", func(*bench) sabotage {
			n := 0
			return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
				if u, ok := gotUpdate(f); ok && adds("rises")(&u) {
					if n++; n == 2 { // it comes back, as it was and at the revision it had
						u.Added[0] = u.Added[0].WithRevision(1)
						b, err := disco.AppendUpdate(nil, &u)
						return encoded(disco.TypeUpdate, b, err)
					}
				}
				return pass(f)
			}}
		}},

		// Clause 5.
		{"query-all", func(*bench) sabotage {
			var plain bool
			return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
				plain = octetsAre(golden("V1"))(nil, f)
				return pass(f)
			}, out: func(_ *tampered, f rawFrame) []rawFrame {
				if r, ok := gotResult(f); ok && plain && r.Corr == "\x01" {
					plain, r.Records = false, r.Records[1:]
					return aResult(r)
				}
				return pass(f)
			}}
		}},
		{"query-empty", fixed(answered(queries(func(q *disco.Query) bool {
			return bare(q.Filter, true, false, true) && strings.HasPrefix(q.Filter.NamePrefix, "conform: there is")
		}), withError(5)))},
		{"filter-kinds", fixed(asking(func(q *disco.Query) bool {
			if q.HasTolerant || !bare(q.Filter, true, false, false) || !slices.Equal(q.Filter.Kinds, []record.Kind{4}) {
				return false
			}
			q.Filter.Kinds = []record.Kind{1}
			return true
		}))},
		{"filter-empty", fixed(asking(func(q *disco.Query) bool {
			if q.Filter.ProtocolIDs == nil || len(q.Filter.ProtocolIDs) > 0 {
				return false
			}
			q.Filter.ProtocolIDs = nil
			return true
		}))},
		{"filter-protocol-ids", fixed(asking(func(q *disco.Query) bool {
			if !bare(q.Filter, false, true, false) || !slices.Equal(q.Filter.ProtocolIDs, []uint64{2}) {
				return false
			}
			q.Filter.ProtocolIDs = []uint64{3}
			return true
		}))},
		{"filter-name-prefix", fixed(asking(func(q *disco.Query) bool {
			if q.Filter.NamePrefix != "GIT." { // as if case did not matter
				return false
			}
			q.Filter.NamePrefix = "git."
			return true
		}))},
		{"filter-conjunctive", fixed(asking(func(q *disco.Query) bool {
			if !bare(q.Filter, true, true, true) {
				return false
			}
			q.Filter.NamePrefix, q.Filter.HasPrefix = "", false
			return true
		}))},
		{"filter-scope", func(*bench) sabotage {
			by := map[disco.Corr]bool{}
			return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
				if q, ok := gotQuery(f); ok {
					by[q.Corr] = bare(q.Filter, false, true, false)
				}
				return pass(f)
			}, out: func(_ *tampered, f rawFrame) []rawFrame {
				if r, ok := gotResult(f); ok && by[r.Corr] {
					r.Records = slices.DeleteFunc(r.Records, func(r record.Record) bool { return r.Kind() == record.KindCarriageClass })
					return aResult(r)
				}
				return pass(f)
			}}
		}},
		{"filter-loose", fixed(answered(queries(func(q *disco.Query) bool { return slices.Equal(q.Filter.Kinds, []record.Kind{70_000}) }), withError(1)))},
		{"filter-refused", fixed(sabotage{in: func(a *tampered, f rawFrame) []rawFrame {
			if q, ok := gotQuery(f); ok && a.cfg.Disabled&channel.FeatureNamePrefix != 0 && q.Filter.HasPrefix {
				q.Filter.HasPrefix, q.Filter.NamePrefix = false, ""
				return aQuery(q)
			}
			return pass(f)
		}})},
		{"tolerant-default", fixed(answered(queries(func(q *disco.Query) bool {
			return q.HasTolerant && !q.Tolerant && bare(q.Filter, false, false, false) && len(q.Corr) == 8
		}), withError(1)))},
		{"tolerant", fixed(answered(func(a *tampered, f rawFrame) bool {
			q, ok := gotQuery(f)
			return ok && a.cfg.Limits.MaxFrameLen == 0 && q.Tolerant && bare(q.Filter, false, false, false)
		}, withResult))},
		{"unrepresentable", fixed(sabotage{in: func(a *tampered, f rawFrame) []rawFrame {
			if q, ok := gotQuery(f); ok && a.cfg.Limits.MaxFrameLen > 0 {
				q.Tolerant = true // dropped in silence
				return aQuery(q)
			}
			return pass(f)
		}})},
		{"paging", func(*bench) sabotage {
			n := 0
			return results(func(r *disco.Result) bool {
				if r.Corr != "paging" {
					return false
				}
				if n++; n%4 == 2 { // of its four pages the second
					r.Records = r.Records[1:]
				}
				return true
			})
		}},
		{"sent-cursor", func(*bench) sabotage { return rawResult(2, 2, 0x80, 3, 0xf4) }},
		{"page-empty", func(*bench) sabotage { return rawResult(3, 2, 0x80, 3, 0xf4, 4, 0x41, 'x') }},
		{"page-last", func(*bench) sabotage { return rawResult(3, 2, 0x80, 3, 0xf5, 4, 0x41, 'x') }},
		{"page-order", func(*bench) sabotage { return resultWith(conformTool("b", 1, "x"), conformTool("a", 1, "x")) }},
		{"cursor-same-corr", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(_ *tampered, q *disco.Query, before bool) bool { return before && n.of[q.Cursor] != 0 }, withError(1))
		}},
		{"cursor-fresh-corr", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(a *tampered, q *disco.Query, before bool) bool {
				return !before && n.of[q.Cursor] == a.num && !n.subs[q.Cursor]
			}, withError(5))
		}},
		{"cursor-twice", func(*bench) sabotage {
			n, used := newCursorNotes(), map[disco.Cursor]bool{}
			return n.replying(func(a *tampered, q *disco.Query, _ bool) bool {
				twice := used[q.Cursor]
				used[q.Cursor] = n.of[q.Cursor] == a.num && !n.subs[q.Cursor]
				return twice
			}, withError(5))
		}},
		{"cursor-unknown", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(_ *tampered, q *disco.Query, _ bool) bool { return n.of[q.Cursor] == 0 && len(q.Cursor) == 16 }, withResult)
		}},
		{"cursor-filter", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(a *tampered, q *disco.Query, _ bool) bool {
				return n.of[q.Cursor] == a.num && !n.subs[q.Cursor] && !n.from[q.Cursor].Equal(q.Filter)
			}, withResult)
		}},
		{"cursor-association", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(a *tampered, q *disco.Query, _ bool) bool { return n.of[q.Cursor] != 0 && n.of[q.Cursor] != a.num }, withResult)
		}},
		{"cursor-expired", fixed(answered(func(a *tampered, f rawFrame) bool {
			q, ok := gotQuery(f)
			return ok && a.cfg.Limits.SnapshotTTL > 0 && q.HasCursor
		}, withResult))},
		{"listing-stable", fixed(results(func(r *disco.Result) bool {
			r.Records = slices.DeleteFunc(r.Records, func(r record.Record) bool { return r.ID() == "zz-stable" })
			return true
		}))},
		{"peer-follow-up", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if q, ok := gotQuery(f); ok && q.HasCursor {
				q.Cursor = disco.Cursor(flipped(disco.Corr(q.Cursor)))
				return aQuery(q)
			}
			return pass(f)
		}})},

		// Clause 6.
		{"subscribe-snapshot", fixed(shortened("snapshot"))},
		{"subscribe-filter", fixed(sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
			if s, ok := gotSubscribe(f); ok && s.Corr == "snapshot-filter" {
				s.Filter.Kinds = []record.Kind{record.KindAgent}
				b, err := disco.AppendSubscribe(nil, &s)
				return encoded(disco.TypeSubscribe, b, err)
			}
			return pass(f)
		}})},
		{"subscribe-keys", fixed(answered(func(_ *tampered, f rawFrame) bool {
			return f.typ == frame.Type(disco.TypeSubscribe) && bytes.HasSuffix(f.payload, []byte{5, 1, 6, 0x61, 'x'})
		}, withError(1)))},
		{"snapshot-cursor", func(*bench) sabotage {
			n := newCursorNotes()
			return n.replying(func(_ *tampered, q *disco.Query, _ bool) bool { return n.subs[q.Cursor] }, withError(5))
		}},
		{"subscribe-refused", fixed(codes(6, 4, func(c *channel.Config) bool { return c.Disabled&channel.FeatureSubscriptions != 0 }))},
		{"subscribe-bound", fixed(codes(6, 5, func(c *channel.Config) bool { return c.Disabled == 0 }))},
		{"update-added", fixed(dropUpdates(func(u *disco.Update) bool { return adds("added")(u) }))},
		{"update-replaced", fixed(dropUpdates(func(u *disco.Update) bool { return adds("replaced")(u) }))},
		{"update-withdrawn", fixed(dropUpdates(func(u *disco.Update) bool { return withdraws("withdrawn")(u) }))},
		{"update-leaves", fixed(dropUpdates(func(u *disco.Update) bool { return withdraws("leaves")(u) }))},
		{"update-enters", fixed(dropUpdates(func(u *disco.Update) bool { return adds("enters")(u) }))},
		{"update-in-filter", func(b *bench) sabotage {
			return b.injecting("outside", func(corr disco.Corr) []byte {
				return must(disco.AppendUpdate(nil, &disco.Update{Corr: corr, Added: []record.Record{conformTool("outside", 2, "after")}}))
			})
		}},
		{"update-every", func(*bench) sabotage {
			n := 0
			return dropUpdates(func(u *disco.Update) bool {
				if !adds("every")(u) {
					return false
				}
				n++
				return n == 2
			})
		}},
		{"update-no-op", func(b *bench) sabotage {
			return b.injecting("no-op", func(corr disco.Corr) []byte { return mapOf(disco.TypeUpdate, corr, 0) })
		}},
		{"unsubscribe-stops", fixed(sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
			if f.typ == frame.Type(disco.TypeUnsubscribe) && corrOf(f) == "stops" {
				return nil
			}
			return pass(f)
		}})},
		{"unsubscribe-silent", fixed(answered(func(_ *tampered, f rawFrame) bool {
			_, err := disco.ParseUnsubscribe(f.payload, nil)
			return f.typ == frame.Type(disco.TypeUnsubscribe) && err != nil
		}, withoutCorr(1)))},
		{"unsubscribe-unknown", fixed(sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
			if corrOf(f) == "unsubscribed" {
				return nil
			}
			return pass(f)
		}})},
		{"announce-silent", fixed(answered(func(_ *tampered, f rawFrame) bool {
			_, err := disco.ParseAnnounce(f.payload, nil)
			return f.typ == frame.Type(disco.TypeAnnounce) && err != nil
		}, withoutCorr(1)))},

		// Clause 8, and elsewhere.
		{"answers-afresh", fixed(shortened("afresh"))},
		{"nothing-survives", fixed(sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
			if q, ok := gotQuery(f); ok && q.Corr == "survivor" {
				return nil // taken for a duplicate
			}
			return pass(f)
		}})},
		{"bridge-traffic", fixed(answered(func(_ *tampered, f rawFrame) bool { return bytes.HasPrefix(f.payload, []byte{0, 0x10}) }, withoutCorr(1)))},
		{"discovery-off", fixed(codes(7, 6, func(c *channel.Config) bool { return c.Disabled&channel.FeatureDiscovery != 0 }))},
		{"query-rate", fixed(codes(7, 4, func(c *channel.Config) bool { return c.Limits.QueryRate > 0 }))},
		{"page-size", func(*bench) sabotage {
			return onAgain(func(corr disco.Corr) []rawFrame { // an unknown key, and all of its value
				b := mapOf(disco.TypeResult, corr, 3, 2, 0x80, 3, 0xf5, 0x18, 99)
				return as(disco.TypeResult, dcbor.AppendBytes(b, make([]byte, maxResult)))
			})
		}},
		{"tables-separate", fixed(sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
			if e, ok := gotError(f); ok && e.Corr == "separate" { // as if the subscription were of that table
				return as(disco.TypeUnsubscribe, must(disco.AppendUnsubscribe(nil, &disco.Unsubscribe{Corr: "separate"})))
			}
			return pass(f)
		}})},
		{"both-directions", func(*bench) sabotage {
			var o outstanding
			return sabotage{out: func(a *tampered, f rawFrame) []rawFrame {
				o.sent(a, f)
				return pass(f)
			}, in: func(_ *tampered, f rawFrame) []rawFrame {
				if q, ok := gotQuery(f); ok && slices.Contains(o.corrs, q.Corr) {
					return nil // one table for both directions
				}
				return pass(f)
			}}
		}},
	}
	for _, v := range vectors {
		if name := "refuse-" + v.Name; v.Expect.OK || len(v.Name) > 3 || v.Name[0] != 'N' || v.Direction != testvectors.ToResponder {
			continue
		} else if v.Expect.Reply == testvectors.ReplyUncorrelated {
			all = append(all, spoiler{name, fixed(answered(octetsAre(v), withoutCorr(5)))})
		} else {
			all = append(all, spoiler{name, fixed(answered(octetsAre(v), withResult))})
		}
	}
	return all
}

// injecting sends an UPDATE that no change is behind, under the subscription
// that was made while the set had a record, before the next QUERY is answered.
func (b *bench) injecting(id record.ID, update func(corr disco.Corr) []byte) sabotage {
	var corr disco.Corr
	return sabotage{in: func(a *tampered, f rawFrame) []rawFrame {
		_, has := b.set.Snapshot().Get(id)
		if s, ok := gotSubscribe(f); ok && has {
			corr = s.Corr
		}
		if _, ok := gotQuery(f); ok && corr != "" {
			a.reply(disco.TypeUpdate, update(corr))
			corr = ""
		}
		return pass(f)
	}}
}

// Each check can fail, and fails alone: of a responder that does one thing
// wrong, exactly the check for that thing says so.
func TestConformSaboteurs(t *testing.T) {
	vectors, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	// Those that checks are named for, and the failures: the rest is as well held
	// to by a responder that does everything right.
	few := slices.DeleteFunc(vectors.Payloads, func(v testvectors.Payload) bool {
		return !strings.ContainsRune("VNF", rune(v.Name[0])) || !strings.ContainsRune("0123456789", rune(v.Name[1]))
	})
	list := saboteurs(few)
	for _, gen := range []int{2, 3} {
		has := map[string]int{}
		for _, s := range list {
			has[s.breaks]++
			t.Run(strconv.Itoa(gen)+"/"+s.breaks, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, gen, true)
					b.sab = s.make(b)
					results := conformRun(t, b, few)
					if got := verdicts(results, failed); !slices.Equal(got, []string{s.breaks}) {
						t.Errorf("failed: %q, want %q alone\n%s", got, s.breaks, explain(results, append(got, s.breaks)))
					}
				})
			})
		}
		for _, k := range conformChecks(few, gen) {
			if has[k.name] != 1 {
				t.Errorf("check %s has %d saboteurs", k.name, has[k.name])
			}
			delete(has, k.name)
		}
		for name := range has {
			t.Errorf("a saboteur for %s, which is no check", name)
		}
	}
}

// So does what is seen of a peer that only its own changes can be watched of.
func TestConformForeignSaboteurs(t *testing.T) {
	// watched returns what to do with the subscriptions of the watch: to
	// everything, to everything again, to tools, and one that is given up.
	watched := func(n int, in, out func(f rawFrame) []rawFrame) sabotage {
		var subs []disco.Subscribe
		var hit disco.Corr
		return sabotage{in: func(_ *tampered, f rawFrame) []rawFrame {
			if s, ok := gotSubscribe(f); ok {
				subs = append(subs, s)
				if k := len(subs) - 4; k >= 0 && hit == "" && bare(subs[k].Filter, false, false, false) && bare(subs[k+1].Filter, false, false, false) &&
					bare(subs[k+2].Filter, true, false, false) && bare(subs[k+3].Filter, false, false, false) {
					hit = subs[k+n].Corr
				}
			}
			if in != nil && hit != "" && corrOf(f) == hit {
				return in(f)
			}
			return pass(f)
		}, out: func(_ *tampered, f rawFrame) []rawFrame {
			if out != nil && hit != "" && corrOf(f) == hit {
				return out(f)
			}
			return pass(f)
		}}
	}
	only := func(t disco.Type, alter func(f rawFrame) []rawFrame) func(f rawFrame) []rawFrame {
		return func(f rawFrame) []rawFrame {
			if f.typ == frame.Type(t) {
				return alter(f)
			}
			return pass(f)
		}
	}
	drop := func(rawFrame) []rawFrame { return nil }
	for _, tt := range []struct {
		breaks string
		make   func() sabotage
	}{
		{"update-every", func() sabotage { return watched(1, nil, only(disco.TypeUpdate, drop)) }},
		{"unsubscribe-stops", func() sabotage { return watched(3, only(disco.TypeUnsubscribe, drop), nil) }},
		{"revision-rises", func() sabotage {
			return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
				u, ok := gotUpdate(f)
				if !ok || len(u.Added) != 1 {
					return pass(f)
				}
				if label, _ := u.Added[0].Label(); label != "three" {
					return pass(f)
				}
				u.Added[0] = u.Added[0].WithRevision(0)
				b, err := disco.AppendUpdate(nil, &u)
				return encoded(disco.TypeUpdate, b, err)
			}}
		}},
		{"peer-announces", func() sabotage {
			return sabotage{out: func(_ *tampered, f rawFrame) []rawFrame {
				return only(disco.TypeAnnounce, func(rawFrame) []rawFrame {
					return as(disco.TypeAnnounce, mapOf(disco.TypeAnnounce, "\x01", 1, 2, 0x80))
				})(f)
			}}
		}},
	} {
		t.Run(tt.breaks, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, false)
				b.config = func(c *channel.Config) { c.AnnounceOnOpen = true }
				b.sab = tt.make()
				b.alive(t)
				results := conformRun(t, b, payloads(t))
				if got := verdicts(results, failed); !slices.Equal(got, []string{tt.breaks}) {
					t.Errorf("failed: %q, want %q alone\n%s", got, tt.breaks, explain(results, append(got, tt.breaks)))
				}
			})
		})
	}
}
