package agent

import (
	"time"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
	"github.com/memtrace/memtrace/procfs/machine"
)

// Snapshot is what one pass found. It never changes once it is published.
type Snapshot struct {
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took_ns"`
	Processes int           `json:"processes"` // with memory of their own
	Services  []Service     `json:"services"`  // by name; "other" is last
	Omitted   int           `json:"omitted"`   // services within "other", as there are more than max_services

	Machine  Machine `json:"-"`
	Problems int     `json:"-"` // parts of the machine that could not be read in this pass
}

// Machine is what is known of the machine as a whole. What could not be read is absent.
type Machine struct {
	Books       *machine.Books   // its parts add up to the machine's memory
	SwapTotal   *uint64          // bytes
	SwapFree    *uint64          // bytes
	Pressure    *procfs.Pressure // nil where the kernel has none
	OOMKills    *uint64          // since boot
	MajorFaults *uint64          // since boot

	memory *procfs.Counters // /proc/meminfo, until the next pass
}

// readMachine reads the machine's own figures, and counts those that there should be and are not.
func (a *Agent) readMachine(pass *collect.Pass) (m Machine, problems int) {
	books, err := a.machine.Books(sumsOf(pass))
	if err != nil {
		a.log.Printf("%v", err)
		problems++
	} else {
		m.Books = &books
	}
	if pressure, err := a.machine.Pressure(); err == nil { // else the kernel may have none
		m.Pressure = &pressure
	}
	if err := a.machine.Meminfo(&a.meminfo); err == nil {
		m.memory = &a.meminfo
		m.SwapTotal, m.SwapFree = figure(&a.meminfo, "SwapTotal"), figure(&a.meminfo, "SwapFree")
	}
	if err := a.machine.Vmstat(&a.vmstat); err == nil {
		m.OOMKills, m.MajorFaults = figure(&a.vmstat, "oom_kill"), figure(&a.vmstat, "pgmajfault")
	}
	return m, problems
}

func figure(c *procfs.Counters, name string) *uint64 {
	v, ok := c.Get(name)
	if !ok {
		return nil
	}
	return &v
}

// sumsOf adds the processes up for the machine's books.
func sumsOf(pass *collect.Pass) (s machine.Sums) {
	for _, p := range pass.Processes {
		if p.KernelThread {
			continue
		}
		pss, outcome := p.PSS()
		if !outcome.Ok() {
			s.Unread++
			continue
		}
		uss, _ := p.USS()
		s.PSS += pss
		s.USS += uss
	}
	return s
}
