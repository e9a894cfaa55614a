package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/testvectors"
)

func (a *app) vectorsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "vectors",
		Short: "Print the golden vectors",
		Long: `vectors prints the golden payloads with the verdict that a receiver must reach.
With -o json it prints everything that the testvectors folder holds, as one
object: encodings, keys, sealed and refused frames, plaintexts and exchanges too;
with -o hex the payloads' octets alone, one a line.`,
		Args: cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			set, err := testvectors.Load()
			if err != nil {
				return err
			}
			return a.printVectors(set)
		}),
	}
}

func (a *app) printVectors(set *testvectors.Set) error {
	switch a.format {
	case formatJSON:
		doc := versioned()
		for _, part := range []struct {
			key string
			val any
		}{
			{"payloads", set.Payloads},
			{"encodings", set.Encodings},
			{"keys", set.Keys},
			{"frames", set.Frames},
			{"refused", set.Refused},
			{"plaintexts", set.Plaintexts},
			{"headers", set.Headers},
			{"handles", set.Handles},
			{"exchanges", set.Exchanges},
		} {
			raw, err := json.Marshal(part.val)
			if err != nil {
				return err
			}
			doc = append(doc, field{part.key, json.RawMessage(raw)})
		}
		return a.out.json(doc)
	case formatNDJSON:
		for _, v := range set.Payloads {
			raw, err := json.Marshal(v)
			if err != nil {
				return err
			}
			if err := a.out.json(versioned(field{"payload", json.RawMessage(raw)})); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"NAME", "TYPE", "SECTION", "VERDICT", "OCTETS"}}
	var lines []string
	for _, v := range set.Payloads {
		switch a.format {
		case formatHex:
			lines = append(lines, v.Octets.String())
		case formatDiag:
			lines = append(lines, fmt.Sprintf("/ %s / %s", v.Name, diagOrHex(disco.Type(v.FrameType), v.Octets, v.Expect.OK)))
		default:
			rows = append(rows, []string{v.Name, disco.Type(v.FrameType).String(), v.Section, verdictOf(v.Expect), v.Octets.String()})
		}
	}
	if a.format == formatTable {
		lines = table(rows)
	}
	return a.out.text(lines...)
}

// verdictOf is a vector's expectation in a word or two.
func verdictOf(e testvectors.Expect) string {
	if e.OK {
		return "ok"
	}
	s := "E" + strconv.FormatUint(e.Code, 10) + " " + e.Reply
	if e.Corr != nil {
		s += " " + *e.Corr
	}
	return s
}
