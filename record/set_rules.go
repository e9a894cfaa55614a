package record

import "github.com/npamp/disco/frame/dcbor"

// check reports what keeps the record from being advertised, whatever else is
// in the set.
//
// NPAMP-DISC asks of a protocol record that the protocol can be carried
// (§5.1). A tool or an agent that names a protocol_id promises the same of it,
// and REG §4 and §7 speak of the identifier wherever it is sent; so all three
// are held to it, an agent for each of its protocols.
func (s *Set) check(r Record, fail func(err error, detail string, args ...any) error) error {
	for id := range r.ProtocolIDs() {
		if !s.assigned(id) {
			return fail(ErrProtocolID, "protocol_id %d", id)
		}
		if !s.cfg.carries(id) {
			return fail(ErrNotCarried, "protocol_id %d", id)
		}
	}
	switch r.Kind() {
	case KindProtocol:
		p, _ := r.Protocol()
		if !s.cfg.classAllowed(p.ProtocolID, p.CarriageClass) {
			return fail(ErrClass, "protocol_id %d as %v", p.ProtocolID, p.CarriageClass)
		}
	case KindCarriageClass:
		if c, _ := r.Carriage(); c.CarriageClass == 0 {
			return fail(ErrClass, "0 is reserved")
		}
	case KindTool:
		if t, _ := r.Tool(); t.Effect != nil && *t.Effect > Destructive {
			return fail(ErrEffect, "effect %d", *t.Effect)
		}
	}
	if !r.Allows(dcbor.Generation3) { // the set serves both generations
		return fail(ErrEncoding, "")
	}
	if r.Len() > s.cfg.MaxRecordLen {
		return fail(ErrRecordLen, "%d octets, MaxRecordLen is %d", r.Len(), s.cfg.MaxRecordLen)
	}
	return nil
}

// assigned reports whether the protocol_id may leave this end at all: the
// registry lists it, or the peers have agreed to it (REG §4, §7, §8).
func (s *Set) assigned(id uint64) bool {
	switch RangeOf(id) {
	case RangeStandard:
		return len(s.cfg.Classes[id]) > 0
	case RangeExperimental, RangePrivate:
		return s.agreed[id]
	}
	return false
}

// classAllowed reports whether the registry does not contradict the class. It
// has no class for an experimental or private protocol_id.
func (c *SetConfig) classAllowed(id uint64, class CarriageClass) bool {
	if class == 0 {
		return false
	}
	return RangeOf(id) != RangeStandard || c.Classes.Allows(id, class) || c.AllowOpaque && class == ClassOpaque
}

// carries asks the hook. It fails closed.
func (c *SetConfig) carries(id uint64) (ok bool) {
	if c.Carries == nil {
		return false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return c.Carries(id)
}
