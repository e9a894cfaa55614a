package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// An outcome is how a test went, or what that makes of a row.
type outcome string

const (
	passed outcome = "pass"
	failed outcome = "fail"
	skip   outcome = "skip"
	notRun outcome = "not run"
	noTest outcome = "no test" // rows only
	unmet  outcome = "unmet"   // rows only
)

// results is what go test -json said, by import path.
type results map[string]*packageRun

type packageRun struct {
	verdict string              // the last word on the package: pass, fail, skip
	noBuild bool                // it did not build
	tests   map[string]*testRun // by full name, subtests too
}

type testRun struct {
	action string // pass, fail or skip; "" if it did not finish
	log    string // the last line it logged
}

var (
	logLine = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: (.*)`)
	// folder is the part of an absolute path before its last element.
	folder = regexp.MustCompile(`(^|[\s"'(=:])/[^\s"':]*/`)
)

// readResults reads the output of go test -json. It fails where a package has no
// verdict: the output is cut short.
func readResults(r io.Reader) (results, error) {
	all := make(results)
	d := json.NewDecoder(r)
	for {
		var e struct{ Action, Package, Test, Output, FailedBuild string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("after %d octets: %w", d.InputOffset(), err)
		}
		if e.Package == "" {
			continue // output of a build
		}
		p := all[e.Package]
		if p == nil {
			p = &packageRun{tests: make(map[string]*testRun)}
			all[e.Package] = p
		}
		if e.Test == "" {
			p.noBuild = p.noBuild || e.FailedBuild != ""
			if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
				p.verdict = e.Action
			}
			continue
		}
		t := p.tests[e.Test]
		if t == nil {
			t = new(testRun)
			p.tests[e.Test] = t
		}
		switch e.Action {
		case "pass", "fail", "skip":
			t.action = e.Action
		case "output":
			if m := logLine.FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
				t.log = folder.ReplaceAllString(m[1], "$1")
			}
		}
	}
	for name, p := range all {
		if p.verdict == "" {
			return nil, fmt.Errorf("no verdict on package %s: the results are cut short", name)
		}
	}
	return all, nil
}

// anyFailed reports whether a package failed.
func (rs results) anyFailed() bool {
	for _, p := range rs {
		if p.verdict == "fail" {
			return true
		}
	}
	return false
}

// of returns how a test went, and what there is to say of it.
func (rs results) of(pkg, name string) (outcome, string) {
	p := rs[pkg]
	switch {
	case p == nil:
		return notRun, ""
	case p.noBuild:
		return failed, "the package does not build"
	}
	t := p.tests[name]
	switch {
	case t == nil && p.verdict == "fail":
		return failed, "the package failed before it"
	case t == nil:
		return notRun, ""
	case t.action == "":
		return failed, "it did not finish"
	case t.action == "fail":
		return failed, ""
	case t.action == "skip":
		return skip, t.reason()
	case p.verdict == "fail" && !p.testFailed():
		return failed, "the package failed"
	}
	return p.subtests(name)
}

func (t *testRun) reason() string {
	if t.log == "" {
		return "no reason given"
	}
	return t.log
}

func (p *packageRun) testFailed() bool {
	for _, t := range p.tests {
		if t.action != "pass" && t.action != "skip" {
			return true
		}
	}
	return false
}

// subtests judges a test that passed by its innermost subtests: a test passes
// even where they were all skipped.
func (p *packageRun) subtests(name string) (outcome, string) {
	var all []string
	parents := make(map[string]bool)
	for sub := range p.tests {
		if strings.HasPrefix(sub, name+"/") {
			all = append(all, sub)
			for up := path.Dir(sub); up != name && up != "."; up = path.Dir(up) {
				parents[up] = true
			}
		}
	}
	slices.Sort(all)
	leaves, left, why := 0, 0, ""
	for _, sub := range all {
		if t := p.tests[sub]; !parents[sub] {
			leaves++
			if t.action == "skip" {
				if left++; left == 1 {
					why = t.reason()
				}
			}
		}
	}
	switch {
	case left == 0:
		return passed, ""
	case left == leaves:
		return skip, why
	}
	return passed, fmt.Sprintf("%d of %d subtests skipped: %s", left, leaves, why)
}
