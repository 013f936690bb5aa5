package compare

import "github.com/memtrace/memtrace/analyzer/report"

// Figure says what is compared.
type Figure struct {
	Kind  string // as --kind names it: "live"
	Title string // in words: "peak of each site"
	Thing string // what is counted, in the singular: "block"
	Bytes bool   // it has bytes; else it is a count
	Count bool   // the number of things is known
	Sums  bool   // it adds up from the attach on, so that it depends on how long that is ago
}

// Of takes what the figure is ordered by out of a sum: its bytes, or its count.
func (f *Figure) Of(s *Sum) *Delta {
	if f.Bytes {
		return &s.Bytes
	}
	return &s.Count
}

// Side is one of the two Reports, with what its sites have of the figure.
type Side struct {
	Name    string // of its file
	Report  *report.Report
	Entries []Entry
	// Omitted are sites that the Report leaves out and that may have something of the figure.
	Omitted int
	// Partial says that there are no sums that tell what those have: it is in no total.
	Partial bool
	// Unknown says why the Report does not know the figure at all; "" where it does.
	Unknown string
}

// Entry is what one site of one process has.
type Entry struct {
	Site         *report.Site // nil: all sites of the process that the Report does not list
	Process      int          // Process.ID
	Bytes, Count Measured
}

// Measured is a number and, where it was estimated, its standard error; 0 where it is exact
// or the error is not known.
type Measured struct{ Value, SE uint64 }

// comms names the processes of the Report by ID, and counts those of a name.
func (s *Side) comms() (names map[int]string, number map[string]int) {
	names, number = make(map[int]string), make(map[string]int)
	for i := range s.Report.Processes {
		p := &s.Report.Processes[i]
		names[p.ID] = nameOf(p)
		number[names[p.ID]] += max(1, p.Children)
	}
	return names, number
}

func nameOf(p *report.Process) string {
	if p.Comm == "" {
		return unnamed
	}
	return p.Comm
}

// unnamed is a process that the Report does not name.
const unnamed = "[process]"
