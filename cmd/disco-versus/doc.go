// Disco-versus measures this library beside what one would use today in its
// place, and beside the floor, in one run: it prints one table and a verdict on
// each bound.
//
//	go run . > table.md                # all, medians of 21 rounds; RESULTS.md is such a run
//	go run . -only list,call -passes 5 # some, quickly
//	go run . -scale                    # how cost grows, and where it bends
//
// It is a module of its own, so that nobody who imports the library meets etcd,
// NATS, Envoy or MCP. The first build compiles them: minutes on two cores.
//
// # How it measures
//
// Each contender has a process of its own, in which its server and its clients
// run; all of them live at the same time, with the same number of processors,
// and do a case in turns: a round each, then the next round. A round starts from
// a collected heap, and one that is due for a contender whose rounds have taken
// more than -patience is left out, from the sixth on. Figures are medians of the
// rounds; the spread is the distance of their quartiles in percent of the
// median. Ratios are medians of the ratios round by round.
//
// All traffic stays on 127.0.0.1, over TLS 1.3 with a P-256 certificate, but for
// the floor. Ours has the N-PAMP handshake and its own sealing besides.
//
//   - list: a connected client reads all records. Each is decoded and checked:
//     by this library where octets are stored, by the contender's own types else.
//     The set is the same in all rounds, which this library recognises: "disco
//     uncached" is for what it takes where a listing brings nothing known.
//   - fan-out: the clock starts before the change and stops in each subscriber's
//     callback. A delivery is an UPDATE frame that reached a callback. The
//     sustained rate is that of changes published back to back, or one after
//     another where the contender merges them (MCP, xDS).
//   - memory: live heap and stacks of both ends, collected before and after.
package main
