//go:build linux && !viewer

package main

import (
	"slices"

	"github.com/urfave/cli/v2"
)

func probesFlag() cli.Flag {
	return &cli.StringFlag{Name: "probes", Value: probesFull, Usage: "allocs: none on free, glibc's own records tell what is gone; none: none at all, sites are who touched pages first"}
}

// checkProbes checks --probes, and refuses what there is no answer to without probes. It reads what the other
// flags have set.
func (s *settings) checkProbes(c *cli.Context) error {
	if given := c.String("probes"); given != "" && !slices.Contains(probeChoices, given) {
		return noneOf("--probes", given, probeChoices)
	}
	if c.String("probes") == probesAllocs {
		s.allocs = true
		return s.checkAllocs(c)
	}
	if !s.tracer.Touch {
		return nil
	}
	s.hold = false
	switch {
	case s.leaks:
		return usageError("--probes none sees no block, so there is nothing to check for leaks: leave out --leaks, --stop and --fail-on conditions on leaks, " +
			"or leave out --probes none; memtrace leaks -p PID reads glibc's heap without probes")
	case s.gate.rules.NeedBlocks():
		return usageError("--probes none sees no allocation: --fail-on can have growing, growth, rss, pss, uss and swap")
	case s.overhead != 0 || s.tracer.Interval != 0:
		return usageError("--probes none has no probes to sample by: leave out --max-overhead and --sample-bytes")
	case len(s.functions.Functions) > 0 || s.functions.Family != "" || len(s.functions.Layers()) > 0:
		return usageError("--probes none probes no function: leave out --alloc-fn, --free-fn, --layer and --allocator")
	case s.recording != nil && s.recording.last.rings():
		return usageError("--probes none has no live blocks to begin a ring with: leave out --keep and --flight; -o FILE --max-size SIZE records it")
	case s.tracer.Faults == "off":
		return usageError("--probes none is about page faults: leave out --faults off")
	case s.tracer.Unwind == "none":
		return usageError("--probes none tells sites by their call stacks: leave out --unwind none")
	}
	return nil
}

// checkAllocs refuses what cannot be known without a probe on free. It reads what the other flags have set.
func (s *settings) checkAllocs(c *cli.Context) error {
	if refused := s.gate.rules.NeedFrees(); len(refused) > 0 {
		return usageError("--probes allocs does not see when a block is freed: --fail-on %s needs that; leave out --probes allocs", refused[0])
	}
	switch {
	case s.chosen.all:
		return usageError("--probes allocs reads the heap of each process: choose processes instead of --all")
	case s.overhead != 0 || s.tracer.Interval != 0:
		return usageError("--probes allocs needs every allocation to tell which blocks are gone: leave out --max-overhead and --sample-bytes")
	case len(s.functions.Functions) > 0 || s.functions.Family != "" || len(s.functions.Layers()) > 0:
		return usageError("--probes allocs is for glibc's malloc: leave out --alloc-fn, --free-fn, --layer and --allocator")
	case c.IsSet("back-pressure") && s.tracer.Pressure != 0:
		return usageError("--probes allocs needs every allocation to tell which blocks are gone: --back-pressure can be 0 alone")
	case s.events:
		return usageError("--probes allocs sees no frees to print: leave out --events")
	}
	s.tracer.Pressure = 0
	return nil
}

// beginTouch begins to trace a process without a probe. all says that its first instruction is still to come.
func (s *session) beginTouch(t *target, all bool) error {
	if err := s.attachTarget(t, nil, all); err != nil {
		return err
	}
	if !all {
		s.correlateTarget(t) // what is there already is nobody's
	}
	return nil
}

// startTouch is beginTouch for the program of run.
func (s *session) startTouch(pid int) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		return err
	}
	s.command = pid
	return s.beginTouch(t, true)
}

// execedTouch goes on with a process that has executed a program. Nothing of that is missed: page faults are
// seen by process, whatever it runs.
func (s *session) execedTouch(t *target, pid int, at uint64) {
	if s.stopping || t == nil && s.tracer.Config().NoFollow {
		return
	}
	if t != nil {
		t.execed, t.shared = at, false
		t.execs++
	}
	s.execedUnprobed(pid, nil)
}
