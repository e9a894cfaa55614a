// Package sample makes the records that every contender has: a tool with an id
// of 16 octets, a label, a name and a reference to its schema.
package sample

import (
	"encoding/binary"
	"fmt"

	"github.com/npamp/disco/record"
)

// Name returns the name of record i, of 20 octets. Names sort as their numbers.
func Name(i int) string { return fmt.Sprintf("sample_tool_%08d", i) }

// Label returns its label, of 24 octets in version 0.
func Label(i, version int) string { return fmt.Sprintf("Sample tool number %05d", i+version) }

// Schema returns its schema reference, of 40 octets.
func Schema(i int) string { return fmt.Sprintf("https://schemas.example.test/tools/%05d", i%100_000) }

// ID returns its id.
func ID(i int) record.ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	return record.ID(b[:])
}

// Record returns record i in one of its versions, which differ in the label.
func Record(i, version int) record.Record {
	label, schema, effect := Label(i, version), Schema(i), record.ReadOnly
	r, err := record.Tool{ID: ID(i), Revision: 1, Label: &label, Name: Name(i), ProtocolID: 1, Effect: &effect, SchemaRef: &schema}.Record()
	if err != nil {
		panic("BUG: sample: " + err.Error())
	}
	return r
}

// Set returns a set of the first n records.
func Set(n int) (*record.Set, error) {
	set := record.NewSet(record.SetConfig{Carries: func(id uint64) bool { return id == 1 }})
	return set, set.Update(func(tx *record.Tx) error {
		for i := range n {
			if err := tx.Put(Record(i, 0)); err != nil {
				return err
			}
		}
		return nil
	})
}
