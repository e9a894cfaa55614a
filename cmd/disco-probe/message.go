package main

import (
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A message is an accepted payload.
type message struct {
	json    object // by the specification's field names, in the order of the keys
	records []record.Record
	skipped []record.Skipped
}

// parseMessage reads a payload under a header type, one of the seven. The error
// is a *disco.PayloadError.
func parseMessage(t disco.Type, b []byte, o *disco.Options) (message, error) {
	m := message{json: object{{"frame_kind", uint64(t)}}}
	var err error
	switch t {
	case disco.TypeQuery:
		var q disco.Query
		if q, err = disco.ParseQuery(b, o); err != nil {
			break
		}
		m.corr(q.Corr, true)
		m.filter(q.Filter)
		if q.HasTolerant {
			m.add("tolerant", q.Tolerant)
		}
		m.cursor(q.Cursor, q.HasCursor)
	case disco.TypeResult:
		var r disco.Result
		if r, err = disco.ParseResult(b, o); err != nil {
			break
		}
		m.corr(r.Corr, true)
		m.take("records", r.Records, r.Skipped)
		m.add("complete", r.Complete)
		m.cursor(r.Cursor, r.HasCursor)
	case disco.TypeError:
		var e disco.ErrorMsg
		if e, err = disco.ParseError(b, o); err != nil {
			break
		}
		m.corr(e.Corr, e.HasCorr)
		m.add("code", uint64(e.Code))
		if e.HasReason {
			m.add("reason", e.Reason)
		}
	case disco.TypeAnnounce:
		var a disco.Announce
		if a, err = disco.ParseAnnounce(b, o); err != nil {
			break
		}
		m.corr(a.Corr, a.HasCorr)
		m.take("records", a.Records, a.Skipped)
	case disco.TypeSubscribe:
		var s disco.Subscribe
		if s, err = disco.ParseSubscribe(b, o); err != nil {
			break
		}
		m.corr(s.Corr, true)
		m.filter(s.Filter)
	case disco.TypeUpdate:
		var u disco.Update
		if u, err = disco.ParseUpdate(b, o); err != nil {
			break
		}
		m.corr(u.Corr, true)
		if len(u.Added)+len(u.Skipped) > 0 {
			m.take("added", u.Added, u.Skipped)
		}
		if len(u.Withdrawn) > 0 {
			m.add("withdrawn", idsJSON(u.Withdrawn))
		}
	case disco.TypeUnsubscribe:
		var u disco.Unsubscribe
		if u, err = disco.ParseUnsubscribe(b, o); err != nil {
			break
		}
		m.corr(u.Corr, true)
	}
	if err != nil {
		return message{}, err
	}
	return m, nil
}

func (m *message) add(key string, v any) { m.json = append(m.json, field{key, v}) }

func (m *message) corr(c disco.Corr, has bool) {
	if has {
		m.add("corr", octets(c))
	}
}

func (m *message) cursor(c disco.Cursor, has bool) {
	if has {
		m.add("cursor", octets(c))
	}
}

func (m *message) filter(f record.Filter) {
	if f.Kinds != nil {
		kinds := make([]uint64, len(f.Kinds))
		for i, k := range f.Kinds {
			kinds[i] = uint64(k)
		}
		m.add("kinds", kinds)
	}
	if f.ProtocolIDs != nil {
		m.add("protocol_ids", f.ProtocolIDs)
	}
	if f.HasPrefix {
		m.add("name_prefix", f.NamePrefix)
	}
}

func (m *message) take(key string, records []record.Record, skipped []record.Skipped) {
	m.records, m.skipped = records, skipped
	m.add(key, recordsJSON(records))
}
