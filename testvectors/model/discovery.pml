/* The corr, subscription and paging state machine of package channel, for two
   peers, each requester and responder at once, over one ordered link each way.
   States bear the names of the code: answering, subs, phaseAsked, phaseSnapshot,
   phaseLive, phaseStale, phaseEnded. README.md says what is checked and how. */

#ifndef CHANGES
#define CHANGES 2	/* of each peer's set */
#endif
#ifndef LISTINGS
#define LISTINGS 1	/* that each peer starts */
#endif
#ifndef SUBSCRIPTIONS
#define SUBSCRIPTIONS 1
#endif
#ifndef RECOVER
#define RECOVER 1	/* a stale cursor restarts, an unreadable UPDATE begins anew, once each */
#endif
#ifndef ROLES
#define ROLES 2		/* 1: peer 0 only asks, peer 1 only answers */
#endif
#define CORRS 4		/* a peer's own, never used twice: listing, its restart, subscription, its resync */
#define PAGES 2		/* of every listing and snapshot */

mtype = { QUERY, RESULT, ERROR, SUBSCRIBE, UPDATE, UNSUBSCRIBE };
mtype = { free, listing, subscription, retired };			/* what an own corr is */
mtype = { phaseAsked, phaseSnapshot, phaseLive, phaseStale, phaseEnded };

/* A frame: type, corr; complete, for RESULT, or the page asked for, for QUERY;
   the version of the set that it shows. */
chan link0 = [1] of { mtype, byte, byte, byte };	/* to peer 0 */
chan link1 = [1] of { mtype, byte, byte, byte };
chan out0 = [8] of { mtype, byte, byte, byte };		/* Peer.out: replies and requests, in order */
chan out1 = [8] of { mtype, byte, byte, byte };

/* Read by the checker. */
byte version[2];		/* of each peer's set */
mtype wire[2];			/* phase of each peer's subscription */
byte view[2];			/* version that it shows */
bool pending[2];		/* a listing has neither come to its end nor failed */
bool subscribed[2];		/* at the responder: it is kept for the other peer */

proctype Peer(byte me; chan in; chan link; chan out) {
	/* As requester. */
	mtype own[CORRS] = free;
	byte next;			/* nextCorr */
	byte started, follows;
	byte lcorr, scorr;		/* of the listing and of the subscription */
	bool restarted, resynced, damaged;
	/* As responder. */
	bool answering[CORRS];
	byte subs[CORRS];		/* pages of the snapshot still to send, plus one; 0: no subscription */
	bool unacknowledged[CORRS], cancelled[CORRS];
	byte told[CORRS], snap[CORRS];
	bool gone[CORRS];		/* UNSUBSCRIBE was processed: nothing but the acknowledgement may follow */
	byte changes;
	bool dropped;			/* the snapshots of listings are gone */
	/* A frame at hand. */
	mtype t;
	byte c, arg, v;

	bool patient;			/* this user gives nothing up: else giving up would cure every stall */

	wire[me] = phaseEnded;
	if
	:: patient = true
	:: patient = false
	fi;
end:
	do
	/* The user asks. */
	:: atomic { me < ROLES && started < LISTINGS ->
		started++; lcorr = next; next++;
		assert(own[lcorr] == free);
		own[lcorr] = listing; pending[me] = true;
		out!QUERY, lcorr, 0, 0 }
	:: atomic { me < ROLES && follows < SUBSCRIPTIONS ->
		follows++; scorr = next; next++;
		assert(own[scorr] == free);
		own[scorr] = subscription; wire[me] = phaseAsked; view[me] = 0;
		out!SUBSCRIBE, scorr, 0, 0 }
	/* The user gives up: a listing locally, a subscription with UNSUBSCRIBE. */
	:: atomic { !patient && pending[me] && own[lcorr] == listing ->
		own[lcorr] = retired; pending[me] = false }
	:: atomic { !patient && wire[me] != phaseEnded && wire[me] != phaseStale && own[scorr] == subscription ->
		own[scorr] = retired; wire[me] = phaseEnded;
		out!UNSUBSCRIBE, scorr, 0, 0 }
	/* The timer of a stale subscription. */
	:: atomic { wire[me] == phaseStale ->
		scorr = next; next++;
		own[scorr] = subscription; wire[me] = phaseAsked; view[me] = 0;
		out!SUBSCRIBE, scorr, 0, 0 }
	/* The set changes; a listing's snapshots are evicted. */
	:: atomic { changes < CHANGES && (ROLES == 2 || me == 1) -> changes++; version[me]++ }
	:: atomic { !dropped && RECOVER && (ROLES == 2 || me == 1) -> dropped = true }

	/* The writer: what waits in order, then the subscriptions, when there is room. */
	:: atomic { nempty(out) && nfull(link) ->
		out?t, c, arg, v;
		if
		:: t == RESULT || t == ERROR ->
			if
			:: answering[c] -> answering[c] = false
			:: else -> assert(t == ERROR && subs[c] == 0)	/* a refused SUBSCRIBE */
			fi
		:: t == QUERY || t == SUBSCRIBE ->
			if
			:: own[c] == retired -> goto sent		/* request.frame: its exchange has ended */
			:: else
			fi
		:: else
		fi;
		link!t, c, arg, v;
sent:		t = 0; c = 0; arg = 0; v = 0 }
	:: atomic { empty(out) && nfull(link) && (subs[0] > 1 || subs[1] > 1 || subs[2] > 1 || subs[3] > 1) ->
		if
		:: subs[0] > 1 -> c = 0
		:: subs[1] > 1 -> c = 1
		:: subs[2] > 1 -> c = 2
		:: subs[3] > 1 -> c = 3
		fi;
		subs[c]--;
		assert(!cancelled[c] || unacknowledged[c]);
		unacknowledged[c] = false;
		link!RESULT, c, (subs[c] == 1), snap[c];
		if
		:: cancelled[c] -> subs[c] = 0; cancelled[c] = false
		:: else
		fi;
		c = 0 }
	:: atomic { empty(out) && nfull(link) && (
			(subs[0] == 1 && told[0] < version[me]) || (subs[1] == 1 && told[1] < version[me]) ||
			(subs[2] == 1 && told[2] < version[me]) || (subs[3] == 1 && told[3] < version[me])) ->
		if
		:: subs[0] == 1 && told[0] < version[me] -> c = 0
		:: subs[1] == 1 && told[1] < version[me] -> c = 1
		:: subs[2] == 1 && told[2] < version[me] -> c = 2
		:: subs[3] == 1 && told[3] < version[me] -> c = 3
		fi;
		if
		:: told[c]++			/* one UPDATE a change */
		:: told[c] = version[me]	/* or all that wait merged */
		fi;
		assert(!gone[c]);
		link!UPDATE, c, 0, told[c];
		c = 0 }

	/* The reader: waits for nothing but a frame. */
	:: atomic { in?t, c, arg, v ->
		if
		:: t == QUERY ->
			assert(!answering[c]);			/* our requester reuses no corr that is out */
			assert(nfull(out));			/* the reader never waits for the writer */
			if
			:: subs[c] > 0 -> skip			/* duplicate_corr: dropped */
			:: subs[c] == 0 && arg > 0 && dropped -> answering[c] = true; out!ERROR, c, 5, 0
			:: subs[c] == 0 && (arg == 0 || !dropped) -> answering[c] = true; out!RESULT, c, (arg + 1 == PAGES), version[me]
			fi
		:: t == SUBSCRIBE ->
			assert(nfull(out));
			if
			:: answering[c] || subs[c] > 0 -> assert(false)
			:: !(answering[c] || subs[c] > 0) ->	/* registration and snapshot are one step */
				subs[c] = PAGES + 1; snap[c] = version[me]; told[c] = version[me];
				unacknowledged[c] = true; cancelled[c] = false
			:: !(answering[c] || subs[c] > 0) -> out!ERROR, c, 6, 0
			fi
		:: t == UNSUBSCRIBE ->
			gone[c] = true;
			if
			:: subs[c] == 0				/* ignored: no such subscription */
			:: subs[c] > 0 && unacknowledged[c] -> cancelled[c] = true
			:: subs[c] > 0 && !unacknowledged[c] -> subs[c] = 0
			fi
		:: t == RESULT ->
			if
			:: own[c] == listing ->
				if
				:: arg -> own[c] = retired; pending[me] = false
				:: else -> assert(nfull(out)); out!QUERY, c, 1, 0	/* the follow-up, same corr */
				fi
			:: own[c] == subscription ->
				assert(wire[me] == phaseAsked || wire[me] == phaseSnapshot);
				assert(v >= view[me]);
				view[me] = v;
				if
				:: arg -> wire[me] = phaseLive
				:: else -> wire[me] = phaseSnapshot
				fi
			:: own[c] == retired			/* late */
			:: own[c] == free -> assert(false)	/* bogus: nobody sends that */
			fi
		:: t == ERROR ->
			if
			:: own[c] == listing && arg == 5 && !restarted ->
				own[c] = retired; restarted = true;
				lcorr = next; next++;
				own[lcorr] = listing;
				assert(nfull(out)); out!QUERY, lcorr, 0, 0
			:: own[c] == listing && !(arg == 5 && !restarted) -> own[c] = retired; pending[me] = false
			:: own[c] == subscription ->
				assert(wire[me] == phaseAsked);	/* our responder never ends a live one */
				own[c] = retired; wire[me] = phaseEnded
			:: own[c] == retired
			:: own[c] == free -> assert(false)
			fi
		:: t == UPDATE ->
			if
			:: own[c] == subscription ->
				assert(wire[me] == phaseLive);	/* never before the true page */
				assert(v > view[me]);		/* revisions never go back, nothing empty */
				if
				:: view[me] = v
				:: RECOVER && !resynced ->		/* it cannot be read */
					resynced = true; own[c] = retired; wire[me] = phaseStale;
					assert(nfull(out)); out!UNSUBSCRIBE, c, 0, 0
				fi
			:: own[c] == retired
			:: else -> assert(false)
			fi
		fi;
		subscribed[me] = (subs[0] > 0 || subs[1] > 0 || subs[2] > 0 || subs[3] > 0);
		t = 0; c = 0; arg = 0; v = 0 }
	od
}

/* When nothing moves any more: every request has ended, and a live view is the
   other peer's set. */
proctype Quiet() {
end:	timeout ->
	assert(!pending[0] && !pending[1]);
	assert(wire[0] == phaseLive || wire[0] == phaseEnded);
	assert(wire[1] == phaseLive || wire[1] == phaseEnded);
	assert(wire[0] != phaseLive || view[0] == version[1]);
	assert(wire[1] != phaseLive || view[1] == version[0]);
	assert(empty(link0) && empty(link1) && empty(out0) && empty(out1))
}

init {
	atomic {
		run Peer(0, link0, link1, out0);
		run Peer(1, link1, link0, out1);
		run Quiet()
	}
}
