package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/figures"
	"github.com/memtrace/memtrace/testdata/bench/ladder"
)

const ladderIntro = `# Where the time goes

Written by ` + "`sudo make bench-ladder`" + `. The BPF programs end after one of their steps: what a row costs more than the one before is
what the steps in between cost. Those of allocations are measured beside empty programs at frees, and the other way round; the
last rows are memtrace as it is. All are memtraces that attach to the same functions, at the same instructions, and differ in
their programs alone. These are compiled from a copy of the sources with an end in it (testdata/bench/ladder); a copy
without one is, instruction for instruction, what memtrace has. In each round every row had its turn.

- *Processor time* is the program's own, what the kernel does for it included, for an allocation: the median of the rounds, and
  how far their middle half spreads. *More* is the median of the differences to the row before within each round, for a call; those
  of the first allocation's and the first free's row, and of memtrace as it is, are to the floor.
- *In the programs* is what the kernel's statistics of BPF programs say (sysctl kernel.bpf_stats_enabled): the time from their
  start to their end, traps not included, for a call (of an allocation and of a free, where two stand there). They read
  the clock at both ends, which is in each row's figures but those that say otherwise.
- A step of few ns can only be told by the latter, if at all: traps and caches alone vary by more from turn to turn. A step below
  nothing is such chance. The compiler runs on some of the rows alone for that reason.
`

// ladderText is the section.
func ladderText(all map[string]*ladderResults) string {
	var b strings.Builder
	b.WriteString(ladderIntro)
	for _, p := range ladderPrograms() {
		b.WriteString("\n" + ladderTable(p, all[p.name]))
	}
	b.WriteString("\n" + pairingText(all))
	return b.String()
}

// ladderTable is a program's part.
func ladderTable(p *ladderProgram, r *ladderResults) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## The %s\n\n%s. %d rounds on %s, %s, load %s before them.\n\n", p.name, p.what, r.rounds(), r.Machine, r.Date, strings.Join(r.Loads, ", "))
	b.WriteString("| up to | processor time, ns | spread | more, ns | in the programs, ns | spread | more, ns |\n|---|---:|---:|---:|---:|---:|---:|\n")
	r.plainRow(&b, "untraced", untracedName)
	r.plainRow(&b, "the floor, statistics off", plainFloorName)
	part := ladder.None
	for _, rung := range p.rungs() {
		if rung.Of != part {
			part = rung.Of
			b.WriteString(map[ladder.Call]string{ladder.Alloc: "| *an allocation* | | | | | | |\n", ladder.Free: "| *a free* | | | | | | |\n"}[part])
		}
		r.row(&b, rung)
	}
	r.plainRow(&b, "the same, statistics off", plainWholeName)
	allocs, frees := r.calls()
	fmt.Fprintf(&b, "\n%.2f million allocations and %.2f million frees; with all their returns trapped %.2f million runs of the allocations' program, as it is %.2f.\n",
		allocs/1e6, frees/1e6, r.median(ladder.AllTraps, allocRuns)/1e6, r.median(ladder.Whole, allocRuns)/1e6)
	fmt.Fprintf(&b, "Without the statistics, the floor of entries is %.0f %% of the program's processor time under memtrace, and the untraced program %.0f %%.\n",
		100*r.median(plainFloorName, target)/r.median(plainWholeName, target), 100*r.median(untracedName, target)/r.median(plainWholeName, target))
	b.WriteString(r.noise(p))
	return b.String()
}

func allocRuns(t *ladderTurn) float64 { return float64(t.Alloc.Runs) }
func target(t *ladderTurn) float64    { return t.Target }
func allocNS(t *ladderTurn) float64   { return t.Alloc.NS }
func freeNS(t *ladderTurn) float64    { return t.Free.NS }

func (r *ladderResults) rounds() int { return len(r.Loads) }

// calls are how many allocations and frees the program makes: so often the floor's programs run.
func (r *ladderResults) calls() (allocs, frees float64) {
	return r.median(ladder.Floor, allocRuns), r.median(ladder.Floor, func(t *ladderTurn) float64 { return float64(t.Free.Runs) })
}

func (r *ladderResults) values(variant string, of func(*ladderTurn) float64) (out []float64) {
	for i := range r.Turns[variant] {
		out = append(out, of(&r.Turns[variant][i]))
	}
	return out
}

func (r *ladderResults) median(variant string, of func(*ladderTurn) float64) float64 {
	return figures.Median(r.values(variant, of))
}

// differences are what a variant takes more than another within each round.
func (r *ladderResults) differences(with, than string, of func(*ladderTurn) float64) []float64 {
	more, less := r.values(with, of), r.values(than, of)
	for i := range more {
		more[i] -= less[i]
	}
	return more
}

// more is their median, mostMore their upper quartile.
func (r *ladderResults) more(with, than string, of func(*ladderTurn) float64) float64 {
	return figures.Median(r.differences(with, than, of))
}

func (r *ladderResults) mostMore(with, than string, of func(*ladderTurn) float64) float64 {
	return figures.Quantile(r.differences(with, than, of), 0.75)
}

// plainRow is a row without the kernel's statistics.
func (r *ladderResults) plainRow(b *strings.Builder, text, variant string) {
	allocs, _ := r.calls()
	values := r.values(variant, target)
	fmt.Fprintf(b, "| %s | %.0f | %.0f %% | | | | |\n", text, figures.Median(values)/allocs, 100*figures.Spread(values))
}

func (r *ladderResults) row(b *strings.Builder, rung ladder.Rung) {
	allocs, frees := r.calls()
	values := r.values(rung.Name, target)
	fmt.Fprintf(b, "| %s | %.0f | %.0f %% |", rung.Step, figures.Median(values)/allocs, 100*figures.Spread(values))
	calls, inside := allocs, allocNS
	if rung.Of == ladder.Free {
		calls, inside = frees, freeNS
	}
	if rung.Before == "" {
		b.WriteString(" |")
	} else {
		fmt.Fprintf(b, " %+.0f |", r.more(rung.Name, rung.Before, target)/calls)
	}
	if rung.Of == ladder.None || rung.Of == ladder.Both {
		fmt.Fprintf(b, " %.0f and %.0f | | |\n", r.median(rung.Name, allocNS)/allocs, r.median(rung.Name, freeNS)/frees)
		return
	}
	ran := r.values(rung.Name, inside)
	fmt.Fprintf(b, " %.0f | %.0f %% | %+.0f |\n", figures.Median(ran)/calls, 100*figures.Spread(ran), r.more(rung.Name, rung.Before, inside)/calls)
}

// highestLoad is the greatest load average before a round.
func (r *ladderResults) highestLoad() (highest float64) {
	for _, text := range r.Loads {
		if load, err := strconv.ParseFloat(text, 64); err == nil {
			highest = max(highest, load)
		}
	}
	return highest
}

// noise warns of figures that are not to be trusted.
func (r *ladderResults) noise(p *ladderProgram) string {
	var b strings.Builder
	var noisy []string
	if load := r.highestLoad(); load > float64(runtime.NumCPU()) {
		fmt.Fprintf(&b, "\n**All processors were busy with other work meanwhile**: the load was up to %.1f before a round.\n", load)
	}
	for _, v := range p.variants() {
		if spread := figures.Spread(r.values(v, target)); spread > figures.Noisy {
			noisy = append(noisy, fmt.Sprintf("%s (%.0f %%)", v, 100*spread))
		}
	}
	if len(noisy) > 0 {
		fmt.Fprintf(&b, "\n**The machine was busy**: the processor time spreads by more than %.0f %% of %s.\n", 100*figures.Noisy, strings.Join(noisy, ", "))
	}
	if r.rounds() < figures.MinRounds {
		fmt.Fprintf(&b, "\n%d rounds are too few to go by: at least %d.\n", r.rounds(), figures.MinRounds)
	}
	return b.String()
}
