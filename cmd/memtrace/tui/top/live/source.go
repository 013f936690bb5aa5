package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/procfs/collect"
	"github.com/memtrace/memtrace/procfs/machine"
)

// Options of a Source.
type Options struct {
	Proc, Sys string // where they are mounted; empty: /proc and /sys
	Cgroup    string // where cgroups are mounted; empty: Sys/fs/cgroup
	// StallBudget is how long walks may hold the mmap lock of one target, per
	// second on average; 0: without limit, and everything is walked each time.
	StallBudget time.Duration
}

// refreshEvery is how old users, command lines, cgroups and OOM scores get: they
// seldom change, and reading them costs more than all the rest.
const refreshEvery = 30 * time.Second

// Source reads the machine; see top.Source.
type Source struct {
	fs        procfs.FS
	collector *collect.Collector
	machine   *machine.Reader
	groups    *cgroup.Hierarchy // nil: none could be opened
	noGroups  error
	users     collect.Users
	spaces    spaces
	parts     pacer[parts]
	onNodes   pacer[[]uint64]
	mapped    pacer[mapped]
	host      string
	meminfo   procfs.Counters
	nodes     []machine.Node
	cpuNode   map[int]int
	inside    bool   // a PID namespace hides processes
	estimated string // why PSS and USS are estimates; empty: they are not
	cpu       time.Duration
	at        time.Time
}

// Open opens what the machine has. The caller closes the Source.
func Open(o Options) (*Source, error) {
	if o.Proc == "" {
		o.Proc = procfs.DefaultRoot
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.Cgroup == "" {
		o.Cgroup = o.Sys + "/fs/cgroup"
	}
	fs, err := procfs.New(o.Proc)
	if err != nil {
		return nil, err
	}
	s := &Source{fs: fs, spaces: spaces{same: sameSpace}}
	budget := collect.Budget{}
	if o.StallBudget > 0 {
		budget = collect.DefaultBudget()
		budget.Stall = o.StallBudget
	}
	s.parts.budget, s.onNodes.budget, s.mapped.budget = budget, budget, budget
	s.mapped.budget.Total = 0 // it is one process, and somebody waits for it
	if s.machine, err = machine.Open(o.Proc, o.Sys); err != nil {
		return nil, err
	}
	// One thread reads: the other cores are for those who are looked at.
	if s.collector, err = collect.Open(collect.Options{Root: o.Proc, Workers: 1, RefreshEvery: refreshEvery, Budget: budget}); err != nil {
		return nil, errors.Join(err, s.machine.Close())
	}
	s.groups, s.noGroups = cgroup.Open(o.Cgroup)
	s.host, s.estimated = hostName(), estimates(o.Proc)
	s.inside = insideNamespace(fs)
	s.cpuNode = nodesOfCPUs(o.Sys)
	return s, nil
}

// initPIDNamespace is the inode of the first PID namespace
// (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initPIDNamespace = 0xEFFFFFFC

// insideNamespace reports whether only a part of the machine's processes is
// seen, as in a container.
func insideNamespace(fs procfs.FS) bool {
	self, err := fs.Process(os.Getpid())
	if err != nil {
		return false
	}
	defer self.Close()
	inode, err := self.NSInode("pid")
	return err == nil && inode != initPIDNamespace
}

// Close lets go of everything.
func (s *Source) Close() error {
	err := errors.Join(s.collector.Close(), s.machine.Close())
	if s.groups != nil {
		err = errors.Join(err, s.groups.Close())
	}
	return err
}

// Read implements top.Source.
func (s *Source) Read(ctx context.Context, want top.Want) (*top.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fields := fieldsFor(&want)
	pass, err := s.collector.Collect(fields)
	if err != nil {
		return nil, fmt.Errorf("read the processes: %w", err)
	}
	out := &top.Snapshot{At: pass.At, Host: s.host}
	s.addMachine(out)
	s.addProcesses(out, pass)
	if fields&collect.Memory != 0 {
		addWalks(out, &pass.Walks)
	}
	switch want.View {
	case top.Memory:
		s.addBooks(out)
	case top.NUMA:
		s.addNodes(out, pass)
	case top.Groups:
		s.addGroups(out)
	case top.Components:
		s.addComponents(out, pass)
	case top.Threads:
		s.addThreads(out, want)
	case top.Mappings:
		s.addMappings(out, pass, want)
	}
	s.markEstimates(out)
	s.addCost(out)
	return out, nil
}

// fieldsFor says what is read of each process: what the view needs, less what
// is read anew each time for a column that is not on the screen.
func fieldsFor(want *top.Want) collect.Fields {
	switch want.View {
	case top.Processes:
		fields := collect.All | collect.InnerPIDs
		if !want.Shows("inner_pids") {
			fields &^= collect.InnerPIDs
		}
		if !want.Shows("shr") {
			fields &^= collect.Shared
		}
		if !want.Shows("oom") {
			fields &^= collect.OOMScore
		}
		return fields
	case top.Programs, top.Sharing, top.Groups:
		return collect.User | collect.Cmdline | collect.Cgroup | collect.Memory
	case top.NUMA:
		return collect.User | collect.Cmdline | collect.Cgroup
	case top.Memory:
		return collect.Memory
	}
	return collect.User | collect.Cmdline
}

// addWalks says what reading PSS, USS and swap did to those who were read.
func addWalks(out *top.Snapshot, w *collect.Walks) {
	c := &out.Cost
	c.Walked, c.Unchanged, c.Deferred = w.Done, w.Unchanged, w.Deferred+w.TooLong
	c.LongestHold, c.Oldest = w.Longest, w.Oldest
}

// addCost says what memtrace itself used since the last Snapshot.
func (s *Source) addCost(out *top.Snapshot) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return // the cost is then not shown
	}
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if now := time.Now(); !s.at.IsZero() {
		out.Cost.CPU, out.Cost.Wall = used-s.cpu, now.Sub(s.at)
		s.at = now
	} else {
		s.at = now
	}
	s.cpu = used
}
