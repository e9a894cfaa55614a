// Package bridge is the surrounding of a foreign message on the Bridge channel
// 0x000D: the BridgeEnvelope and SafetyLabel TLVs (NPAMP-BRIDGE §3, §4, §7), the
// rules by which replies belong to requests (§5), and the two checks that an
// invocation has to pass, whatever Discovery has advertised (NPAMP-DISC §5.3,
// §10). It is no endpoint: it sends nothing and keeps nothing.
//
// The payload of a Bridge frame is
//
//	BridgeEnvelope TLV (0x0010) ‖ SafetyLabel TLV (0x0013), optional ‖ foreign message
//
// and the foreign message is carried octet for octet (§1).
//
// Parse a payload with [Width.Parse], build one with [Width.Append]. What the
// receiver of a request asks next is whether it carries the protocol
// ([CheckCarried]) and whether its policy lets the call happen ([Authorize]);
// before sending one, [CheckLabel] tells whether a label is missing. Functions
// are pure and may be called concurrently.
//
// # Notes on the specification
//
// protocol_id was one octet and became two without anything on the wire that
// tells them apart. The width is therefore configured ([Width]) and never
// guessed from a payload.
//
// A foreign message that starts with the octets 00 13 and has no label in front
// would be read as a label. Append refuses it; such a message needs a label.
//
// A label that says read_only on a call the receiver knows to mutate is treated
// like a missing one: §7 forbids to take absence for read_only, and a label does
// not replace authorisation.
//
// §4 calls method and §7 calls scope UTF-8, but names no reaction. Append refuses
// other octets, Parse takes them as they are.
//
// # Limitations
//
// The body of a BRIDGE_ERROR that carries a transport error (§6) has no published
// encoding; [Error] says which one it would be. The OpaqueContentType TLV of the
// carriage class OPAQUE is not interpreted: it stays at the head of the foreign
// message, and a label behind it counts as absent, hence as destructive.
package bridge
