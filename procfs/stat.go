//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"
	"time"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// ClockTick is the unit of the times in Stat: USER_HZ, which is 100 a second
// on every architecture that memtrace runs on.
const ClockTick = time.Second / 100

// Stat is the part of /proc/PID/stat that has a use in accounting for memory.
type Stat struct {
	PID        int
	Comm       string // the thread's name, with any byte that prctl(PR_SET_NAME) took
	State      byte   // R, S, D, Z (zombie), T, t, X, I, …
	PPID       int
	Flags      uint64 // PF_* of the kernel's include/linux/sched.h
	MinFlt     uint64 // minor faults of all threads
	MajFlt     uint64 // major faults of all threads
	UTime      uint64 // clock ticks in user mode, of all threads
	STime      uint64 // clock ticks in the kernel
	Priority   int    // as the kernel shows it: 20 + nice, or negative where real-time
	Nice       int    // -20 to 19
	NumThreads uint64
	StartTime  uint64 // clock ticks since boot; with the PID, a process's identity
	VSize      uint64 // bytes
	RSSPages   uint64 // pages, from the same counters as Statm.Resident
}

// Flags of include/linux/sched.h.
const (
	pfExiting = 0x00000004
	pfKthread = 0x00200000
)

// KernelThread reports whether the process is a kernel thread.
func (s Stat) KernelThread() bool { return s.Flags&pfKthread != 0 }

// Exiting reports whether the thread is in its exit, and runs no code of the program any more: the first one of a
// process, where it is Stat's.
func (s Stat) Exiting() bool { return s.Flags&pfExiting != 0 }

// RSS is RSSPages in bytes.
func (s Stat) RSS() uint64 { return s.RSSPages * pageSize }

// Zombie reports whether the process has ended and waits for its parent.
func (s Stat) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

// Stat reads /proc/PID/stat (proc_pid_stat(5)).
func (p *Process) Stat() (Stat, error) {
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	data, err := p.readSmall(fileStat, buf[:])
	if err != nil {
		return Stat{}, err
	}
	st := Stat{Comm: p.comm}
	if err := parseStat(data, &st); err != nil {
		return Stat{}, p.wrap("parse", "stat", err)
	}
	p.comm = st.Comm
	return st, nil
}

// parseStat parses "pid (comm) state ppid …" into st. The name may hold
// blanks, parentheses and newlines, so it ends at the last parenthesis: no
// later field has one. A Comm that st has already is kept, not allocated anew.
func parseStat(data []byte, st *Stat) error {
	open, closing := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || closing < open {
		return fmt.Errorf("%w: no name in parentheses", ErrFormat)
	}
	pid, _, ok := text.Decimal(data)
	if !ok {
		return fmt.Errorf("%w: no PID", ErrFormat)
	}
	st.PID = int(pid)
	if name := data[open+1 : closing]; string(name) != st.Comm {
		st.Comm = string(name)
	}
	state, rest := text.Field(data[closing+1:])
	if len(state) != 1 {
		return fmt.Errorf("%w: no state", ErrFormat)
	}
	st.State = state[0]
	return parseStatNumbers(rest, st)
}

// parseStatNumbers parses fields 4 (ppid) to 24 (rss) of proc_pid_stat(5).
func parseStatNumbers(rest []byte, st *Stat) error {
	var v [25]uint64
	for i := 4; i <= 24; i++ {
		f, after := text.Field(rest)
		negative := len(f) > 0 && f[0] == '-' // tty_nr, tpgid, priority, nice
		if negative {
			f = f[1:]
		}
		n, _, ok := text.Decimal(f)
		if !ok {
			return fmt.Errorf("%w: field %d", ErrFormat, i)
		}
		if negative {
			n = -n
		}
		v[i], rest = n, after
	}
	st.PPID, st.Flags, st.MinFlt, st.MajFlt = int(v[4]), v[9], v[10], v[12]
	st.UTime, st.STime, st.Priority, st.Nice = v[14], v[15], int(v[18]), int(v[19])
	st.NumThreads, st.StartTime, st.VSize, st.RSSPages = v[20], v[22], v[23], v[24]
	return nil
}
