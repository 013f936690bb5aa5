package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
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
	minutes []uint64 // memtrace's RSS at the end of each, kB
	least   uint64   // RSS, from the first minute on
	most    uint64
	cpu     int64 // of memtrace, ns
	sampled int   // phases in which not all was recorded
}

// runSustained writes the section on it.
func runSustained(s settings) error {
	r := &sustainedRun{threads: min(2, runtime.NumCPU())}
	if err := r.run(&s); err != nil {
		return fmt.Errorf("trace for %v: %w", s.sustain, err)
	}
	text := r.text()
	fmt.Print(text)
	if s.out == "" {
		return nil
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
	if err := m.stop(); err != nil {
		return err
	}
	r.last = m.last
	return r.check()
}

// note looks at memtrace after a Report.
func (r *sustainedRun) note(m *memtrace, since time.Duration) error {
	rss, err := m.status("VmRSS:")
	if err != nil {
		return err
	}
	minute := int(since / time.Minute)
	if minute > len(r.minutes) {
		r.minutes = append(r.minutes, rss)
	}
	if minute > 0 {
		r.least, r.most = min(cmp.Or(r.least, rss), rss), max(r.most, rss)
	}
	return nil
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
	if len(r.minutes) == 0 {
		return errors.New("-sustained must be longer than a minute, as the memory from then on is compared")
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
	fmt.Fprintf(&b, "| counted by memtrace | exactly as many |\n| lost | %d |\n", r.last.Events.Lost)
	fmt.Fprintf(&b, "| times that back-pressure left blocks out | %d |\n| blocks live at the end, when all are freed | 0 |\n", r.sampled)
	fmt.Fprintf(&b, "| memtrace's own processor time | %.0f ns a call, %.2f processors |\n", float64(r.cpu)/float64(calls), float64(r.cpu)/r.a.ElapsedNS)
	fmt.Fprintf(&b, "| memtrace's RSS, from the first minute on | %.1f to %.1f MB |\n", float64(r.least)/1024, float64(r.most)/1024)
	var each []string
	for _, kb := range r.minutes {
		each = append(each, fmt.Sprintf("%.1f", float64(kb)/1024))
	}
	fmt.Fprintf(&b, "| at the end of each minute, MB | %s |\n", strings.Join(each, ", "))
	b.WriteString("\nWhere it is larger for seconds, events waited in memory: the machine had no time for memtrace, which keeps them rather than lose them.\n")
	return b.String()
}
