// Package timeline sums up the course of a trace for a picture: memory by what it is, the live heap, what is allocated
// and freed, page faults, what happened and what was not seen. It has as many steps as the picture, never the events.
//
//	timeline.go  Make plays a trace
//	collect.go   what its inputs tell
//
// Times are ns since the trace began, sizes bytes.
package timeline
