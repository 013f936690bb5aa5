package render

import "github.com/memtrace/memtrace/analyzer/report"

// fixtures are Reports made by hand, by name.
func fixtures() map[string]*report.Report {
	return map[string]*report.Report{
		"grouped": groupedReport("function"), "sized": groupedReport("size"),
		"service": serviceReport(),
		"lossy":   lossyReport(),
		"hostile": hostileReport(),
		"limited": limitedReport(),
		"empty":   {},

		"untraced": untracedReport(),
		"unprobed": unprobedReport(),
		"goheap":   goHeapReport(),
	}
}

const ms = 1_000_000

// serviceReport is one attached process with a leak, a cache and a churn.
// Its rss_by adds up to its RSS and its sites to its live heap, less 132 sites.
func serviceReport() *report.Report {
	frame := func(function, file string, line int) *report.Frame {
		return &report.Frame{Function: function, File: file, Line: line, Module: "/usr/bin/service", BuildID: "9f2c", Offset: 0x1234}
	}
	inlined := frame("list_append", "/build/service-1.2/src/list.h", 77)
	inlined.Inlined = true
	main := frame("main", "/build/service-1.2/src/main.c", 210)
	libc := &report.Frame{Function: "__libc_start_call_main", Module: "/usr/lib/x86_64-linux-gnu/libc.so.6", Offset: 0x27245}
	nameless := &report.Frame{Function: "0x7f10003210", Module: "/usr/lib/libplugin.so.3", Offset: 0x3210}
	return &report.Report{
		Schema: report.Schema, WindowNS: 20_000 * ms,
		Tracer: report.TracerInfo{Attach: "uprobe_session", Faults: "kprobe", Unwind: "fp"},
		Stacks: report.Stacks{Bottom: 1_234_000, Deeper: 567, FramePointers: 12},
		Events: report.Events{Alloc: 1_234_567, Free: 1_200_000, Realloc: 12, FaultMinor: 950, FaultMajor: 2, UnmatchedFree: 345, Failed: 1},
		Processes: []report.Process{{
			ID: 1, PID: 4242, Comm: "service", Exe: "/usr/bin/service", Attached: true,
			Allocators: []string{"glibc /usr/lib/x86_64-linux-gnu/libc.so.6"},
			Usage:      report.Usage{RSS: 64 << 20, PSS: 60 << 20, USS: 58 << 20, Anon: 56 << 20, File: 8 << 20, SampledNS: 19_900 * ms},
			Heap: report.Heap{LiveBytes: 20<<20 + 300<<10, LiveCount: 34_567, PeakBytes: 21 << 20, PeakAtNS: 18_250 * ms,
				AllocBytes: 700 << 20, AllocCount: 1_234_567, FreeCount: 1_200_000, TemporaryCount: 1_000_000,
				ResidentBytes: 18 << 20, UntouchedBytes: 2<<20 + 300<<10, CorrelatedNS: 19_900 * ms},
			RSSBy:    report.RSSBy{HeapLive: 18 << 20, HeapOverhead: 2 << 20, HeapBeforeAttach: 30 << 20, AnonMmap: 5<<20 + 900<<10, File: 8 << 20, Stack: 124 << 10},
			AnonMmap: report.AnonMmap{Traced: 3 << 20, Untraced: 2<<20 + 900<<10},
		}},
		Sites: []report.Site{
			{ID: 3, Process: 1, PID: 4242, Function: "session_new", LiveBytes: 12 << 20, LiveCount: 12_288, AllocBytes: 12 << 20, AllocCount: 12_288,
				PeakLiveBytes: 12 << 20, ResidentBytes: 12 << 20, OldestNS: 19_980 * ms, GrowthBytes: 614_400,
				SizeHistogram: [][2]uint64{{1024, 12_288}},
				Stack:         []*report.Frame{inlined, frame("session_new", "/build/service-1.2/src/session.c", 42), main, libc}},
			{ID: 1, Process: 1, PID: 4242, Function: "cache_fill", LiveBytes: 8 << 20, LiveCount: 20_000, AllocBytes: 9 << 20, AllocCount: 22_000, FreeCount: 2_000,
				PeakLiveBytes: 9 << 20, ResidentBytes: 6 << 20, UntouchedBytes: 2 << 20, OldestNS: 19_000 * ms, GrowthBytes: -2048,
				Stack: []*report.Frame{frame("cache_fill", "/build/service-1.2/src/cache.c", 9), main}},
			{ID: 2, Process: 1, PID: 4242, Function: "0x7f10003210", LiveBytes: 52 << 10, LiveCount: 2279, AllocBytes: 600 << 20, AllocCount: 1_200_279,
				FreeCount: 1_198_000, TemporaryCount: 1_000_000, OldestNS: 3 * ms, Stack: []*report.Frame{nameless, main}, Truncated: true, FramePointers: true},
		},
		SitesMore: 132,
		Regions: []report.Region{
			{ID: 1, Process: 1, PID: 4242, Function: "ring_open", Kind: "memfd", LiveBytes: 16 << 20, LiveCount: 2, MappedBytes: 16 << 20, MappedCount: 2,
				PeakLiveBytes: 16 << 20, ResidentBytes: 9 << 20, GrowthBytes: 8 << 20,
				Stack: []*report.Frame{frame("ring_open", "/build/service-1.2/src/ring.c", 31), main}},
			{ID: 0, Process: 1, PID: 4242, Function: "0x7f10003210", Kind: "anon", LiveBytes: 4 << 20, LiveCount: 1, MappedBytes: 12 << 20, MappedCount: 3,
				UnmappedBytes: 8 << 20, PeakLiveBytes: 8 << 20, ResidentBytes: 3 << 20, Stack: []*report.Frame{nameless, main}},
			{ID: 2, Process: 1, PID: 4242, Function: "arena_new", Kind: "anon", Allocator: true, LiveBytes: 1 << 20, LiveCount: 1, MappedBytes: 1 << 20, MappedCount: 1},
		},
		RegionsMore: 3,
		Leaks: []report.Leak{{Site: 3, Process: 1, Kind: "growing", Bytes: 12 << 20, Count: 12_288, Confidence: 0.99,
			Why: "live bytes rose in 19 of 20 windows, 614 KiB/s, no plateau; p = 2e-06"}},
	}
}

// unprobedReport is a Go program, of which no allocation is seen.
func unprobedReport() *report.Report {
	return &report.Report{
		Schema: report.Schema, WindowNS: 60_000 * ms,
		Tracer: report.TracerInfo{Attach: "uprobe_session", Faults: "kprobe", Unwind: "fp"},
		Events: report.Events{FaultMinor: 3000},
		Processes: []report.Process{{
			ID: 1, PID: 77, Comm: "gateway", Exe: "/opt/gateway", Attached: true, Unprobed: true,
			Usage: report.Usage{RSS: 80 << 20, PSS: 78 << 20, USS: 76 << 20, Anon: 64 << 20, File: 16 << 20, SampledNS: 59_000 * ms},
			RSSBy: report.RSSBy{AnonMmap: 64 << 20, File: 15 << 20, Other: 1 << 20}, AnonMmap: report.AnonMmap{Untraced: 64 << 20},
			Mappings: []report.Mapping{
				{Name: "[anon: Go: heap]", Perms: "rw-p", Count: 2, Bytes: 128 << 20, ResidentBytes: 64 << 20, SwappedBytes: 1 << 20, GrowthBytes: 16 << 20, MappedGrowthBytes: 64 << 20},
				{Name: "/opt/gateway", Perms: "r-xp", Count: 1, Bytes: 20 << 20, ResidentBytes: 16 << 20, GrowthBytes: -4096},
				{Name: "[anon: Go: heap reservation]", Perms: "---p", Count: 9, Bytes: 1 << 30},
			},
			MappingsMore: 4,
		}},
		Warnings: []string{"process 77: its allocations are not seen"},
	}
}

// limitedReport is a service that was too busy for probes for some time, and grew then.
func limitedReport() *report.Report {
	r := serviceReport()
	r.Overhead = &report.Overhead{
		Limit: 0.01, Share: 0.036, LimitedShare: 0.004, EntryNS: 510.4, ReturnNS: 1012, Mode: "full",
		FullNS: 51_000 * ms, SampledNS: 500 * ms, NoneNS: 8_000 * ms, PausedNS: 500 * ms, NoneGrowthBytes: 12 << 20,
		Spans: []report.Span{{ToNS: 50_000 * ms, Mode: "full"}, {FromNS: 50_000 * ms, ToNS: 58_000 * ms, Mode: "none"}},
	}
	stack := func(function string) []*report.Frame {
		return []*report.Frame{{Function: function, File: "/src/store.c", Line: 81, Module: "/usr/bin/service"}}
	}
	pid := r.Processes[0].PID
	r.Touched = &report.FirstTouched{
		Bytes: 11 << 20, Count: 2816, TouchedBytes: 13 << 20, TouchedCount: 3328,
		PagesLost: 3, ChildTouches: 40, SitesMore: 2,
		Sites: []report.TouchedSite{
			{ID: 1, Process: 1, PID: pid, Function: "store_put", Stack: stack("store_put"),
				Bytes: 10 << 20, Count: 2560, TouchedBytes: 11 << 20, TouchedCount: 2816},
			{ID: 0, Process: 1, PID: pid, Function: "[no stack]",
				Stack: []*report.Frame{}, Bytes: 1 << 20, Count: 256, TouchedBytes: 2 << 20, TouchedCount: 512},
		},
	}
	return r
}

// goHeapReport is the same program with its runtime's own samples, and one whose profile is off.
func goHeapReport() *report.Report {
	r := unprobedReport()
	e := &report.Estimate{Samples: 90, LiveSamples: 60, LiveBytesSE: 4 << 20, LiveCountSE: 800, AllocBytesSE: 6 << 20, AllocCountSE: 900, FreeCountSE: 1200}
	r.Processes[0].GoHeap = &report.GoHeap{Version: "go1.26.1", FoundBy: "code", Rate: 512 << 10, ReadNS: 58_000 * ms, LiveBytes: 40 << 20, LiveCount: 10_000,
		AllocBytes: 90 << 20, AllocCount: 30_000, FreeCount: 20_000, GrowthBytes: 12 << 20, Estimate: e, Unsettled: true, Cut: true}
	r.Processes = append(r.Processes, report.Process{ID: 2, PID: 78, Comm: "tool", Unprobed: true, Mappings: []report.Mapping{}, GoHeap: &report.GoHeap{Version: "go1.26.1", Problem: "its memory profile is off"}})
	r.Sites = []report.Site{{ID: 1<<24 + 1, Process: 1, PID: 77, Basis: report.GoProfile, Language: "go", Function: "main.(*cache).put", LiveBytes: 40 << 20, LiveCount: 10_000,
		AllocBytes: 90 << 20, AllocCount: 30_000, FreeCount: 20_000, PeakLiveBytes: 40 << 20, GrowthBytes: 1 << 20, Estimate: e, SizeHistogram: [][2]uint64{},
		Stack: []*report.Frame{
			{Function: "main.(*cache).put", File: "/src/cache.go", Line: 31, Module: "/opt/gateway", Offset: 0x4cd96d, Inlined: true},
			{Function: "main.main", File: "/src/main.go", Line: 12, Module: "/opt/gateway", Offset: 0x4cda63},
		}}}
	return r
}

const longName = "boost::multi_index::detail::hashed_index<boost::multi_index::member<Order, std::basic_string<char, std::char_traits<char>, std::allocator<char> >, &Order::id>, std::hash<std::string> >::insert_unique_(Order const&)"

// lossyReport is two processes under run, of which one has ended, with losses of every cause.
func lossyReport() *report.Report {
	three := 3
	r := &report.Report{
		Schema: report.Schema, Final: true, WindowNS: 3_723_000 * ms,
		Tracer: report.TracerInfo{Attach: "perf_cookie", Faults: "off", Unwind: "none"},
		Events: report.Events{Alloc: 80_000, Free: 20_000, Lost: 1234, UnmatchedFree: 1, Failed: 2, Overwritten: 3, Repaired: 7},
		Pressure: &report.Pressure{Phases: 2, SampledNS: 4_500 * ms, LeftOut: report.LeftOut{Alloc: 1_200_000, Free: 1_190_000, Realloc: 1}, Spans: []report.Span{
			{FromNS: 10_000 * ms, ToNS: 12_500 * ms, Mode: "sampled", Interval: 64 << 10}, {FromNS: 60_000 * ms, ToNS: 62_000 * ms, Mode: "sampled", Interval: 64 << 10},
		}},
		Processes: []report.Process{
			{ID: 1, PID: 100, Comm: "gateway",
				Loss: &report.ProcessLoss{Events: 1230, DoubtfulCount: 1, DoubtfulBytes: 1 << 30, Repaired: report.Repaired{Count: 7, Bytes: 448},
					Spans: []report.LossSpan{{FromNS: 10_000 * ms, ToNS: 10_400 * ms, Events: 1000}, {FromNS: 60_000 * ms, ToNS: 60_001 * ms, Events: 230}}},
				Heap: report.Heap{LiveBytes: 1 << 30, LiveCount: 1, PeakBytes: 2 << 30, PeakAtNS: 1_800_000 * ms, AllocCount: 80_000, FreeCount: 20_000}},
			{ID: 2, PID: 101, Comm: "worker", Exited: true, ExitCode: &three,
				Usage: report.Usage{RSS: 4096, PSS: 4096, Swap: 4096, SampledNS: 1}},
		},
		Sites: []report.Site{
			{ID: 0, Process: 1, PID: 100, Function: longName, LiveBytes: 1 << 30, LiveCount: 1, AllocCount: 80_000, FreeCount: 20_000, GrowthBytes: 1 << 30, OldestNS: 3_700_000 * ms, DoubtfulCount: 1, DoubtfulBytes: 1 << 30,
				Stack: []*report.Frame{{Function: longName, File: "/usr/include/boost/multi_index/hashed_index.hpp", Line: 1234, Module: "/opt/gateway"}}},
			{ID: 7, Process: 2, PID: 101},
		},
		Leaks: []report.Leak{
			{Site: 0, Process: 1, Kind: "definite", Bytes: 1 << 30, Count: 1, Confidence: 1, Why: "no pointer to the block was found"},
			{Site: 0, Process: 1, Kind: "old", Bytes: 1 << 20, Count: 9, Confidence: 0.973, Why: "9 live blocks are older than any of the 20,000 that were freed"},
		},
		Warnings: []string{"the kernel has no BTF: faults are not traced"},
	}
	r.Events.LostBy.RingFull = 1000
	r.Events.LostBy.ThreadState = 200
	r.Events.LostBy.ReadFault = 30
	r.Events.LostBy.Missed = 1
	r.Events.LostBy.Mispredicted = 2
	r.Events.LostBy.Truncated = 1
	r.Events.LostBy.StackFull = 44
	r.Events.LostBy.Abandoned = 5
	return r
}

// hostileReport has names that try to take over the terminal.
func hostileReport() *report.Report {
	const attack = "a\x1b[2J\x1b]0;owned\x07b\r\nc\u202ed\u009be\xff\x00"
	r := serviceReport()
	p := &r.Processes[0]
	p.Comm, p.Exe, p.Allocators = attack, attack, []string{attack}
	r.Tracer = report.TracerInfo{Attach: attack, Faults: attack, Unwind: attack}
	for i := range r.Sites {
		s := &r.Sites[i]
		s.Function = attack
		for j := range s.Stack {
			s.Stack[j] = &report.Frame{Function: attack, File: "/" + attack + ".c", Line: 1, Module: attack, BuildID: attack}
		}
		if i == 1 {
			s.Stack[0] = &report.Frame{Module: "/lib/" + attack, Offset: 16}
		}
	}
	for i := range r.Regions {
		r.Regions[i].Function, r.Regions[i].Kind, r.Regions[i].Stack = attack, attack, []*report.Frame{{Function: attack, File: attack, Module: attack}}
	}
	r.Touched = &report.FirstTouched{Sites: []report.TouchedSite{{
		Function: attack, Stack: []*report.Frame{{Function: attack, File: attack, Module: attack}},
	}}}
	p.Mappings, p.Unprobed = []report.Mapping{{Name: attack, Perms: attack, Count: 1, ResidentBytes: 1}}, true
	r.Leaks[0].Kind, r.Leaks[0].Why = attack, attack
	r.Warnings = []string{attack}
	return r
}

// groupedReport is serviceReport with its sites grouped.
func groupedReport(by string) *report.Report {
	r := serviceReport()
	r.Sites = append(r.Sites, r.Sites[0])
	r.Sites[len(r.Sites)-1].ID, r.Sites[len(r.Sites)-1].MergedIDs = 40, []int{41, 42}
	r.GroupBy(by, "live", 0)
	return r
}
