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
)

//go:embed data records
var files embed.FS

// The formats of the files under data, one to a folder.
const (
	payloadFormat  = "npamp-disc-vectors/1"
	sealedFormat   = "npamp-sealed-vectors/1"
	exchangeFormat = "npamp-disc-exchanges/1"
)

// A Set is all vectors, in the order of their files' names and then of the
// files.
type Set struct {
	Payloads  []Payload
	Keys      []Key
	Frames    []Frame
	Headers   []Header
	Handles   []Handle
	Exchanges []Exchange
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
		switch folder {
		case "payload":
			err = s.addPayloads(b, names)
		case "sealed":
			err = s.addSealed(b, names)
		case "exchange":
			err = s.addExchanges(b, names)
		default:
			err = fmt.Errorf("unknown folder")
		}
		if err != nil {
			return fmt.Errorf("testvectors: %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
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

func (s *Set) addPayloads(b []byte, names map[string]bool) error {
	var f struct {
		file
		Vectors []Payload `json:"vectors"`
	}
	if err := read(b, &f, &f.file, payloadFormat); err != nil {
		return err
	}
	for _, v := range f.Vectors {
		v.Suite, v.Source = f.Suite, f.Source
		s.Payloads = append(s.Payloads, v)
		if err := claim(names, v.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) addSealed(b []byte, names map[string]bool) error {
	var f struct {
		file
		Master  Hex      `json:"master"`
		Keys    []Key    `json:"keys"`
		Frames  []Frame  `json:"frames"`
		Headers []Header `json:"headers"`
		Handles []Handle `json:"handles"`
	}
	if err := read(b, &f, &f.file, sealedFormat); err != nil {
		return err
	}
	var all []string
	for i, v := range f.Keys {
		f.Keys[i].Master = f.Master
		all = append(all, v.Name)
	}
	for i, v := range f.Frames {
		f.Frames[i].Master = f.Master
		all = append(all, v.Name)
	}
	for _, v := range f.Headers {
		all = append(all, v.Name)
	}
	for _, v := range f.Handles {
		all = append(all, v.Name)
	}
	s.Keys = append(s.Keys, f.Keys...)
	s.Frames = append(s.Frames, f.Frames...)
	s.Headers = append(s.Headers, f.Headers...)
	s.Handles = append(s.Handles, f.Handles...)
	return claim(names, all...)
}

func (s *Set) addExchanges(b []byte, names map[string]bool) error {
	var f struct {
		file
		Exchanges []Exchange `json:"exchanges"`
	}
	if err := read(b, &f, &f.file, exchangeFormat); err != nil {
		return err
	}
	for _, v := range f.Exchanges {
		v.Suite, v.Source = f.Suite, f.Source
		s.Exchanges = append(s.Exchanges, v)
		if err := claim(names, v.Name); err != nil {
			return err
		}
	}
	return nil
}

// file is what every file of vectors begins with.
type file struct {
	Format string `json:"format"`
	Suite  string `json:"suite"`
	About  string `json:"about"`
	Source string `json:"source"`
}

// read decodes b into v, of which head is a part, and refuses fields that v
// does not have.
func read(b []byte, v any, head *file, format string) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if head.Format != format {
		return fmt.Errorf("format %q, want %q", head.Format, format)
	}
	if head.Suite == "" || head.Source == "" {
		return fmt.Errorf("a suite and a source are required")
	}
	return nil
}

// claim takes names and fails on one that is empty or taken.
func claim(taken map[string]bool, names ...string) error {
	for _, n := range names {
		if n == "" || taken[n] {
			return fmt.Errorf("name %q is empty or used twice", n)
		}
		taken[n] = true
	}
	return nil
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
