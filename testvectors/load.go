package testvectors

import (
	"bytes"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed data/payload data/encode data/sealed data/exchange data/schema records
var files embed.FS

// The formats of the files under data, one to a folder.
const (
	payloadFormat  = "npamp-disc-vectors/1"
	encodeFormat   = "npamp-disc-encode/1"
	sealedFormat   = "npamp-sealed-vectors/1"
	exchangeFormat = "npamp-disc-exchanges/1"
)

// A Set is all vectors, in the order of their files' names and then of the
// files.
type Set struct {
	Payloads   []Payload
	Encodings  []Encoding
	Keys       []Key
	Frames     []Frame
	Refused    []Refused
	Plaintexts []Plaintext
	Headers    []Header
	Handles    []Handle
	Exchanges  []Exchange

	Files []File // in the order of their names
}

// A File is one file of vectors.
type File struct {
	Origin
	Vectors int // how many it holds
}

// Load reads all vectors. An error names the file and means that this module
// is broken.
func Load() (*Set, error) {
	s := new(Set)
	names := make(map[string]bool)
	err := fs.WalkDir(files, "data", func(name string, d fs.DirEntry, err error) error {
		folder := path.Base(path.Dir(name))
		if err != nil || d.IsDir() || folder == "schema" {
			return err
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := s.add(strings.TrimPrefix(name, "data/"), b, names); err != nil {
			return fmt.Errorf("testvectors: %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// add adds the vectors of one file, which has its format from its folder.
func (s *Set) add(name string, b []byte, names map[string]bool) error {
	before := len(names)
	var o Origin
	var err error
	switch path.Dir(name) {
	case "payload":
		o, err = s.addPayloads(name, b, names)
	case "encode":
		o, err = s.addEncodings(name, b, names)
	case "sealed":
		o, err = s.addSealed(name, b, names)
	case "exchange":
		o, err = s.addExchanges(name, b, names)
	default:
		err = fmt.Errorf("unknown folder")
	}
	s.Files = append(s.Files, File{o, len(names) - before})
	return err
}

// Payload returns the payload vector of that name.
func (s *Set) Payload(name string) (Payload, bool) {
	i := slices.IndexFunc(s.Payloads, func(v Payload) bool { return v.Name == name })
	if i < 0 {
		return Payload{}, false
	}
	return s.Payloads[i], true
}

// Sample returns a record file of records by its base name, such as
// "demo.json".
func Sample(name string) ([]byte, error) {
	return files.ReadFile(path.Join("records", name))
}

func (s *Set) addPayloads(name string, b []byte, names map[string]bool) (Origin, error) {
	var f struct {
		file
		Vectors []Payload `json:"vectors"`
	}
	o, err := read(name, b, &f, &f.file, payloadFormat)
	for _, v := range f.Vectors {
		v.Origin = o
		s.Payloads = append(s.Payloads, v)
		err = claim(err, names, v.Name)
	}
	return o, err
}

func (s *Set) addEncodings(name string, b []byte, names map[string]bool) (Origin, error) {
	var f struct {
		file
		Vectors []Encoding `json:"vectors"`
	}
	o, err := read(name, b, &f, &f.file, encodeFormat)
	for _, v := range f.Vectors {
		v.Origin = o
		s.Encodings = append(s.Encodings, v)
		err = claim(err, names, v.Name)
	}
	return o, err
}

func (s *Set) addSealed(name string, b []byte, names map[string]bool) (Origin, error) {
	var f struct {
		file
		Master     Hex         `json:"master"`
		Keys       []Key       `json:"keys"`
		Frames     []Frame     `json:"frames"`
		Refused    []Refused   `json:"refused"`
		Plaintexts []Plaintext `json:"plaintexts"`
		Headers    []Header    `json:"headers"`
		Handles    []Handle    `json:"handles"`
	}
	o, err := read(name, b, &f, &f.file, sealedFormat)
	for _, v := range f.Keys {
		v.Master = f.Master
		s.Keys = append(s.Keys, v)
		err = claim(err, names, v.Name)
	}
	for _, v := range f.Frames {
		v.Master = f.Master
		s.Frames = append(s.Frames, v)
		err = claim(err, names, v.Name)
	}
	for _, v := range f.Refused {
		v.Master = f.Master
		s.Refused = append(s.Refused, v)
		err = claim(err, names, v.Name)
	}
	for _, v := range f.Plaintexts {
		err = claim(err, names, v.Name)
	}
	for _, v := range f.Headers {
		err = claim(err, names, v.Name)
	}
	for _, v := range f.Handles {
		err = claim(err, names, v.Name)
	}
	s.Plaintexts = append(s.Plaintexts, f.Plaintexts...)
	s.Headers = append(s.Headers, f.Headers...)
	s.Handles = append(s.Handles, f.Handles...)
	return o, err
}

func (s *Set) addExchanges(name string, b []byte, names map[string]bool) (Origin, error) {
	var f struct {
		file
		Exchanges []Exchange `json:"exchanges"`
	}
	o, err := read(name, b, &f, &f.file, exchangeFormat)
	for _, v := range f.Exchanges {
		v.Origin = o
		s.Exchanges = append(s.Exchanges, v)
		err = claim(err, names, v.Name)
	}
	return o, err
}

// file is what every file of vectors begins with.
type file struct {
	Format string `json:"format"`
	Suite  string `json:"suite"`
	About  string `json:"about"`
	Method Method `json:"method"`
	Source string `json:"source"`
}

// read decodes b into v, of which head is a part, and refuses fields that v
// does not have.
func read(name string, b []byte, v any, head *file, format string) (Origin, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return Origin{}, err
	}
	switch {
	case head.Format != format:
		return Origin{}, fmt.Errorf("format %q, want %q", head.Format, format)
	case head.Suite == "" || head.Source == "":
		return Origin{}, fmt.Errorf("a suite and a source are required")
	case head.Method != MethodHand && head.Method != MethodComputed:
		return Origin{}, fmt.Errorf("method %q is neither %q nor %q", head.Method, MethodHand, MethodComputed)
	}
	return Origin{name, head.Suite, head.Method, head.Source}, nil
}

// claim takes a name. It fails on one that is empty or taken, unless err is an
// error already, which it returns.
func claim(err error, taken map[string]bool, name string) error {
	if err == nil && (name == "" || taken[name]) {
		err = fmt.Errorf("name %q is empty or used twice", name)
	}
	taken[name] = true
	return err
}

// Hex is octets that stand in JSON as a string of lower-case hex.
type Hex []byte

// String returns h in lower-case hex.
func (h Hex) String() string { return hex.EncodeToString(h) }

// MarshalText implements encoding.TextMarshaler.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes lower-case hex
// alone, so that a file has one form.
func (h *Hex) UnmarshalText(b []byte) error {
	out, err := hex.AppendDecode([]byte{}, b)
	if err != nil {
		return err
	}
	if !bytes.Equal(hex.AppendEncode(nil, out), b) {
		return fmt.Errorf("hex is not in lower case")
	}
	*h = out
	return nil
}
