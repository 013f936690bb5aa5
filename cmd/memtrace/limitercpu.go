//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// chargedProcess is what a limiter knows of a target.
type chargedProcess struct {
	child  bool // it began under trace
	shared bool // it has its parent's memory, until it executes a program
	exited bool
	early  bool // a child that the session does not know of yet
}

// charge tells the limiter which processes there are.
func (l *limiter) charge(targets map[int]*target) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for pid, c := range l.charged {
		if targets[pid] == nil && !c.early {
			delete(l.charged, pid)
		}
	}
	for pid, t := range targets {
		l.charged[pid] = t.charged()
	}
}

func (l *limiter) chargeOne(t *target) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charged[t.pid] = t.charged()
}

// chargeChild is for a child that has its probes, and whose fork the session may come to much later. Other goroutines
// than the session's call it.
func (l *limiter) chargeChild(pid int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.charged[pid]; !ok {
		l.charged[pid] = chargedProcess{child: true, early: true}
	}
}

func (t *target) charged() chargedProcess {
	return chargedProcess{child: t.child, shared: t.shared, exited: t.exited}
}

// endedTimes are the processor times, in ns, of children that ended since the last step.
type endedTimes struct {
	mu  sync.Mutex
	cpu map[int]uint64
}

// ending notes the processor time of a process that stands still at its end. Many children
// live shorter than a step. It is called from other goroutines than the session's.
func (l *limiter) ending(pid int) {
	if l == nil {
		return
	}
	if ns, ok := processorTime(pid); ok {
		l.ends.mu.Lock()
		defer l.ends.mu.Unlock()
		if l.ends.cpu == nil {
			l.ends.cpu = make(map[int]uint64)
		}
		l.ends.cpu[pid] = ns
	}
}

// processorTime is what a process has taken, in ns; ok is false where it is no more.
func processorTime(pid int) (ns uint64, ok bool) {
	var ts unix.Timespec
	clock := int32(^pid)<<3 | 2 // clock_getcpuclockid(3)
	if unix.ClockGettime(clock, &ts) != nil {
		return 0, false
	}
	return uint64(ts.Nano()), true
}

// resident is the RSS of a process as page faults began to have stacks, and as it was read last: bytes.
type resident struct{ first, last int64 }

// residentBytes is the RSS of a process, as near as its counters are; ok is false where it is no more.
func residentBytes(pid int) (n int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil || size == 0 {
		return 0, false
	}
	return resident * int64(os.Getpagesize()), true
}

// spent is the processor time of the targets since the last call, in ns. That of a child,
// which began under trace, counts from its start, that of others from the first call. The lock is held.
func (l *limiter) spent() (ns uint64) {
	ns = l.spentEnded()
	for pid, t := range l.charged {
		if t.exited {
			delete(l.cpu, pid) // the next one of this PID begins from nothing
		}
		if t.exited || t.shared {
			continue
		}
		is, ok := processorTime(pid)
		if !ok { // it has ended
			if t.early {
				delete(l.charged, pid)
			}
			continue
		}
		if was, known := l.cpu[pid]; (known || t.child) && is > was {
			ns += is - was
		}
		l.cpu[pid] = is
	}
	for pid := range l.cpu {
		if _, ok := l.charged[pid]; !ok {
			delete(l.cpu, pid)
		}
	}
	return ns
}

// spentEnded is the part of those that have ended.
func (l *limiter) spentEnded() (ns uint64) {
	l.ends.mu.Lock()
	defer l.ends.mu.Unlock()
	for pid, is := range l.ends.cpu {
		t, ok := l.charged[pid]
		was, known := l.cpu[pid]
		if (known || !ok || t.child) && is > was {
			ns += is - was
		}
		l.cpu[pid] = max(is, was) // it may be there for a moment yet
	}
	clear(l.ends.cpu)
	return ns
}
