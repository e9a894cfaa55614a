package main

import (
	"fmt"
	"strings"
	"testing"
)

// stream is go test -json output of package m/p: a line "TestA/sub skip" is the
// last word on a test, "TestA: text" is what it logs, "pass" is the last word on
// the package.
func stream(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		if name, text, ok := strings.Cut(line, ": "); ok {
			fmt.Fprintf(&b, `{"Action":"output","Package":"m/p","Test":%q,"Output":%q}`+"\n", name, "    x_test.go:7: "+text+"\n")
		} else if name, action, ok := strings.Cut(line, " "); ok {
			fmt.Fprintf(&b, `{"Action":"run","Package":"m/p","Test":%q}`+"\n", name)
			if action != "" {
				fmt.Fprintf(&b, `{"Action":"output","Package":"m/p","Test":%q,"Output":"--- %s: %s (0.01s)\n"}`+"\n", name, strings.ToUpper(action), name)
				fmt.Fprintf(&b, `{"Action":%q,"Package":"m/p","Test":%q,"Elapsed":0.01}`+"\n", action, name)
			}
		} else {
			fmt.Fprintf(&b, `{"Action":%q,"Package":"m/p","Elapsed":0.5}`+"\n", line)
		}
	}
	return b.String()
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     string
		want   outcome
		remark string
	}{
		{"pass", stream("TestA pass", "pass"), passed, ""},
		{"fail", stream("TestA: 1 is not 2", "TestA fail", "fail"), failed, ""},
		{"skip", stream("TestA: first", "TestA: skipped: no corpus", "TestA skip", "pass"), skip, "skipped: no corpus"},
		{"skip without a word", stream("TestA skip", "pass"), skip, "no reason given"},
		{"places are cut", stream("TestA: open /home/u/shared/data/SUMS: none, or ../shared/data (at '/x/y')", "TestA skip", "pass"),
			skip, "open SUMS: none, or ../shared/data (at 'y')"},
		{"another fails", stream("TestA pass", "TestB fail", "fail"), passed, ""},
		{"another does not finish", stream("TestA pass", "TestB ", "fail"), passed, ""},
		{"its package fails", stream("TestA pass", "TestB skip", "fail"), failed, "the package failed"},
		{"skipped, its package fails", stream("TestA: why", "TestA skip", "fail"), skip, "why"},
		{"does not finish", stream("TestA ", "fail"), failed, "it did not finish"},
		{"never starts", stream("TestB fail", "fail"), failed, "the package failed before it"},
		{"is not there", stream("TestB pass", "pass"), notRun, ""},
		{"no such package", "", notRun, ""},
		{"no test files", stream("skip"), notRun, ""},
		{"does not build", `{"ImportPath":"m/p","Action":"build-output","Output":"x.go:1:1: no\n"}
{"ImportPath":"m/p","Action":"build-fail"}
{"Action":"output","Package":"m/p","Output":"FAIL m/p [build failed]\n"}
{"Action":"fail","Package":"m/p","Elapsed":0,"FailedBuild":"m/p"}`, failed, "the package does not build"},

		{"subtests pass", stream("TestA/a pass", "TestA/b pass", "TestA pass", "pass"), passed, ""},
		{"all subtests skipped", stream("TestA/b: later", "TestA/b skip", "TestA/a: why", "TestA/a skip", "TestA pass", "pass"), skip, "why"},
		{"innermost skipped", stream("TestA/a/x: why", "TestA/a/x skip", "TestA/a pass", "TestA pass", "pass"), skip, "why"},
		{"some skipped", stream("TestA/a: why", "TestA/a skip", "TestA/b pass", "TestA pass", "pass"), passed, "1 of 2 subtests skipped: why"},
		{"some skipped deep down", stream("TestA/a/x: why", "TestA/a/x skip", "TestA/a pass", "TestA/b/y pass", "TestA/b pass", "TestA pass", "pass"),
			passed, "1 of 2 subtests skipped: why"},
		{"a subtest with a slash", stream("TestA/a/b: why", "TestA/a/b skip", "TestA pass", "pass"), skip, "why"},
		{"another's subtests", stream("TestAB/a: why", "TestAB/a skip", "TestAB pass", "TestA pass", "pass"), passed, ""},
	} {
		rs, err := readResults(strings.NewReader(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, remark := rs.of("m/p", "TestA"); got != c.want || remark != c.remark {
			t.Errorf("%s: got %s, %q, want %s, %q", c.name, got, remark, c.want, c.remark)
		}
	}
}

func TestResultsRefused(t *testing.T) {
	whole := stream("TestA pass", "pass")
	for _, c := range []struct{ name, in, want string }{
		{"no verdict", stream("TestA pass"), "cut short"},
		{"half a line", whole + `{"Action":"pass",`, "octets"},
		{"no JSON", whole + "FAIL\n", "octets"},
	} {
		if rs, err := readResults(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", c.name, rs, err, c.want)
		}
	}
}
