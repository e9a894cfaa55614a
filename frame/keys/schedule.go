package keys

import (
	"crypto/hmac"
	"encoding/binary"

	"github.com/npamp/disco/frame"
)

// A Direction names the sender of a frame, and the role of a signer: the client
// sends ClientToServer. Its value is the octet of the traffic context (core §7.5).
type Direction uint8

// The directions.
const (
	ClientToServer Direction = 0
	ServerToClient Direction = 1
)

// String returns "c2s" or "s2c".
func (d Direction) String() string {
	if d == ClientToServer {
		return "c2s"
	}
	return "s2c"
}

// HandshakeSecrets are the secrets that the KEM result and TH_kem fix (binding
// §5). Each is as long as the hash. Master, Finished keys and the keys of the
// AUTH frames descend from them.
type HandshakeSecrets struct {
	Hash      Hash
	Handshake []byte // parent of the others and of the master secret
	Client    []byte // "c hs": what the client sends is keyed from it
	Server    []byte // "s hs"
}

// DeriveHandshake extracts the handshake secret from kemSecret with a salt of
// zeros and derives the two directions' secrets from it and thKEM, the
// transcript hash through SERVER_HELLO.
func DeriveHandshake(h Hash, kemSecret, thKEM []byte) *HandshakeSecrets {
	s := &HandshakeSecrets{Hash: h, Handshake: extract(h, kemSecret, nil)}
	s.Client = expandLabel(h, s.Handshake, "c hs", thKEM, h.Len())
	s.Server = expandLabel(h, s.Handshake, "s hs", thKEM, h.Len())
	return s
}

func (s *HandshakeSecrets) base(d Direction) []byte {
	if d == ClientToServer {
		return s.Client
	}
	return s.Server
}

// Key returns the key of d's AUTH frame: epoch 0 on Control (binding §6.4). The
// error is ErrSuite.
func (s *HandshakeSecrets) Key(d Direction, suite Suite) (*Key, error) {
	return NewTrafficKey(s.Hash, s.base(d), d, 0, suite, frame.ChannelControl)
}

// FinishedKey returns d's Finished key (binding §6.2).
func (s *HandshakeSecrets) FinishedKey(d Direction) []byte {
	return expandLabel(s.Hash, s.base(d), "finished", nil, s.Hash.Len())
}

// Finished returns d's Finished MAC over the transcript hash th: TH_sCV for the
// server's, TH_cCV for the client's (binding §6.2).
func (s *HandshakeSecrets) Finished(d Direction, th []byte) []byte {
	key := s.FinishedKey(d)
	defer clear(key)
	return FinishedMAC(s.Hash, key, th)
}

// VerifyFinished checks mac as d's Finished over th, in constant time (core
// §8.4). The error is ErrFinished.
func (s *HandshakeSecrets) VerifyFinished(d Direction, th, mac []byte) error {
	if !hmac.Equal(s.Finished(d, th), mac) {
		return ErrFinished
	}
	return nil
}

// FinishedMAC is HMAC of the transcript hash th under a Finished key.
func FinishedMAC(h Hash, finishedKey, th []byte) []byte {
	m := hmac.New(h.new, finishedKey)
	m.Write(th)
	return m.Sum(nil)
}

// Master returns the master secret, from which all application keys descend,
// bound to thCCV, the transcript hash through the client's CertVerify.
func (s *HandshakeSecrets) Master(thCCV []byte) []byte {
	return expandLabel(s.Hash, s.Handshake, "master", thCCV, s.Hash.Len())
}

// Erase overwrites the three secrets.
func (s *HandshakeSecrets) Erase() { Erase(s.Handshake, s.Client, s.Server) }

// TrafficSecret returns the secret of one (direction, epoch, suite, channel)
// under parent: a handshake secret, the master secret or a ratcheted root (core
// §7.5).
func TrafficSecret(h Hash, parent []byte, d Direction, epoch uint64, s Suite, ch frame.ChannelID) []byte {
	var context [13]byte // direction (1) ‖ epoch (8) ‖ suite (2) ‖ channel (2)
	context[0] = byte(d)
	binary.BigEndian.PutUint64(context[1:], epoch)
	binary.BigEndian.PutUint16(context[9:], uint16(s))
	binary.BigEndian.PutUint16(context[11:], uint16(ch))
	return expandLabel(h, parent, "traffic", context[:], h.Len())
}

// TrafficKeyIV returns key (32 octets) and IV (12 octets) of a traffic secret.
func TrafficKeyIV(h Hash, trafficSecret []byte) (key, iv []byte) {
	return expandLabel(h, trafficSecret, "key", nil, KeyLen), expandLabel(h, trafficSecret, "iv", nil, NonceLen)
}

// NewTrafficKey derives the Key of one (direction, epoch, suite, channel) under
// parent and erases what lies between. The error is ErrSuite.
func NewTrafficKey(h Hash, parent []byte, d Direction, epoch uint64, s Suite, ch frame.ChannelID) (*Key, error) {
	secret := TrafficSecret(h, parent, d, epoch, s, ch)
	key, iv := TrafficKeyIV(h, secret)
	defer Erase(secret, key, iv)
	return NewKey(s, key, iv)
}

// RatchetStep is tier 1 of the master ratchet (binding §9.1): the root of
// generation, which is the new one, from the root before it. The caller erases
// the old root.
func RatchetStep(h Hash, root []byte, generation uint64) []byte {
	var context [8]byte
	binary.BigEndian.PutUint64(context[:], generation)
	return expandLabel(h, root, "master ratchet", context[:], h.Len())
}

// RekemStep is tier 2 (binding §9.2): the next root from the one before it and a
// fresh KEM secret, bound to thRekem. The old root is the salt. The caller erases
// root and kemSecret.
func RekemStep(h Hash, root, kemSecret, thRekem []byte) []byte {
	rekem := extract(h, kemSecret, root)
	defer clear(rekem)
	return expandLabel(h, rekem, "master ratchet rekem", thRekem, h.Len())
}
