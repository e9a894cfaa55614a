package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every case of this project's own vectors in the shape of the public corpus,
// over the pipes of the adapter contract, by a testee of either generation: none
// fails, none is skipped, and a refusal has the name of its code.
//
// Covers: DISC-4.1-03, DISC-4.1-06, DISC-4.1-10, DISC-4.2-01, DISC-4.2-02, DISC-9-03, C12, C60
func TestTesteeDiscoveryCorpus(t *testing.T) {
	b, err := os.ReadFile("../../testvectors/data/corpus/discovery-corpus.json")
	if err != nil {
		t.Fatal(err)
	}
	var corpus struct {
		TestGroups []struct {
			Op    string
			Tests []struct {
				corpusCase
				Flags []string
			}
		}
	}
	if err := json.Unmarshal(b, &corpus); err != nil {
		t.Fatal(err)
	}
	names := []string{"MalformedPayload", "KindMismatch", "UnknownRecordKind"}
	for _, generation := range []int{2, 3} {
		t.Run(strconv.Itoa(generation), func(t *testing.T) {
			r := startTestee(t, generation)
			ran := map[string]int{}
			for _, g := range corpus.TestGroups {
				for _, tc := range g.Tests {
					a := r.ask(g.Op, tc.In)
					ran[g.Op]++
					if tc.Result == "acceptable" {
						tc.Result = "invalid" // the limits are our own
					}
					if judge := judgeCase(tc.corpusCase, a); judge != "" || a.Skipped != nil {
						t.Errorf("%s tc%d: %s %+v", g.Op, tc.TcID, judge, a)
						continue
					}
					for _, f := range tc.Flags {
						if slices.Contains(names, f) && !strings.HasPrefix(*a.Error, f+":") {
							t.Errorf("%s tc%d: %s, want %s", g.Op, tc.TcID, *a.Error, f)
						}
					}
				}
			}
			if code := r.end(); code != 0 || ran["disco.payload.decode"] < 800 || ran["disco.payload.encode"] < 100 {
				t.Errorf("exit %d, %v", code, ran)
			}
		})
	}
}

// A testee of one generation decodes as the other where it is told to.
//
// Covers: C12
func TestTesteeGeneration(t *testing.T) {
	for _, generation := range []int{2, 3} {
		r := startTestee(t, generation)
		for _, tt := range []struct {
			in   any
			fine bool
		}{
			{nil, generation == 2}, {2, true}, {3, false},
		} {
			in := map[string]any{"frameType": 256, "payload": "a3001901000141011863f93e00"} // half 1.5 in an unknown key
			if tt.in != nil {
				in["generation"] = tt.in
			}
			if a := r.ask("disco.payload.decode", in); (a.Error == nil) != tt.fine {
				t.Errorf("testee of %d, generation %v: %+v", generation, tt.in, a)
			}
		}
		for _, bad := range []any{1, 4, "three", nil, uint64(1) << 40} {
			if a := r.ask("disco.payload.decode", map[string]any{"frameType": 256, "payload": "a200190100014101", "generation": bad}); a.Error == nil {
				t.Errorf("generation %v: %+v", bad, a)
			}
		}
		r.end()
	}
}
