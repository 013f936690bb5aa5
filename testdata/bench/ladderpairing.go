package main

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/ladder"
)

const pairingIntro = `## What pairing in the kernel could spare at most

A block that is freed soon could be paired within the kernel: its two events would never reach memtrace. Of both calls it would
spare taking a line of the ring, the record and submitting it (from the kernel's statistics above), and memtrace's own time for
two events. It would spare no trap, no look-up and no stack, since at the allocation nobody knows how soon the free comes.

These are upper bounds: each measured difference is the upper quartile of the rounds. memtrace's time for an event is what all
of it takes more, from its start to its end, than on the row where stacks are sent but no events, over the number of events:
Reports and the names of sites are in that, which would stay. And whatever holds the first event back until the second
comes, and counts pairs by their stacks, would have to cost nothing.

*Temporary* blocks are those that their thread frees before it allocates another one. A longer memory could pair more: the last
row is of all blocks that are freed.

`

// pairing is an upper bound, in ns.
type pairing struct {
	alloc, free float64 // of the record of a call in the kernel
	event       float64 // of memtrace, for each event
	temporary   float64 // share of the blocks
	blocks      float64
	frees       float64
	whole       float64 // processor time of the program and memtrace, without the statistics
}

// pairing computes it from measured steps.
func (r *ladderResults) pairing() pairing {
	allocs, frees := r.calls()
	tracer := func(t *ladderTurn) float64 { return t.Tracer }
	events := r.median(ladder.Whole, func(t *ladderTurn) float64 { return float64(t.Events) })
	blocks := r.median(ladder.Whole, func(t *ladderTurn) float64 { return float64(t.Blocks) })
	return pairing{
		alloc:     r.mostMore(ladder.AllocSubmit, ladder.Stack, allocNS) / allocs,
		free:      r.mostMore(ladder.FreeSubmit, ladder.FreeState, freeNS) / frees,
		event:     r.mostMore(ladder.Whole, ladder.Stack, tracer) / events,
		temporary: r.median(ladder.Whole, func(t *ladderTurn) float64 { return float64(t.Temporary) }) / blocks,
		blocks:    blocks,
		frees:     frees,
		whole:     r.median(plainWholeName, func(t *ladderTurn) float64 { return t.Target + t.Tracer }),
	}
}

// pair is what a pair takes that would be spared.
func (p *pairing) pair() float64 { return p.alloc + p.free + 2*p.event }

// spared is of all pairs that are temporary, and of all that there can be, as shares of the whole.
func (p *pairing) spared() (temporary, all float64) {
	return p.temporary * p.blocks * p.pair() / p.whole, min(p.blocks, p.frees) * p.pair() / p.whole
}

// pairingText has a column for each program.
func pairingText(all map[string]*ladderResults) string {
	var b strings.Builder
	b.WriteString(pairingIntro + "| |")
	var each []pairing
	for _, p := range ladderPrograms() {
		fmt.Fprintf(&b, " %s |", p.name)
		each = append(each, all[p.name].pairing())
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(each)) + "\n")
	row := func(text, format string, of func(*pairing) float64) {
		fmt.Fprintf(&b, "| %s |", text)
		for i := range each {
			fmt.Fprintf(&b, " "+format+" |", of(&each[i]))
		}
		b.WriteByte('\n')
	}
	row("the allocation's record in the kernel", "%.0f ns", func(p *pairing) float64 { return p.alloc })
	row("the free's", "%.0f ns", func(p *pairing) float64 { return p.free })
	row("memtrace's time for two events", "%.0f ns", func(p *pairing) float64 { return 2 * p.event })
	row("together, for a pair", "%.0f ns", (*pairing).pair)
	row("blocks that are temporary", "%.1f %%", func(p *pairing) float64 { return 100 * p.temporary })
	row("all processor time of the program and memtrace, for a block", "%.0f ns", func(p *pairing) float64 { return p.whole / p.blocks })
	row("spared of it at most, with temporary blocks", "%.1f %%", func(p *pairing) float64 { t, _ := p.spared(); return 100 * t })
	row("spared of it at most, if all that are freed were paired", "%.1f %%", func(p *pairing) float64 { _, a := p.spared(); return 100 * a })
	return b.String()
}
