package timeline

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// partNames are the words of report.RSSBy.
var partNames = [...]string{"heap_live", "heap_overhead", "heap_before_attach", "anon_mmap", "file", "stack", "shmem", "other"}

type parts [len(partNames)]uint64

func partsOf(m *input.Memory) parts {
	r := &m.RSSBy
	return parts{r.HeapLive, r.HeapOverhead, r.HeapBeforeAttach, r.AnonMmap, r.File, r.Stack, r.Shmem, r.Other}
}

// reading is the last reading of a process's memory.
type reading struct {
	rss   uint64
	parts parts
}

// What a file can make a collector take.
const (
	maxProcesses = 1 << 16
	maxMarks     = 500
	maxBands     = 500
)

// A collector notes what the inputs of a span tell.
type collector struct {
	start, from, to, step uint64
	pid                   uint32
	now                   reading // of all processes together
	of                    map[uint32]reading
	comms                 map[uint32]string
	last                  uint64 // time of the last event
	paused                uint64 // since when; 0: it is not
	left                  bool   // processes had no room
	out                   Timeline
}

func newCollector(start uint64, o Options, to, step uint64) *collector {
	return &collector{start: start, from: o.From, to: to, step: step, pid: o.PID}
}

// begin forgets what an earlier playing told.
func (c *collector) begin() {
	c.now, c.of, c.comms = reading{}, make(map[uint32]reading), make(map[uint32]string)
	c.last, c.paused, c.left = 0, 0, false
	c.out = Timeline{
		FromNS: c.from, ToNS: c.to, StepNS: c.step, Parts: partNames[:], Samples: []Sample{}, Marks: []Mark{}, Bands: []Band{}, Notes: []string{},
		Faults: make([]uint64, (c.to-c.from+c.step-1)/c.step),
	}
}

func (c *collector) since(t uint64) uint64 {
	if t < c.start {
		return 0
	}
	return t - c.start
}

// wanted reports whether a process is one of those that are looked at.
func (c *collector) wanted(pid uint32) bool { return c.pid == 0 || c.pid == pid }

func (c *collector) take(in input.Input) {
	switch v := in.(type) {
	case *input.Events:
		for i := range v.Events {
			c.event(&v.Events[i])
		}
	case input.Started:
		if len(c.comms) < maxProcesses {
			c.comms[v.PID] = v.Comm
		}
	case input.Memory:
		c.memory(&v)
	case input.Verdicts:
		c.mark(c.since(v.Began), "check", v.PID, fmt.Sprintf("leak check: %d leaked blocks", len(v.Leaks)))
	case input.ProcessLoss:
		if c.wanted(v.PID) {
			c.band(Band{FromNS: c.since(v.First), ToNS: c.since(v.Last), What: "lost", PID: v.PID, Events: v.Events})
		}
	case input.Pause:
		c.paused = max(1, c.since(c.last))
	}
}

func (c *collector) event(e *event.Event) {
	at := c.since(e.Time)
	c.last = e.Time
	if c.paused != 0 {
		c.band(Band{FromNS: c.paused, ToNS: at, What: "paused"})
		c.paused = 0
	}
	switch e.Kind {
	case event.Fault:
		if i := (at - c.from) / c.step; at >= c.from && at < c.to && i < uint64(len(c.out.Faults)) && c.wanted(e.PID) {
			c.out.Faults[i]++
		}
	case event.Fork:
		if e.Flags&event.FlagSharedVM == 0 {
			c.mark(at, "fork", e.PID, fmt.Sprintf("forked %d", e.Child))
		}
	case event.Exec:
		c.mark(at, "exec", e.PID, "replaced its program")
	case event.Exit:
		c.mark(at, "exit", e.PID, "exited")
		c.forget(e.PID)
		c.sample(at)
	}
}

func (c *collector) mark(at uint64, what string, pid uint32, text string) {
	if at < c.from || at > c.to || !c.wanted(pid) {
		return
	}
	if len(c.out.Marks) >= maxMarks {
		c.out.Omitted++
		return
	}
	if comm := c.comms[pid]; comm != "" {
		text = comm + " " + text
	}
	c.out.Marks = append(c.out.Marks, Mark{at, what, pid, text})
}

// band notes a time; one that goes on from the one before is part of it.
func (c *collector) band(b Band) {
	if b.ToNS < c.from || b.FromNS > c.to {
		return
	}
	b.ToNS = max(b.FromNS, b.ToNS)
	if n := len(c.out.Bands); n > 0 {
		if p := &c.out.Bands[n-1]; p.What == b.What && p.PID == b.PID && b.FromNS >= p.FromNS && b.FromNS <= p.ToNS+c.step {
			p.ToNS, p.Events = max(p.ToNS, b.ToNS), p.Events+b.Events
			return
		}
	}
	if len(c.out.Bands) >= maxBands {
		c.out.Omitted++
		return
	}
	c.out.Bands = append(c.out.Bands, b)
}

func (c *collector) memory(m *input.Memory) {
	if !c.wanted(m.PID) {
		return
	}
	if _, known := c.of[m.PID]; !known && len(c.of) >= maxProcesses {
		c.left = true
		return
	}
	c.forget(m.PID)
	r := reading{m.Usage.RSS, partsOf(m)}
	c.of[m.PID] = r
	c.now.rss += r.rss
	for i := range r.parts {
		c.now.parts[i] += r.parts[i]
	}
	c.sample(c.since(m.Now))
}

// forget takes a process's last reading out of the sum.
func (c *collector) forget(pid uint32) {
	r, ok := c.of[pid]
	if !ok {
		return
	}
	delete(c.of, pid)
	c.now.rss -= r.rss
	for i := range r.parts {
		c.now.parts[i] -= r.parts[i]
	}
}

// sample notes the sum as it is now. Of those in one step, the largest stays.
func (c *collector) sample(at uint64) {
	if at < c.from || at > c.to || c.out.Read == 0 && len(c.of) == 0 {
		return
	}
	c.out.Read++
	s := Sample{AtNS: at, RSS: c.now.rss, Parts: append([]uint64{}, c.now.parts[:]...)}
	n := len(c.out.Samples)
	if n == 0 || (c.out.Samples[n-1].AtNS-c.from)/c.step < (at-c.from)/c.step {
		c.out.Samples = append(c.out.Samples, s)
	} else if s.RSS > c.out.Samples[n-1].RSS {
		c.out.Samples[n-1] = s
	}
}

// timeline is what was noted.
func (c *collector) timeline() *Timeline {
	if c.paused != 0 {
		c.band(Band{FromNS: c.paused, ToNS: c.to, What: "paused"})
	}
	if c.left {
		c.out.Notes = append(c.out.Notes, fmt.Sprintf("the memory of more than %d processes is not in the timeline", maxProcesses))
	}
	return &c.out
}
