package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// results of all rounds.
type results struct {
	contenders []contender
	threads    []int
	cpu        map[int][][]float64 // measurement.cpu by threads, contender and round
	elapsed    map[int][][]float64 // the same of measurement.elapsed
	full       *fullRun
}

func newResults(contenders []contender, threads []int) *results {
	r := &results{contenders: contenders, threads: threads, cpu: make(map[int][][]float64), elapsed: make(map[int][][]float64)}
	for _, t := range threads {
		r.cpu[t], r.elapsed[t] = make([][]float64, len(contenders)), make([][]float64, len(contenders))
	}
	return r
}

func (r *results) add(contender, threads int, m measurement) {
	r.cpu[threads][contender] = append(r.cpu[threads][contender], m.cpu)
	r.elapsed[threads][contender] = append(r.elapsed[threads][contender], m.elapsed)
}

// quantile of values, by linear interpolation.
func quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is the middle half of the values over their median.
func spread(values []float64) float64 {
	return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

// ratios compares a contender with another, round by round: what slows the
// machine down for a while slows down both.
func (r *results) ratios(threads, of, to int) []float64 {
	var out []float64
	for round, pair := range r.cpu[threads][of] {
		out = append(out, pair/r.cpu[threads][to][round])
	}
	return out
}

func (r *results) index(name string) int {
	return slices.IndexFunc(r.contenders, func(c contender) bool { return c.name == name })
}

// noisy is the spread of the floor from which figures are not to be trusted.
const noisy = 0.10

const intro = `The loop is malloc(64) and free, as fast as it goes, with %d frames below it
(testdata/programs/churn.c). Each had %d turns of %v, one in each round. Shown are:
the median of the loop's own processor time for a pair, what the kernel does on its behalf included
(others that want the processor don't count in that, as they do by the clock); how far the middle half of
the turns spreads; the medians of the ratios within each round; and the median time by the clock, in each
thread. The floor is empty BPF programs where memtrace would probe: entry and return of malloc, entry of
free. No tracer by uprobes can be below it.
`

// document is docs/benchmarks.md.
func (r *results) document(s settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What tracing costs\n\nWritten by `sudo make bench` on %s.\n\n", machine())
	fmt.Fprintf(&b, intro, depth, s.rounds, s.span)
	for _, threads := range r.threads {
		r.table(&b, threads)
	}
	r.stackText(&b)
	r.bystanderText(&b)
	r.fullText(&b)
	b.WriteString(notes)
	return b.String()
}

func (r *results) table(b *strings.Builder, threads int) {
	floor, untraced := r.index(floorName), r.index("untraced")
	fmt.Fprintf(b, "\n## %d thread%s\n\n| | ns a pair | spread | of the floor | of untraced | by the clock |\n|---|---:|---:|---:|---:|---:|\n", threads, strings.Repeat("s", min(threads-1, 1)))
	for i, c := range r.contenders {
		values := r.cpu[threads][i]
		fmt.Fprintf(b, "| %s | %.0f | %.0f %% | %.2f × |", c.name, median(values), 100*spread(values), median(r.ratios(threads, i, floor)))
		if untraced >= 0 {
			fmt.Fprintf(b, " %.0f × |", median(r.ratios(threads, i, untraced)))
		} else {
			b.WriteString(" |")
		}
		fmt.Fprintf(b, " %.0f |\n", median(r.elapsed[threads][i]))
	}
	if got := spread(r.cpu[threads][floor]); got > noisy {
		fmt.Fprintf(b, "\nThe machine was busy: the floor spreads by %.0f %%. Measure again when it is quiet.\n", 100*got)
	}
}

// stackText says what a stack costs: the difference of two contenders, round by round.
func (r *results) stackText(b *strings.Builder) {
	fmt.Fprintf(b, "\n## What a stack of %d frames costs\n\n| | %s |\n|---|%s\n", depth,
		strings.Join(r.perThread(func(threads int) string { return fmt.Sprintf("%d threads, ns", threads) }), " | "),
		strings.Repeat("---:|", len(r.threads)))
	for _, row := range []struct{ text, with, without string }{
		{"by frame pointers", fpName, bareName},
		{"by .eh_frame", tablesName, bareName},
		{"by bpf_get_stackid (frame pointers)", stackidName, floorName},
	} {
		with, without := r.index(row.with), r.index(row.without)
		if with < 0 || without < 0 {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |\n", row.text, strings.Join(r.perThread(func(threads int) string {
			return fmt.Sprintf("%.0f", median(r.differences(threads, with, without)))
		}), " | "))
	}
}

func (r *results) perThread(text func(threads int) string) (cells []string) {
	for _, threads := range r.threads {
		cells = append(cells, text(threads))
	}
	return cells
}

func (r *results) differences(threads, of, to int) (out []float64) {
	for round, pair := range r.cpu[threads][of] {
		out = append(out, pair-r.cpu[threads][to][round])
	}
	return out
}

func (r *results) fullText(b *strings.Builder) {
	f := r.full
	if f == nil {
		return
	}
	fmt.Fprintf(b, "\n## At full speed\n\n%d threads of the loop for %.0f s: %.1f million calls, of which memtrace saw %.1f million and lost %d.\n",
		f.threads, f.seconds, float64(f.calls)/1e6, float64(f.seen)/1e6, f.lost)
	fmt.Fprintf(b, "It took %.0f ns of its own processor time for each (%.2f processors), and %.0f MB of memory at most.\n",
		f.cpuEvent, f.cpuShare, float64(f.memory)/1024)
}

const notes = `
## How to read this

- Almost all of the floor is the processor's trap into the kernel and back, three for a pair; a virtual machine makes them dearer.
- heaptrack and Valgrind start the program themselves, under a preloaded library or an emulated processor. memtrace attaches to it as it runs.
- bpftrace only counts here. Its probes sit at the functions' first instructions. Where the kernel can't emulate
  that one, as for free in this glibc, it steps over it, which costs more than all the rest; docs/probes.md tells what memtrace does instead.
- The loop does nothing but allocate. A program that allocates once in 10 µs is slowed down by a tenth of that.
`

// machine describes what this ran on, without naming it.
func machine() string {
	var u unix.Utsname
	release := "?"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
		if parts := strings.SplitN(release, ".", 3); len(parts) > 1 {
			minor, _, _ := strings.Cut(parts[1], "-")
			release = parts[0] + "." + minor
		}
	}
	kind := ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil && strings.Contains(string(text), " hypervisor") {
		kind = " of a virtual machine"
	}
	return fmt.Sprintf("%d %s processors%s, Linux %s", runtime.NumCPU(), runtime.GOARCH, kind, release)
}
