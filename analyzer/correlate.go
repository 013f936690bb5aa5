package analyzer

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

// correlation is what the last look at a process's memory found.
type correlation struct {
	usage    report.Usage
	rssBy    report.RSSBy
	traced   uint64 // of rssBy.AnonMmap
	blocks   SiteMemory
	mappings []input.Mapping // of a process without an allocator
	runtime  *input.Runtime  // nil: none is known
	at       uint64          // ns since Config.Start; 0: never

	stacksNotFound int    // see Residence
	unmeasured     uint64 // bytes
}

// applyMapped takes a Mapped.
func (a *Analyzer) applyMapped(m input.Mapped) {
	if p := a.byPID[m.PID]; p != nil && !p.exited {
		p.regions.applyMappings(m.Ranges)
	}
}

// correlate takes a Memory.
func (a *Analyzer) correlate(m *input.Memory) {
	p := a.byPID[m.PID]
	if p == nil || p.exited || p.group != nil {
		return
	}
	for i := range min(len(p.verdicts), len(m.Leaks)) {
		l := &p.verdicts[i]
		l.Pages = leakPages(l, SiteMemory(m.Leaks[i]))
	}
	c := &p.pages
	c.at = max(a.since(m.Now), 1)
	c.usage = report.Usage{RSS: m.Usage.RSS, PSS: m.Usage.PSS, USS: m.Usage.USS, Swap: m.Usage.Swap,
		Anon: m.Usage.Anon, File: m.Usage.File, Shmem: m.Usage.Shmem, SampledNS: c.at}
	c.rssBy, c.traced, c.blocks, c.mappings = report.RSSBy(m.RSSBy), m.Traced, SiteMemory(m.Blocks), m.Mappings
	c.runtime = m.Runtime
	if p.extras != nil {
		a.extrapolatePages(c, m.Sites)
	}
	c.stacksNotFound, c.unmeasured = m.StacksNotFound, m.Unmeasured
	p.unseen.looked(c.unexplained(p.info.GoHeap), m.FromStart && !p.child)
	a.placeSites(p, m.Sites)
	p.placeRegions(m)
}

// placeSites notes where the blocks of a process's sites are.
func (a *Analyzer) placeSites(p *process, found []input.SiteResidence) {
	for _, id := range p.image.all() {
		if s := a.sites.at(id); s.live != nil { // also where its last block has gone since
			s.live.pages = sitePages{}
		}
	}
	for _, f := range found {
		if f.Site >= a.sites.used {
			continue
		}
		if s := a.sites.at(siteID(f.Site)); s.image == p.image && s.liveCount != 0 && a.watch(s) {
			s.live.pages = sitePages{f.Resident, f.Untouched, f.Swapped}
		}
	}
}

// fill adds the last correlation to a process's part of the Report.
func (c *correlation) fill(p *report.Process) {
	p.Usage, p.RSSBy = c.usage, c.rssBy
	p.AnonMmap = report.AnonMmap{Traced: c.traced, Untraced: c.rssBy.AnonMmap - c.traced}
	p.Runtime = c.reportRuntime()
	p.Heap.ResidentBytes = c.blocks.Resident
	p.Heap.UntouchedBytes = c.blocks.Untouched
	p.Heap.SwappedBytes = c.blocks.Swapped
	p.Heap.CorrelatedNS = c.at
}

// warnings says in what way the split of the memory is not exact.
func (c *correlation) warnings(p *process) (out []string) {
	if p.exited {
		return nil
	}
	if n := c.stacksNotFound; n > 0 {
		out = append(out, fmt.Sprintf("process %d: the stacks of %d threads were not found: they count as other anonymous memory", p.info.PID, n))
	}
	if c.unmeasured > 0 {
		out = append(out, fmt.Sprintf("process %d: %s of resident memory with live blocks have more page states than memtrace keeps: they count as other memory, and the blocks there as neither resident nor untouched", p.info.PID, report.HumanBytes(float64(c.unmeasured))))
	}
	return out
}
