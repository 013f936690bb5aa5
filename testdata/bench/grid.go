package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/figures"
	"github.com/memtrace/memtrace/testdata/bench/section"
)

// gridDepths and gridThreads are the loop's shapes in the grid.
var (
	gridDepths  = []int{2, 20, 40}
	gridThreads = []int{1, 2, 4}
)

// gridPairs is how many pairs of malloc and free a turn has, by all threads together.
const gridPairs = 160_000

// preloads are the allocators that a program can be given instead of the C library's.
var preloads = map[string]string{
	"glibc": "", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.[23]", "tcmalloc": "libtcmalloc_minimal.so.4",
}

// gridCell are the turns of one shape of the loop, by contender and round: the
// loop's own processor time for a pair in ns.
type gridCell struct {
	depth, threads int
	ns             [][]float64
}

// runGrid measures one allocator over the grid and renews its section of the file of -o.
func runGrid(s settings) error {
	pattern, known := preloads[s.grid]
	if !known {
		return fmt.Errorf("-grid %q is none of glibc, jemalloc, mimalloc, tcmalloc", s.grid)
	}
	var wrap []string
	if pattern != "" {
		found, err := filepath.Glob("/usr/lib/*-linux-gnu/" + pattern)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%s is not installed", s.grid)
		}
		wrap = []string{"env", "LD_PRELOAD=" + found[0]}
	}
	contenders := s.gridContenders(wrap)
	var cells []gridCell
	for _, depth := range gridDepths {
		for _, threads := range gridThreads {
			cells = append(cells, gridCell{depth, threads, make([][]float64, len(contenders))})
		}
	}
	for round := range s.rounds {
		for i := range cells {
			if err := s.gridTurn(&cells[i], contenders); err != nil {
				return fmt.Errorf("round %d, %d frames, %d threads: %w", round+1, cells[i].depth, cells[i].threads, err)
			}
		}
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", s.grid, round+1, s.rounds)
	}
	text := gridText(s.grid, s.rounds, contenders, cells)
	fmt.Print(text)
	if s.out == "" {
		return nil
	}
	return section.Write(s.out, "grid_"+s.grid, text)
}

// gridContenders run the same program, which has no frame pointers.
func (s *settings) gridContenders(wrap []string) []contender {
	memtrace := func(args ...string) func(int) (tool, error) {
		return func(pid int) (tool, error) { return startMemtrace(s.memtrace, pid, append(args, s.more...)) }
	}
	return []contender{
		{name: "untraced", program: "churn_nofp", attach: noTool, wrap: wrap},
		{name: floorName, program: "churn_nofp", attach: attachFloor, wrap: wrap},
		{name: "full", program: "churn_nofp", attach: memtrace(), wrap: wrap},
		{name: "sampled", program: "churn_nofp", attach: memtrace("--sample-bytes", sampleEvery), wrap: wrap},
	}
}

// sampleEvery is the interval of the rows with sampling.
const sampleEvery = "64KiB"

func (s *settings) gridTurn(cell *gridCell, contenders []contender) error {
	for i, c := range contenders {
		shape := loopShape{depth: cell.depth, threads: cell.threads, pairs: gridPairs / cell.threads}
		if c.name == "untraced" {
			shape.pairs *= 50 // it takes a hundredth of the time
		}
		m, err := s.measure(c, shape)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		cell.ns[i] = append(cell.ns[i], m.cpu)
	}
	return nil
}

const gridIntro = `Written by ` + "`make bench-grid`" + ` on %s, %s, load %s.
The loop again, by depth of its stack and number of threads, %d rounds of %d pairs each. "Full" records every block with its
stack by .eh_frame, "sampled" one every %s. Shown are the medians of the loop's own processor time for a pair, and
of the ratios to the floor within each round, ± half of the middle half's width.

`

func gridText(allocator string, rounds int, contenders []contender, cells []gridCell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: depths and threads\n\n"+gridIntro, allocator, figures.Machine(), time.Now().UTC().Format("2006-01-02"), figures.Load(), rounds, gridPairs, sampleEvery)
	b.WriteString("| frames | threads | untraced, ns | floor, ns | spread | full, ns | of the floor | sampled, ns | of the floor |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	worst := 0.0
	for _, c := range cells {
		floor := c.ns[1]
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %.0f %% |", c.depth, c.threads, figures.Median(c.ns[0]), figures.Median(floor), 100*figures.Spread(floor))
		for i := 2; i < len(contenders); i++ {
			var ratios []float64
			for round, ns := range c.ns[i] {
				ratios = append(ratios, ns/floor[round])
			}
			fmt.Fprintf(&b, " %.0f | %.2f ± %.2f × |", figures.Median(c.ns[i]), figures.Median(ratios), (figures.Quantile(ratios, 0.75)-figures.Quantile(ratios, 0.25))/2)
		}
		b.WriteByte('\n')
		worst = max(worst, figures.Spread(floor))
	}
	if worst > figures.Noisy {
		fmt.Fprintf(&b, "\nThe machine was busy: the floor spreads by up to %.0f %%.\n", 100*worst)
	}
	if rounds < figures.MinRounds {
		fmt.Fprintf(&b, "\n%d rounds are too few to quote a ratio from: at least %d.\n", rounds, figures.MinRounds)
	}
	return b.String()
}
