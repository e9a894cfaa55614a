package main

import (
	"errors"
	"slices"
	"strings"
)

// A format is how output is written. It is a flag.
type format string

const (
	formatTable  format = "table"
	formatJSON   format = "json"   // one object a document
	formatNDJSON format = "ndjson" // one object a line
	formatDiag   format = "diag"   // CBOR diagnostic notation
	formatHex    format = "hex"
)

func (f format) String() string { return string(f) }

// Type implements pflag.Value.
func (f format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	all := []string{string(formatTable), string(formatJSON), string(formatNDJSON), string(formatDiag), string(formatHex)}
	if !slices.Contains(all, s) {
		return errors.New("must be one of " + strings.Join(all, ", "))
	}
	*f = format(s)
	return nil
}

// json reports whether output is objects.
func (f format) json() bool { return f == formatJSON || f == formatNDJSON }
