package testvectors

import (
	"encoding/json"
	"strconv"
)

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

	Octets Hex    `json:"octets"` // the payload; in a file a string of lower-case hex
	Expect Expect `json:"expect"`

	// Canonical says that a sender who means the message sends these octets and
	// no others: encoding the message gives them.
	Canonical bool `json:"canonical,omitempty"`

	Comment string `json:"comment,omitempty"`

	Origin `json:"-"`
}

// Origin is what a file says of all its vectors.
type Origin struct {
	File   string // its path under data, such as "payload/accepted.json"
	Suite  string
	Method Method // how the octets were made
	Source string // the same in words, and what they were checked with
}

// A Method is how the octets of a file were made. None is an encoder of this
// module.
type Method string

// The methods.
const (
	MethodHand     Method = "hand"     // composed octet by octet
	MethodComputed Method = "computed" // cryptography, by implementations that are not ours
)

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

// An Encoding is a message, in the JSON form of README.md, and what a sender
// makes of it.
type Encoding struct {
	Name    string          `json:"name"`
	Title   string          `json:"title"`
	Section string          `json:"section"`
	Rows    []string        `json:"rows"`
	Message json.RawMessage `json:"message"`

	Expect struct {
		OK     bool   `json:"ok"`
		Octets Hex    `json:"octets,omitempty"` // what is sent
		Path   string `json:"path,omitempty"`   // what keeps it from being sent; need not be reported
	} `json:"expect"`

	Comment string `json:"comment,omitempty"`

	Origin `json:"-"`
}

// A Number is an unsigned integer that stands in JSON as a number and, above
// 2^53, as a decimal string.
type Number uint64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	b := strconv.AppendUint(nil, uint64(n), 10)
	if n > 1<<53 {
		b = append(append([]byte{'"'}, b...), '"')
	}
	return b, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	v, err := strconv.ParseUint(string(b), 10, 64)
	*n = Number(v)
	return err
}

// A Key is what the key schedule gives for one channel and direction.
type Key struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Section   string   `json:"section"`
	Rows      []string `json:"rows"`
	Direction int      `json:"direction"` // 0 client to server, 1 server to client
	Channel   uint16   `json:"channel"`
	Epoch     Number   `json:"epoch"`
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
	Epoch       Number   `json:"epoch"`
	Seq         Number   `json:"seq"`
	Suite       uint16   `json:"suite"`
	Flags       uint8    `json:"flags"`
	FrameType   uint16   `json:"frame_type"`
	Plaintext   Hex      `json:"plaintext"`
	Frame       Hex      `json:"frame"`
	Comment     string   `json:"comment,omitempty"`

	Master Hex `json:"-"`
}

// A Refused is a frame that a receiver does not take.
type Refused struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Section     string   `json:"section"`
	Rows        []string `json:"rows"`
	Generations []int    `json:"generations"`

	// Where the receiver stands: the key that it opens the frame with, and the
	// sequence number that it expects next.
	Direction int    `json:"direction"`
	Channel   uint16 `json:"channel"`
	Epoch     Number `json:"epoch"`
	Seq       Number `json:"seq"`
	Suite     uint16 `json:"suite"`

	Frame    Hex    `json:"frame"`
	Fault    string `json:"fault"`    // what is wrong: a Fault constant
	Reaction string `json:"reaction"` // what the receiver does: a Reaction constant
	Comment  string `json:"comment,omitempty"`

	Master Hex `json:"-"`
}

// What can be wrong with a frame, in the order of the checks, and with what
// stands before a payload.
const (
	FaultChecksum = "crc"
	FaultMagic    = "magic"
	FaultVersion  = "version"
	FaultReserved = "reserved" // an octet behind the checksum
	FaultFlags    = "flags"    // a reserved flag
	FaultCap      = "cap"      // longer than 16 MiB
	FaultEnc      = "enc"      // ENC is clear
	FaultSequence = "sequence" // another number than the next
	FaultTag      = "tag"      // the AEAD does not open it

	FaultTruncated = "truncated" // a TLV that is cut short
	FaultCritical  = "critical"  // an unknown TLV that must not be ignored
	FaultBridge    = "bridge"    // foreign traffic
)

// What a receiver does about it.
const (
	ReactionClose     = "close"     // ends the association
	ReactionDrop      = "drop"      // drops the frame and counts it
	ReactionMalformed = "malformed" // treats it as a payload that cannot be decoded
	ReactionFatal5    = "fatal 5"   // sends the core's ERROR 5 and ends the association
)

// A Plaintext is what a frame of the Discovery channel opens to: extension TLVs,
// perhaps, and then the payload.
type Plaintext struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Section     string   `json:"section"`
	Rows        []string `json:"rows"`
	Generations []int    `json:"generations"`
	Plaintext   Hex      `json:"plaintext"`
	Payload     Hex      `json:"payload,omitzero"` // nil where Fault is not ""
	Fault       string   `json:"fault,omitempty"`
	Reaction    string   `json:"reaction,omitempty"`
	Comment     string   `json:"comment,omitempty"`
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
	Seq        Number   `json:"seq"`
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

	Origin `json:"-"`
}

// The two ends of an exchange, by the role that each has first.
const (
	Requester = "requester"
	Responder = "responder"
)

// A Step is one of four things: what an end advertises at the start (Set), a
// change that it makes to that (Change), a frame (From is not ""), or silence
// (Silence is not "").
type Step struct {
	// At is the end that advertises or changes; "" is the responder.
	At        string `json:"at,omitempty"`
	Set       []Hex  `json:"set,omitzero"`        // records, encoded; empty, not nil, for an empty set
	Condition string `json:"condition,omitempty"` // what else holds of the end; see README.md

	Change *Change `json:"change,omitempty"`

	From      string `json:"from,omitempty"` // Requester or Responder
	FrameType uint16 `json:"frame_type,omitempty"`
	Payload   Hex    `json:"payload,omitempty"`
	Varies    []Item `json:"varies,omitempty"` // octets that another run has otherwise
	Fault     uint64 `json:"fault,omitempty"`  // the §9 code with which its receiver refuses the payload

	Silence string `json:"silence,omitempty"` // the end that sends nothing until the next step

	Meaning string `json:"meaning,omitempty"` // of all but a set
}

// A Change is made to the advertised set in one step.
type Change struct {
	Put      []Hex `json:"put,omitempty"`      // records, encoded
	Withdraw []Hex `json:"withdraw,omitempty"` // record_ids
}

// An Item is an octet string in a payload, head included, whose value its sender
// chose: a corr or a cursor. Items of one name have one value throughout an
// exchange.
type Item struct {
	Name   string `json:"name"`
	Item   string `json:"item"` // "corr" or "cursor"
	Offset int    `json:"offset"`
	Length int    `json:"length"` // octets, with the head
}
