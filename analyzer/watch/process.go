package watch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// ErrNoProcess means that no process is there that a condition is about.
var ErrNoProcess = errors.New("there is no such process")

func isProcessFigure(metric string) bool {
	return slices.Contains([]string{"rss", "pss", "uss", "swap"}, metric)
}

// processFigure is a figure of one process, or the sum over all of a name.
type processFigure struct {
	metric string
	name   string            // of processes, or
	id     *collect.Identity // one process, which stays the same when its PID is reused
}

// maxComm is TASK_COMM_LEN less one: the kernel cuts longer names off.
const maxComm = 15

// resolveProcess takes "redis" for all processes of that name, and "pid:12"
// for the process that has this PID now.
func resolveProcess(c threshold.Condition, src *source) (figure, error) {
	if c.Subject == "" {
		return nil, usageError("say of which process, such as %s(redis) or %s(pid:123)", c.Metric, c.Metric)
	}
	f := &processFigure{metric: c.Metric, name: c.Subject[:min(len(c.Subject), maxComm)]}
	word, isPID := strings.CutPrefix(c.Subject, "pid:")
	if !isPID {
		return sizeLimit(c, f)
	}
	pid, err := strconv.Atoi(word)
	if err != nil || pid <= 0 {
		return nil, usageError("%q is not a process ID", word)
	}
	all, err := src.processes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.PID == pid {
			id := p.Identity
			f.id = &id
			return sizeLimit(c, f)
		}
	}
	return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
}

// matches reports whether p is meant. Kernel threads and zombies have no memory.
func (f *processFigure) matches(p *collect.Process) bool {
	if p.KernelThread || p.State == 'Z' || p.State == 'X' {
		return false
	}
	if f.id != nil {
		return p.Identity == *f.id
	}
	return p.Comm == f.name
}

func (f *processFigure) amount(src *source) (value, whole uint64, err error) {
	all, err := src.processes()
	if err != nil {
		return 0, 0, err
	}
	if whole, err = f.whole(src); err != nil {
		return 0, 0, err
	}
	found := false
	for _, p := range all {
		if !f.matches(p) {
			continue
		}
		v, err := f.of(src, p)
		if errors.Is(err, procfs.ErrGone) {
			continue // it ended since it was listed
		}
		if err != nil {
			return 0, 0, err
		}
		found, value = true, value+v
	}
	switch {
	case found:
		return value, whole, nil
	case f.id != nil:
		return 0, 0, fmt.Errorf("process %d has ended: %w", f.id.PID, ErrNoProcess)
	}
	return 0, 0, fmt.Errorf("%w: none is called %q", ErrNoProcess, f.name)
}

// whole is what a percentage is of: the machine's memory, or its swap.
func (f *processFigure) whole(src *source) (uint64, error) {
	if err := src.readMeminfo(); err != nil {
		return 0, err
	}
	field := "MemTotal"
	if f.metric == "swap" {
		field = "SwapTotal"
	}
	v, _ := src.meminfo.Get(field) // without it, a share of 0 is refused
	return v, nil
}

// of is the figure of one process.
func (f *processFigure) of(src *source, p *collect.Process) (uint64, error) {
	if f.metric == "rss" {
		return p.RSS, nil // the kernel's counter: no walk
	}
	m, err := src.memory(p)
	switch f.metric {
	case "pss":
		return m.Pss, err
	case "uss":
		return m.USS(), err
	}
	return m.Swap, err
}
