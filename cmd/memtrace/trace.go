package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/tracer"
)

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
		return usageError("no process given: use -p PID, --comm NAME or --cgroup PATH (memtrace run -- COMMAND starts one)")
	}
	if err := set.gate.open(); err != nil {
		return err
	}
	return set.gate.finish(trace(c, set))
}

// trace attaches to running processes and follows them.
func trace(c *cli.Context, set settings) error {
	s, err := newSession(set, silent{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.beginAll(); err != nil {
		return err
	}
	s.chooseOutput()
	s.guard()
	if err := s.loop(c.Context); err != nil {
		return err
	}
	return s.gate.result()
}

// chooseOutput comes after the attach, so that its errors find a plain terminal.
func (s *session) chooseOutput() {
	if s.settings.events {
		s.out = newEventOutput(s.settings.filter, s.names, s.fs, s.started)
		return
	}
	s.out = traceOutput(s.settings)
}

// begin attaches to one process that runs already.
func (s *session) begin(pid int) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		return err
	}
	objects, err := s.finder.Discover(pid)
	if errors.Is(err, os.ErrPermission) {
		err = adviseOn(fmt.Errorf("%w: %w", tracer.ErrNotPermitted, err))
	}
	if err != nil {
		_ = t.held.Close()
		return err
	}
	s.say("attaching to process %d: %d files", pid, len(objects))
	return s.adopt(t, objects, false)
}

// adviseOn adds to an error of the tracer what the user can do about it.
func adviseOn(err error) error {
	switch {
	case errors.Is(err, tracer.ErrNotPermitted):
		return fmt.Errorf("%w\n%s\n(memtrace doctor says more)", err, remedy())
	case errors.Is(err, tracer.ErrNotSupported):
		return fmt.Errorf("%w\nmemtrace doctor shows what this kernel has", err)
	}
	return err
}

// remedy says which capabilities are missing, and which command grants them.
func remedy() string {
	missing := missingCapabilities()
	if len(missing) == 0 {
		return "memtrace has all capabilities that it uses: the kernel's lockdown, a security module or a container forbids it"
	}
	return fmt.Sprintf("memtrace lacks %s: run it with sudo, or grant what it uses: sudo setcap %s+ep %s",
		strings.Join(missing, ", "), strings.ToLower(strings.Join(capabilityNames(), ",")), ownPath())
}

func ownPath() string {
	path, err := os.Executable()
	if err != nil {
		return "memtrace"
	}
	return path
}
