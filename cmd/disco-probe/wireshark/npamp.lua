-- Wireshark dissector for N-PAMP: frame headers, handshake flights and control
-- frames, and the payloads of the Discovery channel (NPAMP-DISC).
--
--   tshark -X lua_script:npamp.lua -o npamp.keylog:FILE -o tls.keylog_file:FILE …
--
-- or copy npamp.lua and npampcrypt.lua into Wireshark's folder for Lua plugins.
-- FILE is what disco-probe --keylog, or association.Config.KeyLogWriter, wrote; it
-- opens both N-PAMP and the TLS below it. Without it headers and the two clear
-- flights are shown.
--
-- Found are: N-PAMP inside TLS by its ALPN (n-pamp/2, n-pamp/3), which is
-- encrypted in TLS 1.3 and so needs the key log, or by "Decode As" on the TLS
-- port; and N-PAMP over plain TCP by its first frame. The handshake has to be in
-- the capture. QUIC is not dissected.
--
-- Written for Lua 5.2 and later; tested with Wireshark 4.0.

local here = __DIR__ or ""
package.path = here .. "?.lua;" .. here .. "/?.lua;" .. package.path
local crypt = require "npampcrypt"

local bit = bit32 or bit
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift

local HEADER, TAG = 36, 16
local CONTROL, DISCOVERY = 0x0000, 0x0010
local ENC = 0x2

-- Names -------------------------------------------------------------------------

local channels = { [0] = "Control", "Memory", "Capability", "Identity", "Governance", "Immune",
  "Federation", "Settlement", "Compliance", "Sensory", "Telemetry", "Audit", "Stream", "Bridge",
  "Commerce", "Interaction", "Discovery", "Workflow", "Knowledge", "Spatial" }

-- Runs of consecutive types; those of "all" mean the same on every channel.
local runs = {
  all = { { 0x0001, "PING PONG CLOSE CLOSE_ACK ERROR KEY_UPDATE KEY_UPDATE_ACK PATH_CHALLENGE PATH_RESPONSE FLOW_UPDATE" } },
  Control = {
    { 0x0100, "CLIENT_HELLO SERVER_HELLO SERVER_AUTH CLIENT_AUTH MASTER_RATCHET MASTER_RATCHET_ACK REKEM REKEM_ACK" },
    { 0x0110, "HELLO HELLO_DONE" } },
  Memory = {
    { 0x0035, "MEMORY_EVICT MEMORY_REVIVE" },
    { 0x0100, "MEMORY_CREATE_REQ MEMORY_CREATE_RESULT MEMORY_READ_REQ MEMORY_READ_RESULT MEMORY_UPDATE_REQ " ..
      "MEMORY_UPDATE_RESULT MEMORY_DELETE_REQ MEMORY_DELETE_RESULT MEMORY_RETRIEVE_REQ MEMORY_RETRIEVE_RESULT " ..
      "MEMORY_RETRIEVE_STREAM_DATA MEMORY_RETRIEVE_STREAM_END MEMORY_STATUS_REQ MEMORY_STATUS_RESULT MEMORY_ERROR" } },
  Capability = {
    { 0x0060, "CAP_TOKEN_PRESENT CAP_TOKEN_ACCEPT CAP_TOKEN_CHALLENGE CAP_TOKEN_PROOF" },
    { 0x0100, "CAP_ISSUE_REQ CAP_ISSUE_RESULT CAP_DELEGATE_REQ CAP_DELEGATE_RESULT CAP_REVOKE_REQ " ..
      "CAP_REVOKE_RESULT CAP_LOOKUP_REQ CAP_LOOKUP_RESULT CAP_ERROR" } },
  Immune = {
    { 0x00C0, "IMMUNE_GOSSIP_ADVERTISE IMMUNE_GOSSIP_ACK IMMUNE_GOSSIP_PULL_REQ IMMUNE_GOSSIP_PULL_RESULT IMMUNE_GOSSIP_RETRACT" },
    { 0x0100, "IMMUNE_REPORT_REQ IMMUNE_REPORT_RESULT IMMUNE_ERROR" } },
  Settlement = {
    { 0x00A0, "SETTLE_BATCH_COMMIT_REQ SETTLE_BATCH_COMMIT_RESULT" },
    { 0x0100, "SETTLE_INTENT_REQ SETTLE_INTENT_RESULT RECEIPT_REQ RECEIPT_RESULT SETTLE_ERROR" } },
  Telemetry = {
    { 0x0100, "TELEMETRY_REPORT TELEMETRY_SUBSCRIBE TELEMETRY_SUB_ACK TELEMETRY_UNSUBSCRIBE TELEMETRY_CREDIT TELEMETRY_ERROR" } },
  Stream = { { 0x0100, "STREAM_OPEN STREAM_DATA STREAM_CLOSE STREAM_RESET STREAM_WINDOW_UPDATE" } },
  Bridge = {
    { 0x0100, "BRIDGE_REQUEST BRIDGE_RESPONSE BRIDGE_ERROR BRIDGE_NOTIFY BRIDGE_STREAM_DATA BRIDGE_STREAM_END" } },
  Commerce = {
    { 0x0100, "COMMERCE_MANDATE_CREATE_REQ COMMERCE_MANDATE_CREATE_RESULT COMMERCE_MANDATE_READ_REQ " ..
      "COMMERCE_MANDATE_READ_RESULT COMMERCE_MANDATE_REVOKE_REQ COMMERCE_MANDATE_REVOKE_RESULT " ..
      "COMMERCE_MANDATE_STATUS_REQ COMMERCE_MANDATE_STATUS_RESULT COMMERCE_INTENT_PROPOSE_REQ " ..
      "COMMERCE_INTENT_PROPOSE_RESULT COMMERCE_INTENT_RESPOND_REQ COMMERCE_INTENT_RESPOND_RESULT " ..
      "COMMERCE_INTENT_STATUS_REQ COMMERCE_INTENT_STATUS_RESULT COMMERCE_ERROR" } },
  Interaction = {
    { 0x0100, "INTERACT_EVENT INTERACT_EVENT_ACK INTERACT_PROMPT_REQ INTERACT_PROMPT_RESULT " ..
      "INTERACT_APPROVAL_REQ INTERACT_APPROVAL_RESULT INTERACT_CANCEL INTERACT_ERROR" } },
  Discovery = {
    { 0x0100, "DISCO_QUERY DISCO_RESULT DISCO_ERROR DISCO_ANNOUNCE DISCO_SUBSCRIBE DISCO_UPDATE DISCO_UNSUBSCRIBE" } },
  Workflow = {
    { 0x0100, "WORKFLOW_SUBMIT_REQ WORKFLOW_SUBMIT_RESULT WORKFLOW_STATUS_REQ WORKFLOW_STATUS_RESULT " ..
      "WORKFLOW_CANCEL_REQ WORKFLOW_CANCEL_RESULT WORKFLOW_STEP_EVENT WORKFLOW_COMPLETE WORKFLOW_ERROR" } },
  Knowledge = {
    { 0x0100, "KNOWLEDGE_QUERY_REQ KNOWLEDGE_QUERY_RESULT KNOWLEDGE_QUERY_STREAM_DATA KNOWLEDGE_QUERY_STREAM_END " ..
      "KNOWLEDGE_SUBSCRIBE_REQ KNOWLEDGE_SUBSCRIBE_ACK KNOWLEDGE_UPDATE KNOWLEDGE_CREDIT KNOWLEDGE_UNSUBSCRIBE KNOWLEDGE_ERROR" } },
}

local types = {} -- by channel name, by number
for name, list in pairs(runs) do
  types[name] = {}
  for _, run in ipairs(list) do
    local n = run[1]
    for word in run[2]:gmatch("%S+") do
      types[name][n] = word
      n = n + 1
    end
  end
end

local function channel_name(ch) return channels[ch] or string.format("0x%04x", ch) end

local function type_name(ch, typ)
  local own = types[channel_name(ch)]
  return types.all[typ] or own and own[typ] or string.format("unknown(0x%04x)", typ)
end

local tlv_names = { [0x01] = "ProfileOffer", [0x02] = "ProfileSelect", [0x03] = "KEMOffer", [0x04] = "KEMSelect",
  [0x05] = "SigOffer", [0x06] = "SigSelect", [0x07] = "KEMShare", [0x08] = "KEMCiphertext", [0x09] = "IdentityKey",
  [0x0A] = "CertVerify", [0x0B] = "Finished", [0x0C] = "AEADOffer", [0x0D] = "AEADSelect", [0x10] = "BridgeEnvelope",
  [0x12] = "OpaqueContentType", [0x13] = "SafetyLabel", [0x15] = "PathChallenge", [0x16] = "PathResponse",
  [0x17] = "KeyUpdateMarker", [0x18] = "ProtectionMode", [0x19] = "RatchetGeneration" }

local core_errors = { "unexpected_message", "decrypt_failed", "replay_detected", "unknown_channel",
  "unknown_critical_tlv", "handshake_timeout", "downgrade_detected", "close_incomplete",
  "key_update_out_of_order", "flow_control_error" }

local disco_errors = { "MalformedPayload", "KindMismatch", "UnknownRecordKind", "FilterUnsupported",
  "StaleCursor", "SubscriptionRefused", "NotAdvertised" }

local suites = { "AES-256-GCM", "ChaCha20-Poly1305" }
local kinds = { "protocol", "carriage_class", "tool", "agent" }
local effects = { [0] = "read_only", "idempotent_write", "non_idempotent_write", "destructive" }

-- Fields --------------------------------------------------------------------------

local npamp = Proto("npamp", "N-PAMP")
npamp.prefs.keylog = Pref.string("Key log", "", "File that disco-probe --keylog wrote")

local F = {
  version = ProtoField.uint8("npamp.version", "Version", base.DEC, nil, 0xF0),
  flags = ProtoField.uint8("npamp.flags", "Flags", base.HEX, nil, 0x0F),
  urg = ProtoField.bool("npamp.flags.urg", "URG (generation 2; reserved in 3)", 8, nil, 0x1),
  enc = ProtoField.bool("npamp.flags.enc", "ENC", 8, nil, 0x2),
  comp = ProtoField.bool("npamp.flags.comp", "COMP", 8, nil, 0x4),
  frag = ProtoField.bool("npamp.flags.frag", "FRAG (generation 2; reserved in 3)", 8, nil, 0x8),
  type = ProtoField.uint16("npamp.type", "Type", base.HEX),
  type_name = ProtoField.string("npamp.type_name", "Type name"),
  channel = ProtoField.uint16("npamp.channel", "Channel", base.HEX, channels),
  seq = ProtoField.uint64("npamp.seq", "Sequence", base.DEC),
  length = ProtoField.uint32("npamp.length", "Payload length", base.DEC),
  crc = ProtoField.uint32("npamp.crc", "CRC32C", base.HEX),
  reserved = ProtoField.bytes("npamp.reserved", "Reserved"),
  sealed = ProtoField.bytes("npamp.sealed", "Sealed payload"),
  tag = ProtoField.bytes("npamp.tag", "Tag"),
  plain = ProtoField.bytes("npamp.plain", "Payload"),
  id = ProtoField.string("npamp.id", "Association"),
  direction = ProtoField.string("npamp.direction", "Direction"),
  suite = ProtoField.uint16("npamp.suite", "Suite", base.HEX, suites),
  ratchet = ProtoField.uint64("npamp.ratchet", "Generation of the root", base.DEC),
  epoch = ProtoField.uint64("npamp.epoch", "Epoch of the key", base.DEC),
  tlv = ProtoField.none("npamp.tlv", "TLV"),
  tlv_type = ProtoField.uint16("npamp.tlv.type", "Type", base.HEX, tlv_names),
  tlv_length = ProtoField.uint16("npamp.tlv.length", "Length", base.DEC),
  tlv_value = ProtoField.bytes("npamp.tlv.value", "Value"),
  error = ProtoField.uint8("npamp.error", "Error code", base.DEC, core_errors),
  error_context = ProtoField.bytes("npamp.error.context", "Context"),
  limit = ProtoField.uint64("npamp.limit", "Receive limit", base.DEC),
  frame_kind = ProtoField.uint64("npamp.disco.frame_kind", "frame_kind", base.DEC),
  corr = ProtoField.bytes("npamp.disco.corr", "corr"),
  code = ProtoField.uint64("npamp.disco.code", "code", base.DEC),
  reason = ProtoField.string("npamp.disco.reason", "reason"),
  complete = ProtoField.bool("npamp.disco.complete", "complete"),
  tolerant = ProtoField.bool("npamp.disco.tolerant", "tolerant"),
  cursor = ProtoField.bytes("npamp.disco.cursor", "cursor"),
  name_prefix = ProtoField.string("npamp.disco.name_prefix", "name_prefix"),
  kinds = ProtoField.uint64("npamp.disco.kinds", "kind asked for", base.DEC),
  protocol_ids = ProtoField.uint64("npamp.disco.protocol_ids", "protocol_id asked for", base.DEC),
  withdrawn = ProtoField.bytes("npamp.disco.withdrawn", "withdrawn"),
  record_id = ProtoField.bytes("npamp.disco.record_id", "record_id"),
  kind = ProtoField.uint64("npamp.disco.kind", "kind", base.DEC),
  revision = ProtoField.uint64("npamp.disco.revision", "revision", base.DEC),
  label = ProtoField.string("npamp.disco.label", "label"),
  name = ProtoField.string("npamp.disco.name", "name"),
  schema_ref = ProtoField.string("npamp.disco.schema_ref", "schema_ref"),
  methods = ProtoField.string("npamp.disco.methods", "method"),
  protocol_id = ProtoField.uint64("npamp.disco.protocol_id", "protocol_id", base.DEC),
  carriage_class = ProtoField.uint64("npamp.disco.carriage_class", "carriage_class", base.DEC),
  channels = ProtoField.uint64("npamp.disco.channels", "channel", base.DEC),
  content_types = ProtoField.uint64("npamp.disco.content_types", "content_type", base.DEC),
  effect = ProtoField.uint64("npamp.disco.effect", "effect", base.DEC),
  agent_id = ProtoField.bytes("npamp.disco.agent_id", "agent_id"),
  protocols = ProtoField.uint64("npamp.disco.protocols", "protocol", base.DEC),
  tools = ProtoField.bytes("npamp.disco.tools", "tool"),
}
local X = {
  crc = ProtoExpert.new("npamp.crc.bad", "CRC32C is wrong", expert.group.CHECKSUM, expert.severity.ERROR),
  header = ProtoExpert.new("npamp.header.bad", "Header is not as it has to be", expert.group.PROTOCOL, expert.severity.ERROR),
  nokey = ProtoExpert.new("npamp.nokey", "No key of the key log opens it", expert.group.DECRYPTION, expert.severity.NOTE),
  cbor = ProtoExpert.new("npamp.cbor.bad", "Not CBOR as NPAMP-DISC has it", expert.group.MALFORMED, expert.severity.WARN),
}
do
  local list, experts = {}, {}
  for _, f in pairs(F) do list[#list + 1] = f end
  for _, x in pairs(X) do experts[#experts + 1] = x end
  npamp.fields, npamp.experts = list, experts
end

local tcp_stream = Field.new("tcp.stream")

-- The key log -----------------------------------------------------------------------

local log -- keys by association, direction and channel, in the order of their use
local log_read -- how far the file was read
local streams -- what is known of each TCP connection
local opened -- plaintexts of frames, by packet and header

local function unhex(s) return (s:gsub("..", function(x) return string.char(tonumber(x, 16)) end)) end

-- read_log reads what the key log has grown by.
local function read_log()
  local name = npamp.prefs.keylog
  if name == "" then return end
  local file = io.open(name, "r")
  if not file then return end
  if log_read then file:seek("set", log_read) end
  for line in file:lines() do
    local label, id, dir, ratchet, ch, epoch, suite, key, iv =
      line:match("^NPAMP_(%u+)_KEY (%x+) ([cs]2[cs]) (%d+) (%x%x%x%x) (%d+) (%x%x%x%x) (%x+) (%x+)%s*$")
    if label and #key == 64 and #iv == 24 then
      local use = id .. dir .. tonumber(ch, 16)
      log[use] = log[use] or {}
      table.insert(log[use], { ratchet = ratchet, epoch = epoch, suite = tonumber(suite, 16),
        key = unhex(key), iv = unhex(iv), handshake = label == "HANDSHAKE" })
    end
  end
  log_read = file:seek()
  file:close()
end

function npamp.init()
  log, log_read, streams, opened = {}, nil, {}, {}
  read_log()
end

-- How many keys ahead of the one in use are tried. Keys are used in the order of
-- the log, so that the next one it is, unless frames are missing in the capture.
local AHEAD = 64

-- open finds the key of a frame and returns it with the plaintext.
local function open(stream, dir, ch, header, sealed)
  local use = stream.id .. dir .. ch
  local first = stream.used[use] or 1
  for attempt = 1, 2 do
    local list = log[use] or {}
    for i = first, math.min(first + AHEAD, #list) do
      local k = list[i]
      local plain = crypt.open(k.suite, k.key, k.iv, header:sub(10, 17), header:sub(1, 21), sealed)
      if plain then
        stream.used[use] = i
        return plain, k
      end
    end
    if attempt == 1 then
      local before = #list
      read_log() -- a live capture: the keys may have come since
      if #(log[use] or {}) == before then break end
    end
  end
end

-- CRC32C ------------------------------------------------------------------------------

local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = bxor(rshift(c, 1), band(c, 1) == 1 and 0x82F63B78 or 0) end
  crc_table[i] = c
end

local function crc32c(s)
  local c = 0xFFFFFFFF
  for i = 1, #s do c = bxor(rshift(c, 8), crc_table[band(bxor(c, s:byte(i)), 255)]) end
  return bxor(c, 0xFFFFFFFF) % 0x100000000
end

-- Payloads ----------------------------------------------------------------------------

local function show_tlvs(range, tree)
  local at = 0
  while at + 4 <= range:len() do
    local typ, n = range(at, 2):uint(), range(at + 2, 2):uint()
    if at + 4 + n > range:len() then break end
    local t = tree:add(F.tlv, range(at, 4 + n))
    t:set_text(string.format("%s, %d octets", tlv_names[typ] or string.format("TLV 0x%04x", typ), n))
    t:add(F.tlv_type, range(at, 2))
    t:add(F.tlv_length, range(at + 2, 2))
    if n > 0 then t:add(F.tlv_value, range(at + 4, n)) end
    if n == 8 then t:append_text(": " .. tostring(range(at + 4, 8):uint64())) end
    at = at + 4 + n
  end
  if at < range:len() then tree:add_proto_expert_info(X.header, "octets behind the TLVs") end
end

-- head reads a CBOR head: major type, argument, index after it. The argument of 8
-- octets is right up to 2^53, which is all that lengths need.
local function head(range, at)
  if at >= range:len() then error("truncated", 0) end
  local first = range(at, 1):uint()
  local major, info = math.floor(first / 32), first % 32
  if info < 24 then return major, info, at + 1 end
  local n = ({ [24] = 1, [25] = 2, [26] = 4, [27] = 8 })[info]
  if not n then error("head", 0) end
  if at + 1 + n > range:len() then error("truncated", 0) end
  local value = n == 8 and range(at + 1, 8):uint64():tonumber() or range(at + 1, n):uint()
  return major, value, at + 1 + n
end

-- skip returns the index after the item at at.
local function skip(range, at, depth)
  if depth > 16 then error("depth", 0) end
  local major, n, next = head(range, at)
  if major == 2 or major == 3 then
    if next + n > range:len() then error("truncated", 0) end
    return next + n
  elseif major == 4 or major == 5 then
    for _ = 1, n * (major - 3) do next = skip(range, next, depth + 1) end
  elseif major == 6 then
    return skip(range, next, depth + 1)
  end
  return next
end

-- show adds the item at at as field, with the name of its number where it has one,
-- and returns the index after it.
local show

local function show_number(range, at, tree, field, names)
  local major, n, next = head(range, at)
  local item
  if major == 7 then
    if n ~= 20 and n ~= 21 then error("simple value", 0) end
    tree:add(field, range(at, 1), n == 21)
    return next
  elseif next - at == 9 then
    item = tree:add(field, range(at + 1, 8))
  else
    item = tree:add(field, range(at, next - at), UInt64.new(n))
  end
  if names and names[n] then item:append_text(" (" .. names[n] .. ")") end
  return next
end

local bodies = {
  { { F.protocol_id }, { F.carriage_class }, { F.channels, channels, list = true }, { F.content_types, list = true }, { F.methods, list = true } },
  { { F.carriage_class }, { F.content_types, list = true } },
  { { F.name }, { F.protocol_id }, { F.effect, effects }, { F.schema_ref } },
  { { F.agent_id }, { F.protocols, list = true }, { F.tools, list = true } },
}
local record = { { F.record_id }, { F.kind, kinds }, { F.revision }, { F.label }, { body = true } }
local head_of = { { F.frame_kind, types.Discovery }, { F.corr } }
local filter = { head_of[1], head_of[2], { F.kinds, kinds, list = true }, { F.protocol_ids, list = true }, { F.name_prefix } }
local messages = {
  [0x100] = { filter[1], filter[2], filter[3], filter[4], filter[5], { F.tolerant }, { F.cursor } },
  [0x101] = { head_of[1], head_of[2], { records = "records" }, { F.complete }, { F.cursor } },
  [0x102] = { head_of[1], head_of[2], { F.code, disco_errors }, { F.reason } },
  [0x103] = { head_of[1], head_of[2], { records = "records" } },
  [0x104] = filter,
  [0x105] = { head_of[1], head_of[2], { records = "added" }, { F.withdrawn, list = true } },
  [0x106] = head_of,
}

local function show_map(range, at, tree, shape, note)
  local major, n, next = head(range, at)
  if major ~= 5 then error("not a map", 0) end
  local kind
  for _ = 1, n do
    local key_major, key, value = head(range, next)
    local as = key_major == 0 and shape[key + 1] or nil
    if not as then
      local after = skip(range, value, 1)
      tree:add(range(next, after - next), string.format("unknown key %d", key))
      next = after
    elseif as.body then
      local _, _, after = head(range, value)
      local t = tree:add(range(value, skip(range, value, 1) - value), "body")
      next = show_map(range, value, t, bodies[kind] or {}, note)
    else
      if as[1] == F.kind then _, kind = head(range, value) end
      next = show(range, value, tree, as, note)
    end
  end
  return next
end

show = function(range, at, tree, as, note)
  if as.records then
    local _, n, next = head(range, at)
    local list = tree:add(range(at, skip(range, at, 1) - at), as.records .. ": " .. n)
    note[as.records] = n
    for i = 1, n do
      local t = list:add(range(next, skip(range, next, 1) - next), "record " .. i)
      next = show_map(range, next, t, record, note)
    end
    return next
  end
  local major, n, next = head(range, at)
  if as.list then
    if major ~= 4 then error("not an array", 0) end
    if n == 0 then tree:add(range(at, 1), "none") end
    for _ = 1, n do next = show(range, next, tree, { as[1], as[2] }, note) end
    return next
  elseif major == 2 or major == 3 then
    if next + n > range:len() then error("truncated", 0) end
    if n > 0 then
      tree:add(as[1], range(next, n))
    else
      tree:add(as[1], range(at, 1), major == 3 and "" or nil):append_text(" (empty)")
    end
    if as[1] == F.corr and n > 0 then note.corr = range(next, n):bytes():tohex():lower() end
    return next + n
  elseif major == 0 or major == 7 then
    if as[1] == F.code then note.code = n end
    return show_number(range, at, tree, as[1], as[2])
  end
  error("type", 0)
end

-- show_discovery adds a payload and returns what the Info column says of it.
local function show_discovery(range, tree, typ)
  local at = 0 -- TLVs may stand before the map
  while at + 4 <= range:len() and range(at, 1):uint() < 0x80 do at = at + 4 + range(at + 2, 2):uint() end
  if at > 0 then show_tlvs(range(0, math.min(at, range:len())), tree) end
  local note = {}
  local ok, why = pcall(function()
    local after = show_map(range, at, tree, messages[typ], note)
    if after < range:len() then error("octets behind it", 0) end
  end)
  if not ok then tree:add_proto_expert_info(X.cbor, "Not CBOR as NPAMP-DISC has it: " .. tostring(why)) end
  local text = note.corr and " corr " .. note.corr or ""
  for _, k in ipairs { "records", "added" } do
    if note[k] then text = text .. string.format(", %s %d", k, note[k]) end
  end
  if note.code then text = text .. ", " .. (disco_errors[note.code] or "code " .. note.code) end
  return text
end

-- show_plain adds an opened or clear payload.
local function show_plain(range, tree, ch, typ)
  local n = range:len()
  if ch == DISCOVERY and messages[typ] then
    return show_discovery(range, tree, typ)
  elseif typ == 5 and n >= 5 and range(0, 2):uint() == 0xA201 then
    pcall(function()
      local next = show_number(range, 2, tree, F.error, core_errors)
      local _, len, at = head(range, next + 1)
      if len > 0 then tree:add(F.error_context, range(at, len)) end
    end)
  elseif typ == 0x0A and n == 8 then
    tree:add(F.limit, range)
  elseif typ == 6 or typ == 7 or ch == CONTROL and typ >= 0x100 and typ <= 0x107 then
    show_tlvs(range, tree)
  else
    tree:add(F.plain, range)
  end
  return ""
end

-- Frames --------------------------------------------------------------------------------

-- direction of a packet, by who sent CLIENT_HELLO.
local function direction(stream, pinfo)
  if pinfo.src_port == stream.port and tostring(pinfo.src) == stream.addr then return "c2s" end
  return "s2c"
end

-- plaintext opens a frame when it is first seen, and remembers it: packets are
-- looked at again in any order.
local function plaintext(stream, pinfo, ch, header, sealed)
  local name = pinfo.number .. ":" .. header .. sealed:sub(-16)
  if opened[name] == nil then
    local plain, key
    if stream.id then plain, key = open(stream, direction(stream, pinfo), ch, header, sealed) end
    opened[name] = plain and { plain, key } or false
  end
  if opened[name] then return opened[name][1], opened[name][2] end
end

local function dissect_frame(tvb, pinfo, root)
  local ch, typ = tvb(7, 2):uint(), tvb(5, 2):uint()
  local flags, declared = band(tvb(4, 1):uint(), 0x0F), tvb(17, 4):uint()
  local n = math.min(declared, tvb:len() - HEADER)
  local name = type_name(ch, typ)
  local tree = root:add(npamp, tvb(), string.format("N-PAMP, %s %s, seq %s", channel_name(ch), name, tostring(tvb(9, 8):uint64())))

  tree:add(F.version, tvb(4, 1))
  local f = tree:add(F.flags, tvb(4, 1))
  for _, b in ipairs { "urg", "enc", "comp", "frag" } do f:add(F[b], tvb(4, 1)) end
  tree:add(F.type, tvb(5, 2)):append_text(" (" .. name .. ")")
  tree:add(F.type_name, tvb(5, 2), name):set_hidden(true)
  tree:add(F.channel, tvb(7, 2))
  tree:add(F.seq, tvb(9, 8))
  local length = tree:add(F.length, tvb(17, 4))
  if n < declared then length:add_proto_expert_info(X.header, "Longer than 16 MiB, or than what was captured") end
  local crc = tree:add(F.crc, tvb(21, 4))
  if crc32c(tvb:raw(0, 21)) == tvb(21, 4):uint() then
    crc:append_text(" (right)")
  else
    crc:add_proto_expert_info(X.crc)
  end
  local reserved = tree:add(F.reserved, tvb(25, 11))
  if tvb:raw(25, 11) ~= string.rep("\0", 11) or band(tvb(4, 1):uint(), 0xF0) ~= 0x20 then
    reserved:add_proto_expert_info(X.header)
  end

  local index = tcp_stream() and tcp_stream().value or -1
  local stream = streams[index]
  if not stream then
    stream = { used = {} }
    streams[index] = stream
  end
  local info = ""
  if band(flags, ENC) == 0 then
    if ch == CONTROL and typ == 0x0100 and n >= 32 and not pinfo.visited then
      stream.id = tvb(HEADER + n - 32, 32):bytes():tohex():lower()
      stream.port, stream.addr, stream.used = pinfo.src_port, tostring(pinfo.src), {}
    end
    if n > 0 then info = show_plain(tvb(HEADER, n), tree, ch, typ) end
  elseif n < TAG then
    tree:add_proto_expert_info(X.header, "No room for a tag")
  else
    tree:add(F.sealed, tvb(HEADER, n - TAG))
    tree:add(F.tag, tvb(HEADER + n - TAG, TAG))
    local plain, key = plaintext(stream, pinfo, ch, tvb:raw(0, HEADER), tvb:raw(HEADER, n))
    if plain then
      local t = tree:add(npamp, tvb(HEADER, n), "Opened")
      t:add(F.suite, key.suite):set_generated()
      t:add(F.ratchet, UInt64.new(tonumber(key.ratchet))):set_generated()
      t:add(F.epoch, UInt64.new(tonumber(key.epoch))):set_generated()
      if key.handshake then t:append_text(", under a key of the handshake") end
      if #plain > 0 then
        info = show_plain(ByteArray.new(plain, true):tvb("N-PAMP " .. name)(), t, ch, typ)
      end
    else
      info = ", sealed"
      tree:add_proto_expert_info(X.nokey)
    end
  end
  if stream.id then
    tree:add(F.id, stream.id):set_generated()
    tree:add(F.direction, direction(stream, pinfo)):set_generated()
  end
  if stream.row ~= pinfo.number then
    pinfo.cols.info:clear()
  else
    pinfo.cols.info:append(" | ")
  end
  stream.row = pinfo.number
  pinfo.cols.protocol = "N-PAMP"
  pinfo.cols.info:append(name .. info)
  pinfo.cols.info:fence()
  return tvb:len()
end

local MAX_FRAME = 16 * 1024 * 1024

local function frame_length(tvb, _, offset)
  local n = HEADER + tvb(offset + 17, 4):uint()
  return n <= MAX_FRAME and n or HEADER
end

local function dissect(tvb, pinfo, root)
  if tvb:len() >= 4 and tvb:raw(0, 4) ~= "NPAM" then return 0 end
  dissect_tcp_pdus(tvb, root, HEADER, frame_length, dissect_frame)
  return tvb:len()
end

npamp.dissector = dissect

-- A connection whose octets begin with a header is taken for N-PAMP from then on.
local function heuristic(tvb, pinfo, root)
  if tvb:len() < 5 or tvb:raw(0, 4) ~= "NPAM" or band(tvb(4, 1):uint(), 0xF0) ~= 0x20 then return false end
  pinfo.conversation = npamp
  dissect(tvb, pinfo, root) -- not npamp.dissector, which may not put segments together from here
  return true
end

npamp:register_heuristic("tcp", heuristic)
for _, alpn in ipairs { "n-pamp/2", "n-pamp/3" } do DissectorTable.get("tls.alpn"):add(alpn, npamp) end
DissectorTable.get("tcp.port"):add_for_decode_as(npamp)
DissectorTable.get("tls.port"):add_for_decode_as(npamp)
