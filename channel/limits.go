package channel

import (
	"fmt"
	"reflect"
	"time"
)

// Limits bounds what one peer can make us hold, do or send, and what we ask of
// it. A zero field means its default; a negative one switches the bound off
// where "off" is given, and is an error elsewhere. Bounds with two directions
// hold in both (§10): a responder refuses what a requester would not ask.
type Limits struct {
	// As responder: what we take from the peer.

	// MaxRequestLen bounds the payload of a request (QUERY, SUBSCRIBE,
	// UNSUBSCRIBE), in octets. Beyond it the peer gets MalformedPayload without
	// a corr. Default 64 KiB. Counter: Malformed.
	MaxRequestLen int
	// MaxFilterEntries bounds each filter array and MaxPrefixLen name_prefix, in
	// entries and octets; beyond: MalformedPayload. Default 1024 and 1024.
	MaxFilterEntries, MaxPrefixLen int
	// QueryRate and QueryBurst are the token bucket of QUERY and SUBSCRIBE
	// together, per second and at once. Beyond: NotAdvertised to a QUERY,
	// SubscriptionRefused to a SUBSCRIBE [C20]. Default 50 and 100; a negative
	// rate is off. Counter: RateLimited.
	QueryRate, QueryBurst float64
	// PageRate and PageBurst are the bucket of QUERYs with a live cursor.
	// Default 1000 and 2000; a negative rate is off.
	PageRate, PageBurst float64
	// MaxUnanswered bounds requests taken and not answered yet. Beyond: as the
	// rate. Default 256. Counter: Overloaded.
	MaxUnanswered int
	// MaxUnsent bounds the replies and requests that wait for the link, in
	// frames; beyond it the association ends. Default 1024.
	MaxUnsent int
	// StallTimeout ends an association that has taken no frame for that long
	// while some waited. Default 30 s; negative: off.
	StallTimeout time.Duration
	// MaxSubscriptions bounds the peer's live subscriptions with us, and ours
	// with it. Beyond: SubscriptionRefused; locally ErrLimit. Default 64 each.
	MaxSubscriptions, MaxOwnSubscriptions int
	// MaxQueuedUpdates is how many changes wait for a slow subscriber before
	// they are merged to one state per record [C31]. Default 64.
	MaxQueuedUpdates int
	// MinUpdateInterval is the least time between two UPDATEs of one
	// subscription; the first goes at once. Default 0: none.
	MinUpdateInterval time.Duration
	// MaxSnapshots bounds the listings whose cursors are kept, least recently
	// used first to go, and SnapshotTTL their age; then: StaleCursor [C2].
	// Default 8 and 60 s.
	MaxSnapshots int
	SnapshotTTL  time.Duration
	// MaxPageRecords and MaxPageLen bound a page we send, in records and octets
	// of records; MaxFrameLen is the hard cap of any payload we send, and so of
	// a record that can be represented. Default 1024, 256 KiB and 1 MiB;
	// MaxFrameLen is at least 512.
	MaxPageRecords, MaxPageLen, MaxFrameLen int
	// UncorrelatedErrors is how many DISCO_ERRORs without a corr we send a
	// second, for requests whose corr cannot be read [C4]. Default 1; negative:
	// none.
	UncorrelatedErrors float64

	// As requester: what we ask and hold.

	// MaxOutstanding bounds our requests that wait for an answer; beyond:
	// ErrLimit. Default 1024.
	MaxOutstanding int
	// RequestTimeout is how long the peer may take for each answer: a RESULT to
	// a QUERY, each further page, the acknowledgement of a SUBSCRIBE. Default
	// 10 s; negative: off.
	RequestTimeout time.Duration
	// PageStall is how long a page that the peer should push is awaited before
	// it is asked for [C1, C15]. Default 2 s.
	PageStall time.Duration
	// MaxPages, MaxListRecords and MaxListLen bound one enumeration, in pages,
	// records and octets; MaxBarren the pages in a row that add nothing [C44].
	// Beyond: ErrIncomplete. Default 10,000, 100,000, 64 MiB and 8.
	MaxPages, MaxListRecords, MaxListLen, MaxBarren int
	// MaxRestarts is how often an enumeration whose cursor went stale starts
	// over. Default 2; negative: never.
	MaxRestarts int
	// ResyncInterval is the least time between two attempts to mend a
	// subscription whose UPDATE could not be read [C36]. Default 5 s.
	ResyncInterval time.Duration
	// MaxQueuedEvents bounds the events that wait for one subscription's
	// callback; beyond it they are merged to one per record. Default 1024.
	MaxQueuedEvents int
	// MaxCallbacks bounds the callbacks of one association that run at once.
	// Default 4.
	MaxCallbacks int
	// MaxCacheRecords and MaxCacheLen bound the shared cache, in records and
	// octets. Default 100,000 and 64 MiB.
	MaxCacheRecords, MaxCacheLen int
	// MaxTombstones bounds what is remembered of withdrawn records, and
	// MaxRetired of corrs that are done. Default 4096 and 1024.
	MaxTombstones, MaxRetired int
	// MaxPeerMemory bounds all that is held for one peer together, in octets.
	// Announced records are refused first, then a listing fails with ErrLimit,
	// then a subscription ends. Where listings that the peer may go on with are
	// a quarter of it, they go stale; where what the peer leaves unread of its
	// own subscriptions is half of it for StallTimeout, the association ends.
	// Default 256 MiB; negative: off.
	MaxPeerMemory int
}

const defaultStallTimeout = 30 * time.Second

// check refuses what no default stands for.
func (l Limits) check() error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.CanInt() && f.Int() >= 0 || f.CanFloat() && f.Float() >= 0 {
			continue
		}
		switch name {
		case "QueryRate", "PageRate", "StallTimeout", "UncorrelatedErrors", "RequestTimeout", "MaxRestarts", "MaxPeerMemory":
		default:
			return fmt.Errorf("channel: Limits.%s is negative", name)
		}
	}
	if l.MaxFrameLen < 2*resultOverhead {
		return fmt.Errorf("channel: Limits.MaxFrameLen is less than %d", 2*resultOverhead)
	}
	return nil
}

// def sets *v to d where it is zero.
func def[T int | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults returns l with every zero field filled in.
func (l Limits) withDefaults() Limits {
	def(&l.MaxRequestLen, 64<<10)
	def(&l.MaxFilterEntries, 1024)
	def(&l.MaxPrefixLen, 1024)
	def(&l.QueryRate, 50)
	def(&l.QueryBurst, 100)
	def(&l.PageRate, 1000)
	def(&l.PageBurst, 2000)
	def(&l.MaxUnanswered, 256)
	def(&l.MaxUnsent, 1024)
	def(&l.StallTimeout, defaultStallTimeout)
	def(&l.MaxSubscriptions, 64)
	def(&l.MaxOwnSubscriptions, 64)
	def(&l.MaxQueuedUpdates, 64)
	def(&l.MaxSnapshots, 8)
	def(&l.SnapshotTTL, time.Minute)
	def(&l.MaxPageRecords, 1024)
	def(&l.MaxPageLen, 256<<10)
	def(&l.MaxFrameLen, 1<<20)
	def(&l.UncorrelatedErrors, 1)
	def(&l.MaxOutstanding, 1024)
	def(&l.RequestTimeout, 10*time.Second)
	def(&l.PageStall, 2*time.Second)
	def(&l.MaxPages, 10_000)
	def(&l.MaxListRecords, 100_000)
	def(&l.MaxListLen, 64<<20)
	def(&l.MaxBarren, 8)
	def(&l.MaxRestarts, 2)
	def(&l.ResyncInterval, 5*time.Second)
	def(&l.MaxQueuedEvents, 1024)
	def(&l.MaxCallbacks, 4)
	def(&l.MaxCacheRecords, 100_000)
	def(&l.MaxCacheLen, 64<<20)
	def(&l.MaxTombstones, 4096)
	def(&l.MaxRetired, 1024)
	def(&l.MaxPeerMemory, 256<<20)
	return l
}
