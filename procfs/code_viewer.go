//go:build !linux || viewer

package procfs

// Code is there for what is built with a viewer's tests, and has no processes to list.
func Code(string, func(*VMA) bool) (any bool, err error) { return false, ErrNotSupported }

// CodeFrom is like Code.
func CodeFrom(string, uint64, func(*VMA) bool) error { return ErrNotSupported }
