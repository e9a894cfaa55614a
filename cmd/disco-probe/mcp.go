package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/npamp/disco/record"
)

// mcpProtocolID is the registered protocol_id of MCP.
const mcpProtocolID = 1

// mcpServer is what a recorded MCP tools/list result, or an object with that
// and the initialize result, says of a server.
type mcpServer struct {
	source  string   // serverInfo.name, else as the file is named
	title   *string  // serverInfo.title
	methods []string // sorted; nil: no capabilities are declared
	tools   []mcpTool
	note    string // for people: why there are no tools, if there are none
}

type mcpTool struct {
	name      string
	title     *string
	schema    *string // "sha256:" and hex of the compacted input schema
	effect    *record.Effect
	inputPath string // of the tool in the file, for errors
}

// parseMCP reads the recorded results of one MCP server. source names the
// server where the file does not.
func parseMCP(b []byte, source string) ([]record.Record, string, error) {
	s, err := readMCP(b, source)
	if err != nil {
		return nil, "", err
	}
	protocol := record.Protocol{
		ID: mcpRecordID(s.source, ""), Label: s.title, Methods: s.methods,
		ProtocolID: mcpProtocolID, CarriageClass: record.ClassJSONRPC,
	}
	r, err := protocol.Record()
	if err != nil {
		return nil, "", err
	}
	records := []record.Record{r}
	for _, t := range s.tools {
		r, err := record.Tool{
			ID: mcpRecordID(s.source, t.name), Label: t.title, Name: t.name,
			ProtocolID: mcpProtocolID, Effect: t.effect, SchemaRef: t.schema,
		}.Record()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", t.inputPath, err)
		}
		records = append(records, r)
	}
	return records, s.note, nil
}

// mcpRecordID names a record by what it is, so that reading the file again
// names it the same: the first 16 octets of SHA-256 over source, protocol_id
// (one octet) and name, each behind its length as u32, big-endian.
func mcpRecordID(source, name string) record.ID {
	h := sha256.New()
	for _, part := range []string{source, string([]byte{mcpProtocolID}), name} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return record.ID(h.Sum(nil)[:16])
}

func readMCP(b []byte, source string) (mcpServer, error) {
	s := mcpServer{source: source}
	f := parseFields("", b)
	if f.err != nil {
		return s, f.err
	}
	if _, ok := f.raw["records"]; ok {
		return s, errors.New(`this is a file of the native form: name it "native:" and the file`)
	}
	init, hasInit := f.take("initialize")
	list, hasList := f.take("tools_list")
	at := "tools_list."
	if !hasInit && !hasList { // the tools/list result bare
		list, hasList, at = b, true, ""
	}
	canTools := true
	if hasInit {
		if err := mcpFailure("initialize", init); err != nil {
			return s, err
		}
		var err error
		if canTools, err = s.readInitialize(init); err != nil {
			return s, err
		}
	}
	switch {
	case hasList:
		if err := s.readTools(at, list); err != nil {
			return s, err
		}
		if len(s.tools) == 0 {
			s.note = "the server lists no tools"
		}
	case canTools:
		return s, errors.New("tools_list is required: the server declares the tools capability")
	default:
		s.note = "the server does not declare the tools capability"
	}
	return s, nil
}

// mcpFailure returns the JSON-RPC error that stands in place of a result.
func mcpFailure(method string, raw json.RawMessage) error {
	var v struct {
		Error *struct {
			Code    int64
			Message string
		}
	}
	if json.Unmarshal(raw, &v) != nil || v.Error == nil {
		return nil
	}
	return fmt.Errorf("the server answered %s with error %d: %s", method, v.Error.Code, visible(v.Error.Message, maxTextWidth))
}

// readInitialize reads the initialize result and reports whether it declares
// the tools capability.
func (s *mcpServer) readInitialize(raw json.RawMessage) (tools bool, err error) {
	f := parseFields("initialize.", raw)
	if raw, ok := f.take("serverInfo"); ok {
		info := parseFields("initialize.serverInfo.", raw)
		if name := info.text("name"); name != nil {
			s.source = *name
		}
		s.title = info.text("title")
		if info.err != nil {
			return false, info.err
		}
	}
	raw, ok := f.take("capabilities")
	if f.err != nil || !ok {
		return false, f.err
	}
	caps := parseFields("initialize.capabilities.", raw)
	for _, c := range []struct {
		name    string
		methods []string
	}{
		{"tools", []string{"tools/list", "tools/call"}},
		{"resources", []string{"resources/list", "resources/read", "resources/templates/list"}},
		{"prompts", []string{"prompts/list", "prompts/get"}},
		{"logging", []string{"logging/setLevel"}},
		{"completions", []string{"completion/complete"}},
	} {
		raw, ok := caps.take(c.name)
		if !ok || string(raw) == "null" { // null declares nothing
			continue
		}
		cap := parseFields("initialize.capabilities."+c.name+".", raw)
		s.methods = append(s.methods, c.methods...)
		switch c.name {
		case "tools":
			tools = true
		case "resources":
			if maybe(cap, "subscribe") == yes {
				s.methods = append(s.methods, "resources/subscribe", "resources/unsubscribe")
			}
		}
		if cap.err != nil {
			return false, cap.err
		}
	}
	slices.Sort(s.methods)
	return tools, caps.err
}

// readTools reads a tools/list result. Fields that are not ours to carry are
// passed over: MCP adds to them. at is the path of the result in the file.
func (s *mcpServer) readTools(at string, raw json.RawMessage) error {
	if err := mcpFailure("tools/list", raw); err != nil {
		return err
	}
	f := parseFields(at, raw)
	if cursor := f.text("nextCursor"); cursor != nil {
		return &fieldError{at + "nextCursor", "says that this is not the whole list"}
	}
	tools := list(f, "tools", func(raw json.RawMessage) (json.RawMessage, error) { return raw, nil })
	if tools == nil {
		f.fail("tools", "is required, as an array")
	}
	if f.err != nil {
		return f.err
	}
	for i, raw := range tools {
		path := fmt.Sprintf("%stools[%d]", at, i)
		t, err := readTool(path, raw)
		if err != nil {
			return err
		}
		s.tools = append(s.tools, t)
	}
	return nil
}

func readTool(path string, raw json.RawMessage) (mcpTool, error) {
	t := mcpTool{inputPath: path}
	f := parseFields(path+".", raw)
	name := f.text("name")
	if name == nil || *name == "" {
		f.fail("name", "is required")
	} else {
		t.name = *name
		t.inputPath += " (" + visible(t.name, maxTextWidth) + ")"
	}
	t.title = f.text("title")
	if raw, ok := f.take("inputSchema"); ok {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return t, err
		}
		sum := sha256.Sum256(b.Bytes())
		ref := "sha256:" + hex.EncodeToString(sum[:])
		t.schema = &ref
	}
	if raw, ok := f.take("annotations"); ok {
		a := parseFields(path+".annotations.", raw)
		t.effect = mcpEffect(a)
		if a.err != nil {
			return t, a.err
		}
	}
	return t, f.err
}

// mcpEffect takes the effect from explicit annotations alone: a default that
// MCP gives to an absent hint is nobody's claim about this tool.
func mcpEffect(annotations *fields) *record.Effect {
	readOnly, destructive := maybe(annotations, "readOnlyHint"), maybe(annotations, "destructiveHint")
	idempotent := maybe(annotations, "idempotentHint")
	var e record.Effect
	switch {
	case readOnly == yes:
		e = record.ReadOnly
	case destructive == yes:
		e = record.Destructive
	case destructive == no && idempotent == yes:
		e = record.IdempotentWrite
	case destructive == no:
		e = record.NonIdempotentWrite
	default:
		return nil
	}
	return &e
}

// answer is a Boolean that may be absent.
type answer int

const (
	absent answer = iota
	no
	yes
)

func maybe(f *fields, key string) answer {
	raw, ok := f.take(key)
	if !ok {
		return absent
	}
	v, err := parseBool(raw)
	switch {
	case err != nil:
		f.fail(key, err.Error())
		return absent
	case v:
		return yes
	}
	return no
}

// baseName is the name of a file without folder and extension.
func baseName(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 {
		path = path[i+1:]
	}
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		path = path[:i]
	}
	return path
}
