//go:build linux && !viewer

package main

import (
	"sync"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/probe"
)

// identity is what a process is called.
type identity struct {
	comm, exe  string
	inner      []int    // its IDs in PID namespaces within the initial one
	allocators []string // that are probed
	searched   bool     // allocators are known
	uid        uint32
	owned      bool // uid is known
}

// identify reads what a process is called now. What cannot be read is left empty.
func identify(p *procfs.Process) (id identity) {
	id.comm, _ = p.Comm()
	id.exe, _ = p.Exe()
	if status, err := p.Status(); err == nil {
		id.uid, id.owned = status.Uid[1], true
		if len(status.NSpid) > 1 {
			id.inner = status.NSpid[1:]
		}
	}
	return id
}

// describe puts what is known into a description.
func (id identity) describe(info *analyzer.ProcessInfo) {
	if id.comm != "" {
		info.Comm = id.comm
	}
	if id.exe != "" {
		info.Exe = id.exe
	}
	if id.owned {
		info.UID = id.uid
	}
	if id.inner != nil {
		info.InnerPIDs = id.inner
	}
	if id.searched {
		info.Allocators = id.allocators
	}
}

// identities are what processes were called as they stood still at their ends:
// many live for less time than their events take to be read, and nobody could
// tell who they were afterwards.
type identities struct {
	mu sync.Mutex
	by map[int]identity
}

// look notes what a process that stands still at its end is called. It may be
// called from any goroutine.
func (k *identities) look(fs procfs.FS, f *attacher, pid int) {
	p, err := fs.Process(pid)
	if err != nil {
		return // it was killed meanwhile
	}
	defer p.Close()
	id := identify(p)
	id.allocators, id.searched = mappedAllocators(p, f.of(pid))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = make(map[int]identity)
	}
	k.by[pid] = id
}

// mappedAllocators names those of a process's probed files that it still maps:
// the others are of programs that it was before.
func mappedAllocators(p *procfs.Process, probed []probe.Object) (names []string, known bool) {
	_, left, err := stillMapped(p, probed)
	return allocatorNames(probed, left), err == nil && len(probed) > 0
}

// stillMapped divides a process's probed files into those that it maps and those that it doesn't.
func stillMapped(p *procfs.Process, probed []probe.Object) (still, left []probe.Object, err error) {
	mapped := make(map[fileID]bool)
	err = p.Maps(func(v *procfs.VMA) { mapped[fileID{v.DevMajor, v.DevMinor, v.Inode}] = true })
	for _, o := range probed {
		if mapped[fileID{o.Major, o.Minor, o.Inode}] {
			still = append(still, o)
		} else {
			left = append(left, o)
		}
	}
	return still, left, err
}

// take returns what a process was called at its end, and forgets it.
func (k *identities) take(pid int) (id identity, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id, ok = k.by[pid]
	delete(k.by, pid)
	return id, ok
}

// nameEnded has the Reports name a process as it was called at its end, once
// its last event has been read.
func (s *session) nameEnded(pid int) {
	id, looked := s.known.take(pid)
	info, known := s.analyzer.Info(uint32(pid))
	if !looked || !known {
		return
	}
	id.describe(&info)
	s.take(input.Described{ProcessInfo: info})
}
