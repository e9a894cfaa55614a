package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"git.log", 0, "git.log"},
		{"\x1b]0;x\x07ok\u202e", 0, `\x1b]0;x\x07ok\u202e`},
		{"a\nb\tc\rd\x00", 0, `a\x0ab\x09c\x0dd\x00`},
		{"\u0085\u200b\u2028\ufeff\U000e0041\x7f", 0, `\u0085\u200b\u2028\ufeff\U000e0041\x7f`},
		{"caf\u00e9 \u4e2d\u6587 \U0001f600", 0, "café 中文 😀"},
		{"\xff\xc0", 0, `\xff\xc0`},
		{`\x1b`, 0, `\\x1b`}, // not to be taken for an escape
		{"abcde", 5, "abcde"},
		{"abcdef", 5, "abcd…"},
		{"abc\x1b", 5, "abc…"},
		{"", 5, ""},
	} {
		if got := visible(tt.in, tt.width); got != tt.want {
			t.Errorf("%q, %d: got %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
	if got := clean(`\x1b` + "\x1b"); got != `\x1b\x1b` {
		t.Errorf("clean: %q", got)
	}
	for n := range 12 {
		if got := utf8.RuneCountInString(visible(strings.Repeat("\x1bé", 20), n+1)); got > n+1 {
			t.Errorf("width %d: %d characters", n+1, got)
		}
	}
}

// What is rendered drives no terminal, and JSON gives back the true value,
// whatever the text.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "\u202e", "\xff", "\"\\\n", "\U000e0001\u2029\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{visible(s, 0), visible(s, 10), clean(s), string(appendString(nil, s))} {
			safe(t, "rendered", strings.ReplaceAll(got, "\n", "\x00"))
		}
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Errorf("%q came back as %q", s, back)
		}
	})
}

func TestAppendJSON(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want string
	}{
		{object{}, `{}`},
		{object(nil), `{}`},
		{versioned(field{"b", 1}, field{"a", nil}), `{"v":1,"b":1,"a":null}`},
		{[]object{}, `[]`},
		{[]string(nil), `[]`},
		{uint64(maxSafe), `9007199254740992`},
		{uint64(maxSafe + 1), `"9007199254740993"`},
		{octets("\x00\xff"), `"00ff"`},
		{"<&>\u2028\U000e0001", `"<&>\u2028\udb40\udc01"`},
		{json.RawMessage("{\"a\":\"\u202e\"}"), `{"a":"\u202e"}`},
		{[]uint64{1, 2}, `[1,2]`},
		{true, `true`},
	} {
		if got := string(appendJSON(nil, tt.in)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	got := strings.Join(table([][]string{{"A", "B", "C"}, {"中文", "", "x"}, {"long", "1"}}), "|")
	if want := "A     B  C|中文       x|long  1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
