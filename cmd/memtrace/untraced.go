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
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

func leaksFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "check this process; -p 1,2 or -p 1 -p 2 for several"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of groups of blocks to show; 0: all (json: 10,000 unless given)"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the Report"},
		&cli.BoolFlag{Name: "stop", Usage: "stop the processes during the check and include their registers"},
		&cli.BoolFlag{Name: "no-contents", Usage: "do not show what leaked blocks begin with"},
		&cli.BoolFlag{Name: "debuginfod", Usage: "fetch missing debug files from the servers in DEBUGINFOD_URLS"},
		namesFlag(),
		&cli.BoolFlag{Name: "no-symbol-cache", Usage: "do not use the caches of names and unwinding tables on disk"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"V"}, Usage: "say on stderr what is being done"},
		noCommandLinesFlag(),
	}, gateFlags()...)
}

const leaksDescription = "Checks processes that were never traced. memtrace reads the records of glibc's allocator to find the live blocks, and then the memory for pointers to them." +
	" The process is only read and runs on, unless --stop is given.\n\n" +
	"Call stacks are not known: blocks are grouped by size and by what they begin with, such as the type of an object. For stacks, trace the process: memtrace -p PID --leaks."

func leaksCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	u, err := newUntraced(c)
	if err != nil {
		return err
	}
	defer u.resolver.Close()
	in := interruptsOf(c.Context)
	in.tell(u.resolver.Interrupt)
	defer in.tell(nil)
	if err := u.gate.open(); err != nil {
		return err
	}
	return u.gate.finish(u.run())
}

// run checks all processes and shows what was found.
func (u *untraced) run() error {
	failed := u.checkAll()
	if len(failed) == len(u.pids) {
		return errors.Join(failed...)
	}
	if err := u.show(failed); err != nil {
		return err
	}
	return u.gate.result()
}

// untraced is one run of the leaks command.
type untraced struct {
	settings
	contents bool
	c        *cli.Context
	fs       procfs.FS
	resolver *symbol.Resolver
	found    *analyzer.Untraced
	report   *report.Report
}

func newUntraced(c *cli.Context) (*untraced, error) {
	u := &untraced{c: c, contents: !c.Bool("no-contents"), found: analyzer.NewUntraced(time.Now())}
	u.settings = settings{
		format: render.Format(c.String("format")), standStill: c.Bool("stop"), verbose: c.Bool("verbose"), commands: !c.Bool("no-command-lines"),
	}
	u.top = listedSites(c, u.format)
	if err := u.checkFlags(); err != nil {
		return nil, err
	}
	var err error
	if u.pids, err = parsePIDs(c.StringSlice("pid")); err != nil {
		return nil, err
	}
	if len(u.pids) == 0 {
		return nil, usageError("no process given: use -p PID")
	}
	if u.gate, err = newJob(c); err != nil {
		return nil, err
	}
	if over := u.gate.rules.OverTime(); len(over) > 0 {
		return nil, usageError("--fail-on %s: only a trace can tell that (memtrace -p PID)", strings.Join(over, ","))
	}
	if u.symbols, err = symbolOptions(c); err != nil {
		return nil, err
	}
	if u.fs, err = procfs.New("/proc"); err != nil {
		return nil, err
	}
	u.resolver = symbol.NewResolver(u.symbols)
	return u, nil
}

func (u *untraced) checkFlags() error {
	switch {
	case u.top < 0:
		return usageError("--top must not be negative")
	case !slices.Contains(render.Formats(), string(u.format)):
		return noneOf("--format", string(u.format), render.Formats())
	}
	return nil
}

// checkAll checks one process after the other and returns what failed.
func (u *untraced) checkAll() (failed []error) {
	for _, pid := range u.pids {
		if err := u.check(pid); err != nil {
			failed = append(failed, adviseOnRead(err))
		}
	}
	return failed
}

// adviseOnRead marks what the privileges do not allow.
func adviseOnRead(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, os.ErrPermission) {
		return &exitError{exitUnsupported, err}
	}
	return err
}

// check checks one process.
func (u *untraced) check(pid int) error {
	t, err := holdTarget(u.fs, pid)
	if err != nil {
		return err
	}
	defer t.close()
	if t.objects, err = allocatorsOf(u.fs, pid); errors.Is(err, probe.ErrGoProgram) {
		return goHoldsInstead(pid)
	} else if err != nil {
		return err
	}
	t.goHeap = slices.ContainsFunc(t.objects, func(o probe.Object) bool { return o.WithGo })
	if t.space, err = symbol.NewSpace(u.fs.Root(), pid); err != nil {
		return err
	}
	defer t.space.Close()
	o := heapwalk.CheckOptions{Apart: scansApart, Symbol: func(addr uint64) string { return u.resolver.Object(t.space, addr) }}
	r, paused, err := u.checkHeap(t, &o)
	if errors.Is(err, heapwalk.ErrNoArena) {
		return noHeap(pid, t.objects, err)
	}
	if err != nil {
		return err
	}
	u.say("process %d: %d scans in %v", pid, r.Scans, r.Took.Round(time.Millisecond))
	return u.found.Add(t.held.Process, t.describe(), r, analyzer.UntracedOptions{
		Paused: paused, Registers: paused > 0 || o.Registers != nil, Contents: u.contents,
	})
}

func (u *untraced) say(format string, args ...any) {
	if u.verbose {
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.Clean(fmt.Sprintf(format, args...)))
	}
}

// allocatorsOf finds the allocators of a process, and refuses such as only a
// trace can see into. That none is found is no error: the heap may be all the same.
func allocatorsOf(fs procfs.FS, pid int) ([]probe.Object, error) {
	objects, err := probe.Discover(fs.Root(), pid)
	if err != nil {
		if errors.Is(err, probe.ErrStripped) || errors.Is(err, probe.ErrNoAllocator) ||
			errors.Is(err, probe.ErrAllocatesNothing) {
			return nil, nil
		}
		return nil, err
	}
	for i := range objects {
		o := &objects[i]
		if o.Family != probe.Glibc && o.Family != probe.FamilyUnknown && hasMalloc(o) {
			path := o.Path
			family := o.Family
			probe.CloseAll(objects)
			return nil, otherAllocator(pid, family, path)
		}
	}
	return objects, nil
}

// hasMalloc reports whether the object's functions are those that a program
// calls by the names malloc and free.
func hasMalloc(o *probe.Object) bool {
	return slices.ContainsFunc(o.Probes, func(p probe.Probe) bool { return p.Name == "malloc" })
}

func otherAllocator(pid int, family probe.Family, path string) error {
	return fmt.Errorf("check process %d for leaks: its allocator is %s (%s), and only glibc's can be read from outside; "+
		"trace it instead, which sees what is allocated from then on: memtrace -p %d --leaks -d 60s", pid, family, path, pid)
}

// noHeap says why a process may have no heap of glibc's.
func noHeap(pid int, objects []probe.Object, err error) error {
	for i := range objects {
		if objects[i].Family != probe.Glibc {
			return otherAllocator(pid, objects[i].Family, objects[i].Path)
		}
	}
	return fmt.Errorf("%w: it has allocated nothing so far, or its allocator is another one "+
		"(memtrace doctor -p %d shows which; memtrace -p %d --leaks traces it)", err, pid, pid)
}

// checkHeap checks a process, standing still where that is wanted.
func (u *untraced) checkHeap(t *target, o *heapwalk.CheckOptions) (*heapwalk.Result, time.Duration, error) {
	if u.standStill {
		r, paused, err := u.checkStopped(t, *o)
		if !errors.Is(err, ownthread.ErrNoAnswer) {
			return r, paused, err
		}
		fmt.Fprintf(os.Stderr, "memtrace: %v: it was checked without being stopped\n", err)
	}
	o.Registers = u.registersOf(t)
	r, err := heapwalk.Check(u.c.Context, t.held.Process, *o)
	return r, 0, err
}

// checkStopped checks a process while it stands still.
func (u *untraced) checkStopped(t *target, o heapwalk.CheckOptions) (r *heapwalk.Result, paused time.Duration, err error) {
	paused, err = whileStopped(t.held.Process, func(threads []reach.Thread) (err error) {
		o.Threads = threads
		r, err = heapwalk.Check(u.c.Context, t.held.Process, o)
		return err
	})
	return r, paused, err
}

// registersOf returns what reads the registers of a process that runs, or nil
// where the kernel or the privileges do not allow it: the Report then says so.
func (u *untraced) registersOf(t *target) func() []uint64 {
	read := func() (words []uint64, err error) {
		threads, err := tracer.Registers(t.pid)
		for _, thread := range threads {
			words = append(words, thread.Words...)
		}
		return words, err
	}
	if _, err := read(); err != nil {
		u.say("the registers of process %d: %v", t.pid, err)
		return nil
	}
	return func() []uint64 {
		words, _ := read() // it could be done just before
		return words
	}
}

// show writes the Report on stdout. failed are the checks that could not be made.
func (u *untraced) show(failed []error) error {
	u.report = u.found.Report(u.top)
	u.report.Made = madeNow(u.commands)
	u.report.Warnings = append(u.report.Warnings, u.resolver.Warnings()...)
	u.gate.conclude(u.report, true, failed)
	opt := render.Options{Format: u.format, Compact: true}
	if u.format == render.Text {
		opt.Color = term.IsTerminal(int(os.Stdout.Fd())) && tui.UseColor(os.Getenv)
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			opt.Width = width
		}
	}
	s := stream{to: os.Stdout, opt: opt}
	return s.write(u.report)
}
