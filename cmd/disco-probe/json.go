package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// An object is a JSON object whose fields stay in the order they were given.
type object []field

type field struct {
	key string
	val any
}

// versioned starts a document or a line of output.
func versioned(fields ...field) object { return append(object{{"v", 1}}, fields...) }

// octets are shown as lower-case hex.
type octets string

// maxSafe is the greatest integer that every JSON reader keeps exact.
const maxSafe = 1 << 53

// appendJSON appends v, which is made of the types below and nothing else.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case uint64:
		if v > maxSafe {
			return append(strconv.AppendUint(append(b, '"'), v, 10), '"')
		}
		return strconv.AppendUint(b, v, 10)
	case string:
		return appendString(b, v)
	case octets:
		return append(hex.AppendEncode(append(b, '"'), []byte(v)), '"')
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.key), ':')
			b = appendJSON(b, f.val)
		}
		return append(b, '}')
	case []object:
		return appendArray(b, v)
	case []string:
		return appendArray(b, v)
	case []octets:
		return appendArray(b, v)
	case []uint64:
		return appendArray(b, v)
	case json.RawMessage:
		return appendRaw(b, v)
	}
	panic(fmt.Sprintf("BUG: no JSON form for %T", v))
}

func appendArray[T any](b []byte, v []T) []byte {
	b = append(b, '[')
	for i, e := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, e)
	}
	return append(b, ']')
}

// appendString appends s as a JSON string of its true value, with what is
// invisible as \u escapes.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s { // an octet that is not UTF-8 is U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case invisible(r):
			b = appendEscape(b, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

// appendRaw appends valid JSON, escaping what is invisible: outside strings
// there is nothing such but white space, of which compact JSON has none.
func appendRaw(b, raw []byte) []byte {
	for _, r := range string(raw) {
		if invisible(r) {
			b = appendEscape(b, r)
		} else {
			b = append(b, string(r)...)
		}
	}
	return b
}

func appendEscape(b []byte, r rune) []byte {
	if r > 0xffff {
		hi, lo := utf16.EncodeRune(r)
		return fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
