package record

import (
	"math"

	"github.com/npamp/disco/frame/dcbor"
)

// Keys of an agent record's body (§5.4).
const (
	keyAgentID   = 0 // bytes, 1 to 64 octets, required
	keyProtocols = 1 // array of uint, at least one, required
	keyTools     = 2 // array of bytes, each 1 to 32 octets
)

// An Agent is an agent record (§5.4).
type Agent struct {
	ID       ID
	Revision uint64
	Label    *string // advisory; nil: absent

	AgentID   string   // 1 to 64 opaque octets
	Protocols []uint64 // at least one; a number above 255 matches nothing [C27]
	Tools     []ID     // record_ids of tool records; nil: absent

	Extra, BodyExtra []Field // unknown keys of the record and of its body
}

// Record builds the record. The error is a *FieldError.
func (a Agent) Record() (Record, error) {
	if n := len(a.AgentID); n < 1 || n > MaxAgentIDLen {
		return Record{}, &FieldError{"agent_id", "must be 1 to 64 octets"}
	}
	if len(a.Protocols) == 0 {
		return Record{}, &FieldError{"protocols", "must have an entry"}
	}
	body := map[uint64]any{keyAgentID: []byte(a.AgentID), keyProtocols: a.Protocols}
	if a.Tools != nil {
		tools := make([][]byte, len(a.Tools))
		for i, id := range a.Tools {
			if len(id) < 1 || len(id) > MaxIDLen {
				return Record{}, &FieldError{"tools", "each must be 1 to 32 octets"}
			}
			tools[i] = []byte(id)
		}
		body[keyTools] = tools
	}
	return build(a.ID, KindAgent, a.Revision, a.Label, body, a.Extra, a.BodyExtra)
}

// Agent returns a copy of an agent record's fields, false for another kind.
func (r Record) Agent() (a Agent, ok bool) {
	if r.IsZero() || r.Kind() != KindAgent {
		return Agent{}, false
	}
	c := r.cursor()
	a.ID, a.Revision, a.Label = r.ID(), r.Revision(), r.label()
	a.AgentID = c.str()
	a.Protocols = c.nextUints()
	if c.has(keyTools) {
		a.Tools = texts[ID](&c)
	}
	a.Extra, a.BodyExtra = r.Extra(), r.BodyExtra()
	return a, true
}

func scanAgent(b []byte, i int, m dcbor.Mode) int {
	n, i := dcbor.Map(b, i)
	_, i = dcbor.Bytes(b, dcbor.Key(b, i, keyAgentID), 1, MaxAgentIDLen)
	protocols := dcbor.Key(b, i, keyProtocols)
	if i = scanUints(b, protocols, math.MaxUint64); i == protocols+1 {
		return dcbor.Fail(protocols, dcbor.Empty)
	}
	n -= 2
	if dcbor.Has(b, i, n, keyTools) {
		_, i = scanIDs(b, i+1)
		n--
	}
	return dcbor.Rest(b, i, n, keyTools, bodyDepth, m)
}
