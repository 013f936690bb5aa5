package unwind

import (
	"errors"
	"fmt"
)

// Limits on what a file may make us hold and do. The largest files that are known, of 8 MB of call frame information
// (LLVM, rustc), need a sixth of them.
const (
	maxSection = 64 << 20  // of call frame information in all, uncompressed
	maxRatio   = 32        // to which a section may be compressed: what compilers make is to a quarter
	maxBuild   = 128 << 20 // bytes in which a file's functions and rows are sorted
	largeBuild = 48 << 20  // bytes of it that are given back at once
	maxSteps   = 8 << 20   // rows that are looked at
	maxText    = 1 << 30   // of all code that has rows
	maxRules   = 4096      // that differ
	maxCIEs    = 512 << 10 // one a source file in .debug_frame
	maxLeads   = 4096      // that differ
)

// What a function and a row take while tables are made: as they are read, and once more as they are merged.
const (
	spanCost = 24 + 2*16
	rowCost  = 8 + 16
)

// ErrTooMuch means that a file asks for more than the limits.
var ErrTooMuch = errors.New("more call frame information than is taken from one file")

// spend takes n bytes of a build's memory; false: there are none left.
func (r *rows) spend(n int) bool {
	if r.cost+n > maxBuild {
		r.full = true
		return false
	}
	r.cost += n
	return true
}

// step takes one of a build's steps.
func (r *rows) step() bool {
	r.steps++
	r.full = r.full || r.steps > maxSteps
	return !r.full
}

// err says whether all of the file was read.
func (r *rows) err() error {
	if r.full {
		return fmt.Errorf("%w: its functions and rows take more than %d MiB, or %d steps", ErrTooMuch, maxBuild>>20, maxSteps)
	}
	return nil
}
