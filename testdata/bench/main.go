// Command bench measures what tracing costs a program: the loop of malloc and
// free in testdata/programs/churn.c, untraced, under empty probes (the floor:
// no tracer by uprobes can be below it), under memtrace and under its peers,
// in rounds where each has its turn. It needs root, the test programs and a
// built memtrace; `make bench` sees to all of it.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/ladder"
	"github.com/memtrace/memtrace/testdata/bench/section"
)

// settings are the flags.
type settings struct {
	memtrace string
	programs string
	out      string
	rounds   int
	span     time.Duration // of one measurement
	full     time.Duration // of the run that must lose nothing
	heap     int           // MiB of the heap that is scanned for leaks
	leaks    string        // parts to measure of the section on leak checks, alone
	sustain  time.Duration // of the run at a steady rate, alone
	grid     string        // measure this allocator over the grid alone
	ladder   string        // measure this program on the ladder alone
	rungs    string        // where the ladder's memtraces are
	only     *regexp.Regexp
	more     []string // further arguments of memtrace
}

func main() {
	var s settings
	var only string
	flag.StringVar(&s.memtrace, "memtrace", "./memtrace", "the memtrace to measure")
	flag.StringVar(&s.programs, "programs", "build/testdata", "where the test programs are")
	flag.StringVar(&s.out, "o", "", "write the results to this file, too")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds")
	flag.DurationVar(&s.span, "span", time.Second, "length of one measurement")
	flag.DurationVar(&s.full, "full", 30*time.Second, "length of the run at full speed; 0 leaves it out")
	flag.IntVar(&s.heap, "heap", 4096, "MiB of the heap that is scanned for leaks")
	flag.StringVar(&s.leaks, "leaks", "", "measure these `parts` of the section on leak checks alone: near, far, locks, or show")
	flag.StringVar(&s.grid, "grid", "", "measure depths and threads with this allocator alone, and renew their section of the file of -o")
	flag.DurationVar(&s.sustain, "sustained", 0, "trace for so long alone, and renew the section on that of the file of -o")
	build := flag.Bool("build-ladder", false, "build the memtraces of the ladder alone")
	flag.StringVar(&s.ladder, "ladder", "", "measure the BPF programs' steps with this `program` alone: loop, compiler or show")
	flag.StringVar(&s.rungs, "rungs", "build/ladder", "where the memtraces of the ladder are, and what was measured with them")
	flag.StringVar(&only, "only", "", "measure only what matches this expression, and the floor")
	flag.Parse()
	s.more = flag.Args()
	var err error
	if s.only, err = regexp.Compile(only); err == nil {
		if *build {
			err = ladder.Build(s.rungs)
		} else {
			err = run(s)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	if s.leaks != "" {
		return runLeaks(s)
	}
	if s.grid != "" {
		return runGrid(s)
	}
	if s.ladder != "" {
		return runLadder(s)
	}
	if s.sustain > 0 {
		return runSustained(s)
	}
	contenders := s.contenders()
	r := newResults(contenders, []int{1, 2})
	for round := range s.rounds {
		for _, threads := range r.threads {
			for i, c := range contenders {
				m, err := s.measure(c, loopShape{depth: depth, threads: threads, span: s.span})
				if err != nil {
					return fmt.Errorf("measure %s with %d threads: %w", c.name, threads, err)
				}
				r.add(i, threads, m)
				fmt.Fprintf(os.Stderr, "round %d, %d threads, %-28s %8.0f ns a pair (%.0f by the clock)\n", round+1, threads, c.name, m.cpu, m.elapsed)
			}
		}
	}
	if s.full > 0 {
		var err error
		if r.full, err = s.fullSpeed(min(2, runtime.NumCPU())); err != nil {
			return fmt.Errorf("trace at full speed: %w", err)
		}
	}
	text := r.document(s)
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return section.Rewrite(s.out, text)
}
