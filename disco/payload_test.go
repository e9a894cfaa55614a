package disco

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// full are payloads with every key that the specification defines, by hand.
var full = []vector{
	{name: "QUERY", typ: TypeQuery, octets: "a70019010001410202810303810104616105f40640"},
	{name: "RESULT, protocol", typ: TypeResult, octets: "a5001901010141010281a5004270310101020103616c04a50001010102810d0381010481616d03f4044101"},
	{name: "RESULT, class", typ: TypeResult, octets: "a4001901010141010281a5004263310102020103616c04a2000101810103f5"},
	{name: "RESULT, tool", typ: TypeResult, octets: "a4001901010141010281a5004274310103020103616c04a400616e0101020103617303f5"},
	{name: "RESULT, agent", typ: TypeResult, octets: "a4001901010141010281a5004261310104020103616c04a30041610181010281417403f5"},
	{name: "ERROR", typ: TypeError, octets: "a4001901020141010205036173"},
	{name: "ANNOUNCE", typ: TypeAnnounce, octets: "a2001901030281a5004263310102020103616c04a20001018101"},
	{name: "SUBSCRIBE", typ: TypeSubscribe, octets: "a500190104014105028103038101046161"},
	{name: "UPDATE", typ: TypeUpdate, octets: "a4001901050141050281a5004263310102020103616c04a2000101810103814178"},
	{name: "UNSUBSCRIBE", typ: TypeUnsubscribe, octets: "a200190106014105"},
}

// values of each kind, to be put where another is due.
var misfits = map[string]any{"uint": uint64(1), "negative": int64(-1), "bytes": []byte{1}, "text": "a",
	"array": []any{uint64(1)}, "map": map[any]any{}, "true": true, "null": nil, "float": 1.5}

// Every field in turn is taken out, and replaced by every other type, in every
// map of the schema.
// Covers: DISC-4.1-07, DISC-4.1-08, DISC-5-01, DISC-5.1-01, DISC-5.2-01, DISC-5.2-02, DISC-5.3-01, DISC-5.4-01, DISC-6.2-01, DISC-7.1-04, DISC-9-01, C29
func TestFieldsRemovedAndMistyped(t *testing.T) {
	o := newOracle(t)
	for _, v := range full {
		b := unhex(t, v.octets)
		if again, err := parse(v.typ, b, nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s: %x, %v", v.name, again, err)
		}
		var msg map[any]any
		if err := o.dec.Unmarshal(b, &msg); err != nil {
			t.Fatal(err)
		}
		n := 0
		try := func(what string) {
			again, err := o.enc.Marshal(msg)
			if err != nil {
				t.Fatal(err)
			}
			n++
			ours, _ := agree(t, o, v.typ, again)
			if strings.Contains(what, "null") && ours == 0 {
				t.Errorf("%s: %s: null is taken for a value", v.name, what)
			}
		}
		var inMap func(m map[any]any, path string)
		inMap = func(m map[any]any, path string) {
			for key, was := range m {
				name := fmt.Sprintf("%s/%v", path, key)
				delete(m, key)
				try(name + " removed")
				for kind, other := range misfits {
					m[key] = other
					try(name + " is " + kind)
					m[key] = []any{other}
					try(name + " is an array of " + kind)
				}
				m[key] = was
				switch v := was.(type) {
				case map[any]any:
					inMap(v, name)
				case []any:
					if inner, ok := v[0].(map[any]any); ok {
						inMap(inner, name)
					}
				}
			}
			m[uint64(77)] = map[any]any{int64(-1): "x"}
			try(path + " has an unknown key")
			delete(m, uint64(77))
			m[int64(-1)] = uint64(1)
			try(path + " has a negative key")
			delete(m, int64(-1))
			m["2"] = uint64(1)
			try(path + " has a text key")
			delete(m, "2")
		}
		inMap(msg, v.name)
		if n < 40 {
			t.Errorf("%s: only %d changes", v.name, n)
		}
	}
}

// Covers: DISC-4.1-01, DISC-4.1-06, F13
func TestPrefixesRefused(t *testing.T) {
	for _, v := range slices.Concat(accepted, withUnknown, full) {
		b := unhex(t, v.octets)
		for n := range len(b) {
			for typ := TypeQuery; typ <= TypeUnsubscribe; typ++ {
				_, err := parse(typ, b[:n:n], nil)
				var e *PayloadError
				if !errors.As(err, &e) || e.Code != CodeMalformedPayload || e.Offset > n {
					t.Errorf("%s, first %d octets as %v: %v", v.name, n, typ, err)
				}
			}
		}
		if _, err := parse(v.typ, append(b, 0), nil); err == nil {
			t.Errorf("%s and an octet more: accepted", v.name)
		}
	}
}

// Covers: DISC-4.2-02, C10
func TestOrderOfChecks(t *testing.T) {
	tests := []struct {
		name, octets string
		code         Code
		rule         string
		offset       int
	}{
		{"long form behind wrong kind", "a300190104014101021801", 1, "shortest-form", 9},
		{"invalid text behind wrong kind", "a3001901040141010461ff", 1, "utf8", 9},
		{"wrong kind and empty corr", "a2001901040140", 2, "kind-mismatch", 2},
		{"kind is text, corr empty", "a20061610140", 1, "wrong-type", 2},
		{"no kind, corr empty", "a10140", 1, "missing", 0},
		{"corr text and kinds null", "a30019010001616102f6", 1, "wrong-type", 6},
		{"negative key behind kinds null", "a40019010001410102f62000", 1, "negative-key", 10},
		{"kinds null, then tolerant null", "a40019010001410102f605f6", 1, "wrong-type", 9},
	}
	for _, tt := range tests {
		_, err := ParseQuery(unhex(t, tt.octets), nil)
		var e *PayloadError
		if !errors.As(err, &e) || e.Code != tt.code || e.Rule != tt.rule || e.Offset != tt.offset {
			t.Errorf("%s: %s: got %v, want code %d, %s at octet %d", tt.name, tt.octets, err, tt.code, tt.rule, tt.offset)
		}
	}
	// A record's schema fault outranks another's unknown kind; its own kind is
	// what tells its schema.
	bad := "a4001901010141010282a4004278310109020104a0a4004274310103020104a003f5"
	if _, err := ParseResult(unhex(t, bad), nil); CodeOf(err) != 1 {
		t.Errorf("unknown kind, then a malformed record: %v", err)
	}
}

// What the vectors do not ask, of payloads that are accepted too.
// Covers: C4, F02, F10
func TestScanCorr(t *testing.T) {
	tests := []struct {
		name, octets, want string
	}{
		{"V1", "a200190100014101", "01"},
		{"another frame_kind", "a20001014101", "01"},
		{"64 octets", "a1015840" + strings.Repeat("00", 64), strings.Repeat("00", 64)},
		{"65 octets", "a1015841" + strings.Repeat("00", 65), ""},
		{"twice, once as text", "a300190100014101016161", ""},
		{"tagged", "a20019010001c24101", ""},
		{"array", "82014101", ""},
		{"unused simple value", "a30019010001410104f800", ""},
		{"reserved head", "a300190100014101041c", ""},
		{"float", "a30019010001410104f97e01", "01"},
		{"keys of any type", "a4001901000141012000616100", "01"},
		{"duplicates elsewhere", "a40019010001410102800280", "01"},
		{"as deep as may be", "a201410102" + strings.Repeat("81", 7) + "00", "01"},
		{"deeper", "a201410102" + strings.Repeat("81", 8) + "00", ""},
		{"deeper in a key", "a2014101" + strings.Repeat("81", 8) + "0000", ""},
		{"2^63 pairs", "bb8000000000000000014101", ""},
		{"2^64-1 pairs", "bbffffffffffffffff014101", ""},
		{"key 1 within another map", "a10aa1014101", ""},
	}
	for _, tt := range tests {
		got, ok := ScanCorr(unhex(t, tt.octets))
		if got.String() != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %s: got %v, %v, want %q", tt.name, tt.octets, got, ok, tt.want)
		}
	}
}

// Payloads of the failures that comparable systems had, beside the vectors.
// Covers: F02, F05, F07, F10, F12, F14, DISC-4.1-06, DISC-4.1-11
func TestFailuresSeenElsewhere(t *testing.T) {
	const record9 = "a5004270310101020104a200010101"
	tests := []struct {
		name   string
		typ    Type
		octets string
		rule   string // empty: accepted
		offset int
		reply  string
	}{
		{"F02 in a record", TypeResult, "a4001901010141010281a50042703101010201020204a20001010103f5", "duplicate-key", 19, "none"},
		{"F02 in a body", TypeResult, "a4001901010141010281a4004270310101020104a300010101010203f5", "duplicate-key", 25, "none"},
		{"F05 array of 2^64-1", TypeQuery, "a300190100014101029bffffffffffffffff", "truncated", 9, "uncorrelated"},
		{"F05 array of 2^31-1", TypeQuery, "a300190100014101029a7fffffff", "truncated", 9, "uncorrelated"},
		{"F07 100,000 levels", TypeQuery, "a30019010001410102" + strings.Repeat("81", 100_000), "depth", 16, "uncorrelated"},
		{"F07 in an unknown key", TypeQuery, "a30019010001410107" + strings.Repeat("81", 200) + "00", "depth", 16, "uncorrelated"},
		{"F07 as deep as may be", TypeQuery, "a30019010001410107" + strings.Repeat("81", 7) + "00", "", 0, ""},
		{"F10 name as bytes", TypeResult, "a4001901010141010281a4004274310103020104a200416e010103f5", "wrong-type", 22, "none"},
		{"F10 record_id as text", TypeResult, "a4001901010141010281a4006274310103020104a200616e010103f5", "wrong-type", 12, "none"},
		{"F12 float in kinds", TypeQuery, "a3001901000141010281f93c00", "wrong-type", 10, "error"},
		{"F14 in a record", TypeResult, "a4001901010141010281" + record9 + "18180003f5", "", 0, ""},
		{"F14 in a body", TypeResult, "a4001901010141010281a4004270310101020104a30001010118180003f5", "", 0, ""},
		{"known tag", TypeQuery, "a30019010001410102c180", "wrong-type", 9, "error"},
		{"name_prefix undefined", TypeQuery, "a30019010001410104f7", "wrong-type", 9, "error"},
		{"record_id of no octets", TypeResult, "a4001901010141010281a400400103020104a200616e010103f5", "empty", 12, "none"},
		{"withdrawn id of 33 octets", TypeUpdate, "a30019010501410503815821" + strings.Repeat("00", 33), "range", 10, "none"},
		{"withdrawn id of none", TypeUpdate, "a300190105014105038140", "empty", 10, "none"},
		{"added empty, one withdrawn", TypeUpdate, "a40019010501410502800381410a", "", 0, ""},
		{"ERROR with an empty corr", TypeError, "a30019010201400201", "empty", 6, "none"},
		{"ERROR of code 99", TypeError, "a300190102014101021863", "", 0, ""},
		{"ANNOUNCE with corr", TypeAnnounce, "a3001901030141010280", "", 0, ""},
		{"ANNOUNCE with corr of a wrong type", TypeAnnounce, "a3001901030161610280", "wrong-type", 6, "none"},
		{"SUBSCRIBE with tolerant and cursor of any type", TypeSubscribe, "a400190104014105050106a0", "", 0, ""},
		{"RESULT with a mistyped one", TypeResult, "a500190101014101028003f50401", "wrong-type", 13, "none"},
	}
	for _, tt := range tests {
		_, err := parse(tt.typ, unhex(t, tt.octets), nil)
		if tt.rule == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		var e *PayloadError
		if !errors.As(err, &e) || e.Rule != tt.rule || e.Offset != tt.offset || e.Reply() != tt.reply || e.Code != 1 {
			t.Errorf("%s: got %v, want %s at octet %d, reply %s", tt.name, err, tt.rule, tt.offset, tt.reply)
		}
	}
}

// Covers: C9, F45, DISC-5-05, DISC-5-06
func TestUnknownKinds(t *testing.T) {
	const records = "82a400410a0103020104a20061740101a400410b0109020104a0"
	skipped := []record.Skipped{{ID: "\x0b", Kind: 9}}
	r, err := ParseResult(unhex(t, "a40019010101410102"+records+"03f5"), &Options{Tolerant: true})
	if err != nil || len(r.Records) != 1 || r.Records[0].ID() != "\x0a" || !slices.Equal(r.Skipped, skipped) {
		t.Errorf("tolerant RESULT: %+v, %v", r, err)
	}
	_, err = ParseResult(unhex(t, "a40019010101410102"+records+"03f5"), nil)
	var e *PayloadError
	if !errors.As(err, &e) || e.Code != CodeUnknownRecordKind || e.Path != "records[1].kind" || !slices.Equal(e.Skipped, skipped) || e.Reply() != "none" {
		t.Errorf("RESULT: %v", err)
	}
	a, err := ParseAnnounce(unhex(t, "a20019010302"+records), nil)
	if err != nil || len(a.Records) != 1 || !slices.Equal(a.Skipped, skipped) {
		t.Errorf("ANNOUNCE: %+v, %v", a, err)
	}
	u, err := ParseUpdate(unhex(t, "a40019010501410502"+records+"0381410c"), nil)
	if err != nil || len(u.Added) != 1 || !slices.Equal(u.Skipped, skipped) || !slices.Equal(u.Withdrawn, []record.ID{"\x0c"}) {
		t.Errorf("UPDATE: %+v, %v", u, err)
	}
	// One that has nothing but an unknown kind in it is no empty UPDATE.
	u, err = ParseUpdate(unhex(t, "a3001901050141050281a400410b0109020104a1616105"), nil)
	if err != nil || len(u.Added) != 0 || !slices.Equal(u.Skipped, skipped) {
		t.Errorf("UPDATE of an unknown kind: %+v, %v", u, err)
	}
	for _, octets := range []string{"a400410b010902010480", "a400410b010902010405", "a400410b0109020104f6", "a400410b0109020104a1616161ff"} {
		if _, err := ParseAnnounce(unhex(t, "a2001901030281"+octets), nil); CodeOf(err) != 1 {
			t.Errorf("record of unknown kind %s: %v", octets, err)
		}
	}
}

// Covers: C36, DISC-7.2-08
func TestEmptyUpdate(t *testing.T) {
	_, err := ParseUpdate(unhex(t, "a200190105014105"), nil)
	if !errors.Is(err, ErrEmptyUpdate) || CodeOf(err) != CodeMalformedPayload {
		t.Errorf("got %v", err)
	}
	for _, octets := range []string{"a300190105014105038140", "a3001901050141050201", "a1014105"} {
		if _, err := ParseUpdate(unhex(t, octets), nil); err == nil || errors.Is(err, ErrEmptyUpdate) {
			t.Errorf("%s: got %v", octets, err)
		}
	}
}

// Each limit is met at its value and one above.
// Covers: C2, C12, DISC-10-10
func TestLimits(t *testing.T) {
	array := func(n int) []byte {
		return append(dcbor.AppendArray([]byte{}, n), bytes.Repeat([]byte{3}, n)...)
	}
	text := func(n int) []byte { return dcbor.AppendText(nil, strings.Repeat("a", n)) }
	octets := func(n int) []byte { return dcbor.AppendBytes(nil, make([]byte, n)) }
	head := func(typ Type, n int) []byte { return appendEnvelope(nil, typ, n, "c") }
	join := func(v ...[]byte) []byte { return bytes.Join(v, nil) }
	tests := []struct {
		name string
		typ  Type
		of   func(n int) []byte
		o    Options
		max  int
		path string
	}{
		{"kinds", TypeQuery, func(n int) []byte { return join(head(TypeQuery, 3), []byte{2}, array(n)) }, Options{}, 1024, "kinds"},
		{"protocol_ids", TypeSubscribe, func(n int) []byte { return join(head(TypeSubscribe, 3), []byte{3}, array(n)) }, Options{}, 1024, "protocol_ids"},
		{"protocol_ids, configured", TypeSubscribe, func(n int) []byte { return join(head(TypeSubscribe, 3), []byte{3}, array(n)) }, Options{MaxFilterEntries: 5}, 5, "protocol_ids"},
		{"name_prefix", TypeQuery, func(n int) []byte { return join(head(TypeQuery, 3), []byte{4}, text(n)) }, Options{}, 1024, "name_prefix"},
		{"name_prefix, configured", TypeSubscribe, func(n int) []byte { return join(head(TypeSubscribe, 3), []byte{4}, text(n)) }, Options{MaxPrefixLen: 30}, 30, "name_prefix"},
		{"cursor", TypeResult, func(n int) []byte { return join(head(TypeResult, 5), []byte{2, 0x80, 3, 0xf4, 4}, octets(n)) }, Options{}, 1024, "cursor"},
		{"cursor, configured", TypeResult, func(n int) []byte { return join(head(TypeResult, 5), []byte{2, 0x80, 3, 0xf4, 4}, octets(n)) }, Options{MaxCursorLen: 16}, 16, "cursor"},
		// The envelope, a key and the array's head are 7 items.
		{"items", TypeError, func(n int) []byte { return join(head(TypeError, 4), []byte{2, 1, 0x18, 99}, array(n-9)) }, Options{}, 1 << 20, fmt.Sprintf("99[%d]", 1<<20-9)},
		{"items, configured", TypeError, func(n int) []byte { return join(head(TypeError, 4), []byte{2, 1, 0x18, 99}, array(n-9)) }, Options{MaxItems: 20}, 20, "99[11]"},
	}
	for _, tt := range tests {
		if _, err := parse(tt.typ, tt.of(tt.max), &tt.o); err != nil {
			t.Errorf("%s of %d: %v", tt.name, tt.max, err)
		}
		_, err := parse(tt.typ, tt.of(tt.max+1), &tt.o)
		var e *PayloadError
		if !errors.As(err, &e) || e.Rule != "limit" || e.Path != tt.path || e.Code != 1 || e.Section != "10" {
			t.Errorf("%s of %d: %v", tt.name, tt.max+1, err)
		}
		if again := Diagnose(tt.of(tt.max), tt.typ, &tt.o); again != nil {
			t.Errorf("%s of %d, looked at again: %v", tt.name, tt.max, again)
		}
	}
	none := &Options{MaxFilterEntries: -1, MaxPrefixLen: -1, MaxCursorLen: -1, MaxItems: -1}
	for _, tt := range tests {
		if _, err := parse(tt.typ, tt.of(tt.max+1), none); err != nil {
			t.Errorf("%s of %d without a limit: %v", tt.name, tt.max+1, err)
		}
	}
	// A cursor that is ignored, or that somebody else must know, has no limit.
	for _, b := range [][]byte{join(head(TypeResult, 5), []byte{2, 0x80, 3, 0xf5, 4}, octets(5000)), join(head(TypeQuery, 3), []byte{6}, octets(5000))} {
		typ, _ := PeekType(b)
		if _, err := parse(typ, b, nil); err != nil {
			t.Errorf("%v with a cursor of 5000 octets: %v", typ, err)
		}
	}
}

// Covers: DISC-4.2-03, DISC-4.2-07, DISC-5-02, DISC-6.2-03, DISC-7.2-08
func TestAppendRefuses(t *testing.T) {
	rec := corpusRecord(t, 0)
	long := strings.Repeat("c", 65)
	many := make([]uint64, 1025)
	tests := []struct {
		field string
		err   error
	}{
		{"corr", second(AppendQuery(nil, &Query{}))},
		{"corr", second(AppendQuery(nil, &Query{Corr: Corr(long)}))},
		{"protocol_ids", second(AppendQuery(nil, &Query{Corr: "c", Filter: record.Filter{ProtocolIDs: many}}))},
		{"kinds", second(AppendSubscribe(nil, &Subscribe{Corr: "c", Filter: record.Filter{Kinds: make([]record.Kind, 1025)}}))},
		{"name_prefix", second(AppendSubscribe(nil, &Subscribe{Corr: "c", Filter: record.Filter{NamePrefix: "\xff", HasPrefix: true}}))},
		{"name_prefix", second(AppendQuery(nil, &Query{Corr: "c", Filter: record.Filter{NamePrefix: strings.Repeat("x", 1025), HasPrefix: true}}))},
		{"corr", second(AppendSubscribe(nil, &Subscribe{}))},
		{"corr", second(AppendResult(nil, &Result{Complete: true}))},
		{"cursor", second(AppendResult(nil, &Result{Corr: "c"}))},
		{"cursor", second(AppendResult(nil, &Result{Corr: "c", Complete: true, HasCursor: true}))},
		{"cursor", second(AppendResult(nil, &Result{Corr: "c", HasCursor: true, Cursor: Cursor(strings.Repeat("x", 1025))}))},
		{"records", second(AppendResult(nil, &Result{Corr: "c", Complete: true, Records: []record.Record{rec, {}}}))},
		{"corr", second(AppendError(nil, &ErrorMsg{HasCorr: true, Code: 1}))},
		{"code", second(AppendError(nil, &ErrorMsg{}))},
		{"code", second(AppendError(nil, &ErrorMsg{Code: 8}))},
		{"reason", second(AppendError(nil, &ErrorMsg{Code: 1, HasReason: true, Reason: strings.Repeat("x", 129)}))},
		{"reason", second(AppendError(nil, &ErrorMsg{Code: 1, HasReason: true, Reason: "\xc0\xae"}))},
		{"corr", second(AppendAnnounce(nil, &Announce{HasCorr: true, Corr: "c", Records: []record.Record{rec}}))},
		{"records", second(AppendAnnounce(nil, &Announce{}))},
		{"records", second(AppendAnnounce(nil, &Announce{Records: []record.Record{{}}}))},
		{"corr", second(AppendUpdate(nil, &Update{Added: []record.Record{rec}}))},
		{"added", second(AppendUpdate(nil, &Update{Corr: "c"}))},
		{"added", second(AppendUpdate(nil, &Update{Corr: "c", Added: []record.Record{{}}}))},
		{"withdrawn", second(AppendUpdate(nil, &Update{Corr: "c", Withdrawn: []record.ID{"x", ""}}))},
		{"withdrawn", second(AppendUpdate(nil, &Update{Corr: "c", Withdrawn: []record.ID{record.ID(long[:33])}}))},
		{"corr", second(AppendUnsubscribe(nil, &Unsubscribe{}))},
		{"corr", second(AppendUnsubscribe(nil, &Unsubscribe{Corr: Corr(long)}))},
	}
	for i, tt := range tests {
		var e *EncodeError
		if !errors.As(tt.err, &e) || e.Field != tt.field {
			t.Errorf("case %d: got %v, want an error that names %s", i, tt.err, tt.field)
		}
	}
}

func second(b []byte, err error) error {
	if len(b) > 0 {
		return errors.New("octets besides the error")
	}
	return err
}

// Covers: DISC-4.1-03, CORE-11.9-01, DISC-3-05, DISC-4.1-09
func TestPermutedInputsEncodeTheSame(t *testing.T) {
	kinds, ids := []record.Kind{4, 3, 9, 3, 1}, []uint64{300, 2, 1, 24, 2, 1 << 40}
	const want = "a50019010001410102840103040903850102181819012c1b000001000000000004646769742e"
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		before := slices.Clone(ids)
		q := &Query{Corr: "\x01", Filter: record.Filter{Kinds: kinds, ProtocolIDs: ids, NamePrefix: "git.", HasPrefix: true}}
		b, err := AppendQuery(nil, q)
		if err != nil || hex.EncodeToString(b) != want {
			t.Fatalf("got %x, %v\nwant %s", b, err, want)
		}
		if !slices.Equal(ids, before) {
			t.Fatal("the caller's filter was changed")
		}
	}
}

// Covers: F11, F20, C2, DISC-6.1-05
func TestAbsentIsNotEmpty(t *testing.T) {
	q, err := ParseQuery(unhex(t, "a3001901000141010640"), nil)
	if err != nil || !q.HasCursor || q.Cursor != "" || q.HasTolerant || q.Tolerant {
		t.Errorf("empty cursor: %+v, %v", q, err)
	}
	if q, err = ParseQuery(unhex(t, "a200190100014101"), nil); err != nil || q.HasCursor || q.Filter.Kinds != nil || q.Filter.ProtocolIDs != nil || q.Filter.HasPrefix {
		t.Errorf("nothing: %+v, %v", q, err)
	}
	if q, err = ParseQuery(unhex(t, "a60019010001410102800380046005f4"), nil); err != nil || q.Filter.Kinds == nil || q.Filter.ProtocolIDs == nil || !q.Filter.HasPrefix || !q.HasTolerant || q.Tolerant {
		t.Errorf("all empty: %+v, %v", q, err)
	}
	r, err := ParseResult(unhex(t, "a500190101014101028003f40440"), nil)
	if err != nil || !r.HasCursor || r.Cursor != "" || r.Complete {
		t.Errorf("RESULT with an empty cursor: %+v, %v", r, err)
	}
	if r, err = ParseResult(unhex(t, "a500190101014101028003f50441aa"), nil); err != nil || r.HasCursor || r.Cursor != "" || !r.Complete {
		t.Errorf("complete RESULT with a cursor: %+v, %v", r, err)
	}
	e, err := ParseError(unhex(t, "a200190102021863"), nil)
	if err != nil || e.HasCorr || e.HasReason || e.Code != 99 {
		t.Errorf("ERROR without corr and reason: %+v, %v", e, err)
	}
	if b, err := AppendError(nil, &ErrorMsg{Code: 1}); err != nil || hex.EncodeToString(b) != "a2001901020201" {
		t.Errorf("%x, %v", b, err)
	}
	a, err := ParseAnnounce(unhex(t, "a3001901030141010280"), nil)
	if err != nil || !a.HasCorr || a.Corr != "\x01" || a.Records == nil || len(a.Records) != 0 {
		t.Errorf("ANNOUNCE with corr: %+v, %v", a, err)
	}
}

// The pieces make what AppendX makes of the whole.
func TestHeadsAndTails(t *testing.T) {
	recs := []record.Record{corpusRecord(t, 0), corpusRecord(t, 4)}
	octets := recs[1].AppendTo(recs[0].AppendTo(nil))
	for _, n := range []int{0, 2, 30, 300, 70_000} {
		for _, complete := range []bool{false, true} {
			whole := AppendResultHead([]byte("x"), "corr", n, complete)
			room := make([]byte, MaxResultHeadLen+3)
			start := PutResultHead(room, "corr", n, complete)
			if !bytes.Equal(whole[1:], room[start:]) {
				t.Errorf("%d records: %x and %x", n, whole[1:], room[start:])
			}
		}
	}
	if got := len(AppendResultHead(nil, Corr(strings.Repeat("c", 64)), int(^uint(0)>>1), false)); got > MaxResultHeadLen {
		t.Errorf("a head of %d octets", got)
	}
	want, err := AppendResult(nil, &Result{Corr: "corr", Records: recs, Cursor: "next", HasCursor: true})
	got := AppendResultTail(append(AppendResultHead(nil, "corr", 2, false), octets...), false, "next")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("RESULT: %x, %v\nwant %x", got, err, want)
	}
	want, err = AppendAnnounce(nil, &Announce{Records: recs})
	if got = append(AppendAnnounceHead(nil, 2), octets...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("ANNOUNCE: %x, %v\nwant %x", got, err, want)
	}
	want, err = AppendUpdate(nil, &Update{Corr: "corr", Added: recs, Withdrawn: []record.ID{"w"}})
	got = append(AppendAdded(AppendUpdateHead(nil, "corr", true, true), 2), octets...)
	got = dcbor.AppendBytes(AppendWithdrawn(got, 1), "w")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("UPDATE: %x, %v\nwant %x", got, err, want)
	}
}

// Views say what the owned forms say.
func TestViews(t *testing.T) {
	for _, v := range slices.Concat(accepted, full) {
		b := unhex(t, v.octets)
		o := &Options{Tolerant: true}
		switch v.typ {
		case TypeResult:
			owned, _ := ParseResult(b, o)
			view, err := ParseResultView(b, o)
			if err != nil || string(view.Corr) != string(owned.Corr) || string(view.Cursor) != string(owned.Cursor) || view.Complete != owned.Complete || view.HasCursor != owned.HasCursor {
				t.Errorf("%s: %+v, %v", v.name, view, err)
			}
			sameRecords(t, view.Records, owned.Records)
		case TypeAnnounce:
			owned, _ := ParseAnnounce(b, o)
			view, err := ParseAnnounceView(b, o)
			if err != nil || view.HasCorr {
				t.Errorf("%s: %+v, %v", v.name, view, err)
			}
			sameRecords(t, view.Records, owned.Records)
		case TypeUpdate:
			owned, _ := ParseUpdate(b, o)
			view, err := ParseUpdateView(b, o)
			if err != nil || string(view.Corr) != string(owned.Corr) || view.Withdrawn.Len() != len(owned.Withdrawn) {
				t.Errorf("%s: %+v, %v", v.name, view, err)
			}
			sameRecords(t, view.Added, owned.Added)
			i := 0
			for id := range view.Withdrawn.All() {
				if record.ID(id) != owned.Withdrawn[i] {
					t.Errorf("%s: withdrawn %x", v.name, id)
				}
				i++
			}
		}
	}
}

func sameRecords(t *testing.T, list record.List, records []record.Record) {
	t.Helper()
	i := 0
	for r := range list.All() {
		if i >= len(records) || r.Record() != records[i] || record.ID(r.ID()) != records[i].ID() || r.Kind() != records[i].Kind() || r.Revision() != records[i].Revision() {
			t.Errorf("record %d is %x", i, r.Octets())
		}
		i++
	}
	if i != len(records) || list.Len() != i {
		t.Errorf("%d records, want %d", i, len(records))
	}
}

// Covers: DISC-3-01, DISC-9-03, CH10-7-05
func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{TypeQuery.String(), "DISCO_QUERY"}, {Type(0x0101).String(), "DISCO_RESULT"}, {Type(0x0102).String(), "DISCO_ERROR"},
		{Type(0x0103).String(), "DISCO_ANNOUNCE"}, {Type(0x0104).String(), "DISCO_SUBSCRIBE"}, {Type(0x0105).String(), "DISCO_UPDATE"},
		{Type(0x0106).String(), "DISCO_UNSUBSCRIBE"}, {Type(0x0107).String(), "0x0107 (unknown)"}, {Type(0xff).String(), "0x00FF (unknown)"},
		{Code(1).String(), "MalformedPayload"}, {Code(2).String(), "KindMismatch"}, {Code(3).String(), "UnknownRecordKind"},
		{Code(4).String(), "FilterUnsupported"}, {Code(5).String(), "StaleCursor"}, {Code(6).String(), "SubscriptionRefused"},
		{Code(7).String(), "NotAdvertised"}, {Code(0).String(), "code(0)"}, {Code(99).String(), "code(99)"},
		{Corr("\x01\xff").String(), "01ff"}, {Cursor("").String(), ""},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// Covers: DISC-9-02
func TestErrors(t *testing.T) {
	_, err := ParseQuery(unhex(t, "a2001a00000100014101"), nil)
	if got, want := err.Error(), "disco: DISCO_QUERY: frame_kind: shortest-form at octet 2 (MalformedPayload, §4.1)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wrapped := fmt.Errorf("asking: %w", &PeerError{Code: CodeStaleCursor, Reason: "\x1b[2J" + strings.Repeat("x", 500)})
	if !errors.Is(wrapped, &PeerError{Code: CodeStaleCursor}) || errors.Is(wrapped, &PeerError{Code: CodeNotAdvertised}) {
		t.Error("a PeerError is not matched by its code alone")
	}
	if text := wrapped.Error(); strings.Contains(text, "\x1b") || len(text) > 400 {
		t.Errorf("the peer's text is not escaped and bounded: %q", text)
	}
	if got := CodeOf(wrapped); got != CodeStaleCursor {
		t.Errorf("CodeOf a PeerError: %v", got)
	}
	if got := CodeOf(fmt.Errorf("reading: %w", err)); got != CodeMalformedPayload {
		t.Errorf("CodeOf a PayloadError: %v", got)
	}
	if got := CodeOf(errors.New("else")) + CodeOf(nil); got != 0 {
		t.Errorf("CodeOf another error: %v", got)
	}
}

func TestPeekType(t *testing.T) {
	for _, v := range slices.Concat(accepted, withUnknown) {
		if got, ok := PeekType(unhex(t, v.octets)); !ok || got != v.typ {
			t.Errorf("%s: %v, %v", v.name, got, ok)
		}
	}
	for octets, want := range map[string]Type{"": 0, "05": 0, "a0": 0, "a1014101": 0, "a100190107": 0, "a1006161": 0, "a1001b0000000000000100": TypeQuery,
		"a201410100190101": TypeResult, "bf00190106": TypeUnsubscribe, "a1": 0, "a118001a00000105": TypeUpdate, "a100c1190100": 0} {
		if got, ok := PeekType(unhex(t, octets)); got != want || ok != (want != 0) {
			t.Errorf("%s: %v, %v, want %v", octets, got, ok, want)
		}
	}
}

// The library takes a good deal of what must be refused: why it does not read
// for us.
func TestTheLibraryIsTooKind(t *testing.T) {
	_, dec := fxModes(t)
	for _, name := range []string{"N3", "N4", "N7"} {
		i := slices.IndexFunc(refused, func(v vector) bool { return v.name == name })
		var q struct {
			Kind uint64 `cbor:"0,keyasint"`
			Corr []byte `cbor:"1,keyasint"`
		}
		if err := dec.Unmarshal(unhex(t, refused[i].octets), &q); err != nil {
			t.Errorf("%s: the library has learned: %v", name, err)
		}
	}
	var _ cbor.DecMode = dec
}

// An UpdateReader says of each payload what ParseUpdateView says, whichever it was
// shown before.
func TestUpdateReader(t *testing.T) {
	var payloads [][]byte
	for _, v := range slices.Concat(accepted, full, refused) {
		if v.typ == TypeUpdate {
			payloads = append(payloads, unhex(t, v.octets))
		}
	}
	long := corpusResult(t, 20).Records
	for _, corr := range []Corr{"a", "b", "0123456789abcdef", "0123456789abcdeF", "\x41\x02\x81"} {
		for _, u := range []Update{
			{Added: long[:1]}, {Added: long[1:2]}, {Added: long}, {Withdrawn: []record.ID{"x"}}, {Withdrawn: []record.ID{"y"}},
			{Added: long[:1], Withdrawn: []record.ID{"x"}},
		} {
			u.Corr = corr
			b, err := AppendUpdate(nil, &u)
			if err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, b, b[:len(b)-1])
		}
	}
	payloads = append(payloads, nil, []byte{})
	for _, a := range payloads {
		for _, b := range payloads {
			var r UpdateReader
			for i, p := range [][]byte{a, b, b, a} {
				sameUpdate(t, &r, bytes.Clone(p))
				if t.Failed() {
					t.Fatalf("payload %d of %x, %x", i, a, b)
				}
			}
		}
	}
	var r UpdateReader
	b, _ := AppendUpdate(nil, &Update{Corr: "0123456789abcdef", Added: long[:1]})
	r.Parse(b, nil)
	if n := testing.AllocsPerRun(100, func() { b[10]++; r.Parse(b, nil) }); n != 0 {
		t.Errorf("%v allocations for one that is known", n)
	}
}

func sameUpdate(t *testing.T, r *UpdateReader, b []byte) {
	t.Helper()
	want, wantErr := ParseUpdateView(bytes.Clone(b), nil)
	got, err := r.Parse(b, nil)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%v, want %v", err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
