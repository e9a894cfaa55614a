package channeltest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npamp/disco/channel"
	"github.com/npamp/disco/channel/channeltest"
	"github.com/npamp/disco/disco"
)

// A scripted end that refuses every query: what does the code under test make of
// it?
func Example() {
	a, b := channeltest.NewLink(channeltest.Info(), channeltest.Info()).Ends()
	p, err := channel.New(a, channel.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s, err := channeltest.NewScript(b)
	if err != nil {
		panic(err)
	}
	s.Reply(func(f channeltest.Frame) []channeltest.Frame {
		corr, _ := disco.ScanCorr(f.Payload)
		payload, err := disco.AppendError(nil, &disco.ErrorMsg{Corr: corr, HasCorr: true, Code: disco.CodeNotAdvertised})
		if err != nil {
			panic(err)
		}
		return []channeltest.Frame{{Type: 0x0102, Payload: payload}}
	})
	_, err = p.Query(context.Background(), channel.Query{})
	fmt.Println(err)
	fmt.Println("later:", channel.Temporary(err))
	// Output:
	// disco: peer answered NotAdvertised
	// later: true
}

// In a bubble a stall of half a minute takes no time.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := channeltest.NewLink(channeltest.Info(), channeltest.Info())
		a, b := link.Ends()
		p, err := channel.New(a, channel.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s, err := channeltest.NewScript(b)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.SendHex(0x0100, "a200190100014101")
		s.WantFrame(t, "an empty set is one RESULT", channeltest.Hex(0x0101, "a400190101014101028003f5"))
		s.WantSilence(t, "one RESULT a QUERY", time.Second)

		link.AB.Room(1)
		link.AB.Stall()
		s.SendHex(0x0100, "a200190100014102")
		s.SendHex(0x0100, "a200190100014103")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		select {
		case <-p.Done():
		default:
			t.Error("a peer that takes nothing for so long is still served")
		}
	})
}
