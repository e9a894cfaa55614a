// Package fuzz holds the fuzz targets that reach across packages, and their
// corpora. There is one for each payload parser, one for the frame reader, and
// one for each property of what is built on them. The seeds are the golden
// vectors. Run one with
//
//	go test -fuzz '^FuzzQuery$' ./fuzz
//
// or each of them in turn with make fuzz FUZZTIME=1m. Here too is the test of which
// package may import which.
package fuzz
