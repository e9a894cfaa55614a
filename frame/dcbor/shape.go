package dcbor

import (
	"strconv"
	"strings"
)

// A Shape says as data what an item must be. It is for telling what is wrong
// with an input, and where, in words: the readers are what checks it first.
type Shape struct {
	Major    byte   // of the item; MajorSimple stands for a Boolean
	Min, Max uint64 // of a uint's value, a string's length, an array's count; Max 0: no bound

	Elem *Shape // an array's elements

	// Fields are a map's, ascending by key. Keys must be unsigned integers, and
	// others than these, at most MaxFields, are ignored. A map with AnyKeys may
	// have any keys.
	Fields  []Field
	AnyKeys bool
	Section string // where the specification describes the map
}

// A Field is a field of a map.
type Field struct {
	Key      uint64
	Name     string // by the specification
	Required bool
	Section  string // where the specification describes it, if not with the map

	Shape *Shape // nil: chosen by the uint that the required field By holds
	By    uint64
	Of    func(by uint64) *Shape
}

// Last returns the greatest key that the map defines.
func (sh *Shape) Last() uint64 {
	if len(sh.Fields) == 0 {
		return 0
	}
	return sh.Fields[len(sh.Fields)-1].Key
}

// MaxFields is the most fields that a Shape may have.
const MaxFields = 8

// find returns the index of the field with the key, or -1.
func (sh *Shape) find(key uint64) int {
	for i := range sh.Fields {
		if sh.Fields[i].Key == key {
			return i
		}
	}
	return -1
}

// of returns the shape of the field in a map of which a uint that the field By
// holds was read.
func (f *Field) of(by uint64) *Shape {
	if f.Shape != nil {
		return f.Shape
	}
	return f.Of(by)
}

// A Violation is an Error with its place in the specification.
type Violation struct {
	Error
	Missing string // the name of the missing key, with rule Missing
	Section string
}

// Check reports what keeps b, which the function Check has passed, from having
// the shape. A map's keys are looked at first, then what is missing, then the
// values in their order.
func (sh *Shape) Check(b []byte) *Violation {
	return sh.check(b, 0, sh.Section)
}

// CheckAt is Check for the item at b[i], which belongs to the given section.
func (sh *Shape) CheckAt(b []byte, i int, section string) *Violation {
	return sh.check(b, i, section)
}

func (sh *Shape) check(b []byte, i int, section string) *Violation {
	fault := func(at int, r Rule) *Violation { return &Violation{Error: Error{r, at}, Section: section} }
	if b[i]&^31 != sh.Major || sh.Major == MajorSimple && b[i]&^1 != initialFalse {
		return fault(i, WrongType)
	}
	if sh.Major == MajorSimple {
		return nil
	}
	n, at := Head(b, i)
	switch {
	case n < sh.Min && n == 0 && sh.Major != MajorUint:
		return fault(i, Empty)
	case n < sh.Min, sh.Max != 0 && n > sh.Max:
		return fault(i, Range)
	}
	switch {
	case sh.Major == MajorArray && sh.Elem != nil:
		for ; n > 0; n-- {
			if v := sh.Elem.check(b, at, section); v != nil {
				return v
			}
			at = Next(b, at)
		}
	case sh.Major == MajorMap && !sh.AnyKeys:
		if sh.Section != "" {
			section = sh.Section
		}
		return sh.checkFields(b, i, section)
	}
	return nil
}

func (sh *Shape) checkFields(b []byte, start int, section string) *Violation {
	n, i := Head(b, start)
	var values [MaxFields]int // where each field's value is; 0: it is absent
	for ; n > 0; n-- {
		switch b[i] &^ 31 {
		case MajorUint:
		case MajorNeg:
			return &Violation{Error: Error{NegativeKey, i}, Section: "4.1"}
		default:
			return &Violation{Error: Error{KeyType, i}, Section: "4.1"}
		}
		key, at := Head(b, i)
		if k := sh.find(key); k >= 0 {
			values[k] = at
		}
		i = Next(b, at)
	}
	in := func(f *Field) string {
		if f.Section != "" {
			return f.Section
		}
		return section
	}
	for k := range sh.Fields {
		if f := &sh.Fields[k]; f.Required && values[k] == 0 {
			return &Violation{Error{Missing, start}, f.Name, in(f)}
		}
	}
	for k := range sh.Fields {
		f := &sh.Fields[k]
		if values[k] == 0 {
			continue
		}
		var by uint64
		if f.Shape == nil {
			by, _ = Head(b, values[sh.find(f.By)])
		}
		if v := f.of(by).check(b, values[k], in(f)); v != nil {
			return v
		}
	}
	return nil
}

// Path names the item of b that holds the octet at off: by the shape's names
// and, where it has none, by number, as in "records[3].body.name" or "99[0]".
// It is empty for the outermost item. b need not be valid.
func (sh *Shape) Path(b []byte, off int) string {
	var path strings.Builder
	sh.path(&path, b, 0, off, 1)
	return path.String()
}

func (sh *Shape) path(path *strings.Builder, b []byte, i, off, depth int) {
	h := ReadHead(b, i)
	if h.Next < 0 || off < h.Next || depth > MaxDepth+1 {
		return
	}
	// end is where the item at b[i] ends, or where b does.
	end := func(i int) int {
		if next := SkipLenient(b, i, depth+1); next >= 0 {
			return next
		}
		return len(b)
	}
	i = h.Next
	switch h.Major {
	case MajorTag:
		(*Shape)(nil).path(path, b, i, off, depth+1)
	case MajorArray:
		var elem *Shape
		if sh != nil {
			elem = sh.Elem
		}
		for k := 0; h.more(b, i, uint64(k)); k++ {
			next := end(i)
			if off < next {
				path.WriteString("[" + strconv.Itoa(k) + "]")
				elem.path(path, b, i, off, depth+1)
				return
			}
			i = next
		}
	case MajorMap:
		sh.pathInMap(path, b, h, off, depth, end)
	}
}

func (sh *Shape) pathInMap(path *strings.Builder, b []byte, h LooseHead, off, depth int, end func(int) int) {
	var by [MaxFields]uint64 // what the fields hold that are uints
	i := h.Next
	for n := uint64(0); h.more(b, i, n); n++ {
		key, at := ReadHead(b, i), end(i)
		next := end(at)
		k := -1
		if sh != nil && key.Major == MajorUint && key.Next >= 0 {
			k = sh.find(key.Arg)
		}
		if off >= next {
			if k >= 0 {
				by[k] = ReadHead(b, at).Arg
			}
			i = next
			continue
		}
		switch {
		case key.Next < 0:
			return
		case k >= 0:
			appendName(path, sh.Fields[k].Name)
		case key.Major == MajorUint:
			appendName(path, strconv.FormatUint(key.Arg, 10))
		case key.Major == MajorNeg:
			appendName(path, negative(key.Arg))
		default:
			return
		}
		if off >= at {
			var value *Shape
			if k >= 0 {
				value = sh.Fields[k].of(by[max(0, sh.find(sh.Fields[k].By))])
			}
			value.path(path, b, at, off, depth+1)
		}
		return
	}
}

func appendName(path *strings.Builder, name string) {
	if path.Len() > 0 {
		path.WriteByte('.')
	}
	path.WriteString(name)
}

// more reports whether a member n of the array or the map starts at b[i].
func (h LooseHead) more(b []byte, i int, n uint64) bool {
	return i < len(b) && (h.Indefinite && !IsBreak(b, i) || !h.Indefinite && n < h.Arg)
}

// negative returns -1 - n in decimal.
func negative(n uint64) string {
	if n == 1<<64-1 {
		return "-18446744073709551616"
	}
	return "-" + strconv.FormatUint(n+1, 10)
}
