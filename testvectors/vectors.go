package testvectors

import "encoding/json"

// A Payload is one Discovery payload and what a receiver makes of it.
type Payload struct {
	Name      string    `json:"name"`      // unique over all vectors
	Title     string    `json:"title"`     // what it is, in a few words
	Section   string    `json:"section"`   // of NPAMP-DISC
	Rows      []string  `json:"rows"`      // requirement rows it is evidence for
	Direction Direction `json:"direction"` // who receives it
	FrameType uint16    `json:"frame_type"`

	// Generations are the crypto generations in which the expectation holds.
	Generations []int `json:"generations"`

	// Tolerant says how the RESULT is read: as the answer to a tolerant query
	// (§6.3) or not. Nil, which is all other vectors, means that it makes no
	// difference; read it as false.
	Tolerant *bool `json:"tolerant,omitempty"`

	Octets  Hex    `json:"octets"` // the payload; in a file a string of lower-case hex
	Expect  Expect `json:"expect"`
	Comment string `json:"comment,omitempty"`

	Suite  string `json:"-"` // of the file
	Source string `json:"-"` // where the octets of that file come from
}

// A Direction says which role receives a payload.
type Direction string

// The two directions. Either end of an association takes either role.
const (
	ToResponder Direction = "to_responder" // QUERY, SUBSCRIBE, UNSUBSCRIBE
	ToRequester Direction = "to_requester" // RESULT, ERROR, ANNOUNCE, UPDATE
)

// Expect is the verdict on a payload. The field OK decides which of the others
// are there.
type Expect struct {
	OK bool `json:"ok"`

	// Of an accepted payload: its meaning, as the JSON form of README.md, and
	// the records that a receiver skips because it does not know their kind.
	Message json.RawMessage `json:"message,omitempty"`
	Skipped json.RawMessage `json:"skipped,omitempty"`

	// Of a refused one: the §9 code of the fault, also where nothing is sent;
	// what the receiver sends (ReplyError and so on); the corr that can be read,
	// nil where none can.
	Code  uint64  `json:"code,omitempty"`
	Reply string  `json:"reply,omitempty"`
	Corr  *string `json:"corr,omitempty"` // hex

	// Where they are fixed: the name of the rule broken, the octet at which the
	// item at fault starts (for a missing key that of its map), and the path of
	// that item. A receiver need not report them.
	Rule   string  `json:"rule,omitempty"`
	Offset *int    `json:"offset,omitempty"`
	Path   *string `json:"path,omitempty"`
}

// MarshalJSON writes the form of the files: corr is there, null perhaps, in a
// refusal alone.
func (e Expect) MarshalJSON() ([]byte, error) {
	type plain Expect
	if e.OK {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct {
		plain
		Corr *string `json:"corr"`
	}{plain(e), e.Corr})
}

// What a receiver sends for a payload that it refuses.
const (
	ReplyError        = "error"        // DISCO_ERROR with the code, echoing the corr
	ReplyUncorrelated = "uncorrelated" // DISCO_ERROR with the code and no corr, at most one a second
	ReplyNone         = "none"         // nothing: the frame type takes no reply
)

// A Key is what the key schedule gives for one channel and direction.
type Key struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Section   string   `json:"section"`
	Rows      []string `json:"rows"`
	Direction int      `json:"direction"` // 0 client to server, 1 server to client
	Channel   uint16   `json:"channel"`
	Epoch     uint64   `json:"epoch"`
	Suite     uint16   `json:"suite"` // AEAD code point
	Key       Hex      `json:"key"`   // 32 octets
	IV        Hex      `json:"iv"`    // 12 octets

	Master Hex `json:"-"` // the application master secret of the file
}

// A Frame is one sealed frame: header, ciphertext, tag.
type Frame struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Section     string   `json:"section"`
	Rows        []string `json:"rows"`
	Generations []int    `json:"generations"`
	Direction   int      `json:"direction"` // 0 client to server, 1 server to client
	Channel     uint16   `json:"channel"`
	Epoch       uint64   `json:"epoch"`
	Seq         uint64   `json:"seq"`
	Suite       uint16   `json:"suite"`
	Flags       uint8    `json:"flags"`
	FrameType   uint16   `json:"frame_type"`
	Plaintext   Hex      `json:"plaintext"`
	Frame       Hex      `json:"frame"`

	Master Hex `json:"-"`
}

// A Header is one frame header without a payload.
type Header struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Section    string   `json:"section"`
	Rows       []string `json:"rows"`
	Frame      Hex      `json:"frame"` // 36 octets
	Flags      uint8    `json:"flags"`
	FrameType  uint16   `json:"frame_type"`
	Channel    uint16   `json:"channel"`
	Seq        uint64   `json:"seq"`
	PayloadLen uint32   `json:"payload_len"` // octets after the header
}

// A Handle is the PeerHandle of a public key.
type Handle struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Section   string   `json:"section"`
	Rows      []string `json:"rows"`
	Algorithm string   `json:"algorithm"`
	PublicKey Hex      `json:"public_key"`
	Handle    string   `json:"handle"`
}

// An Exchange is a conversation on one association, in order.
type Exchange struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Section string   `json:"section"`
	Rows    []string `json:"rows"`
	Comment string   `json:"comment,omitempty"`
	Steps   []Step   `json:"steps"`

	Suite  string `json:"-"`
	Source string `json:"-"`
}

// A Step is one of three things: what the responder advertises at the start
// (Set), a change that it makes to that (Change), or a frame (From is not "").
type Step struct {
	Set       []Hex  `json:"set,omitempty"`       // records, encoded
	Condition string `json:"condition,omitempty"` // what else holds of the responder; see README.md

	Change *Change `json:"change,omitempty"`

	From      string `json:"from,omitempty"` // "requester" or "responder"
	FrameType uint16 `json:"frame_type,omitempty"`
	Payload   Hex    `json:"payload,omitempty"`

	Comment string `json:"comment,omitempty"`
}

// A Change is made to the advertised set in one step.
type Change struct {
	Put      []Hex `json:"put,omitempty"`      // records, encoded
	Withdraw []Hex `json:"withdraw,omitempty"` // record_ids
}
