package bridge

// CheckLabel is the sender's check before an invocation (NPAMP-BRIDGE §7,
// NPAMP-DISC §5.3): a request that can mutate carries a label, whatever effect a
// Discovery record states. The error is ErrLabelRequired. Whether a call mutates
// is the foreign protocol's knowledge; of a tool whose record has no effect, or
// one that is not defined, it has to be assumed.
func CheckLabel(m *Message, mutating bool) error {
	if m.Type == TypeRequest && mutating && m.Label == nil {
		return ErrLabelRequired
	}
	return nil
}

// EffectiveEffect returns the effect a receiver has to reckon with. An undefined
// effect is destructive. Of a call that the receiver knows, or cannot exclude, to
// mutate, a missing label is destructive (§7: never read_only), and so is one
// that says read_only.
func EffectiveEffect(m *Message, mutating bool) Effect {
	switch {
	case m.Label == nil && !mutating:
		return EffectReadOnly
	case m.Label == nil, m.Label.Effect > EffectDestructive, mutating && m.Label.Effect == EffectReadOnly:
		return EffectDestructive
	}
	return m.Label.Effect
}

// Authorize is the receiver's check of every invocation, made whether or not it
// ever advertised the tool to this peer (NPAMP-DISC §10: a record is no
// permission). allow is the policy for this peer and this call; nil allows
// nothing. The error is an *Error with CodeSafetyPolicy.
func Authorize(m *Message, mutating bool, allow func(Effect) bool) error {
	effect := EffectiveEffect(m, mutating)
	if allow == nil || !allow(effect) {
		return &Error{CodeSafetyPolicy, "refused by local policy as " + effect.String()}
	}
	return nil
}

// CheckCarried reports a protocol that this peer does not carry (NPAMP-REG §9):
// an *Error with CodeProtocolUnsupported. A request gets that answer and is not
// processed; a notification is dropped. carries decides by protocol_id alone, not
// by content type or method; nil carries nothing. Experimental and private values
// are carried only by agreement, so carries has to know it.
func CheckCarried(m *Message, carries func(ProtocolID) bool) error {
	if carries == nil || !carries(m.Protocol) {
		return &Error{CodeProtocolUnsupported, "protocol_id is not carried here"}
	}
	return nil
}
