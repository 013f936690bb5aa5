package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// table is what was measured of a scene.
type table struct {
	scene string
	names []string
	times map[string][]measurement
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread is the middle half of the values over their median.
func spread(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[len(s)*3/4] - s[len(s)/4]) / median(s)
}

// noisy is the spread from which times by the clock are not to be trusted.
const noisy = 0.10

// busy says how far the floor's times spread, if that is too far.
func busy(tables []table) string {
	most := 0.0
	for _, t := range tables {
		var clock []float64
		for _, m := range t.times[floorName] {
			clock = append(clock, float64(m.elapsed))
		}
		most = max(most, spread(clock))
	}
	if most <= noisy {
		return ""
	}
	return fmt.Sprintf("\n**The machine was busy with other work**: the floor's times by the clock spread by %.0f %%. Only the last column is to be trusted.\n", 100*most)
}

// ratio is the median of the ratios within each round: what slows the machine
// down for a while slows down both.
func (t *table) ratio(of, to string, value func(measurement) time.Duration) float64 {
	var out []float64
	for round, m := range t.times[of] {
		out = append(out, float64(value(m))/float64(value(t.times[to][round])))
	}
	return median(out)
}

func (t *table) median(name string, value func(measurement) time.Duration) time.Duration {
	var out []float64
	for _, m := range t.times[name] {
		out = append(out, float64(value(m)))
	}
	return time.Duration(median(out))
}

func elapsed(m measurement) time.Duration { return m.elapsed }
func cpu(m measurement) time.Duration     { return m.cpu }

// document is the part of docs/benchmarks.md about reading all processes.
func document(tables []table, rounds int) string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	var s strings.Builder
	s.WriteString("# What reading all processes costs\n\n")
	fmt.Fprintf(&s, "Written by `sudo make bench` on %d %s processors, Linux %s, in %d rounds where each had its turn.\n", runtime.NumCPU(), runtime.GOARCH, release, rounds)
	s.WriteString(`One turn reads PSS, USS and swap of all processes. Shown are the medians of the time by the clock and of all
processors' time, and the medians of the ratios of processors' time within each round, which other work on
the machine disturbs least. The floor is the open, read and close of each smaps_rollup, on as many threads as
memtrace has, without a look at what was read: the kernel's own walk of the page tables. memtrace reads the
processes' states, names, faults and times as well, in each turn, and their users, command lines, control groups
and OOM scores, which seldom change, every 10 s and when it begins. "Live" is what ` + "`memtrace top`" + ` does:
processes that have not changed are not walked.
`)
	s.WriteString(busy(tables))
	for i := range tables {
		tables[i].write(&s)
	}
	return s.String()
}

func (t *table) write(s *strings.Builder) {
	fmt.Fprintf(s, "\n## %s\n\n| | by the clock | processors' time | of the floor |\n|---|---:|---:|---:|\n", t.scene)
	for _, name := range t.names {
		fmt.Fprintf(s, "| %s | %s | %s | %.2f × |\n", name, ms(t.median(name, elapsed)), ms(t.median(name, cpu)), t.ratio(name, floorName, cpu))
	}
	for _, peer := range []string{"smem", "ps_mem"} {
		if len(t.times[peer]) > 0 {
			fmt.Fprintf(s, "\nmemtrace is %.0f times as fast as %s by the clock, %.0f times when it begins from nothing.\n",
				t.ratio(peer, memtraceName, elapsed), peer, t.ratio(peer, "memtrace, once, from nothing", elapsed))
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
