package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/testdata/bench/figures"
	"github.com/memtrace/memtrace/testdata/bench/section"
)

// sustainedHeld is how many blocks the loop holds, in all threads.
const sustainedHeld = 1_000_000

// sustainedRun is a trace of a program that allocates as fast as it can, and
// holds many blocks, for minutes.
type sustainedRun struct {
	threads int
	a       answer
	last    report   // with the events until the program's end
	samples []sample // memtrace's RSS after each Report
	cpu     int64    // of memtrace, ns
	sampled int      // phases in which not all was recorded
	growth  growth   // of the RSS
}

// runSustained writes the section on it, unless events were lost or memtrace's memory has grown.
func runSustained(s settings) error {
	r := &sustainedRun{threads: min(2, runtime.NumCPU())}
	if err := r.run(&s); err != nil {
		return fmt.Errorf("trace for %v: %w", s.sustain, err)
	}
	verdict := r.verdict()
	text := r.text()
	fmt.Print(text)
	if s.out == "" || verdict != nil {
		return verdict
	}
	return section.Write(s.out, "sustained", text)
}

func (r *sustainedRun) run(s *settings) error {
	p, err := startLoop(nil, filepath.Join(s.programs, "churn_nofp"), loopShape{
		depth: depth, threads: r.threads, span: s.sustain, held: sustainedHeld / r.threads,
	})
	if err != nil {
		return err
	}
	defer p.kill()
	m, err := startMemtrace(s.memtrace, p.pid, append([]string{"--top", "100"}, s.more...))
	if err != nil {
		return err
	}
	before, err := cpuTime(m.cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if r.a, err = m.follow(p, func() error { return r.note(m, time.Since(began)) }); err != nil {
		return err
	}
	after, err := cpuTime(m.cmd.Process.Pid)
	if err != nil {
		return err
	}
	r.cpu = after - before
	if err := m.stop(); err != nil && m.last.Events.Lost == 0 { // verdict says that
		return err
	}
	r.last = m.last
	if r.last.Events.Lost > 0 {
		return nil // so that not all are counted
	}
	return r.check()
}

// note looks at memtrace after a Report.
func (r *sustainedRun) note(m *memtrace, since time.Duration) error {
	rss, err := m.status("VmRSS:")
	if err != nil {
		return err
	}
	r.samples = append(r.samples, sample{since, float64(rss)})
	return nil
}

// verdict is an error where events were lost or memtrace's memory has grown.
func (r *sustainedRun) verdict() error {
	whole := time.Duration(r.a.ElapsedNS)
	var lost, grown error
	if n := r.last.Events.Lost; n > 0 {
		lost = fmt.Errorf("memtrace lost %d events in %v", n, whole.Round(time.Second))
	}
	r.growth, grown = growthOf(r.samples, whole)
	if grown == nil {
		grown = r.growth.check()
	}
	return errors.Join(lost, grown)
}

// check compares what memtrace counted with what the program did.
func (r *sustainedRun) check() error {
	want := r.a.Total
	var live, alloc, free uint64 // of the loop alone: threads that end free, too
	for _, site := range r.last.Sites {
		if site.Function == "held_loop" {
			live, alloc, free = live+site.LiveCount, alloc+site.AllocCount, free+site.FreeCount
		}
	}
	if alloc != want.Alloc || free != want.Free || live != 0 {
		return fmt.Errorf("memtrace counted %d allocations and %d frees, %d are live; the program made %d and %d", alloc, free, live, want.Alloc, want.Free)
	}
	if r.last.Pressure != nil {
		r.sampled = r.last.Pressure.Phases
	}
	return nil
}

func (r *sustainedRun) text() string {
	var b strings.Builder
	seconds := r.a.ElapsedNS / 1e9
	calls := r.a.Total.Alloc + r.a.Total.Free
	fmt.Fprintf(&b, "# A trace of minutes at full speed\n\nWritten by `sudo make bench-sustained` on %s.\n\n", figures.Machine())
	fmt.Fprintf(&b, "%d threads hold %d blocks of 16 to 271 bytes and put new ones in the places of any of them, as fast as they can, 20 frames deep,\n"+
		"without frame pointers (testdata/programs/churn.c); memtrace with its defaults, a Report each second.\n\n", r.threads, sustainedHeld)
	fmt.Fprintf(&b, "| | |\n|---|---:|\n| calls of malloc and free | %.1f million in %.0f s |\n| of them a second | %.2f million |\n", float64(calls)/1e6, seconds, float64(calls)/1e6/seconds)
	if r.last.Events.Lost == 0 {
		b.WriteString("| counted by memtrace | exactly as many |\n")
	}
	fmt.Fprintf(&b, "| lost | %d |\n", r.last.Events.Lost)
	fmt.Fprintf(&b, "| times that back-pressure left blocks out | %d |\n| blocks live at the end, when all are freed | 0 |\n", r.sampled)
	fmt.Fprintf(&b, "| memtrace's own processor time | %.0f ns a call, %.2f processors |\n", float64(r.cpu)/float64(calls), float64(r.cpu)/r.a.ElapsedNS)
	r.memoryRows(&b)
	b.WriteString("\nWhere it is larger for seconds, events waited in memory: the machine had no time for memtrace, which keeps them rather than lose them.\n")
	fmt.Fprintf(&b, "The run fails where events are lost, or memory grows: in the later half of the time, by more than %.0f %% (and %d MB) from the lowest to the last\n"+
		"of %d parts, each by its lower quartile, so that neither the garbage collector's ups and downs count nor what is there for seconds.\n",
		100*flatShare, flatLeast/1024, flatParts)
	return b.String()
}

// memoryRows say what memtrace's memory was.
func (r *sustainedRun) memoryRows(b *strings.Builder) {
	whole := time.Duration(r.a.ElapsedNS)
	var later []float64
	var each []string
	for _, s := range r.samples {
		if s.at >= whole/2 {
			later = append(later, s.kB)
		}
		if int(s.at/time.Minute) > len(each) {
			each = append(each, fmt.Sprintf("%.1f", s.kB/1024))
		}
	}
	if len(later) > 0 {
		fmt.Fprintf(b, "| memtrace's RSS, in the later half | %.1f to %.1f MB |\n", slices.Min(later)/1024, slices.Max(later)/1024)
	}
	fmt.Fprintf(b, "| how much it grew there, in %v | %+.1f MB, of %.1f allowed |\n", r.growth.over.Round(time.Second), r.growth.by()/1024, r.growth.allowed()/1024)
	if len(each) > 0 {
		fmt.Fprintf(b, "| at the end of each minute, MB | %s |\n", strings.Join(each, ", "))
	}
}
