package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkJSON refuses what encoding/json lets pass in silence: text that is not
// UTF-8, a key that stands twice in an object, and a second document.
func checkJSON(b []byte) error {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("not UTF-8 at octet %d", i)
		}
		i += size
	}
	if !json.Valid(b) { // which also bounds the nesting
		var v json.RawMessage
		return json.Unmarshal(b, &v)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	return checkKeys(d)
}

// checkKeys reads one value, which is valid JSON.
func checkKeys(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return err
			}
			key := t.(string)
			if seen[key] {
				return fmt.Errorf("key %q stands twice in one object, at octet %d", key, d.InputOffset())
			}
			seen[key] = true
		}
		if err := checkKeys(d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// A fieldError says which field of an input is wrong, by its path.
type fieldError struct{ field, reason string }

func (e *fieldError) Error() string {
	if e.field == "" {
		return e.reason
	}
	return e.field + " " + e.reason
}

// fields are those of a JSON object, taken one by one. The first fault sticks
// and is returned by done.
type fields struct {
	at  string // path of the object, ending in "." unless it is the outermost
	raw map[string]json.RawMessage
	err error
}

func parseFields(at string, raw json.RawMessage) *fields {
	f := &fields{at: at}
	if !startsWith(raw, '{') {
		f.err = &fieldError{strings.TrimSuffix(at, "."), "must be an object"}
		return f
	}
	f.err = json.Unmarshal(raw, &f.raw)
	return f
}

func startsWith(raw json.RawMessage, c byte) bool { return len(raw) > 0 && raw[0] == c }

func (f *fields) fail(key, reason string) {
	if f.err == nil {
		f.err = &fieldError{f.at + key, reason}
	}
}

// take returns the field and that it is there.
func (f *fields) take(key string) (json.RawMessage, bool) {
	raw, ok := f.raw[key]
	delete(f.raw, key)
	return raw, ok && f.err == nil
}

func (f *fields) require(key string) json.RawMessage {
	raw, ok := f.take(key)
	if !ok {
		f.fail(key, "is required")
	}
	return raw
}

// done returns the first fault; a field that nobody took is one.
func (f *fields) done() error {
	if f.err == nil && len(f.raw) > 0 {
		keys := make([]string, 0, len(f.raw))
		for k := range f.raw {
			keys = append(keys, k)
		}
		f.fail(slices.Min(keys), "is not a field of this object")
	}
	return f.err
}

// text returns a text field, nil if it is absent.
func (f *fields) text(key string) *string {
	raw, ok := f.take(key)
	if !ok {
		return nil
	}
	s, err := parseText(raw)
	if err != nil {
		f.fail(key, err.Error())
	}
	return &s
}

// octets returns a required field of octets: hex, or "text:" and the text.
func (f *fields) octets(key string) string {
	raw := f.require(key)
	if f.err != nil {
		return ""
	}
	s, err := parseOctets(raw)
	if err != nil {
		f.fail(key, err.Error())
	}
	return s
}

// number returns a field that is a number or, by one of names, stands for one;
// nil if it is absent.
func (f *fields) number(key string, names map[string]uint64) *uint64 {
	raw, ok := f.take(key)
	if !ok {
		return nil
	}
	n, err := parseNumber(raw, names)
	if err != nil {
		f.fail(key, err.Error())
	}
	return &n
}

// required is number for a field that must be there.
func (f *fields) required(key string, names map[string]uint64) uint64 {
	if _, ok := f.raw[key]; !ok {
		f.fail(key, "is required")
	}
	if n := f.number(key, names); n != nil {
		return *n
	}
	return 0
}

// list returns the entries of an array field read by parse: nil if it is
// absent, not nil if it is empty.
func list[T any](f *fields, key string, parse func(json.RawMessage) (T, error)) []T {
	raw, ok := f.take(key)
	if !ok {
		return nil
	}
	var entries []json.RawMessage
	if !startsWith(raw, '[') || json.Unmarshal(raw, &entries) != nil {
		f.fail(key, "must be an array")
		return nil
	}
	out := make([]T, len(entries))
	for i, e := range entries {
		v, err := parse(e)
		if err != nil {
			f.fail(fmt.Sprintf("%s[%d]", key, i), err.Error())
			return nil
		}
		out[i] = v
	}
	return out
}

func parseText(raw json.RawMessage) (s string, err error) {
	if !startsWith(raw, '"') {
		return "", errors.New("must be text")
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

func parseBool(raw json.RawMessage) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// parseOctets reads octets written in hex, or as "text:" and their text.
func parseOctets(raw json.RawMessage) (string, error) {
	s, err := parseText(raw)
	if err != nil {
		return "", errors.New(`must be octets in hex, or "text:" and a text`)
	}
	if t, ok := strings.CutPrefix(s, "text:"); ok {
		return t, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return "", errors.New(`must be octets in hex, or "text:" and a text`)
	}
	return string(b), nil
}

// parseNumber reads an unsigned integer, as a number or in decimal as text, or
// one of names.
func parseNumber(raw json.RawMessage, names map[string]uint64) (uint64, error) {
	s := string(raw)
	if startsWith(raw, '"') {
		s, _ = parseText(raw)
		if n, ok := names[s]; ok {
			return n, nil
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && names != nil {
		return 0, fmt.Errorf("must be a number or one of %s", strings.Join(sortedKeys(names), ", "))
	}
	if err != nil {
		return 0, errors.New("must be an integer from 0 to 2^64-1")
	}
	return n, nil
}

func parseUint(raw json.RawMessage) (uint64, error) { return parseNumber(raw, nil) }

// sortedKeys returns the names in the order of their numbers.
func sortedKeys(names map[string]uint64) []string {
	keys := make([]string, 0, len(names))
	for k := range names {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return int(names[a]) - int(names[b]) })
	return keys
}
