package frame

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/internal/corpus"
)

// registry reads a CSV of the code-point registries without its header row.
func registry(t *testing.T, name string) [][]string {
	t.Helper()
	r := csv.NewReader(strings.NewReader(string(corpus.Read(t, name))))
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rows[1:]
}

func num(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Covers: CH10-7-01
func TestChannelsRegistry(t *testing.T) {
	for _, dir := range []string{"", "generation3/"} {
		rows := registry(t, dir+"registries/channels.csv")
		if len(rows) != int(ChannelSpatial)+1 {
			t.Errorf("%s: %d channels, we know %d", dir, len(rows), ChannelSpatial+1)
		}
		for _, row := range rows {
			c := ChannelID(num(t, row[0]))
			if c.String() != row[1] || c.MinProfile().String() != row[3] || c.MultiStream() != (row[4] == "Multi-stream") || !c.Assigned() {
				t.Errorf("%s: channel %s = %s, %s, multi-stream %v; registry says %v", dir, row[0], c, c.MinProfile(), c.MultiStream(), row)
			}
		}
	}
}

// Covers: CH10-7-01
func TestChannelRanges(t *testing.T) {
	if ChannelDiscovery != 0x0010 || ChannelDiscovery.MinProfile() != ProfileStandard || ChannelDiscovery.MultiStream() {
		t.Errorf("Discovery is channel %#x from %s", uint16(ChannelDiscovery), ChannelDiscovery.MinProfile())
	}
	counts := make(map[string]int)
	for v := range 1 << 16 {
		c, n := ChannelID(v), 0
		for name, is := range map[string]bool{"assigned": c.Assigned(), "future": c.IsFutureCore(), "extension": c.IsExtension(),
			"grease": c.IsGrease(), "forbidden": c.IsForbidden()} {
			if is {
				counts[name]++
				n++
			}
		}
		if n != 1 {
			t.Fatalf("channel %#04x is in %d ranges, want 1", v, n)
		}
	}
	want := map[string]int{"assigned": 0x14, "future": 0x1F - 0x13, "extension": 0xEFFF - 0x1F, "grease": 0xFFFE - 0xEFFF, "forbidden": 1}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("ranges %v, want %v", counts, want)
	}
	for c, want := range map[ChannelID]string{0x0014: "0x0014", 0xF00D: "0xf00d", 0xFFFF: "0xffff"} {
		if c.String() != want {
			t.Errorf("channel %d prints %q, want %q", c, c, want)
		}
	}
}

// Covers: CORE-4.6-03
func TestTypesRegistry(t *testing.T) {
	type key struct {
		ch ChannelID
		t  Type
	}
	want := map[key]string{ // NPAMP-HELLO §3 and NPAMP-DISC §3, which have no CSV
		{0, 0x0110}: "HELLO", {0, 0x0111}: "HELLO_DONE",
		{0x10, 0x0100}: "DISCO_QUERY", {0x10, 0x0101}: "DISCO_RESULT", {0x10, 0x0102}: "DISCO_ERROR", {0x10, 0x0103}: "DISCO_ANNOUNCE",
		{0x10, 0x0104}: "DISCO_SUBSCRIBE", {0x10, 0x0105}: "DISCO_UPDATE", {0x10, 0x0106}: "DISCO_UNSUBSCRIBE",
	}
	for _, row := range registry(t, "generation3/registries/frame_types_channel.csv") {
		k := key{ChannelID(num(t, row[0])), Type(num(t, row[2]))}
		if row[1] != k.ch.String() {
			t.Errorf("channel %d is %s, the registry says %s", k.ch, k.ch, row[1])
		}
		want[k] = row[3]
	}
	all := make(map[Type]string)
	for _, dir := range []string{"", "generation3/"} {
		for _, row := range registry(t, dir+"registries/frame_types_reserved.csv") {
			if strings.HasPrefix(row[1], "(") {
				continue // 0x0000, and ranges: TestTypeBands
			}
			v := Type(num(t, row[0]))
			if v >= 0x0100 {
				want[key{ChannelControl, v}] = row[1]
			} else {
				all[v] = row[1]
			}
		}
	}
	if len(all) != 10 {
		t.Fatalf("%d all-channel types in the registry, want 10", len(all))
	}
	for ch := range ChannelID(0x15) {
		for typ := range Type(0x0200) {
			w, ok := want[key{ch, typ}]
			if a := all[typ]; a != "" {
				w, ok = a, true
			}
			if !ok {
				w = fmt.Sprintf("unknown(0x%04x)", uint16(typ))
			}
			if got := TypeName(ch, typ); got != w {
				t.Errorf("TypeName(%s, %#04x) = %q, want %q", ch, uint16(typ), got, w)
			}
		}
	}
	if got := TypeName(ChannelDiscovery, 0xFFFF); got != "unknown(0xffff)" {
		t.Errorf("TypeName of 0xFFFF = %q", got)
	}
}

func TestTypeBands(t *testing.T) {
	counts := make(map[string]int)
	for v := range 1 << 16 {
		c, n := Type(v), 0
		for name, is := range map[string]bool{"reserved": c.IsReservedAll(), "future": c.IsFutureCore(), "companion": c.IsCompanion(), "channel": c.IsChannelSpecific()} {
			if is {
				counts[name]++
				n++
			}
		}
		if n != min(v, 1) {
			t.Fatalf("type %#04x is in %d bands, want one, and none for 0", v, n)
		}
	}
	want := map[string]int{"reserved": 0xA, "future": 0x2F - 0xA, "companion": 0xFF - 0x2F, "channel": 0xFFFF - 0xFF}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("bands %v, want %v", counts, want)
	}
	for _, row := range registry(t, "registries/frame_types_reserved.csv") {
		lo, hi, isRange := strings.Cut(row[0], "-")
		if !isRange || num(t, lo) >= 0x0100 {
			continue
		}
		for _, s := range []string{lo, hi} {
			if !Type(num(t, s)).IsCompanion() {
				t.Errorf("%s (%s) is not in the companion band", s, row[2])
			}
		}
	}
}

func TestTagsRegistry(t *testing.T) {
	ours := map[string]uint16{
		"ProfileOffer": TagProfileOffer, "ProfileSelect": TagProfileSelect, "KEMOffer": TagKEMOffer, "KEMSelect": TagKEMSelect,
		"SigOffer": TagSigOffer, "SigSelect": TagSigSelect, "KEMShare": TagKEMShare, "KEMCiphertext": TagKEMCiphertext,
		"IdentityKey": TagIdentityKey, "CertVerify": TagCertVerify, "Finished": TagFinished, "AEADOffer": TagAEADOffer,
		"AEADSelect": TagAEADSelect, "AnomalyCharge": 0x12, "OpaqueContentType": TagOpaqueContentType, "PathChallenge": TagPathChallenge,
		"PathResponse": TagPathResponse, "KeyUpdateMarker": TagKeyUpdateMarker, "ProtectionMode": TagProtectionMode,
		"RatchetGeneration": TagRatchetGeneration,
	}
	companion := map[uint16]bool{TagBridgeEnvelope: true, TagSafetyLabel: true, 0x14: true, 0x15: true, 0x16: true}
	for _, dir := range []string{"", "generation3/"} {
		for _, row := range registry(t, dir+"registries/tlv_tags.csv") {
			lo, hi, isRange := strings.Cut(row[0], "-")
			tag := uint16(num(t, lo))
			switch {
			case isRange:
				if !TLVCritical(tag) || TLVCritical(tag-1) || num(t, hi) != 0xFFFF {
					t.Errorf("%s: critical types are %s", dir, row[0])
				}
			case row[1] == "(reserved)":
				if !companion[tag] {
					t.Errorf("%s: %s is reserved, we do not know for whom", dir, row[0])
				}
			case ours[row[1]] != tag:
				t.Errorf("%s: %s is %s, ours is %#x", dir, row[1], row[0], ours[row[1]])
			}
		}
	}
}

func TestErrorCodesRegistry(t *testing.T) {
	seen := 0
	for _, row := range registry(t, "generation3/registries/error_codes.csv") {
		if strings.Contains(row[0], "-") || row[0] == "0" {
			continue
		}
		seen++
		c := ErrorCode(num(t, row[0]))
		if c.String() != row[1] || c.Discard() != (row[2] == "discard") || c.Fatal() != (row[2] == "fatal") || !c.Assigned() {
			t.Errorf("code %d = %s, fatal %v, discard %v; registry says %v", c, c, c.Fatal(), c.Discard(), row)
		}
	}
	if seen != 10 {
		t.Errorf("%d codes in the registry, want 10", seen)
	}
	for _, c := range []ErrorCode{0, 11, 255} {
		if c.Assigned() || c.Fatal() || c.Discard() || c.String() != fmt.Sprintf("unknown(%d)", uint8(c)) {
			t.Errorf("code %d counts as assigned (%s)", uint8(c), c)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, row := range registry(t, "registries/profiles.csv") {
		if p := Profile(num(t, row[1])); !p.Valid() || p.String() != row[0] {
			t.Errorf("profile %s = %s, want %s", row[1], p, row[0])
		}
	}
	for _, p := range []Profile{0, 4, 255} {
		if p.Valid() {
			t.Errorf("profile %d is valid; it is reserved", p)
		}
	}
}

// The core operations of both conformance corpora that need no key.
//
// Covers: CORE-4.2-02, CORE-4.2-03, CORE-4.2-05, CORE-4.4-02
func TestCorpus(t *testing.T) {
	for dir, want := range map[string]int{"": 14, "generation3/": 16} {
		var c struct {
			TestGroups []struct {
				Op    string
				Tests []struct {
					TcID     int
					In       map[string]any
					Expected map[string]any
					Result   string
				}
			}
		}
		corpus.ReadJSON(t, dir+"vectors/conformance-corpus.json", &c)
		ran := 0
		for _, g := range c.TestGroups {
			op := corpusOps(t)[g.Op]
			if op == nil {
				continue
			}
			for _, tt := range g.Tests {
				ran++
				out, err := op(tt.In)
				if (err == nil) != (tt.Result == "valid") {
					t.Errorf("%s%s tc%d: error %v, want %s", dir, g.Op, tt.TcID, err, tt.Result)
					continue
				}
				for k, w := range tt.Expected {
					if fmt.Sprint(out[k]) != fmt.Sprint(w) {
						t.Errorf("%s%s tc%d: %s = %v, want %v", dir, g.Op, tt.TcID, k, out[k], w)
					}
				}
			}
		}
		if ran != want {
			t.Errorf("%s: %d cases ran, want %d", dir, ran, want)
		}
	}
}

func corpusOps(t *testing.T) map[string]func(in map[string]any) (map[string]any, error) {
	octets := func(v any) []byte { return unhex(t, v.(string)) }
	return map[string]func(in map[string]any) (map[string]any, error){
		"header.decode": func(in map[string]any) (map[string]any, error) {
			b := octets(in["frame"])
			h, err := ParseHeader(b)
			if err != nil {
				return nil, err
			}
			return map[string]any{"magic": "NPAM", "ver": Version, "flags": uint8(h.Flags), "frameType": uint16(h.Type),
				"channel": uint16(h.Channel), "seq": h.Seq, "payloadLength": h.PayloadLen,
				"crc32c": fmt.Sprintf("%08x", CRC32C(b[:AADLen])), "reservedZero": true}, nil
		},
		"header.encode": func(in map[string]any) (map[string]any, error) {
			n := func(k string) uint64 { return uint64(in[k].(float64)) }
			h := Header{Flags(n("flags")), Type(n("frameType")), ChannelID(n("channel")), n("seq"), uint32(n("payloadLength"))}
			return map[string]any{"frame": fmt.Sprintf("%x", AppendHeader(nil, h))}, nil
		},
		"crc32c": func(in map[string]any) (map[string]any, error) {
			return map[string]any{"crc32c": fmt.Sprintf("%08x", CRC32C(octets(in["octets"])))}, nil
		},
		"tlv.decode": func(in map[string]any) (map[string]any, error) {
			tlv, rest, err := ParseTLV(octets(in["tlv"]))
			switch {
			case err != nil:
				return nil, err
			case TLVCritical(tlv.Type):
				return nil, ErrCriticalTLV
			case len(rest) > 0:
				return nil, errors.New("octets behind the TLV")
			}
			return map[string]any{"type": tlv.Type, "length": len(tlv.Value), "value": fmt.Sprintf("%x", tlv.Value)}, nil
		},
		"tlv.encode": func(in map[string]any) (map[string]any, error) {
			return map[string]any{"tlv": fmt.Sprintf("%x", AppendTLV(nil, uint16(in["type"].(float64)), octets(in["value"])))}, nil
		},
	}
}
