//go:build linux && !viewer

package main

import (
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/tracer/probe"
)

// With --probes allocs a process has no probe on free, as long as its heap can
// be read from outside: docs/probes-allocs.md.

// whyFrees says why a process that is probed in these objects has probes on free all the same, nil where it needs none.
func (a *attacher) whyFrees(pid int, objects []probe.Object) error {
	for i := range objects {
		o := &objects[i]
		for k := range o.Probes {
			if p := &o.Probes[k]; p.OfBlocks() && p.Family != probe.Glibc {
				return fmt.Errorf("the heap of %s in %s is none that memtrace can read", p.Family, o.Path)
			}
		}
	}
	p, err := a.fs.Process(pid)
	if err != nil {
		return nil // it has ended, which the attach will say
	}
	defer p.Close()
	if err := heapwalk.MayRead(p); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// attachChosen puts those probes of new objects on a process that --probes asks for. Where free needs probes after
// all, the objects that it has already get theirs first.
func (a *attacher) attachChosen(pid int, news []probe.Object) error {
	if !a.allocs || a.keepsFrees(pid) {
		return a.tracer.Attach(pid, news)
	}
	if reason := a.whyFrees(pid, slices.Concat(a.of(pid), news)); reason != nil {
		if err := a.keepFrees(pid, reason); err != nil {
			return err
		}
		return a.tracer.Attach(pid, news)
	}
	return a.tracer.Attach(pid, withProbes(news, func(p *probe.Probe) bool { return !p.OnlyFrees() }))
}

// addFrees is keepFrees for a process that is attached to.
func (a *attacher) addFrees(pid int, reason error) error {
	lock := &a.attaching[pid%len(a.attaching)]
	lock.Lock()
	defer lock.Unlock()
	return a.keepFrees(pid, reason)
}

// keepFrees puts the probes on free that were left out of a process, and notes why. No other attach to it is under way.
func (a *attacher) keepFrees(pid int, reason error) error {
	return a.keepFreesBy(a.tracer.Attach, pid, reason)
}

// keepFreesBy is keepFrees with what attaches. Where that fails, the process still has none.
func (a *attacher) keepFreesBy(attach func(pid int, objects []probe.Object) error, pid int, reason error) error {
	if a.keepsFrees(pid) {
		return nil
	}
	if probed := a.of(pid); len(probed) > 0 {
		if err := attach(pid, withProbes(probed, (*probe.Probe).OnlyFrees)); err != nil {
			return err
		}
	}
	a.mu.Lock()
	a.withFrees[pid] = reason
	a.mu.Unlock()
	a.noteFrees(pid, reason)
	return nil
}

// noteFrees says why a process has probes on free, once for each reason: its children have the same.
func (a *attacher) noteFrees(pid int, reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.saidFrees) >= maxWarnings || slices.Contains(a.saidFrees, reason.Error()) {
		return
	}
	a.saidFrees = append(a.saidFrees, reason.Error())
	a.notes = append(a.notes, fmt.Sprintf("process %d has probes on free in spite of --probes allocs, as all such: %v", pid, reason))
}

// keepsFrees reports whether a process has probes on free.
func (a *attacher) keepsFrees(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.withFrees[pid] != nil
}

// inheritFrees notes that a child has the probes of its parent.
func (a *attacher) inheritFrees(child, parent int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if reason := a.withFrees[parent]; reason != nil {
		a.withFrees[child] = reason
	}
}

// chosen are the objects of a process with those probes alone that it has.
func (a *attacher) chosen(pid int, objects []probe.Object) []probe.Object {
	if !a.allocs || a.keepsFrees(pid) {
		return objects
	}
	return withProbes(objects, func(p *probe.Probe) bool { return !p.OnlyFrees() })
}

// withProbes are the objects with those of their probes for which keep is true.
func withProbes(objects []probe.Object, keep func(*probe.Probe) bool) []probe.Object {
	out := slices.Clone(objects)
	for i := range out {
		var kept []probe.Probe
		for k := range out[i].Probes {
			if keep(&out[i].Probes[k]) {
				kept = append(kept, out[i].Probes[k])
			}
		}
		out[i].Probes = kept
	}
	return out
}
