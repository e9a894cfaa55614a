package fuzz

import (
	"fmt"
	"testing"

	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// FuzzViewOrder applies the same changes to two views in different orders. As
// long as the changes of each record_id keep their order, both views end equal;
// and additions and replacements alone may come in any order at all, since the
// greatest revision wins (§8).
func FuzzViewOrder(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x81, 0x12, 0x23}, []byte{3, 1, 2})
	f.Add([]byte{0x10, 0x20, 0x90, 0x30, 0x11, 0x91, 0x21}, []byte{9, 8, 7, 6, 5})
	f.Fuzz(func(t *testing.T, ops, order []byte) {
		if len(ops) > 200 {
			return
		}
		// An op is the low nibble's record_id, withdrawn with the high bit, else at
		// the revision in between.
		apply := func(v *record.View, op byte) {
			id := fmt.Sprint("t", op&15)
			if op&0x80 != 0 {
				v.Withdraw([]byte(id))
				return
			}
			v.Add(ref(t, id, uint64(op>>4&7)))
		}
		replay := func(seq []byte) *record.View {
			v := record.NewCache(record.CacheLimits{MaxRecords: 8, MaxLen: 1 << 20, MaxTombstones: 4}).NewView(record.Filter{}.Matcher())
			v.Whole()
			for _, op := range seq {
				apply(v, op)
			}
			return v
		}
		if a, b := replay(ops), replay(stableShuffle(ops, order)); a.Digest() != b.Digest() {
			t.Fatalf("views differ:\n%x\n%x", ops, stableShuffle(ops, order))
		}
		var adds []byte
		for _, op := range ops {
			if op&0x80 == 0 {
				adds = append(adds, op)
			}
		}
		if a, b := replay(adds), replay(shuffle(adds, order)); a.Digest() != b.Digest() {
			t.Fatalf("views of additions differ:\n%x\n%x", adds, shuffle(adds, order))
		}
	})
}

// shuffle permutes as order says.
func shuffle(ops, order []byte) []byte {
	out := append([]byte(nil), ops...)
	for i, o := range order {
		if len(out) > 0 {
			a, b := i%len(out), int(o)%len(out)
			out[a], out[b] = out[b], out[a]
		}
	}
	return out
}

// stableShuffle permutes as order says, but leaves the ops of one record_id in
// their order.
func stableShuffle(ops, order []byte) []byte {
	byID := map[byte][]byte{}
	for _, op := range ops {
		byID[op&15] = append(byID[op&15], op)
	}
	out := shuffle(ops, order)
	for i, op := range out {
		id := op & 15
		out[i] = byID[id][0]
		byID[id] = byID[id][1:]
	}
	return out
}

// ref is a tool record as it stands in a payload.
func ref(t *testing.T, id string, revision uint64) record.Ref {
	r, err := record.Tool{ID: record.ID(id), Revision: revision, Name: "x", ProtocolID: 1}.Record()
	if err != nil {
		t.Fatal(err)
	}
	l, _ := record.ScanList(r.AppendTo([]byte{0x81}), 0, dcbor.Generation2, nil)
	for ref := range l.All() {
		return ref
	}
	panic("unreachable")
}
