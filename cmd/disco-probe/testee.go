package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
)

// maxTesteeRequest bounds one request, in octets: room for the longest frame in
// hex, twice, and some more.
const maxTesteeRequest = 80 << 20

func (a *app) testeeCommand() *cobra.Command {
	var generation int
	cmd := &cobra.Command{
		Use:   "testee",
		Short: "Let a foreign runner grade this implementation",
		Long: `testee answers the requests of a conformance runner on standard input: each is a
length in four octets, least significant first, and a JSON object {"op":…,"in":…};
each answer likewise, {"out":…}, {"error":…} or {"skipped":…}. It knows the
operations of the core and of the bridge envelope, and disco.payload.decode and
disco.payload.encode. Bodies of other channels are skipped. It ends with standard
input.`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if generation != 2 && generation != 3 {
				return usagef("--generation must be 2 or 3")
			}
			return a.testee(ctx, &testee{generation: generation})
		}),
	}
	cmd.Flags().IntVar(&generation, "generation", 2, "crypto generation, 2 or 3: the width of a bridge protocol_id, reserved flags, what a payload may hold")
	return cmd
}

// testee answers requests until standard input ends or ctx is done.
func (a *app) testee(ctx context.Context, t *testee) error {
	requests := make(chan testeeRequest)
	stop := make(chan struct{})
	defer close(stop)
	go readRequests(a.stdin, requests, stop)
	for {
		select {
		case <-ctx.Done():
			return a.interrupted()
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			if r.err != nil {
				return &failure{exit: exitProtocol, err: r.err}
			}
			if err := a.writeAnswer(t.answer(r.body)); err != nil {
				return err
			}
		}
	}
}

// A testeeRequest is the octets of one request, or why there can be no more.
type testeeRequest struct {
	body []byte
	err  error
}

// readRequests cuts r into requests until it ends, the framing is lost, or stop
// is closed. It closes requests, unless stop came first.
func readRequests(r io.Reader, requests chan<- testeeRequest, stop <-chan struct{}) {
	defer close(requests)
	for {
		body, err := readRequest(r)
		if err == io.EOF {
			return
		}
		select {
		case requests <- testeeRequest{body, err}:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// readRequest reads one request. It is io.EOF between two. Memory follows the
// octets that come, not the length that is declared.
func readRequest(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("standard input ends inside a length")
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxTesteeRequest {
		return nil, fmt.Errorf("a request of %d octets is declared, more than %d", n, maxTesteeRequest)
	}
	var body bytes.Buffer
	if m, err := io.CopyN(&body, r, int64(n)); err == io.EOF {
		return nil, fmt.Errorf("standard input ends after %d of %d octets of a request", m, n)
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func (a *app) writeAnswer(o object) error {
	b := appendJSON(make([]byte, 4), o)
	if uint64(len(b)-4) > math.MaxUint32 {
		b = appendJSON(make([]byte, 4), testeeError("the answer is too long"))
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	_, err := a.out.Write(b)
	return err
}

// A testee does the operations of one crypto generation.
type testee struct{ generation int }

// A testeeOp is one operation. in is its input, out its output where err is nil.
type testeeOp func(t *testee, in *fields) (out object, err error)

// testeeOps are the operations that this implementation has.
func testeeOps() map[string]testeeOp {
	return map[string]testeeOp{
		"header.decode":          (*testee).headerDecode,
		"header.encode":          (*testee).headerEncode,
		"crc32c":                 (*testee).crc32c,
		"tlv.decode":             (*testee).tlvDecode,
		"tlv.encode":             (*testee).tlvEncode,
		"aead.seal":              (*testee).aeadSeal,
		"aead.open":              (*testee).aeadOpen,
		"hkdf.expand":            (*testee).hkdfExpand,
		"hkdf.expand_label":      (*testee).hkdfExpandLabel,
		"keys.derive_traffic":    (*testee).deriveTraffic,
		"nonce.derive":           (*testee).nonceDerive,
		"frame.seal":             (*testee).frameSeal,
		"frame.open":             (*testee).frameOpen,
		"profile.check":          (*testee).profileCheck,
		"bridge.envelope.decode": (*testee).bridgeDecode,
		"bridge.envelope.encode": (*testee).bridgeEncode,
		"bridge.correlate":       (*testee).bridgeCorrelate,
		"disco.payload.decode":   (*testee).discoDecode,
		"disco.payload.encode":   (*testee).discoEncode,
	}
}

// answer does what one request asks for.
func (t *testee) answer(request []byte) object {
	if err := checkJSON(request); err != nil {
		return testeeError("the request is no JSON: " + err.Error())
	}
	f := parseFields("", json.RawMessage(request))
	name := f.text("op")
	if name == nil {
		f.fail("op", "is required")
	}
	in := parseFields("in.", f.require("in"))
	switch {
	case f.err != nil:
		return testeeError(f.err.Error())
	case in.err != nil:
		return testeeError(in.err.Error())
	}
	op := testeeOps()[*name]
	if op == nil {
		return object{{"skipped", "operation " + visible(*name, maxTextWidth) + " is not implemented here"}}
	}
	out, err := op(t, in)
	if in.err != nil { // the input, before what became of it
		err = in.err
	}
	if err != nil {
		return testeeError(err.Error())
	}
	return object{{"out", out}}
}

func testeeError(why string) object { return object{{"error", why}} }

// hex returns a required field of octets in hex; without one it is nil, and the
// fault sticks.
func (f *fields) hex(key string) []byte {
	raw := f.require(key)
	if f.err != nil {
		return nil
	}
	s, err := parseText(raw)
	if err != nil {
		f.fail(key, "must be octets in hex")
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		f.fail(key, "must be octets in hex")
		return nil
	}
	return b
}

// upTo returns a required number of at most limit, 0 with a fault.
func (f *fields) upTo(key string, limit uint64) uint64 {
	n := f.required(key, nil)
	if n > limit {
		f.fail(key, fmt.Sprintf("must be at most %d", limit))
		return 0
	}
	return n
}

// word returns a required text, "" with a fault.
func (f *fields) word(key string) string {
	s := f.text(key)
	if s == nil {
		f.fail(key, "is required")
		return ""
	}
	return *s
}
