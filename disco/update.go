package disco

import (
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// Keys of a DISCO_UPDATE (§7.2).
const (
	keyAdded     = 2 // array of records; at least one of the two is there
	keyWithdrawn = 3 // array of record_ids; and not empty
)

// An Update is a DISCO_UPDATE payload (§7.2): one change of what a subscription
// sees.
type Update struct {
	Corr      Corr
	Added     []record.Record
	Withdrawn []record.ID
	Skipped   []record.Skipped // of added, left out for their unknown kind [C9]
}

// An UpdateView is an Update in its payload's buffer, valid as long as that is
// unchanged.
type UpdateView struct {
	Corr      []byte
	Added     record.List
	Withdrawn record.IDs
}

// AppendUpdate appends the payload. The error is an *EncodeError, and b is
// returned as it was. Skipped is not sent.
func AppendUpdate(b []byte, u *Update) ([]byte, error) {
	size, ok := recordsLen(u.Added)
	switch {
	case len(u.Corr) < 1 || len(u.Corr) > MaxCorrLen:
		return b, errCorr(TypeUpdate)
	case len(u.Added)+len(u.Withdrawn) == 0:
		return b, &EncodeError{TypeUpdate, "added", "and withdrawn are both empty"}
	case !ok:
		return b, &EncodeError{TypeUpdate, "added", "holds the zero record"}
	}
	for _, id := range u.Withdrawn {
		if len(id) < 1 || len(id) > record.MaxIDLen {
			return b, &EncodeError{TypeUpdate, "withdrawn", "each must be 1 to 32 octets"}
		}
	}
	b = AppendUpdateHead(b, u.Corr, len(u.Added) > 0, len(u.Withdrawn) > 0)
	if len(u.Added) > 0 {
		b = appendRecords(AppendAdded(b, len(u.Added)), u.Added, size)
	}
	if len(u.Withdrawn) > 0 {
		b = AppendWithdrawn(b, len(u.Withdrawn))
		for _, id := range u.Withdrawn {
			b = dcbor.AppendBytes(b, id)
		}
	}
	return b, nil
}

// AppendUpdateHead appends the part of an UPDATE that is a subscription's own:
// up to its corr, of 1 to 64 octets. What follows it, AppendAdded with the
// records' octets and AppendWithdrawn with the encoded ids, whichever are there
// and not empty, is the same for all subscriptions that the change concerns.
func AppendUpdateHead(b []byte, corr Corr, added, withdrawn bool) []byte {
	return appendEnvelope(b, TypeUpdate, 2+count(added)+count(withdrawn), corr)
}

// AppendAdded appends the key added and the head of its n records, n > 0.
func AppendAdded(b []byte, n int) []byte { return dcbor.AppendArray(append(b, keyAdded), n) }

// AppendWithdrawn appends the key withdrawn and the head of its n ids, n > 0,
// which the caller appends with dcbor.AppendBytes.
func AppendWithdrawn(b []byte, n int) []byte { return dcbor.AppendArray(append(b, keyWithdrawn), n) }

// ParseUpdate parses a DISCO_UPDATE payload. The result owns its memory; it is
// up to nine times that of the payload where ids of one octet are withdrawn,
// which ParseUpdateView avoids. The error is a *PayloadError, and one that has
// nothing in it errors.Is ErrEmptyUpdate.
func ParseUpdate(b []byte, o *Options) (Update, error) {
	s := o.settings()
	var marks record.Marks
	v, i := scanUpdate(b, &s, &marks)
	if err := s.verdict(b, TypeUpdate, i); err != nil {
		return Update{}, err
	}
	var u Update
	var tail string
	u.Added, u.Skipped, tail = v.Added.Own(&marks, v.Corr, v.Withdrawn.Octets())
	u.Corr, u.Withdrawn = Corr(tail[:len(v.Corr)]), v.Withdrawn.Cut(tail[len(v.Corr):])
	return u, nil
}

// ParseUpdateView is ParseUpdate without a copy. It allocates nothing but the
// error.
func ParseUpdateView(b []byte, o *Options) (UpdateView, error) {
	s := o.settings()
	v, i := scanUpdate(b, &s, nil)
	if err := s.verdict(b, TypeUpdate, i); err != nil {
		return UpdateView{}, err
	}
	return v, nil
}

// An UpdateReader parses DISCO_UPDATE payloads as ParseUpdateView does. A change
// comes once for each subscription that it concerns, the same but for the corr:
// those after the first are only compared with it, which takes a quarter of the time
// (BenchmarkUpdateReader). The zero value is ready.
type UpdateReader struct {
	last     []byte // the payload that was parsed, if there is one, and it is not long
	view     UpdateView
	from, to int // where its corr is
}

// maxRemembered is how long a payload an UpdateReader keeps, in octets.
const maxRemembered = 1 << 10

// Parse parses b. The options are the same each time. The result is valid until the
// next call, and as long as b is unchanged.
func (r *UpdateReader) Parse(b []byte, o *Options) (UpdateView, error) {
	if len(b) > 0 && len(b) == len(r.last) && string(b[:r.from]) == string(r.last[:r.from]) && string(b[r.to:]) == string(r.last[r.to:]) {
		v := r.view
		v.Corr = b[r.from:r.to]
		return v, nil
	}
	if len(b) > maxRemembered {
		return ParseUpdateView(b, o)
	}
	kept := append(r.last[:0], b...)
	r.last = kept[:0]
	v, err := ParseUpdateView(kept, o)
	if err != nil {
		return v, err
	}
	r.last, r.view = kept, v
	_, _, r.to = scanEnvelope(kept, TypeUpdate)
	r.from = r.to - len(v.Corr)
	return v, nil
}

func scanUpdate(b []byte, s *settings, marks *record.Marks) (v UpdateView, i int) {
	var n int
	v.Corr, n, i = scanEnvelope(b, TypeUpdate)
	if dcbor.Has(b, i, n, keyAdded) {
		v.Added, i = record.ScanList(b, i+1, s.mode, marks)
		n--
	}
	if dcbor.Has(b, i, n, keyWithdrawn) {
		v.Withdrawn, i = record.ScanIDs(b, i+1)
		n--
	}
	i = dcbor.Rest(b, i, n, keyWithdrawn, 1, s.mode)
	if i >= 0 && v.Added.Len()+v.Added.NumSkipped()+v.Withdrawn.Len() == 0 {
		i = dcbor.Fail(0, dcbor.Empty)
	}
	return v, i
}
