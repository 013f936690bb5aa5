package top

import (
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// processColumns are those of the processes.
func processColumns(total Figure, o options) []column[Process] {
	get := func(u Unit, f func(*Process) Figure) func(*Process) Value {
		return func(p *Process) Value { return value(f(p), u) }
	}
	columns := []column[Process]{
		pidColumn(),
		{Column{Name: "user", Title: "USER", Width: 8, Rank: 3, Doc: "user the process acts as (effective user ID)"},
			func(p *Process) Value { return text(p.User) }},
		{Column{Name: "priority", Title: "PR", Unit: Plain, Width: 3, Rank: 9, Doc: "the scheduler's priority"},
			get(Plain, func(p *Process) Figure { return p.Priority })},
		{Column{Name: "nice", Title: "NI", Unit: Plain, Width: 3, Rank: 10, Doc: "nice value"},
			get(Plain, func(p *Process) Figure { return p.Nice })},
		{Column{Name: "state", Title: "S", Width: 1, Rank: 6, Doc: "R running, S sleeping, D waiting for I/O, I idle, T stopped, Z ended"},
			func(p *Process) Value { return text(letter(p.State)) }},
		{Column{Name: "threads", Title: "THR", Unit: Count, Width: 4, Rank: 7, Doc: "threads"},
			get(Count, func(p *Process) Figure { return p.Threads })},
	}
	columns = append(columns, sizeColumns()...)
	return append(columns,
		column[Process]{Column{Name: "mem", Title: "%MEM", Unit: Percent, Width: 4, Rank: 4, Doc: "RSS of the machine's memory, as top(1) counts"},
			func(p *Process) Value { return value(share(p.RSS, total), Percent) }},
		column[Process]{Column{Name: "cpu", Title: "%CPU", Unit: Percent, Width: 5, Rank: 2, Doc: "of one core, since the last refresh (--once: since it started)"},
			get(Percent, func(p *Process) Figure { return p.CPU })},
		column[Process]{Column{Name: "time", Title: "TIME+", Unit: Clock, Width: 8, Rank: 8, Doc: "CPU time, user and system"},
			get(Clock, func(p *Process) Figure { return p.CPUTime })},
		column[Process]{Column{Name: "delta", Title: "ΔPSS", Unit: Change, Width: 6, Rank: 1, Live: true, Doc: "change of PSS since the last refresh; bold from --threshold on"},
			func(p *Process) Value { return strongFrom(o.threshold, p.DeltaPSS) }},
		column[Process]{Column{Name: "trend", Title: "RSS TREND", Unit: Bar, Width: trendWidth, Rank: 13, Live: true, Doc: "RSS over the last refreshes, from its lowest to its highest"},
			func(p *Process) Value { return trendOf(p, o.drawing()) }},
		column[Process]{Column{Name: "oom", Title: "OOM", Unit: Plain, Width: 4, Rank: 11, Doc: "oom_score: the higher, the sooner the OOM killer takes it"},
			get(Count, func(p *Process) Figure { return p.OOMScore })},
		column[Process]{Column{Name: "age", Title: "AGE", Unit: Age, Width: 4, Rank: 12, Doc: "how long ago PSS, USS and swap were read; bold where something has changed since, but the stall budget did not allow to read them again"},
			ageOf},
		column[Process]{Column{Name: "inner_pids", Title: "INSIDE", Width: 6, Rank: 15, Doc: "its process IDs in PID namespaces of its own, as in a container; the last is what it takes for its ID"},
			func(p *Process) Value { return text(innerPIDs(p)) }},
		column[Process]{Column{Name: "cgroup", Title: "CGROUP", Width: 18, Rank: 14, Path: true, Doc: "path of the cgroup with the memory controller"},
			func(p *Process) Value { return text(p.Cgroup) }},
		commandColumn(o),
	)
}

// innerPIDs are "1" of a container's first process, "812/1" of that of a
// container in a container.
func innerPIDs(p *Process) string {
	var ids []string
	for _, id := range p.Inner {
		ids = append(ids, strconv.Itoa(id))
	}
	return strings.Join(ids, "/")
}

func pidColumn() column[Process] {
	return column[Process]{Column{Name: "pid", Title: "PID", Unit: Plain, Width: 7, Doc: "process ID"},
		func(p *Process) Value { return value(Of(p.PID), Plain) }}
}

func commandColumn(o options) column[Process] {
	return column[Process]{Column{Name: "command", Title: "COMMAND", Width: 12, Flex: true, Doc: "command line, or [name] of a kernel thread; key c: without path, name alone"},
		func(p *Process) Value { return text(commandOf(p, o.command)) }}
}

// sizeColumns are the sizes of a process.
func sizeColumns() []column[Process] {
	get := func(f func(*Process) Figure) func(*Process) Value {
		return func(p *Process) Value { return value(f(p), Bytes) }
	}
	return []column[Process]{
		{size("virt", "VIRT", 9, "address space mapped"), get(func(p *Process) Figure { return p.Virt })},
		{size("rss", "RSS", 1, "resident memory, shared pages counted whole (statm)"), get(func(p *Process) Figure { return p.RSS })},
		{size("shr", "SHR", 6, "file and shmem pages in RSS, whether shared or not (statm)"), get(func(p *Process) Figure { return p.Shared })},
		{size("pss", "PSS", 0, "resident memory, each shared page divided by how many processes map it"), get(func(p *Process) Figure { return p.withinRSS(p.PSS) })},
		{size("uss", "USS", 1, "resident memory that no other process maps: what ending it would free"), get(func(p *Process) Figure { return p.withinRSS(p.USS) })},
		{size("swap", "SWAP", 5, "memory in swap, divided like PSS where the kernel tells"), get(func(p *Process) Figure { return p.Swap })},
	}
}

func ageOf(p *Process) Value {
	if !p.PSS.Known() {
		return value(Figure{State: p.PSS.State}, Age)
	}
	v := value(Of(int64(p.Age)), Age)
	v.Strong = p.Behind
	return v
}

// trendOf draws what there is, from two values on.
func trendOf(p *Process, chars *tui.Charset) Value {
	if len(p.Trend) < 2 {
		return Value{Unit: Bar, Figure: Figure{State: Unread}}
	}
	return drawn(chars.Sparkline(p.Trend, trendWidth))
}

func strongFrom(threshold int64, f Figure) Value {
	v := value(f, Change)
	v.Strong = f.Known() && threshold > 0 && max(f.N, -f.N) >= threshold
	return v
}

func drawn(s string) Value { return Value{Figure: Figure{State: Known}, Unit: Bar, Text: s} }

func letter(state byte) string {
	if state == 0 {
		return "?"
	}
	return string(rune(state))
}

// commandStyle says how much of a command line is shown.
type commandStyle uint8

const (
	withPath    commandStyle = iota // as it was started
	withoutPath                     // the program's directories left out
	nameAlone
	commandStyles // how many there are
)

func commandOf(p *Process, style commandStyle) string {
	switch {
	case p.Kernel:
		return "[" + p.Name + "]"
	case style == nameAlone || p.Command == "":
		return p.Name
	case style == withoutPath:
		return trimPath(p.Command)
	}
	return p.Command
}

// trimPath leaves out the directories of a path that begins a command line.
func trimPath(command string) string {
	first, _, _ := strings.Cut(command, " ")
	slash := strings.LastIndexByte(first, '/')
	if slash < 0 || slash == len(first)-1 || first[0] != '/' && first[0] != '.' {
		return command
	}
	return command[slash+1:]
}

func processTable(s *Snapshot, o options) *Table {
	t := tableOf(o.filter.processes(s.Processes), (*Process).id, processColumns(s.Machine.Total, o))
	t.Empty = emptyFor(o.filter, "no processes")
	return t
}

func emptyFor(f Filter, otherwise string) string {
	if f.Empty() {
		return otherwise
	}
	return "nothing matches the filter " + f.String()
}
