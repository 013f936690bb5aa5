package main

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/testdata/bench/figures"
)

const intro = `## Real programs

Written by ` + "`sudo make bench-programs`" + `. Each program ran in rounds where each way to run it had its turn; shown are medians.

- *Floor* is empty BPF programs on all functions that memtrace probes, at the same instructions, children included. *Full* is
  ` + "`memtrace run --unwind dwarf --report FILE`" + `: every block with its stack by .eh_frame, page faults too, and at the end a Report in a file, with the
  names of the ` + shownSites + ` largest sites and of all suspected leaks' (` + "`--top " + shownSites + " --format json`" + `; what text shows if nothing else is said). *All sites* has the
  names of all of them (` + "`--top 0 --format json`" + `). *Sampled* is as *full* with ` + "`--sample-bytes " + sampleEvery + "`" + `. heaptrack writes
  the names of all stacks to a file compressed with zstd, as its script does it; with ` + "`--raw`" + ` addresses alone.
- *Processor time* is the program's, what the kernel does for it included (and with it the probes and BPF programs), and the tracer's: for
  memtrace from its start, with loading and unwinding tables, to the last Report; the caches of names and tables on disk are warm, as they are from the
  second trace of a program on. For heaptrack it has the process that looks up names and zstd. *Spread* is the width of the middle half of the turns over their
  median, *of untraced* and *of the floor* are medians of the ratios within each round.
- *By the clock* is from the start to the end of all; of services, the load's rate is shown instead, and the greatest
  99th percentile of its kinds of requests.
- *Memory* is the peak of the tracer's processes (VmHWM, read every 10 ms). What heaptrack's recorder keeps inside of the program is not in it.
- heaptrack does not follow children, and so has no turn with PostgreSQL, where they do the work.
`

const notes = `
### What to make of it

- What a full trace costs is the number of calls times what one takes, and most of that is the floor: the processor's traps, which a virtual machine
  makes dearer. A compiler allocates all the time and takes several times as long. heaptrack needs no trap, and is cheaper for it.
- So where the floor alone takes as much as heaptrack, as on this machine with the compiler, a full trace can't be as cheap.
- Samples save the return's trap, the stack and the record, never the entry's trap.
- Some 0.3 s of the tracer's processor time are memtrace's start, half of that the kernel's check of the BPF programs. It is the same however long a
  program runs, and so looms large here, where it runs for seconds.
- A Report with all sites of a program with very many of them takes longer than the trace, and hundreds of megabytes: JSON lists 10,000 unless ` + "`--top`" + ` says otherwise.
`

// document is the section, of all that is kept, and names the programs that are not.
func (s *settings) document() (text string, missing []string, err error) {
	all := make(map[string]*results)
	var parts strings.Builder
	for _, p := range programs() {
		r, err := s.kept(&p)
		if err != nil {
			return "", nil, err
		}
		if r == nil {
			missing = append(missing, p.name)
			continue
		}
		all[p.name] = r
		parts.WriteString("\n" + programText(&p, r))
	}
	return intro + "\n" + goalText(all) + parts.String() + notes, missing, nil
}

// goalText says how far what is to be reached was.
func goalText(all map[string]*results) string {
	var b strings.Builder
	row := func(what, goal string, ratios []float64, text func(float64) string) {
		if ratios == nil {
			fmt.Fprintf(&b, "| %s | %s | not measured | | |\n", what, goal)
			return
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s to %s | %d |\n", what, goal, text(figures.Median(ratios)),
			text(figures.Quantile(ratios, 0.25)), text(figures.Quantile(ratios, 0.75)), len(ratios))
	}
	b.WriteString("Ratios are of all processor time within each round, where nothing else is said:\n\n| | to reach | reached | middle half | pairs |\n|---|---:|---:|---:|---:|\n")
	cpuRatio := func(program, variant, to string) []float64 {
		if r := all[program]; r != nil {
			return r.ratios(variant, to, (*turn).cpu)
		}
		return nil
	}
	var redis []float64
	if r := all["redis"]; r != nil {
		redis = r.ratios(sampledName, floorName, (*turn).rate)
	}
	row("a full trace of the compiler, of `heaptrack --raw`", "1.00 × or less", cpuRatio("compiler", fullName, rawName), times)
	row("the floor of that: no tracer by uprobes is below it", "", cpuRatio("compiler", floorName, rawName), times)
	row("a full trace of clang, of heaptrack", "1.00 × or less", cpuRatio("compiler-clang", fullName, heaptrackName), times)
	row("the floor of that", "", cpuRatio("compiler-clang", floorName, heaptrackName), times)
	row("a full trace of the compiler on the smaller file, of heaptrack", "1.00 × or less", cpuRatio("compiler-small", fullName, heaptrackName), times)
	row("the same with the names of all sites", "1.00 × or less", cpuRatio("compiler-small", allName, heaptrackName), times)
	row("the floor of that", "", cpuRatio("compiler-small", floorName, heaptrackName), times)
	row("throughput of redis, sampled, of the floor's", "95 % or more", redis, func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) })
	return b.String()
}

func times(x float64) string { return fmt.Sprintf("%.2f ×", x) }

// programText is a program's part.
func programText(p *program, r *results) string {
	var b strings.Builder
	rounds := len(r.Turns[r.Variants[0]])
	fmt.Fprintf(&b, "### %s\n\n%s. %d rounds on %s, %s, load %s before.\n\n", p.title, p.what, rounds, r.Machine, r.Date, r.Load)
	b.WriteString("| | processor time | spread | of it the tracer's | of untraced | of the floor |")
	rule := "|---|---:|---:|---:|---:|---:|"
	if p.load != nil {
		fmt.Fprintf(&b, " %s a second | spread | of untraced | of the floor | p99 |", p.unit)
		rule += "---:|---:|---:|---:|---:|"
	} else {
		b.WriteString(" by the clock |")
		rule += "---:|"
	}
	fmt.Fprintf(&b, " memory |\n%s---:|\n", rule)
	for _, v := range r.Variants {
		row(&b, p, r, v)
	}
	b.WriteString("\n" + seenText(r) + noiseText(r, p, rounds))
	if p.note != "" {
		b.WriteString("\n" + p.note + "\n")
	}
	return b.String()
}

func row(b *strings.Builder, p *program, r *results, v string) {
	cpu := r.values(v, (*turn).cpu)
	fmt.Fprintf(b, "| %s | %.2f s | %.0f %% | %s | %s | %s |", v, figures.Median(cpu), 100*figures.Spread(cpu),
		cell(figures.Median(r.values(v, (*turn).tracer)), "%.2f s"), ratio(r, v, untracedName, (*turn).cpu), ratio(r, v, floorName, (*turn).cpu))
	if p.load != nil {
		rates := r.values(v, (*turn).rate)
		fmt.Fprintf(b, " %.0f | %.0f %% | %s | %s | %.2f ms |", figures.Median(rates), 100*figures.Spread(rates),
			ratio(r, v, untracedName, (*turn).rate), ratio(r, v, floorName, (*turn).rate), figures.Median(r.values(v, (*turn).p99)))
	} else {
		fmt.Fprintf(b, " %.2f s |", figures.Median(r.values(v, (*turn).wall)))
	}
	fmt.Fprintf(b, " %s |\n", cell(figures.Median(r.values(v, (*turn).memory))/1024, "%.0f MB"))
}

// cell leaves a zero out.
func cell(x float64, format string) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// ratio is empty where there are too few rounds to quote one.
func ratio(r *results, v, to string, of func(*turn) float64) string {
	ratios := r.ratios(v, to, of)
	if ratios == nil {
		return ""
	}
	return times(figures.Median(ratios))
}

// seenText says whether memtrace saw all that it was to see.
func seenText(r *results) string {
	var b strings.Builder
	for _, v := range []string{fullName, allName, sampledName} {
		turns := r.Turns[v]
		if len(turns) == 0 {
			continue
		}
		var lost, leftOut, pressed uint64
		var calls []float64
		for _, t := range turns {
			lost += t.Lost
			leftOut += t.LeftOut
			if t.Phases > 0 {
				pressed++
			}
			calls = append(calls, float64(t.Calls))
		}
		fmt.Fprintf(&b, "- %s: %.2f million calls a turn; in all turns together %d events lost, ", v, figures.Median(calls)/1e6, lost)
		if pressed == 0 {
			b.WriteString("back-pressure in none.\n")
		} else {
			fmt.Fprintf(&b, "**back-pressure in %d of %d turns**, which left %d calls out of what is recorded.\n", pressed, len(turns), leftOut)
		}
	}
	return b.String()
}

// noiseText warns of figures that are not to be trusted.
func noiseText(r *results, p *program, rounds int) string {
	var noisy []string
	for _, v := range r.Variants {
		if spread := figures.Spread(r.values(v, (*turn).cpu)); spread > figures.Noisy {
			noisy = append(noisy, fmt.Sprintf("%s's processor time spreads by %.0f %%", v, 100*spread))
		}
		if p.load == nil {
			continue
		}
		if spread := figures.Spread(r.values(v, (*turn).rate)); spread > figures.Noisy {
			noisy = append(noisy, fmt.Sprintf("%s's rate spreads by %.0f %%", v, 100*spread))
		}
	}
	text := ""
	if len(noisy) > 0 {
		text = fmt.Sprintf("\n**The machine was busy**: %s.\n", strings.Join(noisy, ", "))
	}
	if rounds < figures.MinRounds {
		text += fmt.Sprintf("\n%d rounds are too few to quote a ratio from: at least %d.\n", rounds, figures.MinRounds)
	}
	return text
}
