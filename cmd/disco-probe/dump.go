package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame/dcbor"
	"github.com/npamp/disco/record"
)

// dumpContext is how many lines of a dump stand before and after the fault.
const dumpContext = 16

// dump lists the items of a payload that was refused, one a line with its
// offset, octets and meaning, and points at the one at offset fault. It goes as
// far as the octets are well-formed, and shows the neighbourhood of the fault.
func dump(t disco.Type, payload []byte, fault int, rule string) []string {
	d := dumper{b: payload, fault: fault, rule: rule}
	if i := d.item(0, 1, payloadShape(t), notKey); i >= 0 && i < len(payload) && !d.full() {
		d.rest(i, "after the end")
	}
	if d.dropped {
		d.lines = append([]string{"      …"}, d.lines...)
	}
	return d.lines
}

type dumper struct {
	b       []byte
	fault   int
	rule    string
	lines   []string
	dropped bool // of the lines before the fault
	seen    bool // the fault's line is out
	after   int  // lines after it
}

// full reports that enough was said after the fault.
func (d *dumper) full() bool { return d.after >= dumpContext }

// line adds the octets from i to end.
func (d *dumper) line(i, end, depth int, meaning string) {
	if d.full() {
		return
	}
	if end+4096 < d.fault { // far off, and there may be millions of them
		d.dropped = true
		return
	}
	const most = 8
	shown := fmt.Sprintf("% x", d.b[i:min(end, i+most)])
	if end-i > most {
		shown += " …"
	}
	l := fmt.Sprintf("%6d  %-36s %s", i, strings.Repeat("  ", min(depth, dcbor.MaxDepth+1)-1)+shown, meaning)
	switch {
	case d.seen:
		d.after++
	case i == d.fault:
		l += "   <-- " + d.rule
		d.seen = true
	case len(d.lines) == dumpContext:
		d.lines, d.dropped = d.lines[1:], true
	}
	if d.full() {
		l = "      …"
	}
	d.lines = append(d.lines, l)
}

// rest adds what no item can be read from, and ends the dump.
func (d *dumper) rest(i int, meaning string) int {
	d.line(i, len(d.b), 1, meaning)
	return -1
}

// item adds the item at i and what it holds, and returns the index after it,
// or -1 where the dump ends.
func (d *dumper) item(i, depth int, s *shape, key keyName) int {
	if d.full() {
		return -1
	}
	if i >= len(d.b) {
		if i == d.fault {
			d.line(i, i, depth, "nothing")
		}
		return -1
	}
	h := dcbor.ReadHead(d.b, i)
	if h.Next < 0 {
		return d.rest(i, "no item")
	}
	switch h.Major {
	case dcbor.MajorUint:
		d.line(i, h.Next, depth, key.of(fmt.Sprint(h.Arg)))
	case dcbor.MajorNeg:
		d.line(i, h.Next, depth, key.of(negative(h.Arg)))
	case dcbor.MajorBytes, dcbor.MajorText:
		return d.str(i, depth, h, key)
	case dcbor.MajorArray, dcbor.MajorMap, dcbor.MajorTag:
		return d.nested(i, depth, h, s, key)
	default:
		d.line(i, h.Next, depth, key.of(simple(d.b[i], h)))
	}
	return h.Next
}

// A keyName is a space and the name of the map key that an item is, or notKey.
type keyName string

const notKey keyName = ""

func (k keyName) of(value string) string {
	if k == notKey {
		return value
	}
	return strings.TrimSpace("key " + value + string(k))
}

func simple(first byte, h dcbor.LooseHead) string {
	switch {
	case h.Indefinite:
		return "break"
	case first == 0xf4:
		return "false"
	case first == 0xf5:
		return "true"
	case first == 0xf6:
		return "null"
	case first == 0xf7:
		return "undefined"
	case first >= 0xf9:
		return "float"
	}
	return fmt.Sprintf("simple value %d", h.Arg)
}

// negative is the integer -1 - n.
func negative(n uint64) string {
	if n == math.MaxUint64 {
		return "-18446744073709551616"
	}
	return "-" + strconv.FormatUint(n+1, 10)
}

// str adds a string; one of indefinite length as its chunks.
func (d *dumper) str(i, depth int, h dcbor.LooseHead, key keyName) int {
	what := "octets"
	if h.Major == dcbor.MajorText {
		what = "text"
	}
	if h.Indefinite {
		d.line(i, h.Next, depth, key.of(what+" in chunks"))
		next := h.Next
		for next >= 0 && !dcbor.IsBreak(d.b, next) {
			next = d.item(next, depth+1, nil, notKey)
		}
		return d.breakAt(next, depth)
	}
	if h.Arg > uint64(len(d.b)-h.Next) {
		return d.rest(i, key.of(fmt.Sprintf("%s of %d, %d there", what, h.Arg, len(d.b)-h.Next)))
	}
	end := h.Next + int(h.Arg)
	if h.Major == dcbor.MajorText {
		what = fmt.Sprintf(`"%s"`, visible(string(d.b[h.Next:end]), maxTextWidth))
	} else {
		what = fmt.Sprintf("octets, %d", h.Arg)
	}
	d.line(i, end, depth, key.of(what))
	return end
}

// nested adds an array, a map or a tag.
func (d *dumper) nested(i, depth int, h dcbor.LooseHead, s *shape, key keyName) int {
	what, count := "array", fmt.Sprintf(" of %d", h.Arg)
	switch h.Major {
	case dcbor.MajorMap:
		what = "map"
	case dcbor.MajorTag:
		what, count = "tag", fmt.Sprintf(" %d", h.Arg)
	}
	if h.Indefinite {
		count = " of indefinite length"
	}
	d.line(i, h.Next, depth, key.of(what+count))
	if depth > dcbor.MaxDepth {
		return -1
	}
	if h.Major == dcbor.MajorTag {
		return d.item(h.Next, depth+1, nil, notKey)
	}
	next := h.Next
	var kind record.Kind
	for n := uint64(0); next >= 0 && (h.Indefinite || n < h.Arg); n++ {
		if h.Indefinite && dcbor.IsBreak(d.b, next) {
			return d.breakAt(next, depth)
		}
		if h.Major == dcbor.MajorArray {
			next = d.item(next, depth+1, s, notKey)
			continue
		}
		key, name, nested := dcbor.ReadHead(d.b, next), "", (*shape)(nil)
		if key.Next >= 0 && key.Major == dcbor.MajorUint {
			name, nested = s.at(key.Arg, kind)
		}
		value := d.item(next, depth+1, nil, keyName(" "+name))
		if value < 0 {
			return value
		}
		if v := dcbor.ReadHead(d.b, value); name == "kind" && s.record && v.Major == dcbor.MajorUint {
			kind = record.Kind(v.Arg)
		}
		next = d.item(value, depth+1, nested, notKey)
	}
	return next
}

func (d *dumper) breakAt(i, depth int) int {
	if i < 0 {
		return i
	}
	d.line(i, i+1, depth, "break")
	return i + 1
}
