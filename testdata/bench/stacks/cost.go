package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/workload"
)

// costRounds is how often each way has its turn.
const costRounds = 7

// cost is what stacks cost a program that runs on its own: processor time of
// the program, the kernel's on its behalf included, with stacks and without.
type cost struct {
	Name              string
	With, Without     float64 // s, medians
	Stacks, Frames    uint64
	PerFrame, Slowest float64 // ns: the median of the rounds, and their greatest
}

// timed wraps a command so that it leaves its processor time in a file.
func timed(argv []string, file string) []string {
	script := `TIMEFORMAT="%U %S"; { time "$0" "$@" 2>&3; } 3>&2 2>` + file
	return append([]string{"/bin/bash", "-c", script}, argv...)
}

// processorTime is what timed left.
func processorTime(file string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, field := range strings.Fields(string(text)) {
		s, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("read a processor time: %w", err)
		}
		sum += s
	}
	return sum, nil
}

// compare runs a program in turns with stacks and without.
func compare(memtrace string, w workload.Workload) (*cost, error) {
	c := &cost{Name: w.Name}
	var with, without, each []float64
	for range costRounds {
		r, a, err := measureTimed(memtrace, w, "dwarf")
		if err != nil {
			return nil, err
		}
		_, b, err := measureTimed(memtrace, w, "none")
		if err != nil {
			return nil, err
		}
		with, without = append(with, a), append(without, b)
		c.Stacks, c.Frames = r.all(), r.frames()
		each = append(each, (a-b)*1e9/float64(max(c.Frames, 1)))
	}
	slices.Sort(with)
	slices.Sort(without)
	slices.Sort(each)
	c.With, c.Without, c.PerFrame, c.Slowest = with[costRounds/2], without[costRounds/2], each[costRounds/2], each[costRounds-1]
	return c, nil
}

func measureTimed(memtrace string, w workload.Workload, unwind string) (*report, float64, error) {
	dir, err := os.MkdirTemp("", "stacks-cost-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "time")
	inner := w.Command
	w.Command = func(dir string) ([]string, error) {
		argv, err := inner(dir)
		return timed(argv, file), err
	}
	r, err := measure(memtrace, w, "--unwind", unwind)
	if err != nil {
		return nil, 0, err
	}
	s, err := processorTime(file)
	return r, s, err
}

// frames is how many frames all stacks have together, those of inlined
// functions not counted.
func (r *report) frames() (n uint64) {
	for _, s := range r.Sites {
		depth := uint64(0)
		for _, f := range s.Stack {
			if !f.Inlined {
				depth++
			}
		}
		n += depth * s.AllocCount
	}
	return n
}

const costIntro = `
### What their frames cost

Each program ran %d times in turn with stacks and without (` + "`--unwind none`" + `), traced either way. Shown are the medians of its own
processor time, what the kernel does for it included, and what is more with stacks, shared out over all frames: the walk,
the stack's hash and sending it once.

| program | stacks | frames a stack | with stacks | without | a frame | the slowest round |
|---|---:|---:|---:|---:|---:|---:|
`

func costs(list []*cost) string {
	var b strings.Builder
	if len(list) > 0 {
		fmt.Fprintf(&b, costIntro, costRounds)
	}
	for _, c := range list {
		fmt.Fprintf(&b, "| %s | %d | %.1f | %.2f s | %.2f s | %.1f ns | %.1f ns |\n", c.Name, c.Stacks,
			float64(c.Frames)/float64(max(c.Stacks, 1)), c.With, c.Without, c.PerFrame, c.Slowest)
	}
	return b.String()
}

// costPrograms run on their own, and have stacks of different depth.
var costPrograms = []string{"python3", "cc1plus"}

// measureCosts measures those that are chosen and keeps what was found.
func measureCosts(memtrace string, chosen *regexp.Regexp) error {
	for _, w := range workload.All() {
		if !slices.Contains(costPrograms, w.Name) || !chosen.MatchString(w.Name) {
			continue
		}
		c, err := compare(memtrace, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		fmt.Fprint(os.Stderr, costs([]*cost{c}))
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(keep, w.Name+costSuffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

const costSuffix = "-cost.json"

// keptCosts reads what measureCosts kept.
func keptCosts() (list []*cost, err error) {
	for _, name := range costPrograms {
		text, err := os.ReadFile(filepath.Join(keep, name+costSuffix))
		if os.IsNotExist(err) {
			continue
		}
		c := &cost{}
		if err == nil {
			err = json.Unmarshal(text, c)
		}
		if err != nil {
			return nil, fmt.Errorf("read the costs of %s: %w", name, err)
		}
		list = append(list, c)
	}
	return list, nil
}
