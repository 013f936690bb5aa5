//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// TaskStat is /proc/PID/task/TID/stat: the fields of Stat for one thread
// alone, faults and times included, and where it last ran.
type TaskStat struct {
	Stat
	Processor int // the CPU it last ran on
}

// fieldProcessor is the place of processor in proc_pid_stat(5), counted from 1.
const fieldProcessor = 39

// TaskStat reads the stat file of one of the process's threads
// (proc_pid_stat(5)). A thread that has ended gives ErrGone.
func (p *Process) TaskStat(tid int) (TaskStat, error) {
	line, err := p.readTask(tid, "stat")
	if err != nil {
		return TaskStat{}, err
	}
	st, err := parseTaskStat([]byte(line))
	if err != nil {
		return TaskStat{}, p.wrap("parse", "stat", err)
	}
	return st, nil
}

// TaskRan is what tells that a thread has run: two readings that are the same,
// both of a thread that waits, say that it has not in between.
type TaskRan struct {
	State    byte   // as in Status
	Switches uint64 // how often it has given up a processor, or was made to
}

// Waits reports whether the thread waits for something, or is stopped.
func (t TaskRan) Waits() bool { return t.State != 'R' && t.State != 'W' }

// TaskRan reads it from /proc/PID/task/TID/status (proc_pid_status(5)). A
// thread that has ended gives ErrGone.
func (p *Process) TaskRan(tid int) (TaskRan, error) {
	data, err := p.readTask(tid, "status")
	if err != nil {
		return TaskRan{}, err
	}
	t, err := parseTaskRan([]byte(data))
	if err != nil {
		return TaskRan{}, p.wrap("parse", "status", err)
	}
	return t, nil
}

func parseTaskRan(data []byte) (t TaskRan, err error) {
	found := 0
	for line := range bytes.Lines(data) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "State":
			if len(value) == 0 {
				return t, fmt.Errorf("%w: line %q", ErrFormat, line)
			}
			t.State = value[0]
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			n, _, ok := text.Decimal(value)
			if !ok {
				return t, fmt.Errorf("%w: line %q", ErrFormat, line)
			}
			t.Switches += n
		default:
			continue
		}
		found++
	}
	if found != 3 {
		return t, fmt.Errorf("%w: no state, or not how often it was switched", ErrFormat)
	}
	return t, nil
}

func parseTaskStat(data []byte) (TaskStat, error) {
	var st TaskStat
	if err := parseStat(data, &st.Stat); err != nil {
		return st, err
	}
	// parseStat has found the name's end; the fields after it start with 3.
	rest := data[bytes.LastIndexByte(data, ')')+1:]
	var f []byte
	for range fieldProcessor - 2 {
		f, rest = text.Field(rest)
	}
	cpu, _, ok := text.Decimal(f)
	if !ok {
		return st, fmt.Errorf("%w: field %d", ErrFormat, fieldProcessor)
	}
	st.Processor = int(cpu)
	return st, nil
}
