package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/section"
)

// pythonProgram tells what one of its allocations takes below so many frames.
const pythonProgram = "testdata/python/depth.py"

const (
	pythonInterpreter = "/usr/bin/python3"
	pythonBlocks      = "100000"
	pythonRounds      = 3
	// Frames between the shallow run and the deep one. From 3.11 on the Python ones bring no native ones with them.
	pythonShallow, pythonDeep = 1, 101
	nativeDeep                = 21 // each with several C functions of the interpreter
)

// pythonCost is what frames cost in one environment: ns, each the median of the rounds.
type pythonCost struct {
	environment string
	python      float64 // of a Python frame
	native      float64 // of a native one
}

// measurePython writes what a Python frame costs beside a native one.
func measurePython(memtrace, out string) error {
	var list []pythonCost
	for _, environment := range []string{"", "PYTHONMALLOC=malloc"} {
		c, err := comparePython(memtrace, environment)
		if err != nil {
			return fmt.Errorf("measure Python frames: %w", err)
		}
		list = append(list, c)
	}
	text := pythonText(list)
	fmt.Fprint(os.Stderr, text)
	if out == "" {
		return nil
	}
	return section.Write(out, "python", text)
}

func comparePython(memtrace, environment string) (pythonCost, error) {
	var python, native []float64
	for range pythonRounds {
		var with, without [2]float64
		for i, depth := range []int{pythonShallow, pythonDeep} {
			var err error
			if with[i], _, err = onePython(memtrace, environment, "python", depth, true); err != nil {
				return pythonCost{}, err
			}
			if without[i], _, err = onePython(memtrace, environment, "python", depth, false); err != nil {
				return pythonCost{}, err
			}
		}
		shallow, few, err := onePython(memtrace, environment, "native", pythonShallow, false)
		if err != nil {
			return pythonCost{}, err
		}
		deep, many, err := onePython(memtrace, environment, "native", nativeDeep, false)
		if err != nil {
			return pythonCost{}, err
		}
		python = append(python, (with[1]-without[1]-with[0]+without[0])/(pythonDeep-pythonShallow))
		native = append(native, (deep-shallow)/float64(max(many-few, 1)))
	}
	return pythonCost{environment, median(python), median(native)}, nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// onePython runs the program under memtrace: processor time of one of its allocations in ns, and how many native frames the stack
// has that most blocks come from.
func onePython(memtrace, environment, route string, depth int, python bool) (ns float64, frames int, err error) {
	dir, err := os.MkdirTemp("", "stacks-python-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	file := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(ctx, memtrace, "run", "--format", "json", "--report", file, "--native", fmt.Sprint("--python=", python), "--stack-depth", "127", "--faults", "off",
		"--at-exit", "off", "--", pythonInterpreter, pythonProgram, route, strconv.Itoa(depth), pythonBlocks)
	if environment != "" {
		cmd.Env = append(os.Environ(), environment)
	}
	text, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("run %s at depth %d: %w", route, depth, err)
	}
	if ns, err = strconv.ParseFloat(string(bytes.TrimSpace(text)), 64); err != nil {
		return 0, 0, fmt.Errorf("read the time that %s printed: %w", pythonProgram, err)
	}
	frames, err = busiestStack(file)
	return ns, frames, err
}

// busiestStack returns how many frames the stack of most allocations has, those of inlined functions not counted.
func busiestStack(file string) (frames int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	most := uint64(0)
	for _, s := range r.Sites {
		if s.AllocCount <= most {
			continue
		}
		most, frames = s.AllocCount, 0
		for _, f := range s.Stack {
			if !f.Inlined {
				frames++
			}
		}
	}
	return frames, nil
}

const pythonIntro = `## What Python frames cost

Written by ` + "`sudo make bench-python`" + `: %s below %d Python frame and below %d, with ` + "`--python=false`" + ` and without, and below as
many C functions of the interpreter, %d rounds in turn on one machine. *A Python frame* and *a native frame* are what one more costs each recorded
allocation; medians of the rounds.

| environment | a Python frame | a native frame | ratio |
|---|---:|---:|---:|
`

func pythonText(list []pythonCost) string {
	var b strings.Builder
	fmt.Fprintf(&b, pythonIntro, pythonProgram, pythonShallow, pythonDeep, pythonRounds)
	for _, c := range list {
		fmt.Fprintf(&b, "| %s | %.1f ns | %.1f ns | %.1f |\n", strings.TrimSuffix("Debian's Python, "+c.environment, ", "), c.python, c.native, c.python/c.native)
	}
	return b.String()
}
