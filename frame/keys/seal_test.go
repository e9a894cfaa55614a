package keys

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/npamp/disco/frame"
)

// goldenMaster is the application master of the public traffic-key vectors.
func goldenMaster() []byte {
	m := make([]byte, 32)
	for i := range m {
		m[i] = byte(i)
	}
	return m
}

const zeros = "0000000000000000000000"

// w2 is the golden frame W2: V1 from the client.
const w2 = "4e50414d2201000010000000000000000000000018be53c687" + zeros + "df406d0d964dc51be07c91fc278614293229c82a8c81ab57"

// One flipped bit anywhere in what is authenticated, another sequence number,
// channel, direction, epoch or suite, and the frame does not open. The CRC and
// the reserved octets are not authenticated: they are checked before.
//
// Covers: CORE-5-03
func TestOpenRefuses(t *testing.T) {
	wire := unhex(t, w2)
	key, err := NewTrafficKey(SHA256, goldenMaster(), ClientToServer, 0, SuiteAES256GCM, frame.ChannelDiscovery)
	if err != nil {
		t.Fatal(err)
	}
	open := func(k *Key, seq uint64, b []byte) error {
		out, err := k.Open(nil, b[:frame.AADLen], seq, b[frame.HeaderLen:])
		if err != nil && out != nil {
			t.Errorf("plaintext %x along with %v", out, err)
		}
		return err
	}
	for i := range len(wire) * 8 {
		b := slices.Clone(wire)
		b[i/8] ^= 1 << (i % 8)
		want := ErrOpen
		if i/8 >= frame.AADLen && i/8 < frame.HeaderLen {
			want = nil
		}
		if err := open(key, 0, b); !errors.Is(err, want) {
			t.Errorf("bit %d flipped: error %v, want %v", i, err, want)
		}
	}
	for n := frame.HeaderLen; n < len(wire); n++ {
		if err := open(key, 0, wire[:n]); err != ErrOpen {
			t.Errorf("first %d octets: error %v, want ErrOpen", n, err)
		}
	}
	if err := open(key, 1, wire); err != ErrOpen {
		t.Errorf("sequence number 1: error %v, want ErrOpen", err)
	}
	for _, o := range []struct {
		name  string
		d     Direction
		epoch uint64
		s     Suite
		ch    frame.ChannelID
	}{
		{"direction", ServerToClient, 0, SuiteAES256GCM, frame.ChannelDiscovery},
		{"epoch", ClientToServer, 1, SuiteAES256GCM, frame.ChannelDiscovery},
		{"suite", ClientToServer, 0, SuiteChaCha20Poly1305, frame.ChannelDiscovery},
		{"channel", ClientToServer, 0, SuiteAES256GCM, frame.ChannelControl},
	} {
		other, err := NewTrafficKey(SHA256, goldenMaster(), o.d, o.epoch, o.s, o.ch)
		if err != nil {
			t.Fatal(err)
		}
		if err := open(other, 0, wire); err != ErrOpen {
			t.Errorf("key of another %s: error %v, want ErrOpen", o.name, err)
		}
	}
}

// Covers: CORE-7.2-01
func TestSuites(t *testing.T) {
	// RFC 8439 §2.8.2.
	key, err := NewKey(SuiteChaCha20Poly1305,
		unhex(t, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"), unhex(t, "070000004041424344454647"))
	if err != nil {
		t.Fatal(err)
	}
	plaintext := []byte("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.")
	aad := unhex(t, "50515253c0c1c2c3c4c5c6c7")
	want := unhex(t, "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691")
	wantOctets(t, "RFC 8439 §2.8.2", key.Seal(nil, aad, 0, plaintext), want)
	got, err := key.Open(nil, aad, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	wantOctets(t, "RFC 8439 §2.8.2 opened", got, plaintext)

	for s, name := range map[Suite]string{SuiteAES256GCM: "AES-256-GCM", SuiteChaCha20Poly1305: "ChaCha20-Poly1305", 3: "unknown(0x0003)", 0: "unknown(0x0000)"} {
		if s.String() != name || s.Valid() != (s == 1 || s == 2) {
			t.Errorf("suite %d = %s, valid %v", s, s, s.Valid())
		}
		aead, err := s.NewAEAD(make([]byte, 32))
		if s.Valid() && (err != nil || aead.NonceSize() != NonceLen || aead.Overhead() != TagLen) {
			t.Errorf("%s: %v", s, err)
		}
		if !s.Valid() && err != ErrSuite {
			t.Errorf("%s: error %v, want ErrSuite", s, err)
		}
		if _, err := NewTrafficKey(SHA256, goldenMaster(), 0, 0, s, 0); (err == nil) != s.Valid() {
			t.Errorf("%s: NewTrafficKey: %v", s, err)
		}
	}
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := SuiteAES256GCM.NewAEAD(make([]byte, n)); err != ErrKeyLength {
			t.Errorf("key of %d octets: error %v, want ErrKeyLength", n, err)
		}
	}
	for _, n := range []int{0, 11, 13} {
		if _, err := NewKey(SuiteAES256GCM, make([]byte, 32), make([]byte, n)); err != ErrKeyLength {
			t.Errorf("IV of %d octets: error %v, want ErrKeyLength", n, err)
		}
	}
}

func TestErase(t *testing.T) {
	key, err := NewTrafficKey(SHA256, goldenMaster(), ClientToServer, 0, SuiteAES256GCM, frame.ChannelDiscovery)
	if err != nil {
		t.Fatal(err)
	}
	wire := unhex(t, w2)
	openFrame(t, key, wire)
	if key.Erase(); *key != (Key{}) || !key.Erased() {
		t.Error("something is left of an erased key")
	}
	h, err := frame.ParseHeader(wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.OpenFrame(h, wire); err != ErrErased {
		t.Errorf("frame under an erased key: %v, want ErrErased", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Seal took an erased key")
		}
	}()
	key.Seal(nil, nil, 0, nil)
}

func TestEraseOctets(t *testing.T) {
	a, b := goldenMaster(), []byte{1, 2}
	Erase(a, nil, b)
	if sha256.Sum256(a) != sha256.Sum256(make([]byte, 32)) || b[0]|b[1] != 0 {
		t.Errorf("Erase left %x, %x", a, b)
	}
}

func TestSealFrameTooLong(t *testing.T) {
	key, err := NewTrafficKey(SHA256, goldenMaster(), 0, 0, SuiteAES256GCM, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := key.SealFrame(make([]byte, frame.MaxFrameLen-TagLen, frame.MaxFrameLen), 0, frame.Header{Flags: frame.FlagENC})
	if h, err := frame.ParseHeader(b); err != nil || len(b) != frame.MaxFrameLen || int(h.PayloadLen) != len(b)-frame.HeaderLen {
		t.Errorf("longest frame: %d octets, %+v, %v", len(b), h, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("SealFrame made a frame of more than 16 MiB")
		}
	}()
	key.SealFrame(make([]byte, frame.MaxFrameLen-TagLen+1), 0, frame.Header{})
}

// Sealing and opening in place allocates nothing, with either suite.
func TestSealAllocs(t *testing.T) {
	for _, s := range []Suite{SuiteAES256GCM, SuiteChaCha20Poly1305} {
		seal, err := NewTrafficKey(SHA256, goldenMaster(), 0, 0, s, frame.ChannelDiscovery)
		if err != nil {
			t.Fatal(err)
		}
		open, _ := NewTrafficKey(SHA256, goldenMaster(), 0, 0, s, frame.ChannelDiscovery)
		buf := make([]byte, 4096)
		h := frame.Header{Flags: frame.FlagENC, Type: 0x0101, Channel: frame.ChannelDiscovery}
		got := testing.AllocsPerRun(200, func() {
			wire := seal.SealFrame(buf[:2000], 0, h)
			parsed, err := frame.ParseHeader(wire)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open.OpenFrame(parsed, wire); err != nil {
				t.Fatal(err)
			}
			h.Seq++
		})
		if got != 0 {
			t.Errorf("%s: %v allocations to seal and open a frame, want 0", s, got)
		}
	}
}

func BenchmarkSealFrame(b *testing.B) {
	for _, n := range []int{100, 16 << 10} {
		for _, s := range []Suite{SuiteAES256GCM, SuiteChaCha20Poly1305} {
			b.Run(fmt.Sprintf("%s/octets=%d", s, n), func(b *testing.B) {
				key, err := NewTrafficKey(SHA256, goldenMaster(), 0, 0, s, frame.ChannelDiscovery)
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, frame.HeaderLen+n, frame.HeaderLen+n+TagLen)
				h := frame.Header{Flags: frame.FlagENC, Type: 0x0105, Channel: frame.ChannelDiscovery}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					key.SealFrame(buf, 0, h)
					h.Seq++
				}
			})
		}
	}
}
