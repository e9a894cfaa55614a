package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/npamp/disco/record"
)

// maxRecordFileLen bounds a record file, in octets.
const maxRecordFileLen = 256 << 20

// A recordFile is one file of --records, not read yet.
type recordFile struct {
	path string
	mcp  bool // the form of the file: MCP, else native
}

// parseRecordFiles reads the values of --records: FILE in the form of --from,
// or mcp:FILE, or native:FILE.
func parseRecordFiles(args []string, from string) ([]recordFile, error) {
	if from != "native" && from != "mcp" {
		return nil, usagef("--from must be native or mcp")
	}
	if len(args) == 0 {
		return nil, usagef("--records is required")
	}
	files := make([]recordFile, len(args))
	for i, arg := range args {
		f := recordFile{arg, from == "mcp"}
		if p, ok := strings.CutPrefix(arg, "mcp:"); ok {
			f = recordFile{p, true}
		} else if p, ok := strings.CutPrefix(arg, "native:"); ok {
			f = recordFile{p, false}
		}
		files[i] = f
	}
	return files, nil
}

// A batch is what one record file holds.
type batch struct {
	file    string
	records []record.Record
	note    string // for people; "" if there is nothing to say
}

// load reads the file's octets.
func (f recordFile) load() ([]byte, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxRecordFileLen+1))
	if err == nil && len(b) > maxRecordFileLen {
		err = fmt.Errorf("%s: more than %d octets", f.path, maxRecordFileLen)
	}
	return b, err
}

// parse reads what the octets of the file say. The error names the file, and
// the record and field where there is one.
func (f recordFile) parse(b []byte) (batch, error) {
	out := batch{file: f.path}
	b = bytes.TrimSpace(b)
	err := checkJSON(b)
	switch {
	case err != nil:
	case f.mcp:
		out.records, out.note, err = parseMCP(b, baseName(f.path))
	default:
		out.records, err = parseNative(b)
	}
	if err != nil {
		return batch{}, fmt.Errorf("%s: %w", f.path, err)
	}
	return out, nil
}

// merge makes one set of the batches, ascending by id. Equal ids with equal
// contents are one record, at the greater revision. The error names both files
// and the id of two records that differ.
func merge(batches []batch) ([]record.Record, error) {
	type entry struct {
		record.Record
		file string
	}
	byID := map[record.ID]entry{}
	for _, b := range batches {
		for _, r := range b.records {
			id := r.ID()
			old, ok := byID[id]
			switch {
			case !ok:
				byID[id] = entry{r, b.file}
			case !old.SameContents(r):
				return nil, collision(id, old.Record, r, old.file, b.file)
			case r.Revision() > old.Revision():
				byID[id] = entry{r, b.file}
			}
		}
	}
	out := make([]record.Record, 0, len(byID))
	for _, e := range byID {
		out = append(out, e.Record)
	}
	slices.SortFunc(out, func(a, b record.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return out, nil
}

func collision(id record.ID, a, b record.Record, fileA, fileB string) error {
	in := fileA + " and " + fileB
	if fileA == fileB {
		in = fileA + ", twice,"
	}
	hint := "give one of them another record_id"
	if a.Kind() == record.KindTool && b.Kind() == record.KindTool && len(id) == 16 {
		hint += "; of MCP files, another serverInfo.name"
	}
	return fmt.Errorf("%s have different records under record_id %v: %s", in, id, hint)
}

// sharedNames says of tools that have a name and protocol_id in common: each is
// a record of its own, but people and models see the name alone.
func sharedNames(records []record.Record) []string {
	type name struct {
		text     string
		protocol uint64
	}
	ids := map[name][]string{}
	var order []name
	for _, r := range records {
		t, ok := r.Tool()
		if !ok {
			continue
		}
		n := name{t.Name, t.ProtocolID}
		if len(ids[n]) == 1 {
			order = append(order, n)
		}
		ids[n] = append(ids[n], r.ID().String())
	}
	var notes []string
	for _, n := range order {
		notes = append(notes, fmt.Sprintf("%d tools are named %q under protocol %d (record_ids %s): tell them apart by record_id, or rename all but one",
			len(ids[n]), visible(n.text, maxTextWidth), n.protocol, strings.Join(ids[n], ", ")))
	}
	return notes
}
