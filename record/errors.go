package record

import (
	"fmt"

	"github.com/npamp/disco/frame/dcbor"
)

// An Error says why octets are not a record.
type Error struct {
	Rule    dcbor.Rule
	Offset  int    // of the octet where the item at fault starts; for a missing key, its map
	Path    string // such as "body.name"; empty for the record itself
	Section string // of NPAMP-DISC, such as "5.3"
}

func (e *Error) Error() string {
	at := e.Path
	if at == "" {
		at = "record"
	}
	return fmt.Sprintf("record: %s: %v at octet %d (§%s)", at, e.Rule, e.Offset, e.Section)
}

// A FieldError says which field of a value being authored cannot be encoded.
type FieldError struct {
	Field  string // by the specification's name, such as "label"
	Reason string
}

func (e *FieldError) Error() string { return "record: " + e.Field + " " + e.Reason }
