// Package matrix arranges a snapshot as a table of processes and the
// components that hold their memory, and compares two snapshots.
//
// Everything here is a pure function of its arguments. The tables point into
// the snapshots that they are made of, which must not change meanwhile. Sizes
// are bytes. Sums cannot overflow: snapshot.Read bounds what goes into them.
package matrix
