package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A test is a function that go test runs and that names what it proves.
type test struct {
	pkg   string // directory in the module, "." for its root
	name  string
	pos   string   // file:line of the function
	names []string // rows and labels, as written
}

// covers is the line that names rows, and nearly is what was meant as one.
const covers = "// Covers: "

var nearly = regexp.MustCompile(`(?i)^//\s*covers?\s*:`)

// scan returns the tests of the module in fsys that name something, by file and
// then by place in it. Nested modules, testdata and what begins with a dot or an
// underscore are no part of it. The error joins all that is wrong.
func scan(fsys fs.FS) ([]test, error) {
	var all []test
	var wrong []error
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && skipped(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		tests, err := scanFile(name, src)
		all = append(all, tests...)
		wrong = append(wrong, err)
		return nil
	})
	return all, errors.Join(append(wrong, err)...)
}

// skipped reports whether the go command leaves dir out of the module.
func skipped(fsys fs.FS, dir string) bool {
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

// scanFile returns the tests of one file that name something.
func scanFile(name string, src []byte) ([]test, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(pos token.Pos) string { return fmt.Sprintf("%s:%d", name, fset.Position(pos).Line) }

	funcs := make(map[*ast.CommentGroup]*ast.FuncDecl)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Doc != nil && f.Recv == nil && runs(f.Name.Name) {
			funcs[f.Doc] = f
		}
	}
	var tests []test
	var wrong []error
	for _, group := range file.Comments {
		var names []string
		for _, c := range group.List {
			list, ok := strings.CutPrefix(c.Text, covers)
			switch {
			case !nearly.MatchString(c.Text):
				continue
			case !ok:
				wrong = append(wrong, fmt.Errorf("%s: %q, want %q before the names", at(c.Pos()), c.Text, covers))
				continue
			case funcs[group] == nil:
				wrong = append(wrong, fmt.Errorf("%s: not directly above a Test, Fuzz or Example", at(c.Pos())))
				continue
			}
			for id := range strings.SplitSeq(list, ",") {
				names = append(names, strings.TrimSpace(id))
			}
		}
		if f := funcs[group]; f != nil && names != nil {
			tests = append(tests, test{path.Dir(name), f.Name.Name, at(f.Pos()), names})
		}
	}
	return tests, errors.Join(wrong...)
}

// runs reports whether go test runs a function of that name.
func runs(name string) bool {
	if name == "TestMain" {
		return false
	}
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			r, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(r)
		}
	}
	return false
}

// checkNames fails on each name that is neither a row nor a label.
func checkNames(l *ledger, tests []test) error {
	var wrong []error
	for _, t := range tests {
		for _, name := range t.names {
			if !slices.Contains(l.Labels, name) && !slices.ContainsFunc(l.Rows, func(r row) bool { return r.ID == name }) {
				wrong = append(wrong, fmt.Errorf("%s: %s: no row or label %q", t.pos, t.name, name))
			}
		}
	}
	return errors.Join(wrong...)
}
