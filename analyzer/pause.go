package analyzer

// Pause says that no allocation or free is seen from now on, until events come
// again. What lives then is not known any more: a block may be freed unseen and
// its memory given out again. So the blocks are dropped from what lives, without
// counting as freed; should their frees be seen later, they match nothing.
func (a *Analyzer) Pause() {
	for p := range a.heaps {
		if p.exited {
			continue
		}
		a.inherited -= p.copies
		p.copies = 0
		a.vanish(p, 0)
		p.heap.close()
		p.faults.drop(&a.events)
		p.verdicts, p.leaked = nil, nil
		a.dropRegions(p)
		p.info.Attached = true
		p.unseen.unclear = true
	}
}
