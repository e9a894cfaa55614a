package main

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// knownPeers is the file of --known-peers: who was met where. A line is an address
// and an identity, in hex or as PeerHandle; an address may have several lines. An
// address that has none takes the identity that is met there first; one that has
// takes no other.
type knownPeers struct{ file string }

// A knownPeer is one line.
type knownPeer struct {
	addr, key string
	match     func(ed25519.PublicKey) bool
}

// read returns the lines, and the file as it is. A file that is not there has none.
func (k *knownPeers) read() ([]knownPeer, []byte, error) {
	b, err := os.ReadFile(k.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, &failure{exit: exitUsage, err: err}
	}
	var list []knownPeer
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return nil, nil, usagef("%s: line %d: want an address and an identity", k.file, n)
		}
		match, err := parseKey(words[1])
		if err != nil {
			return nil, nil, usagef("%s: line %d: %w", k.file, n, err)
		}
		list = append(list, knownPeer{strings.ToLower(words[0]), words[1], match})
	}
	return list, b, nil
}

// at picks the lines of one address.
func at(list []knownPeer, addr address) (here []knownPeer) {
	for _, p := range list {
		if p.addr == strings.ToLower(addr.hostport) {
			here = append(here, p)
		}
	}
	return here
}

// A strangerError says that another than the known peer is at an address.
type strangerError struct {
	addr, file, known string
	shown             ed25519.PublicKey
}

func (e *strangerError) Error() string {
	return fmt.Sprintf("THE PEER AT %s HAS CHANGED: it is %s, and %s has %s for it. Somebody may be in between. "+
		"If its identity was renewed, take its line out of %s", e.addr, describeKey(e.shown), e.file, e.known, e.file)
}

// verify refuses another identity than those known at addr, with *strangerError.
// It goes by the file as it is now.
func (k *knownPeers) verify(addr address, pub ed25519.PublicKey) error {
	list, _, err := k.read()
	if err != nil {
		return err
	}
	var known []string
	for _, p := range at(list, addr) {
		if p.match(pub) {
			return nil
		}
		known = append(known, p.key)
	}
	if len(known) == 0 {
		return nil
	}
	return &strangerError{addr.hostport, k.file, strings.Join(known, ", "), pub}
}

// remember writes down who was met at addr, where that is new, and reports whether
// it was. The file is replaced in one step, mode 0600; two commands that meet new
// peers in the same instant may remember one of them.
func (k *knownPeers) remember(addr address, pub ed25519.PublicKey) (first bool, err error) {
	list, old, err := k.read()
	if err != nil || len(at(list, addr)) > 0 {
		return false, err
	}
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		old = append(old, '\n')
	}
	return true, replaceFile(k.file, fmt.Appendf(old, "%s %x\n", strings.ToLower(addr.hostport), []byte(pub)))
}

// replaceFile makes content that of the file, at once or not at all.
func replaceFile(name string, content []byte) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
