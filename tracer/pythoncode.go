package tracer

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
	"github.com/memtrace/memtrace/tracer/python"
)

// codeProbes put a probe on the function of a process that frees its code objects. Its hits change the process's generation: until then the
// kernel's half need not read again what it has read of a code object.
//
// One that is not hit would have code called by another's name. So they are uprobe_multi links, of which no
// hit is dropped, as those of perf events can be while another BPF program runs (bpf_prog_active). Those of the first
// kernels that have them are hit by the thread alone that they were made for: they are used where there are sessions, too (6.13).
type codeProbes struct {
	kernel  *kernelHalf
	maps    *ebpf.Map // interpreters, by process
	closing *closeQueue
}

// newCodeProbes returns nil where there are to be none.
func newCodeProbes(kernel *kernelHalf, c Config, closing *closeQueue) *codeProbes {
	if c.NoPython || c.Mechanism != Session {
		return nil
	}
	return &codeProbes{kernel, kernel.coll.Maps[bpf.MemtraceMapInterpreters], closing}
}

// attach puts the probe on.
func (c *codeProbes) attach(pid int, im *python.Image) (link.Link, error) {
	if err := c.kernel.more([]string{bpf.MemtraceProgMultiCodeFreed}); err != nil {
		return nil, err
	}
	files, err := probe.CodeFiles("/proc", pid, func(path string) bool { return path == im.Module })
	defer closeFiles(files)
	if len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("process %d does not map %s any more", pid, im.Module))
	}
	place := []multiPlace{{offset: im.FreesCode, cookie: uint64(pid)}}
	path := fmt.Sprintf("/proc/self/fd/%d", files[0].File.Fd())
	anchored(path, im.FreesCode)
	l, err := attachMulti(c.kernel.program(bpf.MemtraceProgMultiCodeFreed), attachUprobeMulti, false, path, uint32(pid), place)
	if err != nil {
		return nil, fmt.Errorf("attach to what frees code objects in %s: %w", im.Module, err)
	}
	return l, nil
}

// setGeneration has the kernel's half trust what it reads of code objects until one is freed, or, with 0, never.
func (c *codeProbes) setGeneration(pid int, generation uint64) error {
	var in bpf.MemtraceInterpreter
	if err := c.maps.Lookup(uint32(pid), &in); err != nil {
		return err
	}
	in.Generation = generation
	return c.maps.Update(uint32(pid), in, ebpf.UpdateExist)
}

// watchCode puts the probe on, once for an image of process pid. Where that fails, as where the function is not found, each
// code object is read at each allocation. The lock is not held meanwhile: names are to be read soon.
func (p *pythons) watchCode(pid int, im *python.Image) {
	p.mu.Lock()
	now := p.images[pid]
	first := now.Image == im && !now.watched
	if first {
		now.watched = true
		p.images[pid] = now
	}
	p.mu.Unlock()
	if !first || im.FreesCode == 0 {
		return
	}
	l, err := p.freed.attach(pid, im)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.images[pid]
	// No process ever has the generation of an earlier one with its number: time only goes on.
	if now.Image != im || now.probe != nil || p.freed.setGeneration(pid, monotonic()) != nil {
		p.freed.closing.take(&attachment{frees: []link.Link{l}})
		return
	}
	now.probe = l
	p.images[pid] = now
}

// closeProbe takes the probe off the image of process pid. The lock is held.
func (p *pythons) closeProbe(pid int) {
	im := p.images[pid]
	if im.probe == nil {
		return
	}
	_ = p.freed.setGeneration(pid, 0) // it has ended, or executes another program: there is none
	p.freed.closing.take(&attachment{frees: []link.Link{im.probe}})
	im.probe, im.watched = nil, false
	p.images[pid] = im
}

// unwatch takes the probe off process pid.
func (p *pythons) unwatch(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeProbe(pid)
}

// unwatchAll takes the probes off all processes.
func (p *pythons) unwatchAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.images {
		p.closeProbe(pid)
	}
}
