package live

import (
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs/machine"
)

// sources says which of the kernel's figures each part of the books is from.
var sources = map[string]string{
	"process private": "USS of all processes",
	"process shared":  "meminfo AnonPages + Mapped, less USS",
	"page cache":      "meminfo Cached, less Mapped",
	"buffers":         "meminfo Buffers",
	"swap cache":      "meminfo SwapCached that is not mapped",
	"slab":            "meminfo Slab",
	"page tables":     "meminfo PageTables + SecPageTables",
	"kernel stacks":   "meminfo KernelStack",
	"percpu":          "meminfo Percpu",
	"vmalloc":         "meminfo VmallocUsed, less KernelStack",
	"huge pages":      "meminfo Hugetlb",
	"compressed swap": "vmstat nr_zspages",
	"free per CPU":    "zoneinfo, CPU pagesets",
	"free":            "meminfo MemFree",
	unexplained:       "what is missing to MemTotal",
}

// addBooks shows where the machine's memory is: parts that add up to it.
func (s *Source) addBooks(out *top.Snapshot) {
	books, err := s.machine.Books(sumsOf(out.Processes))
	if err != nil {
		out.Notes = append(out.Notes, err.Error())
		return
	}
	out.Machine.Total = top.Of(books.Total)
	for i := range books.Parts {
		s.addPart(out, &books.Parts[i])
	}
	addReasons(out, books.Parts)
	if s.inside {
		out.Notes = append(out.Notes, "this is a container: what other containers' processes have alone is counted as process shared")
	}
}

// addReasons says why some parts are estimates, each reason once.
func addReasons(out *top.Snapshot, parts []machine.Part) {
	var reasons []string
	names := make(map[string]string)
	for i := range parts {
		p := &parts[i]
		if !p.Estimated || p.Name == unexplained {
			continue
		}
		if names[p.Why] == "" {
			reasons = append(reasons, p.Why)
			names[p.Why] = p.Name
		} else {
			names[p.Why] += ", " + p.Name
		}
	}
	for _, why := range reasons {
		out.Notes = append(out.Notes, "~ "+names[why]+": "+why)
	}
}

// unexplained is what machine.Books calls the remainder.
const unexplained = "unexplained"

func (s *Source) addPart(out *top.Snapshot, p *machine.Part) {
	source, ok := sources[p.Name]
	if !ok {
		source = p.Why
	}
	size := top.Of(p.Bytes)
	size.Estimated = p.Estimated
	out.Books = append(out.Books, top.Entry{Name: p.Name, Size: size, Source: source, Remainder: p.Name == unexplained})
	if p.Name == "slab" {
		s.addSlab(out)
	}
}

// addSlab splits the slab: what can be reclaimed counts as available.
func (s *Source) addSlab(out *top.Snapshot) {
	out.Books = append(out.Books,
		top.Entry{Name: "reclaimable", Depth: 1, Size: s.counter("SReclaimable"), Source: "meminfo SReclaimable"},
		top.Entry{Name: "not reclaimable", Depth: 1, Size: s.counter("SUnreclaim"), Source: "meminfo SUnreclaim"})
}

// sumsOf adds the processes up.
func sumsOf(processes []top.Process) machine.Sums {
	var s machine.Sums
	spaces := make(map[uint64]bool)
	for i := range processes {
		p := &processes[i]
		switch {
		case p.PSS.State == top.None || p.Space != 0 && spaces[p.Space]:
		case !p.PSS.Known() || !p.USS.Known():
			s.Unread++
		default:
			s.PSS += uint64(p.PSS.N)
			s.USS += uint64(p.USS.N)
			spaces[p.Space] = true
		}
	}
	return s
}
