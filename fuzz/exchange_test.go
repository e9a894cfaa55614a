package fuzz

import (
	"encoding/hex"
	"io"
	"testing"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/frame"
	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
	"github.com/npamp/disco/testvectors"
)

// hand is a transport that is moved by hand: a frame goes in, and out comes all
// that the endpoint has to send.
type hand struct {
	generation int
	e          frame.Endpoint
	ended      error
}

func (h *hand) Info() frame.Info {
	return frame.Info{Channel: frame.ChannelDiscovery, Generation: h.generation, Advertised: true, PeerAdvertised: true}
}
func (h *hand) Start(e frame.Endpoint) error { h.e = e; return nil }
func (h *hand) Wake()                        {}
func (h *hand) Abort(_ frame.ErrorCode, cause error) {
	if h.ended == nil {
		h.ended = cause
	}
}
func (h *hand) Close() error {
	h.e.Closed(frame.ErrClosed)
	return nil
}

// sent is a frame that the peer sends.
type sent struct {
	t       disco.Type
	payload []byte
}

func (h *hand) receive(t frame.Type, payload []byte) (out []sent) {
	h.e.Receive(frame.Frame{Type: t, Flags: frame.FlagENC, Payload: payload})
	for h.ended == nil {
		b, typ, ok := h.e.Append(nil)
		if !ok {
			break
		}
		out = append(out, sent{disco.Type(typ), b})
		h.e.Written()
	}
	return out
}

// records is a set with one record of each kind.
func records(t testing.TB) *record.Set {
	set := record.NewSet(record.SetConfig{Carries: func(id uint64) bool { return id == 1 }})
	err := set.Update(func(tx *record.Tx) error {
		for _, b := range []interface {
			Record() (record.Record, error)
		}{
			record.Agent{ID: "a1", AgentID: "ag", Protocols: []uint64{1}, Tools: []record.ID{"t1"}},
			record.Carriage{ID: "c1", CarriageClass: record.ClassJSONRPC},
			record.Protocol{ID: "p1", ProtocolID: 1, CarriageClass: record.ClassJSONRPC},
			record.Tool{ID: "t1", Name: "git.log", ProtocolID: 1},
		} {
			r, err := b.Record()
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

// FuzzExchange throws a sequence of frames at a peer. Each is two octets of
// type, one of length, and a payload. Whatever they are:
//
//   - nothing is sent but in answer to a QUERY or a SUBSCRIBE: at most one
//     DISCO_ERROR, or one RESULT to a QUERY, or one snapshot to a SUBSCRIBE,
//   - what is sent can be read, and a RESULT or an ERROR with a corr bears that of
//     the request just made,
//   - the peer holds no more than its bounds, and answers a good query
//     afterwards,
//   - nothing is left after the end.
func FuzzExchange(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	var all []byte
	for _, p := range set.Payloads {
		if len(p.Octets) < 256 {
			one := append([]byte{byte(p.FrameType >> 8), byte(p.FrameType), byte(len(p.Octets))}, p.Octets...)
			f.Add(one, true)
			if len(all) < 2000 {
				all = append(all, one...)
			}
		}
	}
	f.Add(all, false)
	hub := subscribe.NewHub(records(f))
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, script []byte, generation3 bool) {
		h := &hand{generation: 2}
		if generation3 {
			h.generation = 3
		}
		p, err := channel.New(h, channel.Config{Hub: hub, Limits: channel.Limits{
			MaxPageRecords: 2, MaxSubscriptions: 3, MaxUnanswered: 3, QueryRate: -1, MaxCacheRecords: 20,
		}})
		if err != nil {
			t.Fatal(err)
		}
		opts := &disco.Options{Generation: h.generation, Tolerant: true}
		for len(script) >= 3 && h.ended == nil {
			typ := frame.Type(script[0])<<8 | frame.Type(script[1])
			n := min(int(script[2]), len(script)-3)
			payload := script[3 : 3+n]
			script = script[3+n:]
			corr, hasCorr := disco.ScanCorr(payload)
			if body, err := frame.Peel(payload); err == nil {
				corr, hasCorr = disco.ScanCorr(body)
			}
			out := h.receive(typ, append([]byte(nil), payload...))
			if !disco.Type(typ).TakesReply() && len(out) > 0 {
				t.Fatalf("type %#04x answered with %v %x", typ, out[0].t, out[0].payload)
			}
			for i, o := range out {
				switch o.t {
				case disco.TypeResult:
					r, err := disco.ParseResult(o.payload, opts)
					if err != nil || !hasCorr || r.Corr != corr || !r.Complete && len(r.Records) == 0 {
						t.Fatalf("RESULT %x to %x: %v", o.payload, payload, err)
					}
					if i > 0 && typ == frame.Type(disco.TypeQuery) {
						t.Fatalf("%d answers to a QUERY", len(out))
					}
				case disco.TypeError:
					e, err := disco.ParseError(o.payload, opts)
					if err != nil || e.HasCorr && e.Corr != corr || !e.Code.Known() || len(out) > 1 {
						t.Fatalf("ERROR %x to %x: %v", o.payload, payload, err)
					}
				default:
					t.Fatalf("sent %v %x", o.t, o.payload)
				}
			}
			if st := p.Stats(); st.Subscriptions > 3 || st.Unanswered > 3 || st.Snapshots > 8 || st.Cached > 20 || st.Outstanding != 0 {
				t.Fatalf("beyond its bounds: %+v", st)
			}
		}
		if h.ended == nil {
			good, _ := hex.DecodeString("a3001901000150" + "00112233445566778899aabbccddeeff" + "0280")
			if out := h.receive(frame.Type(disco.TypeQuery), good); len(out) != 1 || out[0].t != disco.TypeResult {
				t.Fatalf("no RESULT to a good query: %v", out)
			}
		}
		h.e.Closed(io.EOF)
		if st := p.Stats(); p.Wait() != io.EOF || st.Subscriptions+st.Snapshots+st.Cached+st.Unanswered+st.Unsent+st.Own != 0 {
			t.Fatalf("left after the end: %+v", st)
		}
	})
}

// FuzzRequester answers one of our queries, and one subscription, with whatever
// comes: nothing is sent but follow-ups and UNSUBSCRIBE, and both end when the
// association does.
func FuzzRequester(f *testing.F) {
	set, err := testvectors.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range set.Payloads {
		switch p.FrameType {
		case 0x0101, 0x0102, 0x0103, 0x0105:
			if len(p.Octets) < 256 {
				f.Add(append([]byte{byte(p.FrameType), 1, byte(len(p.Octets))}, p.Octets...))
			}
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		h := &hand{generation: 2}
		p, err := channel.New(h, channel.Config{Limits: channel.Limits{MaxListRecords: 20, MaxBarren: 3}})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := p.Subscribe(record.Filter{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The first own corr ends in a counter, which the script's frames name by
		// their second octet: it is put where a corr of 16 octets starts.
		var corrs []disco.Corr
		see := func(out []sent) {
			for _, o := range out {
				switch o.t {
				case disco.TypeQuery, disco.TypeSubscribe, disco.TypeUnsubscribe:
					if c, ok := disco.ScanCorr(o.payload); ok {
						corrs = append(corrs, c)
					}
				default:
					t.Fatalf("sent %v %x", o.t, o.payload)
				}
			}
		}
		see(h.receive(0x7fff, nil))
		for len(script) >= 3 && h.ended == nil {
			typ := frame.Type(0x0100) | frame.Type(script[0]%8)
			n := min(int(script[2]), len(script)-3)
			payload := append([]byte(nil), script[3:3+n]...)
			if c, ok := disco.ScanCorr(payload); ok && len(corrs) > 0 {
				payload = withCorr(payload, c, corrs[int(script[1])%len(corrs)])
			}
			script = script[3+n:]
			if typ == 0x0100 || typ == 0x0104 {
				continue // requests are FuzzExchange's
			}
			see(h.receive(typ, payload))
			if st := p.Stats(); st.Own > 1 || st.Outstanding > 1 || sub.Len() > 21 {
				t.Fatalf("beyond its bounds: %+v, %d records", st, sub.Len())
			}
		}
		h.e.Closed(io.EOF)
		if sub.Err() == nil || sub.Len() != 0 || p.Wait() != io.EOF {
			t.Fatalf("left after the end: %v, %d records", sub.Err(), sub.Len())
		}
	})
}

// withCorr replaces the encoding of one corr by another's.
func withCorr(payload []byte, old, to disco.Corr) []byte {
	enc := func(c disco.Corr) string {
		if len(c) < 24 {
			return string([]byte{0x40 | byte(len(c))}) + string(c)
		}
		return string([]byte{0x58, byte(len(c))}) + string(c)
	}
	o, n := enc(old), enc(to)
	for i := range payload {
		if i+len(o) <= len(payload) && string(payload[i:i+len(o)]) == o {
			return append(append(append([]byte(nil), payload[:i]...), n...), payload[i+len(o):]...)
		}
	}
	return payload
}
