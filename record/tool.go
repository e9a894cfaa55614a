package record

import (
	"fmt"
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of a tool record's body (§5.3).
const (
	keyName         = 0 // text, required
	keyToolProtocol = 1 // uint, 0 to 255, required
	keyEffect       = 2 // uint
	keySchemaRef    = 3 // text
)

// An Effect says what invoking a tool may do (§5.3). It is the peer's claim,
// and no permission.
type Effect uint64

const (
	ReadOnly           Effect = 0
	IdempotentWrite    Effect = 1
	NonIdempotentWrite Effect = 2
	Destructive        Effect = 3
)

// String returns the specification's name, such as "read_only", and
// "effect(9)" for a number without one.
func (e Effect) String() string {
	if e < 4 {
		return [...]string{"read_only", "idempotent_write", "non_idempotent_write", "destructive"}[e]
	}
	return fmt.Sprintf("effect(%d)", uint64(e))
}

// A Tool is a tool record (§5.3).
type Tool struct {
	ID       ID
	Revision uint64
	Label    *string // advisory; nil: absent

	Name       string
	ProtocolID uint64  // 0 to 255; 0 is never usable (REG §4)
	Effect     *Effect // nil: absent, which is never read_only
	SchemaRef  *string // inert: nothing here follows it; nil: absent

	Extra, BodyExtra []Field // unknown keys of the record and of its body
}

// EffectiveEffect returns what to assume of the tool: Destructive where the
// effect is absent or not one of the four [C39].
func (t *Tool) EffectiveEffect() Effect {
	if t.Effect == nil || *t.Effect > Destructive {
		return Destructive
	}
	return *t.Effect
}

// Record builds the record. The error is a *FieldError.
func (t Tool) Record() (Record, error) {
	if t.ProtocolID > MaxProtocolID {
		return Record{}, &FieldError{"protocol_id", "must be 0 to 255"}
	}
	if err := checkText("name", t.Name); err != nil {
		return Record{}, err
	}
	body := map[uint64]any{keyName: t.Name, keyToolProtocol: t.ProtocolID}
	if t.Effect != nil {
		if *t.Effect > Destructive {
			return Record{}, &FieldError{"effect", "must be 0 to 3"}
		}
		body[keyEffect] = uint64(*t.Effect)
	}
	if t.SchemaRef != nil {
		if err := checkText("schema_ref", *t.SchemaRef); err != nil {
			return Record{}, err
		}
		body[keySchemaRef] = *t.SchemaRef
	}
	return build(t.ID, KindTool, t.Revision, t.Label, body, t.Extra, t.BodyExtra)
}

// Tool returns a copy of a tool record's fields, false for another kind.
func (r Record) Tool() (t Tool, ok bool) {
	if r.IsZero() || r.Kind() != KindTool {
		return Tool{}, false
	}
	c := r.cursor()
	t.ID, t.Revision, t.Label = r.ID(), r.Revision(), r.label()
	t.Name = c.str()
	t.ProtocolID = c.uint()
	if c.has(keyEffect) {
		e := Effect(c.value())
		t.Effect = &e
	}
	if c.has(keySchemaRef) {
		s := c.text()
		t.SchemaRef = &s
	}
	t.Extra, t.BodyExtra = r.Extra(), r.BodyExtra()
	return t, true
}

func scanTool(b []byte, i int, m dcbor.Mode) int {
	n, i := dcbor.Map(b, i)
	_, i = dcbor.Text(b, dcbor.Key(b, i, keyName))
	_, i = dcbor.Uint(b, dcbor.Key(b, i, keyToolProtocol), MaxProtocolID)
	n -= 2
	if dcbor.Has(b, i, n, keyEffect) {
		_, i = dcbor.Uint(b, i+1, math.MaxUint64)
		n--
	}
	if dcbor.Has(b, i, n, keySchemaRef) {
		_, i = dcbor.Text(b, i+1)
		n--
	}
	return dcbor.Rest(b, i, n, keySchemaRef, bodyDepth, m)
}
