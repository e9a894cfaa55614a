package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/npamp/disco/record"
)

// reloadInterval is how often the contents of record files are looked at.
const reloadInterval = 500 * time.Millisecond

// A library is the set made of the record files of a command, and keeps it in
// step with them.
type library struct {
	set     *record.Set
	carried atomic.Pointer[protocolSet] // what Carries affirms
	files   []libraryFile
	note    func(format string, args ...any)
}

// A libraryFile is one of the files as it was read last.
type libraryFile struct {
	recordFile
	good batch // what the set has of it

	// seen identifies the contents that were looked at last, or the error in
	// place of them, so that a fault is reported once.
	seen [sha256.Size]byte
}

type protocolSet [record.MaxProtocolID + 1]bool

// openLibrary reads all files into one set, in one transaction. agreed are the
// protocol_ids from 0x10 up that may be advertised. Any fault ends with
// exitUsage.
func openLibrary(files []recordFile, agreed []uint64, note func(string, ...any)) (*library, error) {
	l := &library{note: note, files: make([]libraryFile, len(files))}
	l.carried.Store(new(protocolSet))
	l.set = record.NewSet(record.SetConfig{
		Carries: func(id uint64) bool { return id <= record.MaxProtocolID && l.carried.Load()[id] },
		Agreed:  agreed,
	})
	for i, f := range files {
		l.files[i].recordFile = f
		b, err := f.load()
		if err != nil {
			return nil, &failure{exit: exitUsage, err: err}
		}
		l.files[i].seen = sha256.Sum256(b)
		if l.files[i].good, err = f.parse(b); err != nil {
			return nil, &failure{exit: exitUsage, err: err}
		}
	}
	records, err := l.apply(l.batches(nil))
	if err != nil {
		return nil, &failure{exit: exitUsage, err: err}
	}
	for i := range l.files {
		l.remark(l.files[i].good)
	}
	for _, n := range sharedNames(records) {
		note("%s", n)
	}
	return l, nil
}

// batches returns the files' batches, those of changed in place of the good
// ones.
func (l *library) batches(changed map[int]batch) []batch {
	out := make([]batch, len(l.files))
	for i, f := range l.files {
		out[i] = f.good
		if b, ok := changed[i]; ok {
			out[i] = b
		}
	}
	return out
}

// apply makes the batches the set's contents in one change, or fails and
// changes nothing. The files are the operator's word that what they name is
// carried.
func (l *library) apply(batches []batch) ([]record.Record, error) {
	records, err := merge(batches)
	if err != nil {
		return nil, err
	}
	var named protocolSet
	keep := make(map[record.ID]bool, len(records))
	for _, r := range records {
		keep[r.ID()] = true
		for id := range r.ProtocolIDs() {
			if id <= record.MaxProtocolID {
				named[id] = true
			}
		}
	}
	old := l.carried.Swap(&named)
	err = l.set.Update(func(tx *record.Tx) error {
		for r := range tx.All() {
			if !keep[r.ID()] {
				if err := tx.Withdraw(r.ID()); err != nil {
					return err
				}
			}
		}
		for _, r := range records {
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.carried.Store(old)
		return nil, fromFile(err, batches)
	}
	return records, nil
}

// fromFile adds to what a set refuses the file that the record is from.
func fromFile(err error, batches []batch) error {
	var pe *record.PublishError
	if !errors.As(err, &pe) {
		return err
	}
	for _, b := range batches {
		for _, r := range b.records {
			if r.ID() == pe.ID {
				return fmt.Errorf("%s: record_id %v: %w", b.file, pe.ID, reason(pe))
			}
		}
	}
	return err
}

// reason is what a set refuses a record for, and what to do about it.
func reason(pe *record.PublishError) error {
	err := pe.Err
	if pe.Detail != "" {
		err = fmt.Errorf("%w (%s)", err, pe.Detail)
	}
	if errors.Is(err, record.ErrProtocolID) {
		err = fmt.Errorf("%w: one from 16 to 255 needs --agree", err)
	}
	return err
}

// reload looks at the files and makes what changed in them one change of the
// set. A file that does not read, or does not go with the others, keeps its
// last good records, and note says why.
func (l *library) reload() {
	changed := map[int]batch{}
	for i := range l.files {
		f := &l.files[i]
		b, err := f.load()
		if err != nil {
			b = []byte("error: " + err.Error())
		}
		sum := sha256.Sum256(b)
		if sum == f.seen {
			continue
		}
		f.seen = sum
		var parsed batch
		if err == nil {
			parsed, err = f.parse(b)
		}
		if err != nil {
			l.kept(err)
			continue
		}
		changed[i] = parsed
	}
	if len(changed) == 0 {
		return
	}
	_, err := l.apply(l.batches(changed))
	if err == nil {
		for i, b := range changed {
			l.took(i, b)
		}
		return
	}
	if len(changed) == 1 {
		l.kept(err)
		return
	}
	// One of them is at fault: the others need not wait for it.
	for i := range l.files {
		b, ok := changed[i]
		if !ok {
			continue
		}
		if _, err := l.apply(l.batches(map[int]batch{i: b})); err != nil {
			l.kept(err)
			continue
		}
		l.took(i, b)
	}
}

func (l *library) took(i int, b batch) {
	l.files[i].good = b
	l.remark(b)
}

func (l *library) remark(b batch) {
	if b.note != "" {
		l.note("%s: %s", b.file, b.note)
	}
}

func (l *library) kept(err error) {
	l.note("%v; its last good records stay", err)
}

// follow reloads twice a second until ctx is done.
func (l *library) follow(ctx context.Context) {
	t := time.NewTicker(reloadInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.reload()
		}
	}
}
