//go:build integration

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer"
)

// allocated is how many blocks a Report has of the program's function allocate.
func allocated(r *report.Report) (n uint64) {
	for i := range r.Sites {
		if r.Sites[i].Function == "allocate" {
			n += r.Sites[i].AllocCount
		}
	}
	return n
}

func startFirstThread(t *testing.T) *spawned {
	t.Helper()
	p := spawn(t, exec.Command(testProgram("first_thread")))
	p.lineWith("ready")
	return p
}

// do has the program carry out a command.
func (c *spawned) do(command string) {
	c.t.Helper()
	c.say(command)
	c.lineWith("done")
}

// mechanismsHere are those that the kernel has; in an emulator the best one
// only.
func mechanismsHere(t *testing.T) (have []tracer.Mechanism) {
	t.Helper()
	for _, m := range []tracer.Mechanism{tracer.Session, tracer.Multi, tracer.PerfCookie, tracer.Perf} {
		switch _, err := tracer.ChooseMechanism(m); {
		case err == nil:
			have = append(have, m)
		case !errors.Is(err, tracer.ErrNotSupported):
			t.Fatal(err)
		}
	}
	if len(have) == 0 {
		t.Fatal("this kernel has no mechanism")
	}
	if testing.Short() {
		have = have[:1]
	}
	return have
}

// Probes are tied to the first thread. Where it ends, they are attached again
// within an interval, and the gap counts as a loss.
func TestFirstThreadEndsUnderTrace(t *testing.T) {
	t.Parallel()
	for _, mechanism := range mechanismsHere(t) {
		t.Run(string(mechanism), func(t *testing.T) {
			t.Parallel()
			p := startFirstThread(t)
			m := startTracing(t, []int{p.pid()}, "--attach", string(mechanism))
			p.do("alloc 100")
			p.do("end")
			before := m.reportAfter()
			for before.Events.LostBy.Unprobed == 0 {
				before = m.report()
			}
			p.do("alloc 1000")
			r := m.interrupt()
			if got := allocated(r); got != 1100 {
				t.Errorf("saw %d of 1100 allocations; warnings: %v", got, r.Warnings)
			}
			warned := strings.Contains(fmt.Sprint(r.Warnings), "were tied to ended")
			if r.Events.LostBy.Unprobed != 1 || r.Events.Lost != 1 || !warned {
				t.Errorf("%d events lost: %+v, warnings: %v", r.Events.Lost, r.Events.LostBy, r.Warnings)
			}
			checkMemoryIsSeen(t, before, r, p.pid())
			p.end()
		})
	}
}

// A process that was left by its first thread before the attach is traced all
// the same, by every mechanism.
func TestFirstThreadEndedBefore(t *testing.T) {
	t.Parallel()
	p := startFirstThread(t)
	p.do("end")
	m := startTracing(t, []int{p.pid()})
	before := m.report()
	p.do("alloc 1000")
	r := m.interrupt()
	if got := allocated(r); got != 1000 || r.Events.Lost != 0 {
		t.Errorf("saw %d of 1000 allocations, %d events lost; warnings: %v", got, r.Events.Lost, r.Warnings)
	}
	checkMemoryIsSeen(t, before, r, p.pid())
	p.end()
}

// checkMemoryIsSeen requires figures that are younger than an earlier Report's,
// from a process whose own files in /proc are those of a zombie.
func checkMemoryIsSeen(t *testing.T, before, r *report.Report, pid int) {
	t.Helper()
	p := processOf(t, r, pid)
	if p.Usage.RSS == 0 || p.RSSBy.Sum() != p.Usage.RSS || p.Usage.SampledNS <= processOf(t, before, pid).Usage.SampledNS {
		t.Errorf("RSS %d, its parts %+v, read at %d ns of %d", p.Usage.RSS, p.RSSBy, p.Usage.SampledNS, r.WindowNS)
	}
}
