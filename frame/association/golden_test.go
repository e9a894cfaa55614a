package association

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// dataFile reads a file of the shared data, or skips the test.
func dataFile(t *testing.T, name string, into any) {
	t.Helper()
	dir := os.Getenv("NPAMP_DATA")
	for up := "."; dir == ""; up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			dir = filepath.Join(up, "..", "shared", "data")
		}
		if len(up) > 64 {
			t.Fatal("no go.mod above")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		t.Skip("skipped: no corpus (NPAMP_DATA or ../shared/data)")
	}
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// octets is a hex string in JSON.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = hex.DecodeString(string(text))
	return err
}

// A recording is data/npamp-go-recorded.json, an association of a foreign
// implementation of generation 2.
type recording struct {
	Private struct {
		ClientIdentity octets `json:"client_identity_ed25519_seed"`
		ServerIdentity octets `json:"server_identity_ed25519_seed"`
		MLKEMSeed      octets `json:"client_mlkem768_seed_dz"`
		ClientX25519   octets `json:"client_x25519_private"`
		Encaps         octets `json:"server_mlkem768_encaps_randomness_m"`
		ServerX25519   octets `json:"server_x25519_private"`
	} `json:"private_inputs"`
	Handshake   struct{ Frames []recorded }
	Application struct{ Frames []recorded }
	Rekem       struct {
		Private struct {
			MLKEMSeed octets `json:"initiator_mlkem768_seed_dz"`
			X25519    octets `json:"initiator_x25519_private"`
			Encaps    octets `json:"responder_mlkem768_encaps_randomness_m"`
			Responder octets `json:"responder_x25519_private"`
		} `json:"private_inputs"`
	}
}

type recorded struct {
	N         int
	Dir       string
	Name      string
	Channel   frame.ChannelID
	Type      frame.Type
	Plaintext octets
	Wire      octets
}

// encapsulateWith is keys.Encapsulate with recorded randomness.
func encapsulateWith(t *testing.T, share, m, x25519 []byte) (ciphertext, secret []byte, err error) {
	ek, err := mlkem.NewEncapsulationKey768(share[:mlkem.EncapsulationKeySize768])
	if err != nil {
		return nil, nil, err
	}
	ss, ct, err := mlkemtest.Encapsulate768(ek, m)
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdh.X25519().NewPrivateKey(x25519)
	if err != nil {
		return nil, nil, err
	}
	peer, err := ecdh.X25519().NewPublicKey(share[mlkem.EncapsulationKeySize768:])
	if err != nil {
		return nil, nil, err
	}
	xs, err := private.ECDH(peer)
	if err != nil {
		return nil, nil, err
	}
	return append(ct, private.PublicKey().Bytes()...), append(ss, xs...), nil
}

// Covers: CORE-8.1-01, CORE-8.2-01, CORE-8.3-01, CORE-5-03, CORE-4.2-04, C51, HB-9-01, CONF-4-01
func TestRecordedAssociation(t *testing.T) {
	// Our side, as client and as server, with the recorded randomness: every octet
	// that it writes is the foreign implementation's, and it understands every octet
	// that the foreign one wrote.
	var rec recording
	dataFile(t, "npamp-go-recorded.json", &rec)
	for _, client := range []bool{true, false} {
		name := map[bool]string{true: "as client", false: "as server"}[client]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replay(t, &rec, client) })
		})
	}
}

func replay(t *testing.T, rec *recording, client bool) {
	seed, ours := rec.Private.ServerIdentity, "s2c"
	if client {
		seed, ours = rec.Private.ClientIdentity, "c2s"
	}
	cfg, err := (&Config{Identity: ed25519.NewKeyFromSeed(seed), Generations: []int{2},
		Suites: []keys.Suite{keys.SuiteAES256GCM}}).resolve()
	if err != nil {
		t.Fatal(err)
	}
	generated, encapsulated := 0, 0
	cfg.kem.generate = func() (*keys.KEMPrivate, error) {
		generated++
		if generated == 1 {
			return keys.NewKEMPrivate(rec.Private.MLKEMSeed, rec.Private.ClientX25519)
		}
		return keys.NewKEMPrivate(rec.Rekem.Private.MLKEMSeed, rec.Rekem.Private.X25519)
	}
	cfg.kem.encapsulate = func(share []byte) ([]byte, []byte, error) {
		encapsulated++
		if encapsulated == 1 {
			return encapsulateWith(t, share, rec.Private.Encaps, rec.Private.ServerX25519)
		}
		return encapsulateWith(t, share, rec.Rekem.Private.Encaps, rec.Rekem.Private.Responder)
	}

	p, q := net.Pipe()
	defer q.Close()
	q.SetDeadline(time.Now().Add(30 * time.Second))
	var a *Association
	var wg sync.WaitGroup
	wg.Go(func() {
		a, err = shake(t.Context(), p, cfg, &generation2, client)
	})
	play := func(f recorded) {
		t.Helper()
		if f.Dir != ours {
			if _, err := q.Write(f.Wire); err != nil {
				t.Fatalf("frame %d, %s: our side does not take it: %v", f.N, f.Name, err)
			}
			return
		}
		got := make([]byte, len(f.Wire))
		if _, err := io.ReadFull(q, got); err != nil || !bytes.Equal(got, f.Wire) {
			t.Fatalf("frame %d, %s: %v\n got %x\nwant %x", f.N, f.Name, err, got, f.Wire)
		}
	}
	for _, f := range rec.Handshake.Frames {
		play(f)
	}
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	u := start(t, a)
	for _, f := range rec.Application.Frames {
		application := f.Channel == frame.ChannelDiscovery && f.Type >= 0x100
		if f.Dir == ours {
			// Most of what the association itself says is an answer and comes by itself.
			switch {
			case application:
				u.send(message{f.Type, string(f.Plaintext)})
			case f.Type == frame.TypeKeyUpdate:
				err = a.KeyUpdate(f.Channel)
			case f.Type == frame.TypePing, f.Type == frame.TypeHello:
				err = a.order(orderFrame(a.channel(f.Channel), f.Type, f.Plaintext))
			case f.Channel == frame.ChannelControl && f.Type == frame.TypeMasterRatchet:
				err = a.Ratchet()
			case f.Channel == frame.ChannelControl && f.Type == frame.TypeRekem:
				err = a.Rekem()
			case f.Type == frame.TypeClose:
				// Ours goes over Control; the foreign one closed on 0x0010.
				err = a.order(orderFrame(a.channel(f.Channel), f.Type, nil))
			}
			if err != nil {
				t.Fatalf("frame %d, %s: %v", f.N, f.Name, err)
			}
		}
		play(f)
		if f.Dir != ours && application {
			u.want(t, f.Name, message{f.Type, string(f.Plaintext)})
		}
	}
	if client {
		// The CLOSE_ACK answers a CLOSE that Close did not send.
		synctest.Wait()
		if s := a.Stats(); s.Unsolicited != 1 || s.RatchetsOut != 1 || s.RatchetsIn != 1 || s.KeyUpdateAcks != 2 {
			t.Errorf("stats %+v", s)
		}
		return
	}
	wantCause(t, a, io.EOF)
	if s := a.Stats(); s.Unlisted != 1 || s.RatchetsIn != 1 || s.RatchetsOut != 1 || s.KeyUpdatesIn != 2 || s.Pongs != 1 {
		t.Errorf("stats %+v", s)
	}
}

// Covers: CORE-8.1-01, CORE-8.2-01, CORE-8.3-01, CONF-4-01, C61
func TestHandshakeFlowVector(t *testing.T) {
	type vector struct {
		Inputs struct {
			ClientIdentity octets `json:"client_identity_ed25519_seed"`
			ServerIdentity octets `json:"server_identity_ed25519_seed"`
			MLKEMSeed      octets `json:"mlkem768_seed_dz"`
			ClientX25519   octets `json:"client_x25519_private"`
			Ciphertext     octets `json:"mlkem_ciphertext"`
			Secret         octets `json:"combined_secret"`
		}
		Expected struct {
			Frames struct {
				CH octets `json:"client_hello"`
				SH octets `json:"server_hello"`
				SA octets `json:"server_auth"`
				CA octets `json:"client_auth"`
			}
			KEM struct {
				Ciphertext octets `json:"kem_ciphertext"`
			}
			Secrets struct {
				Master octets `json:"master_secret"`
			}
		}
	}
	for _, test := range []struct {
		file string
		gen  *generation
	}{
		{"vectors/handshake-flow-kat.json", &generation2},
		{"generation3/vectors/handshake-flow-kat.json", &generation3},
	} {
		t.Run(test.gen.alpn, func(t *testing.T) {
			var v vector
			dataFile(t, test.file, &v)
			for _, client := range []bool{true, false} {
				seed := v.Inputs.ServerIdentity
				if client {
					seed = v.Inputs.ClientIdentity
				}
				cfg, err := (&Config{Identity: ed25519.NewKeyFromSeed(seed),
					Suites: []keys.Suite{keys.SuiteAES256GCM}}).resolve()
				if err != nil {
					t.Fatal(err)
				}
				cfg.kem.generate = func() (*keys.KEMPrivate, error) {
					return keys.NewKEMPrivate(v.Inputs.MLKEMSeed, v.Inputs.ClientX25519)
				}
				cfg.kem.encapsulate = func([]byte) ([]byte, []byte, error) {
					return v.Expected.KEM.Ciphertext, bytes.Clone(v.Inputs.Secret), nil
				}
				p, q := net.Pipe()
				h := &handshake{conn: p, gen: test.gen, cfg: cfg, client: client}
				var wg sync.WaitGroup
				var herr error
				wg.Go(func() { herr = h.run() })
				q.SetDeadline(time.Now().Add(10 * time.Second))
				for i, wire := range []octets{v.Expected.Frames.CH, v.Expected.Frames.SH, v.Expected.Frames.SA, v.Expected.Frames.CA} {
					fromClient := i == 0 || i == 3
					if fromClient != client {
						if _, err := q.Write(wire); err != nil {
							t.Fatal(err)
						}
						continue
					}
					got := make([]byte, len(wire))
					if _, err := io.ReadFull(q, got); err != nil || !bytes.Equal(got, wire) {
						t.Fatalf("flight %d: %v\n got %x\nwant %x", i, err, got, wire)
					}
				}
				wg.Wait()
				if herr != nil || !bytes.Equal(h.master, v.Expected.Secrets.Master) {
					t.Errorf("%v, master %x", herr, h.master)
				}
				q.Close()
			}
		})
	}
}

// fixedPair returns an association of the generation with the master secret 00 … 1f
// of the golden frames, and the other end of its stream.
func fixedPair(t *testing.T, g *generation, client bool) (*Association, net.Conn) {
	t.Helper()
	cfg, err := testConfig(1, []int{g.number}).resolve()
	if err != nil {
		t.Fatal(err)
	}
	p, q := net.Pipe()
	h := &handshake{conn: p, gen: g, cfg: cfg, client: client, suite: keys.SuiteAES256GCM,
		frames: frame.NewReader(p, g.reserved), secrets: new(keys.HandshakeSecrets)}
	h.master = make([]byte, 32)
	for i := range h.master {
		h.master[i] = byte(i)
	}
	q.SetDeadline(time.Now().Add(10 * time.Second))
	a := newAssociation(h)
	t.Cleanup(func() { q.Close(); a.Close() })
	return a, q
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Covers: CORE-g3-03, CORE-g3-04, CORE-g3-05, CORE-g3-06, CORE-7.5-01, DISC-4.1-01
func TestGoldenFrames(t *testing.T) {
	// GENERATION 3's frames with bodies, and W2 and W4, computed twice elsewhere.
	const zeros = "0000000000000000000000"
	var (
		closeFrame = unhex(t, "4e50414d22000300000000000000000000000000106d0289f6"+zeros+"95a730dcc472aba9217052426f030230")
		closeAck   = unhex(t, "4e50414d22000400000000000000000000000000105e460c00"+zeros+"1dc0ded3ec4fa011b3bbb0ed346622f0")
		errorFrame = unhex(t, "4e50414d22000500000000000000000000000000150c39e51d"+zeros+"f097503da7a783c95a12378063492c39d37e03671a")
		keyUpdate  = unhex(t, "4e50414d220006001000000000000000000000001cdf0f2491"+zeros+"7d577404964c841a5c4222fbe63f333cd50ea9f486dd2bc22f920b21")
		flowUpdate = unhex(t, "4e50414d22000a0000000000000000000000000018b2165f23"+zeros+"db0e048b4aefd9e8841a43a214b7736f9d8e8dd4fcd8d20e")
		w2         = unhex(t, "4e50414d2201000010000000000000000000000018be53c6870000000000000000000000"+"df406d0d964dc51be07c91fc278614293229c82a8c81ab57")
		w4         = unhex(t, "4e50414d220101001000000000000000000000001c1e47ac990000000000000000000000"+"e38e3e1585df56b6f5298383368f6940a7267283ef04c06772ba249b")
		v1         = string(unhex(t, "a200190100014101"))
		v4         = string(unhex(t, "a400190101014101028003f5"))
	)
	read := func(t *testing.T, q net.Conn, why string, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(q, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v\n got %x\nwant %x", why, err, got, want)
		}
	}
	write := func(t *testing.T, q net.Conn, b []byte) {
		t.Helper()
		if _, err := q.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	bubbles := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	for _, g := range []*generation{&generation2, &generation3} {
		bubbles("W2 and W4 "+g.alpn, func(t *testing.T) {
			c, q := fixedPair(t, g, true)
			u := start(t, c)
			u.send(message{0x100, v1})
			read(t, q, "W2", w2)
			write(t, q, w4)
			u.want(t, "W4", message{0x101, v4})
		})
		bubbles("W2 and W4, server "+g.alpn, func(t *testing.T) {
			s, q := fixedPair(t, g, false)
			u := start(t, s)
			write(t, q, w2)
			u.want(t, "W2", message{0x100, v1})
			u.send(message{0x101, v4})
			read(t, q, "W4", w4)
		})
		bubbles("KEY_UPDATE "+g.alpn, func(t *testing.T) {
			c, q := fixedPair(t, g, true)
			start(t, c)
			if err := c.KeyUpdate(frame.ChannelDiscovery); err != nil {
				t.Fatal(err)
			}
			read(t, q, "KEY_UPDATE", keyUpdate)
			s, q := fixedPair(t, g, false)
			start(t, s)
			write(t, q, keyUpdate)
			read(t, q, "its ACK's header", unhex(t, "4e50414d2200070010000000000000000000"))
		})
	}
	bubbles("CLOSE", func(t *testing.T) {
		c, q := fixedPair(t, &generation3, true)
		start(t, c)
		done := make(chan error)
		go func() { done <- c.Close() }()
		read(t, q, "CLOSE", closeFrame)
		write(t, q, closeAck)
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	bubbles("CLOSE_ACK", func(t *testing.T) {
		s, q := fixedPair(t, &generation3, false)
		start(t, s)
		write(t, q, closeFrame)
		read(t, q, "CLOSE_ACK", closeAck)
		wantCause(t, s, io.EOF)
	})
	bubbles("ERROR", func(t *testing.T) {
		s, q := fixedPair(t, &generation3, false)
		u := start(t, s)
		u.t.Abort(frame.CodeUnexpectedMessage, io.ErrNoProgress)
		read(t, q, "ERROR", errorFrame)
		wantCause(t, s, io.ErrNoProgress)
		c, q := fixedPair(t, &generation3, true)
		start(t, c)
		write(t, q, errorFrame)
		var pe *PeerError
		if err := c.Wait(); !errors.As(err, &pe) || pe.Code != frame.CodeUnexpectedMessage {
			t.Errorf("got %v", err)
		}
	})
	bubbles("FLOW_UPDATE", func(t *testing.T) {
		s, q := fixedPair(t, &generation3, false)
		start(t, s)
		write(t, q, flowUpdate)
		synctest.Wait()
		if got := s.flow.peerLimit.Load(); got != 2<<20 {
			t.Errorf("limit %d", got)
		}
		c, q := fixedPair(t, &generation3, true)
		start(t, c)
		c.flow.limit.Store(2 << 20)
		c.flow.due.Store(true)
		c.signal()
		read(t, q, "FLOW_UPDATE", flowUpdate)
	})
}
