package render

import "github.com/memtrace/memtrace/analyzer/report"

// untracedReport is a process whose heap was read from outside.
func untracedReport() *report.Report {
	group := func(id int, size, count, resident uint64, class, typ string) report.Site {
		s := report.Site{ID: id, Process: 1, PID: 4242, LiveBytes: size * count, LiveCount: count, ResidentBytes: resident,
			Group: &report.BlockGroup{Size: size, Class: class, Type: typ}}
		if typ != "" {
			s.Group.Module = "/usr/lib/libshop.so.3"
		}
		return s
	}
	return &report.Report{
		Schema: report.Schema, Final: true, WindowNS: 1_500 * ms, Tracer: report.TracerInfo{Attach: report.NotTraced, Faults: "off", Unwind: "none"},
		Processes: []report.Process{{
			ID: 1, PID: 4242, Comm: "service", Exe: "/usr/bin/service", Attached: true, Allocators: []string{"glibc /usr/lib/x86_64-linux-gnu/libc.so.6"},
			Usage:    report.Usage{RSS: 64 << 20, PSS: 60 << 20, USS: 58 << 20, SampledNS: 1},
			RSSBy:    report.RSSBy{HeapLive: 20 << 20, HeapOverhead: 4 << 20, AnonMmap: 32 << 20, File: 8 << 20},
			Heap:     report.Heap{LiveBytes: 21 << 20, LiveCount: 40_000, ResidentBytes: 20 << 20, UntouchedBytes: 1 << 20, CorrelatedNS: 1},
			HeapWalk: &report.HeapWalk{Arenas: 4, FreeBytes: 3 << 20, CachedCount: 1278, CachedBytes: 90 << 10, MappedCount: 2, MappedBytes: 1 << 20, ClearedCount: 3, Looks: 31},
			LeakCheck: &report.LeakCheck{When: "running", Scans: 2, Registers: true, RootBytes: 30 << 20, ReadBytes: 110 << 20, LongestHoldNS: 210_000,
				Reachable: report.LeakSum{Count: 39_000, Bytes: 20 << 20}, ReachableBy: report.ReachableBy{Globals: report.LeakSum{Count: 38_990, Bytes: 19 << 20},
					Stacks: report.LeakSum{Count: 10, Bytes: 1 << 20}}},
		}},
		Sites: []report.Site{
			group(7, 120, 100_000, 11<<20, "type", "shop::Basket<std::string>"), group(3, 88, 50_000, 4<<20, "text", ""),
			group(9, 4088, 600, 2<<20, "zeros", ""), group(1, 1032, 40, 40<<10, "pointer", ""), group(4, 24, 90, 2<<10, "data", ""),
		},
		SitesMore: 210,
		Leaks: []report.Leak{
			{Site: 7, Process: 1, PID: 4242, Kind: "definite", Bytes: 1200, Count: 10, Confidence: 0.99, Why: "no pointer to it was found in 30.0 MiB of roots and the registers in two scans 1.03s apart",
				Samples: []report.LeakSample{{Text: "0x7f3a5c2d1d28 0x1 0x0", Count: 10, Address: "0x55f26a528120"}}},
			{Site: 3, Process: 1, PID: 4242, Kind: "indirect", Bytes: 880, Count: 10, Confidence: 0.99, Why: "only leaked blocks point to it",
				Samples: []report.LeakSample{{Text: `"GET /index.html"`, Count: 9, Address: "0x55f26a52a000"}, {Text: `"HEAD /"`, Count: 1, Address: "0x55f26a52a060"}}},
		},
		Warnings: []string{"process 4242: 4.00 KiB of its heap could not be gone through"},
		Notes:    []string{"Process 4242 was not traced, so nobody knows where its blocks were allocated."},
	}
}
