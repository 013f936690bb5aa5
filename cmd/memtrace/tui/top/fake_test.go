package top

import (
	"context"
	"testing"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// known, denied and none make figures.
func known(n int64) Figure { return Figure{N: n, State: Known} }

var (
	denied = Figure{State: Denied}
	none   = Figure{State: None}
)

// example is a machine of 8 GiB with processes of every kind: two instances of
// a program, two that share one address space, one of another user that may
// not be read, one whose PSS has not been read yet, and a kernel thread.
func example() *Snapshot {
	at := time.Date(2026, 11, 21, 13, 5, 2, 0, time.UTC)
	s := &Snapshot{
		At: at, Host: "web-1",
		Machine: Machine{
			Total: known(8 * gib), Available: known(6 * gib), SwapTotal: known(2 * gib), SwapUsed: known(512 * mib),
			PressureSome: known(123), PressureFull: known(0),
		},
		Processes: []Process{
			process(101, "redis-server", "redis", 900*mib, 880*mib, 870*mib),
			process(102, "redis-server", "redis", 300*mib, 280*mib, 270*mib),
			process(201, "twin", "web", 100*mib, 60*mib, 20*mib),
			process(202, "twin", "web", 100*mib, 60*mib, 20*mib),
			process(301, "secret", "root", 50*mib, 0, 0),
			process(401, "huge", "db", 2*gib, 0, 0),
			{PID: 2, Start: 1, Name: "kthreadd", Program: "kthreadd", User: "root", State: 'S', Kernel: true, Cgroup: "/",
				Priority: known(20), Nice: known(0), Threads: known(1), OOMScore: known(0), CPUTime: known(0),
				Virt: none, RSS: none, Shared: none, PSS: none, USS: none, Swap: none, RSSThen: none},
		},
		Cost: Cost{CPU: 8 * time.Millisecond, Wall: time.Second, Walked: 3, Unchanged: 2, Deferred: 1, LongestHold: 1800 * time.Microsecond, Oldest: 4 * time.Second},
	}
	s.Processes[2].Space, s.Processes[3].Space = 7, 7
	p := &s.Processes[4]
	p.PSS, p.USS, p.Swap, p.RSSThen = denied, denied, denied, denied
	p = &s.Processes[5]
	p.PSS, p.USS, p.Swap, p.RSSThen = Figure{}, Figure{}, Figure{}, Figure{}
	return s
}

func process(pid int, name, user string, rss, pss, uss int64) Process {
	return Process{
		PID: pid, Start: uint64(pid) * 10, PPID: 1, Name: name, Program: name, User: user, State: 'S',
		Command: "/usr/bin/" + name + " --port " + user, Cgroup: "/system.slice/" + name + ".service",
		Priority: known(20), Nice: known(0), Threads: known(4), OOMScore: known(667),
		CPUTime: known(int64(83 * time.Second)), Running: known(int64(830 * time.Second)),
		Virt: known(4 * gib), RSS: known(rss), RSSThen: known(rss), Shared: known(10 * mib), PSS: known(pss), USS: known(uss), Swap: known(mib),
	}
}

// source gives out Snapshots and notes what was wanted.
type source struct {
	wants []Want
	make  func(Want) *Snapshot
	err   error
}

func (s *source) Read(_ context.Context, want Want) (*Snapshot, error) {
	s.wants = append(s.wants, want)
	if s.err != nil {
		return nil, s.err
	}
	if s.make != nil {
		return s.make(want), nil
	}
	return example(), nil
}

// cellOf returns the cell of a named column in the row with that ID.
func cellOf(t *testing.T, table *Table, id ID, column string) Value {
	t.Helper()
	col := table.column(column)
	if col < 0 {
		t.Fatalf("no column %q", column)
	}
	for row := range table.Len {
		if table.ID(row) == id {
			return table.Cell(row, col)
		}
	}
	t.Fatalf("no row %+v", id)
	return Value{}
}
