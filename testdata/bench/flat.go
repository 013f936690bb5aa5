package main

import (
	"fmt"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// A sample is a process's RSS at a time since the beginning.
type sample struct {
	at time.Duration
	kB float64
}

// What counts as flat. Memory rises until all tables have their size, goes up and down with the garbage collector, and is
// larger for seconds where events wait. So only the later half is looked at, in parts, each by its lower quartile: what leaks
// is always there, what waits is not. The last part is compared with the lowest of those before it.
const (
	flatParts  = 4    // of the later half
	flatShare  = 0.05 // of the memory: with the garbage collector alone, the parts differ by less
	flatLeast  = 4096 // kB
	flatEnough = 4    // samples in a part
)

// growth is how a process's memory has grown in the later half of its samples.
type growth struct {
	from, to float64 // kB, lower quartiles of parts
	over     time.Duration
	part     time.Duration
}

// growthOf is an error where the samples are too few to tell.
func growthOf(samples []sample, whole time.Duration) (growth, error) {
	g := growth{part: whole / 2 / flatParts}
	var parts [flatParts][]float64
	for _, s := range samples {
		if i := int((s.at - whole/2) / max(g.part, 1)); s.at >= whole/2 && i < flatParts {
			parts[i] = append(parts[i], s.kB)
		}
	}
	for i, p := range parts {
		if len(p) < flatEnough {
			return g, fmt.Errorf("%v are too short to tell whether memory grows: there are %d samples in a part of %v, not %d",
				whole.Round(time.Second), len(p), g.part.Round(time.Millisecond), flatEnough)
		}
		low := figures.Quantile(p, 0.25)
		switch {
		case i == flatParts-1:
			g.to = low
		case i == 0 || low < g.from:
			g.from, g.over = low, time.Duration(flatParts-1-i)*g.part
		}
	}
	return g, nil
}

// by is how much it has grown, in kB; allowed is how much that may be.
func (g *growth) by() float64      { return g.to - g.from }
func (g *growth) allowed() float64 { return max(flatShare*g.from, flatLeast) }

// check is an error where the memory is not flat.
func (g *growth) check() error {
	if g.by() <= g.allowed() {
		return nil
	}
	return fmt.Errorf("memtrace's memory is not flat: it grew by %.1f MB in %v, from %.1f to %.1f MB (lower quartiles of %v each); %.1f MB are allowed",
		g.by()/1024, g.over.Round(time.Second), g.from/1024, g.to/1024, g.part.Round(time.Second), g.allowed()/1024)
}
