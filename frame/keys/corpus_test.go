package keys

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/internal/corpus"
)

// An args holds the input of a corpus case.
type args struct {
	t *testing.T
	m map[string]any
}

func (a args) octets(k string) []byte { return unhex(a.t, a.m[k].(string)) }
func (a args) num(k string) uint64    { return uint64(a.m[k].(float64)) }
func (a args) text(k string) string   { return a.m[k].(string) }
func (a args) header() frame.Header {
	return frame.Header{Flags: frame.Flags(a.num("flags")), Type: frame.Type(a.num("frameType")),
		Channel: frame.ChannelID(a.num("channel")), Seq: a.num("seq")}
}

func (a args) suite() Suite {
	for _, s := range []Suite{SuiteAES256GCM, SuiteChaCha20Poly1305} {
		if s.String() == a.text("suite") {
			return s
		}
	}
	a.t.Fatalf("suite %q", a.text("suite"))
	return 0
}

func (a args) hash() Hash {
	return map[string]Hash{"sha256": SHA256, "sha384": SHA384}[a.text("hash")]
}

func (a args) profile() frame.Profile {
	for p := frame.ProfileStandard; p <= frame.ProfileSovereign; p++ {
		if p.String() == a.text("profile") {
			return p
		}
	}
	a.t.Fatalf("profile %q", a.text("profile"))
	return 0
}

// Every case of the core operations of both corpora that needs a key; the rest
// is in package frame.
//
// Covers: CORE-7.1-01, CORE-7.2-01, CORE-7.4-01, CORE-7.5-01, CORE-5-03
func TestCorpus(t *testing.T) {
	want := map[string]int{"aead.seal": 39, "aead.open": 40, "hkdf.expand": 163, "profile.check": 4, "frame.seal": 3, "frame.open": 6,
		"hkdf.expand_label": 6, "keys.derive_traffic": 5, "nonce.derive": 5}
	for _, dir := range []string{"vectors/", "generation3/vectors/"} {
		var c struct {
			TestGroups []struct {
				Op    string
				Tests []struct {
					TcID     int
					In       map[string]any
					Expected map[string]any
					Result   string
				}
			}
		}
		corpus.ReadJSON(t, dir+"conformance-corpus.json", &c)
		ran := make(map[string]int)
		for _, g := range c.TestGroups {
			op := corpusOps[g.Op]
			if op == nil {
				continue
			}
			for _, tt := range g.Tests {
				ran[g.Op]++
				out, err := op(args{t, tt.In})
				if (err == nil) != (tt.Result == "valid") {
					t.Errorf("%s %s tc%d: error %v, want %s", dir, g.Op, tt.TcID, err, tt.Result)
					continue
				}
				for k, w := range tt.Expected {
					if fmt.Sprintf("%x", out[k]) != w {
						t.Errorf("%s %s tc%d: %s = %x, want %v", dir, g.Op, tt.TcID, k, out[k], w)
					}
				}
			}
		}
		if fmt.Sprint(ran) != fmt.Sprint(want) {
			t.Errorf("%s: cases run %v, want %v", dir, ran, want)
		}
	}
}

var corpusOps = map[string]func(a args) (map[string][]byte, error){
	"aead.seal": func(a args) (map[string][]byte, error) {
		aead, err := a.suite().NewAEAD(a.octets("key"))
		if err != nil {
			return nil, err
		}
		return map[string][]byte{"sealed": aead.Seal(nil, a.octets("nonce"), a.octets("pt"), a.octets("aad"))}, nil
	},
	"aead.open": func(a args) (map[string][]byte, error) {
		aead, err := a.suite().NewAEAD(a.octets("key"))
		if err != nil {
			return nil, err
		}
		pt, err := aead.Open(nil, a.octets("nonce"), a.octets("sealed"), a.octets("aad"))
		return map[string][]byte{"pt": pt}, err
	},
	"hkdf.expand": func(a args) (map[string][]byte, error) {
		okm, err := Expand(a.hash(), a.octets("prk"), a.octets("info"), int(a.num("length")))
		return map[string][]byte{"okm": okm}, err
	},
	"hkdf.expand_label": func(a args) (map[string][]byte, error) {
		out, err := ExpandLabel(a.hash(), a.octets("secret"), a.text("label"), a.octets("context"), int(a.num("length")))
		return map[string][]byte{"out": out}, err
	},
	"keys.derive_traffic": func(a args) (map[string][]byte, error) {
		h := ProfileHash(a.profile())
		key, iv := TrafficKeyIV(h, TrafficSecret(h, a.octets("master"), Direction(a.num("dir")), a.num("epoch"), Suite(a.num("suite")), frame.ChannelID(a.num("channel"))))
		return map[string][]byte{"key": key, "iv": iv}, nil
	},
	"nonce.derive": func(a args) (map[string][]byte, error) {
		seq, err := strconv.ParseUint(a.text("seq"), 10, 64)
		if err != nil {
			return nil, err
		}
		iv := a.octets("iv")
		if len(iv) != NonceLen {
			return nil, ErrKeyLength
		}
		nonce := Nonce([NonceLen]byte(iv), seq)
		return map[string][]byte{"nonce": nonce[:]}, nil
	},
	"profile.check": func(a args) (map[string][]byte, error) {
		kem := map[string]KEM{"X25519MLKEM768": KEMX25519MLKEM768, "X25519MLKEM1024": KEM1024}[a.text("kem")]
		if !kem.AllowedAt(a.profile()) {
			return nil, errors.New("KEM below the profile's minimum")
		}
		return nil, nil
	},
	// The corpus' frame operations count the plaintext alone in the Payload
	// Length of their AAD, unlike a frame on the wire.
	"frame.seal": func(a args) (map[string][]byte, error) {
		key, err := NewKey(a.suite(), a.octets("key"), a.octets("iv"))
		if err != nil {
			return nil, err
		}
		h := a.header()
		h.PayloadLen = uint32(len(a.octets("pt")))
		return map[string][]byte{"sealed": key.Seal(nil, frame.AppendHeader(nil, h)[:frame.AADLen], h.Seq, a.octets("pt"))}, nil
	},
	"frame.open": func(a args) (map[string][]byte, error) {
		key, err := NewKey(a.suite(), a.octets("key"), a.octets("iv"))
		if err != nil {
			return nil, err
		}
		h := a.header()
		h.PayloadLen = uint32(len(a.octets("sealed")) - TagLen)
		pt, err := key.Open(nil, frame.AppendHeader(nil, h)[:frame.AADLen], h.Seq, a.octets("sealed"))
		return map[string][]byte{"pt": pt}, err
	},
}
