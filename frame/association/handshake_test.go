package association

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// A faker is the other side of a handshake with ways to do it wrong.
type faker struct {
	handshake
	hello, auth flight
	signAs      keys.Direction // whose CertVerify it makes
	signGen     int
	scheme      uint16
	identity    []byte              // sent in place of its own
	proof       func([]byte) []byte // changes the CertVerify
	stall       string              // "hello" or "auth": sends nothing in its place
}

// A flight is how one flight is changed.
type flight struct {
	tlvs   func([]frame.TLV) []frame.TLV
	header func(*frame.Header)
	clear  bool                // an AUTH that is not sealed
	wire   func([]byte) []byte // after sealing
}

func (f flight) edit(tlvs []frame.TLV) []byte {
	if f.tlvs != nil {
		tlvs = f.tlvs(tlvs)
	}
	var b []byte
	for _, tlv := range tlvs {
		b = frame.AppendTLV(b, tlv.Type, tlv.Value)
	}
	return b
}

func (f flight) finish(h frame.Header, b []byte) []byte {
	if f.wire != nil {
		return f.wire(b)
	}
	return b
}

// writeHello sends a HELLO flight.
func (f *faker) writeHello(typ frame.Type, tlvs []frame.TLV) error {
	if f.stall == "hello" {
		return nil
	}
	payload := f.hello.edit(tlvs)
	f.transcript.AddFrame(typ, payload)
	h := frame.Header{Type: typ, PayloadLen: uint32(len(payload))}
	if f.hello.header != nil {
		f.hello.header(&h)
	}
	return f.write(f.hello.finish(h, append(frame.AppendHeader(nil, h), payload...)))
}

// writeProof sends an AUTH flight.
func (f *faker) writeProof(typ frame.Type) error {
	if f.stall == "auth" {
		return nil
	}
	d := direction(f.client)
	identity := f.identity
	if identity == nil {
		identity = f.cfg.Identity.Public().(ed25519.PublicKey)
	}
	f.transcript.AddType(typ)
	f.transcript.AddTLV(frame.TagIdentityKey, identity)
	proof := keys.SignCertVerify(f.signGen, f.signAs, f.transcript.Sum(), f.cfg.Identity)
	binary.BigEndian.PutUint16(proof, f.scheme)
	if f.proof != nil {
		proof = f.proof(proof)
	}
	f.transcript.AddTLV(frame.TagCertVerify, proof)
	mac := f.secrets.Finished(d, f.transcript.Sum())
	f.transcript.AddTLV(frame.TagFinished, mac)
	plain := f.auth.edit([]frame.TLV{{Type: frame.TagIdentityKey, Value: identity},
		{Type: frame.TagCertVerify, Value: proof}, {Type: frame.TagFinished, Value: mac}})
	h := frame.Header{Flags: frame.FlagENC, Type: typ}
	if f.auth.header != nil {
		f.auth.header(&h)
	}
	var b []byte
	if f.auth.clear {
		h.Flags, h.PayloadLen = 0, uint32(len(plain))
		b = append(frame.AppendHeader(nil, h), plain...)
	} else {
		b = f.send.SealFrame(append(make([]byte, frame.HeaderLen), plain...), 0, h)
	}
	return f.write(f.auth.finish(h, b))
}

// play does the whole handshake and then reads what our side says. It returns the
// code of an ERROR, 0 where the stream just ended.
func (f *faker) play() (code frame.ErrorCode, err error) {
	f.transcript = keys.NewTranscript(keys.SHA256)
	f.frames = frame.NewReader(f.conn, 0)
	if f.client {
		err = f.playClient()
	} else {
		err = f.playServer()
	}
	for err == nil {
		var h frame.Header
		var raw []byte
		if h, raw, err = f.frames.Next(); err != nil {
			break
		}
		if h.Type == frame.TypeError && h.Channel == frame.ChannelControl && f.receive != nil {
			plain, err := f.receive.OpenFrame(h, raw)
			if err != nil {
				return 0, err
			}
			want := uint64(0) // a client has not sent CLIENT_AUTH under the key
			if f.client {
				want = 1 // a server has sent SERVER_AUTH
			}
			if h.Seq != want || h.Flags != frame.FlagENC || len(plain) != 5 {
				return 0, errors.New("ERROR is not as it should be")
			}
			code = frame.ErrorCode(plain[2])
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return code, err
}

func (f *faker) playClient() error {
	private, err := keys.GenerateKEM()
	if err != nil {
		return err
	}
	if err := f.writeHello(frame.TypeClientHello, []frame.TLV{
		{Type: frame.TagProfileOffer, Value: []byte{1}},
		{Type: frame.TagKEMOffer, Value: []byte{0x11, 0xEC}},
		{Type: frame.TagSigOffer, Value: []byte{0x08, 0x07}},
		{Type: frame.TagAEADOffer, Value: []byte{0, 1, 0, 2}},
		{Type: frame.TagKEMShare, Value: private.Share()},
	}); err != nil {
		return err
	}
	reply, err := f.readClear(frame.TypeServerHello)
	if err != nil {
		return err
	}
	f.transcript.AddFrame(frame.TypeServerHello, reply)
	tlvs, err := exactTLVs(reply, frame.TagProfileSelect, frame.TagKEMSelect, frame.TagSigSelect,
		frame.TagAEADSelect, frame.TagKEMCiphertext)
	if err != nil {
		return err
	}
	f.suite = keys.Suite(binary.BigEndian.Uint16(tlvs[3]))
	secret, err := private.Decapsulate(tlvs[4])
	if err != nil {
		return err
	}
	if err := f.derive(secret); err != nil {
		return err
	}
	if err := f.readAuth(frame.TypeServerAuth); err != nil {
		return err
	}
	return f.writeProof(frame.TypeClientAuth)
}

func (f *faker) playServer() error {
	hello, err := f.readClear(frame.TypeClientHello)
	if err != nil {
		return err
	}
	f.transcript.AddFrame(frame.TypeClientHello, hello)
	tlvs, err := exactTLVs(hello, frame.TagProfileOffer, frame.TagKEMOffer, frame.TagSigOffer,
		frame.TagAEADOffer, frame.TagKEMShare)
	if err != nil {
		return err
	}
	ciphertext, secret, err := keys.Encapsulate(tlvs[4])
	if err != nil {
		return err
	}
	f.suite = keys.SuiteAES256GCM
	if err := f.writeHello(frame.TypeServerHello, []frame.TLV{
		{Type: frame.TagProfileSelect, Value: []byte{1}},
		{Type: frame.TagKEMSelect, Value: []byte{0x11, 0xEC}},
		{Type: frame.TagSigSelect, Value: []byte{0x08, 0x07}},
		{Type: frame.TagAEADSelect, Value: []byte{0, 1}},
		{Type: frame.TagKEMCiphertext, Value: ciphertext},
	}); err != nil {
		return err
	}
	if f.stall == "hello" {
		return nil
	}
	if err := f.derive(secret); err != nil {
		return err
	}
	if err := f.writeProof(frame.TypeServerAuth); err != nil {
		return err
	}
	if f.stall != "" {
		return nil
	}
	_, err = f.readSealed(frame.TypeClientAuth)
	if e := (*PeerError)(nil); errors.As(err, &e) {
		f.peer = []byte{byte(e.Code)}
	}
	return err
}

// fake plays a handshake in which change makes the other side go wrong. client
// says which side is ours. It returns the ERROR code we sent and our error.
func fake(t *testing.T, g *generation, client bool, change func(*faker), ours func(*Config)) (frame.ErrorCode, error) {
	t.Helper()
	p, q := net.Pipe()
	cfg := testConfig(1, []int{g.number})
	if ours != nil {
		ours(cfg)
	}
	other, err := testConfig(2, []int{g.number}).resolve()
	if err != nil {
		t.Fatal(err)
	}
	f := &faker{
		handshake: handshake{conn: q, gen: g, cfg: other, client: !client},
		signAs:    direction(!client),
		signGen:   g.number,
		scheme:    uint16(keys.SchemeEd25519),
	}
	change(f)
	var code frame.ErrorCode
	var ferr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer q.Close()
		code, ferr = f.play()
		if len(f.peer) == 1 {
			code, ferr = frame.ErrorCode(f.peer[0]), nil
		}
	})
	var a *Association
	if client {
		a, err = Client(t.Context(), p, cfg)
	} else {
		a, err = Server(t.Context(), p, cfg)
	}
	if err == nil {
		a.Close()
	}
	wg.Wait()
	if ferr != nil {
		t.Errorf("faker: %v", ferr)
	}
	return code, err
}

func setTLV(i int, value ...byte) func([]frame.TLV) []frame.TLV {
	return func(tlvs []frame.TLV) []frame.TLV { tlvs[i].Value = value; return tlvs }
}

// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-6-01, CORE-6-02, CORE-6-03, CORE-7.1-02
// Covers: CORE-8.1-01, CORE-8.1-02, CORE-8.4-01, CORE-8.4-02, CORE-8.4-03, CORE-8.4-04
// Covers: CORE-g3-02, CORE-g3-07, HB-4-01, C52, DASP-001-01, DASP-004-02
func TestHandshakeRefusals(t *testing.T) {
	const (
		server = 1 << iota // ours is refused things as server
		client
		both = server | client
	)
	drop := func(i int) func([]frame.TLV) []frame.TLV {
		return func(tlvs []frame.TLV) []frame.TLV { return append(tlvs[:i:i], tlvs[i+1:]...) }
	}
	swap := func(tlvs []frame.TLV) []frame.TLV { tlvs[0], tlvs[1] = tlvs[1], tlvs[0]; return tlvs }
	extra := func(tlvs []frame.TLV) []frame.TLV { return append(tlvs, frame.TLV{Type: 0x7F00}) }
	cut := func(n int) func([]frame.TLV) []frame.TLV {
		return func(tlvs []frame.TLV) []frame.TLV {
			last := &tlvs[len(tlvs)-1]
			last.Value = last.Value[:len(last.Value)-n]
			return tlvs
		}
	}
	lowOrder := func(tlvs []frame.TLV) []frame.TLV {
		last := tlvs[len(tlvs)-1].Value
		clear(last[len(last)-32:])
		return tlvs
	}
	// R and S of a signature that verifies for every text under a point of order 1.
	forge := func(proof []byte) []byte {
		clear(proof[2:])
		proof[2] = 1
		return proof
	}
	point := func(first, middle, last byte) []byte {
		b := bytes.Repeat([]byte{middle}, 32)
		b[0], b[31] = first, last
		return b
	}
	tests := []struct {
		name  string
		sides int
		fake  func(*faker)
		err   error
		code  frame.ErrorCode // in generation 3
	}{
		// HELLO flights: there is no key, so whatever is wrong ends in silence.
		{"hello checksum, magic wrong too", both, func(f *faker) { f.hello.wire = func(b []byte) []byte { b[0] = 'X'; return b } }, frame.ErrChecksum, 0},
		{"hello magic", both, func(f *faker) { f.hello.wire = reseal(func(b []byte) { b[0] = 'X' }) }, frame.ErrMagic, 0},
		{"hello version", both, func(f *faker) { f.hello.wire = reseal(func(b []byte) { b[4] = 0x10 }) }, frame.ErrVersion, 0},
		{"hello reserved octet", both, func(f *faker) { f.hello.wire = func(b []byte) []byte { b[35] = 1; return b } }, frame.ErrReserved, 0},
		{"hello longer than 4 KiB", both, func(f *faker) {
			f.hello.wire = func([]byte) []byte {
				return frame.AppendHeader(nil, frame.Header{Type: frame.TypeClientHello, PayloadLen: 4096 - 36 + 1})
			}
		}, errLong, 0},
		{"hello on another channel", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Channel = 1 } }, errChannel, 0},
		{"hello with sequence number 1", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Seq = 1 } }, errNumber, 0},
		{"hello with ENC", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Flags = frame.FlagENC } }, errFlags, 0},
		{"hello with COMP", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Flags = frame.FlagCOMP } }, errFlags, 0},
		{"hello of another type", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Type = 0x103 } }, errUnexpected, 0},
		{"the other side's hello", both, func(f *faker) { f.hello.header = func(h *frame.Header) { h.Type ^= 1 } }, errUnexpected, 0},
		{"hello without its first TLV", both, func(f *faker) { f.hello.tlvs = drop(0) }, errTLVs, 0},
		{"hello without its last TLV", both, func(f *faker) { f.hello.tlvs = drop(4) }, errTLVs, 0},
		{"hello with TLVs swapped", both, func(f *faker) { f.hello.tlvs = swap }, errTLVs, 0},
		{"hello with another TLV", both, func(f *faker) { f.hello.tlvs = extra }, errTLVs, 0},
		{"KEM octets one short", both, func(f *faker) { f.hello.tlvs = cut(1) }, keys.ErrKEMLength, 0},
		{"low-order X25519", both, func(f *faker) { f.hello.tlvs = lowOrder }, keys.ErrLowOrder, 0},

		{"profile 00 offered", server, func(f *faker) { f.hello.tlvs = setTLV(0, 0) }, errOffer, 0},
		{"profiles above Standard offered", server, func(f *faker) { f.hello.tlvs = setTLV(0, 2, 3) }, errOffer, 0},
		{"no profile offered", server, func(f *faker) { f.hello.tlvs = setTLV(0) }, errOffer, 0},
		{"other KEM offered", server, func(f *faker) { f.hello.tlvs = setTLV(1, 0x11, 0xED) }, errOffer, 0},
		{"half a KEM offered", server, func(f *faker) { f.hello.tlvs = setTLV(1, 0x11, 0xEC, 0x11) }, errOffer, 0},
		{"other scheme offered", server, func(f *faker) { f.hello.tlvs = setTLV(2, 9, 6) }, errOffer, 0},
		{"other suite offered", server, func(f *faker) { f.hello.tlvs = setTLV(3, 0, 3) }, errOffer, 0},
		{"no suite offered", server, func(f *faker) { f.hello.tlvs = setTLV(3) }, errOffer, 0},
		{"KEM share not reduced", server, func(f *faker) {
			f.hello.tlvs = func(tlvs []frame.TLV) []frame.TLV {
				copy(tlvs[4].Value, bytes.Repeat([]byte{0xFF}, 1184))
				return tlvs
			}
		}, keys.ErrKEMShare, 0},

		{"profile 00 selected", client, func(f *faker) { f.hello.tlvs = setTLV(0, 0) }, errSelect, 0},
		{"profile 04 selected", client, func(f *faker) { f.hello.tlvs = setTLV(0, 4) }, errSelect, 0},
		{"profile High selected", client, func(f *faker) { f.hello.tlvs = setTLV(0, 2) }, errSelect, 0},
		{"two profiles selected", client, func(f *faker) { f.hello.tlvs = setTLV(0, 1, 2) }, errTLVs, 0},
		{"other KEM selected", client, func(f *faker) { f.hello.tlvs = setTLV(1, 0x11, 0xED) }, errSelect, 0},
		{"other scheme selected", client, func(f *faker) { f.hello.tlvs = setTLV(2, 9, 5) }, errSelect, 0},
		{"unknown suite selected", client, func(f *faker) { f.hello.tlvs = setTLV(3, 0, 3) }, errSelect, 0},
		{"no suite selected", client, func(f *faker) { f.hello.tlvs = setTLV(3) }, errTLVs, 0},
		{"one suite twice", client, func(f *faker) { f.hello.tlvs = setTLV(3, 0, 1, 0, 1) }, nil, 0},
		{"two suites selected", client, func(f *faker) { f.hello.tlvs = setTLV(3, 0, 1, 0, 2) }, nil, 0},

		// AUTH flights: the peer is told in generation 3.
		{"auth checksum", both, func(f *faker) { f.auth.wire = func(b []byte) []byte { b[22] ^= 1; return b } }, frame.ErrChecksum, 1},
		{"auth longer than 4 KiB", both, func(f *faker) {
			f.auth.wire = func([]byte) []byte {
				return frame.AppendHeader(nil, frame.Header{Flags: frame.FlagENC, Type: 0x102, PayloadLen: 5000})
			}
		}, frame.ErrTooLong, 1},
		{"auth on another channel", both, func(f *faker) { f.auth.header = func(h *frame.Header) { h.Channel = 0x10 } }, errChannel, 1},
		{"auth with sequence number 1", both, func(f *faker) { f.auth.header = func(h *frame.Header) { h.Seq = 1 } }, errNumber, 1},
		{"auth with COMP", both, func(f *faker) { f.auth.header = func(h *frame.Header) { h.Flags |= frame.FlagCOMP } }, errFlags, 1},
		{"auth not sealed", both, func(f *faker) { f.auth.clear = true }, errFlags, 1},
		{"Discovery before auth", both, func(f *faker) {
			f.auth.header = func(h *frame.Header) { h.Channel, h.Type = 0x10, 0x100 }
		}, errChannel, 1},
		{"HELLO before auth", both, func(f *faker) { f.auth.header = func(h *frame.Header) { h.Type = frame.TypeHello } }, errUnexpected, 1},
		{"auth tag", both, func(f *faker) { f.auth.wire = func(b []byte) []byte { b[len(b)-1] ^= 1; return b } }, ErrAuthentication, 2},
		{"auth without CertVerify", both, func(f *faker) { f.auth.tlvs = drop(1) }, errTLVs, 1},
		{"auth without Finished", both, func(f *faker) { f.auth.tlvs = drop(2) }, errTLVs, 1},
		{"auth with TLVs swapped", both, func(f *faker) { f.auth.tlvs = swap }, errTLVs, 1},
		{"auth with another TLV", both, func(f *faker) { f.auth.tlvs = extra }, errTLVs, 1},
		{"CertVerify of scheme 0905", both, func(f *faker) { f.scheme = 0x0905 }, keys.ErrScheme, 2},
		{"CertVerify of scheme 0906", both, func(f *faker) { f.scheme = 0x0906 }, keys.ErrScheme, 2},
		{"CertVerify of the other role", both, func(f *faker) { f.signAs ^= 1 }, keys.ErrSignature, 2},
		{"CertVerify of the other generation", both, func(f *faker) { f.signGen ^= 1 }, keys.ErrSignature, 2},
		{"CertVerify corrupt", both, func(f *faker) { f.proof = func(b []byte) []byte { b[65] ^= 1; return b } }, keys.ErrSignature, 2},
		{"CertVerify short", both, func(f *faker) { f.proof = func(b []byte) []byte { return b[:65] } }, keys.ErrSignature, 2},
		{"Finished corrupt", both, func(f *faker) {
			f.auth.tlvs = func(tlvs []frame.TLV) []frame.TLV { tlvs[2].Value[31] ^= 1; return tlvs }
		}, keys.ErrFinished, 2},
		{"Finished short", both, func(f *faker) { f.auth.tlvs = cut(1) }, keys.ErrFinished, 2},
		{"another's identity", both, func(f *faker) { f.identity = testIdentity(9).Public().(ed25519.PublicKey) }, keys.ErrSignature, 2},
		{"identity of order 1", both, func(f *faker) { f.identity, f.proof = point(1, 0, 0), forge }, keys.ErrPublicKey, 2},
		{"identity of order 1, sign set", both, func(f *faker) { f.identity, f.proof = point(1, 0, 0x80), forge }, keys.ErrPublicKey, 2},
		{"identity not reduced", both, func(f *faker) { f.identity, f.proof = point(0xEE, 0xFF, 0x7F), forge }, keys.ErrPublicKey, 2},
		{"identity of 31 octets", both, func(f *faker) { f.identity = make([]byte, 31) }, keys.ErrPublicKey, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				if side := map[bool]int{true: 2, false: server}[client]; test.sides&side == 0 {
					return
				}
				code, err := fake(t, g, client, test.fake, nil)
				switch {
				case err == nil:
					t.Fatal("accepted")
				case test.err == nil:
					if !errors.Is(err, ErrHandshake) {
						t.Errorf("got %v, want ErrHandshake", err)
					}
				case !errors.Is(err, test.err):
					t.Errorf("got %v, want %v", err, test.err)
				}
				if !errors.Is(err, ErrHandshake) && !errors.Is(err, ErrAuthentication) {
					t.Errorf("%v is of no class", err)
				}
				if errors.Is(err, ErrAuthentication) != (test.code == 2) {
					t.Errorf("%v: authentication failure or not?", err)
				}
				want := test.code
				if g.number == 2 {
					want = 0
				}
				if code != want {
					t.Errorf("sent ERROR %d, want %d", code, want)
				}
			})
		})
	}
}

// Covers: CORE-8.1-01, C42
func TestHandshakeAccepts(t *testing.T) {
	tests := []struct {
		name string
		fake func(*faker)
	}{
		{"plain", func(*faker) {}},
		{"unknown entries in every offer, 4096 octets", func(f *faker) {
			f.hello.tlvs = func(tlvs []frame.TLV) []frame.TLV {
				tlvs[0].Value = []byte{4, 3, 2, 1, 0}
				tlvs[1].Value = []byte{0x11, 0xED, 0x11, 0xEC}
				tlvs[2].Value = []byte{9, 6, 8, 7}
				n := 36 + 5*4
				for i := range tlvs {
					if i != 3 {
						n += len(tlvs[i].Value)
					}
				}
				tlvs[3].Value = make([]byte, 4096-n-(4096-n)%2)
				tlvs[3].Value[1] = 2
				if (4096-n)%2 == 1 {
					tlvs[0].Value = append(tlvs[0].Value, 9)
				}
				return tlvs
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rows(t, func(t *testing.T, g *generation) {
				synctest.Test(t, func(t *testing.T) {
					if code, err := fake(t, g, false, test.fake, nil); err != nil || code != 0 {
						t.Errorf("%v, ERROR %d", err, code)
					}
				})
			})
		})
	}
}

// Covers: PEERHANDLE-4-01, CORE-g3-07
func TestVerifyPeer(t *testing.T) {
	no := errors.New("not on the list")
	bubble(t, func(t *testing.T, g *generation, client bool) {
		var asked ed25519.PublicKey
		code, err := fake(t, g, client, func(*faker) {}, func(c *Config) {
			c.VerifyPeer = func(k ed25519.PublicKey) error { asked = k; return no }
		})
		if !errors.Is(err, ErrAuthentication) || !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}
		if !asked.Equal(testIdentity(2).Public()) {
			t.Errorf("asked about %x", asked)
		}
		// A client that refuses a server has not sent CLIENT_AUTH: the faker reads
		// nothing, or the ERROR in its place.
		if want := frame.ErrorCode(2 * (g.number - 2)); code != want {
			t.Errorf("sent ERROR %d, want %d", code, want)
		}
	})
}

// Covers: CORE-g3-07, CORE-8.1-02
func TestClientAuthRefused(t *testing.T) {
	// The client is established when the server refuses it, and learns of it by the
	// end of the stream, or by ERROR under the handshake key in generation 3.
	rows(t, func(t *testing.T, g *generation) {
		for _, over := range []string{"pipe", "tls"} {
			t.Run(over, func(t *testing.T) {
				server := serverConfig(g.number)
				server.VerifyPeer = func(ed25519.PublicKey) error { return errors.New("no") }
				var c *Association
				var err error
				if over == "tls" {
					l, lerr := Listen("127.0.0.1:0", server)
					if lerr != nil {
						t.Fatal(lerr)
					}
					defer l.Close()
					c, err = Dial(t.Context(), l.Addr().String(), clientConfig(g.number))
				} else {
					p, q := net.Pipe()
					go Server(context.WithoutCancel(t.Context()), q, server)
					c, err = Client(t.Context(), p, clientConfig(g.number))
				}
				if err != nil {
					t.Fatal(err)
				}
				u := start(t, c)
				for range 50 {
					u.send(message{0x100, string(make([]byte, 1000))}) // what the server will not read
				}
				wantCause(t, c, ErrAuthentication)
				var pe *PeerError
				if err := c.Wait(); errors.As(err, &pe) {
					if !pe.Handshake || pe.Code != frame.CodeDecryptFailed {
						t.Errorf("got %v", err)
					}
				} else if g.number == 3 && over == "tls" {
					t.Errorf("got %v, want the server's ERROR", err)
				} else if errors.Is(err, io.EOF) {
					t.Error("not an orderly end")
				}
			})
		}
	})
}

// Covers: CORE-g3-01
func TestHandshakeKeyIsDropped(t *testing.T) {
	// After the server's first frame, ERROR under the handshake key is nothing.
	synctest.Test(t, func(t *testing.T) {
		a, r := withRogue(t, &generation3, true, nil)
		if a.in.handshake == nil {
			t.Fatal("the client does not keep the server's handshake key")
		}
		u := start(t, a)
		r.mustFire(shot{ch: onDiscovery, typ: 0x101, payload: "first"})
		u.want(t, "the first frame", message{0x101, "first"})
		r.mustFire(shot{ch: onControl, typ: frame.TypeError, seq: at(1), payload: "\xa2\x01\x02\x02\x40"})
		r.wantAlive("late ERROR")
		if a.Stats().Gap != 1 {
			t.Errorf("stats %+v", a.Stats())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a, _ := withRogue(t, &generation2, true, nil)
		if a.in.handshake != nil {
			t.Error("generation 2 has no ERROR to wait for")
		}
	})
}

// Covers: CORE-g3-02, C-limits
func TestHandshakeTimeout(t *testing.T) {
	for _, stall := range []string{"hello", "auth"} {
		t.Run(stall, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *generation, client bool) {
				began := time.Now()
				code, err := fake(t, g, client, func(f *faker) { f.stall = stall }, nil)
				if !errors.Is(err, ErrHandshakeTimeout) {
					t.Errorf("got %v", err)
				}
				if d := time.Since(began); d != defaultHandshakeTimeout {
					t.Errorf("took %v", d)
				}
				want := frame.ErrorCode(0)
				if g.number == 3 && stall == "auth" {
					want = frame.CodeHandshakeTimeout
				}
				if code != want {
					t.Errorf("sent ERROR %d, want %d", code, want)
				}
			})
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		bubble(t, func(t *testing.T, g *generation, client bool) {
			p, q := net.Pipe()
			defer q.Close()
			go io.Copy(io.Discard, q)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			_, err := over(ctx, p, testConfig(1, []int{g.number}), client)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// Covers: CORE-g3-02
func TestCancelledAtTheLastMoment(t *testing.T) {
	// What was cancelled before stop is not handed out, whatever the handshake did.
	synctest.Test(t, func(t *testing.T) {
		p, q := net.Pipe()
		defer q.Close()
		ctx, cancel := context.WithCancel(t.Context())
		stop, err := bound(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("stop: %v", err)
		}
		stop, err = bound(t.Context(), p)
		if err != nil || stop() != nil || stop() != nil {
			t.Errorf("%v", err)
		}
		go q.Write([]byte("x"))
		time.Sleep(time.Hour)
		if _, err := p.Read(make([]byte, 1)); err != nil {
			t.Errorf("the deadline stays: %v", err)
		}
	})
}

// A meddler changes CLIENT_HELLO on its way.
type meddler struct {
	net.Conn
	once sync.Once
}

func (m *meddler) Write(b []byte) (int, error) {
	m.once.Do(func() {
		b = bytes.Clone(b)
		i := bytes.Index(b, []byte{0, 0x0C, 0, 4, 0, 1, 0, 2})
		b[i+5], b[i+7] = 2, 1 // the client's order of the suites
	})
	return m.Conn.Write(b)
}

// Covers: CORE-8.4-05
func TestTranscriptBindsOffers(t *testing.T) {
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			p, q := net.Pipe()
			go Server(context.WithoutCancel(t.Context()), q, serverConfig(g.number))
			_, err := Client(t.Context(), &meddler{Conn: p}, clientConfig(g.number))
			if !errors.Is(err, ErrAuthentication) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// Covers: CORE-7.2-01, C52
func TestSuites(t *testing.T) {
	aes, chacha := keys.SuiteAES256GCM, keys.SuiteChaCha20Poly1305
	tests := []struct {
		client, server []keys.Suite
		want           keys.Suite // 0: none in common
	}{
		{nil, nil, aes},
		{[]keys.Suite{chacha, aes}, nil, aes},
		{nil, []keys.Suite{chacha, aes}, chacha},
		{[]keys.Suite{chacha}, nil, chacha},
		{[]keys.Suite{aes}, []keys.Suite{chacha}, 0},
	}
	for _, test := range tests {
		rows(t, func(t *testing.T, g *generation) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(g.number), serverConfig(g.number)
				cc.Suites, sc.Suites = test.client, test.server
				p, q := net.Pipe()
				var s *Association
				var wg sync.WaitGroup
				var serr error
				wg.Go(func() { s, serr = Server(t.Context(), q, sc) })
				c, err := Client(t.Context(), p, cc)
				wg.Wait()
				if test.want == 0 {
					if err == nil || !errors.Is(serr, ErrHandshake) {
						t.Fatal(err, serr)
					}
					return
				}
				if err != nil || serr != nil {
					t.Fatal(err, serr)
				}
				cu, su := start(t, c), start(t, s)
				cu.send(message{0x100, "sealed"})
				su.want(t, "a frame", message{0x100, "sealed"})
				if c.Info().Suite != test.want || s.Info().Suite != test.want {
					t.Errorf("%v, %v", c.Info().Suite, s.Info().Suite)
				}
				if !c.Info().PeerIdentity.Equal(sc.Identity.Public()) || !s.Info().PeerIdentity.Equal(cc.Identity.Public()) {
					t.Error("identities")
				}
			})
		})
	}
}
