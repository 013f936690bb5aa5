package analyzer

import (
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/event"
)

// correlation is what the last look at a process's memory found.
type correlation struct {
	residency Residency
	usage     report.Usage
	rssBy     report.RSSBy
	traced    uint64 // of rssBy.AnonMmap
	blocks    SiteMemory
	mappings  *mappingSums // of a process without an allocator
	at        uint64       // ns since Config.Start; 0: never

	stacksNotFound int    // see Residence
	unmeasured     uint64 // bytes
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
	c.residency.layout.regions, c.residency.layout.owner = proc.regions, proc
	if proc.info.Unprobed && c.mappings == nil {
		c.mappings = new(mappingSums)
	}
	c.residency.layout.sums = c.mappings
	// All sites there are, of all processes: an array for each would be their product.
	c.residency.sites = a.measured
	defer func() { a.measured, c.residency.sites = c.residency.sites, nil }()
	// Leaked blocks are measured as if each leak were one more site.
	sites := int(a.sites.used)
	res, err := c.residency.Measure(p, base, sites+len(proc.verdicts), func(yield func(addr, size uint64, site uint32) bool) {
		proc.heap.all(func(b block) bool {
			site := uint32(b.site)
			if i, ok := proc.leaked.find(b.addr); ok {
				site = uint32(sites) + i
			}
			return yield(b.addr, b.size, site)
		})
	})
	if err != nil {
		return 0, err
	}
	for i := range proc.verdicts {
		m, l := res.Sites[sites+i], &proc.verdicts[i]
		l.Pages = leakPages(l, m)
		res.Sites[l.Site].add(m)
	}
	if proc.extras != nil {
		a.extrapolatePages(proc, &res, sites)
	}
	if c.mappings != nil {
		c.mappings.end()
	}
	c.at = max(a.since(now), 1)
	c.usage, c.rssBy, c.traced, c.blocks = res.Usage, res.RSSBy, res.Traced, res.Blocks
	c.usage.SampledNS = c.at
	c.stacksNotFound, c.unmeasured = res.StacksNotFound, res.Unmeasured
	proc.unseen.looked(c.unexplained(proc.info.GoHeap), base == nil && !proc.child)
	for _, id := range proc.image.all() {
		s := a.sites.at(id)
		if int(id) >= sites || s.liveCount == 0 || !a.watch(s) {
			continue
		}
		m := res.Sites[id]
		s.live.pages = sitePages{m.Resident, m.Untouched, m.Swapped}
	}
	return res.ReadTime, nil
}

// fill adds the last correlation to a process's part of the Report.
func (c *correlation) fill(p *report.Process) {
	p.Usage, p.RSSBy = c.usage, c.rssBy
	p.AnonMmap = report.AnonMmap{Traced: c.traced, Untraced: c.rssBy.AnonMmap - c.traced}
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

// NameStacks names the stacks of a process's sites so far, those through an
// address of which through is true; nil: all, and for the last time. It must be called
// before symb forgets them, as with the present program image: see Config.Replaced.
func (a *Analyzer) NameStacks(pid uint32, symb Symbolizer, through func(addr uint64) bool) {
	p := a.byPID[pid]
	if p == nil {
		return
	}
	name := func(stack event.StackID) {
		ref, ok := p.image.stack(stack)
		if ok && (through == nil || slices.ContainsFunc(a.stacks.frames(ref), through)) {
			_, own := p.image.stacks[stack] // else it is of another, which may go on
			a.symbolize(int(pid), ref, symb, through == nil && own && p.info.PID == pid)
		}
	}
	for stack := range p.image.sites { // others may be of the image to come
		name(stack)
	}
	for stack := range p.image.regions {
		name(stack)
	}
}

// Unnamed returns one Frame an address, named by the address alone.
func Unnamed(addrs []uint64) []*report.Frame { return bareFrames(addrs) }
