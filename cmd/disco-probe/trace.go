package main

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/dcbor"
)

// traceLine is what --trace says of a frame. generation is 0 where it is not
// known, before the association is there.
func traceLine(f association.TraceFrame, generation int) string {
	dir := "<-"
	if f.Sent {
		dir = "->"
	}
	h := f.Header
	line := fmt.Sprintf("%s %s %v %s seq %d epoch %d flags %v, %s", shortID(f.ID), dir, h.Channel,
		frame.TypeName(h.Channel, h.Type), h.Seq, f.Epoch, h.Flags, plural(len(f.Plaintext), "octet"))
	if corr, ok := frameCorr(h, f.Plaintext); ok {
		line += ", corr " + corr.String()
	}
	if s := summary(h, f.Plaintext, generation); s != "" {
		line += ": " + s
	}
	return line
}

// isDiscovery reports whether a frame is the Discovery channel's own, not one of
// the types that mean the same on every channel.
func isDiscovery(h frame.Header) bool {
	return h.Channel == frame.ChannelDiscovery && h.Type >= 0x30
}

// frameCorr finds the corr of a Discovery frame [C4].
func frameCorr(h frame.Header, plain []byte) (disco.Corr, bool) {
	if !isDiscovery(h) {
		return "", false
	}
	body, err := frame.Peel(plain)
	if err != nil {
		return "", false
	}
	return disco.ScanCorr(body)
}

// maxSummary bounds a summary, in characters.
const maxSummary = 160

// summary says in a few words what a frame carries.
func summary(h frame.Header, plain []byte, generation int) string {
	switch {
	case isDiscovery(h):
		return discoverySummary(disco.Type(h.Type), plain, generation)
	case len(plain) == 0:
		return ""
	case h.Type == frame.TypeError && generation != 2:
		return errorSummary(plain)
	case h.Type == frame.TypeFlowUpdate && len(plain) == 8:
		return fmt.Sprintf("limit %d", binary.BigEndian.Uint64(plain))
	case h.Type == frame.TypePing || h.Type == frame.TypePong:
		return visible(string(plain), maxTextWidth)
	case h.Type.IsReservedAll() || h.Channel == frame.ChannelControl:
		return tlvSummary(plain)
	}
	return ""
}

// discoverySummary names the fields of a payload, or what is wrong with it.
func discoverySummary(t disco.Type, plain []byte, generation int) string {
	body, err := frame.Peel(plain)
	if err != nil {
		return err.Error()
	}
	if !t.Known() {
		return ""
	}
	m, refusal := judge(t, body, &disco.Options{Generation: generation, Tolerant: true})
	if refusal != nil {
		return strings.TrimPrefix(refusal.Error(), "disco: ")
	}
	var words []string
	for _, f := range m.json {
		switch v := f.val.(type) {
		case []object:
			f.val = len(v)
		case string:
			f.val = visible(v, maxTextWidth)
		}
		if f.key != "frame_kind" && f.key != "corr" {
			words = append(words, f.key+" "+string(appendJSON(nil, f.val)))
		}
	}
	if n := len(m.skipped); n > 0 {
		words = append(words, fmt.Sprintf("skipped %d", n))
	}
	return visible(strings.Join(words, ", "), maxSummary)
}

// errorSummary reads the body of ERROR in generation 3 {1: code, 2: context}.
func errorSummary(b []byte) string {
	_, i := dcbor.Map(b, 0)
	code, i := dcbor.Uint(b, dcbor.Key(b, i, 1), 0xFF)
	if i < 0 {
		return "malformed"
	}
	return fmt.Sprintf("%d %v", code, frame.ErrorCode(code))
}

// tlvSummary lists TLVs: numbers of 8 octets in decimal, other short values in
// hex, long ones by their length.
func tlvSummary(b []byte) string {
	var words []string
	for len(b) > 0 {
		tlv, rest, err := frame.ParseTLV(b)
		if err != nil {
			words = append(words, plural(len(b), "octet"))
			break
		}
		var value string
		switch v := tlv.Value; {
		case len(v) == 8:
			value = fmt.Sprint(binary.BigEndian.Uint64(v))
		case len(v) <= 32:
			value = fmt.Sprintf("%x", v)
		default:
			value = plural(len(v), "octet")
		}
		words = append(words, tlvName(tlv.Type)+" "+value)
		b = rest
	}
	return visible(strings.Join(words, ", "), maxSummary)
}

// tlvName is the registry's name of a TLV type.
func tlvName(typ uint16) string {
	names := [...]string{
		frame.TagProfileOffer: "ProfileOffer", frame.TagProfileSelect: "ProfileSelect",
		frame.TagKEMOffer: "KEMOffer", frame.TagKEMSelect: "KEMSelect",
		frame.TagSigOffer: "SigOffer", frame.TagSigSelect: "SigSelect",
		frame.TagKEMShare: "KEMShare", frame.TagKEMCiphertext: "KEMCiphertext",
		frame.TagIdentityKey: "IdentityKey", frame.TagCertVerify: "CertVerify", frame.TagFinished: "Finished",
		frame.TagAEADOffer: "AEADOffer", frame.TagAEADSelect: "AEADSelect",
		frame.TagBridgeEnvelope: "BridgeEnvelope", frame.TagOpaqueContentType: "OpaqueContentType",
		frame.TagSafetyLabel: "SafetyLabel", frame.TagPathChallenge: "PathChallenge", frame.TagPathResponse: "PathResponse",
		frame.TagKeyUpdateMarker: "KeyUpdateMarker", frame.TagProtectionMode: "ProtectionMode",
		frame.TagRatchetGeneration: "RatchetGeneration",
	}
	if int(typ) < len(names) && names[typ] != "" {
		return names[typ]
	}
	return fmt.Sprintf("TLV 0x%04x", typ)
}
