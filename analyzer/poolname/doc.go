// Package poolname reads what a running process calls its pools, such as
// PostgreSQL's memory contexts, from its memory. All of it is untrusted: a name
// is at most 64 bytes of printable text, and what cannot be read is no name.
// A Reader may be used concurrently.
package poolname
