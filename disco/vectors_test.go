package disco

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/npamp/disco/testvectors"
)

// A vector is one payload of the requirement ledger's golden table, copied by
// hand: typ is the header's frame type.
type vector struct {
	name    string
	typ     Type
	octets  string
	code    Code // 0: accepted
	corr    string
	rule    string
	offset  int
	path    string
	section string
}

// accepted payloads, V1 to V13 and F1 to F3.
var accepted = []vector{
	{name: "V1", typ: TypeQuery, octets: "a200190100014101"},
	{name: "V2", typ: TypeQuery, octets: "a6001901000141020282030403810104646769742e05f5"},
	{name: "V3", typ: TypeQuery, octets: "a400190100014103028103065000112233445566778899aabbccddeeff"},
	{name: "V4", typ: TypeResult, octets: "a400190101014101028003f5"},
	{name: "V5", typ: TypeResult, octets: "a5001901010141010281a4004274310103020104a300676769742e6c6f670101020003f4045000112233445566778899aabbccddeeff"},
	{name: "V6", typ: TypeResult, octets: "a4001901010141010284a4004261310104020104a3004261670181010281427431a4004263310102020104a10001a4004270310101020104a200010101a4004274310103020104a300676769742e6c6f670101020003f5"},
	{name: "V7", typ: TypeError, octets: "a3001901020141010204"},
	{name: "V8", typ: TypeError, octets: "a400190102014103020503657374616c65"},
	{name: "V9", typ: TypeAnnounce, octets: "a2001901030281a4004270310101020104a200010101"},
	{name: "V10", typ: TypeSubscribe, octets: "a300190104014105028103"},
	{name: "V11", typ: TypeUpdate, octets: "a3001901050141050281a4004274310103020204a300676769742e6c6f6701010200"},
	{name: "V12", typ: TypeUpdate, octets: "a3001901050141050381427431"},
	{name: "V13", typ: TypeUnsubscribe, octets: "a200190106014105"},
}

// unknown keys: accepted, but not what appending gives back.
var withUnknown = []vector{
	{name: "F1", typ: TypeQuery, octets: "a30019010001410118636178"},
	{name: "F2", typ: TypeResult, octets: "a4001901010141010281a5004270310101020104a200010101090103f5"},
	{name: "F3", typ: TypeQuery, octets: "a3001901000141011863a32001616102617af93e00"},
}

var refused = []vector{
	{"N1", TypeQuery, "05", 1, "", "not-a-map", 0, "", "4.1"},
	{"N2", TypeQuery, "a1180000", 1, "", "shortest-form", 1, "frame_kind", "4.1"},
	{"N3", TypeQuery, "a2001a00000100014101", 1, "01", "shortest-form", 2, "frame_kind", "4.1"},
	{"N4", TypeQuery, "a201410100190100", 1, "01", "key-order", 4, "frame_kind", "4.1"},
	{"N5", TypeQuery, "a300190100014101014102", 1, "", "duplicate-key", 8, "corr", "4.1"},
	{"N6", TypeQuery, "bf00190100014101ff", 1, "01", "indefinite", 0, "", "4.1"},
	{"N7", TypeQuery, "a3001901000141012009", 1, "01", "negative-key", 8, "-1", "4.1"},
	{"N8", TypeQuery, "a200190104014101", 2, "01", "kind-mismatch", 2, "frame_kind", "4.2"},
	{"N9", TypeQuery, "a2001901000140", 1, "", "empty", 6, "corr", "4.2"},
	{"N10", TypeQuery, "a200190100016161", 1, "", "wrong-type", 6, "corr", "4.2"},
	{"N11", TypeResult, "a4001901010141010281a5004270310101020104a200010101200903f5", 1, "01", "negative-key", 25, "records[0].-1", "4.1"},
	{"N12", TypeQuery, "a300190100014101616101", 1, "01", "key-type", 8, "", "4.1"},
	{"N13", TypeQuery, "a3001901000141010501", 1, "01", "wrong-type", 9, "tolerant", "6.1"},
	{"N14", TypeQuery, "a30019010001410102f6", 1, "01", "wrong-type", 9, "kinds", "6.1"},
	{"N15", TypeQuery, "a3001901000141010461ff", 1, "01", "utf8", 9, "name_prefix", "4.1"},
	{"N16", TypeResult, "a4001901010141010281a4004270310101020104a200190100010103f5", 1, "01", "range", 22, "records[0].body.protocol_id", "5.1"},
	{"N17", TypeResult, "a4001901010141010281a4004261310104020104a200426167018003f5", 1, "01", "empty", 26, "records[0].body.protocols", "5.4"},
	{"N18", TypeResult, "a4001901010141010281a4004278310109020104a003f5", 3, "01", "record-kind", 16, "records[0].kind", "5"},
	{"N19", TypeUpdate, "a200190105014105", 1, "05", "empty", 0, "", "7.2"},
	{"N20", TypeResult, "a400190101014101028003f4", 1, "01", "missing", 0, "cursor", "6.2"},
	{"N21", TypeQuery, "a1014101", 1, "01", "missing", 0, "frame_kind", "4.2"},
	{"N22", TypeQuery, "a100190100", 1, "", "missing", 0, "corr", "4.2"},
	{"N23", TypeResult, "a3001901010141010280", 1, "01", "missing", 0, "complete", "6.2"},
	{"N24", TypeQuery, "a200190100015841" + strings.Repeat("00", 65), 1, "", "range", 6, "corr", "4.2"},
	{"N25", TypeQuery, "a20019010001410100", 1, "01", "trailing", 8, "", "4.1"},
	{"N26", TypeQuery, "a3001901000141010281f93c00", 1, "01", "wrong-type", 10, "kinds[0]", "6.1"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parse parses under the type and appends the message again.
func parse(typ Type, b []byte, o *Options) (again []byte, err error) {
	switch typ {
	case TypeQuery:
		return reappend(b, o, ParseQuery, AppendQuery)
	case TypeResult:
		return reappend(b, o, ParseResult, AppendResult)
	case TypeError:
		return reappend(b, o, ParseError, AppendError)
	case TypeAnnounce:
		return reappend(b, o, ParseAnnounce, AppendAnnounce)
	case TypeSubscribe:
		return reappend(b, o, ParseSubscribe, AppendSubscribe)
	case TypeUpdate:
		return reappend(b, o, ParseUpdate, AppendUpdate)
	}
	return reappend(b, o, ParseUnsubscribe, AppendUnsubscribe)
}

const prefix = "something before"

func reappend[T any](b []byte, o *Options, parse func([]byte, *Options) (T, error), app func([]byte, *T) ([]byte, error)) ([]byte, error) {
	v, err := parse(b, o)
	if err != nil {
		return nil, err
	}
	again, err := app([]byte(prefix), &v)
	if err != nil {
		return nil, nil // what is received may be more than we send
	}
	return bytes.TrimPrefix(again, []byte(prefix)), nil
}

// The section too, which the vectors leave to the receiver.
// Covers: DISC-4.1-06, DISC-4.1-07, DISC-4.1-08, DISC-4.1-11, DISC-4.2-02, DISC-4.2-03, C4, C10
func TestGoldenRefused(t *testing.T) {
	for _, generation := range []int{2, 3} {
		for _, v := range refused {
			if generation == 3 && v.name == "N26" {
				v.rule, v.section = "float-form", "4.1"
			}
			_, err := parse(v.typ, unhex(t, v.octets), &Options{Generation: generation})
			checkRefusal(t, v, err)
		}
	}
}

func checkRefusal(t *testing.T, v vector, err error) {
	t.Helper()
	var e *PayloadError
	if !errors.As(err, &e) {
		t.Errorf("%s %s: got error %v, want a *PayloadError", v.name, v.octets, err)
		return
	}
	got := vector{v.name, e.Type, v.octets, e.Code, e.Corr.String(), e.Rule, e.Offset, e.Path, e.Section}
	if got != v || e.HasCorr != (v.corr != "") {
		t.Errorf("%s:\n got %+v\nwant %+v", v.name, got, v)
	}
}

// Every payload vector, whoever composed it, in each generation that it names:
// the verdict with its code, rule, offset, path, corr and reply, or the decoded
// form; and what is canonical is appended again octet for octet.
//
// Covers: DISC-3-06, DISC-4.1-01, DISC-4.1-02, DISC-4.1-03, DISC-4.1-04, DISC-4.1-05, DISC-4.1-06, DISC-4.1-07, DISC-4.1-08
// Covers: DISC-4.1-10, DISC-4.1-11, DISC-4.2-01, DISC-4.2-02, DISC-4.2-03, DISC-5-01, DISC-5-02, DISC-5-05, DISC-5-06
// Covers: DISC-5.1-01, DISC-5.1-03, DISC-5.1-04, DISC-5.2-01, DISC-5.2-02, DISC-5.3-01, DISC-5.3-02, DISC-5.4-01
// Covers: F01, F02, F03, F04, F05, F08, F10, F11, F12, F13, F14, DISC-6.2-01, DISC-6.2-03, DISC-7.1-04, DISC-7.2-08, DISC-9-01, C2, C4, C9, C10, C11, C12, C19, C25, C27, C28, C29, C40, C43
// Covers: DGP-1.3-02, DGP-22-07
func TestPayloadVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range set.Payloads {
		for _, generation := range v.Generations {
			o := &Options{Generation: generation, Tolerant: v.Tolerant != nil && *v.Tolerant}
			if err := checkVector(v, o); err != nil {
				t.Errorf("%s, generation %d: %v", v.Name, generation, err)
			}
		}
	}
}

func checkVector(v testvectors.Payload, o *Options) error {
	typ := Type(v.FrameType)
	got, skipped, err := decode(typ, v.Octets, o)
	if !v.Expect.OK {
		return checkRefused(v.Expect, Diagnose(v.Octets, typ, o), err)
	}
	if err != nil {
		return err
	}
	if err := sameJSON(got, v.Expect.Message); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if err := sameJSON(skipped, v.Expect.Skipped); err != nil {
		return fmt.Errorf("skipped: %w", err)
	}
	again, err := parse(typ, v.Octets, o)
	if err != nil {
		return err
	}
	if !v.Canonical {
		return nil
	}
	if !bytes.Equal(again, v.Octets) {
		return fmt.Errorf("appended again\n got %x\nwant %v", again, v.Octets)
	}
	out, err := encode(v.Expect.Message)
	if err != nil || !bytes.Equal(out, v.Octets) {
		return fmt.Errorf("built and appended: %w\n got %x\nwant %v", err, out, v.Octets)
	}
	return nil
}

func checkRefused(want testvectors.Expect, second *PayloadError, err error) error {
	var e *PayloadError
	if !errors.As(err, &e) {
		return fmt.Errorf("got error %v, want a *PayloadError", err)
	}
	if second == nil || e.Code != second.Code || e.Rule != second.Rule || e.Offset != second.Offset {
		return fmt.Errorf("got %w, and on a second look %v", err, second)
	}
	got := testvectors.Expect{Code: uint64(e.Code), Reply: e.Reply(), Rule: e.Rule, Offset: &e.Offset, Path: &e.Path}
	if e.HasCorr {
		corr := e.Corr.String()
		got.Corr = &corr
	}
	if want.Rule == "" {
		got.Rule = ""
	}
	if want.Offset == nil {
		got.Offset = nil
	}
	if want.Path == nil {
		got.Path = nil
	}
	if !reflect.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		return fmt.Errorf("%w\n got %s\nwant %s", err, a, b)
	}
	return nil
}

func sameJSON(got any, want json.RawMessage) error {
	b, err := json.Marshal(got)
	if err != nil {
		return err
	}
	var x, y any
	if err := errors.Join(json.Unmarshal(b, &x), json.Unmarshal(want, &y)); err != nil {
		return err
	}
	if !reflect.DeepEqual(x, y) {
		return fmt.Errorf("\n got %s\nwant %s", b, want)
	}
	return nil
}

// What may be sent is appended as the vectors say, whatever the order in which
// it was given; what may not is refused. Where Go's types cannot even say it,
// there is nothing to refuse.
//
// Covers: DISC-3-03, DISC-3-05, CH10-7-03, DISC-4.1-03, DISC-4.1-04, DISC-4.1-09, DISC-4.2-03, DISC-4.2-07, DISC-5-02, DISC-5.3-02, DISC-5.4-01, DISC-6.2-03, DISC-7.2-08
func TestEncodeVectors(t *testing.T) {
	set, err := testvectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, v := range set.Encodings {
		got, err := encode(v.Message)
		switch {
		case v.Expect.OK && (err != nil || !bytes.Equal(got, v.Expect.Octets)):
			t.Errorf("%s: %v\n got %x\nwant %v", v.Name, err, got, v.Expect.Octets)
		case !v.Expect.OK && err == nil:
			t.Errorf("%s: appended as %x", v.Name, got)
		case !v.Expect.OK && !errors.Is(err, errInexpressible):
			refused++
		}
	}
	if refused < 25 {
		t.Errorf("only %d messages came as far as being refused", refused)
	}
}
