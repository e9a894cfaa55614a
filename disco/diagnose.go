package disco

import (
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// verdict is what a scan of b that ended in i amounts to: nil if it stands.
// Otherwise the reading that met the fault is thrown away, and the payload is
// gone through once more, slowly, in the order that decides the code.
func (s *settings) verdict(b []byte, t Type, i int) error {
	if i == len(b) && (i <= s.items || dcbor.Budget(b, s.items) >= 0) {
		return nil
	}
	if e := s.diagnose(b, t); e != nil {
		return e
	}
	// The two readings disagree, which the tests exclude. Refuse all the same.
	e := dcbor.Done(b, i)
	if e == nil {
		e = dcbor.Fault(dcbor.Budget(b, s.items))
	}
	return s.fault(b, t, *e, "", "4.1")
}

// Diagnose says why the payload is refused under the header's frame type, which
// is one of the seven, or returns nil if it is not. Its checks are those of the
// Parse functions, and theirs are in this order: the encoding, frame_kind, corr,
// keys and fields, record kinds (§4.1, §4.2, §9).
func Diagnose(b []byte, t Type, o *Options) *PayloadError {
	s := o.settings()
	return s.diagnose(b, t)
}

func (s *settings) diagnose(b []byte, t Type) *PayloadError {
	if e := dcbor.Check(b, 1, s.mode, s.items); e != nil {
		section := "4.1"
		if e.Rule == dcbor.Limit {
			section = "10"
		}
		return s.fault(b, t, *e, "", section)
	}
	switch at, ok := value(b, keyFrameKind); {
	case !ok:
		return s.fault(b, t, dcbor.Error{Rule: dcbor.Missing}, "frame_kind", "4.2")
	case b[at]&^31 != dcbor.MajorUint:
		return s.fault(b, t, dcbor.Error{Rule: dcbor.WrongType, Offset: at}, "", "4.2")
	default:
		if kind, _ := dcbor.Head(b, at); kind != uint64(t) {
			return s.fault(b, t, dcbor.Error{Rule: dcbor.KindMismatch, Offset: at}, "", "4.2")
		}
	}
	sh := Shape(t)
	if at, ok := value(b, keyCorr); ok {
		if v := corrShape().CheckAt(b, at, "4.2"); v != nil {
			return s.fault(b, t, v.Error, "", v.Section)
		}
	} else if sh.Fields[1].Required {
		return s.fault(b, t, dcbor.Error{Rule: dcbor.Missing}, "corr", "4.2")
	}
	if v := sh.Check(b); v != nil {
		return s.fault(b, t, v.Error, v.Missing, v.Section)
	}
	return s.diagnoseFields(b, t)
}

// diagnoseFields checks what the tables do not say: of fields together, of
// limits, and of record kinds, in a payload that agrees with its tables.
func (s *settings) diagnoseFields(b []byte, t Type) *PayloadError {
	over := func(key uint64, max int, section string) *PayloadError {
		at, ok := value(b, key)
		if !ok {
			return nil
		}
		if n, _ := dcbor.Head(b, at); n > uint64(max) {
			return s.fault(b, t, dcbor.Error{Rule: dcbor.Limit, Offset: at}, "", section)
		}
		return nil
	}
	switch t {
	case TypeQuery, TypeSubscribe:
		if e := over(keyKinds, s.filterEntries, "10"); e != nil {
			return e
		}
		if e := over(keyProtocolIDs, s.filterEntries, "10"); e != nil {
			return e
		}
		return over(keyNamePrefix, s.prefix, "10")
	case TypeResult:
		complete, _ := value(b, keyComplete)
		if v, _ := dcbor.Bool(b, complete); !v {
			if _, ok := value(b, keyResultCursor); !ok {
				return s.fault(b, t, dcbor.Error{Rule: dcbor.Missing}, "cursor", "6.2")
			}
			if e := over(keyResultCursor, s.cursor, "10"); e != nil {
				return e
			}
		}
		if !s.tolerant {
			return s.diagnoseKinds(b, t)
		}
	case TypeUpdate:
		for _, key := range []uint64{keyAdded, keyWithdrawn} {
			if at, ok := value(b, key); ok {
				if n, _ := dcbor.Head(b, at); n > 0 {
					return nil
				}
			}
		}
		return s.fault(b, t, dcbor.Error{Rule: dcbor.Empty}, "", "7.2")
	}
	return nil
}

// maxSkipped bounds what a PayloadError lists; a payload of the smallest records
// would otherwise cost ten times its length.
const maxSkipped = 1024

// diagnoseKinds looks for records of an unknown kind (§5).
func (s *settings) diagnoseKinds(b []byte, t Type) *PayloadError {
	at, _ := value(b, keyRecords)
	list, _ := record.ScanList(b, at, s.mode, nil)
	var e *PayloadError
	for k, r := range list.Skipped() {
		if e == nil {
			e = s.fault(b, t, dcbor.Error{Rule: dcbor.RecordKind, Offset: record.KindAt(b, at, k)}, "", "5")
			e.Code = CodeUnknownRecordKind
		}
		if len(e.Skipped) == maxSkipped {
			break
		}
		e.Skipped = append(e.Skipped, record.Skipped{ID: record.ID(r.ID()), Kind: r.Kind()})
	}
	return e
}

// value returns where the value of the key is in the checked map b.
func value(b []byte, key uint64) (at int, ok bool) {
	n, i := dcbor.Head(b, 0)
	for ; n > 0 && b[i]&^31 == dcbor.MajorUint; n-- {
		k, at := dcbor.Head(b, i)
		if k == key {
			return at, true
		}
		i = dcbor.Next(b, at)
	}
	return 0, false
}

func (s *settings) fault(b []byte, t Type, e dcbor.Error, missing, section string) *PayloadError {
	p := &PayloadError{Type: t, Code: CodeMalformedPayload, Rule: e.Rule.String(), Offset: e.Offset, Section: section}
	if e.Rule == dcbor.KindMismatch {
		p.Code = CodeKindMismatch
	}
	p.Corr, p.HasCorr = ScanCorr(b)
	p.Path = Shape(t).Path(b, e.Offset)
	if missing != "" && p.Path != "" {
		p.Path += "."
	}
	p.Path += missing
	return p
}
