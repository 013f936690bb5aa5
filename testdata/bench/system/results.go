package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// table is what was measured of a scene.
type table struct {
	Scene  string
	Names  []string
	Times  map[string][]measurement
	Live   float64 // of a processor, that memtrace top takes
	Rounds int
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
		for _, m := range t.Times[floorName] {
			clock = append(clock, float64(m.Elapsed))
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
	for round, m := range t.Times[of] {
		out = append(out, float64(value(m))/float64(value(t.Times[to][round])))
	}
	return median(out)
}

func (t *table) median(name string, value func(measurement) time.Duration) time.Duration {
	var out []float64
	for _, m := range t.Times[name] {
		out = append(out, float64(value(m)))
	}
	return time.Duration(median(out))
}

func elapsed(m measurement) time.Duration { return m.Elapsed }
func cpu(m measurement) time.Duration     { return m.CPU }

// document is the part of docs/benchmarks.md about reading all processes.
func document(tables []table) string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	var s strings.Builder
	s.WriteString("# What reading all processes costs\n\n")
	fmt.Fprintf(&s, "Written by `sudo make bench` on %d %s processors, Linux %s, in %s rounds where each had its turn.\n", runtime.NumCPU(), runtime.GOARCH, release, roundsOf(tables))
	s.WriteString(`One turn reads PSS, USS and swap of all processes of a PID namespace, which has no others. Shown are the medians of the time by the clock and of all
processors' time, and the medians of the ratios of processors' time within each round, which other work on
the machine disturbs least. The floor is the open, read and close of each smaps_rollup, on as many threads as
memtrace has, without a look at what was read: the kernel's own walk of the page tables. Of memtrace, "again and
again" is a full collection by a program that goes on: processes' states, names, faults, times and SHR as well, in each
turn, and their users, command lines, control groups and OOM scores, which seldom change, every 10 s. "Once" begins
and ends with each turn; it reads names, users and all sizes, for which it opens and closes each process's directory
and stat as well: they say what a process is called, and tell it from another that is given the same PID. "Live" is what ` + "`memtrace top`" + ` does:
processes that have not changed are not walked.
`)
	s.WriteString(busy(tables))
	for i := range tables {
		tables[i].write(&s)
	}
	return s.String()
}

// roundsOf says how many rounds there were: "5", or "5 to 7".
func roundsOf(tables []table) string {
	least, most := math.MaxInt, 0
	for _, t := range tables {
		least, most = min(least, t.Rounds), max(most, t.Rounds)
	}
	if least >= most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func (t *table) write(s *strings.Builder) {
	fmt.Fprintf(s, "\n## %s\n\n| | by the clock | processors' time | of the floor |\n|---|---:|---:|---:|\n", t.Scene)
	for _, name := range t.Names {
		fmt.Fprintf(s, "| %s | %s | %s | %.2f × |\n", name, ms(t.median(name, elapsed)), ms(t.median(name, cpu)), t.ratio(name, floorName, cpu))
	}
	for _, peer := range []string{"smem", "ps_mem"} {
		if len(t.Times[peer]) > 0 {
			fmt.Fprintf(s, "\nmemtrace is %.0f times as fast as %s by the clock, %.0f times when it begins from nothing.\n",
				t.ratio(peer, memtraceName, elapsed), peer, t.ratio(peer, onceName, elapsed))
		}
	}
	fmt.Fprintf(s, "\n`memtrace top`, on a terminal of 80 × 24 and refreshing once a second, takes %.2f %% of a processor.\n", 100*t.Live)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
