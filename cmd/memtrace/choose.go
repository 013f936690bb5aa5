package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/procfs"
)

// selection says which processes to trace beside those given by ID.
type selection struct {
	comms   []string
	cgroups []string
}

func (c selection) empty() bool { return len(c.comms)+len(c.cgroups) == 0 }

// maxComm is how much of a name the kernel keeps (TASK_COMM_LEN less the NUL).
const maxComm = 15

// matches reports whether a process is meant. One that has ended meanwhile is not.
func (c selection) matches(p *procfs.Process) bool {
	comm, err := p.Comm()
	if err != nil {
		return false
	}
	if slices.ContainsFunc(c.comms, func(name string) bool { return name[:min(len(name), maxComm)] == comm }) {
		return true
	}
	if len(c.cgroups) == 0 {
		return false
	}
	group, err := p.Cgroup()
	return err == nil && slices.ContainsFunc(c.cgroups, func(path string) bool { return below(group, path) })
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
	return strings.Join(parts, ", and none ")
}

// beginAll attaches to the processes given by ID, each of which must be
// traceable, and to those that were chosen, some of which need not be.
func (s *session) beginAll() error {
	for _, pid := range s.pids {
		if err := s.begin(pid); err != nil {
			return err
		}
	}
	if s.chosen.empty() {
		return nil
	}
	pids, err := s.chosen.choose(s.fs)
	if err != nil {
		return err
	}
	var failures []error
	for _, pid := range pids {
		if slices.Contains(s.pids, pid) {
			continue
		}
		if err := s.begin(pid); err != nil {
			failures = append(failures, err)
			continue
		}
		s.pids = append(s.pids, pid)
	}
	if len(s.pids) == 0 {
		return errors.Join(failures...)
	}
	for _, err := range failures {
		s.warn("not traced: %v", err)
	}
	return nil
}
