package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// text is the section.
func (r *leakResults) text() string {
	var b strings.Builder
	b.WriteString("# What leak checks cost\n\nWritten by `sudo make bench-leaks`, in parts.\n")
	r.scanText(&b)
	r.lockText(&b)
	r.serviceText(&b)
	return b.String()
}

// row writes a row of a table, a value of each of several runs.
func row[T any](b *strings.Builder, runs []T, name, format string, value func(r *T) any) {
	fmt.Fprintf(b, "| %s |", name)
	for i := range runs {
		fmt.Fprintf(b, " "+format+" |", value(&runs[i]))
	}
	b.WriteByte('\n')
}

func header(b *strings.Builder, first string, names []string) {
	fmt.Fprintf(b, "| %s | %s |\n|---|%s\n", first, strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
}

func (r *leakResults) scanText(b *strings.Builder) {
	var names []string
	var runs []leakRun
	for _, order := range []string{"near", "far"} {
		if run, ok := r.Scans[order]; ok {
			names, runs = append(names, order), append(runs, run)
		}
	}
	if len(runs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## A big heap\n\n%.1f GiB in %.1f million blocks (testdata/programs/leak_bench.c), scanned from outside by one worker, on %s.\n"+
		"GB are of the heap, for a second of processor time. Pointers lead to neighbours, or anywhere.\n\n",
		float64(runs[0].Bytes)/(1<<30), float64(runs[0].Blocks)/1e6, runs[0].Machine)
	header(b, "", names)
	row(b, runs, "plain read of the same memory", "%.1f GB/s", func(r *leakRun) any { return r.Plain })
	row(b, runs, "read and mark", "%.2f GB/s", func(r *leakRun) any { return r.Mark })
	row(b, runs, "the whole scan, by the clock", "%.1f s", func(r *leakRun) any { return r.Whole.Seconds() })
	row(b, runs, "LeakSanitizer's check of the same heap, by the clock, the program stopped", "%.1f s", func(r *leakRun) any { return r.LSan.Seconds() })
	row(b, runs, "memory of the scan, beside the live heap", "%.1f bytes a block", func(r *leakRun) any { return r.PerBlock })
	row(b, runs, "times that the heap was read, over all passes", "%.2f", func(r *leakRun) any { return r.Passes })
	row(b, runs, "longest call that read memory or the page map", "%.2f ms", func(r *leakRun) any { return ms(r.Hold) })
	row(b, runs, "blocks that the program lost", "%d", func(r *leakRun) any { return r.Lost.Count })
	row(b, runs, "of them found definite", "%d", func(r *leakRun) any { return r.Found.Count })
	row(b, runs, "blocks found possible: words of other data look like unaligned pointers to them", "%d", func(r *leakRun) any { return r.Possible.Count })
	row(b, runs, "load of the machine before", "%s", func(r *leakRun) any { return r.Load })
	for i := range runs {
		busyText(b, runs[i].Load)
	}
}

// busyText says once that figures come from a machine with other work.
func busyText(b *strings.Builder, load string) {
	const note = "\n**The machine was busy with other work**: what waits, and what looks things up in memory, is slower then. Measure again when it is quiet.\n"
	if n, err := strconv.ParseFloat(load, 64); err == nil && n > float64(runtime.NumCPU()) && !strings.HasSuffix(b.String(), note) {
		b.WriteString(note)
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func (r *leakResults) lockText(b *strings.Builder) {
	var names []string
	var runs []lockRun
	for _, reader := range lockReaders {
		if run, ok := r.Locks[reader.name]; ok {
			names, runs = append(names, reader.name), append(runs, run)
		}
	}
	if len(runs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## What the program waits for\n\nA program with a heap of %d MiB maps, touches and unmaps 64 KiB all the time, and notes for how long it was\n"+
		"blocked in each turn: by the clock, less the time that it had a processor or waited for one\n"+
		"(testdata/programs/lock_waits.c). %d seconds each, on %s: alone, while it is scanned again and again, and, to\n"+
		"compare, while its smaps_rollup is read.\n\n", runs[0].MiB, lockSeconds, runs[0].Machine)
	header(b, "", names)
	row(b, runs, "turns a second", "%.0f", func(r *lockRun) any { return r.Turns })
	row(b, runs, "readings meanwhile", "%d", func(r *lockRun) any { return r.Readings })
	row(b, runs, "blocked, 99.9th percentile of turns", "%.3f ms", func(r *lockRun) any { return ms(r.Usual) })
	row(b, runs, "longest of a second, median", "%.2f ms", func(r *lockRun) any { return ms(r.Longest) })
	row(b, runs, "longest of all", "%.2f ms", func(r *lockRun) any { return ms(r.Worst) })
	row(b, runs, "longest call of the scans, as in the Report", "%.2f ms", func(r *lockRun) any { return ms(r.LongestCall) })
	row(b, runs, "load of the machine before", "%s", func(r *lockRun) any { return r.Load })
	for i := range runs {
		busyText(b, runs[i].Load)
	}
}

func (r *leakResults) serviceText(b *strings.Builder) {
	if len(r.Services) == 0 {
		return
	}
	slices.SortStableFunc(r.Services, func(x, y serviceRun) int { return strings.Compare(x.Service, y.Service) })
	b.WriteString("\n## Services under load\n\nWhat a request takes of a client that asks for one thing a millisecond, beside a load generator, while the service\n" +
		"is checked back to back (TestLeakScansUnderLoad). Nothing was called definite that anything in the process points to.\n\n" +
		"| | | checks | requests | p50 | p99 | longest | load before |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, s := range r.Services {
		fmt.Fprintf(b, "| %s | %s | %d | %d | %.2f ms | %.2f ms | %.1f ms | %s |\n", s.Service, s.What, s.Checks, s.Requests,
			float64(s.P50)/1e6, float64(s.P99)/1e6, float64(s.Longest)/1e6, s.Load)
	}
}
