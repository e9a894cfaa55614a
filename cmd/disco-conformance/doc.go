// Command disco-conformance holds this module's tests against the requirement
// ledger: which clause of NPAMP-DISC §11 has which rows, which tests prove them,
// and how those went.
//
// The rows are in testvectors/requirements.json: their number, level, side,
// priority and clauses, and none of their prose. P0 rows are what §11 asks for,
// P1 rows what it takes to reach a peer at all, P2 rows the rest. The clauses of
// a row are those of the ledger's own trace, DISC-11-01; a row that this trace
// leaves out stands under the clause whose text cites its section, and under
// none where no clause does. A row with "unmet" cannot be met, for the reason
// given there, and never counts as passed, whatever tests it has.
//
// A test names its rows in its doc comment, on lines of the form
//
//	// Covers: DISC-4.1-06, C12
//
// Beside rows it may name what the ledger calls otherwise, such as the decision
// C12 or the failure F05: the labels of requirements.json. A name that is
// neither is an error, and so is such a line anywhere but directly above a Test,
// Fuzz or Example function: it would count for nothing and look as if it did.
//
// The states of a row:
//
//	pass     at least one of its tests passed, and none failed
//	fail     one of its tests failed
//	skip     none ran to its end; the reason is shown
//	not run  none of its tests is in the results
//	no test  no test names it
//	unmet    it cannot be met
//
// Subtests count under their test: one of which every subtest was skipped was
// skipped, one of which some were is passed with a remark. Where a package fails
// although its tests pass, as for a goroutine left behind, they count as failed.
//
// The matrix goes to standard output, and to testvectors/conformance.json (-o):
// neither has a time or a place in it, so that the same results give the same
// octets. Without -results the tests are run, by "go test -json ./...".
//
// The exit status is 0 where every P0 and P1 row passed, 1 where one did not, and
// 2 where it could not be told.
package main
