package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTextWidth bounds a peer's text in a table or a message, in characters.
const maxTextWidth = 60

// visible renders text that is not ours for people, in at most width characters
// (0: as many as it has): what does not print, controls, format characters
// such as bidirectional overrides, and octets that are not UTF-8, becomes an
// escape of Go's syntax, and a backslash becomes two. Text that is cut ends
// in "…".
func visible(s string, width int) string { return escape(s, width, true) }

// clean renders a line that may hold such text among ours. It escapes the same
// characters but a backslash, so that it changes nothing that visible made.
func clean(s string) string { return escape(s, 0, false) }

func escape(s string, width int, backslash bool) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\\' && backslash:
			piece = `\\`
		case !strconv.IsPrint(r):
			piece = escapeRune(r)
		}
		cells := utf8.RuneCountInString(piece)
		if last := i+size == len(s); width > 0 && (n+cells > width || n+cells == width && !last) {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		n += cells
		i += size
	}
	return b.String()
}

func escapeRune(r rune) string {
	switch {
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// invisible reports whether JSON output escapes r: controls, format characters,
// and the separators that some readers take for a line's end.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// table lays rows out in columns two spaces apart. Cells are text already made
// visible.
func table(rows [][]string) []string {
	var width []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	lines := make([]string, len(rows))
	for n, row := range rows {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
			}
		}
		lines[n] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// plural is "1 record", "2 records".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
