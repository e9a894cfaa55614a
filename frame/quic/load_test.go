package quic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// descriptors returns how many the process has, or -1 where that cannot be known.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// Associations opened and closed at random moments, by either side, leave nothing
// behind.
//
// Covers: C57
func TestManyAssociations(t *testing.T) {
	before, files := runtime.NumGoroutine(), descriptors()
	l, err := Listen("127.0.0.1:0", serverConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var clients, servers sync.WaitGroup
	servers.Go(func() {
		for n := uint64(0); ; n++ {
			a, err := l.Accept(ctx)
			if err != nil {
				return
			}
			servers.Go(func() { live(a, n, false) })
		}
	})
	opened := 0
	var mu sync.Mutex
	slots := make(chan struct{}, 32)
	for n := range uint64(200) {
		clients.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			random := rand.New(rand.NewPCG(n, 1))
			dialling, cancel := context.WithCancel(ctx)
			defer cancel()
			if random.IntN(4) == 0 { // in the middle of the handshake
				time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
			}
			a, err := Dial(dialling, l.Addr().String(), clientConfig())
			if err != nil {
				if dialling.Err() == nil {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			opened++
			mu.Unlock()
			live(a, n, true)
		})
	}
	clients.Wait()
	cancel()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	servers.Wait()
	if opened < 100 {
		t.Errorf("only %d associations came about", opened)
	}
	// What has done its work may still be on its way out.
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	for tick := time.NewTicker(10 * time.Millisecond); runtime.NumGoroutine() > before || descriptors() > files; {
		select {
		case <-tick.C:
			continue
		case <-deadline.C:
			t.Errorf("%d goroutines, %d before; %d descriptors, %d before", runtime.NumGoroutine(), before, descriptors(), files)
		}
		break
	}
}

// live is the life of one end: some traffic, until a random moment or the other
// end's.
func live(a *association.Association, n uint64, client bool) {
	random := rand.New(rand.NewPCG(n, 2))
	if random.IntN(10) == 0 {
		a.Close() // before anything was started
		return
	}
	tr, err := a.Transport(frame.ChannelDiscovery)
	if err != nil {
		panic(err)
	}
	u := &user{changed: make(chan struct{}, 1), closed: make(chan struct{})}
	u.t = tr
	if err := tr.Start(u); err != nil {
		panic(err)
	}
	for range random.IntN(20) {
		u.send(message{0x100, strings.Repeat("x", random.IntN(5000))})
	}
	moment := time.NewTimer(time.Duration(random.IntN(50)) * time.Millisecond)
	defer moment.Stop()
	if client || random.IntN(2) == 0 {
		select {
		case <-moment.C:
		case <-u.closed:
		}
		a.Close()
	}
	<-u.closed
	a.Close()
}

// bigSet is a set of some 20 MiB.
func bigSet(t *testing.T) *record.Set {
	t.Helper()
	set := record.NewSet(record.SetConfig{Carries: func(uint64) bool { return true }})
	err := set.Update(func(tx *record.Tx) error {
		for i := range 2000 {
			sum := sha256.Sum256([]byte(fmt.Sprint(i)))
			ref := strings.Repeat(hex.EncodeToString(sum[:]), 165)
			r, err := record.Tool{ID: record.ID(sum[:16]), Name: fmt.Sprintf("tool.%d", i), ProtocolID: 1, SchemaRef: &ref}.Record()
			if err != nil {
				return err
			}
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A listing of 20 MiB goes through the windows of QUIC, and of generation 3 above
// it, which is granted as it is used.
//
// Covers: C57, C62, CORE-g3-06
func TestLargeListing(t *testing.T) {
	set := bigSet(t)
	generations(t, func(t *testing.T, g int) {
		c, s := pair(t, clientConfig(g), serverConfig(g))
		hub := subscribe.NewHub(set)
		defer hub.Close()
		peer := func(a *association.Association, cfg channel.Config) *channel.Peer {
			tr, err := a.Transport(frame.ChannelDiscovery)
			if err != nil {
				t.Fatal(err)
			}
			p, err := channel.New(tr, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		responder := peer(s, channel.Config{Hub: hub})
		requester := peer(c, channel.Config{})
		got, err := requester.Query(wait(t), channel.Query{})
		if err != nil {
			t.Fatal(err)
		}
		octets := 0
		for _, r := range got.Records {
			octets += r.Len()
		}
		if len(got.Records) != set.Len() || octets < 20<<20 {
			t.Errorf("%d records of %d octets, want %d of 20 MiB", len(got.Records), octets, set.Len())
		}
		st := c.Stats()
		if g == 3 && (st.FlowUpdatesOut == 0 || s.Stats().FlowUpdatesIn != st.FlowUpdatesOut) {
			t.Errorf("%d FLOW_UPDATEs sent, %d received", st.FlowUpdatesOut, s.Stats().FlowUpdatesIn)
		}
		requester.Close()
		if err := responder.Wait(); !errors.Is(err, io.EOF) {
			t.Errorf("responder ended with %v", err)
		}
		responder.Close()
	})
}

// A peer that does not read costs a bounded wait.
//
// Covers: C57
func TestWriteTimeout(t *testing.T) {
	client := clientConfig()
	client.WriteTimeout = 200 * time.Millisecond
	client.NoFlowControl = true
	c, _ := pair(t, client, serverConfig()) // whose server is never started
	u := start(t, c)
	var sent []message
	for range 8 {
		sent = append(sent, message{0x100, strings.Repeat("x", 1<<19)})
	}
	u.send(sent...)
	wantCause(t, "client", c, association.ErrWriteTimeout)
}

// Frames sent right before the end arrive before it, whatever stream they are on.
//
// Covers: CORE-g3-04, C57
func TestNothingLostAtTheEnd(t *testing.T) {
	generations(t, func(t *testing.T, g int) {
		for i := range 20 {
			client := clientConfig(g)
			client.Channels = []frame.ChannelID{frame.ChannelDiscovery, frame.ChannelBridge}
			client.PeerChannels = client.Channels
			server := serverConfig(g)
			server.Channels, server.PeerChannels = client.Channels, client.Channels
			c, s := pair(t, client, server)
			closer, other := c, s
			if i%2 == 1 {
				closer, other = s, c
			}
			u, v := start(t, closer), start(t, other)
			w, x := startOn(t, closer, frame.ChannelBridge), startOn(t, other, frame.ChannelBridge)
			var sent []message
			for j := range 30 {
				sent = append(sent, message{frame.Type(0x100 + j), strings.Repeat("x", 300)})
			}
			u.send(sent...)
			w.send(sent...)
			// Both are written once the last of each has been asked for.
			drained := func(u *user) bool {
				u.mu.Lock()
				defer u.mu.Unlock()
				return len(u.out) == 0
			}
			for !drained(u) || !drained(w) {
				runtime.Gosched()
			}
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
			v.want(t, "Discovery", sent...)
			x.want(t, "Bridge", sent...)
			wantCause(t, "the other end", other, io.EOF)
		}
	})
}
