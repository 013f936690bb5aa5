package analyzer

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// poolsOf returns the pools of a process, which it has from now on.
func (p *process) poolsOf() *pools {
	if p.pools == nil {
		p.pools = newPools()
	}
	return p.pools
}

// enterPool puts a new block into the pool at an address. One that was made
// before the trace is asked for its name at once: its process may end soon.
func (a *Analyzer) enterPool(p *process, b block, pid uint32, pool uint64) {
	if id := p.poolsOf().enter(b, pool, a.intervals.excess(b)); id != 0 && a.config.PoolNames != nil {
		p.pools.all[id].name = a.config.PoolNames.Pool(pid, pool)
	}
}

// beginPool makes a pool known. One that was live at its address has ended
// unseen, and so have its blocks.
func (a *Analyzer) beginPool(p *process, e *event.Event) {
	ps := p.poolsOf()
	if old, ok := ps.byAddr[e.Addr]; ok {
		a.endPools(p, e, append(ps.below(old), old), true)
	}
	id := ps.of(e.Addr)
	if id == 0 {
		return
	}
	parent := ps.of(e.Old)
	ps.attach(id, parent)
	ps.all[id].name, ps.all[id].made = ps.text(a.config.PoolNames, e.PID, e.Size), e.Stack
}

// changePool applies a PoolChange.
func (a *Analyzer) changePool(p *process, e *event.Event) {
	ps := p.pools
	if ps == nil {
		return
	}
	id, ok := ps.byAddr[e.Addr]
	if !ok {
		return // nothing is known to be in it
	}
	own := []poolID{id}
	switch e.Change() {
	case event.PoolClearedAlone:
		a.endPools(p, e, own, false)
	case event.PoolCleared:
		a.endPools(p, e, ps.below(id), true)
		a.endPools(p, e, own, false)
	case event.PoolEnded:
		a.endPools(p, e, append(ps.below(id), id), true)
	case event.PoolChildrenCleared:
		a.endPools(p, e, ps.below(id), false)
	case event.PoolChildrenEnded:
		a.endPools(p, e, ps.below(id), true)
	case event.PoolMoved:
		ps.attach(id, ps.of(e.Size))
	case event.PoolNamed:
		ps.all[id].name = ps.text(a.config.PoolNames, e.PID, e.Size)
	}
}

// endPools ends all blocks of some pools, and, if they are gone, the pools.
func (a *Analyzer) endPools(p *process, e *event.Event, list []poolID, gone bool) {
	for _, id := range list {
		for n := p.pools.all[id].first; n != 0; n = p.pools.all[id].first {
			addr := p.pools.nodes[n].addr
			b, ok := p.heap.remove(addr, p.heap.hash(addr))
			if !ok { // cannot be: what ends leaves its pool
				p.pools.leave(block{addr: addr}, excess{})
				continue
			}
			if b.interval != 0 {
				x := a.intervals.excess(b)
				a.extra.poolFree += x.count
			}
			a.events.PoolFree++
			a.freed(p, b, e)
		}
		if gone {
			p.pools.drop(id)
		}
	}
}

// maxPoolsListed is how many names of pools a Report lists of a process.
const maxPoolsListed = 64

// reportPools sums up a process's pools by their names, those with most live
// bytes first, and counts the names that were left out.
func (a *Analyzer) reportPools(p *process, symb Symbolizer) (out []report.Pool, omitted int) {
	if p.pools == nil {
		return nil, 0
	}
	at, extra := map[string]int{}, []excess{}
	for _, id := range p.pools.byAddr {
		own := &p.pools.all[id]
		name := a.poolName(p, own, symb)
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out, extra = append(out, report.Pool{Name: name}), append(extra, excess{})
		}
		out[i].Pools++
		out[i].LiveCount += own.count
		out[i].LiveBytes += own.bytes
		extra[i].add(own.extra)
	}
	for i := range out {
		out[i].LiveCount += extra[i].blocks()
		out[i].LiveBytes += extra[i].bytes
	}
	slices.SortFunc(out, func(x, y report.Pool) int {
		return cmp.Or(cmp.Compare(y.LiveBytes, x.LiveBytes), cmp.Compare(y.Pools, x.Pools), cmp.Compare(x.Name, y.Name))
	})
	listed := min(len(out), maxPoolsListed)
	return out[:listed], len(out) - listed
}

// poolName is what a pool is called: as the program does, else for the function
// that made it.
func (a *Analyzer) poolName(p *process, own *pool, symb Symbolizer) string {
	if own.name == "" && own.made == 0 && a.config.PoolNames != nil && !p.exited {
		own.name = a.config.PoolNames.Pool(p.info.PID, own.addr)
	}
	if own.name != "" {
		return own.name
	}
	if ref, ok := p.image.stack(own.made); ok {
		return "of " + report.SiteFunction(a.symbolize(int(p.info.PID), ref, symb, false))
	}
	return "[no name]"
}
