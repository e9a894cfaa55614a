package keys

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/mlkem"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/internal/corpus"
)

// The handshake-layer known-answer tests run in three legs each: the anchor
// checks the primitive against a published standard, the oracle computes the
// file's values from the standard library, and the implementation is this
// package. Both crypto generations use the same files for transcript, key
// schedule, Finished and KEM; CertVerify and the handshake flow have one each.

// Covers: CONF-4-01, CORE-8.2-01
func TestTranscriptKAT(t *testing.T) {
	var kat struct {
		FIPS180 struct {
			Input  string `json:"input_ascii"`
			Digest octets
		} `json:"fips180_4_sha256_abc"`
		Frames []struct {
			Type string `json:"frame_type"`
			TLVs []struct {
				Type  string
				Value octets
			}
		}
		Expected map[string]octets `json:"expected_transcript_points"`
	}
	corpus.ReadJSON(t, "vectors/transcript-kat.json", &kat)
	code := func(s string) uint16 {
		v, err := strconv.ParseUint(s, 0, 16)
		if err != nil {
			t.Fatal(err)
		}
		return uint16(v)
	}
	points := func(add func(typ uint16), tlv func(typ uint16, v []byte), sum func() []byte) map[string][]byte {
		got := make(map[string][]byte)
		names := map[string]string{"0x0101 4": "th_kem", "0x0102 0": "th_sid", "0x0102 1": "th_scv", "0x0103 0": "th_cid", "0x0103 1": "th_ccv"}
		for _, f := range kat.Frames {
			add(code(f.Type))
			for i, v := range f.TLVs {
				tlv(code(v.Type), v.Value)
				if name := names[f.Type+" "+strconv.Itoa(i)]; name != "" {
					got[name] = sum()
				}
			}
		}
		return got
	}
	check := func(t *testing.T, got map[string][]byte) {
		t.Helper()
		if len(got) != 5 || len(kat.Expected) != 5 {
			t.Fatalf("%d points computed, %d in the file, want 5", len(got), len(kat.Expected))
		}
		for name, want := range kat.Expected {
			wantOctets(t, name, got[name], want)
		}
	}
	t.Run("anchor", func(t *testing.T) {
		sum := sha256.Sum256([]byte(kat.FIPS180.Input))
		wantOctets(t, "SHA-256 of FIPS 180-4", sum[:], kat.FIPS180.Digest)
	})
	t.Run("oracle", func(t *testing.T) {
		var o oracleTranscript
		check(t, points(o.frameType, o.tlv, func() []byte { return o.sum() }))
	})
	t.Run("implementation", func(t *testing.T) {
		tr := NewTranscript(SHA256)
		check(t, points(func(typ uint16) { tr.AddType(frame.Type(typ)) }, tr.AddTLV, tr.Sum))

		// By whole payload, as the HELLO flights are absorbed.
		tr = NewTranscript(SHA256)
		for _, f := range kat.Frames[:2] {
			var tlvs []byte
			for _, v := range f.TLVs {
				tlvs = frame.AppendTLV(tlvs, code(v.Type), v.Value)
			}
			tr.AddFrame(frame.Type(code(f.Type)), tlvs)
		}
		wantOctets(t, "th_kem by AddFrame", tr.Sum(), kat.Expected["th_kem"])
	})
	t.Run("negative", func(t *testing.T) {
		// Two TLVs swapped, or another frame type, give another hash.
		swapped := slices.Clone(kat.Frames[0].TLVs)
		swapped[0], swapped[1] = swapped[1], swapped[0]
		a, b := NewTranscript(SHA256), NewTranscript(SHA256)
		for i := range swapped {
			a.AddTLV(code(kat.Frames[0].TLVs[i].Type), kat.Frames[0].TLVs[i].Value)
			b.AddTLV(code(swapped[i].Type), swapped[i].Value)
		}
		if string(a.Sum()) == string(b.Sum()) {
			t.Error("TLVs swapped, same transcript")
		}
	})
}

// Covers: CONF-4-01, CORE-7.4-01, CORE-7.5-01, CORE-8.3-01
func TestKeyScheduleKAT(t *testing.T) {
	var kat struct {
		RFC8448 struct {
			Secret   octets `json:"client_handshake_traffic_secret"`
			Key      octets `json:"write_key"`
			IV       octets `json:"write_iv"`
			Finished octets `json:"finished_key"`
		} `json:"rfc8448_expand_label"`
		RFC5869 struct {
			IKM, Salt, Info, PRK, OKM octets
			L                         int
		} `json:"rfc5869_tc1"`
		In struct {
			Prefix string `json:"label_prefix"`
			MLKEM  octets `json:"ikm_mlkem_ss"`
			X25519 octets `json:"ikm_x25519_ss"`
			THKEM  octets `json:"th_kem"`
			THCCV  octets `json:"th_ccv"`
		} `json:"npamp_inputs"`
	}
	corpus.ReadJSON(t, "vectors/key-schedule-kat.json", &kat)

	t.Run("anchor", func(t *testing.T) {
		a, e := kat.RFC8448, kat.RFC5869
		wantOctets(t, "oracle: RFC 5869 Extract", oracleExtract(e.Salt, e.IKM), e.PRK)
		wantOctets(t, "oracle: RFC 5869 Expand", oracleExpand(e.PRK, e.Info, e.L), e.OKM)
		wantOctets(t, "oracle: RFC 8448 key", oracleExpandLabel("tls13 ", a.Secret, "key", nil, 16), a.Key)
		wantOctets(t, "oracle: RFC 8448 iv", oracleExpandLabel("tls13 ", a.Secret, "iv", nil, 12), a.IV)
		wantOctets(t, "oracle: RFC 8448 finished", oracleExpandLabel("tls13 ", a.Secret, "finished", nil, 32), a.Finished)

		prk, err := Extract(SHA256, e.IKM, e.Salt)
		if err != nil {
			t.Fatal(err)
		}
		wantOctets(t, "RFC 5869 Extract", prk, e.PRK)
		okm, err := Expand(SHA256, e.PRK, e.Info, e.L)
		if err != nil {
			t.Fatal(err)
		}
		wantOctets(t, "RFC 5869 Expand", okm, e.OKM)
		if kat.In.Prefix != labelPrefix {
			t.Errorf("label prefix %q, want %q", labelPrefix, kat.In.Prefix)
		}
	})

	// The file holds no results, so that oracle and implementation meet here.
	ikm := slices.Concat(kat.In.MLKEM, kat.In.X25519)
	want := make(map[string][]byte)
	hs := oracleExtract(make([]byte, 32), ikm)
	want["handshake"] = hs
	want["c hs"] = oracleLabel(hs, "c hs", kat.In.THKEM, 32)
	want["s hs"] = oracleLabel(hs, "s hs", kat.In.THKEM, 32)
	want["master"] = oracleLabel(hs, "master", kat.In.THCCV, 32)
	want["finished c2s"] = oracleLabel(want["c hs"], "finished", nil, 32)
	want["finished s2c"] = oracleLabel(want["s hs"], "finished", nil, 32)

	got := DeriveHandshake(SHA256, ikm, kat.In.THKEM)
	t.Run("implementation", func(t *testing.T) {
		for name, v := range map[string][]byte{"handshake": got.Handshake, "c hs": got.Client, "s hs": got.Server, "master": got.Master(kat.In.THCCV),
			"finished c2s": got.FinishedKey(ClientToServer), "finished s2c": got.FinishedKey(ServerToClient)} {
			wantOctets(t, name, v, want[name])
		}
		for _, parent := range []string{"c hs", "s hs", "master"} {
			for d := range Direction(2) {
				for _, ch := range []frame.ChannelID{frame.ChannelControl, frame.ChannelDiscovery} {
					for epoch := range byte(2) {
						for suite := byte(1); suite <= 2; suite++ {
							secret, key, iv := oracleTraffic(want[parent], byte(d), epoch, suite, byte(ch))
							s := TrafficSecret(SHA256, want[parent], d, uint64(epoch), Suite(suite), ch)
							k, i := TrafficKeyIV(SHA256, s)
							wantOctets(t, "traffic secret", s, secret)
							wantOctets(t, "key", k, key)
							wantOctets(t, "iv", i, iv)
						}
					}
				}
			}
		}
	})
	t.Run("negative", func(t *testing.T) {
		reversed := DeriveHandshake(SHA256, slices.Concat(kat.In.X25519, kat.In.MLKEM), kat.In.THKEM)
		if string(reversed.Handshake) == string(want["handshake"]) {
			t.Error("X25519 first gives the same secret")
		}
		if string(oracleExpandLabel("tls13 ", hs, "c hs", kat.In.THKEM, 32)) == string(got.Client) {
			t.Error("prefix \"tls13 \" gives the same secret")
		}
	})
	t.Run("erase", func(t *testing.T) {
		got.Erase()
		for _, s := range [][]byte{got.Handshake, got.Client, got.Server} {
			wantOctets(t, "erased secret", s, make([]byte, 32))
		}
	})
}

// Covers: CONF-4-01, CORE-8.4-03
func TestFinishedKAT(t *testing.T) {
	type hmacCase struct {
		Key, Data octets
		MAC       octets `json:"hmac_sha256"`
	}
	var kat struct {
		RFC4231 struct{ TC1, TC2 hmacCase } `json:"rfc4231_hmac_sha256"`
		In      map[string]any              `json:"npamp_inputs"`
		Want    struct {
			Client octets `json:"verify_data_client"`
			Server octets `json:"verify_data_server"`
		} `json:"expected"`
	}
	corpus.ReadJSON(t, "vectors/finished-kat.json", &kat)
	in := func(k string) []byte { return unhex(t, kat.In[k].(string)) }
	t.Run("anchor", func(t *testing.T) {
		for _, c := range []hmacCase{kat.RFC4231.TC1, kat.RFC4231.TC2} {
			wantOctets(t, "oracle: HMAC of RFC 4231", oracleHMAC(c.Key, c.Data), c.MAC)
			wantOctets(t, "HMAC of RFC 4231", FinishedMAC(SHA256, c.Key, c.Data), c.MAC)
		}
	})
	t.Run("oracle", func(t *testing.T) {
		wantOctets(t, "client", oracleHMAC(in("finished_key_client"), in("th_ccv")), kat.Want.Client)
		wantOctets(t, "server", oracleHMAC(in("finished_key_server"), in("th_scv")), kat.Want.Server)
	})
	t.Run("implementation", func(t *testing.T) {
		wantOctets(t, "client", FinishedMAC(SHA256, in("finished_key_client"), in("th_ccv")), kat.Want.Client)
		wantOctets(t, "server", FinishedMAC(SHA256, in("finished_key_server"), in("th_scv")), kat.Want.Server)
	})
	t.Run("negative", func(t *testing.T) {
		s := DeriveHandshake(SHA256, make([]byte, KEMSecretLen), in("th_scv"))
		mac := s.Finished(ServerToClient, in("th_scv"))
		if err := s.VerifyFinished(ServerToClient, in("th_scv"), mac); err != nil {
			t.Errorf("its own Finished: %v", err)
		}
		wrong := slices.Clone(mac)
		wrong[31] ^= 1
		for name, err := range map[string]error{
			"last octet flipped": s.VerifyFinished(ServerToClient, in("th_scv"), wrong),
			"other direction":    s.VerifyFinished(ClientToServer, in("th_scv"), mac),
			"other transcript":   s.VerifyFinished(ServerToClient, in("th_ccv"), mac),
			"truncated":          s.VerifyFinished(ServerToClient, in("th_scv"), mac[:31]),
			"empty":              s.VerifyFinished(ServerToClient, in("th_scv"), nil),
			"longer":             s.VerifyFinished(ServerToClient, in("th_scv"), append(mac, 0)),
		} {
			if err != ErrFinished {
				t.Errorf("%s: error %v, want ErrFinished", name, err)
			}
		}
	})
}

// generations runs a test once with the vectors of each crypto generation.
func generations(t *testing.T, f func(t *testing.T, generation int, dir string)) {
	t.Run("generation=2", func(t *testing.T) { f(t, 2, "vectors/") })
	t.Run("generation=3", func(t *testing.T) { f(t, 3, "generation3/vectors/") })
}

// Covers: CONF-4-01, CORE-8.4-01, CORE-8.4-02
func TestCertVerifyKAT(t *testing.T) {
	generations(t, func(t *testing.T, generation int, dir string) {
		type rfcCase struct {
			Message, Seed, Signature octets
			Public                   octets `json:"public_key"`
		}
		var kat struct {
			Contexts map[string]string
			RFC8032  struct{ Test1, Test2 rfcCase } `json:"rfc8032_ed25519"`
			In       map[string]any                 `json:"npamp_inputs"`
			Want     map[string]octets              `json:"expected"`
		}
		corpus.ReadJSON(t, dir+"certverify-kat.json", &kat)
		in := func(k string) []byte { return unhex(t, kat.In[k].(string)) }
		roles := []struct {
			name string
			d    Direction
			th   []byte
		}{{"client", ClientToServer, in("th_cid")}, {"server", ServerToClient, in("th_sid")}}

		t.Run("anchor", func(t *testing.T) {
			for _, c := range []rfcCase{kat.RFC8032.Test1, kat.RFC8032.Test2} {
				key := ed25519.NewKeyFromSeed(c.Seed)
				wantOctets(t, "public key of RFC 8032", key.Public().(ed25519.PublicKey), c.Public)
				wantOctets(t, "signature of RFC 8032", ed25519.Sign(key, c.Message), c.Signature)
			}
		})
		t.Run("oracle", func(t *testing.T) {
			for _, r := range roles {
				input := slices.Concat([]byte("                                                                "), []byte(kat.Contexts[r.name]), []byte{0}, r.th)
				wantOctets(t, r.name+": signing input", input, kat.Want["signing_input_"+r.name])
				sig := ed25519.Sign(ed25519.NewKeyFromSeed(in(r.name+"_seed")), input)
				wantOctets(t, r.name+": signature", sig, kat.Want["signature_"+r.name])
			}
		})
		t.Run("implementation", func(t *testing.T) {
			for _, r := range roles {
				wantOctets(t, r.name+": signing input", CertVerifyInput(generation, r.d, r.th), kat.Want["signing_input_"+r.name])
				got := SignCertVerify(generation, r.d, r.th, ed25519.NewKeyFromSeed(in(r.name+"_seed")))
				wantOctets(t, r.name+": value", got, kat.Want["certverify_value_"+r.name])
				if err := VerifyCertVerify(generation, r.d, r.th, in(r.name+"_pub"), got); err != nil || len(got) != CertVerifyLen {
					t.Errorf("%s: %d octets, verify: %v", r.name, len(got), err)
				}
			}
		})
		t.Run("negative", func(t *testing.T) {
			for _, r := range roles {
				value := kat.Want["certverify_value_"+r.name]
				pub := in(r.name + "_pub")
				edit := func(i int, v byte) []byte { b := slices.Clone(value); b[i] = v; return b }
				tests := []struct {
					name       string
					generation int
					d          Direction
					th         []byte
					pub, value []byte
					want       error
				}{
					{"other role", generation, 1 - r.d, r.th, pub, value, ErrSignature},
					{"other generation", 5 - generation, r.d, r.th, pub, value, ErrSignature},
					{"other transcript", generation, r.d, make([]byte, 32), pub, value, ErrSignature},
					{"flipped", generation, r.d, r.th, pub, edit(40, value[40]^1), ErrSignature},
					{"truncated", generation, r.d, r.th, pub, value[:65], ErrSignature},
					{"longer", generation, r.d, r.th, pub, append(slices.Clone(value), 0), ErrSignature},
					{"scheme 0x0907", generation, r.d, r.th, pub, edit(0, 9), ErrScheme},
					{"scheme 0x0905", generation, r.d, r.th, pub, append([]byte{9, 5}, value[2:]...), ErrScheme},
					{"scheme 0x0906", generation, r.d, r.th, pub, append([]byte{9, 6}, value[2:]...), ErrScheme},
					{"one octet", generation, r.d, r.th, pub, value[:1], ErrScheme},
					{"empty", generation, r.d, r.th, pub, nil, ErrScheme},
					{"scheme alone", generation, r.d, r.th, pub, value[:2], ErrSignature},
					{"short key", generation, r.d, r.th, pub[:31], value, ErrPublicKey},
					{"no point", generation, r.d, r.th, append([]byte{2}, make([]byte, 31)...), value, ErrSignature},
					{"identity point", generation, r.d, r.th, append([]byte{1}, make([]byte, 31)...), value, ErrPublicKey},
				}
				for _, tt := range tests {
					if err := VerifyCertVerify(tt.generation, tt.d, tt.th, tt.pub, tt.value); !errors.Is(err, tt.want) {
						t.Errorf("%s, %s: error %v, want %v", r.name, tt.name, err, tt.want)
					}
				}
			}
		})
	})
}

// Covers: CONF-4-01, CORE-7.1-02, HB-4-01
func TestKEMWireKAT(t *testing.T) {
	var kat struct {
		Keygen struct{ D, Z, EK octets } `json:"mlkem768_keygen"`
		X25519 map[string]string         `json:"x25519_rfc7748_6_1"`
		Layout struct {
			Share      int `json:"kem_share_len"`
			Ciphertext int `json:"kem_ciphertext_len"`
			Secret     int `json:"combined_secret_len"`
		} `json:"wire_layout"`
	}
	corpus.ReadJSON(t, "vectors/kem-wire-kat.json", &kat)
	x := func(k string) []byte { return unhex(t, kat.X25519[k]) }
	seed := slices.Concat(kat.Keygen.D, kat.Keygen.Z)
	dk, err := mlkem.NewDecapsulationKey768(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("anchor", func(t *testing.T) {
		wantOctets(t, "ML-KEM-768 key of NIST ACVP", dk.EncapsulationKey().Bytes(), kat.Keygen.EK)
		for _, who := range []string{"alice", "bob"} {
			key, err := ecdh.X25519().NewPrivateKey(x(who + "_private"))
			if err != nil {
				t.Fatal(err)
			}
			wantOctets(t, who+" of RFC 7748", key.PublicKey().Bytes(), x(who+"_public"))
			peer, _ := ecdh.X25519().NewPublicKey(x(map[string]string{"alice": "bob", "bob": "alice"}[who] + "_public"))
			shared, err := key.ECDH(peer)
			if err != nil {
				t.Fatal(err)
			}
			wantOctets(t, who+"'s secret of RFC 7748", shared, x("shared_secret"))
		}
	})

	// The oracle lays the standards' octets side by side.
	share := slices.Concat(kat.Keygen.EK, x("alice_public"))
	mlkemSecret, mlkemCT := dk.EncapsulationKey().Encapsulate()
	ciphertext := slices.Concat(mlkemCT, x("bob_public"))
	secret := slices.Concat(mlkemSecret, x("shared_secret"))
	t.Run("oracle", func(t *testing.T) {
		if len(share) != kat.Layout.Share || len(ciphertext) != kat.Layout.Ciphertext || len(secret) != kat.Layout.Secret {
			t.Errorf("lengths %d, %d, %d, want %+v", len(share), len(ciphertext), len(secret), kat.Layout)
		}
	})
	client, err := NewKEMPrivate(seed, x("alice_private"))
	if err != nil {
		t.Fatal(err)
	}
	bob, err := ecdh.X25519().NewPrivateKey(x("bob_private"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("implementation", func(t *testing.T) {
		if KEMShareLen != kat.Layout.Share || KEMCiphertextLen != kat.Layout.Ciphertext || KEMSecretLen != kat.Layout.Secret {
			t.Errorf("our lengths %d, %d, %d, want %+v", KEMShareLen, KEMCiphertextLen, KEMSecretLen, kat.Layout)
		}
		wantOctets(t, "share", client.Share(), share)
		got, err := client.Decapsulate(ciphertext)
		if err != nil {
			t.Fatal(err)
		}
		wantOctets(t, "client's secret", got, secret)
		ct, got, err := encapsulate(share, bob, func(*mlkem.EncapsulationKey768) ([]byte, []byte) {
			return slices.Clone(mlkemSecret), slices.Clone(mlkemCT)
		})
		if err != nil {
			t.Fatal(err)
		}
		wantOctets(t, "server's ciphertext", ct, ciphertext)
		wantOctets(t, "server's secret", got, secret)
	})
	t.Run("negative", func(t *testing.T) {
		for _, ct := range [][]byte{nil, ciphertext[:len(ciphertext)-1], append(slices.Clone(ciphertext), 0)} {
			if s, err := client.Decapsulate(ct); err != ErrKEMLength || s != nil {
				t.Errorf("ciphertext of %d octets: %v, want ErrKEMLength", len(ct), err)
			}
		}
		for _, sh := range [][]byte{nil, share[:len(share)-1], append(slices.Clone(share), 0)} {
			if _, s, err := Encapsulate(sh); err != ErrKEMLength || s != nil {
				t.Errorf("share of %d octets: %v, want ErrKEMLength", len(sh), err)
			}
		}
		unreduced := slices.Clone(share)
		unreduced[0], unreduced[1] = 0xFF, 0xFF // coefficient 4095 ≥ q
		if _, _, err := Encapsulate(unreduced); err != ErrKEMShare {
			t.Errorf("encapsulation key not reduced: %v, want ErrKEMShare", err)
		}
		first := slices.Concat(x("alice_public"), kat.Keygen.EK) // X25519 first
		if ct, s, err := Encapsulate(first); err == nil {
			if got, err := client.Decapsulate(ct); err == nil && string(got) == string(s) {
				t.Error("X25519-first share gives the same secret")
			}
		}
		corrupt := slices.Clone(ciphertext)
		corrupt[0] ^= 1
		if got, err := client.Decapsulate(corrupt); err != nil || string(got) == string(secret) {
			t.Errorf("corrupt ML-KEM ciphertext: %x, %v, want another secret (implicit rejection)", got, err)
		}
		for name, u := range lowOrderX25519(t) {
			if s, err := client.Decapsulate(slices.Concat(mlkemCT, u)); err != ErrLowOrder || s != nil {
				t.Errorf("ciphertext with X25519 point %s: %v, want ErrLowOrder", name, err)
			}
			if ct, s, err := Encapsulate(slices.Concat(kat.Keygen.EK, u)); err != ErrLowOrder || s != nil || ct != nil {
				t.Errorf("share with X25519 point %s: %v, want ErrLowOrder", name, err)
			}
		}
	})
}

// lowOrderX25519 returns u coordinates for which every X25519 result is zero
// (RFC 7748 §6.1; the list is cr.yp.to/ecdh.html's).
func lowOrderX25519(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"0":        make([]byte, 32),
		"1":        append([]byte{1}, make([]byte, 31)...),
		"order 8":  unhex(t, "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
		"order 8'": unhex(t, "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
		"p−1":      unhex(t, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
		"p":        unhex(t, "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
		"p+1":      unhex(t, "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
	}
}
