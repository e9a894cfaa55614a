package channel

// Stats counts what a peer did and met since it started. Counters only rise;
// gauges, named as such, are the present value.
type Stats struct {
	FramesIn, FramesOut [7]uint64 // by type, from DISCO_QUERY on; written, for what goes out
	ErrorsOut           [8]uint64 // DISCO_ERROR sent, by code
	ErrorsIn            [8]uint64 // DISCO_ERROR received, by code; 0 holds all others

	// Dropped without a reply.
	Unadvertised      uint64 // channel not advertised by us, or a request that the peer's side makes unanswerable (§2)
	UnknownType       uint64 // no Discovery type [C33]
	CriticalTLV       uint64 // unknown critical TLV (core §4.4)
	BridgeOnDiscovery uint64 // foreign traffic on the channel (§2, [C45])
	Disabled          uint64 // discovery is off for this peer, and the type takes no reply
	Malformed         uint64 // payloads refused with MalformedPayload or KindMismatch, answered or not
	DuplicateCorr     uint64 // request under a corr that is in use [C21]
	AbsorbedFollowUps uint64 // follow-ups of a chain whose pages are pushed [C21]
	Late              uint64 // reply or UPDATE for a corr that was retired [C23]
	Bogus             uint64 // for a corr that never was
	UncorrelatedError uint64 // DISCO_ERROR without corr received
	EarlyUpdate       uint64 // UPDATE before the first RESULT of its subscription [C15]
	EmptyUpdate       uint64 // UPDATE with nothing in it (§7.2)
	Overbroad         uint64 // records outside the filter that was asked for [C40]
	IdleUnsubscribe   uint64 // UNSUBSCRIBE that names no subscription (§7.3)
	AnnounceCorr      uint64 // ANNOUNCE with a corr, used nevertheless [C25]
	AnnounceRefused   uint64 // announced records that found no room

	UntoldAnnouncements uint64 // that found no room to wait for Config.OnAnnounce

	// Refused with a code.
	RateLimited  uint64 // over QueryRate or PageRate [C20]
	Overloaded   uint64 // over MaxUnanswered
	StaleCursors uint64
	SubsRefused  uint64

	SuppressedErrors uint64 // errors without corr not sent, over UncorrelatedErrors

	// Records learned.
	Skipped          uint64 // of unknown kind [C9]
	StaleRevision    uint64 // at or below the revision held (§8)
	RevisionConflict uint64 // same revision, other contents [C18]
	DuplicateRecord  uint64 // twice in a frame, or added and withdrawn [C19]

	Restarts     uint64 // enumerations begun again after a stale cursor
	Resyncs      uint64 // subscriptions begun again after an unreadable UPDATE [C36]
	Pulls        uint64 // pages asked for because none was pushed in time
	MergedEvents uint64 // events merged because a callback is slow

	// Gauges.
	Outstanding   int  // own requests without an answer
	Unanswered    int  // the peer's requests without an answer
	Subscriptions int  // the peer's, with us
	Own           int  // ours, with the peer
	Snapshots     int  // kept for cursors
	Unsent        int  // frames that wait for the link, UPDATEs not counted
	Cached        int  // records in the shared cache
	Memory        int  // octets held for the peer, roughly
	Pusher        bool // the peer pushes the pages of a listing [C1]
}
