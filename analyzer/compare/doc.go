// Package compare finds what changed from one Report to another, by call site. It is data
// and arithmetic: analyzer/export measures the Reports, analyzer/render writes the result.
//
//	figure.go   what is compared, and what a Report has of it
//	delta.go    before, after, and what of the change is growth
//	compare.go  two Reports, and what changed from one to the other
//	match.go    which sites of both are one
//	row.go      a row of the result, and the first rows
//	caution.go  what keeps two Reports from being compared as they stand
//
// Sites match by their fingerprints (report.Site.Fingerprint), so across processes and builds. What
// grew is never set off against what shrank: a row of several sites has both sums. Sizes are bytes.
//
// Everything here is a pure function of its arguments. A Diff points into the Reports, which must not
// change meanwhile.
package compare
