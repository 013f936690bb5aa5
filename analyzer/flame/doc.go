// Package flame makes flame graphs of call stacks for a page: as much of the tree as can be seen, with the sums of all.
//
//	flame.go  a tree of stacks, and which stacks go into it
//	shown.go  what of the tree a page is sent
//
// Names are those of analyzer/export, so safe to print. A Picture may be used by several goroutines.
package flame
