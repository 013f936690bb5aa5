// Package trace is the live screen of a trace: what holds the processes'
// memory, which call sites grow, and what to look at first.
//
// A Screen is given Reports and keys and draws lines; it touches no terminal,
// reads no clock of its own and is for one goroutine. A Terminal runs one on a real
// terminal: its Show may be called from any goroutine and waits for nothing, so that
// a trace goes on while the terminal is slow, stopped or gone.
//
//	screen.go    the Screen: its state, and its lines
//	head.go      what is traced, RSS by kind, the heap
//	verdict.go   what to look at, in one line
//	lists.go     the rows of each view
//	filter.go    the words of the filter
//	page.go      all that is known of a site, a process, a region
//	history.go   what sites held at the Reports before
//	keys.go      what each key does
//	help.go      the help page
//	terminal.go  a Screen on a terminal
//	output.go    writing to a terminal that may take its time
package trace
