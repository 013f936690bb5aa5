package analyzer

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
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

// maxUnnamedPools bounds the questions of one batch.
const maxUnnamedPools = 1 << 16

// UnnamedPools lists the pools that the last Events told of and whose names are to be read, at once: their
// processes may end soon. With all set, it lists those too that had no name when they were asked for before.
// It is empty without Config.NamePools.
func (a *Analyzer) UnnamedPools(all bool) []UnnamedPool {
	if !all || !a.config.NamePools {
		return a.unnamed
	}
	out := slices.Clone(a.unnamed)
	for _, p := range a.processes {
		if p.pools == nil || p.exited {
			continue
		}
		for addr, id := range p.pools.byAddr {
			if own := &p.pools.all[id]; p.pools.nameOf(own) == "" && (own.made == 0 || own.text != 0) {
				out = append(out, UnnamedPool{PID: p.info.PID, Pool: addr, Text: own.text})
			}
		}
	}
	return out
}

func (a *Analyzer) askForPool(q UnnamedPool) {
	if a.config.NamePools && len(a.unnamed) < maxUnnamedPools {
		a.unnamed = append(a.unnamed, q)
	}
}

// namePool takes a PoolName.
func (a *Analyzer) namePool(v input.PoolName) {
	if p := a.byPID[v.PID]; p != nil && p.pools != nil {
		p.pools.setName(v)
	}
}

// enterPool puts a new block into the pool at an address.
func (a *Analyzer) enterPool(p *process, b block, pid uint32, pool uint64) {
	if id := p.poolsOf().enter(b, pool, a.intervals.excess(b)); id != 0 {
		a.askForPool(UnnamedPool{PID: pid, Pool: pool})
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
	ps.all[id].made = e.Stack
	a.setText(ps, id, e)
}

// setText names a pool by the text that an event tells of.
func (a *Analyzer) setText(ps *pools, id poolID, e *event.Event) {
	if ps.setText(id, e.Size) {
		a.askForPool(UnnamedPool{PID: e.PID, Pool: e.Addr, Text: e.Size})
	}
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
		a.setText(ps, id, e)
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
func (a *Analyzer) reportPools(p *process) (out []report.Pool, omitted int) {
	if p.pools == nil {
		return nil, 0
	}
	at, extra := map[string]int{}, []excess{}
	for _, id := range p.pools.byAddr {
		own := &p.pools.all[id]
		name := a.poolName(p, own)
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
func (a *Analyzer) poolName(p *process, own *pool) string {
	if name := p.pools.nameOf(own); name != "" {
		return name
	}
	if ref, ok := p.image.stack(own.made); ok {
		return "of " + report.SiteFunction(a.namesOf(ref))
	}
	return "[no name]"
}
