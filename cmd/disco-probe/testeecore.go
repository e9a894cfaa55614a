package main

import (
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

func (t *testee) headerDecode(in *fields) (object, error) {
	b := in.hex("frame")
	if in.err != nil {
		return nil, nil
	}
	h, err := frame.ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if err := t.checkFlags(h.Flags); err != nil {
		return nil, err
	}
	return object{
		{"magic", string(b[:4])},
		{"ver", frame.Version},
		{"flags", uint64(h.Flags)},
		{"frameType", uint64(h.Type)},
		{"channel", uint64(h.Channel)},
		{"seq", json.RawMessage(strconv.FormatUint(h.Seq, 10))}, // a number whatever its size
		{"payloadLength", uint64(h.PayloadLen)},
		{"crc32c", hex.EncodeToString(b[frame.AADLen : frame.AADLen+4])},
		{"reservedZero", true},
	}, nil
}

// checkFlags refuses what the generation reserves (core §4.3).
func (t *testee) checkFlags(f frame.Flags) error {
	if t.generation >= 3 && f&frame.ReservedFlags3 != 0 {
		return frame.ErrReservedFlag
	}
	return nil
}

func (t *testee) headerEncode(in *fields) (object, error) {
	if in.word("magic") != "NPAM" {
		in.fail("magic", `must be "NPAM"`)
	}
	h := in.header()
	h.PayloadLen = uint32(in.upTo("payloadLength", frame.MaxFrameLen-frame.HeaderLen))
	switch {
	case in.err != nil:
		return nil, nil
	case h.Type == 0:
		return nil, errors.New("frame type 0x0000 is never used")
	case h.Channel.IsForbidden():
		return nil, errors.New("channel 0xFFFF is never used")
	}
	if err := t.checkFlags(h.Flags); err != nil {
		return nil, err
	}
	return octetsOut("frame", frame.AppendHeader(nil, h)), nil
}

// header reads the fields of a header that every operation with one has.
func (f *fields) header() frame.Header {
	if f.upTo("ver", math.MaxUint64) != frame.Version {
		f.fail("ver", "must be 2")
	}
	return frame.Header{
		Flags:   frame.Flags(f.upTo("flags", 0x0F)),
		Type:    frame.Type(f.upTo("frameType", 0xFFFF)),
		Channel: frame.ChannelID(f.upTo("channel", 0xFFFF)),
		Seq:     f.upTo("seq", math.MaxUint64),
	}
}

func (t *testee) crc32c(in *fields) (object, error) {
	return octetsOut("crc32c", binary.BigEndian.AppendUint32(nil, frame.CRC32C(in.hex("octets")))), nil
}

func (t *testee) tlvDecode(in *fields) (object, error) {
	tlv, rest, err := frame.ParseTLV(in.hex("tlv"))
	switch {
	case err != nil:
		return nil, err
	case frame.TLVCritical(tlv.Type): // none is known
		return nil, frame.ErrCriticalTLV
	case len(rest) > 0:
		return nil, fmt.Errorf("%s after the TLV", plural(len(rest), "octet"))
	}
	return object{{"type", uint64(tlv.Type)}, {"length", len(tlv.Value)}, {"value", octets(tlv.Value)}}, nil
}

func (t *testee) tlvEncode(in *fields) (object, error) {
	typ, value := uint16(in.upTo("type", 0xFFFF)), in.hex("value")
	if len(value) > frame.MaxTLVValue {
		in.fail("value", "must be at most 65535 octets")
	}
	if in.err != nil {
		return nil, nil
	}
	return octetsOut("tlv", frame.AppendTLV(nil, typ, value)), nil
}

func octetsOut(key string, b []byte) object { return object{{key, octets(b)}} }

func (t *testee) aeadSeal(in *fields) (object, error) {
	aead, nonce, err := in.aead()
	aad, pt := in.hex("aad"), in.hex("pt")
	if err != nil || in.err != nil {
		return nil, err
	}
	return octetsOut("sealed", aead.Seal(nil, nonce, pt, aad)), nil
}

func (t *testee) aeadOpen(in *fields) (object, error) {
	aead, nonce, err := in.aead()
	aad, sealed := in.hex("aad"), in.hex("sealed")
	if err != nil || in.err != nil {
		return nil, err
	}
	pt, err := aead.Open(nil, nonce, sealed, aad)
	if err != nil {
		return nil, keys.ErrOpen
	}
	return octetsOut("pt", pt), nil
}

// aead reads suite, key and the whole nonce.
func (f *fields) aead() (aead cipher.AEAD, nonce []byte, err error) {
	suite, key := f.suite(), f.hex("key")
	if nonce = f.hex("nonce"); len(nonce) != keys.NonceLen {
		f.fail("nonce", "must be 12 octets")
	}
	if f.err != nil {
		return nil, nil, nil
	}
	aead, err = suite.NewAEAD(key)
	return aead, nonce, err
}

// suite reads an AEAD suite by its name.
func (f *fields) suite() keys.Suite {
	name := f.word("suite")
	for _, s := range []keys.Suite{keys.SuiteAES256GCM, keys.SuiteChaCha20Poly1305} {
		if strings.EqualFold(name, s.String()) {
			return s
		}
	}
	f.fail("suite", "must be AES-256-GCM or ChaCha20-Poly1305")
	return 0
}

// hash reads a hash by its name.
func (f *fields) hash() keys.Hash {
	switch strings.ReplaceAll(strings.ToLower(f.word("hash")), "-", "") {
	case "sha256":
		return keys.SHA256
	case "sha384":
		return keys.SHA384
	}
	f.fail("hash", "must be sha256 or sha384")
	return 0
}

// profile reads a security profile by its name.
func (f *fields) profile() frame.Profile {
	name := f.word("profile")
	for p := frame.ProfileStandard; p <= frame.ProfileSovereign; p++ {
		if strings.EqualFold(name, p.String()) {
			return p
		}
	}
	f.fail("profile", "must be Standard, High or Sovereign")
	return 0
}

// length reads the octets that an HKDF is to give: what no hash can give is
// told by keys.
func (f *fields) length() int { return int(f.upTo("length", math.MaxInt32)) }

func (t *testee) hkdfExpand(in *fields) (object, error) {
	h, prk, info, n := in.hash(), in.hex("prk"), in.hex("info"), in.length()
	if in.err != nil {
		return nil, nil
	}
	okm, err := keys.Expand(h, prk, info, n)
	return octetsOut("okm", okm), err
}

func (t *testee) hkdfExpandLabel(in *fields) (object, error) {
	h, secret, label, context, n := in.hash(), in.hex("secret"), in.word("label"), in.hex("context"), in.length()
	if in.err != nil {
		return nil, nil
	}
	out, err := keys.ExpandLabel(h, secret, label, context, n)
	return octetsOut("out", out), err
}

func (t *testee) deriveTraffic(in *fields) (object, error) {
	h := keys.ProfileHash(in.profile())
	master := in.hex("master")
	dir := keys.Direction(in.upTo("dir", uint64(keys.ServerToClient)))
	epoch := in.upTo("epoch", math.MaxUint64)
	suite := keys.Suite(in.upTo("suite", 0xFFFF))
	ch := frame.ChannelID(in.upTo("channel", 0xFFFF))
	switch {
	case in.err != nil:
		return nil, nil
	case len(master) != h.Len():
		return nil, fmt.Errorf("the master secret is %d octets, not %d", len(master), h.Len())
	case !suite.Valid():
		return nil, keys.ErrSuite
	}
	key, iv := keys.TrafficKeyIV(h, keys.TrafficSecret(h, master, dir, epoch, suite, ch))
	return object{{"key", octets(key)}, {"iv", octets(iv)}}, nil
}

func (t *testee) nonceDerive(in *fields) (object, error) {
	iv, seq := in.hex("iv"), in.upTo("seq", math.MaxUint64)
	if len(iv) != keys.NonceLen {
		in.fail("iv", "must be 12 octets")
	}
	if in.err != nil {
		return nil, nil
	}
	nonce := keys.Nonce([keys.NonceLen]byte(iv), seq)
	return octetsOut("nonce", nonce[:]), nil
}

func (t *testee) frameSeal(in *fields) (object, error) {
	key, h, err := t.frameKey(in)
	pt := in.hex("pt")
	if err != nil || in.err != nil {
		return nil, err
	}
	return octetsOut("sealed", key.Seal(nil, frameAAD(h, len(pt)), h.Seq, pt)), nil
}

func (t *testee) frameOpen(in *fields) (object, error) {
	key, h, err := t.frameKey(in)
	sealed := in.hex("sealed")
	if err != nil || in.err != nil {
		return nil, err
	}
	if len(sealed) < frame.TagLen {
		return nil, keys.ErrOpen
	}
	pt, err := key.Open(nil, frameAAD(h, len(sealed)-frame.TagLen), h.Seq, sealed)
	if err != nil {
		return nil, err
	}
	return octetsOut("pt", pt), nil
}

// frameKey reads the header of a frame and the key that it is sealed under.
func (t *testee) frameKey(in *fields) (*keys.Key, frame.Header, error) {
	suite, key, iv, h := in.suite(), in.hex("key"), in.hex("iv"), in.header()
	if in.err != nil {
		return nil, h, nil
	}
	if err := t.checkFlags(h.Flags); err != nil {
		return nil, h, err
	}
	k, err := keys.NewKey(suite, key, iv)
	return k, h, err
}

// frameAAD is the associated data of the corpus' frames: their Payload Length
// counts the plaintext alone, unlike that of a frame on the wire.
func frameAAD(h frame.Header, plaintextLen int) []byte {
	h.PayloadLen = uint32(plaintextLen)
	return frame.AppendHeader(nil, h)[:frame.AADLen]
}

func (t *testee) profileCheck(in *fields) (object, error) {
	profile, name := in.profile(), in.word("kem")
	var kem keys.KEM
	switch name {
	case "X25519MLKEM768":
		kem = keys.KEMX25519MLKEM768
	case "X25519MLKEM1024", "SecP384r1MLKEM1024": // 0x11ED, by its name in either generation
		kem = keys.KEM1024
	default:
		in.fail("kem", "must be X25519MLKEM768, X25519MLKEM1024 or SecP384r1MLKEM1024")
	}
	if in.err != nil {
		return nil, nil
	}
	if !kem.AllowedAt(profile) {
		return nil, fmt.Errorf("profile %v accepts no KEM below its minimum", profile)
	}
	return object{{"accepted", true}}, nil
}
