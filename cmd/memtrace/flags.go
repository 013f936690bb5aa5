//go:build linux && !viewer

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/symbol"
	"github.com/memtrace/memtrace/analyzer/wrapper"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// settings are the flags of trace and run, checked.
type settings struct {
	tracer  tracer.Config
	symbols symbol.Options
	// functions are those to probe beside, or instead of, all that are known.
	functions    probe.Choice
	pids         []int
	chosen       selection
	duration     time.Duration
	interval     time.Duration
	each         bool // text that goes to a file has a Report each interval, too
	top          int  // 0: all
	sort         string
	by           string            // what sites are grouped by; "": nothing
	wrappers     *wrapper.Patterns // functions that the user calls wrappers; nil: none
	wrapperNames []string          // those, as they were given
	native       bool              // show the interpreter's own frames
	recording    *recordingFile    // nil: nothing is recorded
	recordOnly   bool              // record: no Report is shown
	quiet        bool              // the result alone: no screen, no Reports of intervals, no progress
	frames       int               // of each stack in text; less than 0: all
	minAge       time.Duration
	format       render.Format
	gate         *job
	leaks        bool // check for leaks at the end
	// standStill: while the processes are stopped
	standStill bool
	atExit     string // when a program that ends is checked: exitAfter, exitBefore, exitOff
	hold       bool   // children are stopped at their first instruction until they have their probes
	events     bool
	filter     eventFilter
	allocs     bool    // --probes allocs
	overhead   float64 // limit on the probes' share of the targets' time; 0: none
	memory     uint64  // that memtrace may take, bytes
	verbose    bool
	commands   bool // memtrace's command line is in Reports
	jvmPerfMap bool // JVMs are asked for the names of their code
	lasts      bool // the trace goes on without any process: others may be ordered
	interrupts *interrupts
	ofCommand  bool // they are the command's, until that has ended
}

func traceFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "trace this process; -p 1,2 or -p 1 -p 2 for several"},
		wholeFlag("comm", "trace the processes of this name and their children"),
		wholeFlag("cgroup", "trace the processes in this control group and below"),
		wholeFlag("container", "trace the processes of this container, pod or systemd unit"),
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "trace all current and future processes; needs --risk-interpreters"},
		&cli.BoolFlag{Name: "risk-interpreters", Usage: "with --all: accept that a valgrind or qemu-user started meanwhile dies (SIGTRAP)"},
		&cli.DurationFlag{Name: "duration", Aliases: []string{"d"}, Usage: "stop after this time, such as 30s; without it, at Ctrl-C or when the processes end"},
		&cli.BoolFlag{Name: "events", Usage: "print each event as it happens, one a line, instead of tables"},
		&cli.StringSliceFlag{Name: "kind", Usage: "with --events: only events of these kinds"},
		&cli.Uint64Flag{Name: "min-size", Usage: "with --events: only events of at least so many bytes"},
		&cli.BoolFlag{Name: "stacks", Usage: "with --events: each event's call stack, too"},
		&cli.StringFlag{Name: "function", Usage: "with --events: only events with this text in the name of a function of their stack"},
	}, commonFlags()...)
}

func runFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.PathFlag{Name: "report", Usage: "write the Report to this file instead of stderr (text) or stdout (json, csv)"},
	}, commonFlags()...)
}

func commonFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "update the figures this often; without it, text for a file is the result alone"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of sites to show; 0: all (json: 10,000 unless given; csv: all)"},
		&cli.StringFlag{Name: "sort", Value: defaultSort, Usage: "order of the sites"},
		&cli.StringFlag{Name: "by", Value: report.BySite, Usage: "what the sites are grouped by"},
		&cli.BoolFlag{Name: "native", Usage: "show the interpreter's own frames, too, in the stacks of Python programs"},
		wholeFlag("wrapper", "name sites for the callers of this function, as of malloc's known wrappers; * matches any text"),
		&cli.DurationFlag{Name: "min-age", Usage: "call no block old that is younger than this"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the Report; csv is a table of the sites at the end"},
		&cli.IntFlag{Name: "frames", Value: textFrames, Usage: "text: frames to show of each call stack; 0: all"},
		quietFlag(),
		&cli.BoolFlag{Name: "leaks", Usage: "at the end, search the processes' memory for blocks that nothing points to"},
		&cli.BoolFlag{Name: "stop", Usage: "stop the processes during that check and include their registers"},
		&cli.StringFlag{Name: "at-exit", Value: exitAfter, Usage: "check programs that end after or before their exit handlers, or not"},
		&cli.IntFlag{Name: "stack-depth", Value: 64, Usage: fmt.Sprintf("frames to record of each call stack, at most %d", tracer.MaxStackDepth)},
		probesFlag(),
		sampleFlag(),
		overheadFlag(),
		backPressureFlag(),
		memoryFlag(),
		&cli.StringFlag{Name: "unwind", Value: "auto", Usage: "how to walk call stacks: by .eh_frame (dwarf) or frame pointers (fp)"},
		&cli.BoolFlag{Name: "follow", Value: true, Usage: "do not trace children, nor programs that the processes execute"},
		&cli.BoolFlag{Name: "risk-exceptions", Usage: "cheaper operator new of jemalloc, tcmalloc, mimalloc: accept that the program dies if it throws bad_alloc"},
		&cli.BoolFlag{Name: "python", Value: true, Usage: "do not look for Python frames: stacks have native frames alone, and cost less"},
		&cli.BoolFlag{Name: "hold", Value: true, Usage: "do not hold new children until probes are attached: early allocations are missed (leak checks always hold)"},
		&cli.StringFlag{Name: "attach", Value: "auto", Usage: "how to attach probes"},
		&cli.StringFlag{Name: "faults", Value: "auto", Usage: "where to observe page faults"},
		allocFnFlag(), freeFnFlag(), layerFlag(), allocatorFlag(),
		&cli.BoolFlag{Name: "jvm-perfmap", Usage: "ask JVMs (JDK 17 and newer) for the names of the code that they compiled, again and again"},
		&cli.BoolFlag{Name: "debuginfod", Usage: "fetch missing debug files from the servers in DEBUGINFOD_URLS"},
		namesFlag(),
		&cli.BoolFlag{Name: "no-symbol-cache", Usage: "do not use the caches of names and unwinding tables on disk"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"V"}, Usage: "say on stderr what is being done"},
		warmUpFlag(),
		exportFlag(),
	}, append(recordingFlags(), gateFlags()...)...)
}

// readSettings checks the flags. Checks that need the kernel come later, so
// that a wrong flag is told to everyone.
func readSettings(c *cli.Context) (settings, error) {
	s := settings{
		duration: traceTime(c), interval: c.Duration("interval"), each: c.IsSet("interval"),
		sort: cmp.Or(c.String("sort"), defaultSort), by: cmp.Or(c.String("by"), report.BySite), minAge: c.Duration("min-age"),
		format: render.Format(cmp.Or(c.String("format"), string(render.Text))),
		leaks:  c.Bool("leaks") || c.Bool("stop"), standStill: c.Bool("stop"), atExit: c.String("at-exit"),
		hold: c.Bool("hold"), events: c.Bool("events"), verbose: c.Bool("verbose"), quiet: c.Bool("quiet"), frames: cmp.Or(c.Int("frames"), -1), commands: !c.Bool("no-command-lines"),
		jvmPerfMap: c.Bool("jvm-perfmap"), interrupts: interruptsOf(c.Context),
	}
	s.preferTyped(c)
	s.top = listedSites(c, s.format)
	if err := s.check(c); err != nil {
		return s, err
	}
	var err error
	if s.symbols, err = symbolOptions(c); err != nil {
		return s, err
	}
	if s.functions, err = readFunctions(c); err != nil {
		return s, err
	}
	s.native = c.Bool("native")
	s.wrapperNames = unlessNone(wholes(c, "wrapper"))
	if s.wrappers, err = wrapper.Read(s.wrapperNames); err != nil {
		return s, usageError("--wrapper: %v", err)
	}
	if s.gate, err = newJob(c); err != nil {
		return s, err
	}
	if s.duration > 0 && s.gate.warmUp >= s.duration {
		return s, usageError("--warmup %v leaves nothing of --duration %v", s.gate.warmUp, s.duration)
	}
	if s.recording, err = recordingOf(c, s.gate.used); err != nil {
		return s, err
	}
	s.leaks = s.leaks || s.gate.wantsLeaks()
	s.hold = s.hold || s.leaks // what ends is checked while it stands still
	if s.tracer, err = tracerConfig(c); err != nil {
		return s, err
	}
	if s.overhead, err = maxOverhead(c); err != nil {
		return s, err
	}
	if s.memory, err = memoryLimit(c); err != nil {
		return s, err
	}
	if s.filter, err = readFilter(c); err != nil {
		return s, err
	}
	s.chosen = selection{wholes(c, "comm"), wholes(c, "cgroup"), wholes(c, "container"), c.Bool("all")}
	if s.pids, err = parsePIDs(c.StringSlice("pid")); err != nil {
		return s, err
	}
	if err := s.checkProbes(c); err != nil {
		return s, err
	}
	return s, s.checkAll(c)
}

// leastInterval is the shortest time between two Reports, or two looks of a watch.
const leastInterval = 50 * time.Millisecond

// traceTime is when the trace ends by itself; 0: never. A recorded command ends with that, so what a configuration
// says is for running processes.
func traceTime(c *cli.Context) time.Duration {
	if c.Command.Name == "record" && c.Args().Present() && !c.IsSet("duration") {
		return 0
	}
	return c.Duration("duration")
}

// preferTyped leaves out what only a configuration has, where the command line asks for what does not go with it.
func (s *settings) preferTyped(c *cli.Context) {
	if s.quiet && !c.IsSet("quiet") && (asksFor(c, "verbose") || asksFor(c, "events")) {
		s.quiet = false
	}
	if s.quiet && asksFor(c, "quiet") && !c.IsSet("verbose") {
		s.verbose = false
	}
	if s.events && s.format == render.CSV && !c.IsSet("format") {
		s.format = render.Text
	}
}

// listedSites is how many sites a Report lists, 0: all. Where nobody says it, that goes by the format.
func listedSites(c *cli.Context, format render.Format) int {
	switch {
	case given(c, "top"):
	case format == render.JSON:
		return jsonSites
	case format == render.CSV:
		return 0
	}
	return c.Int("top")
}

func (s *settings) check(c *cli.Context) error {
	switch {
	case s.interval < leastInterval:
		return usageError("--interval %v is too short: at least %v", s.interval, leastInterval)
	case s.duration < 0:
		return usageError("--duration must not be negative")
	case s.top < 0:
		return usageError("--top must not be negative")
	case !slices.Contains(analyzer.SortKeys(), s.sort):
		return noneOf("--sort", s.sort, analyzer.SortKeys())
	case c.Int("frames") < 0:
		return usageError("--frames must not be negative")
	case s.quiet && s.verbose:
		return usageError("--quiet cannot be combined with --verbose: the one says less, the other more")
	case s.quiet && s.events:
		return usageError("--quiet shows the result alone, and --events has none: leave one of them out")
	case s.events && s.format == render.CSV:
		return usageError("--format csv is a table of sites: --events has text and json")
	case !slices.Contains(traceFormats, string(s.format)):
		return noneOf("--format", string(s.format), traceFormats)
	case !slices.Contains(exitTimes, s.atExit):
		return noneOf("--at-exit", s.atExit, exitTimes)
	}
	if err := report.CheckGrouping(s.by); err != nil {
		return usageError("--by %v", err)
	}
	if s.events && asksFor(c, "by") {
		return usageError("--by groups the sites of a Report: --events shows none")
	}
	return nil
}

// checkAll checks what goes with --all, where probes are in files rather than in
// processes: no child needs to be held.
func (s *settings) checkAll(c *cli.Context) error {
	risk := c.Bool("risk-interpreters")
	if s.tracer.Touch {
		return nil // no file gets a probe
	}
	if !s.chosen.all {
		if risk {
			return usageError("--risk-interpreters goes with --all: chosen processes have probes of their own, which harm no other")
		}
		return nil
	}
	switch {
	case len(s.pids)+len(s.chosen.comms)+len(s.chosen.cgroups)+len(s.chosen.containers) > 0:
		return usageError("--all cannot be combined with --pid, --comm, --cgroup or --container")
	case s.overhead != 0:
		return usageError("--max-overhead cannot be combined with --all: choose processes instead")
	case s.leaks:
		return usageError("--all cannot be combined with --leaks, --stop or --fail-on conditions on leaks: choose the processes to check")
	case !risk:
		return usageError("--all puts probes into files, for everybody that maps them: a valgrind or qemu-user that anybody starts meanwhile " +
			"takes them for the program's code and dies (SIGTRAP), and the kernel has no way to leave it out. Choose processes by -p, --comm, " +
			"--cgroup or --container, which harm no other, or give --risk-interpreters as well if nobody starts any")
	}
	s.tracer.Everywhere, s.hold = true, false
	return nil
}

func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show the result alone: no screen, no Reports of intervals, no progress; warnings stay"}
}

// traceFormats are those of --format for a trace.
var traceFormats = append(render.Formats(), string(render.CSV))

func namesFlag() cli.Flag {
	return &cli.StringFlag{Name: "names", Value: "full", Usage: "C++, Rust, D and Swift names in full or without parameters and template arguments"}
}

func symbolOptions(c *cli.Context) (symbol.Options, error) {
	var o symbol.Options
	if dir, err := symbol.DefaultCacheDir(); err == nil && !c.Bool("no-symbol-cache") {
		o.Cache = dir // without a home directory there is none
	}
	switch form := c.String("names"); form {
	case "", "full":
	case "short":
		o.Names = symbol.ShortNames
	default:
		return o, noneOf("--names", form, nameForms)
	}
	if c.Bool("debuginfod") {
		if o.Debuginfod = symbol.DebuginfodURLs(); len(o.Debuginfod) == 0 {
			return o, usageError("--debuginfod needs servers: set DEBUGINFOD_URLS")
		}
	}
	return o, nil
}

func tracerConfig(c *cli.Context) (tracer.Config, error) {
	config := tracer.Config{
		Mechanism: tracer.Mechanism(c.String("attach")), Faults: tracer.FaultSource(c.String("faults")),
		Unwind: tracer.Unwinder(c.String("unwind")), StackDepth: c.Int("stack-depth"), NoFollow: !c.Bool("follow"),
		NoPython: !c.Bool("python"), Touch: c.String("probes") == probesNone,
	}
	if config.StackDepth < 1 || config.StackDepth > tracer.MaxStackDepth {
		return config, usageError("--stack-depth must be from 1 to %d", tracer.MaxStackDepth)
	}
	interval, err := sampleInterval(c)
	if err != nil {
		return config, err
	}
	limit, err := maxOverhead(c)
	if err != nil {
		return config, err
	}
	config.Interval, config.Sampling = interval, interval != 0 || limit != 0
	config.TouchInTurns = limit != 0
	if config.Pressure, err = backPressure(c); err != nil {
		return config, err
	}
	if !tracer.KnownUnwinder(config.Unwind) {
		return config, noneOf("--unwind", string(config.Unwind), unwinders)
	}
	if !tracer.KnownMechanism(config.Mechanism) {
		return config, noneOf("--attach", string(config.Mechanism), attachMechanisms)
	}
	if !tracer.KnownFaultSource(config.Faults) {
		return config, noneOf("--faults", string(config.Faults), faultSources)
	}
	return config, nil
}

// open creates the files that are to be written, so that a job whose result could not be written starts nothing.
func (s *settings) open() error {
	if err := s.gate.open(); err != nil {
		return err
	}
	return s.recording.open()
}
