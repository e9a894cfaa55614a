package record

import (
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	"github.com/npamp/disco/frame/dcbor"
)

// An ID is a record_id, 1 to 32 opaque octets, compared octet for octet (§5).
// Its String is hex.
type ID string

func (id ID) String() string { return hex.EncodeToString([]byte(id)) }

// Bounds that the specification prints, in octets.
const (
	MaxIDLen      = 32 // record_id, and a reference to one (§5, §5.4, §7.2)
	MaxAgentIDLen = 64 // agent_id (§5.4)
)

// A Kind is a record kind (§5).
type Kind uint64

const (
	KindProtocol      Kind = 1 // §5.1
	KindCarriageClass Kind = 2 // §5.2
	KindTool          Kind = 3 // §5.3
	KindAgent         Kind = 4 // §5.4
)

// Known reports whether the specification defines the kind.
func (k Kind) Known() bool { return k-1 < 4 }

// String returns the specification's name, such as "carriage_class", and
// "kind(9)" for a kind without one.
func (k Kind) String() string {
	switch k {
	case KindProtocol:
		return "protocol"
	case KindCarriageClass:
		return "carriage_class"
	case KindTool:
		return "tool"
	case KindAgent:
		return "agent"
	}
	return fmt.Sprintf("kind(%d)", uint64(k))
}

// A Record is a Discovery Record (§5): an immutable value around its own
// canonical octets, which were checked when it was made. Records are equal when
// their octets are. The zero Record is no record; of the methods below it has
// only IsZero, Len, Octets and AppendTo.
//
// A record that was cut out of a received payload shares one string with the
// others that came in it; Clone gives it memory of its own.
type Record struct{ s string }

// Skipped names a record that was left out because its kind is unknown
// [C9].
type Skipped struct {
	ID   ID
	Kind Kind
}

// Parse returns the record that b holds and nothing else. It copies b.
// The error is a *Error. A record of an unknown kind is one too, with
// dcbor.RecordKind as its rule.
func Parse(b []byte, m dcbor.Mode) (Record, error) {
	i, known := scan(b, 0, m)
	if i != len(b) || !known {
		return Record{}, diagnose(b, m)
	}
	return Record{string(b)}, nil
}

// IsZero reports whether r is the zero Record, which is no record.
func (r Record) IsZero() bool { return r.s == "" }

// Octets returns the record's canonical encoding.
func (r Record) Octets() string { return r.s }

// Len returns the number of octets of its encoding.
func (r Record) Len() int { return len(r.s) }

// AppendTo appends the record's encoding.
func (r Record) AppendTo(b []byte) []byte { return append(b, r.s...) }

// Clone returns the same record in memory of its own.
func (r Record) Clone() Record { return Record{strings.Clone(r.s)} }

// Allows reports whether the record may be sent under the mode: unknown keys
// that hold a float or a tag may not in generation 3 [C12].
func (r Record) Allows(m dcbor.Mode) bool {
	return m != dcbor.Generation3 || dcbor.Skip([]byte(r.s), 0, recordDepth, m) >= 0
}

// ID returns the record_id.
func (r Record) ID() ID {
	v, _ := str(r.s, idAt(r.s))
	return ID(v)
}

// Kind returns the kind, one of the four that are known.
func (r Record) Kind() Kind {
	v, _ := dcbor.Head(r.s, kindAt(r.s))
	return Kind(v)
}

// Revision returns the revision.
func (r Record) Revision() uint64 {
	v, _ := dcbor.Head(r.s, revisionAt(r.s))
	return v
}

// Label returns the label, if there is one. It is advisory, the peer's text:
// it names nothing, and is to be escaped where it is shown.
func (r Record) Label() (label string, ok bool) {
	_, i := dcbor.Head(r.s, revisionAt(r.s))
	if r.s[i] != keyLabel {
		return "", false
	}
	label, _ = str(r.s, i+1)
	return label, true
}

// Name returns what a name_prefix is compared with (§6.1): a tool's name, or an
// agent's agent_id, raw. Other kinds have none.
func (r Record) Name() (name string, ok bool) {
	if k := r.Kind(); k != KindTool && k != KindAgent {
		return "", false
	}
	_, i := dcbor.Head(r.s, bodyAt(r.s))
	name, _ = str(r.s, i+1)
	return name, true
}

// ProtocolIDs yields the protocol_ids that the record names: one of a protocol
// or a tool, an agent's in its own order, none of a carriage class.
func (r Record) ProtocolIDs() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		n, i := protocolIDsAt(r.s)
		for v := uint64(0); n > 0; n-- {
			if v, i = dcbor.Head(r.s, i); !yield(v) {
				return
			}
		}
	}
}

// WithRevision returns the same record at another revision.
func (r Record) WithRevision(revision uint64) Record {
	at := revisionAt(r.s)
	old, end := dcbor.Head(r.s, at)
	if old == revision {
		return r
	}
	b := make([]byte, 0, len(r.s)+9)
	b = append(b, r.s[:at]...)
	b = dcbor.AppendUint(b, revision)
	return Record{string(append(b, r.s[end:]...))}
}

// SameContents reports whether the records differ in their revision at most,
// octet for octet.
func (r Record) SameContents(o Record) bool {
	if r.IsZero() || o.IsZero() {
		return r == o
	}
	a, b := revisionAt(r.s), revisionAt(o.s)
	_, enda := dcbor.Head(r.s, a)
	_, endb := dcbor.Head(o.s, b)
	return r.s[:a] == o.s[:b] && r.s[enda:] == o.s[endb:]
}

// A Field is a key that the specification does not define, and its value's
// encoding.
type Field struct {
	Key   uint64
	Value string
}

// Extra returns the unknown keys of the record itself, ascending; nil if there
// are none.
func (r Record) Extra() []Field {
	end := dcbor.Next(r.s, bodyAt(r.s))
	n, i := dcbor.Head(r.s, 0)
	return fields(r.s, i, int(n), end)
}

// BodyExtra returns the unknown keys of the record's body, ascending; nil if
// there are none.
func (r Record) BodyExtra() []Field {
	at := bodyAt(r.s)
	n, i := dcbor.Head(r.s, at)
	return fields(r.s, i, int(n), walkBody(r.s, at, r.Kind()))
}

// fields returns those of a map's n pairs, the first at s[i], that start at
// s[from] or later.
func fields(s string, i, n, from int) (v []Field) {
	for ; n > 0; n-- {
		key, at := dcbor.Head(s, i)
		next := dcbor.Next(s, at)
		if i >= from {
			v = append(v, Field{key, s[at:next]})
		}
		i = next
	}
	return v
}

// The record's first three fields are required and have the smallest keys, so
// each stands right after the one before and its own one-octet key.

type octets interface{ ~string | ~[]byte }

func idAt[S octets](s S) int {
	_, i := dcbor.Head(s, 0)
	return i + 1
}

func kindAt[S octets](s S) int {
	_, i := str(s, idAt(s))
	return i + 1
}

func revisionAt[S octets](s S) int {
	_, i := dcbor.Head(s, kindAt(s))
	return i + 1
}

func bodyAt[S octets](s S) int {
	_, i := dcbor.Head(s, revisionAt(s))
	if s[i] == keyLabel {
		_, i = str(s, i+1)
	}
	return i + 1
}

// protocolIDsAt returns how many protocol_ids the record names, and the index
// of the first.
func protocolIDsAt[S octets](s S) (n uint64, i int) {
	kind, _ := dcbor.Head(s, kindAt(s))
	_, i = dcbor.Head(s, bodyAt(s))
	i++
	switch Kind(kind) {
	case KindProtocol:
		return 1, i
	case KindTool:
		_, i = str(s, i)
		return 1, i + 1
	case KindAgent:
		_, i = str(s, i)
		return dcbor.Head(s, i+1)
	}
	return 0, i
}

// str returns the contents of the string at s[i] and the index after it.
func str[S octets](s S, i int) (v S, next int) {
	n, i := dcbor.Head(s, i)
	return s[i : i+int(n)], i + int(n)
}
