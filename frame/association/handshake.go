package association

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// A handshake is the four flights of one association (core §8, binding §1):
//
//	client  CLIENT_HELLO  cleartext   ProfileOffer KEMOffer SigOffer AEADOffer KEMShare
//	server  SERVER_HELLO  cleartext   ProfileSelect KEMSelect SigSelect AEADSelect KEMCiphertext
//	server  SERVER_AUTH   sealed      IdentityKey CertVerify Finished
//	client  CLIENT_AUTH   sealed      IdentityKey CertVerify Finished
//
// all on Control with sequence number 0. Only profile Standard is offered and
// selected. It runs on its caller's goroutine.
type handshake struct {
	conn   net.Conn
	frames *frame.Reader
	gen    *generation
	cfg    *config
	client bool

	id         ID // once CLIENT_HELLO is there
	transcript *keys.Transcript
	suite      keys.Suite
	secrets    *keys.HandshakeSecrets
	// send and receive are the handshake keys, nil before SERVER_HELLO.
	send, receive *keys.Key
	sent          uint64 // sequence number of the next frame under send

	peer   ed25519.PublicKey
	master []byte
}

// An hsError is a failure with the code that ERROR gives it once there are keys.
type hsError struct {
	code frame.ErrorCode
	err  error
}

func (e *hsError) Error() string { return e.err.Error() }
func (e *hsError) Unwrap() error { return e.err }

// refuse is the failure of a flight that is not as it has to be.
func refuse(err error, format string, args ...any) error {
	return &hsError{frame.CodeUnexpectedMessage, fmt.Errorf("%w: %s: %w", ErrHandshake, fmt.Sprintf(format, args...), err)}
}

// unproven is the failure of an identity that is not proven or not accepted.
func unproven(err error, what string) error {
	return &hsError{frame.CodeDecryptFailed, fmt.Errorf("%w: %s: %w", ErrAuthentication, what, err)}
}

// direction returns the direction that a side sends in.
func direction(client bool) keys.Direction {
	if client {
		return keys.ClientToServer
	}
	return keys.ServerToClient
}

// run does the whole handshake. On failure it tells the peer, where the
// generation and the state allow it, and leaves closing conn to the caller.
func (h *handshake) run() error {
	h.transcript = keys.NewTranscript(keys.ProfileHash(frame.ProfileStandard))
	h.frames = frame.NewReader(h.conn, h.gen.reserved)
	h.frames.SetMaxFrame(maxHandshakeFrame)
	var err error
	if h.client {
		err = h.runClient()
	} else {
		err = h.runServer()
	}
	if err == nil {
		return nil
	}
	h.report(err)
	h.erase()
	return err
}

// erase drops what the association does not go on to use.
func (h *handshake) erase() {
	if h.secrets != nil {
		h.secrets.Erase()
	}
	for _, k := range []*keys.Key{h.send, h.receive} {
		if k != nil {
			k.Erase()
		}
	}
	keys.Erase(h.master)
}

// report sends ERROR under the handshake key (CORE-g3-07). Before there is one,
// and in generation 2, a handshake ends in silence.
func (h *handshake) report(err error) {
	if h.send == nil || !h.gen.errors {
		return
	}
	code := frame.CodeUnexpectedMessage
	if e := (*hsError)(nil); errors.As(err, &e) {
		code = e.code
	} else if !framingLost(err) {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the stream is gone, or the peer has told us of an error of its own
		}
		code = frame.CodeHandshakeTimeout
	}
	if h.conn.SetDeadline(time.Now().Add(lingerTimeout)) != nil {
		return
	}
	if h.writeSealed(frame.TypeError, appendError(nil, code)) != nil {
		return
	}
	linger(h.conn)
}

func (h *handshake) runClient() error {
	private, err := h.cfg.kem.generate()
	if err != nil {
		return err
	}
	var hello []byte
	hello = frame.AppendTLV(hello, frame.TagProfileOffer, []byte{byte(frame.ProfileStandard)})
	hello = frame.AppendTLV(hello, frame.TagKEMOffer, codePoints(keys.KEMX25519MLKEM768))
	hello = frame.AppendTLV(hello, frame.TagSigOffer, codePoints(keys.SchemeEd25519))
	hello = frame.AppendTLV(hello, frame.TagAEADOffer, codePoints(h.cfg.Suites...))
	hello = frame.AppendTLV(hello, frame.TagKEMShare, private.Share())
	if err := h.writeClear(frame.TypeClientHello, hello); err != nil {
		return err
	}

	reply, err := h.readClear(frame.TypeServerHello)
	if err != nil {
		return err
	}
	tlvs, err := exactTLVs(reply, frame.TagProfileSelect, frame.TagKEMSelect, frame.TagSigSelect,
		frame.TagAEADSelect, frame.TagKEMCiphertext)
	if err != nil {
		return refuse(err, "SERVER_HELLO")
	}
	if err := h.selected(tlvs); err != nil {
		return err
	}
	h.transcript.AddFrame(frame.TypeServerHello, reply)
	secret, err := private.Decapsulate(tlvs[4])
	if err != nil {
		return refuse(err, "KEMCiphertext")
	}
	if err := h.derive(secret); err != nil {
		return err
	}

	if err := h.readAuth(frame.TypeServerAuth); err != nil {
		return err
	}
	return h.writeAuth(frame.TypeClientAuth)
}

// selected checks the SERVER_HELLO's first four TLVs against what was offered
// (core §6: the server selects from the client's offer).
func (h *handshake) selected(tlvs [5][]byte) error {
	switch p := tlvs[0]; {
	case len(p) != 1:
		return refuse(errTLVs, "ProfileSelect is %d octets", len(p))
	case frame.Profile(p[0]) != frame.ProfileStandard:
		return refuse(errSelect, "profile %v", frame.Profile(p[0]))
	}
	kems, ok := parseCodePoints[keys.KEM](tlvs[1])
	switch {
	case !ok || len(kems) != 1:
		return refuse(errTLVs, "KEMSelect is %d octets", len(tlvs[1]))
	case kems[0] != keys.KEMX25519MLKEM768:
		return refuse(errSelect, "KEM %v", kems[0])
	}
	schemes, ok := parseCodePoints[keys.Scheme](tlvs[2])
	switch {
	case !ok || len(schemes) != 1:
		return refuse(errTLVs, "SigSelect is %d octets", len(tlvs[2]))
	case schemes[0] != keys.SchemeEd25519:
		return refuse(errSelect, "signature scheme 0x%04x", uint16(schemes[0]))
	}
	suites, ok := parseCodePoints[keys.Suite](tlvs[3])
	switch {
	case !ok:
		return refuse(errTLVs, "AEADSelect is %d octets", len(tlvs[3]))
	case len(suites) != 1 && !h.gen.aeadList:
		return refuse(errTLVs, "AEADSelect has %d entries", len(suites))
	}
	for i, s := range suites {
		if !slices.Contains(h.cfg.Suites, s) || slices.Contains(suites[:i], s) {
			return refuse(errSelect, "suite %v", s)
		}
	}
	if len(suites) != 1 { // a list, but Standard has no diversification
		return refuse(errSelect, "AEADSelect has %d entries, Standard takes one", len(suites))
	}
	h.suite = suites[0]
	return nil
}

func (h *handshake) runServer() error {
	hello, err := h.readClear(frame.TypeClientHello)
	if err != nil {
		return err
	}
	tlvs, err := exactTLVs(hello, frame.TagProfileOffer, frame.TagKEMOffer, frame.TagSigOffer,
		frame.TagAEADOffer, frame.TagKEMShare)
	if err != nil {
		return refuse(err, "CLIENT_HELLO")
	}
	if err := h.choose(tlvs); err != nil {
		return err
	}
	h.transcript.AddFrame(frame.TypeClientHello, hello)

	ciphertext, secret, err := h.cfg.kem.encapsulate(tlvs[4])
	if err != nil {
		return refuse(err, "KEMShare")
	}
	var reply []byte
	reply = frame.AppendTLV(reply, frame.TagProfileSelect, []byte{byte(frame.ProfileStandard)})
	reply = frame.AppendTLV(reply, frame.TagKEMSelect, codePoints(keys.KEMX25519MLKEM768))
	reply = frame.AppendTLV(reply, frame.TagSigSelect, codePoints(keys.SchemeEd25519))
	reply = frame.AppendTLV(reply, frame.TagAEADSelect, codePoints(h.suite))
	reply = frame.AppendTLV(reply, frame.TagKEMCiphertext, ciphertext)
	if err := h.writeClear(frame.TypeServerHello, reply); err != nil {
		return err
	}
	if err := h.derive(secret); err != nil {
		return err
	}

	if err := h.writeAuth(frame.TypeServerAuth); err != nil {
		return err
	}
	return h.readAuth(frame.TypeClientAuth)
}

// choose picks from the CLIENT_HELLO's first four TLVs. Of the suites our own
// order decides (C52).
func (h *handshake) choose(tlvs [5][]byte) error {
	if !slices.Contains(tlvs[0], byte(frame.ProfileStandard)) {
		return refuse(errOffer, "profiles %x", tlvs[0])
	}
	kems, ok := parseCodePoints[keys.KEM](tlvs[1])
	if !ok || !slices.Contains(kems, keys.KEMX25519MLKEM768) {
		return refuse(errOffer, "KEMs %x", tlvs[1])
	}
	schemes, ok := parseCodePoints[keys.Scheme](tlvs[2])
	if !ok || !slices.Contains(schemes, keys.SchemeEd25519) {
		return refuse(errOffer, "signature schemes %x", tlvs[2])
	}
	suites, ok := parseCodePoints[keys.Suite](tlvs[3])
	i := slices.IndexFunc(h.cfg.Suites, func(s keys.Suite) bool { return slices.Contains(suites, s) })
	if !ok || i < 0 {
		return refuse(errOffer, "suites %x", tlvs[3])
	}
	h.suite = h.cfg.Suites[i]
	return nil
}

// derive makes the handshake keys of the KEM secret, which it erases, and the
// transcript through SERVER_HELLO.
func (h *handshake) derive(secret []byte) (err error) {
	defer keys.Erase(secret)
	h.secrets = keys.DeriveHandshake(keys.ProfileHash(frame.ProfileStandard), secret, h.transcript.Sum())
	for d, secret := range [][]byte{keys.ClientToServer: h.secrets.Client, keys.ServerToClient: h.secrets.Server} {
		h.cfg.logKey(logHandshake, h.id, h.secrets.Hash, secret, keys.Direction(d), 0, frame.ChannelControl, 0, h.suite)
	}
	if h.send, err = h.secrets.Key(direction(h.client), h.suite); err != nil {
		return err
	}
	h.receive, err = h.secrets.Key(direction(!h.client), h.suite)
	return err
}

// writeAuth sends our identity and the proof that it is ours. The client's one
// fixes the master secret.
func (h *handshake) writeAuth(typ frame.Type) error {
	d := direction(h.client)
	h.transcript.AddType(typ)
	identity := h.cfg.Identity.Public().(ed25519.PublicKey)
	h.transcript.AddTLV(frame.TagIdentityKey, identity)
	proof := keys.SignCertVerify(h.gen.number, d, h.transcript.Sum(), h.cfg.Identity)
	h.transcript.AddTLV(frame.TagCertVerify, proof)
	th := h.transcript.Sum()
	mac := h.secrets.Finished(d, th)
	h.transcript.AddTLV(frame.TagFinished, mac)
	if h.client {
		h.master = h.secrets.Master(th)
	}
	var b []byte
	b = frame.AppendTLV(b, frame.TagIdentityKey, identity)
	b = frame.AppendTLV(b, frame.TagCertVerify, proof)
	b = frame.AppendTLV(b, frame.TagFinished, mac)
	return h.writeSealed(typ, b)
}

// readAuth reads and checks the peer's identity and proof, and asks VerifyPeer.
func (h *handshake) readAuth(typ frame.Type) error {
	d := direction(!h.client)
	plain, err := h.readSealed(typ)
	if err != nil {
		return err
	}
	tlvs, err := exactTLVs(plain, frame.TagIdentityKey, frame.TagCertVerify, frame.TagFinished)
	if err != nil {
		return refuse(err, "%s", frame.TypeName(frame.ChannelControl, typ))
	}
	identity := ed25519.PublicKey(slices.Clone(tlvs[0]))
	h.transcript.AddType(typ)
	h.transcript.AddTLV(frame.TagIdentityKey, identity)
	if err := keys.VerifyCertVerify(h.gen.number, d, h.transcript.Sum(), identity, tlvs[1]); err != nil {
		return unproven(err, "CertVerify")
	}
	h.transcript.AddTLV(frame.TagCertVerify, tlvs[1])
	th := h.transcript.Sum()
	if err := h.secrets.VerifyFinished(d, th, tlvs[2]); err != nil {
		return unproven(err, "Finished")
	}
	h.transcript.AddTLV(frame.TagFinished, tlvs[2])
	if !h.client {
		h.master = h.secrets.Master(th)
	}
	if h.cfg.VerifyPeer != nil {
		if err := h.cfg.VerifyPeer(slices.Clone(identity)); err != nil {
			return unproven(err, fmt.Sprintf("identity %x is not accepted", []byte(identity)))
		}
	}
	h.peer = identity
	return nil
}
