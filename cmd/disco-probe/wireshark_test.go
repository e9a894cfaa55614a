package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/association"
	"github.com/npamp/disco/frame/keys"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// A capture is what went over one connection, in order.
type capture struct {
	mu     sync.Mutex
	chunks []chunk
}

type chunk struct {
	client bool
	octets []byte
}

func (c *capture) add(client bool, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunks = append(c.chunks, chunk{client, bytes.Clone(b)})
}

// pcap returns the capture as a file of the old format, with the headers that the
// packets of a TCP connection would have had.
func (c *capture) pcap() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	const linkRawIP, most = 101, 1200
	le := binary.LittleEndian
	out := le.AppendUint32(nil, 0xa1b2c3d4)
	out = le.AppendUint16(le.AppendUint16(out, 2), 4)
	out = append(out, make([]byte, 8)...)
	out = le.AppendUint32(le.AppendUint32(out, 1<<16), linkRawIP)
	seq := map[bool]uint32{true: 1000, false: 5000}
	packet := func(client bool, flags byte, data []byte) {
		src, dst := uint16(4433), uint16(50000)
		from, to := net.IPv4(10, 0, 0, 2).To4(), net.IPv4(10, 0, 0, 1).To4()
		if client {
			src, dst, from, to = dst, src, to, from
		}
		be := binary.BigEndian
		ip := []byte{0x45, 0}
		ip = be.AppendUint16(ip, uint16(40+len(data)))
		ip = append(ip, 0, 0, 0x40, 0, 64, 6, 0, 0)
		ip = append(append(ip, from...), to...)
		tcp := be.AppendUint16(be.AppendUint16(ip, src), dst)
		tcp = be.AppendUint32(be.AppendUint32(tcp, seq[client]), seq[!client])
		tcp = append(tcp, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0)
		b := append(tcp, data...)
		n := uint32(len(out)) // time only rises
		out = le.AppendUint32(le.AppendUint32(out, n), 0)
		out = le.AppendUint32(le.AppendUint32(out, uint32(len(b))), uint32(len(b)))
		out = append(out, b...)
		if seq[client] += uint32(len(data)); flags&3 != 0 { // SYN, FIN
			seq[client]++
		}
	}
	const fin, syn, push, ack = 1, 2, 8, 16
	packet(true, syn, nil)
	packet(false, syn|ack, nil)
	packet(true, ack, nil)
	for _, x := range c.chunks {
		for part := range slices.Chunk(x.octets, most) {
			packet(x.client, push|ack, part)
		}
	}
	packet(true, fin|ack, nil)
	packet(false, fin|ack, nil)
	return out
}

// relay is a connection to listen on that passes on to another address what it
// captures.
func relay(t *testing.T, to string, c *capture) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	pass := func(dst, src net.Conn, client bool) {
		defer dst.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			c.add(client, buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			return
		}
		running.Go(func() { pass(out, in, true) })
		pass(in, out, false)
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// tshark runs Debian's tshark with the dissector on a capture.
func tshark(t *testing.T, capture, keylog string, args ...string) string {
	t.Helper()
	script, err := filepath.Abs("wireshark/npamp.lua")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"-n", "-r", capture, "-X", "lua_script:" + script}
	if keylog != "" {
		all = append(all, "-o", "npamp.keylog:"+keylog, "-o", "tls.keylog_file:"+keylog)
	}
	cmd := exec.Command("tshark", append(all, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // nobody's settings
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if text := errs.String() + string(out); err != nil || strings.Contains(text, "Lua") {
		for l := range strings.Lines(text) {
			if err != nil || strings.Contains(l, "Lua") {
				t.Logf("%s", l)
			}
		}
		t.Fatalf("tshark: %v", err)
	}
	return string(out)
}

func needTshark(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("skipped: no tshark: the dissector is not tested (apt-get install tshark)")
	}
}

// frames returns the fields of each N-PAMP frame of a capture: of a packet with
// several frames tshark prints each field's values in a row.
func frames(t *testing.T, out string, fields int) (list [][]string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		var columns [][]string
		for _, col := range strings.Split(line, "\t") {
			columns = append(columns, strings.Split(col, ","))
		}
		if len(columns) != fields {
			t.Fatalf("line %q", line)
		}
		for i := range columns[0] {
			var f []string
			for _, col := range columns {
				if i < len(col) {
					f = append(f, col[i])
				}
			}
			list = append(list, f)
		}
	}
	return list
}

// A query over TLS, from the outside: with the key log that the command wrote the
// dissector shows each frame and what it carries, and without it nothing.
func TestWiresharkOverTLS(t *testing.T) {
	needTshark(t)
	dir := t.TempDir()
	var c capture
	s := serve(t, "--records", sampleFile(t))
	keylog, recording := filepath.Join(dir, "keys.log"), filepath.Join(dir, "x.jsonl")
	probe("query", "-o", "hex", "--keylog", keylog, "--record", recording, "--kind", "tool", "--prefix", "git.", relay(t, s.addr, &c)).ok(t)
	s.stop()
	file := filepath.Join(dir, "tls.pcap")
	if err := os.WriteFile(file, c.pcap(), 0o600); err != nil {
		t.Fatal(err)
	}

	out := tshark(t, file, keylog, "-Y", "npamp", "-T", "fields", "-e", "npamp.type_name", "-e", "npamp.direction", "-e", "npamp.channel", "-e", "npamp.seq")
	var got []string
	for _, f := range frames(t, out, 4) {
		got = append(got, strings.Join(f, " "))
	}
	want := []string{
		"CLIENT_HELLO c2s 0x0000 0", "SERVER_HELLO s2c 0x0000 0", "SERVER_AUTH s2c 0x0000 0", "CLIENT_AUTH c2s 0x0000 0",
		"DISCO_QUERY c2s 0x0010 0", "DISCO_RESULT s2c 0x0010 0", "CLOSE c2s 0x0000 0", "CLOSE_ACK s2c 0x0000 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// What the dissector reads is what the recording has.
	var text string
	for _, l := range strings.Split(private(t, recording), "\n") {
		if _, after, ok := strings.Cut(l, `"name":"DISCO_QUERY","flags":2,"seq":0,"ratchet":0,"epoch":0,"corr":"`); ok {
			text = after[:32]
		}
	}
	tree := tshark(t, file, keylog, "-O", "npamp", "-Y", "npamp")
	for _, want := range []string{
		"N-PAMP, Control CLIENT_HELLO, seq 0", "KEMShare, 1216 octets", "AEADSelect, 2 octets", ", under a key of the handshake", "IdentityKey, 32 octets",
		"N-PAMP, Discovery DISCO_QUERY, seq 0", "corr: " + text, "kind asked for: 3 (tool)", "name_prefix: git.",
		"N-PAMP, Discovery DISCO_RESULT, seq 0", "frame_kind: 257 (DISCO_RESULT)", "records: 3", "record 3", "record_id: 6769742e6c6f67", "revision: 1",
		"name: git.clean", "effect: 3 (destructive)", "protocol_id: 1", "label: Git log", "complete: True", "Suite: AES-256-GCM (0x0001)", "(right)",
	} {
		if !strings.Contains(tree, want) {
			t.Errorf("%q is not in\n%s", want, tree)
		}
	}
	if strings.Contains(tree, "No key") || strings.Contains(tree, "is wrong") || strings.Contains(tree, "Not CBOR") {
		t.Errorf("faults in\n%s", tree)
	}
	if out := tshark(t, file, "", "-Y", "npamp"); out != "" {
		t.Errorf("without keys TLS is opened:\n%s", out)
	}
}

// tapConn captures what is written to one end of a stream.
type tapConn struct {
	net.Conn
	c      *capture
	client bool
}

func (x *tapConn) Write(b []byte) (int, error) {
	x.c.add(x.client, b)
	return x.Conn.Write(b)
}

// An association on bare TCP, in each generation and suite, with everything that
// changes keys, and a listing of many segments: each frame opens.
func TestWiresharkOverTCP(t *testing.T) {
	needTshark(t)
	for _, tt := range []struct {
		generation int
		suite      keys.Suite
	}{{3, keys.SuiteAES256GCM}, {2, keys.SuiteChaCha20Poly1305}} {
		t.Run(fmt.Sprintf("g%d", tt.generation), func(t *testing.T) {
			dir := t.TempDir()
			keylog, file := filepath.Join(dir, "keys.log"), filepath.Join(dir, "tcp.pcap")
			log, err := openPrivate(keylog, os.O_APPEND)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			var c capture
			defer func() { damaged(t, &c, keylog) }()
			p, q := net.Pipe()
			cfg := func(n byte) *association.Config {
				return &association.Config{Identity: channeltest.Identity(n), Generations: []int{tt.generation}, Suites: []keys.Suite{tt.suite}, KeyLogWriter: log}
			}
			client, server, err := channeltest.Associate(t.Context(), &tapConn{p, &c, true}, &tapConn{q, &c, false}, cfg(1), cfg(2))
			if err != nil {
				t.Fatal(err)
			}
			set, err := demoSet()
			if err != nil {
				t.Fatal(err)
			}
			err = set.Update(func(tx *record.Tx) error {
				label := strings.Repeat("long ", 8000)
				r, err := record.Tool{ID: "z", Name: "z\u202e", ProtocolID: 1, Label: &label}.Record()
				return errors.Join(err, tx.Put(r))
			})
			if err != nil {
				t.Fatal(err)
			}
			hub := subscribe.NewHub(set)
			defer hub.Close()
			sp, err := newPeer(server, channel.Config{Hub: hub})
			if err != nil {
				t.Fatal(err)
			}
			cp, err := newPeer(client, channel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := cp.Query(t.Context(), channel.Query{}); err != nil {
					t.Fatal(err)
				}
				err := errors.Join(client.KeyUpdate(frame.ChannelDiscovery), client.Ratchet(), client.Rekem(),
					server.KeyUpdate(frame.ChannelDiscovery), server.Ratchet(), client.KeyUpdate(frame.ChannelControl))
				if err != nil && !errors.Is(err, association.ErrBusy) {
					t.Fatal(err)
				}
				if err := client.Ping(t.Context(), frame.ChannelDiscovery); err != nil {
					t.Fatal(err)
				}
			}
			cp.Close()
			if err := sp.Wait(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			sp.Close()
			if err := os.WriteFile(file, c.pcap(), 0o600); err != nil {
				t.Fatal(err)
			}

			out := tshark(t, file, keylog, "-2", "-Y", "npamp", "-T", "fields", "-e", "npamp.type_name", "-e", "npamp.epoch", "-e", "npamp.ratchet", "-e", "npamp.disco.complete", "-e", "_ws.expert.message")
			seen := map[string]int{}
			epochs, ratchets := false, false
			for _, f := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
				cols := strings.Split(f, "\t")
				for _, name := range strings.Split(cols[0], ",") {
					seen[name]++
				}
				epochs = epochs || strings.Contains(cols[1], "1")
				ratchets = ratchets || strings.Contains(cols[2], "3")
				if cols[4] != "" {
					t.Errorf("complains: %q", f)
				}
			}
			for name, least := range map[string]int{"CLIENT_HELLO": 1, "SERVER_HELLO": 1, "SERVER_AUTH": 1, "CLIENT_AUTH": 1, "DISCO_QUERY": 3, "DISCO_RESULT": 3,
				"KEY_UPDATE": 6, "KEY_UPDATE_ACK": 6, "MASTER_RATCHET": 6, "MASTER_RATCHET_ACK": 6, "REKEM": 1, "PING": 3, "PONG": 3, "CLOSE": 1, "CLOSE_ACK": 1} {
				if seen[name] < least {
					t.Errorf("%d frames %s, want %d:\n%s", seen[name], name, least, out)
				}
			}
			if !epochs || !ratchets {
				t.Errorf("no frame under a later key:\n%s", out)
			}

			// Without keys, or with another association's, the headers are there still.
			other := write(t, "other.log", strings.ReplaceAll(private(t, keylog), client.Info().ID.String(), strings.Repeat("0", 64)))
			for _, log := range []string{"", other} {
				out := tshark(t, file, log, "-Y", "npamp.channel == 16", "-T", "fields", "-e", "npamp.type_name", "-e", "npamp.epoch", "-e", "_ws.expert.message")
				for _, l := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
					if cols := strings.Split(l, "\t"); cols[1] != "" || !strings.Contains(cols[2], "No key of the key log opens it") {
						t.Errorf("with %q: %q", log, l)
					}
				}
			}
		})
	}
}

// damaged has the dissector look at a capture in which octets are wrong. What it
// makes of it does not matter, as long as it has no faults of its own (tshark).
func damaged(t *testing.T, c *capture, keylog string) {
	r := rand.New(rand.NewPCG(1, 2))
	bad := capture{chunks: slices.Clone(c.chunks)}
	for i := range bad.chunks {
		x := &bad.chunks[i]
		x.octets = bytes.Clone(x.octets)
		for n := range x.octets {
			if r.IntN(300) == 0 {
				x.octets[n] ^= byte(1 + r.IntN(255))
			}
		}
	}
	// Clear frames reach the readers of payloads whatever is in them.
	for _, ch := range []frame.ChannelID{frame.ChannelControl, frame.ChannelDiscovery} {
		for typ := range frame.Type(0x112) {
			body := make([]byte, r.IntN(40))
			for n := range body {
				body[n] = byte(r.IntN(256))
			}
			if len(body) > 3 && typ&1 == 0 {
				copy(body, "\xa2\x00\x19") // as Discovery's payloads begin
			}
			bad.add(true, append(frame.AppendHeader(nil, frame.Header{Type: typ, Channel: ch, PayloadLen: uint32(len(body))}), body...))
		}
	}
	file := filepath.Join(t.TempDir(), "damaged.pcap")
	if err := os.WriteFile(file, bad.pcap(), 0o600); err != nil {
		t.Fatal(err)
	}
	tshark(t, file, keylog, "-O", "npamp")
	clear := capture{chunks: bad.chunks[len(c.chunks):]}
	if err := os.WriteFile(file, clear.pcap(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := tshark(t, file, "", "-O", "npamp"); !strings.Contains(out, "Not CBOR as NPAMP-DISC has it") || strings.Count(out, "N-PAMP, ") < 2*0x112 {
		t.Errorf("the clear frames are not looked at:\n%s", out)
	}
}

// The dissector's names are the registry's.
func TestWiresharkNames(t *testing.T) {
	b, err := os.ReadFile("wireshark/npamp.lua")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(string(b), func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		words[w] = true
	}
	n := 0
	need := func(name string) {
		n++
		if !strings.Contains(name, "unknown") && !words[name] {
			t.Errorf("%s is not in the dissector", name)
		}
	}
	for ch := range frame.ChannelID(0x14) {
		need(ch.String())
		for typ := range frame.Type(0x200) {
			need(frame.TypeName(ch, typ))
		}
	}
	for code := frame.CodeUnexpectedMessage; code <= frame.CodeFlowControl; code++ {
		need(code.String())
	}
	for typ := range uint16(0x20) {
		if name := tlvName(typ); !strings.HasPrefix(name, "TLV") {
			need(name)
		}
	}
	if n < 0x200*0x14 {
		t.Errorf("%d names", n)
	}
}
