package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/tracer/event"
)

// A Sample is told which blocks of the trace's sample live, so that the
// tracer can keep back the frees of others; *tracer.Tracer is one.
type Sample interface {
	Retain(addr uint64)  // one more block lives at addr: a forked child's copy
	Release(addr uint64) // one less
}

// eventExcess are the calls that the events of a sample stand for beyond
// themselves, in units of 1/countUnit.
type eventExcess struct {
	alloc, free, realloc, failed, poolFree uint64
}

func (x *eventExcess) extend(e *report.Events) {
	whole := func(n uint64) uint64 { return (n + countUnit/2) / countUnit }
	e.Alloc += whole(x.alloc)
	e.Free += whole(x.free)
	e.Realloc += whole(x.realloc)
	e.Failed += whole(x.failed)
	e.PoolFree += whole(x.poolFree)
}

// unseen is how many calls an allocation stands for beyond itself, in units of 1/countUnit.
func (a *Analyzer) unseen(e *event.Event) uint64 {
	if e.Interval() == 0 || a.config.Counted {
		return 0
	}
	return excessOf(e.Size, e.Interval()).count
}

// temporary says whether a free ends the block that its thread allocated last.
// Between the blocks of a sample, only the kernel half knows.
func (a *Analyzer) temporary(b block, e *event.Event) bool {
	if b.interval != 0 || e.Interval() != 0 {
		return e.Flags&event.FlagTemporary != 0
	}
	return a.threads.temporary(e.TID, b)
}

// extra are the site's excesses, made at the first use.
func (s *site) extra() *extras {
	if s.extras == nil {
		s.extras = &extras{}
	}
	return s.extras
}

func (p *process) extra() *extras {
	if p.extras == nil {
		p.extras = &extras{}
	}
	return p.extras
}

// held is what the site's live blocks hold in bytes, with those that they stand for.
func (s *site) held() uint64 {
	if s.extras == nil {
		return s.liveBytes
	}
	return s.liveBytes + s.extras.live.bytes
}

func (p *process) held() uint64 {
	if p.extras == nil {
		return p.total.LiveBytes
	}
	return p.total.LiveBytes + p.extras.live.bytes
}

// lives is the number of the site's live blocks, with those that they stand for.
func (s *site) lives() uint64 {
	if s.extras == nil {
		return s.liveCount
	}
	return s.liveCount + s.extras.live.blocks()
}

// allocs is the number of the site's allocations, with those that they stand for.
func (s *site) allocs() uint64 {
	if s.extras == nil {
		return s.allocCount
	}
	return s.allocCount + s.extras.alloc.blocks()
}

// allocExcess is what the site's allocations stand for beyond their own bytes.
func (s *site) allocExcess() uint64 {
	if s.extras == nil {
		return 0
	}
	return s.extras.alloc.bytes
}

// sizeExcess is what the site's blocks of a bucket of sizes stand for beyond themselves.
func (s *site) sizeExcess(bucket int) uint64 {
	if s.extras == nil {
		return 0
	}
	return (s.extras.sizes.At(bucket) + countUnit/2) / countUnit
}

// scale takes a sum over the site's live blocks in the sample to one over all.
func (s *site) scale(n uint64) uint64 {
	if s.extras == nil || s.liveBytes == 0 {
		return n
	}
	return uint64(float64(n) * float64(s.held()) / float64(s.liveBytes))
}

// extendAlloc adds what a new block of the sample stands for.
func (a *Analyzer) extendAlloc(p *process, s *site, b block) {
	x := a.intervals.excess(b)
	for _, e := range []*extras{s.extra(), p.extra()} {
		e.alloc.add(x)
		e.live.add(x)
	}
	s.extras.sizes.Add(stats.BucketOf(b.size), x.count)
}

// extendFree takes it from the live heap.
func (a *Analyzer) extendFree(p *process, s *site, b block) {
	x := a.intervals.excess(b)
	for _, e := range []*extras{s.extra(), p.extra()} {
		e.freed.add(x)
		e.live.sub(x)
	}
}

// extendInherited adds what a block that a child began with stands for.
func (a *Analyzer) extendInherited(p *process, s *site, b block) {
	if a.config.Sample != nil {
		a.config.Sample.Retain(b.addr)
	}
	if b.interval == 0 {
		return
	}
	x := a.intervals.excess(b)
	s.extra().live.add(x)
	p.extra().live.add(x)
}

// dropSampled subtracts a block that ended without a free from what its site and
// process hold.
func (a *Analyzer) dropSampled(p *process, s *site, b block) {
	if a.config.Sample != nil {
		a.config.Sample.Release(b.addr)
	}
	if b.interval == 0 {
		return
	}
	x := a.intervals.excess(b)
	s.extra().live.sub(x)
	p.extra().live.sub(x)
}

// releaseAll tells the sample that a process's blocks will see no free.
func (a *Analyzer) releaseAll(p *process) {
	if a.config.Sample == nil {
		return
	}
	p.heap.all(func(b block) bool {
		a.config.Sample.Release(b.addr)
		return true
	})
}

// sampling is what the Report says of the sample; nil where every block was seen.
func (a *Analyzer) sampling() *report.Sampling {
	var s report.Sampling
	for _, site := range a.sites.all {
		if site.extras != nil {
			s.Blocks += site.extras.alloc.samples
		}
	}
	for _, bytes := range a.intervals.bytes[1:] {
		if bytes != 0 {
			s.Intervals = append(s.Intervals, uint64(bytes))
		}
	}
	if len(s.Intervals) == 0 && a.config.Interval != 0 {
		s.Intervals = append(s.Intervals, uint64(a.config.Interval))
	}
	if len(s.Intervals) == 0 {
		return nil
	}
	return &s
}

// leakPages is where a leak's bytes are. Of a sample, they are where its blocks
// were found, in proportion.
func leakPages(l *report.Leak, m SiteMemory) *report.LeakPages {
	scale := func(n uint64) uint64 {
		if l.SeenBytes == 0 || l.SeenBytes == l.Bytes {
			return n
		}
		return uint64(float64(n) * float64(l.Bytes) / float64(l.SeenBytes))
	}
	return &report.LeakPages{Resident: scale(m.Resident), Untouched: scale(m.Untouched), Swapped: scale(m.Swapped)}
}

// extrapolatePages takes what the residency pass found of a sample's blocks to
// all blocks, site by site. Resident heap that they are estimated to hold is
// taken from what would otherwise count as overhead or as from before the attach.
func (a *Analyzer) extrapolatePages(c *correlation, found []input.SiteResidence) {
	all := SiteMemory{}
	for _, m := range found {
		if m.Site >= a.sites.used {
			continue
		}
		s := a.sites.at(siteID(m.Site))
		all.add(SiteMemory{s.scale(m.Resident), s.scale(m.Untouched), s.scale(m.Swapped), s.scale(m.Unknown)})
	}
	c.blocks = all
	by := &c.rssBy
	more := all.Resident - min(all.Resident, by.HeapLive)
	for _, from := range []*uint64{&by.HeapOverhead, &by.HeapBeforeAttach} {
		part := min(more, *from)
		*from -= part
		by.HeapLive += part
		more -= part
	}
}
