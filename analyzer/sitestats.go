package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/tracer/event"
)

// A siteID numbers the sites of an Analyzer, across its processes, from 0.
// It fits in 24 bits, because each live block carries one.
type siteID uint32

const (
	siteBits = 24
	maxSites = 1 << siteBits
)

// A site is the state of one call site: all blocks of one process image with
// one stack. Its first 64 bytes are what events change.
//
// At all times allocCount + inherited == freeCount + gone + liveCount.
type site struct {
	liveBytes  uint64
	liveCount  uint64
	allocBytes uint64 // of Alloc events and reallocs that returned a block
	allocCount uint64
	freeCount  uint64 // frees, reallocs that took a block, overwritten blocks
	tempCount  uint64 // part of freeCount
	peakBytes  uint64
	faults     uint64

	lifetimes stats.Histogram // stats.DurationBucket of each freed block's lifetime (overwritten blocks: until the overwrite, an upper bound)
	sizes     stats.Histogram // stats.BucketOf of each allocated block's size
	live      *liveStats
	extras    *extras // of a sample; nil where all blocks were seen
	reported  uint64  // held() at the last Instant
	grown     int64   // until then, since the one before
	gone      uint64  // blocks that ended with their image, at exec
	inherited uint64  // blocks that a forked process began with
	stack     event.StackID
	proc      *process
	image     *image
	other     bool // stands for all sites beyond maxSites
}

// liveStats is what is known of a site only while it has, or lately had, live
// blocks; sites that are dead do without it. Its ages are those of the last
// pass over the live blocks (Analyzer.visitBlocks), which each Report makes
// before it asks for leak candidates.
type liveStats struct {
	windows  series          // live bytes and blocks at the end of each window (input.Window)
	ages     stats.Histogram // live blocks by stats.DurationBucket of their age
	ageBytes stats.Histogram // live bytes by stats.DurationBucket of their age
	oldest   uint64          // when the oldest live block was allocated, ns since Config.Start
	pages    sitePages
	doubtful sample // live blocks whose free may not have been seen
	walked   sample // live blocks at the last walk, where frees are not seen
}

// sitePages are the bytes of a site's live blocks whose page is resident,
// was never touched, or is swapped out, from the last residency pass.
type sitePages struct {
	resident, untouched, swapped uint64
}
