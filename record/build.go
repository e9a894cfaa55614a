package record

import (
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/npamp/disco/frame/dcbor"
)

// build encodes a record and parses what comes out, so that there is one gate
// into the type. It holds under generation 3, hence under both.
func build(id ID, kind Kind, revision uint64, label *string, body map[uint64]any, extra, bodyExtra []Field) (Record, error) {
	if len(id) < 1 || len(id) > MaxIDLen {
		return Record{}, &FieldError{"record_id", "must be 1 to 32 octets"}
	}
	rec := map[uint64]any{keyID: []byte(id), keyKind: uint64(kind), keyRevision: revision, keyBody: body}
	if label != nil {
		if err := checkText("label", *label); err != nil {
			return Record{}, err
		}
		rec[keyLabel] = *label
	}
	for _, add := range []struct {
		to    map[uint64]any
		extra []Field
		last  uint64
		depth int
	}{{rec, extra, keyBody, recordDepth + 1}, {body, bodyExtra, shapeOf(kind).Last(), bodyDepth + 1}} {
		for _, f := range add.extra {
			if _, twice := add.to[f.Key]; twice || f.Key <= add.last {
				return Record{}, &FieldError{"extra", "key is defined, or stands twice"}
			}
			if v := []byte(f.Value); dcbor.Done(v, dcbor.Skip(v, 0, add.depth, dcbor.Generation3)) != nil {
				return Record{}, &FieldError{"extra", "value is not one deterministic item without floats and tags"}
			}
			add.to[f.Key] = cbor.RawMessage(f.Value)
		}
	}
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return Record{}, err
	}
	b, err := mode.Marshal(rec)
	if err != nil {
		return Record{}, err
	}
	return Parse(b, dcbor.Generation3)
}

func checkText(field, v string) error {
	if !utf8.ValidString(v) {
		return &FieldError{field, "is not valid UTF-8"}
	}
	return nil
}

func checkTexts(field string, v []string) error {
	for _, s := range v {
		if err := checkText(field, s); err != nil {
			return err
		}
	}
	return nil
}

// A cursor reads the fields of a checked body in the order of their keys.
type cursor struct {
	s string
	i int // of the next key
	n int // pairs left
}

func (r Record) cursor() cursor {
	n, i := dcbor.Head(r.s, bodyAt(r.s))
	return cursor{r.s, i, int(n)}
}

// has steps into the value of the key if that comes next.
func (c *cursor) has(key byte) bool {
	if c.n == 0 || c.s[c.i] != key {
		return false
	}
	c.i++
	c.n--
	return true
}

// uint and str read a required field, nextUints one that is an array.
func (c *cursor) uint() uint64        { c.i++; c.n--; return c.value() }
func (c *cursor) str() string         { c.i++; c.n--; return c.text() }
func (c *cursor) nextUints() []uint64 { c.i++; c.n--; return c.uints() }

func (c *cursor) value() (v uint64) {
	v, c.i = dcbor.Head(c.s, c.i)
	return v
}

func (c *cursor) text() (v string) {
	v, c.i = str(c.s, c.i)
	return v
}

func (c *cursor) uints() []uint64 {
	v := make([]uint64, c.value())
	for k := range v {
		v[k] = c.value()
	}
	return v
}

func texts[T ~string](c *cursor) []T {
	v := make([]T, c.value())
	for k := range v {
		v[k] = T(c.text())
	}
	return v
}

func (r Record) label() *string {
	if v, ok := r.Label(); ok {
		return &v
	}
	return nil
}
