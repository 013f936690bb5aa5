package analyzer

// pause takes a Pause.
func (a *Analyzer) pause() {
	for p := range a.heaps {
		if p.exited {
			continue
		}
		a.inherited -= p.copies
		p.copies = 0
		a.dropBlocks(p, 0, ByPause, max(a.latest, a.at))
		p.heap.close()
		p.faults.drop(&a.events)
		p.verdicts, p.leaked = nil, nil
		a.dropRegions(p)
		p.info.Attached = true
		p.unseen.unclear = true
	}
}
