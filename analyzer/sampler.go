//go:build linux && !viewer

package analyzer

import (
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// A Sampler reads where a process's memory is, time after time. It asks an Analyzer for the live blocks
// and gives it what it found as inputs; what it remembers itself is no part of the Analyzer. The zero
// value is ready.
type Sampler struct {
	residency Residency
	mappings  *mappingSums // of a process without an allocator
	// Touching has the pages compared with those that were touched first while the allocator had no probes, in a trace
	// that has some at other times. It is set once there has been such a span.
	Touching bool

	proc    *process // whose memory was read last
	execs   int      // which of its programs that was
	runtime runtimeReader
}

// Sample reads p's memory and gives it to take. base is the memory from before the attach, nil where the
// trace has seen every block. It returns how long /proc was read, for Pace. The events until now should
// have been given.
func (s *Sampler) Sample(a *Analyzer, p *procfs.Process, base *Baseline, now uint64, take func(input.Input)) (time.Duration, error) {
	proc := a.byPID[uint32(p.PID())]
	if proc == nil || proc.exited || proc.group != nil {
		return 0, nil
	}
	if s.proc != proc || s.execs != proc.execs {
		*s = Sampler{proc: proc, execs: proc.execs, runtime: s.runtime.ofNextProgram(), Touching: s.Touching}
	}
	if proc.info.Unprobed && s.mappings == nil {
		s.mappings = new(mappingSums)
	}
	r, pid := &s.residency, uint32(p.PID())
	began := time.Now()
	runtime, parts := s.runtime.read(p)
	looked := time.Since(began)
	r.layout.runtime.ranges = parts
	r.layout.regions, r.layout.sums = proc.regions, s.mappings
	r.layout.mapped = func(ranges []input.Range) { take(input.Mapped{PID: pid, Ranges: ranges}) }
	// All sites there are, of all processes: an array for each would be their product.
	r.sites = a.measured
	defer func() { a.measured, r.sites, r.touched = r.sites, nil, nil }()
	if a.config.Tracer.Attach == report.NoProbes && a.touchesOf(proc) != nil {
		r.touched = &touchReader{table: proc.touched, first: base != nil && !proc.touched.begun}
	} else if s.Touching {
		r.touched = a.spanReader(proc)
	}
	// Leaked blocks are measured as if each leak were one more site.
	sites := int(a.sites.used)
	res, err := r.Measure(p, base, sites+len(proc.verdicts), proc.blocksFor(sites))
	if err != nil {
		return 0, err
	}
	if s.mappings != nil {
		s.mappings.end()
	}
	m := input.Memory{
		PID: pid, Now: now, FromStart: base == nil, Usage: res.usage(), RSSBy: input.RSSBy(res.RSSBy), Traced: res.Traced,
		Blocks: input.Residence(res.Blocks), StacksNotFound: res.StacksNotFound, Unmeasured: res.Unmeasured,
		Regions: r.layout.regionResidence(), Held: r.layout.heldRegions(), Mappings: s.mappings.all(),
	}
	if m.Runtime = runtime; runtime != nil {
		runtime.Parts = slices.Clone(r.layout.runtime.found)
	}
	if t := r.touched; t != nil {
		for _, part := range t.inputs(pid, now) {
			take(part)
		}
		if !t.inSpans {
			m.Sites, m.Blocks.Resident = t.residence(), t.known.explained
		}
	}
	for i := range proc.verdicts {
		leak := res.Sites[sites+i]
		m.Leaks = append(m.Leaks, input.Residence(leak))
		res.Sites[proc.verdicts[i].Site].add(leak)
	}
	for id, found := range res.Sites[:sites] {
		if found != (SiteMemory{}) {
			m.Sites = append(m.Sites, input.SiteResidence{Site: uint32(id), Residence: input.Residence(found)})
		}
	}
	take(m)
	return res.ReadTime + looked, nil
}

// blocksFor yields the live blocks by site, those of each verdict as of a site behind all others.
func (p *process) blocksFor(sites int) Blocks {
	return func(yield func(addr, size uint64, site uint32) bool) {
		p.heap.all(func(b block) bool {
			site := uint32(b.site)
			if i, ok := p.leaked.find(b.addr); ok {
				site = uint32(sites) + i
			}
			return yield(b.addr, b.size, site)
		})
	}
}

func (r *Residence) usage() input.Usage {
	u := &r.Usage
	return input.Usage{RSS: u.RSS, PSS: u.PSS, USS: u.USS, Swap: u.Swap, Anon: u.Anon, File: u.File, Shmem: u.Shmem}
}
