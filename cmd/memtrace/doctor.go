//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

const doctorDescription = "With --serve it is about memtrace.service and its drop-ins where these are installed, and else about the user who " +
	"asks. Each line begins with fine, less (the agent runs, and does less than it is to) or WRONG (it does not run, or not what its configuration " +
	"asks for), and says what to do next. It ends with 77 where something wrong takes other privileges or another kernel, with 1 where it is " +
	"something else, and with 0 where nothing is. docs/serve.md says what it looks at."

func doctorFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "also show what would be probed in this process"},
		allocFnFlag(), freeFnFlag(), layerFlag(), allocatorFlag(),
		&cli.BoolFlag{Name: "serve", Usage: "say instead what memtrace serve lacks to do what its configuration asks for"},
		&cli.PathFlag{Name: "config", Usage: "with --serve: the configuration, instead of what the unit names, or else " + defaultServeConfig},
	}
}

func doctorCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	if c.Bool("serve") {
		return doctorServe(c)
	}
	if c.IsSet("config") {
		return usageError("--config is for doctor --serve")
	}
	pids, err := parsePIDs(c.StringSlice("pid"))
	if err != nil {
		return err
	}
	functions, err := readFunctions(c)
	if err != nil {
		return err
	}
	finder := probe.NewFinder("/proc", functions)
	ready := diagnose(os.Stdout)
	for _, pid := range pids {
		err := showProbes(os.Stdout, finder, pid)
		if errors.Is(err, os.ErrProcessDone) {
			err = endedError(pid)
		}
		if err != nil {
			return err
		}
	}
	if !ready {
		return &exitError{exitUnsupported, errors.New("this kernel or these privileges do not allow to trace; see above")}
	}
	return nil
}

// diagnose prints what the kernel and the privileges allow, and reports
// whether it is enough to trace.
func diagnose(w io.Writer) bool {
	fmt.Fprintf(w, "memtrace %s on Linux %s\n\n", version, kernelRelease())
	fmt.Fprintf(w, "Privileges\n")
	for _, line := range privileges() {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "\nKernel\n")
	for _, f := range tracer.Features() {
		fmt.Fprintf(w, "  %-40s %s\n", f.Name, featureState(f))
	}
	mechanism, merr := tracer.ChooseMechanism("")
	faults, ferr := tracer.ChooseFaultSource("")
	fmt.Fprintf(w, "\nmemtrace would use\n")
	fmt.Fprintf(w, "  %-12s %s\n", "probes", chosen(string(mechanism), merr))
	fmt.Fprintf(w, "  %-12s %s\n", "page faults", chosen(string(faults), ferr))
	return merr == nil && basics()
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "(unknown)"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// basics reports whether what memtrace can't do without is there.
func basics() bool {
	for _, f := range tracer.Basics() {
		if f.Probe() != nil {
			return false
		}
	}
	return true
}

func featureState(f tracer.Feature) string {
	err := f.Probe()
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, tracer.ErrNotPermitted):
		if len(remedy()) == 0 {
			return "not permitted: it takes CAP_SYS_ADMIN, or a lockdown, a security module or a container forbids it"
		}
		return "not permitted: see the remedy above"
	case errors.Is(err, tracer.ErrNotSupported):
		return "no (" + requirement(f) + ")"
	}
	return "cannot tell: " + err.Error()
}

func requirement(f tracer.Feature) string {
	text := "Linux " + f.Since
	if f.Needs != "" {
		text += " with " + f.Needs
	}
	return text
}

func chosen(name string, err error) string {
	if err != nil {
		return "none: " + err.Error()
	}
	return name
}

// privileges says what memtrace may do, and what grants the rest.
func privileges() []string {
	lines := []string{fmt.Sprintf("user ID %d", os.Geteuid())}
	if what := remedy(); len(what) > 0 {
		lines = append(lines, what...)
	} else {
		lines = append(lines, "all capabilities that memtrace needs")
	}
	if text, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil && !strings.Contains(string(text), "[none]") {
		lines = append(lines, "kernel lockdown: "+strings.TrimSpace(string(text))+" (confidentiality forbids to read memory from BPF; it is lifted only at boot)")
	}
	if fs, err := procfs.New("/proc"); err == nil {
		if err := checkNamespace(fs); err != nil {
			lines = append(lines, err.Error())
		}
	}
	return lines
}

// showProbes prints what would be probed in a process, and at which cost.
func showProbes(w io.Writer, finder *probe.Finder, pid int) error {
	objects, marked, err := finder.DiscoverAll(pid)
	defer probe.CloseAll(objects)
	if err == nil || len(marked) > 0 {
		fmt.Fprintf(w, "\nProcess %d\n", pid)
	}
	for i := range objects {
		o := &objects[i]
		fmt.Fprintf(w, "  %s, %s, build ID %s, found by its %s\n", render.Clean(o.Path), o.Family, orNone(o.BuildID), o.Source)
		showObject(w, o)
	}
	for i := range marked {
		fmt.Fprintf(w, "  %s, build ID %s, not probed\n", render.Clean(marked[i].Path), orNone(marked[i].BuildID))
		showObject(w, &marked[i])
	}
	return err
}

func showObject(w io.Writer, o *probe.Object) {
	for _, p := range o.Probes {
		other := ""
		if p.Family != o.Family {
			other = " (" + string(p.Family) + ")"
		}
		if p.Cache.Layout != probe.NoCache {
			other += ", results can be predicted"
		}
		fmt.Fprintf(w, "    %-24s %#8x+%-3d %-9s %s%s\n", render.Clean(p.Name), p.Entry, p.Offset-p.Entry, p.Cost, p.Instruction, other)
	}
	for _, s := range o.Skipped {
		fmt.Fprintf(w, "    %-24s not probed: %s\n", render.Clean(s.Name), render.Clean(s.Reason))
	}
	for _, m := range o.Marks {
		fmt.Fprintf(w, "    %-24s a USDT probe, not traced%s\n", render.Clean(fmt.Sprint(m)), remedyOf(m))
	}
}

// remedyOf says what would trace a USDT probe, where something does.
func remedyOf(m probe.StaticProbe) string {
	for _, name := range probe.Layers() {
		if probe.LayerHas(name, m) {
			return ": --layer " + name + " does"
		}
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
