package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// The oracle is a second computation of what this package does, written from
// RFC 5869, RFC 8446 §7.1 and the handshake binding with SHA-256 and HMAC of the
// standard library alone. TestKeyScheduleKAT proves it against the RFCs' own
// examples before anything relies on it.

func oracleHMAC(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

func oracleExtract(salt, ikm []byte) []byte { return oracleHMAC(salt, ikm) }

func oracleExpand(prk, info []byte, n int) []byte {
	var out, block []byte
	for i := byte(1); len(out) < n; i++ {
		block = oracleHMAC(prk, block, info, []byte{i})
		out = append(out, block...)
	}
	return out[:n]
}

func oracleExpandLabel(prefix string, secret []byte, label string, context []byte, n int) []byte {
	full := prefix + label
	info := []byte{byte(n >> 8), byte(n), byte(len(full))}
	info = append(info, full...)
	info = append(info, byte(len(context)))
	info = append(info, context...)
	return oracleExpand(secret, info, n)
}

func oracleLabel(secret []byte, label string, context []byte, n int) []byte {
	return oracleExpandLabel("n-pamp ", secret, label, context, n)
}

// oracleTraffic returns traffic secret, key and IV. All arguments of the context
// are small here.
func oracleTraffic(parent []byte, dir, epoch, suite, channel byte) (secret, key, iv []byte) {
	context := []byte{dir, 0, 0, 0, 0, 0, 0, 0, epoch, 0, suite, 0, channel}
	secret = oracleLabel(parent, "traffic", context, 32)
	return secret, oracleLabel(secret, "key", nil, 32), oracleLabel(secret, "iv", nil, 12)
}

// An oracleTranscript is the plain concatenation of what is absorbed.
type oracleTranscript []byte

func (o *oracleTranscript) frameType(t uint16) { *o = append(*o, byte(t>>8), byte(t)) }
func (o *oracleTranscript) tlv(t uint16, v []byte) {
	*o = append(*o, byte(t>>8), byte(t), byte(len(v)>>8), byte(len(v)))
	*o = append(*o, v...)
}
func (o oracleTranscript) sum() []byte { s := sha256.Sum256(o); return s[:] }

// octets is an octet string that JSON holds in hexadecimal.
type octets []byte

func (o *octets) UnmarshalText(b []byte) error {
	v, err := hex.DecodeString(string(b))
	*o = v
	return err
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantOctets(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Errorf("%s\n got %x\nwant %x", what, got, want)
	}
	if len(want) == 0 {
		t.Errorf("%s: nothing to compare with", what)
	}
}
