//go:build linux && !viewer

package analyzer

import (
	"math/bits"
	"os"

	"github.com/memtrace/memtrace/procfs"
)

// Page states are kept as bits, two a page, in chunks of 512 pages (2 MiB
// with 4 KiB pages) of eight words "present" and eight words "swapped":
//
//	mapping -> table (a number for each chunk) -> words
//
// Chunk 0 is all zero and stands for every chunk that has nothing in it, so
// that a sparse mapping costs two bytes a megabyte.

const (
	chunkPages = 512
	chunkWords = chunkPages / 64
)

var (
	pageShift  = uint(bits.TrailingZeros(uint(os.Getpagesize())))
	pageBytes  = uint64(1) << pageShift
	chunkShift = pageShift + 9
)

// Limits of what is kept: 64 MiB of tables (32 TiB of address space) and
// 128 MiB of chunks (2 TiB of resident memory with 4 KiB pages).
const (
	maxChunkTable = 16 << 20
	maxChunks     = 1 << 20
)

type pageStates struct {
	table  []uint32
	words  []uint64
	m      *mapping // the one that fill is filling
	failed bool
	setRun func(start, end uint64, state procfs.PageState)
}

// reset forgets all states and keeps the memory.
func (s *pageStates) reset() {
	s.table = s.table[:0]
	if cap(s.words) < 2*chunkWords {
		s.words = make([]uint64, 0, 64*2*chunkWords)
	}
	s.words = s.words[:2*chunkWords]
	clear(s.words)
}

// reserve makes room in the table for m; without room, m's pages stay unknown.
func (s *pageStates) reserve(m *mapping) bool {
	first, last := m.start>>chunkShift, (m.end-1)>>chunkShift
	n := last - first + 1
	if n > maxChunkTable-uint64(len(s.table)) {
		m.pages = pagesUnknown
		return false
	}
	m.firstChunk, m.table = first, len(s.table)
	for range n {
		s.table = append(s.table, 0)
	}
	return true
}

// fill reads m's page states. m has room in the table.
func (s *pageStates) fill(m *mapping, from pageSource) error {
	if s.setRun == nil {
		s.setRun = s.set
	}
	s.m, s.failed = m, false
	err := from.Runs(m.start, m.end, s.setRun)
	s.m = nil
	switch {
	case err != nil:
		return err
	case s.failed:
		m.pages = pagesUnknown
	default:
		m.pages = pagesKnown
	}
	return nil
}

// set notes the state of the pages from start to end.
func (s *pageStates) set(start, end uint64, state procfs.PageState) {
	page, last := max(start, s.m.start)>>pageShift, (min(end, s.m.end)-1)>>pageShift
	for page <= last && !s.failed {
		words := s.chunk(page / chunkPages)
		if state&procfs.PagePresent == 0 {
			words += chunkWords
		}
		to := min(last, page|(chunkPages-1))
		for page <= to {
			upto := min(to, page|63)
			s.words[words+int(page%chunkPages/64)] |= maskOf(page, upto)
			page = upto + 1
		}
	}
}

// maskOf returns a word with the bits of the pages first to last, which are of one word.
func maskOf(first, last uint64) uint64 {
	return ^uint64(0) << (first & 63) & (^uint64(0) >> (63 - last&63))
}

// chunk returns where the words of a chunk are, and makes room for them.
func (s *pageStates) chunk(number uint64) int {
	entry := &s.table[s.m.table+int(number-s.m.firstChunk)]
	if *entry == 0 {
		n := len(s.words) / (2 * chunkWords)
		if n >= maxChunks {
			s.failed = true
			return 0
		}
		*entry = uint32(n)
		var zero [2 * chunkWords]uint64
		s.words = append(s.words, zero[:]...)
	}
	return int(*entry) * 2 * chunkWords
}

// count returns how many bytes from lo to hi, which are in m and not empty,
// are resident and swapped.
func (s *pageStates) count(m *mapping, lo, hi uint64) (resident, swapped uint64) {
	if m.pages != pagesKnown {
		return 0, 0
	}
	first, last := lo>>pageShift, (hi-1)>>pageShift
	if first == last {
		present, swap := s.page(m, first)
		return present * (hi - lo), swap * (hi - lo)
	}
	resident, swapped = s.countPages(m, first, last)
	// Take off what of the first and of the last page lies outside.
	before, behind := lo&(pageBytes-1), -hi&(pageBytes-1)
	present, swap := s.page(m, first)
	presentLast, swapLast := s.page(m, last)
	return resident<<pageShift - present*before - presentLast*behind,
		swapped<<pageShift - swap*before - swapLast*behind
}

// page returns 1 for each state that the page has, 0 else.
func (s *pageStates) page(m *mapping, page uint64) (present, swapped uint64) {
	words := int(s.table[m.table+int(page/chunkPages-m.firstChunk)]) * 2 * chunkWords
	words += int(page % chunkPages / 64)
	return s.words[words] >> (page & 63) & 1, s.words[words+chunkWords] >> (page & 63) & 1
}

// countPages counts the pages first to last, 64 at a time.
func (s *pageStates) countPages(m *mapping, first, last uint64) (present, swapped uint64) {
	for page := first; page <= last; {
		to := min(last, page|(chunkPages-1))
		words := int(s.table[m.table+int(page/chunkPages-m.firstChunk)]) * 2 * chunkWords
		if words == 0 {
			page = to + 1
			continue
		}
		for page <= to {
			upto := min(to, page|63)
			mask, word := maskOf(page, upto), words+int(page%chunkPages/64)
			present += uint64(bits.OnesCount64(s.words[word] & mask))
			swapped += uint64(bits.OnesCount64(s.words[word+chunkWords] & mask))
			page = upto + 1
		}
	}
	return present, swapped
}
