package association

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/frame/keys"
)

// A lineLog is a KeyLogWriter that keeps its lines. Each has to be one Write.
type lineLog struct {
	mu    sync.Mutex
	lines []string
	bad   bool
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, ok := strings.CutSuffix(string(b), "\n")
	l.bad = l.bad || !ok || strings.Contains(line, "\n")
	l.lines = append(l.lines, line)
	return len(b), nil
}

func (l *lineLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// A tapped connection keeps what is written to it.
type tapped struct {
	net.Conn
	mu  sync.Mutex
	out bytes.Buffer
}

func (c *tapped) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(b[:n])
	return n, err
}

// A loggedKey is a line of a key log, read as its documentation has it.
type loggedKey struct {
	label, id, dir, channel string
	ratchet, epoch          uint64
	key                     *keys.Key
}

func parseKeyLog(t *testing.T, lines []string) (list []loggedKey) {
	t.Helper()
	for _, line := range lines {
		var k loggedKey
		var suite, key, iv string
		n, err := fmt.Sscanf(line, "%s %s %s %d %s %d %s %s %s", &k.label, &k.id, &k.dir, &k.ratchet, &k.channel, &k.epoch, &suite, &key, &iv)
		if err != nil || n != 9 || strings.Count(line, " ") != 8 || len(k.channel) != 4 || suite != "0001" {
			t.Fatalf("line %q: %v", line, err)
		}
		kb, err1 := hex.DecodeString(key)
		ib, err2 := hex.DecodeString(iv)
		if err1 != nil || err2 != nil {
			t.Fatalf("line %q", line)
		}
		if k.key, err = keys.NewKey(keys.SuiteAES256GCM, kb, ib); err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	return list
}

// Covers: DISC-10-08
func TestKeyLog(t *testing.T) {
	// What went over the stream opens with the lines of either side alone: each
	// frame under the key of its direction and channel that is in use, or the next.
	rows(t, func(t *testing.T, g *generation) {
		synctest.Test(t, func(t *testing.T) {
			p, q := net.Pipe()
			wire := [2]*tapped{{Conn: p}, {Conn: q}}
			logs := [2]*lineLog{new(lineLog), new(lineLog)}
			cc, sc := clientConfig(g.number), serverConfig(g.number)
			cc.KeyLogWriter, sc.KeyLogWriter = logs[0], logs[1]
			cc.UpdateFrames = 5
			var s *Association
			var wg sync.WaitGroup
			wg.Go(func() { s, _ = Server(t.Context(), wire[1], sc) })
			c, err := Client(t.Context(), wire[0], cc)
			wg.Wait()
			if err != nil || s == nil {
				t.Fatal(err)
			}
			cu, su := start(t, c), start(t, s)
			for i := range 3 {
				text := message{0x100, fmt.Sprint("round ", i)}
				cu.send(repeat(7, text)...)
				su.want(t, "to the server", repeat(7, text)...)
				su.send(text)
				cu.want(t, "to the client", text)
				for _, a := range []*Association{c, s} {
					if err := errors.Join(a.Ratchet(), a.Rekem(), a.KeyUpdate(onDiscovery)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
			}
			closeBoth(c, s)
			if c.Info().ID != s.Info().ID || c.Info().ID == (ID{}) {
				t.Fatalf("ID %v, %v", c.Info().ID, s.Info().ID)
			}
			for side, log := range logs {
				list := parseKeyLog(t, log.all())
				if log.bad {
					t.Error("a Write is not one line")
				}
				opened, ratchets := 0, uint64(0)
				for d, w := range wire {
					dir := keys.Direction(d).String()
					stream := frame.NewReader(bytes.NewReader(w.out.Bytes()), 0)
					next := map[string]int{} // by channel: the first line that may be in use
					for n := 0; ; n++ {
						h, raw, err := stream.Next()
						if err != nil {
							break
						}
						if n == 0 && d == 0 {
							if id := hex.EncodeToString(raw[len(raw)-32:]); id != c.Info().ID.String() {
								t.Fatalf("CLIENT_HELLO ends in %s, the ID is %v", id, c.Info().ID)
							}
						}
						if h.Flags&frame.FlagENC == 0 {
							continue
						}
						ch := fmt.Sprintf("%04x", uint16(h.Channel))
						i, found := next[ch], false
						for ; i < len(list) && !found; i++ {
							k := list[i]
							if k.dir != dir || k.channel != ch || k.id != c.Info().ID.String() {
								continue
							}
							if _, err := k.key.OpenFrame(h, bytes.Clone(raw)); err == nil {
								found = true
								next[ch] = i
								ratchets = max(ratchets, k.ratchet)
								if isAuth := h.Type == frame.TypeServerAuth || h.Type == frame.TypeClientAuth; isAuth != (k.label == "NPAMP_HANDSHAKE_KEY") || !isAuth && k.label != "NPAMP_TRAFFIC_KEY" {
									t.Errorf("%s under a key of %s", frame.TypeName(h.Channel, h.Type), k.label)
								}
							}
						}
						if !found {
							t.Fatalf("side %d: no line opens frame %d %s %s seq %d", side, n, dir, frame.TypeName(h.Channel, h.Type), h.Seq)
						}
						opened++
					}
				}
				// AUTHs, data, and what is said about keys.
				if opened < 2+21+3+2*3*4 || ratchets < 3 {
					t.Errorf("%d frames opened, ratchet %d", opened, ratchets)
				}
			}
		})
	})
}

// Covers: DISC-10-08
func TestKeyLogOverTLS(t *testing.T) {
	// TLS writes where we do, unless it has a place of its own; a writer that fails
	// is no reason to lose the association.
	log, own := new(lineLog), new(lineLog)
	cc, sc := clientConfig(), serverConfig()
	cc.KeyLogWriter, sc.KeyLogWriter = log, failingWriter{}
	sc.TLS.KeyLogWriter = own
	c, s := tlsPair(t, cc, sc)
	cu, su := start(t, c), start(t, s)
	cu.send(message{0x100, "sealed twice"})
	su.want(t, "a frame", message{0x100, "sealed twice"})
	closeBoth(c, s)
	count := func(lines []string, prefix string) (n int) {
		for _, l := range lines {
			if strings.HasPrefix(l, prefix) {
				n++
			}
		}
		return n
	}
	for prefix, want := range map[string]int{
		"CLIENT_TRAFFIC_SECRET_0 ": 1, "SERVER_HANDSHAKE_TRAFFIC_SECRET ": 1,
		"NPAMP_HANDSHAKE_KEY " + c.Info().ID.String(): 2, "NPAMP_TRAFFIC_KEY " + c.Info().ID.String() + " c2s 0 0010 0 0001 ": 1,
	} {
		if n := count(log.all(), prefix); n != want {
			t.Errorf("%d lines %q, want %d", n, prefix, want)
		}
	}
	if lines := own.all(); count(lines, "NPAMP_") != 0 || count(lines, "SERVER_TRAFFIC_SECRET_0 ") != 1 {
		t.Errorf("TLS's own key log: %q", lines)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }
