package analyzer

import (
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// correlation is what the last look at a process's memory found.
type correlation struct {
	residency Residency
	usage     Usage
	rssBy     RSSBy
	blocks    SiteMemory
	at        uint64 // ns since Config.Start; 0: never
}

// Correlate reads where p's memory is and splits it among the live blocks and
// their sites. base is the memory from before the attach, nil where the trace
// has seen every block. It returns how long /proc was read, for Pace. The
// events until now should have been applied.
func (a *Analyzer) Correlate(p *procfs.Process, base *Baseline, now uint64) (time.Duration, error) {
	proc := a.byPID[uint32(p.PID())]
	if proc == nil || proc.exited || proc.crowd != nil {
		return 0, nil
	}
	c := &proc.pages
	res, err := c.residency.Measure(p, base, int(a.sites.used), func(yield func(addr, size uint64, site uint32) bool) {
		proc.heap.all(func(b block) bool { return yield(b.addr, b.size, uint32(b.site)) })
	})
	if err != nil {
		return 0, err
	}
	c.at = max(a.since(now), 1)
	c.usage, c.rssBy, c.blocks = res.Usage, res.RSSBy, res.Blocks
	c.usage.SampledNS = c.at
	for _, id := range proc.image.all() {
		s := a.sites.at(id)
		if int(id) >= len(res.Sites) || s.liveCount == 0 || !a.watch(s) {
			continue
		}
		m := res.Sites[id]
		s.live.pages = sitePages{m.Resident, m.Untouched, m.Swapped}
	}
	return res.ReadTime, nil
}

// fill adds the last correlation to a process's part of the Report.
func (c *correlation) fill(p *Process) {
	p.Usage, p.RSSBy = c.usage, c.rssBy
	p.Heap.ResidentBytes = c.blocks.Resident
	p.Heap.UntouchedBytes = c.blocks.Untouched
	p.Heap.SwappedBytes = c.blocks.Swapped
	p.Heap.CorrelatedNS = c.at
}

// NameStacks names all stacks of a process seen so far. It must be called
// before symb forgets the present program image, as at exec.
func (a *Analyzer) NameStacks(pid uint32, symb Symbolizer) {
	p := a.byPID[pid]
	if p == nil {
		return
	}
	for _, ref := range p.image.stacks {
		a.symbolize(int(pid), ref, symb)
	}
}

// Unnamed returns one Frame an address, named by the address alone.
func Unnamed(addrs []uint64) []Frame { return bareFrames(addrs) }

// IsAllocator reports whether a function hands out memory on behalf of its
// caller: malloc, operator new, and what lies between them and a container's code.
func IsAllocator(function string) bool { return isAllocator(function) }
