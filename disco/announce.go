package disco

import (
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// An Announce is a DISCO_ANNOUNCE payload (§7.1). Ours has no corr; one that is
// received with it is taken, and its corr means nothing [C25].
type Announce struct {
	Corr    Corr
	HasCorr bool

	Records []record.Record
	Skipped []record.Skipped // left out for their unknown kind [C9]
}

// An AnnounceView is an Announce in its payload's buffer, valid as long as that
// is unchanged.
type AnnounceView struct {
	Corr    []byte
	HasCorr bool
	Records record.List
}

// AppendAnnounce appends the payload, of at least one record. The error is an
// *EncodeError, and b is returned as it was. Corr and Skipped are not sent.
func AppendAnnounce(b []byte, a *Announce) ([]byte, error) {
	size, ok := recordsLen(a.Records)
	switch {
	case a.HasCorr:
		return b, &EncodeError{TypeAnnounce, "corr", "must be absent"} // §4.2
	case len(a.Records) == 0 || !ok:
		return b, &EncodeError{TypeAnnounce, "records", "must be at least one, and none the zero record"}
	}
	return appendRecords(AppendAnnounceHead(b, len(a.Records)), a.Records, size), nil
}

// AppendAnnounceHead appends what comes before the n records of an ANNOUNCE,
// whose octets, which the caller appends, end it.
func AppendAnnounceHead(b []byte, n int) []byte {
	b = dcbor.AppendUint(append(dcbor.AppendMap(b, 2), keyFrameKind), uint64(TypeAnnounce))
	return dcbor.AppendArray(append(b, keyRecords), n)
}

// ParseAnnounce parses a DISCO_ANNOUNCE payload. The result owns its memory, as
// that of ParseResult. The error is a *PayloadError.
func ParseAnnounce(b []byte, o *Options) (Announce, error) {
	s := o.settings()
	var marks record.Marks
	v, i := scanAnnounce(b, &s, &marks)
	if err := s.verdict(b, TypeAnnounce, i); err != nil {
		return Announce{}, err
	}
	a := Announce{HasCorr: v.HasCorr}
	var tail string
	a.Records, a.Skipped, tail = v.Records.Own(&marks, v.Corr)
	a.Corr = Corr(tail)
	return a, nil
}

// ParseAnnounceView is ParseAnnounce without a copy. It allocates nothing but
// the error.
func ParseAnnounceView(b []byte, o *Options) (AnnounceView, error) {
	s := o.settings()
	v, i := scanAnnounce(b, &s, nil)
	if err := s.verdict(b, TypeAnnounce, i); err != nil {
		return AnnounceView{}, err
	}
	return v, nil
}

func scanAnnounce(b []byte, s *settings, marks *record.Marks) (v AnnounceView, i int) {
	n, i := scanKind(b, TypeAnnounce)
	if v.HasCorr = dcbor.Has(b, i, n, keyCorr); v.HasCorr {
		v.Corr, i = dcbor.Bytes(b, i+1, 1, MaxCorrLen)
		n--
	}
	v.Records, i = record.ScanList(b, dcbor.Key(b, i, keyRecords), s.mode, marks)
	return v, dcbor.Rest(b, i, n-1, keyRecords, 1, s.mode)
}
