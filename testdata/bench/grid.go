package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	var preload string
	if pattern != "" {
		found, err := filepath.Glob("/usr/lib/*-linux-gnu/" + pattern)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("%s is not installed", s.grid)
		}
		preload = found[0]
	}
	contenders := s.gridContenders(preload)
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

// gridContenders run the same program, which has no frame pointers: memtrace from the third on, then
// those of its peers that are installed.
func (s *settings) gridContenders(preload string) []contender {
	memtrace := func(args ...string) func(int) (tool, error) {
		return func(pid int) (tool, error) { return startMemtrace(s.memtrace, pid, append(args, s.more...)) }
	}
	var wrap []string
	if preload != "" {
		wrap = []string{"env", "LD_PRELOAD=" + preload}
	}
	all := []contender{
		{name: "untraced", attach: noTool, wrap: wrap},
		{name: floorName, attach: attachFloor, wrap: wrap},
		{name: "full", attach: memtrace(), wrap: wrap},
		{name: "sampled", attach: memtrace("--sample-bytes", sampleEvery), wrap: wrap},
	}
	for _, peer := range []contender{
		{name: "bpftrace", attach: startBpftrace},
		{name: "heaptrack", attach: noTool, wrap: preloadHeaptrack()},
		{name: "Valgrind", attach: noTool, wrap: []string{"valgrind", "-q", "--leak-check=no"}},
	} {
		if missing(peer) {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed, so left out\n", peer.name)
			continue
		}
		peer.wrap = peerWrap(peer, preload)
		all = append(all, peer)
	}
	for i := range all {
		all[i].program = "churn_nofp"
	}
	return all
}

// peerWrap runs a program with another allocator under a peer.
func peerWrap(peer contender, preload string) []string {
	switch {
	case preload == "":
		return peer.wrap
	case peer.name == "heaptrack": // goes first, and calls the allocator behind it
		return append([]string{"env", peer.wrap[1] + ":" + preload}, peer.wrap[2:]...)
	case peer.name == "Valgrind":
		return slices.Concat([]string{"env", "LD_PRELOAD=" + preload}, peer.wrap, []string{"--soname-synonyms=somalloc=" + filepath.Base(preload)})
	}
	return []string{"env", "LD_PRELOAD=" + preload}
}

// sampleEvery is the interval of the rows with sampling.
const sampleEvery = "64KiB"

// gridTimes is how many times as many pairs those take that are much faster than the floor, or slower.
var gridTimes = map[string]float64{"untraced": 50, "heaptrack": 4, "Valgrind": 2, "bpftrace": 1. / 8}

func (s *settings) gridTurn(cell *gridCell, contenders []contender) error {
	for i, c := range contenders {
		times, differs := gridTimes[c.name]
		if !differs {
			times = 1
		}
		shape := loopShape{depth: cell.depth, threads: cell.threads, pairs: int(gridPairs*times) / cell.threads}
		m, err := s.measure(c, shape)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		cell.ns[i] = append(cell.ns[i], m.cpu)
	}
	return nil
}

const gridIntro = `Written by ` + "`make bench-grid`" + ` on %s, %s, load %s.
The loop again, by depth of its stack and number of threads, %d rounds of %d pairs each (of some more where no trap is needed, of fewer with bpftrace). "Full" records every
block with its stack by .eh_frame, "sampled" one every %s. bpftrace counts only; heaptrack writes to /dev/null; Valgrind is memcheck, with an allocator of
its own, and runs one thread at a time. Shown are the medians of the loop's own processor time for a pair, and of the ratios to the floor within each round,
± half of the middle half's width.

`

func gridText(allocator string, rounds int, contenders []contender, cells []gridCell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: depths and threads\n\n"+gridIntro, allocator, figures.Machine(), figures.Today(), figures.Load(), rounds, gridPairs, sampleEvery)
	b.WriteString("| frames | threads | untraced, ns | floor, ns | spread |")
	for _, c := range contenders[2:] {
		fmt.Fprintf(&b, " %s, ns | of the floor |", c.name)
	}
	b.WriteString("\n|" + strings.Repeat("---:|", 5+2*len(contenders[2:])) + "\n")
	worst := 0.0
	for _, c := range cells {
		floor := c.ns[1]
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %.0f %% |", c.depth, c.threads, figures.Median(c.ns[0]), figures.Median(floor), 100*figures.Spread(floor))
		for i := 2; i < len(contenders); i++ {
			fmt.Fprintf(&b, " %.0f | %s |", figures.Median(c.ns[i]), floorRatio(c.ns[i], floor))
		}
		b.WriteByte('\n')
		worst = max(worst, figures.Spread(floor))
	}
	if worst > figures.Noisy {
		fmt.Fprintf(&b, "\nThe machine was busy: the floor spreads by up to %.0f %%.\n", 100*worst)
	}
	return b.String()
}

// floorRatio is the median of the ratios within each round.
func floorRatio(ns, floor []float64) string {
	var ratios []float64
	for round := range ns {
		ratios = append(ratios, ns[round]/floor[round])
	}
	if len(ratios) < figures.MinRounds {
		return figures.Ratio(ratios, 2)
	}
	return fmt.Sprintf("%.2f ± %.2f ×", figures.Median(ratios), (figures.Quantile(ratios, 0.75)-figures.Quantile(ratios, 0.25))/2)
}
