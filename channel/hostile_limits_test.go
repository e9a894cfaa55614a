package channel

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/npamp/disco/channel/channeltest"
)

// setLimit returns Limits with one field set, to v of whatever type it has.
func setLimit(field string, v int) (l Limits) {
	f := reflect.ValueOf(&l).Elem().FieldByName(field)
	if f.CanInt() {
		f.SetInt(int64(v))
	} else {
		f.SetFloat(float64(v))
	}
	return l
}

// A negative field is off where Limits says so, and an error elsewhere; zero is
// the default.
func TestLimitsRange(t *testing.T) {
	off := map[string]bool{"QueryRate": true, "PageRate": true, "StallTimeout": true, "UncorrelatedErrors": true,
		"RequestTimeout": true, "MaxRestarts": true, "MaxPeerMemory": true}
	fields := reflect.TypeFor[Limits]()
	bubble(t, func(t *testing.T) {
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			tr, other := channeltest.Pair(channeltest.Info(), channeltest.Info())
			channeltest.NewScript(other)
			p, err := New(tr, Config{Limits: setLimit(name, -1)})
			if off[name] != (err == nil) || err != nil && !strings.Contains(err.Error(), "Limits."+name) {
				t.Errorf("%s: -1: %v", name, err)
			}
			if err == nil {
				p.Close()
			} else {
				tr.Close()
			}
			if reflect.ValueOf(Limits{}.withDefaults()).Field(i).IsZero() && name != "MinUpdateInterval" {
				t.Errorf("%s has no default", name)
			}
		}
	})
	if err := (Limits{MaxFrameLen: 511}).withDefaults().check(); err == nil {
		t.Error("MaxFrameLen of 511 is taken, and holds no record")
	}
}

// A rate below one a second is a rate, too.
//
// Covers: C4
func TestUncorrelatedErrorsBelowOneASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := linked(t, Config{Limits: Limits{UncorrelatedErrors: 0.5}})
		l.putHex(query, "05", "05")
		want(t, "one at once", l.takeAll(), errorFrame("", 1))
		later(time.Second)
		l.putHex(query, "05")
		want(t, "none after a second", l.takeAll())
		later(time.Second)
		l.putHex(query, "05")
		want(t, "one after two", l.takeAll(), errorFrame("", 1))
	})
}
