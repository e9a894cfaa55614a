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
	// others than these are ignored. A map with AnyKeys may have any keys.
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

func (sh *Shape) field(key uint64) *Field {
	for i := range sh.Fields {
		if sh.Fields[i].Key == key {
			return &sh.Fields[i]
		}
	}
	return nil
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
	values := make(map[uint64]int, len(sh.Fields)) // where those of known keys are
	for ; n > 0; n-- {
		switch b[i] &^ 31 {
		case MajorUint:
		case MajorNeg:
			return &Violation{Error: Error{NegativeKey, i}, Section: "4.1"}
		default:
			return &Violation{Error: Error{KeyType, i}, Section: "4.1"}
		}
		key, at := Head(b, i)
		if sh.field(key) != nil {
			values[key] = at
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
		f := &sh.Fields[k]
		if _, ok := values[f.Key]; f.Required && !ok {
			return &Violation{Error{Missing, start}, f.Name, in(f)}
		}
	}
	for k := range sh.Fields {
		f := &sh.Fields[k]
		at, ok := values[f.Key]
		if !ok {
			continue
		}
		if v := sh.shapeOf(f, b, values[f.By]).check(b, at, in(f)); v != nil {
			return v
		}
	}
	return nil
}

// shapeOf returns the shape of the field in a map whose field By is at b[by].
func (sh *Shape) shapeOf(f *Field, b []byte, by int) *Shape {
	if f.Shape != nil {
		return f.Shape
	}
	h := ReadHead(b, by)
	return f.Of(h.Arg)
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
	values := make(map[uint64]int)
	i := h.Next
	for n := uint64(0); h.more(b, i, n); n++ {
		key, at := ReadHead(b, i), end(i)
		next := end(at)
		if key.Major == MajorUint && key.Next >= 0 {
			values[key.Arg] = at
		}
		if off >= next {
			i = next
			continue
		}
		var f *Field
		name := ""
		switch {
		case key.Next < 0:
			return
		case key.Major == MajorUint:
			name = strconv.FormatUint(key.Arg, 10)
			if sh != nil {
				f = sh.field(key.Arg)
			}
		case key.Major == MajorNeg:
			name = negative(key.Arg)
		default:
			return
		}
		if f != nil {
			name = f.Name
		}
		if path.Len() > 0 {
			name = "." + name
		}
		path.WriteString(name)
		if off < at { // the key itself
			return
		}
		var value *Shape
		if f != nil {
			if by, ok := values[f.By]; ok || f.Shape != nil {
				value = sh.shapeOf(f, b, by)
			}
		}
		value.path(path, b, at, off, depth+1)
		return
	}
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
