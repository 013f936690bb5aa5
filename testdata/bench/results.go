package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/figures"
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

const intro = `The loop is malloc(64) and free, as fast as it goes, with %d frames below it
(testdata/programs/churn.c). Each had %d turns of %v, one in each round. Shown are:
the median of the loop's own processor time for a pair, what the kernel does on its behalf included
(others that want the processor don't count in that, as they do by the clock); how far the middle half of
the turns spreads; the medians of the ratios within each round; and the median time by the clock, in each
thread. The floor is empty BPF programs where memtrace would probe: entry and return of malloc, entry of
free. A tracer that lets all three trap can't be below it; memtrace leaves out returns whose results it predicts
(docs/probes.md) or doesn't record (docs/sampling.md).
`

// document is docs/benchmarks.md.
func (r *results) document(s settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What tracing costs\n\nWritten by `sudo make bench` on %s, %s, load %s.\n\n", figures.Machine(), figures.Today(), figures.Load())
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
		fmt.Fprintf(b, "| %s | %.0f | %.0f %% | %s |", c.name, figures.Median(values), 100*figures.Spread(values), figures.Ratio(r.ratios(threads, i, floor), 2))
		if untraced >= 0 {
			fmt.Fprintf(b, " %s |", figures.Ratio(r.ratios(threads, i, untraced), 0))
		} else {
			b.WriteString(" |")
		}
		fmt.Fprintf(b, " %.0f |\n", figures.Median(r.elapsed[threads][i]))
	}
	if noisy := r.noisy(threads); len(noisy) > 0 {
		fmt.Fprintf(b, "\n**The machine was busy, or the figure is of few ns**: of %s more than %.0f %%.\n", strings.Join(noisy, ", "), 100*figures.Noisy)
	}
}

// noisy says which contenders' times spread too far.
func (r *results) noisy(threads int) (out []string) {
	for i, c := range r.contenders {
		if got := figures.Spread(r.cpu[threads][i]); got > figures.Noisy {
			out = append(out, fmt.Sprintf("%s (%.0f %%)", c.name, 100*got))
		}
	}
	return out
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
			return fmt.Sprintf("%.0f", figures.Median(r.differences(threads, with, without)))
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
- Nothing here pairs short-lived blocks within the kernel: that could spare memtrace's own time for both calls, but no trap; "What pairing in the kernel could spare at most" has figures.
- The loop does nothing but allocate. A program that allocates once in 10 µs is slowed down by a tenth of that.
`
