package dcbor

import "testing"

func testShape() *Shape {
	uintShape := &Shape{Major: MajorUint, Max: 255}
	bodies := map[uint64]*Shape{
		1: {Major: MajorMap, Section: "5.1", Fields: []Field{{Key: 0, Name: "id", Required: true, Shape: uintShape}}},
		2: {Major: MajorMap, AnyKeys: true},
	}
	item := &Shape{Major: MajorMap, Section: "5", Fields: []Field{
		{Key: 1, Name: "kind", Required: true, Shape: &Shape{Major: MajorUint, Min: 1, Max: 2}},
		{Key: 4, Name: "body", Required: true, By: 1, Of: func(by uint64) *Shape { return bodies[by] }},
	}}
	return &Shape{Major: MajorMap, Section: "6", Fields: []Field{
		{Key: 0, Name: "who", Required: true, Section: "4", Shape: &Shape{Major: MajorBytes, Min: 1, Max: 2}},
		{Key: 2, Name: "items", Shape: &Shape{Major: MajorArray, Min: 1, Elem: item}},
		{Key: 3, Name: "done", Shape: &Shape{Major: MajorSimple}},
		{Key: 5, Name: "note", Shape: &Shape{Major: MajorText, Max: 3}},
	}}
}

func TestShape(t *testing.T) {
	tests := []struct {
		name, octets string
		rule         Rule
		offset       int
		path         string
		section      string
	}{
		{"least", "a1004101", 0, 0, "", ""},
		{"all", "a40041010281a2010104a1000703f5056161", 0, 0, "", ""},
		{"unknown keys", "a2004101182aa120f6", 0, 0, "", ""},
		{"missing", "a0", Missing, 0, "who", "4"},
		{"wrong type", "a1006101", WrongType, 2, "who", "4"},
		{"empty", "a10040", Empty, 2, "who", "4"},
		{"too long", "a10043010203", Range, 2, "who", "4"},
		{"text too long", "a2004101056461616161", Range, 5, "note", "6"},
		{"no Boolean", "a200410103f6", WrongType, 5, "done", "6"},
		{"negative key", "a20041012000", NegativeKey, 4, "-1", "4.1"},
		{"key -2^64", "a20041013bffffffffffffffff00", NegativeKey, 4, "-18446744073709551616", "4.1"},
		{"text key", "a2004101616100", KeyType, 4, "", "4.1"},
		{"text key before what is missing", "a1616100", KeyType, 1, "", "4.1"},
		{"no items", "a20041010280", Empty, 5, "items", "6"},
		{"item of a wrong type", "a2004101028105", WrongType, 6, "items[0]", "6"},
		{"missing in an item", "a20041010282a2010104a10007a0", Missing, 13, "items[1].kind", "5"},
		{"range in an item", "a20041010281a2010304a10007", Range, 8, "items[0].kind", "5"},
		{"missing in a body", "a20041010281a2010104a0", Missing, 10, "items[0].body.id", "5.1"},
		{"wrong type in a body", "a20041010281a2010104a10020", WrongType, 12, "items[0].body.id", "5.1"},
		{"text key in an item", "a20041010281a3010104a10007616100", KeyType, 13, "items[0]", "4.1"},
		{"any keys in a body", "a20041010281a2010204a22000616100", 0, 0, "", ""},
		{"any keys, but a map", "a20041010281a201020480", WrongType, 10, "items[0].body", "5"},
	}
	for _, tt := range tests {
		b := unhex(t, tt.octets)
		if err := Check(b, 1, Generation2, 1000); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		v := testShape().Check(b)
		if tt.rule == 0 {
			if v != nil {
				t.Errorf("%s: %+v", tt.name, v)
			}
			continue
		}
		if v == nil {
			t.Errorf("%s: accepted", tt.name)
			continue
		}
		path := testShape().Path(b, v.Offset)
		if v.Missing != "" && path != "" {
			path += "."
		}
		if path += v.Missing; v.Rule != tt.rule || v.Offset != tt.offset || path != tt.path || v.Section != tt.section {
			t.Errorf("%s: got %v, %q, §%s, want %v at octet %d, %q, §%s", tt.name, &v.Error, path, v.Section, tt.rule, tt.offset, tt.path, tt.section)
		}
	}
}

func TestPath(t *testing.T) {
	tests := []struct {
		octets string
		off    int
		want   string
	}{
		{"", 0, ""},
		{"05", 0, ""},
		{"a20041010281a2010104a1000703f5", 0, ""},
		{"a20041010281a2010104a10007", 1, "who"},
		{"a20041010281a2010104a10007", 3, "who"},
		{"a20041010281a2010104a10007", 5, "items"},
		{"a20041010281a2010104a10007", 6, "items[0]"},
		{"a20041010281a2010104a10007", 12, "items[0].body.id"},
		{"a200410118638301c18202f7", 11, "99[1][1]"}, // within a tag
		{"bf0041010281a10101ff", 8, "items[0].kind"}, // of indefinite length
		{"bf0041019f01ff", 5, ""},                    // a key that is no integer
		{"a100410100", 4, ""},                        // behind the map
		{"a11a000000020101", 1, "items"},             // a key in a long form
	}
	for _, tt := range tests {
		if got := testShape().Path(unhex(t, tt.octets), tt.off); got != tt.want {
			t.Errorf("%s at %d: got %q, want %q", tt.octets, tt.off, got, tt.want)
		}
	}
}
