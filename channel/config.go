package channel

import (
	"log/slog"

	"github.com/npamp/disco/record"
	"github.com/npamp/disco/subscribe"
)

// Feature names a part of Discovery that a responder can do without.
type Feature uint8

const (
	FeatureDiscovery     Feature = 1 << iota // everything: QUERY and SUBSCRIBE get NotAdvertised, our own requests fail [C13]
	FeatureSubscriptions                     // SUBSCRIBE gets SubscriptionRefused (§7.2)
	FeatureKinds                             // filter key 2: FilterUnsupported (§9), as the next four
	FeatureProtocolIDs                       // filter key 3
	FeatureNamePrefix                        // filter key 4
	FeatureTolerant                          // key 5
	FeatureCursor                            // key 6
)

// Config says what a Peer offers and how it treats the other end. The zero
// value offers nothing and bounds everything by the defaults.
type Config struct {
	// Hub fans out the records that are advertised. Peers of one set share one
	// hub. Nil advertises nothing: every query is answered with an empty set.
	Hub *subscribe.Hub

	// Visible says what of the hub's records this peer may see; nil shows all.
	// It must be pure and quick, for it is called under the set's lock; where it
	// panics the record is hidden. After the policy behind it changed,
	// call Peer.Refresh. An agent is hidden unless all its tools are visible
	// [C38]. Listing is no authorisation (§10): the invocation decides.
	Visible func(record.Record) bool

	// Disabled features are refused with the code that §9 has for each.
	Disabled Feature

	// PushPages sends all pages of a listing in answer to its first QUERY,
	// reading C1 (a) of §6.2, instead of one RESULT a QUERY.
	PushPages bool

	// AnnounceOnOpen publishes the visible set once when the association opens
	// (§8, [C56]).
	AnnounceOnOpen bool

	// OnAnnounce is called with the records of each DISCO_ANNOUNCE that
	// arrives, one call at a time. What is announced only primes the cache
	// (§7.1).
	OnAnnounce func(Announcement)

	// Limits bounds what the peer can make us hold and do.
	Limits Limits

	// Logger takes the peer's faults, bounded in rate. Record contents are
	// never logged. Nil: no log.
	Logger *slog.Logger
}

// An Announcement is what one DISCO_ANNOUNCE carried (§7.1).
type Announcement struct {
	Records []record.Record
	Skipped []record.Skipped // of unknown kind [C9]
}
