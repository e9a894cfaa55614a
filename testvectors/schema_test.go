package testvectors

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every file of vectors is what its schema says.
func TestSchemas(t *testing.T) {
	n := 0
	err := fs.WalkDir(os.DirFS("."), "data", func(name string, d fs.DirEntry, err error) error {
		folder := path.Base(path.Dir(name))
		if err != nil || d.IsDir() || folder == "schema" {
			return err
		}
		s := schema{root: readJSON(t, "data/schema/"+folder+".schema.json").(map[string]any)}
		if err := s.check(s.root, readJSON(t, name), "$"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n++
		return nil
	})
	if err != nil || n < 15 {
		t.Errorf("%d files: %v", n, err)
	}
}

// What a schema would let through if the checks below were not made is refused.
func TestSchemaRefuses(t *testing.T) {
	s := schema{root: readJSON(t, "data/schema/payload.schema.json").(map[string]any)}
	vector := s.root["$defs"].(map[string]any)["vector"]
	good := `{"name":"a","title":"a","section":"4.1","rows":["C4"],"direction":"to_responder","frame_type":256,"generations":[2,3],"octets":"a2","expect":{"ok":false,"code":1,"reply":"error","corr":null}}`
	check := func(in string) error {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		return s.check(vector, v, "$")
	}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, from, to string }{
		{"no name", `"name":"a",`, ``},
		{"an empty name", `"name":"a"`, `"name":""`},
		{"a field too many", `"name":"a"`, `"name":"a","colour":1`},
		{"a section with letters", `"4.1"`, `"§4"`},
		{"no rows", `["C4"]`, `[]`},
		{"a row twice", `["C4"]`, `["C4","C4"]`},
		{"a row that is a number", `["C4"]`, `[4]`},
		{"another direction", `to_responder`, `up`},
		{"a frame type below", `256`, `255`},
		{"a frame type above", `256`, `263`},
		{"half a frame type", `256`, `256.5`},
		{"another generation", `[2,3]`, `[4]`},
		{"upper-case hex", `"a2"`, `"A2"`},
		{"a refusal with a message", `"code":1`, `"code":1,"message":{}`},
		{"a verdict of both kinds", `"ok":false`, `"ok":true`},
	} {
		bad := strings.Replace(good, tt.from, tt.to, 1)
		if bad == good {
			t.Fatalf("%s: nothing was replaced", tt.name)
		}
		if check(bad) == nil {
			t.Errorf("%s: accepted", tt.name)
		}
	}
	for keyword, v := range map[string]any{"maxItems": float64(1), "format": "date"} {
		if s.check(map[string]any{keyword: v}, "a", "$") == nil {
			t.Errorf("the unknown keyword %s is taken for satisfied", keyword)
		}
	}
}

func readJSON(t *testing.T, name string) any {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// A schema holds values to the keywords of JSON Schema 2020-12 that the files
// under data/schema use. Any other keyword is an error, lest it count for
// nothing.
type schema struct{ root map[string]any }

func (s schema) check(sch, v any, at string) error {
	for keyword, want := range sch.(map[string]any) {
		if err := s.keyword(sch.(map[string]any), keyword, want, v, at); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) keyword(sch map[string]any, keyword string, want, v any, at string) error {
	fail := func() error { return fmt.Errorf("%s: %s %v: %.80v", at, keyword, want, v) }
	object, _ := v.(map[string]any)
	list, isList := v.([]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	failed := false
	switch keyword {
	case "$schema", "$defs", "title", "description":
	case "$ref":
		name, ok := strings.CutPrefix(want.(string), "#/$defs/")
		if !ok {
			return fmt.Errorf("%s: reference %v", at, want)
		}
		return s.check(s.root["$defs"].(map[string]any)[name], v, at)
	case "type":
		kinds := map[string]bool{"object": object != nil, "array": isList, "string": isText, "null": v == nil,
			"integer": isNumber && number == float64(int64(number)), "boolean": v == true || v == false}
		ok, known := kinds[want.(string)]
		failed = !known || !ok
	case "const":
		failed = !reflect.DeepEqual(v, want)
	case "enum":
		failed = !slices.ContainsFunc(want.([]any), func(e any) bool { return reflect.DeepEqual(v, e) })
	case "pattern":
		failed = isText && !regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		failed = isText && utf8.RuneCountInString(text) < int(want.(float64))
	case "minimum":
		failed = isNumber && number < want.(float64)
	case "maximum":
		failed = isNumber && number > want.(float64)
	case "minItems":
		failed = isList && len(list) < int(want.(float64))
	case "uniqueItems":
		for i := range list {
			failed = failed || slices.ContainsFunc(list[:i], func(e any) bool { return reflect.DeepEqual(e, list[i]) })
		}
	case "items":
		for i, e := range list {
			if err := s.check(want, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "required":
		for _, name := range want.([]any) {
			if _, has := object[name.(string)]; object != nil && !has {
				failed = true
			}
		}
	case "properties", "additionalProperties":
		known, _ := sch["properties"].(map[string]any)
		for name, e := range object {
			sub, isKnown := known[name]
			if isKnown != (keyword == "properties") {
				continue
			}
			if keyword == "additionalProperties" {
				if sub = want; want == false {
					return fmt.Errorf("%s: unknown field %q", at, name)
				}
			}
			if err := s.check(sub, e, at+"."+name); err != nil {
				return err
			}
		}
	case "oneOf":
		var matches int
		var errs []string
		for _, sub := range want.([]any) {
			if err := s.check(sub, v, at); err != nil {
				errs = append(errs, err.Error())
			} else {
				matches++
			}
		}
		if matches != 1 {
			return fmt.Errorf("%s: %d of the alternatives fit: %s", at, matches, strings.Join(errs, "; "))
		}
	default:
		return fmt.Errorf("%s: unknown keyword %s", at, keyword)
	}
	if failed {
		return fail()
	}
	return nil
}
