package frame

// A Type is the frame type of a header (core §4.6). Types 0x0001–0x002F mean
// the same on every channel; from 0x0030 up the channel gives them meaning.
//
//	0x0000         never used
//	0x0001–0x000A  all-channel reserved types
//	0x000B–0x002F  future core use, unknown types today
//	0x0030–0x00FF  reserved for companion specifications, channel by channel
//	0x0100–0xFFFF  channel-specific
type Type uint16

// The all-channel reserved types (core §4.6).
const (
	TypePing          Type = 0x0001
	TypePong          Type = 0x0002
	TypeClose         Type = 0x0003
	TypeCloseAck      Type = 0x0004
	TypeError         Type = 0x0005
	TypeKeyUpdate     Type = 0x0006
	TypeKeyUpdateAck  Type = 0x0007
	TypePathChallenge Type = 0x0008
	TypePathResponse  Type = 0x0009
	TypeFlowUpdate    Type = 0x000A
)

// Types of the Control channel (core §8, handshake binding §9, NPAMP-HELLO §3).
// The same numbers mean something else on every other channel.
const (
	TypeClientHello      Type = 0x0100
	TypeServerHello      Type = 0x0101
	TypeServerAuth       Type = 0x0102
	TypeClientAuth       Type = 0x0103
	TypeMasterRatchet    Type = 0x0104
	TypeMasterRatchetAck Type = 0x0105
	TypeRekem            Type = 0x0106
	TypeRekemAck         Type = 0x0107
	TypeHello            Type = 0x0110
	TypeHelloDone        Type = 0x0111
)

// IsReservedAll reports whether t is one of the all-channel types 0x0001–0x000A.
func (t Type) IsReservedAll() bool { return t >= TypePing && t <= TypeFlowUpdate }

// IsFutureCore reports whether t is in 0x000B–0x002F.
func (t Type) IsFutureCore() bool { return t >= 0x000B && t <= 0x002F }

// IsCompanion reports whether t is in the companion band 0x0030–0x00FF.
func (t Type) IsCompanion() bool { return t >= 0x0030 && t <= 0x00FF }

// IsChannelSpecific reports whether t is in 0x0100–0xFFFF.
func (t Type) IsChannelSpecific() bool { return t >= 0x0100 }

// A ChannelID is the channel of a header (core §5).
//
//	0x0000–0x0013  assigned
//	0x0014–0x001F  future core use
//	0x0020–0xEFFF  extensions
//	0xF000–0xFFFE  GREASE: ignored
//	0xFFFF         never on the wire
type ChannelID uint16

// The assigned channels.
const (
	ChannelControl     ChannelID = 0x0000
	ChannelMemory      ChannelID = 0x0001
	ChannelCapability  ChannelID = 0x0002
	ChannelIdentity    ChannelID = 0x0003
	ChannelGovernance  ChannelID = 0x0004
	ChannelImmune      ChannelID = 0x0005
	ChannelFederation  ChannelID = 0x0006
	ChannelSettlement  ChannelID = 0x0007
	ChannelCompliance  ChannelID = 0x0008
	ChannelSensory     ChannelID = 0x0009
	ChannelTelemetry   ChannelID = 0x000A
	ChannelAudit       ChannelID = 0x000B
	ChannelStream      ChannelID = 0x000C
	ChannelBridge      ChannelID = 0x000D
	ChannelCommerce    ChannelID = 0x000E
	ChannelInteraction ChannelID = 0x000F
	ChannelDiscovery   ChannelID = 0x0010
	ChannelWorkflow    ChannelID = 0x0011
	ChannelKnowledge   ChannelID = 0x0012
	ChannelSpatial     ChannelID = 0x0013

	ChannelForbidden ChannelID = 0xFFFF // never on the wire (core §9)
)

// Assigned reports whether the registry defines the channel.
func (c ChannelID) Assigned() bool { return c <= ChannelSpatial }

// IsFutureCore reports whether c is in 0x0014–0x001F.
func (c ChannelID) IsFutureCore() bool { return c > ChannelSpatial && c <= 0x001F }

// IsExtension reports whether c is in 0x0020–0xEFFF.
func (c ChannelID) IsExtension() bool { return c >= 0x0020 && c <= 0xEFFF }

// IsGrease reports whether c is a GREASE channel, 0xF000–0xFFFE. Frames on one
// are ignored (core §9).
func (c ChannelID) IsGrease() bool { return c >= 0xF000 && c < ChannelForbidden }

// IsForbidden reports whether c is 0xFFFF.
func (c ChannelID) IsForbidden() bool { return c == ChannelForbidden }

// String returns the registry's name, or the number as 0x0020.
func (c ChannelID) String() string {
	names := [...]string{
		"Control", "Memory", "Capability", "Identity", "Governance", "Immune", "Federation",
		"Settlement", "Compliance", "Sensory", "Telemetry", "Audit", "Stream", "Bridge",
		"Commerce", "Interaction", "Discovery", "Workflow", "Knowledge", "Spatial",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return hexNum(uint64(c), 4)
}

// MinProfile returns the lowest profile at which the channel may be enabled
// (core §5). An extension channel has no entry in the registry; Standard is
// returned for it.
func (c ChannelID) MinProfile() Profile {
	switch c {
	case ChannelGovernance, ChannelFederation, ChannelCompliance, ChannelSensory, ChannelSpatial:
		return ProfileHigh
	case ChannelAudit:
		return ProfileSovereign
	}
	return ProfileStandard
}

// MultiStream reports whether the registry gives the channel several streams
// instead of one bidirectional one.
func (c ChannelID) MultiStream() bool {
	switch c {
	case ChannelMemory, ChannelFederation, ChannelSensory, ChannelStream, ChannelKnowledge, ChannelSpatial:
		return true
	}
	return false
}

// A Profile is a security profile's code point (core §6). A greater one is
// stronger. 0x00 and 0x04–0xFF are reserved.
type Profile uint8

// The profiles.
const (
	ProfileStandard  Profile = 0x01
	ProfileHigh      Profile = 0x02
	ProfileSovereign Profile = 0x03
)

// Valid reports whether p is one of the three profiles.
func (p Profile) Valid() bool { return p >= ProfileStandard && p <= ProfileSovereign }

// String returns the registry's name.
func (p Profile) String() string {
	switch p {
	case ProfileStandard:
		return "Standard"
	case ProfileHigh:
		return "High"
	case ProfileSovereign:
		return "Sovereign"
	}
	return "unknown(" + hexNum(uint64(p), 2) + ")"
}

// hexNum returns v as 0x and n digits.
func hexNum(v uint64, n int) string {
	b := make([]byte, 2+n)
	b[0], b[1] = '0', 'x'
	for i := len(b) - 1; i > 1; i-- {
		b[i] = "0123456789abcdef"[v&0xF]
		v >>= 4
	}
	return string(b)
}
