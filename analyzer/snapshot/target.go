//go:build linux && !viewer

package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// target is a process that is being read.
type target struct {
	proc *procfs.Process
	p    *Process
}

// first looks at a process of the list: it becomes a target, unless it has no
// memory or would take too long.
func (t *taking) first(pid int) {
	proc, err := t.dir.Process(pid)
	if err != nil {
		t.failed(pid, err)
		return
	}
	st, err := proc.Stat()
	if err != nil || st.KernelThread() || st.Zombie() && st.NumThreads < 2 {
		_ = proc.Close()
		t.uncounted(pid, st, err)
		return
	}
	p := &Process{
		ID: ID{pid, st.StartTime}, PPID: st.PPID, Comm: st.Comm, State: st.State, Threads: st.NumThreads,
		Resident: st.RSSPages * t.s.Machine.PageSize,
	}
	l := &target{proc, p}
	t.describe(l)
	if mappings, err := proc.CountMaps(); err == nil { // else it may not be read either, and nobody waits for that
		p.Predicted = predict(p.Resident/t.s.Machine.PageSize, mappings)
	}
	if t.TimeLimit > 0 && spread(p.Predicted, t.StallBudget) > t.TimeLimit {
		p.Access = OverBudget
		p.Why = fmt.Sprintf("reading it would hold its mmap lock for %v, which at %v a second takes longer than %v",
			p.Predicted.Round(time.Millisecond), t.StallBudget, t.TimeLimit)
		t.finish(l)
		return
	}
	t.mu.Lock()
	t.targets = append(t.targets, l)
	t.mu.Unlock()
}

// failed notes a process that could not be opened.
func (t *taking) failed(pid int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !errors.Is(err, procfs.ErrGone):
		t.done = append(t.done, &Process{ID: ID{PID: pid}, Access: accessOf(err), Why: err.Error()})
	case t.PIDs == nil: // it ended since it was listed
		t.went = append(t.went, Passing{ID: ID{PID: pid}})
	default:
		t.s.Warnings = append(t.s.Warnings, err.Error())
	}
}

// uncounted counts what has no memory: kernel threads, zombies, and what has
// ended since it was listed.
func (t *taking) uncounted(pid int, st procfs.Stat, err error) {
	if err != nil {
		t.failed(pid, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if st.KernelThread() {
		t.kernel++
	} else {
		t.zombies++
	}
}

// maxCmdline bounds what is kept of a command line, in bytes.
const maxCmdline = 4096

// describe reads who the process is.
func (t *taking) describe(l *target) {
	p := l.p
	if status, err := l.proc.Status(); err == nil {
		p.UID, p.User = status.Uid[0], t.users.name(status.Uid[0])
		p.Usage.Tables = status.VmPTE
	}
	args, err := l.proc.Cmdline()
	p.CmdlineAccess = accessOf(err)
	room := maxCmdline
	for i, arg := range args {
		if room -= len(arg) + 1; room < 0 {
			args = append(args[:i], "…")
			break
		}
	}
	p.Cmdline = args
	p.Cgroup, err = l.proc.Cgroup()
	p.CgroupAccess = accessOf(err)
}

// read reads the process's mappings, and finishes with it.
func (t *taking) read(l *target) {
	defer t.finish(l)
	p := l.p
	p.ReadAt = time.Since(t.s.Begin)
	err := context.Cause(t.limited)
	if err == nil {
		err = t.readMappings(l)
	}
	if errors.Is(err, procfs.ErrGone) { // it may have called exec
		if st, again := l.proc.Stat(); again == nil && !st.Zombie() {
			p.Comm = st.Comm
			t.describe(l)
			err = t.readMappings(l)
		}
	}
	if err != nil {
		p.Uses, p.Usage = nil, Usage{Tables: p.Usage.Tables}
		p.Access, p.Why = accessOf(err), err.Error()
	}
}

// finish hands the process over to the snapshot, unless it has ended: half of
// a process is none.
func (t *taking) finish(l *target) {
	gone := l.p.Access == gone
	_ = l.proc.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if gone {
		t.went = append(t.went, Passing{l.p.ID, l.p.Comm})
		return
	}
	t.done = append(t.done, l.p)
}

// gone is the Access of a process that has ended. It stands in no Snapshot.
const gone = accesses

func accessOf(err error) Access {
	if errors.Is(err, errTimeLimit) {
		return OutOfTime
	}
	switch procfs.OutcomeOf(err) {
	case procfs.Known, procfs.NoMemory:
		return Known
	case procfs.NoPermission:
		return NoPermission
	case procfs.NotSupported:
		return NotSupported
	case procfs.Gone:
		return gone
	}
	return Failed
}

// lookAgain reads at the end by how much a process has grown since it was read.
func (t *taking) lookAgain(p *Process) {
	if p.CmdlineAccess == gone {
		p.CmdlineAccess = Failed
	}
	if p.CgroupAccess == gone {
		p.CgroupAccess = Failed
	}
	proc, err := t.dir.Process(p.PID)
	if err != nil {
		return
	}
	defer func() { _ = proc.Close() }()
	st, err := proc.Stat()
	if err != nil || st.StartTime != p.StartTime || st.Zombie() {
		return
	}
	p.ResidentEnd, p.HaveEnd = st.RSSPages*t.s.Machine.PageSize, true
}

// findChanges lists the processes again.
func (t *taking) findChanges() {
	c := &t.s.Changes
	for i := range t.s.Processes {
		if p := &t.s.Processes[i]; !p.HaveEnd && p.StartTime != 0 {
			c.Went = append(c.Went, Passing{p.ID, p.Comm})
		}
	}
	c.Went = append(c.Went, t.went...)
	if t.PIDs == nil {
		pids, err := t.dir.PIDs(nil)
		c.Uncounted = err != nil
		for _, pid := range pids {
			t.mayHaveCome(pid)
		}
	}
	order := func(a, b Passing) int { return cmp.Compare(a.PID, b.PID) }
	slices.SortFunc(c.Came, order)
	slices.SortFunc(c.Went, order)
}

// mayHaveCome notes a process that was not there at the beginning, or not
// under this PID.
func (t *taking) mayHaveCome(pid int) {
	i, known := slices.BinarySearchFunc(t.s.Processes, pid, func(p Process, pid int) int { return cmp.Compare(p.PID, pid) })
	if known && t.s.Processes[i].HaveEnd {
		return
	}
	if _, listed := slices.BinarySearch(t.pids, pid); listed && !known && !t.hasGone(pid) {
		return // a kernel thread or a zombie
	}
	proc, err := t.dir.Process(pid)
	if err != nil {
		return
	}
	defer func() { _ = proc.Close() }()
	st, err := proc.Stat()
	if err != nil || st.KernelThread() || st.Zombie() || known && st.StartTime == t.s.Processes[i].StartTime {
		return
	}
	t.s.Changes.Came = append(t.s.Changes.Came, Passing{ID{pid, st.StartTime}, st.Comm})
}

func (t *taking) hasGone(pid int) bool {
	return slices.ContainsFunc(t.went, func(p Passing) bool { return p.PID == pid })
}

// users remembers names of user IDs.
type users struct {
	mu    sync.Mutex
	names map[uint32]string
}

// name returns the user's name, or the number where there is none.
func (u *users) name(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if name, ok := u.names[uid]; ok {
		return name
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if known, err := user.LookupId(name); err == nil {
		name = known.Username
	}
	if u.names == nil {
		u.names = make(map[uint32]string)
	}
	u.names[uid] = name
	return name
}
