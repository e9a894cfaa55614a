package testvectors

import (
	"bytes"
	"slices"
	"testing"
)

// Covers: DISC-11-02
func TestExchanges(t *testing.T) {
	s := load(t)
	provoked := map[byte]int{}
	sent := map[uint16]bool{}
	silences := 0
	for _, x := range s.Exchanges {
		bound := map[string][]byte{}
		if len(x.Steps) < 2 || x.Steps[0].Set == nil {
			t.Errorf("%s: it starts with what the responder advertises", x.Name)
		}
		for i, st := range x.Steps {
			if forms := stepForms(st); forms != 1 {
				t.Errorf("%s: step %d has %d forms, want one", x.Name, i, forms)
			}
			if st.Silence != "" {
				silences++
			}
			if st.From == "" {
				continue
			}
			sent[st.FrameType] = true
			if st.FrameType == 0x102 && st.From == Responder {
				provoked[st.Payload[len(st.Payload)-1]]++
			}
			checkVaries(t, x.Name, i, st, bound)
		}
	}
	for code := byte(1); code <= 7; code++ {
		if provoked[code] == 0 {
			t.Errorf("no exchange provokes code %d", code)
		}
	}
	for typ := uint16(0x100); typ <= 0x106; typ++ {
		if !sent[typ] {
			t.Errorf("no exchange has frame type %#x", typ)
		}
	}
	if len(s.Exchanges) < 70 || silences < 10 {
		t.Errorf("%d exchanges, %d silences", len(s.Exchanges), silences)
	}
	names := func(name string) bool {
		return slices.ContainsFunc(s.Exchanges, func(x Exchange) bool { return x.Name == name })
	}
	for _, name := range []string{"filtered-query", "x-three-pages", "subscription", "replacement", "x-leave-filter", "x-announce", "x-both-directions"} {
		if !names(name) {
			t.Errorf("no exchange %s", name)
		}
	}
}

func stepForms(st Step) (n int) {
	for _, has := range []bool{st.Set != nil, st.Change != nil, st.From != "", st.Silence != ""} {
		if has {
			n++
		}
	}
	return n
}

// checkVaries checks that what varies in a frame is whole octet strings in their
// places, every corr and cursor of a well-formed frame among them, and that one
// name means one value.
func checkVaries(t *testing.T, name string, i int, st Step, bound map[string][]byte) {
	t.Helper()
	for _, v := range st.Varies {
		item := st.Payload[v.Offset : v.Offset+v.Length]
		if old, ok := bound[v.Name]; ok && !bytes.Equal(old, item) {
			t.Errorf("%s: step %d: %s is %x here, %x before", name, i, v.Name, item, old)
		}
		bound[v.Name] = item
		head := map[bool]int{true: 1, false: 2}[item[0] < 0x58]
		if item[0] == 0x59 {
			head = 3
		}
		n := int(item[0] & 31)
		if head > 1 {
			n = 0
			for _, b := range item[1:head] {
				n = n<<8 | int(b)
			}
		}
		key := map[string][]byte{"corr": {1}, "cursor": {4, 6}}[v.Item]
		if item[0]&^31 != 0x40 || n != v.Length-head || !slices.Contains(key, st.Payload[v.Offset-1]) {
			t.Errorf("%s: step %d: %s: %x is no octet string under the key of a %s", name, i, v.Name, item, v.Item)
		}
	}
	m, ok := decodeMap(st.Payload)
	if !ok || st.Fault != 0 {
		return
	}
	want := 0
	for _, key := range []uint64{1, 4, 6} {
		if _, isOctets := m[key].([]byte); isOctets && !foreign(m[key].([]byte), st) {
			want++
		}
	}
	if want != len(st.Varies) {
		t.Errorf("%s: step %d: %d items vary, the frame has %d", name, i, len(st.Varies), want)
	}
}

// foreign reports that a cursor is one that nobody issued, so that it stays as
// it is.
func foreign(v []byte, st Step) bool {
	return st.FrameType == 0x100 && len(st.Varies) == 1 && (len(v) == 0 || len(v) > 64 || v[0] == 0 && len(v) == 16)
}
