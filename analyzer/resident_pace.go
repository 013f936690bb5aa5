package analyzer

import "time"

// stallShare is the share of time for which memtrace may hold a target's
// mmap lock by reading its page tables: one fiftieth.
const stallShare = 50

// Pace spaces the readings of a process so that they take at most 2 % of the
// time: a target with 200 GB resident would freeze for seconds a reading
// otherwise. The zero value allows the first reading at once. The last
// reading of a trace is done whatever Pace says.
type Pace struct {
	next time.Time
}

// Ready reports whether the next reading may begin at now.
func (p *Pace) Ready(now time.Time) bool { return !now.Before(p.next) }

// Next is the earliest time of the next reading.
func (p *Pace) Next() time.Time { return p.next }

// Done notes a reading that ended at now and took cost (Residence.ReadTime).
func (p *Pace) Done(now time.Time, cost time.Duration) {
	p.next = now.Add(cost * (stallShare - 1))
}

// noDelay is what listing a process's mappings takes at most for Expect: tens of microseconds are usual, and some of
// these where the machine is busy.
const noDelay = 100 * time.Millisecond

// Expect notes that listing a process's mappings took a time until now, before its first reading: that takes longer, as
// its mappings are listed with the memory of each. Where it is long, the first reading has to wait, too.
func (p *Pace) Expect(now time.Time, listing time.Duration) {
	if listing >= noDelay {
		p.Done(now, listing)
	}
}
