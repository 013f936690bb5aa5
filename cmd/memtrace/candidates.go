//go:build linux && !viewer

package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
)

// maxCandidates bounds what a shell is offered.
const maxCandidates = 4096

// machine lists what runs here for a shell that completes a word. What it may
// not read it leaves out.
type machine struct{}

// each calls f for every process but kernel threads and this one.
func (machine) each(f func(pid int, p *procfs.Process)) {
	fs, err := procfs.New("/proc")
	if err != nil {
		return
	}
	dir, err := fs.Open()
	if err != nil {
		return
	}
	defer dir.Close()
	pids, err := dir.PIDs(nil)
	if err != nil {
		return
	}
	for _, pid := range pids[:min(len(pids), maxCandidates)] {
		p, err := fs.Process(pid)
		if err != nil {
			continue // it has ended
		}
		if st, err := p.Stat(); err == nil && !st.KernelThread() && pid != os.Getpid() {
			f(pid, p)
		}
		_ = p.Close()
	}
}

// Processes are IDs, with their names.
func (m machine) Processes() (out []cmdline.Candidate) {
	m.each(func(pid int, p *procfs.Process) {
		comm, _ := p.Comm()
		out = append(out, cmdline.Candidate{Word: strconv.Itoa(pid), Text: comm})
	})
	return out
}

// Names are those of processes, each once.
func (m machine) Names() []cmdline.Candidate {
	var names []string
	m.each(func(_ int, p *procfs.Process) {
		if comm, err := p.Comm(); err == nil {
			names = append(names, comm)
		}
	})
	return words(names)
}

// Groups are the control groups with processes in them.
func (m machine) Groups() []cmdline.Candidate {
	var paths []string
	m.eachGroup(func(path string) { paths = append(paths, path) })
	return words(paths)
}

// Containers are the IDs of those that processes run in.
func (m machine) Containers() []cmdline.Candidate {
	var ids []string
	m.eachGroup(func(path string) {
		for part := range strings.SplitSeq(path, "/") {
			if id := cgroup.ContainerID(part); id != "" {
				ids = append(ids, id)
			}
		}
	})
	return words(ids)
}

func (m machine) eachGroup(f func(path string)) {
	m.each(func(_ int, p *procfs.Process) {
		groups, err := p.Cgroups()
		if err != nil {
			return
		}
		for _, path := range groups {
			f(path)
		}
	})
}

// words are candidates without a text, sorted, each once.
func words(all []string) []cmdline.Candidate {
	slices.Sort(all)
	var out []cmdline.Candidate
	for _, word := range slices.Compact(all) {
		out = append(out, cmdline.Candidate{Word: word})
	}
	return out
}
