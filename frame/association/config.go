package association

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// A Config says how associations are made and kept. Identity is required;
// everything else has a default. A Config is read when Dial, Client, Server or
// Listen is called, and may be changed or used again afterwards.
type Config struct {
	// Identity is the Ed25519 key that this side proves to own.
	Identity ed25519.PrivateKey

	// Generations are the crypto generations offered or accepted, in order of
	// preference. nil is {3, 2}. A server decides by its own order. Without TLS
	// the first one counts.
	Generations []int

	// Suites are the AEAD suites, in order of preference. nil is AES-256-GCM, then
	// ChaCha20-Poly1305. A server decides by its own order.
	Suites []keys.Suite

	// VerifyPeer decides whether the peer's proven identity is accepted: on a
	// client before CLIENT_AUTH is sent, on a server when CLIENT_AUTH has come. nil
	// accepts any. An error fails the handshake with ErrAuthentication and is
	// wrapped by it.
	VerifyPeer func(ed25519.PublicKey) error

	// Channels are the channels that we accept frames on, PeerChannels those that
	// the peer is taken to. nil is Control and Discovery; Control is always added.
	// With Hello set, the peer's HELLO replaces PeerChannels.
	Channels, PeerChannels []frame.ChannelID

	// TLS is cloned; NextProtos, MinVersion and the session ticket settings are
	// ours. nil is an empty one: a client verifies the certificate against the
	// system's roots, a listener makes itself a self-signed certificate.
	TLS *tls.Config

	// HandshakeTimeout bounds TLS and the handshake together. 0 is 10 s.
	HandshakeTimeout time.Duration

	// MaxHandshakes is how many handshakes a Listener runs at once. 0 is 256.
	MaxHandshakes int

	// MaxFrame is the longest frame accepted, in octets, header included. It is
	// checked on the header, before the rest is buffered; a longer one ends the
	// association. 0 is frame.MaxFrameLen, which is also the most.
	MaxFrame int

	// MaxSend is the longest frame an endpoint may send, in octets, header and tag
	// included. 0 is 1 MiB. A longer one ends the association with ErrFrame.
	MaxSend int

	// WriteTimeout is how long one write of at most 64 KiB, or of one larger frame,
	// may take before the peer is taken not to read. 0 is 30 s, negative is for
	// ever.
	WriteTimeout time.Duration

	// A key is replaced before the next frame once it has sealed UpdateFrames frames
	// (at least 2) or UpdateOctets octets of payload, or is UpdateAge old, whichever
	// comes first. 0 is 2^22 frames, 2^36 octets, 1 h. A peer that uses this package
	// takes no more than 1000 new keys a second, and 4096 in a burst.
	UpdateFrames, UpdateOctets uint64
	UpdateAge                  time.Duration

	// NoFlowControl switches the flow control of generation 3 off in both
	// directions, for peers known to lack it.
	NoFlowControl bool

	// KeepAlive, when positive, makes us PING a peer that has sent nothing for so
	// long, and end the association with ErrPeerSilent when nothing has come 10 s
	// later. Public peers answer no PING: it is off by default.
	KeepAlive time.Duration

	// Hello, when set, makes us exchange NPAMP-HELLO before the association is
	// handed out. A peer that sends none fails the handshake by timeout.
	Hello *Hello

	// Logger gets what has nowhere else to go: failed handshakes of a Listener, and
	// the ERROR frames of generation 2. nil is silence.
	Logger *slog.Logger

	// KeyLogWriter, when set, gets the keys of every association, so that a capture
	// can be decrypted: for debugging alone, because whoever reads it reads the
	// associations. Each key is one Write of one line, when it is first used:
	//
	//	NPAMP_HANDSHAKE_KEY id direction 0 0000 0 suite key iv
	//	NPAMP_TRAFFIC_KEY id direction ratchet channel epoch suite key iv
	//
	// id is the ID in hex, direction c2s or s2c, ratchet the generation of the root
	// and epoch that of the key in decimal, channel and suite four hex digits, key 32
	// and iv 12 octets in hex. The lines of one direction of one channel come in the
	// order in which the keys are used. Where Config.TLS has no KeyLogWriter of its
	// own TLS writes its secrets there too, in the format of NSS, so that one file
	// opens both; readers of either kind pass over the other's lines. Write is called
	// from several goroutines at once, as an *os.File allows. An error goes to Logger.
	KeyLogWriter io.Writer

	// Trace sees every frame that is sent, and every frame received that is
	// authentic or belongs to the cleartext flights, in order. It is called where
	// frames are read and where they are written, and must not block.
	Trace func(TraceFrame)
}

// A TraceFrame is one frame as Trace sees it.
type TraceFrame struct {
	ID      ID   // of the association
	Sent    bool // by us
	Header  frame.Header
	Ratchet uint64 // generation of the root that its key descends from
	Epoch   uint64 // of its key
	// Plaintext is what the frame carries: opened, or before it is sealed. It is
	// valid during the call.
	Plaintext []byte
}

// Defaults and fixed bounds.
const (
	defaultHandshakeTimeout = 10 * time.Second
	defaultMaxHandshakes    = 256
	defaultMaxSend          = 1 << 20 // octets
	defaultWriteTimeout     = 30 * time.Second
	defaultUpdateFrames     = 1 << 22
	defaultUpdateOctets     = 1 << 36
	defaultUpdateAge        = time.Hour

	maxHandshakeFrame = 4 << 10                // octets, header included, of a frame before the peer is known
	closeTimeout      = time.Second            // for all of Close; also how long CLOSE_ACK is awaited
	lingerTimeout     = 250 * time.Millisecond // for the peer to read our last frame
	keepAliveTimeout  = 10 * time.Second       // for an answer to a liveness PING
	idleAfter         = time.Second            // of silence, before the reader gives large buffers back
	batchLen          = 64 << 10               // octets written at once, about
	longBatch         = 32 << 10               // octets; of more TLS makes more than two records
	gatherLen         = 64 << 10               // octets of records that are written at once, about
	directLen         = 16 << 10               // octets that reply writes at most
	batchFrames       = 32                     // frames written at once
	idleBuffer        = 4 << 10                // octets of the reader's buffer when idle, and of a new batch
	maxPooled         = 1 << 20                // octets of a buffer kept for the next batch

	initialWindow = 1 << 20  // octets, core: connection-level flow control
	grantWindow   = 64 << 20 // octets of each grant

	maxPongs       = 16   // PONGs waiting for the writer
	pongRate       = 100  // PONGs a second, and in a burst
	changeRate     = 1000 // changes of keys a second that a peer may make
	changeBurst    = 4096 // and in a burst
	rekemPrice     = 32   // simple changes that a REKEM counts for: it costs a key encapsulation
	maxPongLen     = 64   // octets of a PING that are echoed
	maxRekems      = 16   // REKEMs waiting for the writer; an initiator has one under way, others were overtaken
	maxControl     = 1024 // other control frames waiting for the writer
	maxOutstanding = 1024 // ACKs that the peer owes us
	maxErrorCtx    = 256  // octets of a received ERROR's context that are kept
)

// config is a Config with its defaults, on its own memory.
type config struct {
	Config
	generations []*generation
	kem         kem
	buffers     *buffers
}

// kem is where ephemeral keys come from; tests replay recorded ones.
type kem struct {
	generate    func() (*keys.KEMPrivate, error)
	encapsulate func(share []byte) (ciphertext, secret []byte, err error)
}

// resolve checks cfg and fills in the defaults. The error is ErrConfig.
func (cfg *Config) resolve() (*config, error) {
	if cfg == nil {
		return nil, fmt.Errorf("%w: nil", ErrConfig)
	}
	c := &config{Config: *cfg, kem: kem{keys.GenerateKEM, keys.Encapsulate}, buffers: new(buffers)}
	if len(c.Identity) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("%w: Identity is not an Ed25519 private key", ErrConfig)
	}
	c.Identity = slices.Clone(c.Identity)

	if len(c.Generations) == 0 {
		c.Generations = []int{3, 2}
	}
	for _, n := range c.Generations {
		g := generationOf(n)
		if g == nil || slices.Contains(c.generations, g) {
			return nil, fmt.Errorf("%w: Generations %v", ErrConfig, c.Generations)
		}
		c.generations = append(c.generations, g)
	}

	c.Suites = slices.Clone(c.Suites)
	if len(c.Suites) == 0 {
		c.Suites = []keys.Suite{keys.SuiteAES256GCM, keys.SuiteChaCha20Poly1305}
	}
	for i, s := range c.Suites {
		if !s.Valid() || slices.Contains(c.Suites[:i], s) {
			return nil, fmt.Errorf("%w: Suites %v", ErrConfig, c.Suites)
		}
	}

	var err error
	if c.Channels, err = channelSet(c.Channels); err != nil {
		return nil, err
	}
	if c.PeerChannels, err = channelSet(c.PeerChannels); err != nil {
		return nil, err
	}
	if c.Hello != nil {
		if c.Hello, err = c.Hello.resolve(); err != nil {
			return nil, err
		}
	}

	setDefault(&c.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&c.MaxHandshakes, defaultMaxHandshakes)
	setDefault(&c.MaxFrame, frame.MaxFrameLen)
	setDefault(&c.MaxSend, defaultMaxSend)
	setDefault(&c.WriteTimeout, defaultWriteTimeout)
	setDefault(&c.UpdateFrames, defaultUpdateFrames)
	setDefault(&c.UpdateOctets, defaultUpdateOctets)
	setDefault(&c.UpdateAge, defaultUpdateAge)
	c.UpdateFrames = min(c.UpdateFrames, math.MaxUint64-1) // KEY_UPDATE itself takes the last number
	switch {
	case c.HandshakeTimeout < 0, c.MaxHandshakes < 0, c.UpdateAge < 0, c.KeepAlive < 0,
		c.UpdateFrames < 2, // or an ACK would need an update, which needs an ACK, and so on
		c.MaxFrame < maxHandshakeFrame, c.MaxFrame > frame.MaxFrameLen,
		c.MaxSend < frame.HeaderLen+frame.TagLen, c.MaxSend > frame.MaxFrameLen:
		return nil, fmt.Errorf("%w: a limit is out of range", ErrConfig)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// setDefault gives *v the value d if it has none.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// channelSet returns set sorted, with Control, or the default set for nil. Every
// channel has to be one that profile Standard may enable (core §5).
func channelSet(set []frame.ChannelID) ([]frame.ChannelID, error) {
	if set == nil {
		set = []frame.ChannelID{frame.ChannelDiscovery}
	}
	for _, ch := range set {
		switch {
		case ch.IsGrease(), ch.IsForbidden(), ch.IsFutureCore():
			return nil, fmt.Errorf("%w: channel %v cannot be advertised", ErrConfig, ch)
		case ch.MinProfile() > frame.ProfileStandard:
			return nil, fmt.Errorf("%w: channel %v needs profile %v", ErrConfig, ch, ch.MinProfile())
		}
	}
	set = append([]frame.ChannelID{frame.ChannelControl}, set...)
	slices.Sort(set)
	return slices.Compact(set), nil
}

// alpn returns what TLS offers.
func (c *config) alpn() []string {
	names := make([]string, len(c.generations))
	for i, g := range c.generations {
		names[i] = g.alpn
	}
	return names
}
