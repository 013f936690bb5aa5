//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/tracer/probe"
)

// refuseUnsafeProbes is an error if probes in files would break a running process: one that interprets machine code, or
// whose allocator was patched. Every process that maps a file gets the probes in it. Where each process has probes of
// its own, only such a process is left out.
func (s *session) refuseUnsafeProbes(pids []int) error {
	if !s.tracer.Config().Everywhere {
		return nil
	}
	var errs []error
	for _, pid := range pids {
		objects, err := s.finder.Discover(pid)
		if errors.Is(err, probe.ErrInterpreter) {
			errs = append(errs, err)
		}
		_, patched := probe.Unpatched(s.fs.Root(), pid, objects, true) // a breakpoint is no jump
		probe.CloseAll(objects)
		for _, reason := range patched {
			errs = append(errs, fmt.Errorf("process %d: %w", pid, reason))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("--all puts probes into files, for all that map them, and would break these: end them first, or choose processes by -p, "+
		"--comm, --cgroup or --container:\n%w", errors.Join(errs...))
}
