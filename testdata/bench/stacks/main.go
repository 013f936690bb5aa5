// Command stacks counts how the call stacks of real programs end: at a true
// bottom, at the limit of depth, or broken off. It runs each under `memtrace
// run` from its first instruction, with a load of its own, and writes the
// section "stacks" of docs/benchmarks.md. It needs root, a built memtrace and
// the programs; those that are not there are left out and named.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/section"
	"github.com/memtrace/memtrace/testdata/bench/workload"
)

var keep string

// depth is the most frames that memtrace takes.
const depth = "127"

// report is what is read of memtrace's Report.
type report struct {
	Events struct{ Lost uint64 }
	Tracer struct {
		Tables uint64 `json:"table_bytes"`
		Source uint64 `json:"table_source_bytes"`
	}
	Stacks struct {
		Bottom, Deeper, Broken, None uint64
		FPBottom                     uint64 `json:"frame_pointers_bottom"`
		FramePointers                uint64 `json:"frame_pointers"`
	}
	Sites []struct {
		AllocCount uint64 `json:"alloc_count"`
		Stack      []struct{ Inlined bool }
	}
}

func (r *report) all() uint64 {
	s := &r.Stacks
	return s.Bottom + s.Deeper + s.Broken + s.None + s.FPBottom + s.FramePointers
}

func main() {
	memtrace := flag.String("memtrace", "./memtrace", "the memtrace to measure")
	only := flag.String("only", "", "only programs that match this expression")
	cost := flag.Bool("cost", false, "measure what frames cost instead")
	python := flag.Bool("python", false, "measure what Python frames cost instead; with -o, write that section")
	out := flag.String("o", "", "write the section from what is kept into this document, and measure nothing")
	flag.StringVar(&keep, "keep", "build/stacks", "the directory for the Reports, with all sites")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err == nil {
		err = os.MkdirAll(keep, 0o755)
	}
	switch {
	case err != nil:
	case *python:
		err = measurePython(*memtrace, *out)
	case *out != "":
		err = publish(*out)
	case *cost:
		err = measureCosts(*memtrace, chosen)
	default:
		err = run(*memtrace, chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stacks:", err)
		os.Exit(1)
	}
}

// run measures the programs that are chosen, and keeps their Reports.
func run(memtrace string, chosen *regexp.Regexp) error {
	for _, w := range workload.All() {
		if !chosen.MatchString(w.Name) || !w.There() {
			continue
		}
		r, err := measure(memtrace, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		fmt.Fprintf(os.Stderr, "%-12s %9d stacks, %8.3f %% at the bottom\n", w.Name, r.all(), 100*share(r.Stacks.Bottom+r.Stacks.FPBottom, r.all()))
	}
	return nil
}

// publish writes the section from what is kept.
func publish(out string) error {
	var rows []row
	var missing []string
	for _, w := range workload.All() {
		r, err := readReport(kept(w))
		if os.IsNotExist(err) {
			missing = append(missing, w.Name)
			continue
		}
		if err != nil {
			return err
		}
		rows = append(rows, row{w.Name, w.What, r})
	}
	list, err := keptCosts()
	if err != nil {
		return err
	}
	return section.Write(out, "stacks", document(rows, missing)+costs(list))
}

func kept(w workload.Workload) string { return filepath.Join(keep, w.Name+".json") }

// patience bounds one program's run.
const patience = 5 * time.Minute

// measure runs a workload under memtrace.
func measure(memtrace string, w workload.Workload, flags ...string) (*report, error) {
	dir, err := os.MkdirTemp("", "stacks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	argv, err := w.Command(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	file := filepath.Join(dir, "report.json")
	args := slices.Concat([]string{"run", "--format", "json", "--stack-depth", depth, "--interval", "1s", "--faults", "off", "--report", file},
		flags, []string{"--"}, argv)
	cmd := exec.CommandContext(ctx, memtrace, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	said, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stderr = said
	if w.Input != nil {
		if cmd.Stdin, err = w.Input(dir); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var loadErr error
	if w.Load != nil {
		loadErr = w.Load(dir)
		_ = cmd.Process.Signal(w.End) // memtrace passes it on; Wait tells how it went
	}
	if err := cmd.Wait(); err != nil && w.Load == nil {
		text, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
	}
	if loadErr != nil {
		return nil, loadErr
	}
	if len(flags) == 0 {
		if err := workload.Run("cp", file, kept(w)); err != nil {
			return nil, err
		}
	}
	return readReport(file)
}

func readReport(file string) (*report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var r report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		return nil, fmt.Errorf("read the Report: %w", err)
	}
	return &r, nil
}
