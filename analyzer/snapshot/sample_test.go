package snapshot

import (
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// sample is a snapshot with a value in each field.
func sample() *Snapshot {
	begin := time.Unix(1_700_000_000, 123)
	return &Snapshot{
		Machine: Machine{
			Hostname: "host", Kernel: "6.1.0", Arch: "x86_64", BootID: "b808de8f", Memtrace: "v1", PageSize: 4096,
			ClockTicks: 100, CPUs: 2, Averaged: true,
			Before: []Figure{{"MemTotal", 1 << 34}, {"MemFree", 0}}, After: []Figure{{"MemTotal", 1 << 34}},
			Pressure: []Figure{{"some.avg10", 1234}},
		},
		Begin: begin, End: begin.Add(time.Second),
		Components: []Component{
			{procfs.KindAnon, "[anon]", 0, 0}, {procfs.KindHeap, "[heap]", 0, 0},
			{procfs.KindFile, "/usr/bin/\x1b[31mcat\xff", 8 << 20, 77},
		},
		Processes: []Process{
			{
				ID: ID{12, 3456}, PPID: 1, UID: 1000, User: "ann", Comm: "cat\n", Cmdline: []string{"cat", "", "-"},
				Cgroup: "/user.slice", State: 'S', Threads: 3, CmdlineAccess: NoPermission, CgroupAccess: NotSupported,
				Usage:    Usage{9000, 8192, 5000, 4096, 77, 4095, 1 << 21, 4097, true},
				Uses:     []Use{{0, 2, 9000, 4096, 4096, 4096, 77, 4095, 0}, {2, 1, 4096, 4096, 904, 0, 0, 0, 1 << 21}},
				Resident: 8000, ResidentEnd: 9000, HaveEnd: true, ReadAt: time.Millisecond, Hold: 123, Predicted: 456,
			},
			{ID: ID{PID: 13}, Access: NoPermission, Why: "read smaps of process 13: permission denied", Uses: nil},
		},
		Changes: Changes{
			Came: []Passing{{ID{99, 1}, "new"}}, Went: []Passing{{ID{98, 2}, "old"}}, Uncounted: true,
		},
		Pages: &Pages{
			Processes: []ProcessPages{
				{Process: 0, Runs: []PageRun{{1024, 900_000, 3, 0}, {1027, 17, 1, 0}, {1 << 35, 900_003, 512, 2}}},
				{Process: 1, Access: NoPermission, Why: "no"},
			},
			Frames:       []FrameRun{{17, 1, 0, 0}, {900_000, 5, 1, 1 << 34}, {900_005, 100, 4_000_000_000, 1<<63 | 5}},
			FramesAccess: OutOfTime, FramesWhy: "late", FramesLeft: 410,
		},
		KernelThreads: 70, Zombies: 1, Warnings: []string{"", "w"},
	}
}
