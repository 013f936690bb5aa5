package top

// full is example with what the other views show.
func full() *Snapshot {
	s := example()
	for i := range s.Processes {
		s.Processes[i].OnNode = []Figure{known(3 * mib), known(mib)}
	}
	s.Books = []Entry{
		{Name: "processes", Size: known(3 * gib), Source: "smaps_rollup"},
		{Name: "private", Depth: 1, Size: known(2 * gib), Source: "USS"},
		{Name: "shared", Depth: 1, Size: known(gib), Source: "PSS - USS"},
		{Name: "page cache", Size: known(2 * gib), Source: "meminfo Cached"},
		{Name: "free", Size: known(3*gib + mib), Source: "meminfo MemFree"},
		{Name: "unexplained", Size: known(-mib), Remainder: true, Source: "the rest"},
	}
	s.Nodes = []Node{
		{ID: 0, Total: known(4 * gib), Free: known(gib), Used: known(3 * gib), File: known(gib), Anon: known(gib), Shmem: known(0), Slab: known(64 * mib)},
		{ID: 1, Total: known(4 * gib), Free: known(4 * gib), Used: known(0), File: known(0), Anon: known(0), Shmem: known(0), Slab: known(0)},
	}
	s.Groups = []Group{
		{Path: "/system.slice/redis-server.service", Container: "redis-server", Processes: known(2), Current: known(gib), Max: known(2 * gib),
			High: none, Peak: known(gib), Working: known(900 * mib), Anon: known(800 * mib), File: known(100 * mib), Kernel: known(mib), Swap: known(0),
			Some: known(50), Full: known(0), OOM: known(1), Killed: known(1), PSS: known(1160 * mib), USS: known(1140 * mib), Shares: true},
		{Path: "/system.slice/secret.service", Processes: known(1), Current: known(60 * mib), Max: none, High: none, Peak: Figure{State: Unsupported},
			Working: known(50 * mib), Anon: known(40 * mib), File: known(10 * mib), Kernel: known(0), Swap: known(0), Some: denied, Full: denied,
			OOM: known(0), Killed: known(0), PSS: denied, USS: denied, UnknownIn: 1},
	}
	s.Components = []Component{
		{Name: "[heap]", Kind: "heap", RSS: known(gib), PSS: known(gib), USS: known(gib), Swap: known(0), Processes: 5},
		{Name: "/usr/lib/x86_64-linux-gnu/libc.so.6", Kind: "file", RSS: known(9 * mib), PSS: known(2 * mib), USS: known(100 * kib), Swap: known(0), Processes: 6},
	}
	s.Of = Subject{PID: 101, Start: 1010, Name: "redis-server"}
	s.Threads = []Thread{
		{TID: 101, Name: "redis-server", State: 'R', Priority: known(20), Nice: known(0), CPUTime: known(2e9), Running: known(4e9), MinorFaults: known(5000), MajorFaults: known(3), Processor: known(1), Node: known(0), StackSize: known(132 * kib), StackPlace: known(0x7ffd00000000), StackName: "[stack]"},
		{TID: 103, Name: "bio_close", State: 'S', Priority: known(20), Nice: known(0), CPUTime: known(0), Running: known(4e9), MinorFaults: known(1), MajorFaults: known(0), Processor: known(0), Node: known(0), StackSize: denied, StackPlace: denied},
	}
	s.Mappings = []Mapping{
		{Start: 0x55d000000000, End: 0x55d000100000, Perms: "r-xp", Kind: "file", Name: "/usr/bin/redis-server", RSS: known(mib), PSS: known(512 * kib), USS: known(0), Dirty: known(0), Swap: known(0), Huge: known(0), Locked: known(0)},
		{Start: 0x7f0000000000, End: 0x7f0040000000, Perms: "rw-p", Kind: "anon", RSS: known(512 * mib), PSS: known(512 * mib), USS: known(512 * mib), Dirty: known(512 * mib), Swap: known(mib), Huge: known(2 * mib), Locked: known(0)},
	}
	return s
}
