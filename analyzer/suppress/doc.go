// Package suppress keeps leaks that are known out of a Report. It reads and
// writes the files of LeakSanitizer and of Valgrind, which may stand in one.
//
//	suppress.go  parses a file, and takes out of a Report what it names
//	match.go     matches a suppression with a stack as its tool does
//	write.go     writes what suppresses the leaks of a Report from the next run on
//
// Files may come from the traced program itself: the number of suppressions and
// the work to match one are bounded. A List is used from one goroutine.
package suppress
