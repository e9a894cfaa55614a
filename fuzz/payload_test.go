package fuzz

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/testvectors"
)

// seed adds the golden payloads of a type, and those of the other types too,
// since a receiver is shown them under any header.
func seed(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range set.Payloads {
		f.Add([]byte(p.Octets))
	}
}

// check holds one payload parser to its properties, in both generations:
//
//   - it accepts exactly what Diagnose finds no fault with,
//   - what it accepts, appended again, is the same octets, unless unknown keys
//     were skipped: then it is shorter, and parses to the same,
//   - an error is a *disco.PayloadError whose offset lies in the payload, and
//     names a corr only where ScanCorr finds it.
func check[M any](f *testing.F, t disco.Type, parse func([]byte, *disco.Options) (M, error), app func([]byte, *M) ([]byte, error)) {
	seed(f)
	f.Fuzz(func(tt *testing.T, b []byte) {
		for _, o := range []disco.Options{{Generation: 2, Tolerant: true}, {Generation: 3, Tolerant: true}} {
			in := bytes.Clone(b)
			m, err := parse(in, &o)
			if !bytes.Equal(in, b) {
				tt.Fatal("the input was changed")
			}
			if d := disco.Diagnose(b, t, &o); (d == nil) != (err == nil) {
				tt.Fatalf("parse says %v, Diagnose says %v", err, d)
			}
			if err != nil {
				checkError(tt, t, b, err)
				continue
			}
			for i := range in {
				in[i] = 0xff // what was parsed owns its memory
			}
			again, err := app(nil, &m)
			if err != nil {
				var ee *disco.EncodeError
				if !errors.As(err, &ee) {
					tt.Fatalf("append: %v", err)
				}
				continue // more is accepted than sent: long reasons, corrs of ANNOUNCE …
			}
			if bytes.Equal(again, b) {
				continue
			}
			m2, err := parse(again, &o)
			if err != nil {
				tt.Fatalf("what was appended is refused: %v\n%x\n%x", err, b, again)
			}
			third, err := app(nil, &m2)
			if err != nil || !bytes.Equal(third, again) {
				tt.Fatalf("appended twice:\n%x\n%x\n%v", again, third, err)
			}
			if len(again) > len(b) {
				tt.Fatalf("grew:\n%x\n%x", b, again)
			}
		}
	})
}

func checkError(t *testing.T, typ disco.Type, b []byte, err error) {
	var pe *disco.PayloadError
	if !errors.As(err, &pe) {
		t.Fatalf("error is a %T", err)
	}
	corr, ok := disco.ScanCorr(b)
	if ok != pe.HasCorr || corr != pe.Corr {
		t.Fatalf("corr %s, %v; ScanCorr says %s, %v", pe.Corr, pe.HasCorr, corr, ok)
	}
	if pe.Offset < 0 || pe.Offset > len(b) || pe.Rule == "" || pe.Section == "" {
		t.Fatalf("%d octets: %+v", len(b), pe)
	}
	if pe.Type != typ || pe.Code != disco.CodeMalformedPayload && pe.Code != disco.CodeKindMismatch && pe.Code != disco.CodeUnknownRecordKind {
		t.Fatalf("%+v", pe)
	}
	if want := map[bool]string{true: "error", false: "uncorrelated"}[ok]; typ.TakesReply() && pe.Reply() != want || !typ.TakesReply() && pe.Reply() != "none" {
		t.Fatalf("reply %q", pe.Reply())
	}
}

func FuzzQuery(f *testing.F)  { check(f, disco.TypeQuery, disco.ParseQuery, disco.AppendQuery) }
func FuzzResult(f *testing.F) { check(f, disco.TypeResult, disco.ParseResult, disco.AppendResult) }
func FuzzError(f *testing.F)  { check(f, disco.TypeError, disco.ParseError, disco.AppendError) }
func FuzzAnnounce(f *testing.F) {
	check(f, disco.TypeAnnounce, disco.ParseAnnounce, disco.AppendAnnounce)
}
func FuzzSubscribe(f *testing.F) {
	check(f, disco.TypeSubscribe, disco.ParseSubscribe, disco.AppendSubscribe)
}
func FuzzUpdate(f *testing.F) { check(f, disco.TypeUpdate, disco.ParseUpdate, disco.AppendUpdate) }
func FuzzUnsubscribe(f *testing.F) {
	check(f, disco.TypeUnsubscribe, disco.ParseUnsubscribe, disco.AppendUnsubscribe)
}

// FuzzUpdateReader: what a reader was shown before changes nothing.
func FuzzUpdateReader(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range set.Payloads {
		f.Add([]byte(p.Octets), []byte(p.Octets))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r disco.UpdateReader
		for _, p := range [][]byte{a, b, b, a} {
			want, wantErr := disco.ParseUpdateView(bytes.Clone(p), nil)
			got, err := r.Parse(bytes.Clone(p), nil)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("%v, want %v", err, wantErr)
			}
			if !bytes.Equal(got.Corr, want.Corr) || got.Added.Len() != want.Added.Len() || got.Added.NumSkipped() != want.Added.NumSkipped() ||
				!bytes.Equal(got.Added.Octets(), want.Added.Octets()) || !bytes.Equal(got.Withdrawn.Octets(), want.Withdrawn.Octets()) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}

// FuzzResultKnown: what is known changes nothing.
func FuzzResultKnown(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range set.Payloads {
		b := []byte(p.Octets)
		f.Add(b, b)
		if disco.Type(p.FrameType) != disco.TypeResult {
			continue
		}
		for i := len(b) / 3; i < len(b); i += 7 {
			changed := bytes.Clone(b)
			changed[i] ^= 1
			f.Add(b, changed)
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, o := range []disco.Options{{Generation: 2, Tolerant: true}, {Generation: 3, Tolerant: true}} {
			var known []record.Record
			if r, err := disco.ParseResult(a, &o); err == nil {
				known = r.Records
			}
			want, wantErr := disco.ParseResult(b, &o)
			in := bytes.Clone(b)
			got, err := disco.ParseResultAhead(in, &o, known, func(disco.ResultView) {})
			clear(in)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, wantErr) {
				t.Fatalf("%+v, %v\nwant %+v, %v", got, err, want, wantErr)
			}
		}
	})
}
