package keys

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/mlkem"
	"hash/crc32"
	"slices"
	"strconv"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/internal/corpus"
)

// A flow is one whole handshake, computed by this package from both ends'
// private inputs.
type flow struct {
	share, ciphertext, secret      []byte
	thKEM, thSID, thSCV, thCID     []byte
	thCCV                          []byte
	secrets                        *HandshakeSecrets
	master                         []byte
	serverAuth, clientAuth         []byte // plaintexts
	serverCV, clientCV             []byte
	serverFinished, clientFinished []byte
	frames                         [4][]byte // CLIENT_HELLO, SERVER_HELLO, SERVER_AUTH, CLIENT_AUTH
}

type flowInputs struct {
	generation                         int
	clientSeed, serverSeed             []byte // Ed25519
	clientMLKEM, clientX25519          []byte
	serverX25519                       []byte
	encaps                             func(*mlkem.EncapsulationKey768) (secret, ciphertext []byte)
	profiles, kems, schemes, aeadOffer []byte
}

// helloFrame is a cleartext flight of TLVs.
func helloFrame(typ frame.Type, payload []byte) []byte {
	return append(frame.AppendHeader(nil, frame.Header{Type: typ, PayloadLen: uint32(len(payload))}), payload...)
}

// sealed is a frame sealed by SealFrame, behind other octets to show that they
// stay as they are.
func sealed(t *testing.T, k *Key, h frame.Header, plaintext []byte) []byte {
	t.Helper()
	b := append([]byte("before"), make([]byte, frame.HeaderLen)...)
	b = k.SealFrame(append(b, plaintext...), len("before"), h)
	if !bytes.HasPrefix(b, []byte("before")) {
		t.Fatal("SealFrame wrote in front of the frame")
	}
	return b[len("before"):]
}

func runFlow(t *testing.T, in flowInputs) *flow {
	t.Helper()
	client, err := NewKEMPrivate(in.clientMLKEM, in.clientX25519)
	if err != nil {
		t.Fatal(err)
	}
	serverX, err := ecdh.X25519().NewPrivateKey(in.serverX25519)
	if err != nil {
		t.Fatal(err)
	}
	f := &flow{share: client.Share()}
	f.ciphertext, f.secret, err = encapsulate(f.share, serverX, in.encaps)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Decapsulate(f.ciphertext); err != nil || !bytes.Equal(got, f.secret) {
		t.Fatalf("client's KEM secret %x, %v, server's %x", got, err, f.secret)
	}
	tlvs := func(pairs ...any) (b []byte) {
		for i := 0; i < len(pairs); i += 2 {
			b = frame.AppendTLV(b, pairs[i].(uint16), pairs[i+1].([]byte))
		}
		return b
	}
	ch := tlvs(frame.TagProfileOffer, in.profiles, frame.TagKEMOffer, in.kems, frame.TagSigOffer, in.schemes,
		frame.TagAEADOffer, in.aeadOffer, frame.TagKEMShare, f.share)
	sh := tlvs(frame.TagProfileSelect, []byte{1}, frame.TagKEMSelect, []byte{0x11, 0xEC}, frame.TagSigSelect, []byte{8, 7},
		frame.TagAEADSelect, []byte{0, 1}, frame.TagKEMCiphertext, f.ciphertext)
	f.frames[0], f.frames[1] = helloFrame(frame.TypeClientHello, ch), helloFrame(frame.TypeServerHello, sh)

	tr := NewTranscript(SHA256)
	tr.AddFrame(frame.TypeClientHello, ch)
	tr.AddFrame(frame.TypeServerHello, sh)
	f.thKEM = tr.Sum()
	f.secrets = DeriveHandshake(SHA256, f.secret, f.thKEM)

	auth := func(typ frame.Type, d Direction, seed []byte) (thID, thCV, cv, fin, plaintext, wire []byte) {
		id := ed25519.NewKeyFromSeed(seed)
		pub := []byte(id.Public().(ed25519.PublicKey))
		tr.AddType(typ)
		tr.AddTLV(frame.TagIdentityKey, pub)
		thID = tr.Sum()
		cv = SignCertVerify(in.generation, d, thID, id)
		tr.AddTLV(frame.TagCertVerify, cv)
		thCV = tr.Sum()
		fin = f.secrets.Finished(d, thCV)
		tr.AddTLV(frame.TagFinished, fin)
		plaintext = tlvs(frame.TagIdentityKey, pub, frame.TagCertVerify, cv, frame.TagFinished, fin)
		key, err := f.secrets.Key(d, SuiteAES256GCM)
		if err != nil {
			t.Fatal(err)
		}
		wire = sealed(t, key, frame.Header{Flags: frame.FlagENC, Type: typ}, plaintext)
		return
	}
	f.thSID, f.thSCV, f.serverCV, f.serverFinished, f.serverAuth, f.frames[2] = auth(frame.TypeServerAuth, ServerToClient, in.serverSeed)
	f.thCID, f.thCCV, f.clientCV, f.clientFinished, f.clientAuth, f.frames[3] = auth(frame.TypeClientAuth, ClientToServer, in.clientSeed)
	f.master = f.secrets.Master(f.thCCV)
	return f
}

// openFrame parses, opens and returns the plaintext of a sealed frame.
func openFrame(t *testing.T, k *Key, wire []byte) []byte {
	t.Helper()
	raw := slices.Clone(wire)
	h, err := frame.ParseHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	plaintext, err := k.OpenFrame(h, raw)
	if err != nil {
		t.Fatalf("frame %x…: %v", wire[:frame.HeaderLen], err)
	}
	return plaintext
}

// Covers: CONF-4-01, CORE-8.1-01, CORE-8.2-01, CORE-8.3-01
func TestHandshakeFlowKAT(t *testing.T) {
	generations(t, func(t *testing.T, generation int, dir string) {
		var kat struct {
			In   map[string]string `json:"inputs"`
			Want struct {
				Auth       map[string]octets `json:"auth_plaintext"`
				CertVerify map[string]octets `json:"cert_verify"`
				Finished   map[string]octets
				FinKeys    map[string]octets `json:"finished_keys"`
				Frames     map[string]octets
				KEM        map[string]octets
				Secrets    map[string]octets
				Transcript map[string]octets
			} `json:"expected"`
		}
		corpus.ReadJSON(t, dir+"handshake-flow-kat.json", &kat)
		in := func(k string) []byte { return unhex(t, kat.In[k]) }
		w := &kat.Want

		t.Run("anchor", func(t *testing.T) {
			// The inputs are the standards' own of the KEM-wire file.
			var wire struct {
				Keygen struct{ D, Z octets } `json:"mlkem768_keygen"`
				X25519 struct {
					Alice  octets `json:"alice_private"`
					Bob    octets `json:"bob_private"`
					Shared octets `json:"shared_secret"`
				} `json:"x25519_rfc7748_6_1"`
			}
			corpus.ReadJSON(t, "vectors/kem-wire-kat.json", &wire)
			wantOctets(t, "ML-KEM seed", in("mlkem768_seed_dz"), slices.Concat(wire.Keygen.D, wire.Keygen.Z))
			wantOctets(t, "client X25519", in("client_x25519_private"), wire.X25519.Alice)
			wantOctets(t, "server X25519", in("server_x25519_private"), wire.X25519.Bob)
			wantOctets(t, "X25519 secret", in("x25519_shared_secret"), wire.X25519.Shared)
			wantOctets(t, "KEM secret", in("combined_secret"), slices.Concat(in("mlkem_shared_secret"), in("x25519_shared_secret")))
		})

		t.Run("oracle", func(t *testing.T) {
			dk, err := mlkem.NewDecapsulationKey768(in("mlkem768_seed_dz"))
			if err != nil {
				t.Fatal(err)
			}
			ss, err := dk.Decapsulate(in("mlkem_ciphertext"))
			if err != nil {
				t.Fatal(err)
			}
			wantOctets(t, "ML-KEM secret", ss, in("mlkem_shared_secret"))
			var o oracleTranscript
			payload := func(name string) []byte { return w.Frames[name][36:] }
			o.frameType(0x0100)
			o = append(o, payload("client_hello")...)
			o.frameType(0x0101)
			o = append(o, payload("server_hello")...)
			thKEM := o.sum()
			wantOctets(t, "th_kem", thKEM, w.Transcript["th_kem"])
			hs := oracleExtract(make([]byte, 32), in("combined_secret"))
			wantOctets(t, "handshake_secret", hs, w.Secrets["handshake_secret"])
			for i, role := range []string{"server", "client"} {
				d, short := byte(1-i), role[:1]
				base := oracleLabel(hs, short+" hs", thKEM, 32)
				wantOctets(t, role+" hs", base, w.Secrets[short+"_hs_secret"])
				finKey := oracleLabel(base, "finished", nil, 32)
				wantOctets(t, role+" finished key", finKey, w.FinKeys[role])
				id := ed25519.NewKeyFromSeed(in(role + "_identity_ed25519_seed"))
				o.frameType(0x0102 + uint16(i))
				o.tlv(0x09, id.Public().(ed25519.PublicKey))
				thID := o.sum()
				wantOctets(t, "th_"+short+"id", thID, w.Transcript["th_"+short+"id"])
				input := slices.Concat(bytes.Repeat([]byte{0x20}, 64), []byte("N-PAMP/"+strconv.Itoa(generation)+", "+role+" CertificateVerify"), []byte{0}, thID)
				cv := append([]byte{8, 7}, ed25519.Sign(id, input)...)
				wantOctets(t, role+" CertVerify", cv, w.CertVerify[role])
				o.tlv(0x0A, cv)
				wantOctets(t, "th_"+short+"cv", o.sum(), w.Transcript["th_"+short+"cv"])
				fin := oracleHMAC(finKey, o.sum())
				wantOctets(t, role+" Finished", fin, w.Finished[role])
				if role == "client" {
					wantOctets(t, "master", oracleLabel(hs, "master", o.sum(), 32), w.Secrets["master_secret"])
				}
				o.tlv(0x0B, fin)

				secret, key, iv := oracleTraffic(base, d, 0, 1, 0)
				wantOctets(t, role+" hs traffic secret", secret, w.Secrets[short+"_hs_traffic_secret"])
				wantOctets(t, role+" hs key", key, w.Secrets[short+"_hs_key"])
				wantOctets(t, role+" hs iv", iv, w.Secrets[short+"_hs_iv"])
				block, err := aes.NewCipher(key)
				if err != nil {
					t.Fatal(err)
				}
				gcm, err := cipher.NewGCM(block)
				if err != nil {
					t.Fatal(err)
				}
				plaintext := w.Auth[role+"_auth"]
				header := append([]byte("NPAM\x22\x01"), 2+byte(i), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(plaintext)+16))
				crc := crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli))
				wire := append(slices.Clone(header), byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc))
				wire = append(wire, make([]byte, 11)...)
				wantOctets(t, role+" AUTH", gcm.Seal(wire, iv, plaintext, header), w.Frames[role+"_auth"])
			}
		})

		f := runFlow(t, flowInputs{
			generation: generation,
			clientSeed: in("client_identity_ed25519_seed"), serverSeed: in("server_identity_ed25519_seed"),
			clientMLKEM: in("mlkem768_seed_dz"), clientX25519: in("client_x25519_private"), serverX25519: in("server_x25519_private"),
			encaps: func(*mlkem.EncapsulationKey768) ([]byte, []byte) {
				return in("mlkem_shared_secret"), in("mlkem_ciphertext")
			},
			profiles: []byte{1}, kems: []byte{0x11, 0xEC}, schemes: []byte{8, 7}, aeadOffer: []byte{0, 1},
		})
		t.Run("implementation", func(t *testing.T) {
			wantOctets(t, "KEM share", f.share, w.KEM["kem_share"])
			wantOctets(t, "KEM ciphertext", f.ciphertext, w.KEM["kem_ciphertext"])
			wantOctets(t, "KEM secret", f.secret, in("combined_secret"))
			for name, got := range map[string][]byte{"th_kem": f.thKEM, "th_sid": f.thSID, "th_scv": f.thSCV, "th_cid": f.thCID, "th_ccv": f.thCCV} {
				wantOctets(t, name, got, w.Transcript[name])
			}
			wantOctets(t, "handshake secret", f.secrets.Handshake, w.Secrets["handshake_secret"])
			wantOctets(t, "c hs", f.secrets.Client, w.Secrets["c_hs_secret"])
			wantOctets(t, "s hs", f.secrets.Server, w.Secrets["s_hs_secret"])
			wantOctets(t, "master", f.master, w.Secrets["master_secret"])
			wantOctets(t, "client's Finished key", f.secrets.FinishedKey(ClientToServer), w.FinKeys["client"])
			wantOctets(t, "server's Finished key", f.secrets.FinishedKey(ServerToClient), w.FinKeys["server"])
			wantOctets(t, "SERVER_AUTH", f.serverAuth, w.Auth["server_auth"])
			wantOctets(t, "CLIENT_AUTH", f.clientAuth, w.Auth["client_auth"])
			wantOctets(t, "server's CertVerify", f.serverCV, w.CertVerify["server"])
			wantOctets(t, "client's CertVerify", f.clientCV, w.CertVerify["client"])
			wantOctets(t, "server's Finished", f.serverFinished, w.Finished["server"])
			wantOctets(t, "client's Finished", f.clientFinished, w.Finished["client"])
			for i, name := range []string{"client_hello", "server_hello", "server_auth", "client_auth"} {
				wantOctets(t, name, f.frames[i], w.Frames[name])
			}
			for name, d := range map[string]Direction{"app_c2s": ClientToServer, "app_s2c": ServerToClient} {
				// The file's application keys are those of Control, epoch 0.
				secret := TrafficSecret(SHA256, f.master, d, 0, SuiteAES256GCM, frame.ChannelControl)
				key, iv := TrafficKeyIV(SHA256, secret)
				wantOctets(t, name+" traffic secret", secret, w.Secrets[name+"_traffic_secret"])
				wantOctets(t, name+" key", key, w.Secrets[name+"_key"])
				wantOctets(t, name+" iv", iv, w.Secrets[name+"_iv"])
			}
			for d, want := range map[Direction]string{ServerToClient: "server_auth", ClientToServer: "client_auth"} {
				key, err := f.secrets.Key(d, SuiteAES256GCM)
				if err != nil {
					t.Fatal(err)
				}
				wantOctets(t, want+" opened", openFrame(t, key, w.Frames[want]), w.Auth[want])
			}
		})
	})
}
