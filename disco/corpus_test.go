package disco

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/npamp/disco/record"
)

// corpusID is the id of the i-th record of the corpus.
func corpusID(i int) record.ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	return record.ID(b[:])
}

// corpusRecord is the i-th record: one protocol in a hundred, else one agent in
// five, else a tool, of 110 to 150 octets.
func corpusRecord(t testing.TB, i int) record.Record {
	t.Helper()
	var r record.Record
	var err error
	switch {
	case i%100 == 99:
		r, err = record.Protocol{ID: corpusID(i), Revision: 1, ProtocolID: uint64(i % 256), CarriageClass: record.ClassJSONRPC,
			Channels: []uint64{13}, ContentTypes: []uint64{1, 2}, Methods: []string{"tools/call", "tools/list"}}.Record()
	case i%5 == 4:
		label := fmt.Sprintf("Agent №%d", i)
		r, err = record.Agent{ID: corpusID(i), Revision: uint64(i % 40), Label: &label,
			AgentID: fmt.Sprintf("agent-%08d", i), Protocols: []uint64{uint64(1 + i%6), 0x40},
			Tools: []record.ID{corpusID(i - 4), corpusID(i - 3), corpusID(i - 2), corpusID(i - 1)}}.Record()
	default:
		verbs := []string{"read", "write", "list", "search", "create", "delete", "invoke", "watch"}
		name := fmt.Sprintf("svc%03d.%s_item_%d", i%500, verbs[i%len(verbs)], i)
		label, schema, effect := "Tool "+name, "https://schemas.example/"+name+"/v1.json", record.Effect(i%4)
		r, err = record.Tool{ID: corpusID(i), Revision: uint64(i % 40), Label: &label, Name: name,
			ProtocolID: uint64(1 + i%6), Effect: &effect, SchemaRef: &schema}.Record()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func corpusResult(t testing.TB, n int) *Result {
	t.Helper()
	r := &Result{Corr: "correlation-0001", Complete: true}
	for i := range n {
		r.Records = append(r.Records, corpusRecord(t, i))
	}
	return r
}

func corpusPayload(t testing.TB, n int) []byte {
	t.Helper()
	b, err := AppendResult(nil, corpusResult(t, n))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
