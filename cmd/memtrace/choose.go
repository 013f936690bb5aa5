//go:build linux && !viewer

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
	"github.com/memtrace/memtrace/tracer/probe"
)

// selection says which processes to trace beside those given by ID.
type selection struct {
	comms      []string
	cgroups    []string
	containers []string // IDs, or names of containers, pods and units
	all        bool
}

func (c selection) empty() bool { return len(c.comms)+len(c.cgroups)+len(c.containers) == 0 && !c.all }

// resolve adds the IDs of containers that are given by name.
func (c selection) resolve(root string) selection {
	c.containers = slices.Clone(c.containers)
	for _, name := range c.containers {
		c.containers = append(c.containers, cgroup.IDs(root, name)...)
	}
	return c
}

// maxComm is how much of a name the kernel keeps (TASK_COMM_LEN less the NUL).
const maxComm = 15

// matches reports whether a process is meant. One that has ended meanwhile is not.
func (c selection) matches(p *procfs.Process) bool {
	comm, err := p.Comm()
	if err != nil {
		return false
	}
	if c.all || slices.ContainsFunc(c.comms, func(name string) bool { return name[:min(len(name), maxComm)] == comm }) {
		return true
	}
	if len(c.cgroups)+len(c.containers) == 0 {
		return false
	}
	groups, err := p.Cgroups()
	return err == nil && slices.ContainsFunc(groups, c.means)
}

// means reports whether the processes of a control group are meant.
func (c selection) means(group string) bool {
	return slices.ContainsFunc(c.cgroups, func(path string) bool { return below(group, path) }) ||
		slices.ContainsFunc(c.containers, func(name string) bool { return cgroup.Within(group, name) })
}

// below reports whether a control group is the one of path, or one below it.
func below(group, path string) bool {
	path = "/" + strings.Trim(strings.TrimPrefix(path, "/sys/fs/cgroup"), "/")
	return path == "/" || group == path || strings.HasPrefix(group, path+"/")
}

// choose lists the processes that are meant, in the order of their IDs; all of
// them but kernel threads, zombies and memtrace itself.
func (c selection) choose(fs procfs.FS) ([]int, error) {
	dir, err := fs.Open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	pids, err := dir.PIDs(nil)
	if err != nil {
		return nil, err
	}
	var chosen []int
	for _, pid := range pids {
		p, err := fs.Process(pid)
		if err != nil {
			continue // it has ended
		}
		st, err := p.Stat()
		if err == nil && pid != os.Getpid() && !st.KernelThread() && st.State != 'Z' && c.matches(p) {
			chosen = append(chosen, pid)
		}
		_ = p.Close()
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no process %s", c)
	}
	return chosen, nil
}

func (c selection) String() string {
	var parts []string
	if len(c.comms) > 0 {
		parts = append(parts, "is named "+strings.Join(c.comms, " or "))
	}
	if len(c.cgroups) > 0 {
		parts = append(parts, "is in the control group "+strings.Join(c.cgroups, " or "))
	}
	if len(c.containers) > 0 {
		parts = append(parts, "is in the container, pod or unit "+strings.Join(c.containers, " or "))
	}
	if c.all {
		parts = append(parts, "can be traced")
	}
	return strings.Join(parts, ", and none ")
}

// beginAll attaches to the processes given by ID, each of which must be
// traceable, and to those that were chosen, some of which need not be.
func (s *session) beginAll(ctx context.Context) error {
	for _, pid := range s.pids {
		if ctx.Err() != nil {
			return nil // loop ends at once
		}
		if err := s.begin(pid); err != nil {
			return err
		}
	}
	if unseen := s.unseenFunctions(); s.chosen.empty() && len(unseen) > 0 {
		return errors.New(strings.Join(unseen, "\n"))
	}
	if s.chosen.empty() {
		return nil
	}
	pids, err := s.chosen.resolve("/").choose(s.fs)
	if err != nil {
		return err
	}
	if err := s.refuseUnsafeProbes(pids); err != nil {
		return err
	}
	var failures failures
	for _, pid := range pids {
		if ctx.Err() != nil {
			return nil
		}
		if slices.Contains(s.pids, pid) {
			continue
		}
		if err := s.begin(pid); err != nil {
			failures.add(pid, err)
			s.watchOnly(pid)
			continue
		}
		s.pids = append(s.pids, pid)
	}
	if len(s.pids) == 0 {
		return errors.Join(failures.errs...)
	}
	for _, text := range failures.texts() {
		s.warn("not traced: %s", text)
	}
	return nil
}

// watchOnly has the children followed of a process that cannot be traced
// itself, where all are to be traced.
func (s *session) watchOnly(pid int) {
	if !s.tracer.Config().Everywhere {
		return
	}
	if err := s.tracer.Watch(pid); err != nil {
		s.warn("%v", err)
	}
}

// failures are processes that could not be attached to, by the reason.
type failures struct {
	errs   []error
	order  []error
	byKind map[error][]int
}

// commonReasons are those that many processes may have.
var commonReasons = []error{
	probe.ErrGoProgram, probe.ErrNoAllocator, probe.ErrStripped, probe.ErrAllocatesNothing,
	probe.ErrKernelThread, probe.ErrInterpreter, probe.Err32Bit, os.ErrProcessDone,
}

func (f *failures) add(pid int, err error) {
	f.errs = append(f.errs, err)
	kind := err
	for _, reason := range commonReasons {
		if errors.Is(err, reason) {
			kind = reason
			break
		}
	}
	if f.byKind == nil {
		f.byKind = make(map[error][]int)
	}
	if len(f.byKind[kind]) == 0 {
		f.order = append(f.order, kind)
	}
	f.byKind[kind] = append(f.byKind[kind], pid)
}

// texts says each reason once, and of which processes it is true.
func (f *failures) texts() (texts []string) {
	const shown = 10
	for _, kind := range f.order {
		pids := f.byKind[kind]
		if len(pids) == 1 {
			texts = append(texts, fmt.Sprintf("process %d: %v", pids[0], kind))
			continue
		}
		list, more := pids[:min(len(pids), shown)], ""
		if len(pids) > shown {
			more = " and others"
		}
		texts = append(texts, fmt.Sprintf("%d processes (%s%s): %v", len(pids), strings.Trim(fmt.Sprint(list), "[]"), more, kind))
	}
	return texts
}
