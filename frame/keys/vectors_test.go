package keys

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/testvectors"
)

// Every key, frame, refused frame and handle of the vectors. A frame is sealed
// and opened under its own header.
//
// Covers: CORE-4.1-01, CORE-4.2-01, CORE-5-03, CORE-7.2-01, CORE-7.5-01, CORE-11.3-01, PEERHANDLE-2-01
func TestVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range set.Keys {
		secret := TrafficSecret(SHA256, v.Master, Direction(v.Direction), uint64(v.Epoch), Suite(v.Suite), frame.ChannelID(v.Channel))
		if key, iv := TrafficKeyIV(SHA256, secret); !bytes.Equal(key, v.Key) || !bytes.Equal(iv, v.IV) {
			t.Errorf("%s: got key %x, iv %x, want %v, %v", v.Name, key, iv, v.Key, v.IV)
		}
	}
	key := func(name string, master []byte, d int, epoch testvectors.Number, suite, channel uint16) *Key {
		k, err := NewTrafficKey(SHA256, master, Direction(d), uint64(epoch), Suite(suite), frame.ChannelID(channel))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return k
	}
	for _, v := range set.Frames {
		h := frame.Header{Flags: frame.Flags(v.Flags), Type: frame.Type(v.FrameType), Channel: frame.ChannelID(v.Channel),
			Seq: uint64(v.Seq), PayloadLen: uint32(len(v.Plaintext) + frame.TagLen)}
		if got, err := frame.ParseHeader(v.Frame); err != nil || got != h {
			t.Errorf("%s: got %+v, %v, want %+v", v.Name, got, err, h)
		}
		k := key(v.Name, v.Master, v.Direction, v.Epoch, v.Suite, v.Channel)
		b := append(make([]byte, frame.HeaderLen), v.Plaintext...)
		if got := k.SealFrame(b, 0, h); !bytes.Equal(got, v.Frame) {
			t.Errorf("%s: sealed\n got %x\nwant %v", v.Name, got, v.Frame)
		}
		if got, err := k.OpenFrame(h, bytes.Clone(v.Frame)); err != nil || !bytes.Equal(got, v.Plaintext) {
			t.Errorf("%s: opened %x, %v, want %v", v.Name, got, err, v.Plaintext)
		}
	}
	tags := 0
	for _, v := range set.Refused {
		if v.Fault != testvectors.FaultTag {
			continue
		}
		tags++
		h, err := frame.ParseHeader(v.Frame)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if got, err := key(v.Name, v.Master, v.Direction, v.Epoch, v.Suite, v.Channel).OpenFrame(h, bytes.Clone(v.Frame)); err == nil {
			t.Errorf("%s: opened to %x", v.Name, got)
		}
	}
	if tags < 10 {
		t.Errorf("%d frames are refused for their tag", tags)
	}
	for _, v := range set.Handles {
		if got := PeerHandle(ed25519.PublicKey(v.PublicKey)); got != v.Handle {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Handle)
		}
	}
}
