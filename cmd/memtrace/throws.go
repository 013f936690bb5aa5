//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// warnOfThrows says where an exception from an allocator's own operator new would end
// the process, as it can't pass a return probe (docs/tracing.md).
func (s *session) warnOfThrows(t *target) {
	i := slices.IndexFunc(t.objects, func(o probe.Object) bool {
		return slices.ContainsFunc(o.Probes, func(p probe.Probe) bool { return p.Throws })
	})
	if i < 0 || s.thrown[t.objects[i].Path] {
		return
	}
	why := throwsWhen(t.pid, s.tracer.Config().Mechanism)
	if why == "" {
		return
	}
	s.thrown[t.objects[i].Path] = true
	s.warn("process %d: %s: should operator new of %s throw std::bad_alloc, the process ends instead, as exceptions can't pass a return probe",
		t.pid, why, filepath.Base(t.objects[i].Path))
}

// throwsWhen says why an allocation of usual size may fail under a return probe; "": it may not.
func throwsWhen(pid int, m tracer.Mechanism) string {
	if m != tracer.Session {
		return fmt.Sprintf("%s probes every return (Linux 6.13 on amd64 need not)", m)
	}
	for _, r := range []struct {
		resource   int
		name, flag string
	}{{unix.RLIMIT_AS, "RLIMIT_AS", "as"}, {unix.RLIMIT_DATA, "RLIMIT_DATA", "data"}} {
		var limit unix.Rlimit
		if err := unix.Prlimit(pid, r.resource, nil, &limit); err == nil && limit.Cur != unix.RLIM_INFINITY {
			return fmt.Sprintf("its memory is limited (%s is %d bytes; to lift it: prlimit --pid %d --%s=unlimited)", r.name, limit.Cur, pid, r.flag)
		}
	}
	if mode, err := os.ReadFile("/proc/sys/vm/overcommit_memory"); err == nil && strings.TrimSpace(string(mode)) == "2" {
		return "this machine never overcommits memory (vm.overcommit_memory is 2)"
	}
	return ""
}
