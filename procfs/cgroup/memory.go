package cgroup

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Value is a size in bytes, for use where Outcome is Ok. The root group of
// version 2 has no sizes of its own: there they are NotSupported.
type Value struct {
	Bytes     uint64
	Unlimited bool // of limits: there is none
	Outcome   procfs.Outcome
}

// Group is a control group's memory; groups below it are counted in.
type Group struct {
	Path string // below the hierarchy's root, "/" for the root

	Current     Value // memory in use, page cache and kernel memory included
	Peak        Value // since Linux 5.19 in version 2
	Max         Value // hard limit: beyond it the OOM killer comes
	High        Value // soft limit: beyond it the group is slowed down; version 2 only
	Low, Min    Value // protected from reclaim; version 2 only (v1's soft limit is Low)
	SwapCurrent Value // of version 1, memory+swap less memory
	SwapPeak    Value // since Linux 6.5; version 2 only
	SwapMax     Value // version 2 only
	Zswap       Value // compressed in memory; since Linux 5.19; version 2 only

	// Stat is memory.stat, by the kernel's own names, which differ between
	// versions: sizes in bytes, events since the group's creation.
	Stat        procfs.Counters
	StatOutcome procfs.Outcome
	// Events is memory.events of version 2 (low, high, max, oom, oom_kill, …)
	// and memory.oom_control of version 1 (oom_kill, under_oom, …).
	Events        procfs.Counters
	EventsOutcome procfs.Outcome
	// Pressure is memory.pressure; version 2 only, and only where PSI is on.
	Pressure        procfs.Pressure
	PressureOutcome procfs.Outcome
}

// WorkingSet is what is in use less file pages that were not used lately: what
// Kubernetes and docker compare with the limit.
func (g *Group) WorkingSet() Value {
	inactive, ok := g.Stat.Get("total_inactive_file") // version 1 with all below
	if !ok {
		inactive, ok = g.Stat.Get("inactive_file")
	}
	if !g.Current.Outcome.Ok() || !ok {
		return Value{Outcome: max(g.Current.Outcome, g.StatOutcome)}
	}
	return Value{Bytes: g.Current.Bytes - min(inactive, g.Current.Bytes), Outcome: procfs.Known}
}

// Read reads the group at path, relative to the hierarchy's root, as
// procfs.Process.Cgroup gives it, into g, which may be used again. Each figure
// has its outcome; the error is ErrGone where there is no such group.
func (h *Hierarchy) Read(group string, g *Group) error {
	dir, err := below(group)
	if err != nil {
		return err
	}
	g.Path = group
	if _, err := h.files.Read(dir + "cgroup.procs"); err != nil && procfs.OutcomeOf(err) != procfs.NoPermission {
		return goneError(group)
	}
	if h.v1 {
		h.readV1(dir, g)
	} else {
		h.readV2(dir, g)
	}
	return nil
}

// goneError is procfs.ErrGone of the group that it names.
type goneError string

func (e goneError) Error() string { return "there is no control group " + string(e) }

// Unwrap makes it an ErrGone.
func (e goneError) Unwrap() error { return procfs.ErrGone }

// below makes a group's path one that stays below the root.
func below(group string) (string, error) {
	clean := strings.TrimPrefix(path.Clean("/"+group), "/")
	if strings.HasPrefix(group, "/..") { // outside of this process's cgroup namespace
		return "", fmt.Errorf("read control group %s: %w: it is outside of what this cgroup namespace shows", group, procfs.ErrNotSupported)
	}
	if clean == "" {
		return "", nil
	}
	return clean + "/", nil
}

func (h *Hierarchy) readV2(dir string, g *Group) {
	for _, f := range []struct {
		to   *Value
		name string
	}{
		{&g.Current, "memory.current"}, {&g.Peak, "memory.peak"}, {&g.Max, "memory.max"}, {&g.High, "memory.high"},
		{&g.Low, "memory.low"}, {&g.Min, "memory.min"}, {&g.SwapCurrent, "memory.swap.current"},
		{&g.SwapPeak, "memory.swap.peak"}, {&g.SwapMax, "memory.swap.max"}, {&g.Zswap, "memory.zswap.current"},
	} {
		*f.to = h.value(dir + f.name)
	}
	g.StatOutcome = h.counters(dir+"memory.stat", &g.Stat)
	g.EventsOutcome = h.counters(dir+"memory.events", &g.Events)
	g.Pressure, g.PressureOutcome = h.pressure(dir + "memory.pressure")
}

func (h *Hierarchy) readV1(dir string, g *Group) {
	missing := Value{Outcome: procfs.NotSupported}
	g.High, g.Min, g.SwapPeak, g.SwapMax, g.Zswap = missing, missing, missing, missing, missing
	g.Current, g.Peak = h.value(dir+"memory.usage_in_bytes"), h.value(dir+"memory.max_usage_in_bytes")
	g.Max, g.Low = h.value(dir+"memory.limit_in_bytes"), h.value(dir+"memory.soft_limit_in_bytes")
	g.SwapCurrent = h.value(dir + "memory.memsw.usage_in_bytes")
	if g.SwapCurrent.Outcome == procfs.Known {
		g.SwapCurrent.Bytes -= min(g.SwapCurrent.Bytes, g.Current.Bytes)
	}
	g.StatOutcome = h.counters(dir+"memory.stat", &g.Stat)
	g.EventsOutcome = h.counters(dir+"memory.oom_control", &g.Events)
	g.Pressure, g.PressureOutcome = procfs.Pressure{}, procfs.NotSupported
}

// noLimit is above what version 1 says where there is no limit: the largest
// count of pages, in bytes.
const noLimit = 1<<63 - 1<<20

func (h *Hierarchy) value(name string) Value {
	data, err := h.files.Read(name)
	if err != nil {
		return Value{Outcome: procfs.OutcomeOf(err)}
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	if string(data) == "max" {
		return Value{Unlimited: true, Outcome: procfs.Known}
	}
	v, rest, ok := text.Decimal(data)
	if !ok || len(rest) > 0 {
		return Value{Outcome: procfs.Failed}
	}
	if v >= noLimit {
		return Value{Unlimited: true, Outcome: procfs.Known}
	}
	return Value{Bytes: v, Outcome: procfs.Known}
}

func (h *Hierarchy) counters(name string, c *procfs.Counters) procfs.Outcome {
	data, err := h.files.Read(name)
	if err == nil {
		err = c.Parse(data)
	}
	if err != nil {
		c.Reset()
	}
	return procfs.OutcomeOf(err)
}

func (h *Hierarchy) pressure(name string) (procfs.Pressure, procfs.Outcome) {
	data, err := h.files.Read(name)
	if err != nil {
		return procfs.Pressure{}, procfs.OutcomeOf(err)
	}
	p, err := procfs.ParsePressure(data)
	return p, procfs.OutcomeOf(err)
}
