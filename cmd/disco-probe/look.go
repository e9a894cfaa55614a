package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/npamp/disco/frame/association"
)

// lookFlags are the flags for looking inside associations.
type lookFlags struct {
	trace  bool
	record string
	keylog string
}

func (l *lookFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&l.trace, "trace", false, "say each frame on standard error")
	f.StringVar(&l.record, "record", "", "write each frame, decrypted, to `FILE`, for replay")
	f.StringVar(&l.keylog, "keylog", "", "append the keys to `FILE`, for Wireshark: who reads it can read the exchange")
}

// maxHeld bounds the frames of handshakes that wait for their associations.
const maxHeld = 256

// An observer looks inside the associations of one command: it says their frames
// (--trace), writes them down (--record) and gives their keys away (--keylog). The
// frames of a handshake wait until the association is there, so that the facts
// about it come first. The methods but close do nothing on a nil observer.
type observer struct {
	app       *app
	trace     bool
	recording *os.File // nil: none, or given up
	keylog    *os.File // nil: none

	watching sync.WaitGroup // the ends of associations

	mu   sync.Mutex
	open map[association.ID]int // the generation of those that are there
	held []association.TraceFrame
}

// observe has the associations that are made by cfg looked at as the flags say.
func (a *app) observe(l *lookFlags, cfg *association.Config) (err error) {
	if a.look == nil && (l.trace || l.record != "" || l.keylog != "") {
		o := &observer{app: a, trace: l.trace, open: map[association.ID]int{}}
		a.look = o
		if l.record != "" {
			if o.recording, err = openPrivate(l.record, os.O_TRUNC); err != nil {
				return err
			}
		}
		if l.keylog != "" {
			if o.keylog, err = openPrivate(l.keylog, os.O_APPEND); err != nil {
				return err
			}
			a.note("--keylog: whoever can read %s can read what is exchanged; delete it when done", l.keylog)
		}
	}
	if o := a.look; o != nil {
		if o.trace || o.recording != nil {
			cfg.Trace = o.frame
		}
		if o.keylog != nil {
			cfg.KeyLogWriter = o.keylog
		}
	}
	return nil
}

// openPrivate opens a file for writing that nobody but its owner can read, making
// it if need be.
func openPrivate(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&^fs.FileMode(0o600) != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// frame is association.Config.Trace.
func (o *observer) frame(f association.TraceFrame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if generation, ok := o.open[f.ID]; ok {
		o.say(f, generation)
		return
	}
	if len(o.held) == maxHeld { // handshakes that nobody finished
		o.say(o.held[0], 0)
		o.held = o.held[1:]
	}
	f.Plaintext = bytes.Clone(f.Plaintext)
	o.held = append(o.held, f)
}

// say shows and records one frame.
func (o *observer) say(f association.TraceFrame, generation int) {
	if o.trace {
		o.app.note("%s", traceLine(f, generation))
	}
	o.write(frameJSON(f, time.Now()))
}

// write adds a line to the recording.
func (o *observer) write(line object) {
	if o.recording == nil {
		return
	}
	if _, err := o.recording.Write(append(appendJSON(nil, line), '\n')); err != nil {
		o.app.note("the recording ends here: %v", err)
		o.recording.Close()
		o.recording = nil
	}
}

// opened tells that a handshake is done, and follows the association to its end.
func (o *observer) opened(as *association.Association) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	info := as.Info()
	if o.trace {
		o.app.note("n-pamp/%d %v, we are %x, peer is %x at %v, association %s", info.Generation, info.Suite,
			[]byte(info.LocalIdentity), []byte(info.PeerIdentity), info.RemoteAddr, shortID(info.ID))
	}
	o.write(associationJSON(info, time.Now()))
	o.open[info.ID] = info.Generation
	o.release(func(f association.TraceFrame) bool { return f.ID == info.ID }, info.Generation)
	o.watching.Go(func() { o.ended(as) })
}

// release says the held frames that which chooses.
func (o *observer) release(which func(association.TraceFrame) bool, generation int) {
	kept := o.held[:0]
	for _, f := range o.held {
		if which(f) {
			o.say(f, generation)
		} else {
			kept = append(kept, f)
		}
	}
	o.held = kept
}

// failed tells that no association came of a command's handshakes.
func (o *observer) failed(err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.release(func(association.TraceFrame) bool { return true }, 0)
	o.write(versioned(field{"event", "failed"}, field{"time", stamp(time.Now())}, field{"cause", err.Error()}))
}

// ended waits for the end of an association and tells it.
func (o *observer) ended(as *association.Association) {
	cause := as.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	id := as.Info().ID
	delete(o.open, id)
	if o.trace {
		o.app.note("association %s ended: %v", shortID(id), cause)
	}
	o.write(versioned(field{"event", "ended"}, field{"id", octets(id[:])}, field{"time", stamp(time.Now())},
		field{"cause", cause.Error()}, field{"close_incomplete", as.Stats().CloseIncomplete > 0}))
}

// close ends the looking. The associations are closed, or are of a command that
// gave them up.
func (o *observer) close() {
	done := make(chan struct{})
	go func() { o.watching.Wait(); close(done) }()
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range []*os.File{o.recording, o.keylog} {
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil {
			o.app.note("%v", err)
		}
	}
	o.recording, o.trace = nil, false
}

// shortID is enough of an association's ID to tell it from others.
func shortID(id association.ID) string { return fmt.Sprintf("%x", id[:4]) }
