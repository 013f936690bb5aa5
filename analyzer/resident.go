//go:build linux && !viewer

package analyzer

import (
	"math/bits"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// Blocks calls yield for the live blocks of a process, in any order, until
// yield returns false: first address, size in bytes, number of the site.
// Blocks don't overlap.
type Blocks func(yield func(addr, size uint64, site uint32) bool)

// Residence is where the memory of a process is, at one instant as nearly as
// the kernel can tell: docs/accounting.md says how near.
type Residence struct {
	Usage report.Usage // but SampledNS
	RSSBy report.RSSBy // adds up to Usage.RSS
	// Traced is the part of RSSBy.AnonMmap that the program was seen to map.
	Traced uint64
	// Blocks sums all live blocks, Sites those of each site by its number.
	// Sites is valid until the next Measure.
	Blocks SiteMemory
	Sites  []SiteMemory
	// StacksNotFound is how many threads' stacks are not in RSSBy.Stack, but
	// in AnonMmap: see threadStacks.
	StacksNotFound int
	// Unmeasured is resident memory that holds live blocks, but whose page
	// states are more than is kept in memory (AnonMmap and the like hold it).
	Unmeasured uint64
	// ReadTime is how long /proc was read: the target's mmap lock was held
	// for about as long. See Pace.
	ReadTime time.Duration
}

// Residency correlates live blocks with the pages of one process. It keeps
// its buffers, and which mappings were seen to be heap, from one Measure to
// the next. The zero value is ready.
type Residency struct {
	layout layout
	pages  pageStates
	stacks threadStacks
	sites  []SiteMemory
	total  SiteMemory
	work   uint64 // chunks that blocks may still span; see spend
	p      *procfs.Process
	source pageSource
	failed error
	read   time.Duration
	last   int // the span of the block before
	// touched, if not nil, compares touched pages with those that are there.
	touched *touchReader
}

// A pageSource tells the states of pages; *procfs.Pagemap is one.
type pageSource interface {
	Runs(start, end uint64, fn func(start, end uint64, state procfs.PageState)) error
	Close() error
}

// Measure reads smaps, smaps_rollup and the page states of the heap, and
// passes over the blocks once. sites is one more than the greatest number of
// a site; blocks of greater ones count in the sum only. base is the memory
// from before the attach; nil means that all blocks were seen. Measure
// forgets what of base has been unmapped since. It fails with procfs.ErrGone
// where the process ended meanwhile.
func (r *Residency) Measure(p *procfs.Process, base *Baseline, sites int, blocks Blocks) (Residence, error) {
	r.begin(p, sites)
	defer r.end()
	began := time.Now()
	r.layout.statics.p = p
	err := r.layout.load(p.Smaps, base)
	if err != nil {
		return Residence{}, err
	}
	rollup, err := p.SmapsRollup()
	r.read = time.Since(began)
	if err != nil {
		return Residence{}, err
	}
	missing := r.stacks.mark(p, &r.layout)
	if blocks(r.block); r.failed != nil {
		return Residence{}, r.failed
	}
	if err := r.readSplit(); err != nil {
		return Residence{}, err
	}
	if err := r.readTouched(); err != nil {
		return Residence{}, err
	}
	out := Residence{Usage: r.layout.usage(), Blocks: r.total, Sites: r.sites, ReadTime: r.read, StacksNotFound: missing}
	out.Usage.PSS = min(rollup.Pss, out.Usage.RSS) // a later instant, at which RSS may be greater
	out.RSSBy, out.Traced, out.Unmeasured = r.layout.split(&r.pages)
	r.layout.measureRegions(&r.pages)
	r.layout.remember()
	base.keepOnly(r.layout.mappings)
	return out, nil
}

func (r *Residency) begin(p *procfs.Process, sites int) {
	r.p, r.failed, r.last, r.total = p, nil, 0, SiteMemory{}
	if cap(r.sites) < sites {
		r.sites = make([]SiteMemory, sites+sites/4)
	}
	r.sites = r.sites[:sites]
	clear(r.sites)
	r.pages.reset()
	r.work = maxWork
}

func (r *Residency) end() {
	if r.source != nil {
		_ = r.source.Close()
	}
	r.p, r.source, r.layout.statics.p = nil, nil, nil
}

// block accounts for one block.
func (r *Residency) block(addr, size uint64, site uint32) bool {
	end := addr + size
	if end < addr {
		end = 1<<64 - 1
	}
	var sum SiteMemory
	for at := addr; at < end; {
		s, to := r.locate(at, end)
		if s == nil {
			sum.Unknown += to - at
		} else if !r.part(s, at, to, &sum) {
			return false
		}
		at = to
	}
	r.total.add(sum)
	if int(site) < len(r.sites) {
		r.sites[site].add(sum)
	}
	return true
}

// locate returns the span that holds the address at, or nil where it is
// unmapped, and the end of the part of the block that this is true for.
func (r *Residency) locate(at, end uint64) (*span, uint64) {
	l := &r.layout
	if r.last >= len(l.spans) || at < l.starts[r.last] || at >= l.spans[r.last].end {
		i := l.find(at)
		if i < 0 || at >= l.spans[i].end {
			if i+1 < len(l.spans) {
				end = min(end, l.starts[i+1])
			}
			return nil, end
		}
		r.last = i
	}
	s := &l.spans[r.last]
	return s, min(end, s.end)
}

// part accounts for the part of a block from lo to hi, which lies in s. It
// returns false where the page states could not be read.
func (r *Residency) part(s *span, lo, hi uint64, sum *SiteMemory) bool {
	m := &r.layout.mappings[s.mapping]
	m.blocks, s.blocks = true, true
	if m.pages == pagesUnread {
		if r.failed = r.readPages(m); r.failed != nil {
			return false
		}
	}
	if m.pages == pagesUnknown || !r.spend(lo, hi) {
		sum.Unknown += hi - lo
		return true
	}
	resident, swapped := r.pages.count(m, lo, hi)
	s.live += resident
	sum.Resident += resident
	sum.Swapped += swapped
	sum.Untouched += hi - lo - resident - swapped
	return true
}

// maxWork bounds how many chunks all blocks together may span. Blocks don't
// overlap, so that real ones span no more than there are; a target that
// fakes an allocator must not keep memtrace busy for ever.
const maxWork = 4 * maxChunkTable

func (r *Residency) spend(lo, hi uint64) bool {
	chunks := (hi - lo) >> chunkShift
	if chunks > r.work {
		return false
	}
	r.work -= chunks
	return true
}

// readPages reads the page states of a mapping; none where it has none.
func (r *Residency) readPages(m *mapping) error {
	if m.rss|m.swap|m.hugetlb == 0 {
		m.pages = pagesNone
		return nil
	}
	if !r.pages.reserve(m) {
		return nil
	}
	began := time.Now()
	defer func() { r.read += time.Since(began) }()
	if r.source == nil {
		source, err := r.p.OpenPagemap()
		if err != nil {
			return err
		}
		r.source = source
	}
	return r.pages.fill(m, r.source)
}

// readSplit reads the page states of heap that no block led to, but that
// lies partly in the baseline, so that its rest can be told apart; those of mappings that a runtime has a part of; those of memory
// of which a file's static data is but the beginning; and those of
// mappings that several call sites mapped, or that were not seen as a whole.
func (r *Residency) readSplit() error {
	for i := range r.layout.mappings {
		m := &r.layout.mappings[i]
		if ((m.isHeap() || m.regions || m.parts) && m.spans > 1 || m.static != 0) && m.pages == pagesUnread {
			if err := r.readPages(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// proportion returns n × part / (part + rest), rounded down; 0 where both are 0.
func proportion(n, part, rest uint64) uint64 {
	whole := part + rest
	if whole == 0 {
		return 0
	}
	hi, lo := bits.Mul64(n, part)
	if hi >= whole {
		return n // cannot be: part ≤ whole; but bits.Div64 panics
	}
	q, _ := bits.Div64(hi, lo, whole)
	return q
}
