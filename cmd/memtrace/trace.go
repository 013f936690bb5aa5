//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
)

const traceDescription = "Shows which call sites hold the memory of running processes, where their resident pages are, and which sites look " +
	"like leaks: a live screen on a terminal (key h explains it), else the result at the end. Give -p, --comm, --cgroup, --container or --all."

func traceCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	set, err := readSettings(c)
	if err != nil {
		return err
	}
	if len(set.pids) == 0 && set.chosen.empty() {
		if c.NumFlags() == 0 && c.Command.Name != "trace" {
			_ = cli.ShowAppHelp(c)
			return &exitError{exitUsage, errQuiet}
		}
		return usageError("no process given: use -p PID, --comm NAME, --cgroup PATH, --container ID or --all (memtrace run -- COMMAND starts one)")
	}
	if err := set.open(); err != nil {
		return err
	}
	defer set.recording.abandon()
	return set.gate.finish(traceRunning(c, set))
}

// traceRunning attaches to running processes and follows them.
func traceRunning(c *cli.Context, set settings) error {
	s, err := newSession(set, noOutput{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.limiter.begin(false); err != nil {
		return err
	}
	if err := s.beginAll(c.Context); err != nil {
		return err
	}
	s.chooseOutput()
	s.guard()
	if err := s.loop(c.Context); err != nil {
		return err
	}
	return s.withRecord(s.gate.result())
}

// chooseOutput comes after the attach, so that its errors find a plain terminal.
func (s *session) chooseOutput() {
	if s.recordOnly {
		if !s.quiet {
			s.progress = newProgress()
		}
		s.out = recordOutput{progress: s.progress}
		return
	}
	if s.settings.events {
		events := newEventOutput(&s.settings, s.names, s.fs, s.started)
		for _, t := range s.targets {
			events.began(t.held.Process)
		}
		s.out = events
		return
	}
	s.out = s.traceOutput()
}

// begin attaches to one process that runs already.
func (s *session) begin(pid int) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		return err
	}
	if err := s.beginHeld(t); err != nil {
		s.drop(t)
		return err
	}
	return nil
}

// beginHeld attaches to a process that is held by its pidfd: if it still runs
// afterwards, no other one can have had its PID meanwhile.
func (s *session) beginHeld(t *target) error {
	if s.settings.tracer.Touch {
		return s.beginTouch(t, false)
	}
	objects, look, err := s.finder.Look(t.pid)
	t.pace.Expect(time.Now(), look.Listed)
	if errors.Is(err, os.ErrPermission) {
		err = adviseOn(fmt.Errorf("%w: %w", tracer.ErrNotPermitted, err))
	}
	if s.tracesWithoutAllocator(err) && slices.Contains(s.pids, t.pid) {
		return s.beginWithoutAllocator(t, err)
	}
	if err != nil {
		return err
	}
	s.say("attaching to process %d: %d files", t.pid, len(objects))
	if err := s.attachTarget(t, objects, false); err != nil {
		return err
	}
	if look.Whole && len(t.objects) == len(objects) {
		s.follower.code[t.pid] = look.Code // what has come since then is new to rescan
	}
	if t.goHeap {
		s.correlateTarget(t) // what later readings are compared with
	}
	if !t.held.Alive() {
		return fmt.Errorf("attach to process %d: it ended meanwhile: %w", t.pid, procfs.ErrGone)
	}
	return nil
}

// drop lets go of a process that could not be attached to.
func (s *session) drop(t *target) {
	t.exited = true
	s.forget(t.pid)
	delete(s.targets, t.pid)
	t.close()
}

// adviseOn adds to an error of the tracer what the user can do about it.
func adviseOn(err error) error {
	switch {
	case errors.Is(err, tracer.ErrNotPermitted):
		return fmt.Errorf("%w\n%s\n(memtrace doctor says more)", err, remedyText())
	case errors.Is(err, tracer.ErrNotSupported):
		return fmt.Errorf("%w\nmemtrace doctor shows what this kernel has", err)
	}
	return err
}

// remedyText is remedy for an error.
func remedyText() string {
	if lines := remedy(); len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	return "memtrace has all capabilities that it needs: the kernel's lockdown, a security module or a container forbids it"
}

func ownPath() string {
	path, err := os.Executable()
	if err != nil {
		return "memtrace"
	}
	return path
}
