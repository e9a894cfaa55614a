package association

import (
	"encoding/hex"
	"fmt"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// An ID names one association in key logs and traces: the last 32 octets of its
// CLIENT_HELLO, which are the X25519 part of the client's fresh KEMShare. Whoever
// sees the stream sees it, so that a capture can be matched with a key log.
type ID [32]byte

// String returns the ID in hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// helloID returns the ID that the payload of a CLIENT_HELLO gives; zero where it
// is too short to be one.
func helloID(payload []byte) (id ID) {
	if n := len(payload) - len(id); n >= 0 {
		copy(id[:], payload[n:])
	}
	return id
}

// Labels of the lines of a key log.
const (
	logHandshake = "NPAMP_HANDSHAKE_KEY"
	logTraffic   = "NPAMP_TRAFFIC_KEY"
)

// logKey writes the line of one key, which descends from parent, to
// Config.KeyLogWriter. ratchet is the generation of parent.
func (c *config) logKey(label string, id ID, h keys.Hash, parent []byte, d keys.Direction, ratchet uint64, ch frame.ChannelID, epoch uint64, s keys.Suite) {
	if c.KeyLogWriter == nil {
		return
	}
	secret := keys.TrafficSecret(h, parent, d, epoch, s, ch)
	key, iv := keys.TrafficKeyIV(h, secret)
	line := fmt.Appendf(nil, "%s %v %v %d %04x %d %04x %x %x\n", label, id, d, ratchet, uint16(ch), epoch, uint16(s), key, iv)
	_, err := c.KeyLogWriter.Write(line)
	keys.Erase(secret, key, iv, line)
	if err != nil {
		c.Logger.Warn("key log", "error", err)
	}
}
