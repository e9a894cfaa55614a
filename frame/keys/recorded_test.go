package keys

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"encoding/binary"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/internal/corpus"
)

type recordedFrame struct {
	N                         int
	Dir, Name                 string
	Channel, Type, Flags, Seq uint64
	Generation, Epoch         uint64 // generation of the ratchet
	Key, IV, Nonce, AAD       octets
	Plaintext, Payload, Wire  octets
}

func (f *recordedFrame) dir() Direction {
	if f.Dir == "c2s" {
		return ClientToServer
	}
	return ServerToClient
}

// encapsWith is ML-KEM encapsulation with recorded randomness.
func encapsWith(t *testing.T, m []byte) func(*mlkem.EncapsulationKey768) (secret, ciphertext []byte) {
	return func(ek *mlkem.EncapsulationKey768) (secret, ciphertext []byte) {
		secret, ciphertext, err := mlkemtest.Encapsulate768(ek, m)
		if err != nil {
			t.Fatal(err)
		}
		return secret, ciphertext
	}
}

// A foreign implementation's association, from its private inputs alone: every
// secret, both HELLO flights, and all sealed frames in the order they were
// written, opened and sealed again to the octet, over key updates and both tiers
// of the ratchet.
//
// Covers: CORE-5-03, CORE-7.5-01, CORE-8.1-01, CORE-8.2-01, CORE-8.3-01
func TestRecordedAssociation(t *testing.T) {
	var rec struct {
		Private   map[string]octets `json:"private_inputs"`
		Handshake struct {
			Frames  []recordedFrame
			Hashes  map[string]octets `json:"transcript_hashes"`
			Secrets map[string]octets
		}
		Application struct {
			Roots []struct {
				Dir  string
				Gen  uint64
				Root octets
			}
			Keys []struct {
				Dir                        string
				Generation, Channel, Epoch uint64
				TrafficSecret              octets `json:"traffic_secret"`
				Key, IV                    octets
			}
			Frames []recordedFrame
		}
		Rekem struct {
			Private    map[string]octets `json:"private_inputs"`
			MLKEM      octets            `json:"mlkem_shared_secret"`
			X25519     octets            `json:"x25519_shared_secret"`
			Transcript octets            `json:"th_rekem"`
		}
	}
	corpus.ReadJSON(t, "npamp-go-recorded.json", &rec)
	p := rec.Private

	f := runFlow(t, flowInputs{
		generation: 2,
		clientSeed: p["client_identity_ed25519_seed"], serverSeed: p["server_identity_ed25519_seed"],
		clientMLKEM: p["client_mlkem768_seed_dz"], clientX25519: p["client_x25519_private"], serverX25519: p["server_x25519_private"],
		encaps:   encapsWith(t, p["server_mlkem768_encaps_randomness_m"]),
		profiles: []byte{1}, kems: []byte{0x11, 0xEC}, schemes: []byte{8, 7}, aeadOffer: []byte{0, 1},
	})
	s := rec.Handshake.Secrets
	wantOctets(t, "KEM secret", f.secret, append(bytes.Clone(s["mlkem_shared_secret"]), s["x25519_shared_secret"]...))
	for name, got := range map[string][]byte{"handshake_secret": f.secrets.Handshake, "c_hs_secret": f.secrets.Client, "s_hs_secret": f.secrets.Server,
		"master": f.master, "c_finished_key": f.secrets.FinishedKey(ClientToServer), "s_finished_key": f.secrets.FinishedKey(ServerToClient)} {
		wantOctets(t, name, got, s[name])
	}
	for _, d := range []Direction{ClientToServer, ServerToClient} {
		short := map[Direction]string{ClientToServer: "c", ServerToClient: "s"}[d]
		secret := TrafficSecret(SHA256, f.secrets.base(d), d, 0, SuiteAES256GCM, frame.ChannelControl)
		key, iv := TrafficKeyIV(SHA256, secret)
		wantOctets(t, short+"_hs_traffic_secret", secret, s[short+"_hs_traffic_secret"])
		wantOctets(t, short+"_hs_key", key, s[short+"_hs_key"])
		wantOctets(t, short+"_hs_iv", iv, s[short+"_hs_iv"])
	}
	for name, got := range map[string][]byte{"th_kem": f.thKEM, "th_sid": f.thSID, "th_scv": f.thSCV, "th_cid": f.thCID, "th_ccv": f.thCCV} {
		wantOctets(t, name, got, rec.Handshake.Hashes[name])
	}
	if len(rec.Handshake.Frames) != 4 {
		t.Fatalf("%d handshake frames, want 4", len(rec.Handshake.Frames))
	}
	opened := 0
	for i, r := range rec.Handshake.Frames {
		wantOctets(t, r.Name, f.frames[i], r.Wire)
		if r.Flags&uint64(frame.FlagENC) == 0 {
			wantOctets(t, r.Name+" payload", f.frames[i][frame.HeaderLen:], r.Payload)
			continue
		}
		key, err := f.secrets.Key(r.dir(), SuiteAES256GCM)
		if err != nil {
			t.Fatal(err)
		}
		wantOctets(t, r.Name+" plaintext", openFrame(t, key, r.Wire), r.Plaintext)
		opened++
	}

	// Roots of both directions, generation by generation.
	roots := map[string][][]byte{"c2s": {f.master}, "s2c": {f.master}}
	roots["c2s"] = append(roots["c2s"], RatchetStep(SHA256, f.master, 1))
	rp := rec.Rekem.Private
	initiator, err := NewKEMPrivate(rp["initiator_mlkem768_seed_dz"], rp["initiator_x25519_private"])
	if err != nil {
		t.Fatal(err)
	}
	responder, err := ecdh.X25519().NewPrivateKey(rp["responder_x25519_private"])
	if err != nil {
		t.Fatal(err)
	}
	ct, secret, err := encapsulate(initiator.Share(), responder, encapsWith(t, rp["responder_mlkem768_encaps_randomness_m"]))
	if err != nil {
		t.Fatal(err)
	}
	wantOctets(t, "re-KEM secret", secret, append(bytes.Clone(rec.Rekem.MLKEM), rec.Rekem.X25519...))
	th := RekemTranscript(SHA256, initiator.Share(), ct, 1)
	wantOctets(t, "th_rekem", th, rec.Rekem.Transcript)
	roots["s2c"] = append(roots["s2c"], RekemStep(SHA256, f.master, secret, th))
	for _, r := range rec.Application.Roots {
		wantOctets(t, "root", roots[r.Dir][r.Gen], r.Root)
	}

	for _, k := range rec.Application.Keys {
		d := ClientToServer
		if k.Dir == "s2c" {
			d = ServerToClient
		}
		ts := TrafficSecret(SHA256, roots[k.Dir][k.Generation], d, k.Epoch, SuiteAES256GCM, frame.ChannelID(k.Channel))
		key, iv := TrafficKeyIV(SHA256, ts)
		wantOctets(t, "traffic secret", ts, k.TrafficSecret)
		wantOctets(t, "key", key, k.Key)
		wantOctets(t, "iv", iv, k.IV)
	}

	// State of one direction, moved by what is read in its own frames alone.
	type space struct{ epoch, seq uint64 }
	generation := map[string]uint64{}
	spaces := map[string]map[frame.ChannelID]*space{"c2s": {}, "s2c": {}}
	types := map[frame.Type]int{}
	for _, r := range rec.Application.Frames {
		ch, typ := frame.ChannelID(r.Channel), frame.Type(r.Type)
		sp := spaces[r.Dir][ch]
		if sp == nil {
			sp = new(space)
			spaces[r.Dir][ch] = sp
		}
		if r.Generation != generation[r.Dir] || r.Epoch != sp.epoch || r.Seq != sp.seq {
			t.Fatalf("frame %d: generation %d, epoch %d, seq %d, want %d, %d, %d", r.N, r.Generation, r.Epoch, r.Seq, generation[r.Dir], sp.epoch, sp.seq)
		}
		key, err := NewTrafficKey(SHA256, roots[r.Dir][generation[r.Dir]], r.dir(), sp.epoch, SuiteAES256GCM, ch)
		if err != nil {
			t.Fatal(err)
		}
		var iv [NonceLen]byte
		copy(iv[:], r.IV)
		nonce := Nonce(iv, r.Seq)
		wantOctets(t, "nonce", nonce[:], r.Nonce)
		wantOctets(t, "AAD", r.Wire[:frame.AADLen], r.AAD)
		plaintext := openFrame(t, key, r.Wire)
		if !bytes.Equal(plaintext, r.Plaintext) {
			t.Errorf("frame %d %s opened to %x, want %x", r.N, r.Name, plaintext, r.Plaintext)
		}
		h := frame.Header{Flags: frame.Flags(r.Flags), Type: typ, Channel: ch, Seq: r.Seq}
		wantOctets(t, r.Name+" sealed again", sealed(t, key, h, r.Plaintext), r.Wire)
		if name := frame.TypeName(ch, typ); name != r.Name {
			t.Errorf("frame %d is %s to us, %s in the recording", r.N, name, r.Name)
		}
		opened++
		sp.seq++
		types[typ]++
		switch {
		case typ == frame.TypeKeyUpdate:
			tlv, _, err := frame.ParseTLV(plaintext)
			if err != nil || tlv.Type != frame.TagKeyUpdateMarker {
				t.Fatalf("frame %d: KEY_UPDATE %x", r.N, plaintext)
			}
			sp.epoch, sp.seq = binary.BigEndian.Uint64(tlv.Value), 0
		case ch == frame.ChannelControl && (typ == frame.TypeMasterRatchet || typ == frame.TypeRekemAck):
			generation[r.Dir]++
			clear(spaces[r.Dir])
		case ch == frame.ChannelControl && typ == frame.TypeRekem:
			tlv, _, _ := frame.ParseTLV(plaintext)
			wantOctets(t, "share in REKEM", tlv.Value, initiator.Share())
		}
		if ch == frame.ChannelControl && typ == frame.TypeRekemAck {
			tlv, _, _ := frame.ParseTLV(plaintext)
			wantOctets(t, "ciphertext in REKEM_ACK", tlv.Value, ct)
			got, err := initiator.Decapsulate(tlv.Value)
			if err != nil {
				t.Fatal(err)
			}
			wantOctets(t, "re-KEM secret of the initiator", got, secret)
		}
	}
	if opened != 30 || types[frame.TypeKeyUpdate] != 3 || generation["c2s"] != 1 || generation["s2c"] != 1 {
		t.Errorf("%d sealed frames, %d key updates, generations %v; the recording has 30, 3 and one of each", opened, types[frame.TypeKeyUpdate], generation)
	}
}
