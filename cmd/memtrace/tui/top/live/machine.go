package live

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
)

func (s *Source) addMachine(out *top.Snapshot) {
	h := &out.Machine
	if err := s.machine.Meminfo(&s.meminfo); err != nil {
		s.meminfo.Reset()
	}
	h.Total, h.Available = s.counter("MemTotal"), s.counter("MemAvailable")
	h.SwapTotal, h.SwapUsed = s.counter("SwapTotal"), top.Figure{State: top.Unsupported}
	if free := s.counter("SwapFree"); free.Known() && h.SwapTotal.Known() {
		h.SwapUsed = top.Of(h.SwapTotal.N - free.N)
	}
	pressure, err := s.machine.Pressure()
	h.PressureSome = perCent(pressure.Some.Avg10, procfs.OutcomeOf(err))
	h.PressureFull = perCent(pressure.Full.Avg10, procfs.OutcomeOf(err))
}

func (s *Source) counter(name string) top.Figure {
	return counterOf(&s.meminfo, name)
}

func counterOf(c *procfs.Counters, name string) top.Figure {
	v, ok := c.Get(name)
	if !ok {
		return top.Figure{State: top.Unsupported}
	}
	return top.Of(v)
}

// perCent turns a share in per cent into hundredths.
func perCent(v float64, o procfs.Outcome) top.Figure {
	if o != procfs.Known {
		return top.Figure{State: stateOf(o)}
	}
	return top.Of(int64(math.Round(v * 100)))
}

// nodesOfCPUs reads which CPU belongs to which node from
// /sys/devices/system/node/nodeN/cpuM. Without NUMA it is empty.
func nodesOfCPUs(sys string) map[int]int {
	nodes := make(map[int]int)
	links, err := filepath.Glob(filepath.Join(sys, "devices/system/node/node[0-9]*/cpu[0-9]*"))
	if err != nil {
		return nodes
	}
	for _, link := range links {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(link)), "node"))
		cpu, err2 := strconv.Atoi(strings.TrimPrefix(filepath.Base(link), "cpu"))
		if err == nil && err2 == nil {
			nodes[cpu] = node
		}
	}
	return nodes
}

// hostName is the machine's name, empty where it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
