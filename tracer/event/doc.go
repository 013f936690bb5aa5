// Package event holds the decoded events of a trace and the small types in
// them. It is a leaf: it imports nothing of memtrace, so that the tracer that
// makes events, the recording that stores them and the analyzer that consumes
// them agree without depending on each other.
package event
