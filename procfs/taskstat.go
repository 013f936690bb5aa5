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
