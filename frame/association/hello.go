package association

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/dcbor"
)

// helloVersion is the one NPAMP-HELLO version there is.
const helloVersion = 1

// A Hello is what this side says in NPAMP-HELLO, besides the channels of Config
// (C8). Each side sends HELLO and HELLO_DONE as the first frames after the
// handshake, and the association is handed out when the peer's HELLO has come.
//
// HELLO has one list for protocols and channels. We read 0x10–0x13 in it as
// channels and everything else as protocols, so that channels below 0x10 cannot
// be told to the peer, and are not taken to be advertised by it; Control always
// is.
type Hello struct {
	// Protocols are the protocol_ids that this side carries, most preferred first.
	// 0, and 0x10–0x13, which the peer would read as channels, are refused with
	// ErrConfig.
	Protocols []uint64
}

// helloChannel reports whether an entry of HELLO's list is a channel.
func helloChannel(n uint64) bool {
	return n >= uint64(frame.ChannelDiscovery) && n <= uint64(frame.ChannelSpatial)
}

func (h *Hello) resolve() (*Hello, error) {
	for _, p := range h.Protocols {
		if p == 0 || p > 0xFFFF || helloChannel(p) {
			return nil, fmt.Errorf("%w: protocol_id 0x%x in HELLO", ErrConfig, p)
		}
	}
	return &Hello{Protocols: slices.Clone(h.Protocols)}, nil
}

// helloState is what the reader knows of the peer's HELLO.
type helloState struct {
	awaited bool
	done    bool // HELLO_DONE has come
}

// appendHello appends the body of HELLO: {0: version, 1: protocols and channels,
// 3: grease}.
func appendHello(b []byte, list []uint64, grease uint64) []byte {
	b = dcbor.AppendMap(b, 3)
	b = dcbor.AppendUint(b, 0)
	b = dcbor.AppendUint(b, helloVersion)
	b = dcbor.AppendUint(b, 1)
	b = dcbor.AppendArray(b, len(list))
	for _, n := range list {
		b = dcbor.AppendUint(b, n)
	}
	b = dcbor.AppendUint(b, 3)
	b = dcbor.AppendArray(b, 1)
	return dcbor.AppendUint(b, grease)
}

// parseHello reads the body of a HELLO. params and grease are checked for their
// form and ignored; so are unknown keys, unless they are negative.
func parseHello(b []byte) (version uint64, list []uint64, err error) {
	if len(b) > maxHandshakeFrame {
		return 0, nil, fmt.Errorf("%w: %d octets", errHello, len(b))
	}
	n, i := dcbor.Map(b, 0)
	version, i = dcbor.Uint(b, dcbor.Key(b, i, 0), 1<<64-1)
	list, i = readList(b, dcbor.Key(b, i, 1))
	n -= 2
	if dcbor.Has(b, i, n, 2) {
		if _, at := dcbor.Map(b, i+1); at < 0 {
			i = at
		} else {
			i = dcbor.Skip(b, i+1, 2, dcbor.Generation3)
		}
		n--
	}
	if dcbor.Has(b, i, n, 3) {
		_, i = readList(b, i+1)
		n--
	}
	if err := dcbor.Done(b, dcbor.Rest(b, i, n, 3, 1, dcbor.Generation3)); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errHello, err)
	}
	return version, list, nil
}

// readList reads an array of unsigned integers.
func readList(b []byte, i int) (list []uint64, next int) {
	n, i := dcbor.Array(b, i)
	for ; n > 0 && i >= 0; n-- {
		var v uint64
		v, i = dcbor.Uint(b, i, 1<<64-1)
		list = append(list, v)
	}
	return list, i
}

// exchangeHello sends our HELLO and receives the peer's, on the handshake's
// goroutine.
func (a *Association) exchangeHello() error {
	list := slices.Clone(a.cfg.Hello.Protocols)
	for _, ch := range a.cfg.Channels {
		if helloChannel(uint64(ch)) {
			list = append(list, uint64(ch))
		}
	}
	grease, err := rand.Int(rand.Reader, big.NewInt(0x0FFF)) // F000–FFFE
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.launched = true // by us: no goroutine reads or writes yet
	a.mu.Unlock()
	a.in.hello.awaited = true
	a.out.borrow(a.cfg.buffers)
	a.out.now = time.Now()
	a.put(a.control(), frame.TypeHello, appendHello(nil, list, 0xF000+grease.Uint64()))
	a.put(a.control(), frame.TypeHelloDone, nil)
	// Both sides may write first, over a stream that buffers nothing.
	written := make(chan error, 1)
	go func() {
		_, err := a.conn.Write(a.out.buf)
		written <- err
	}()
	for a.in.hello.awaited && a.state.Load() == stateOpen {
		h, raw, err := a.in.frames.Next() // under the handshake's deadline
		if err != nil {
			cut(a.conn)
			<-written
			return fmt.Errorf("association: waiting for HELLO: %w", err)
		}
		a.receive(h, raw)
	}
	if err := <-written; err != nil {
		return fmt.Errorf("association: HELLO: %w", err)
	}
	a.out.empty()
	a.mu.Lock()
	a.launched = false
	ended := a.state.Load() != stateOpen
	if ended {
		a.launch() // for the last frame
	}
	a.mu.Unlock()
	if ended {
		return a.Wait()
	}
	return nil
}

// peerHello acts on HELLO: exactly one, before anything else on Control.
func (a *Association) peerHello(h frame.Header, body []byte) {
	if !a.in.hello.awaited {
		a.refuseHello(h, errUnexpected)
		return
	}
	version, list, err := parseHello(body)
	switch {
	case err != nil:
		a.refuseHello(h, err)
		return
	case version < helloVersion:
		a.refuseHello(h, fmt.Errorf("%w: version %d, ours is %d", errHello, version, helloVersion))
		return
	}
	a.in.hello.awaited = false
	a.info.HelloVersion = helloVersion
	theirs := []frame.ChannelID{frame.ChannelControl}
	var protocols []uint64
	for _, n := range list {
		if helloChannel(n) {
			theirs = append(theirs, frame.ChannelID(n))
		} else {
			protocols = append(protocols, n)
		}
	}
	first, second := a.cfg.Hello.Protocols, protocols
	if !a.client {
		first, second = second, first
	}
	for _, p := range first {
		if slices.Contains(second, p) && !slices.Contains(a.info.HelloProtocols, p) {
			a.info.HelloProtocols = append(a.info.HelloProtocols, p)
		}
	}
	slices.Sort(theirs)
	a.setPeerChannels(slices.Compact(theirs))
}

// peerHelloDone acts on HELLO_DONE.
func (a *Association) peerHelloDone(h frame.Header, body []byte) {
	if a.in.hello.awaited || a.in.hello.done || len(body) != 0 {
		a.refuseHello(h, errUnexpected)
		return
	}
	a.in.hello.done = true
}

// refuseHello ends the association with CLOSE (NPAMP-HELLO §4, §6).
func (a *Association) refuseHello(h frame.Header, err error) {
	a.end(&ProtocolError{frame.CodeUnexpectedMessage, h.Channel, h.Type, err}, frame.TypeClose, a.control(), nil)
}
