package frame

import "strings"

// TypeName returns the registry's name of type t on channel ch. The all-channel
// types have one name everywhere; of the others a name is known only on the
// channel that defines it. Everything else is "unknown(0x0107)".
func TypeName(ch ChannelID, t Type) string {
	if t.IsReservedAll() {
		return word("PING PONG CLOSE CLOSE_ACK ERROR KEY_UPDATE KEY_UPDATE_ACK "+
			"PATH_CHALLENGE PATH_RESPONSE FLOW_UPDATE", int(t-TypePing))
	}
	for _, run := range typeRuns(ch) {
		if t < run.first {
			continue
		}
		if name := word(run.names, int(t-run.first)); name != "" {
			return name
		}
	}
	return "unknown(" + hexNum(uint64(t), 4) + ")"
}

// A typeRun names consecutive types of one channel, separated by spaces.
type typeRun struct {
	first Type
	names string
}

// typeRuns returns the types that the core, the handshake binding and the
// companions define for ch. Two runs are enough for every channel.
func typeRuns(ch ChannelID) [2]typeRun {
	switch ch {
	case ChannelControl:
		return [2]typeRun{
			{0x0100, "CLIENT_HELLO SERVER_HELLO SERVER_AUTH CLIENT_AUTH MASTER_RATCHET MASTER_RATCHET_ACK " +
				"REKEM REKEM_ACK"},
			{0x0110, "HELLO HELLO_DONE"},
		}
	case ChannelMemory:
		return [2]typeRun{
			{0x0035, "MEMORY_EVICT MEMORY_REVIVE"},
			{0x0100, "MEMORY_CREATE_REQ MEMORY_CREATE_RESULT MEMORY_READ_REQ MEMORY_READ_RESULT " +
				"MEMORY_UPDATE_REQ MEMORY_UPDATE_RESULT MEMORY_DELETE_REQ MEMORY_DELETE_RESULT " +
				"MEMORY_RETRIEVE_REQ MEMORY_RETRIEVE_RESULT MEMORY_RETRIEVE_STREAM_DATA " +
				"MEMORY_RETRIEVE_STREAM_END MEMORY_STATUS_REQ MEMORY_STATUS_RESULT MEMORY_ERROR"},
		}
	case ChannelCapability:
		return [2]typeRun{
			{0x0060, "CAP_TOKEN_PRESENT CAP_TOKEN_ACCEPT CAP_TOKEN_CHALLENGE CAP_TOKEN_PROOF"},
			{0x0100, "CAP_ISSUE_REQ CAP_ISSUE_RESULT CAP_DELEGATE_REQ CAP_DELEGATE_RESULT CAP_REVOKE_REQ " +
				"CAP_REVOKE_RESULT CAP_LOOKUP_REQ CAP_LOOKUP_RESULT CAP_ERROR"},
		}
	case ChannelImmune:
		return [2]typeRun{
			{0x00C0, "IMMUNE_GOSSIP_ADVERTISE IMMUNE_GOSSIP_ACK IMMUNE_GOSSIP_PULL_REQ " +
				"IMMUNE_GOSSIP_PULL_RESULT IMMUNE_GOSSIP_RETRACT"},
			{0x0100, "IMMUNE_REPORT_REQ IMMUNE_REPORT_RESULT IMMUNE_ERROR"},
		}
	case ChannelSettlement:
		return [2]typeRun{
			{0x00A0, "SETTLE_BATCH_COMMIT_REQ SETTLE_BATCH_COMMIT_RESULT"},
			{0x0100, "SETTLE_INTENT_REQ SETTLE_INTENT_RESULT RECEIPT_REQ RECEIPT_RESULT SETTLE_ERROR"},
		}
	case ChannelTelemetry:
		return [2]typeRun{
			{0x0100, "TELEMETRY_REPORT TELEMETRY_SUBSCRIBE TELEMETRY_SUB_ACK TELEMETRY_UNSUBSCRIBE " +
				"TELEMETRY_CREDIT TELEMETRY_ERROR"},
		}
	case ChannelStream:
		return [2]typeRun{
			{0x0100, "STREAM_OPEN STREAM_DATA STREAM_CLOSE STREAM_RESET STREAM_WINDOW_UPDATE"},
		}
	case ChannelBridge:
		return [2]typeRun{
			{0x0100, "BRIDGE_REQUEST BRIDGE_RESPONSE BRIDGE_ERROR BRIDGE_NOTIFY BRIDGE_STREAM_DATA " +
				"BRIDGE_STREAM_END"},
		}
	case ChannelCommerce:
		return [2]typeRun{
			{0x0100, "COMMERCE_MANDATE_CREATE_REQ COMMERCE_MANDATE_CREATE_RESULT COMMERCE_MANDATE_READ_REQ " +
				"COMMERCE_MANDATE_READ_RESULT COMMERCE_MANDATE_REVOKE_REQ COMMERCE_MANDATE_REVOKE_RESULT " +
				"COMMERCE_MANDATE_STATUS_REQ COMMERCE_MANDATE_STATUS_RESULT COMMERCE_INTENT_PROPOSE_REQ " +
				"COMMERCE_INTENT_PROPOSE_RESULT COMMERCE_INTENT_RESPOND_REQ " +
				"COMMERCE_INTENT_RESPOND_RESULT COMMERCE_INTENT_STATUS_REQ COMMERCE_INTENT_STATUS_RESULT " +
				"COMMERCE_ERROR"},
		}
	case ChannelInteraction:
		return [2]typeRun{
			{0x0100, "INTERACT_EVENT INTERACT_EVENT_ACK INTERACT_PROMPT_REQ INTERACT_PROMPT_RESULT " +
				"INTERACT_APPROVAL_REQ INTERACT_APPROVAL_RESULT INTERACT_CANCEL INTERACT_ERROR"},
		}
	case ChannelDiscovery:
		return [2]typeRun{
			{0x0100, "DISCO_QUERY DISCO_RESULT DISCO_ERROR DISCO_ANNOUNCE DISCO_SUBSCRIBE DISCO_UPDATE " +
				"DISCO_UNSUBSCRIBE"},
		}
	case ChannelWorkflow:
		return [2]typeRun{
			{0x0100, "WORKFLOW_SUBMIT_REQ WORKFLOW_SUBMIT_RESULT WORKFLOW_STATUS_REQ WORKFLOW_STATUS_RESULT " +
				"WORKFLOW_CANCEL_REQ WORKFLOW_CANCEL_RESULT WORKFLOW_STEP_EVENT WORKFLOW_COMPLETE " +
				"WORKFLOW_ERROR"},
		}
	case ChannelKnowledge:
		return [2]typeRun{
			{0x0100, "KNOWLEDGE_QUERY_REQ KNOWLEDGE_QUERY_RESULT KNOWLEDGE_QUERY_STREAM_DATA " +
				"KNOWLEDGE_QUERY_STREAM_END KNOWLEDGE_SUBSCRIBE_REQ KNOWLEDGE_SUBSCRIBE_ACK " +
				"KNOWLEDGE_UPDATE KNOWLEDGE_CREDIT KNOWLEDGE_UNSUBSCRIBE KNOWLEDGE_ERROR"},
		}
	}
	return [2]typeRun{}
}

// word returns the i-th of the words of s, or "".
func word(s string, i int) string {
	for ; i > 0; i-- {
		_, rest, ok := strings.Cut(s, " ")
		if !ok {
			return ""
		}
		s = rest
	}
	w, _, _ := strings.Cut(s, " ")
	return w
}
