// Command disco-probe looks at, tests and debugs the N-PAMP Discovery channel
// (0x0010, NPAMP-DISC) of any peer.
//
// Standard output carries data and nothing else; what is said to people goes to
// standard error, each line behind "disco-probe:". Text that came from a peer or
// a file is never written to a terminal as it is: see render.go. JSON output is
// one object a document (-o json) or a line (-o ndjson), each with "v":1.
//
// The exit status says how it went:
//
//	0    complete, also when standard output was closed by its reader
//	1    local failure: a port, a disk, a bug
//	2    usage, or an input file that does not read
//	3    cannot connect or authenticate, or the association is lost
//	4    DISCO_ERROR from the peer
//	5    incomplete; with --strict also partial or skipped
//	6    timeout
//	7    the octets or the peer break the protocol
//	130  interrupted
//
// The command uses the library's public API only.
package main
