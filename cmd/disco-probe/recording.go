package main

import (
	"fmt"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
)

// A recording is what --record writes and replay reads, one JSON object a line:
//
//	{"v":1,"event":"association","id":…,"generation":3,…}   before its frames
//	{"v":1,"dir":"out","id":…,"type":"0x0100",…}            a frame, decrypted
//	{"v":1,"event":"ended","id":…,"cause":…}                after its last frame
//	{"v":1,"event":"failed","cause":…}                      where none came about

// stamp is a moment as recordings have it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func associationJSON(info association.Info, at time.Time) object {
	role := "server"
	if info.Client {
		role = "client"
	}
	return versioned(
		field{"event", "association"}, field{"id", octets(info.ID[:])}, field{"time", stamp(at)},
		field{"generation", info.Generation}, field{"suite", info.Suite.String()}, field{"role", role},
		field{"identity", octets(info.LocalIdentity)}, field{"peer", octets(info.PeerIdentity)},
		field{"local", info.LocalAddr.String()}, field{"remote", info.RemoteAddr.String()})
}

func frameJSON(f association.TraceFrame, at time.Time) object {
	dir, h := "in", f.Header
	if f.Sent {
		dir = "out"
	}
	o := versioned(
		field{"dir", dir}, field{"id", octets(f.ID[:])}, field{"time", stamp(at)},
		field{"channel", fmt.Sprintf("0x%04x", uint16(h.Channel))}, field{"type", fmt.Sprintf("0x%04x", uint16(h.Type))},
		field{"name", frame.TypeName(h.Channel, h.Type)}, field{"flags", uint64(h.Flags)},
		field{"seq", h.Seq}, field{"ratchet", f.Ratchet}, field{"epoch", f.Epoch})
	if corr, ok := frameCorr(h, f.Plaintext); ok {
		o = append(o, field{"corr", octets(corr)})
	}
	return append(o, field{"payload", octets(f.Plaintext)})
}
