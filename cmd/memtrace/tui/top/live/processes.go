package live

import (
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// stateOf translates why a figure is known or not.
func stateOf(o procfs.Outcome) top.State {
	switch o {
	case procfs.Known:
		return top.Known
	case procfs.NoMemory:
		return top.None
	case procfs.NoPermission:
		return top.Denied
	case procfs.NotSupported:
		return top.Unsupported
	}
	return top.Unread
}

func figure(n uint64, o procfs.Outcome) top.Figure {
	if o != procfs.Known {
		n = 0
	}
	return top.Figure{N: int64(n), State: stateOf(o)}
}

func (s *Source) addProcesses(out *top.Snapshot, pass *collect.Pass) {
	uptime := sinceBoot()
	s.spaces.update(pass.Processes)
	out.Processes = make([]top.Process, len(pass.Processes))
	for i, p := range pass.Processes {
		s.fill(&out.Processes[i], p, pass, uptime)
		out.Processes[i].Space = s.spaces.known[p.Identity].id
	}
}

func (s *Source) fill(to *top.Process, p *collect.Process, pass *collect.Pass, uptime time.Duration) {
	to.PID, to.Start, to.PPID, to.Inner = p.PID, p.StartTime, p.PPID, p.InnerPIDs
	to.Name, to.Command, to.Program = p.Comm, p.Cmdline, programOf(p)
	to.State, to.Kernel, to.Cgroup = p.State, p.KernelThread, p.Cgroup
	to.Priority, to.Nice, to.Threads = top.Of(p.Priority), top.Of(p.Nice), top.Of(p.Threads)
	to.CPUTime = top.Of(int64(p.CPU()))
	to.Running = top.Of(int64(uptime) - int64(p.StartTime)*int64(procfs.ClockTick))
	if p.Outcome(collect.User).Ok() {
		to.User = s.users.Name(p.UID)
	}
	to.OOMScore = figure(uint64(p.OOMScore), p.Outcome(collect.OOMScore))
	if p.KernelThread || p.State == 'Z' {
		none := top.Figure{State: top.None}
		to.Virt, to.RSS, to.Shared, to.PSS, to.USS, to.Swap, to.RSSThen = none, none, none, none, none, none, none
		return
	}
	to.Virt, to.RSS = top.Of(p.VSize), top.Of(p.RSS)
	to.Shared = figure(p.Shared, p.Outcome(collect.Shared))
	to.PSS = figure(p.PSS())
	to.RSSThen = figure(p.Memory.Rss, p.Outcome(collect.Memory))
	to.USS = figure(p.USS())
	to.Swap = figure(p.Swap())
	to.Age, to.Behind = p.Age(pass.At), p.Behind
	for _, f := range []*top.Figure{&to.PSS, &to.USS, &to.Swap} {
		f.Stale = p.Behind && f.Known()
	}
	if !p.Behind && to.PSS.Known() && to.PSS.N > to.RSS.N {
		to.RSS = to.RSSThen // nothing has changed since the walk, and the kernel's counters lag
	}
}

// sinceBoot is the clock that start times are told by: CLOCK_BOOTTIME.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // averages are then not shown
	}
	return time.Duration(t.Nano())
}

// programOf names what a process is an instance of: its program file's name
// as it was started, unless it was renamed since.
func programOf(p *collect.Process) string {
	first, _, _ := strings.Cut(p.Cmdline, " ")
	name := filepath.Base(first)
	// comm has at most 15 bytes of the file's name.
	if first != "" && strings.HasPrefix(name, p.Comm) {
		return name
	}
	return p.Comm
}
