package bridge

import (
	"encoding/csv"
	"errors"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/npamp/disco/frame/internal/corpus"
)

func code(err error) Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// Covers: DISC-5.3-03, BRIDGE-7-01
func TestCheckLabel(t *testing.T) {
	m := request()
	if err := CheckLabel(m, true); !errors.Is(err, ErrLabelRequired) {
		t.Errorf("mutating request without label: %v, want ErrLabelRequired", err)
	}
	if err := CheckLabel(m, false); err != nil {
		t.Errorf("request that mutates nothing, without label: %v", err)
	}
	m.Label = &Label{Effect: EffectDestructive}
	if err := CheckLabel(m, true); err != nil {
		t.Errorf("mutating request with label: %v", err)
	}
	if err := CheckLabel(&Message{Type: TypeResponse}, true); err != nil {
		t.Errorf("a reply needs no label: %v", err)
	}
}

// Covers: BRIDGE-7-03
func TestEffectiveEffect(t *testing.T) {
	tests := []struct {
		name     string
		label    *Label
		mutating bool
		want     Effect
	}{
		{"absent, mutating", nil, true, EffectDestructive},
		{"absent, not mutating", nil, false, EffectReadOnly},
		{"read_only, mutating", &Label{Effect: 0}, true, EffectDestructive},
		{"read_only", &Label{Effect: 0}, false, EffectReadOnly},
		{"idempotent_write, mutating", &Label{Effect: 1}, true, EffectIdempotentWrite},
		{"non_idempotent_write", &Label{Effect: 2}, false, EffectNonIdempotentWrite},
		{"destructive", &Label{Effect: 3}, false, EffectDestructive},
		{"undefined", &Label{Effect: 4}, false, EffectDestructive},
		{"undefined, mutating", &Label{Effect: 255}, true, EffectDestructive},
	}
	atMostIdempotent := func(e Effect) bool { return e <= EffectIdempotentWrite }
	for _, tt := range tests {
		m := request()
		m.Label = tt.label
		if got := EffectiveEffect(m, tt.mutating); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		err := Authorize(m, tt.mutating, atMostIdempotent)
		if allowed := tt.want <= EffectIdempotentWrite; allowed != (err == nil) || !allowed && code(err) != CodeSafetyPolicy {
			t.Errorf("%s under \"at most idempotent\": %v", tt.name, err)
		}
	}
}

// A tool that was advertised to the peer, labelled as its record says, is
// refused when the policy refuses; and the decision cannot even see a record.
//
// Covers: DISC-10-01, DISC-10-02, DASP-002-01, DGP-1.4-02, DGP-22-01
func TestAdvertisedIsNotAuthorized(t *testing.T) {
	m := request()
	m.Label = &Label{Effect: EffectReadOnly}
	for name, policy := range map[string]func(Effect) bool{"deny": func(Effect) bool { return false }, "none": nil} {
		if err := Authorize(m, false, policy); code(err) != CodeSafetyPolicy {
			t.Errorf("policy %s: %v, want SafetyPolicy", name, err)
		}
	}
	if err := Authorize(m, false, func(Effect) bool { return true }); err != nil {
		t.Errorf("policy that allows: %v", err)
	}

	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range parsed.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if strings.HasPrefix(path, "github.com/npamp/disco/") && path != "github.com/npamp/disco/frame" {
				t.Errorf("%s imports %s: what discovery learned must not reach the authorisation of a call", f, path)
			}
		}
	}
}

// Covers: REG-4-01, REG-4-02, REG-6-01, REG-9-01, REG-9-02, REG-9-03
func TestProtocols(t *testing.T) {
	for p, want := range map[ProtocolID]Range{0: RangeNull, 1: RangeStandards, 0x0F: RangeStandards, 0x10: RangeExperimental, 0x7F: RangeExperimental,
		0x80: RangePrivate, 0xFF: RangePrivate, 0x0100: RangeOpened, 0xFFFF: RangeOpened} {
		if got := p.Range(); got != want {
			t.Errorf("protocol %#02x is in range %d, want %d", uint16(p), got, want)
		}
	}
	names := map[ProtocolID]string{ProtocolMCP: "MCP", ProtocolA2A: "A2A", ProtocolHTTP2: "HTTP/2", ProtocolWebSocket: "WebSocket", ProtocolGRPC: "gRPC",
		ProtocolNLIP: "NLIP", ProtocolANP: "ANP", ProtocolAGNTCY: "AGNTCY", ProtocolAP2: "AP2", ProtocolX402: "x402"}
	for dir, last := range map[string]ProtocolID{"": ProtocolWebSocket, "generation3/": ProtocolX402} {
		rows, err := csv.NewReader(strings.NewReader(string(corpus.Read(t, dir+"registries/bridge_protocol_ids.csv")))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		assigned := ProtocolID(0)
		for _, row := range rows[1:] {
			lo, hi, isRange := strings.Cut(row[0], "-")
			v, err := strconv.ParseUint(lo, 0, 16)
			if err != nil {
				t.Fatal(err)
			}
			p := ProtocolID(v)
			if isRange {
				h, err := strconv.ParseUint(hi, 0, 16)
				if err != nil || p.Range() != ProtocolID(h).Range() {
					t.Errorf("%s: %s lies in our ranges %d and %d", dir, row[0], p.Range(), ProtocolID(h).Range())
				}
				continue
			}
			if p != 0 {
				assigned++
				if names[p] == "" || !strings.HasPrefix(row[1], names[p]) {
					t.Errorf("%s: %s is %s, ours is %q", dir, row[0], row[1], names[p])
				}
			}
		}
		if assigned != last {
			t.Errorf("%s: %d protocols assigned, want 1 to %#x", dir, assigned, uint16(last))
		}
	}

	// Not carried: ProtocolUnsupported, whatever else the envelope says.
	mcpOnly := func(p ProtocolID) bool { return p == ProtocolMCP }
	for p, want := range map[ProtocolID]Code{ProtocolMCP: 0, 0x0F: CodeProtocolUnsupported, 0x10: CodeProtocolUnsupported, 0x80: CodeProtocolUnsupported, 0x0100: CodeProtocolUnsupported} {
		for _, ct := range []ContentType{0, ContentJSON, ContentGRPC} {
			for _, method := range []string{"tools/call", "message/send", ""} {
				m := request()
				m.Protocol, m.ContentType, m.Method = p, ct, method
				if got := code(CheckCarried(m, mcpOnly)); got != want {
					t.Errorf("protocol %#x, content type %d, method %q: %s, want %s", uint16(p), ct, method, got, want)
				}
			}
		}
	}
	if code(CheckCarried(request(), nil)) != CodeProtocolUnsupported {
		t.Error("a peer that says of no protocol that it carries it carries one")
	}
	// 0x00 is malformed, never unsupported.
	if _, err := Width8.Parse(TypeRequest, unhex(t, "0010000700010100016300")); code(err) != CodeEnvelopeMalformed {
		t.Errorf("protocol 0: %v, want EnvelopeMalformed", err)
	}
}

func TestNames(t *testing.T) {
	for c, want := range map[Code]string{1: "EnvelopeMalformed", 2: "ProtocolUnsupported", 3: "MethodUnsupported", 4: "NotDelivered", 5: "SafetyPolicy", 6: "unknown(6)"} {
		if c.String() != want {
			t.Errorf("code %d is %q, want %q", uint8(c), c, want)
		}
	}
	for e, want := range map[Effect]string{0: "read_only", 1: "idempotent_write", 2: "non_idempotent_write", 3: "destructive", 4: "unknown(4)"} {
		if e.String() != want {
			t.Errorf("effect %d is %q, want %q", uint8(e), e, want)
		}
	}
}
