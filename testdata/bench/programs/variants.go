package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A variant is one way to run a program.
type variant struct {
	name  string
	start func(ctx context.Context, dir string, argv []string, stdin *os.File) (*running, error)
}

const (
	untracedName  = "untraced"
	floorName     = "floor: empty probes"
	fullName      = "memtrace, full"
	allName       = "memtrace, full, all sites"
	sampledName   = "memtrace, sampled"
	heaptrackName = "heaptrack"
	rawName       = "heaptrack --raw"
)

// sampleEvery is the interval of the samples.
const sampleEvery = "64KiB"

func (s *settings) variantsOf(p *program) (list []variant) {
	all := []variant{
		{untracedName, startUntraced},
		{floorName, startFloor},
		s.full(),
		{allName, s.memtraceWith("--top", "0")},
		{sampledName, s.memtraceWith("--top", shownSites, "--sample-bytes", sampleEvery)},
		{heaptrackName, startHeaptrack(true)},
		{rawName, startHeaptrack(false)},
	}
	for _, v := range all {
		if !slices.Contains(p.without, v.name) && s.variants.MatchString(v.name) {
			list = append(list, v)
		}
	}
	return list
}

// shownSites is how many sites the text Report shows if nothing else is asked for.
const shownSites = "20"

func (s *settings) full() variant { return variant{fullName, s.memtraceWith("--top", shownSites)} }

// running is a program that runs, and what traces it.
type running struct {
	main    *exec.Cmd
	wraps   bool // main is the tracer, and the program its child
	tracers []*exec.Cmd
	report  string // memtrace's, if that is it
}

// started starts the main command. What it says is kept in dir for errors.
func started(ctx context.Context, dir string, argv []string, stdin *os.File, env ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // memtrace passes it on
	cmd.Env = append(os.Environ(), env...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	said, err := os.Create(filepath.Join(dir, saidName))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stderr = said
	return cmd, cmd.Start()
}

// saidName is the file with what a program wrote to stderr.
const saidName = "stderr"

func startUntraced(ctx context.Context, dir string, argv []string, stdin *os.File) (*running, error) {
	cmd, err := started(ctx, dir, argv, stdin)
	return &running{main: cmd}, err
}

func startFloor(ctx context.Context, dir string, argv []string, stdin *os.File) (*running, error) {
	cmd, err := started(ctx, dir, slices.Concat([]string{"/proc/self/exe", floorArgument}, argv), stdin)
	return &running{main: cmd, wraps: true}, err
}

func (s *settings) memtraceWith(flags ...string) func(context.Context, string, []string, *os.File) (*running, error) {
	return func(ctx context.Context, dir string, argv []string, stdin *os.File) (*running, error) {
		report := filepath.Join(dir, "report.json")
		args := slices.Concat([]string{s.memtrace, "run", "--format", "json", "--report", report, "--unwind", "dwarf"}, flags, s.more, []string{"--"}, argv)
		cmd, err := started(ctx, dir, args, stdin)
		return &running{main: cmd, wraps: true, report: report}, err
	}
}

// heaptrack's parts, where Debian has them.
const (
	heaptrackPreload   = "/usr/lib/heaptrack/libheaptrack_preload.so"
	heaptrackInterpret = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
)

// startHeaptrack does what heaptrack's script does: the recorder in the program
// writes to a pipe, what reads it looks the names up (unless what is recorded is to
// stay as it is), and zstd compresses that. The script's own parts can be told
// from the program that it runs, the script can't.
func startHeaptrack(names bool) func(context.Context, string, []string, *os.File) (*running, error) {
	return func(ctx context.Context, dir string, argv []string, stdin *os.File) (*running, error) {
		pipe := filepath.Join(dir, "fifo")
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			return nil, err
		}
		out, err := os.Create(filepath.Join(dir, "heaptrack.zst"))
		if err != nil {
			return nil, err
		}
		defer out.Close()
		var tracers []*exec.Cmd
		if names {
			tracers, err = startPipeline(ctx, out, reads(ctx, pipe, heaptrackInterpret), exec.CommandContext(ctx, "zstd", "-c"))
		} else {
			tracers, err = startPipeline(ctx, out, reads(ctx, pipe, "zstd", "-c"))
		}
		if err != nil {
			return nil, err
		}
		cmd, err := started(ctx, dir, argv, stdin, "LD_PRELOAD="+heaptrackPreload, "DUMP_HEAPTRACK_OUTPUT="+pipe)
		return &running{main: cmd, tracers: tracers}, err
	}
}

// reads is a command with a named pipe for stdin, which it opens itself: that
// waits for a writer.
func reads(ctx context.Context, pipe string, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `exec "$@" <"$0"`, pipe}, argv...)...)
}

// startPipeline starts commands each of which reads what the one before writes.
func startPipeline(ctx context.Context, out *os.File, cmds ...*exec.Cmd) ([]*exec.Cmd, error) {
	for i, cmd := range cmds {
		cmd.Stdout = out
		if i+1 < len(cmds) {
			r, w, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			defer r.Close()
			defer w.Close()
			cmd.Stdout, cmds[i+1].Stdin = w, r
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
	}
	return cmds, nil
}

// tracerPIDs are the processes whose memory is the tracer's.
func (r *running) tracerPIDs() (pids []int) {
	if r.wraps {
		pids = append(pids, r.main.Process.Pid)
	}
	for _, t := range r.tracers {
		pids = append(pids, t.Process.Pid)
	}
	return pids
}

// report is what is read of memtrace's Report.
type report struct {
	Final    bool
	Events   struct{ Alloc, Free, Realloc, Lost uint64 }
	Pressure *struct {
		Phases  int
		LeftOut struct{ Alloc, Free, Realloc uint64 } `json:"left_out"`
	}
}

func readReport(file string) (*report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r := &report{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), r); err != nil {
		return nil, fmt.Errorf("read the Report: %w", err)
	}
	if !r.Final {
		return nil, fmt.Errorf("the Report in %s is not the final one", file)
	}
	return r, nil
}
