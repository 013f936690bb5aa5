package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What --probes allocs costs, beside a full trace.

// freesPairs are the pairs of malloc and free of the loop, below 20 frames.
const freesPairs = 500_000

// probings are ways to trace: none at all, with all probes, and without those on free.
var probings = []string{"", "full", "allocs"}

// measureFrees is the section of the document.
func measureFrees(rounds int) (string, error) {
	dir, err := os.MkdirTemp("", "frees")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	loop := []string{"build/testdata/churn", "run", "20", "1", "0", strconv.Itoa(freesPairs)}
	compiler, err := compilerCommand("-fsyntax-only")
	if err != nil {
		return "", err
	}
	programs := []struct {
		name, unit string
		scale      float64
		command    []string
		times      [3][]float64
	}{
		{name: "malloc and free in a loop, a pair", unit: "ns", scale: 1e9 / freesPairs, command: loop},
		{name: "cc1plus up to its trees (-fsyntax-only)", unit: "s", scale: 1, command: compiler},
	}
	for range rounds {
		for i := range programs {
			p := &programs[i]
			for k, probes := range probings {
				seconds, err := processorTime(dir, probes, p.command)
				if err != nil {
					return "", fmt.Errorf("measure %s, %q: %w", p.name, probes, err)
				}
				p.times[k] = append(p.times[k], seconds*p.scale)
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "## Without a probe on free\n\nMedians of %d rounds, alone, in a full trace and under `--probes allocs` in turns (`make bench-frees`): the program's own processor\n"+
		"time, its start included and memtrace's own not. Ratios are the medians of the rounds'.\n\n", rounds)
	out.WriteString("| | alone | full | `allocs` | of full | of alone |\n|---|--:|--:|--:|--:|--:|\n")
	for _, p := range programs {
		fmt.Fprintf(&out, "| %s | %.4g %s | %.4g %s | %.4g %s | %s | %s |\n", p.name, median(p.times[0]), p.unit, median(p.times[1]), p.unit,
			median(p.times[2]), p.unit, ratio(p.times[2], p.times[1]), ratio(p.times[2], p.times[0]))
	}
	walks, err := walkTable(dir)
	return out.String() + walks, err
}

// ratio is the median of the rounds' ratios, and the least and the greatest.
func ratio(of, to []float64) string {
	ratios := make([]float64, len(of))
	for i := range ratios {
		ratios[i] = of[i] / to[i]
	}
	return fmt.Sprintf("%.2f × (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// processorTime runs a command, traced as probes say, and returns its processor time in seconds.
func processorTime(dir, probes string, command []string) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "times")
	args := append([]string{self}, command...)
	if probes != "" {
		args = append([]string{"./memtrace", "run", "--probes", probes, "--report", os.DevNull, "--"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), timesIn+"="+file)
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(text), 64)
}

// walkTable says what a walk through heaps of two sizes takes.
func walkTable(dir string) (string, error) {
	program := filepath.Join(dir, "heap")
	if text, err := exec.Command("cc", "-O1", "-fno-builtin", "-o", program, source+"/heap.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the heap: %w: %s", err, text)
	}
	var out strings.Builder
	out.WriteString("\nOne walk through a heap of blocks of 16 to 1,039 bytes as its program ends; of a processor's time. " +
		"The program frees a third of them\nas it grows, and later ones take their places, so that few are left to be found free.\n\n" +
		"| heap | live blocks | found free | a walk |\n|--:|--:|--:|--:|\n")
	for _, mib := range []string{"256", "1024"} {
		file := filepath.Join(dir, "report")
		if text, err := exec.Command("./memtrace", "run", "--probes", "allocs", "--memory", "2GiB", "--format", "json", "--report", file, "--", program, mib, "0").CombinedOutput(); err != nil {
			return "", fmt.Errorf("trace the heap: %w: %s", err, text)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var r struct {
			Processes []struct {
				Heap struct {
					LiveCount uint64 `json:"live_count"`
				}
				FreeWalk struct {
					Freed  uint64
					TookNS uint64 `json:"took_ns"`
				} `json:"free_walk"`
			}
		}
		if err := json.Unmarshal(text, &r); err != nil || len(r.Processes) == 0 {
			return "", fmt.Errorf("read the Report on the heap: %w", err)
		}
		p := r.Processes[0]
		fmt.Fprintf(&out, "| %s MiB | %d | %d | %.3g ms |\n", mib, p.Heap.LiveCount, p.FreeWalk.Freed, float64(p.FreeWalk.TookNS)/1e6)
	}
	return out.String(), nil
}
