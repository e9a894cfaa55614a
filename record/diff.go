package record

import "iter"

// Diff compares two lists of records, both ascending by record_id, such as what
// an application held before its association was lost and the snapshot after:
// it yields each record_id that differs, with the record before and after, zero
// where there is none. Records with the same contents at another revision
// differ.
func Diff(before, after []Record) iter.Seq2[Record, Record] {
	return func(yield func(was, now Record) bool) {
		for len(before)+len(after) > 0 {
			var was, now Record
			switch {
			case len(after) == 0 || len(before) > 0 && before[0].ID() < after[0].ID():
				was, before = before[0], before[1:]
			case len(before) == 0 || after[0].ID() < before[0].ID():
				now, after = after[0], after[1:]
			default:
				was, before = before[0], before[1:]
				now, after = after[0], after[1:]
			}
			if was != now && !yield(was, now) {
				return
			}
		}
	}
}
