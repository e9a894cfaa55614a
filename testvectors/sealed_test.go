package testvectors

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// traffic derives a key and an IV from the application master secret (core
// §7.5), with the standard library alone.
func traffic(t *testing.T, master []byte, direction int, epoch uint64, suite, channel uint16) (key, iv []byte) {
	t.Helper()
	expand := func(secret []byte, label string, context []byte, n int) []byte {
		label = "n-pamp " + label
		info := binary.BigEndian.AppendUint16(nil, uint16(n))
		info = append(append(info, byte(len(label))), label...)
		info = append(append(info, byte(len(context))), context...)
		out, err := hkdf.Expand(sha256.New, secret, string(info), n)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	context := binary.BigEndian.AppendUint64([]byte{byte(direction)}, epoch)
	context = binary.BigEndian.AppendUint16(context, suite)
	context = binary.BigEndian.AppendUint16(context, channel)
	secret := expand(master, "traffic", context, 32)
	return expand(secret, "key", nil, 32), expand(secret, "iv", nil, 12)
}

// open opens a frame under the sequence number of its header.
func open(t *testing.T, frame, key, iv []byte, suite uint16) ([]byte, error) {
	t.Helper()
	aead, err := chacha20poly1305.New(key)
	if suite == 1 {
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			aead, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	nonce := bytes.Clone(iv)
	for i, b := range frame[9:17] {
		nonce[4+i] ^= b
	}
	return aead.Open(nil, nonce, frame[36:], frame[:21])
}

// headerFault says what is wrong with a frame before it is opened, in the order
// of the checks.
func headerFault(frame []byte, generation int) string {
	payloadLen := binary.BigEndian.Uint32(frame[17:])
	switch {
	case crc32.Checksum(frame[:21], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(frame[21:]):
		return FaultChecksum
	case string(frame[:4]) != "NPAM":
		return FaultMagic
	case frame[4]>>4 != 2:
		return FaultVersion
	case !bytes.Equal(frame[25:36], make([]byte, 11)):
		return FaultReserved
	case generation == 3 && frame[4]&9 != 0:
		return FaultFlags
	case uint64(payloadLen)+36 > 16<<20:
		return FaultCap
	case frame[4]&2 == 0:
		return FaultEnc
	}
	return ""
}

// Covers: CORE-4.1-01, CORE-4.2-01, CORE-7.5-01, CORE-5-03
func TestSealed(t *testing.T) {
	s := load(t)
	if len(s.Keys) < 10 || len(s.Frames) < 50 || len(s.Headers) == 0 || len(s.Handles) == 0 {
		t.Fatal("a kind of sealed vector is missing")
	}
	for _, v := range s.Keys {
		key, iv := traffic(t, v.Master, v.Direction, uint64(v.Epoch), v.Suite, v.Channel)
		if !bytes.Equal(v.Key, key) || !bytes.Equal(v.IV, iv) {
			t.Errorf("%s: got key %x, iv %x, want %v, %v", v.Name, key, iv, v.Key, v.IV)
		}
	}
	seen := map[[2]int]bool{}
	for _, v := range s.Frames {
		seen[[2]int{int(v.Suite), v.Direction}] = true
		for _, generation := range v.Generations {
			if fault := headerFault(v.Frame, generation); fault != "" {
				t.Errorf("%s: fault %q", v.Name, fault)
			}
		}
		h := v.Frame
		if v.Flags != h[4]&15 || v.FrameType != binary.BigEndian.Uint16(h[5:]) || v.Channel != binary.BigEndian.Uint16(h[7:]) ||
			uint64(v.Seq) != binary.BigEndian.Uint64(h[9:]) || len(h)-36 != int(binary.BigEndian.Uint32(h[17:])) {
			t.Errorf("%s: header %v is not that of the fields", v.Name, h[:36])
		}
		key, iv := traffic(t, v.Master, v.Direction, uint64(v.Epoch), v.Suite, v.Channel)
		if got, err := open(t, v.Frame, key, iv, v.Suite); err != nil || !bytes.Equal(got, v.Plaintext) {
			t.Errorf("%s: opens to %x, %v, want %v", v.Name, got, err, v.Plaintext)
		}
	}
	if len(seen) != 4 {
		t.Errorf("suites and directions: %v", seen)
	}
	for _, v := range s.Headers {
		if len(v.Frame) != 36 || uint64(v.Seq) != binary.BigEndian.Uint64(v.Frame[9:]) || v.PayloadLen != binary.BigEndian.Uint32(v.Frame[17:]) {
			t.Errorf("%s: header %v is not that of the fields", v.Name, v.Frame)
		}
	}
	v1, _ := s.Payload("V1")
	if !bytes.Equal(v1.Octets, s.Frames[0].Plaintext) {
		t.Errorf("%s is not V1 sealed", s.Frames[0].Name)
	}
}

// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.3-01, CORE-11.3-01
func TestRefusedFrames(t *testing.T) {
	faults := map[string]bool{}
	for _, v := range load(t).Refused {
		faults[v.Fault] = true
		for _, generation := range v.Generations {
			fault := headerFault(v.Frame, generation)
			if fault == "" && Number(binary.BigEndian.Uint64(v.Frame[9:])) != v.Seq {
				fault = FaultSequence
			}
			if fault == "" {
				key, iv := traffic(t, v.Master, v.Direction, uint64(v.Epoch), v.Suite, v.Channel)
				if _, err := open(t, v.Frame, key, iv, v.Suite); err != nil {
					fault = FaultTag
				}
			}
			if fault != v.Fault {
				t.Errorf("%s, generation %d: fault %q, want %q", v.Name, generation, fault, v.Fault)
			}
		}
	}
	for _, fault := range []string{FaultChecksum, FaultMagic, FaultVersion, FaultReserved, FaultFlags, FaultCap, FaultEnc, FaultSequence, FaultTag} {
		if !faults[fault] {
			t.Errorf("no frame is refused for %q", fault)
		}
	}
}

// peel steps over the TLVs in front of a payload, which starts with an octet of
// 0x80 or more (core §4.4).
func peel(b []byte) (payload []byte, fault string) {
	for first := true; len(b) > 0; first = false {
		if b[0] >= 0xa0 && b[0] < 0xc0 {
			break // a map
		}
		if len(b) < 4 || len(b)-4 < int(binary.BigEndian.Uint16(b[2:])) {
			if b[0] >= 0x80 {
				break
			}
			return nil, FaultTruncated
		}
		switch typ := binary.BigEndian.Uint16(b); {
		case typ >= 0x8000:
			return nil, FaultCritical
		case first && typ == 0x0010:
			return nil, FaultBridge
		}
		b = b[4+binary.BigEndian.Uint16(b[2:]):]
	}
	return b, ""
}

// Covers: CORE-4.4-01, CORE-4.4-02, DISC-2-07, C14
func TestPlaintexts(t *testing.T) {
	faults := map[string]bool{}
	for _, v := range load(t).Plaintexts {
		payload, fault := peel(v.Plaintext)
		if fault != v.Fault || !bytes.Equal(payload, v.Payload) || (v.Fault == "") != (v.Payload != nil) || (v.Fault == "") != (v.Reaction == "") {
			t.Errorf("%s: got %x, fault %q, want %v, %q", v.Name, payload, fault, v.Payload, v.Fault)
		}
		faults[v.Fault] = true
	}
	if len(faults) != 4 {
		t.Errorf("faults %v", faults)
	}
}
