package disco

import (
	"bytes"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// textsOf returns the text strings of a checked payload.
func textsOf(b []byte) (v [][]byte) {
	for i := 0; i < len(b); {
		n, at := dcbor.Head(b, i)
		major := b[i] &^ 31
		i = at
		if major == dcbor.MajorBytes || major == dcbor.MajorText {
			i += int(n)
		}
		if major == dcbor.MajorText {
			v = append(v, b[at:i])
		}
	}
	return v
}

// The least that any reader that keeps what it reads could do: copy the payload
// and look at its texts.
func floor(dst, b []byte, texts [][]byte) bool {
	copy(dst, b)
	for _, v := range texts {
		if !utf8.Valid(v) {
			return false
		}
	}
	return true
}

func BenchmarkParseResult(b *testing.B) {
	_, dec := fxModes(b)
	for _, n := range []int{1, 100, 1000} {
		payload := corpusPayload(b, n)
		texts, dst := textsOf(payload), make([]byte, len(payload))
		run := func(how string, f func() error) {
			b.Run(fmt.Sprintf("records=%d/%s", n, how), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(payload)))
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("view", func() error { _, err := ParseResultView(payload, nil); return err })
		run("owned", func() error { _, err := ParseResult(payload, nil); return err })
		known := corpusResult(b, n).Records
		run("known", func() error { _, err := ParseResultAhead(payload, nil, known, func(ResultView) {}); return err })
		run("fxamacker", func() error { _, err := fxParse(dec, payload); return err })
		run("floor", func() error { floor(dst, payload, texts); return nil })
	}
}

func BenchmarkAppendResult(b *testing.B) {
	enc, dec := fxModes(b)
	for _, n := range []int{1, 100, 1000} {
		r := corpusResult(b, n)
		payload := corpusPayload(b, n)
		structs := fxToEncode(b, dec, payload)
		if again, err := enc.Marshal(structs); err != nil || !bytes.Equal(again, payload) {
			b.Fatal("the library encodes something else", err)
		}
		run := func(how string, f func() error) {
			b.Run(fmt.Sprintf("records=%d/%s", n, how), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(payload)))
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		buf := make([]byte, 0, len(payload)+64)
		stored := appendRecords(nil, r.Records, 0) // as a snapshot has them: one range
		run("records", func() error { _, err := AppendResult(buf, r); return err })
		run("range", func() error {
			AppendResultTail(append(AppendResultHead(buf, r.Corr, n, true), stored...), true, "")
			return nil
		})
		run("fxamacker", func() error { _, err := enc.Marshal(structs); return err })
	}
}

// Refusing garbage must be cheap too: a fault in the last record.
func BenchmarkRefuseResult(b *testing.B) {
	payload := corpusPayload(b, 1000)
	payload[len(payload)-1] = 0xf6
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := ParseResult(payload, nil); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkParseQuery(b *testing.B) {
	payload, err := AppendQuery(nil, &Query{Corr: "correlation-0001", Tolerant: true,
		Filter: record.Filter{Kinds: []record.Kind{3, 4}, ProtocolIDs: []uint64{1, 2}, NamePrefix: "svc04", HasPrefix: true}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := ParseQuery(payload, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// One change for many subscriptions: the payloads differ in their corrs.
func BenchmarkUpdateReader(b *testing.B) {
	payload, err := AppendUpdate(nil, &Update{Corr: "correlation-0001", Added: corpusResult(b, 1).Records})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			ParseUpdateView(payload, nil)
		}
	})
	b.Run("reader", func(b *testing.B) {
		var r UpdateReader
		for b.Loop() {
			payload[15]++
			r.Parse(payload, nil)
		}
	})
}
