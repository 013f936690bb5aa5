package tracer

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// attachment is what is attached to one process.
type attachment struct {
	allocs []link.Link
	frees  []link.Link
	progs  []*ebpf.Program // loaded for this attachment alone

	objects []probe.Object // what it probes, for Resume; the files are the caller's
	stops   []placedStop   // they outlast a Pause: they are rarely called, and cost nothing until then

	mechanism Mechanism // mostly the configured one
	thread    int       // through which it reaches the process
}

// close detaches.
func (a *attachment) close() error {
	err := a.unprobe()
	for _, s := range a.stops {
		err = errors.Join(err, closeAll(s.links))
	}
	a.stops = nil
	return err
}

// unprobe takes the allocator's probes off. The allocations go first: a free that is
// not seen would leave a block that looks leaked, an allocation that is not seen only
// a free that matches nothing.
func (a *attachment) unprobe() error {
	err := errors.Join(closeAll(a.allocs), closeAll(a.frees))
	for _, p := range a.progs {
		err = errors.Join(err, p.Close())
	}
	a.allocs, a.frees, a.progs = nil, nil, nil
	return err
}

// unprobeAtOnce takes them off in no order: each link waits for the kernel, and until it is closed its probes cost time.
func (a *attachment) unprobeAtOnce() error {
	a.allocs = append(a.allocs, a.frees...)
	a.frees = nil
	return a.unprobe()
}

// closesAtOnce is how many links of one process are closed at a time: each
// waits for the kernel, and perf events need two dozen.
const closesAtOnce = 8

func closeAll(links []link.Link) error {
	var wg sync.WaitGroup
	errs := make([]error, len(links))
	slots := make(chan struct{}, closesAtOnce)
	for i, l := range links {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = l.Close()
			<-slots
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// attachOrder sorts an object's allocating probes: reallocations first, for a
// block that moves unseen would look leaked at its old address.
func attachOrder(probes []probe.Probe) (allocs, frees []probe.Probe) {
	for _, p := range probes {
		switch {
		case p.Shape.IsMark():
		case !p.Shape.HasReturn():
			frees = append(frees, p)
		case p.Shape == probe.Realloc || p.Shape == probe.Reallocarray || p.Shape == probe.Release || p.Shape == probe.Resize || p.Shape == probe.Mremap:
			allocs = slices.Insert(allocs, 0, p)
		default:
			allocs = append(allocs, p)
		}
	}
	return allocs, frees
}

// newAttachment chooses what reaches the process: the configured mechanism,
// or perf events through another thread where the first one has ended. The
// newer mechanisms find a process's memory through its first thread: once that
// has ended they attach to nothing, and are silently undone as soon as anybody
// else takes a probe off the same function (uprobe_multi_link_filter).
func (t *Tracer) newAttachment(pid int) (*attachment, error) {
	a := &attachment{mechanism: t.config.Mechanism, thread: probe.LivingThread("/proc", pid)}
	if a.thread == pid || a.mechanism.perThread() {
		return a, nil
	}
	a.mechanism = PerfCookie
	return a, t.kernel.more(perfPrograms)
}

// attach puts the probes of objects on the process: all frees of all objects
// before the first allocation, and returns before entries.
func (t *Tracer) attach(pid int, objects []probe.Object) (*attachment, error) {
	a, err := t.newAttachment(pid)
	if err != nil {
		return nil, err
	}
	a.objects = objects
	for i := range objects {
		_, frees := attachOrder(objects[i].Probes)
		err = errors.Join(err, t.attachFrees(a, pid, objectPath(&objects[i]), frees),
			t.attachMarks(a, &a.frees, pid, &objects[i], probe.MarkFree))
	}
	for i := range objects {
		if err != nil {
			break
		}
		allocs, _ := attachOrder(objects[i].Probes)
		err = errors.Join(t.attachAllocs(a, pid, objectPath(&objects[i]), allocs),
			t.attachMarks(a, &a.allocs, pid, &objects[i], probe.MarkAlloc))
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	for i := range objects {
		if len(objects[i].Unseen) > 0 {
			t.unprobed.Add(1)
		}
	}
	return a, nil
}

// objectPath reaches the object's file whatever became of its name.
func objectPath(o *probe.Object) string {
	return fmt.Sprintf("/proc/self/fd/%d", o.File.Fd())
}

func (t *Tracer) attachFrees(a *attachment, pid int, path string, probes []probe.Probe) error {
	if len(probes) == 0 {
		return nil
	}
	switch a.mechanism {
	case Session, Multi:
		l, err := t.multi(bpf.MemtraceProgMultiFree, attachUprobeMulti, false, path, pid, probes)
		if err != nil {
			return err
		}
		a.frees = append(a.frees, l)
		return nil
	}
	return t.perf(a, &a.frees, bpf.MemtraceProgPerfFree, false, path, pid, probes)
}

func (t *Tracer) attachAllocs(a *attachment, pid int, path string, probes []probe.Probe) error {
	if len(probes) == 0 {
		return nil
	}
	keeping, replaced := byReturn(probes)
	return errors.Join(t.attachKeeping(a, pid, path, keeping), t.attachReplacing(a, pid, path, replaced))
}

// attachReplacing probes functions whose return address may be replaced.
func (t *Tracer) attachReplacing(a *attachment, pid int, path string, probes []probe.Probe) error {
	if len(probes) == 0 {
		return nil
	}
	switch a.mechanism {
	case Session:
		l, err := t.multi(bpf.MemtraceProgSessionAlloc, attachUprobeSession, false, path, pid, probes)
		if err == nil {
			a.allocs = append(a.allocs, l)
		}
		return err
	case Multi:
		ret, err := t.multi(bpf.MemtraceProgMultiReturn, attachUprobeMulti, true, path, pid, probes)
		if err != nil {
			return err
		}
		a.allocs = append(a.allocs, ret)
		entry, err := t.multi(bpf.MemtraceProgMultiAlloc, attachUprobeMulti, false, path, pid, probes)
		if err == nil {
			a.allocs = slices.Insert(a.allocs, 0, entry)
		}
		return err
	}
	if err := t.perf(a, &a.allocs, bpf.MemtraceProgPerfReturn, true, path, pid, probes); err != nil {
		return err
	}
	return t.perf(a, &a.allocs, bpf.MemtraceProgPerfAlloc, false, path, pid, probes)
}

// multi attaches one program to all probes by one link.
func (t *Tracer) multi(name string, typ ebpf.AttachType, ret bool, path string, pid int, probes []probe.Probe) (link.Link, error) {
	places := make([]multiPlace, len(probes))
	for i := range probes {
		cookie, err := t.cookie(pid, path, &probes[i])
		if err != nil {
			return nil, fmt.Errorf("attach to %s in %s: %w", probes[i].Name, path, err)
		}
		places[i] = multiPlace{probes[i].Offset, probes[i].Semaphore, cookie}
	}
	anchored(path, places[0].offset)
	return attachMulti(t.kernel.program(name), typ, ret, path, uint32(pid), places)
}

// perf attaches a perf event per probe and adds the links to to.
func (t *Tracer) perf(a *attachment, to *[]link.Link, name string, ret bool, path string, pid int, probes []probe.Probe) error {
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return fmt.Errorf("open %s to attach: %w", path, err)
	}
	if len(probes) > 0 {
		anchored(path, probes[0].Offset)
	}
	for i := range probes {
		prog := t.kernel.program(name)
		cookie, err := t.cookie(pid, path, &probes[i])
		if err != nil {
			return fmt.Errorf("attach to %s in %s: %w", probes[i].Name, path, err)
		}
		opts := &link.UprobeOptions{Address: probes[i].Offset, PID: a.thread, Cookie: cookie, RefCtrOffset: probes[i].Semaphore}
		switch {
		case a.mechanism == Perf && (ret || name == bpf.MemtraceProgPerfOwnReturn):
			opts.Cookie = 0 // the entry has left all that the return needs
		case a.mechanism == Perf:
			if prog, err = t.kernel.loadWithCookie(name, opts.Cookie); err != nil {
				return err
			}
			a.progs = append(a.progs, prog)
			opts.Cookie = 0
		}
		attach := ex.Uprobe
		if ret {
			attach = ex.Uretprobe
		}
		l, err := attach("", prog, opts)
		if err != nil {
			return fmt.Errorf("attach to %s in process %d: %w", probes[i].Name, pid, err)
		}
		*to = append(*to, l)
	}
	return nil
}

// attachKernel attaches the programs that see page faults and the life of processes.
func (t *Tracer) attachKernel() error {
	for _, name := range t.config.programs() {
		var l link.Link
		var err error
		prog := t.kernel.program(name)
		switch name {
		case bpf.MemtraceProgProcessFork, bpf.MemtraceProgProcessExec, bpf.MemtraceProgProcessExit,
			bpf.MemtraceProgFaultFexit, bpf.MemtraceProgFaultRawTracepoint,
			bpf.MemtraceProgTouchFexit, bpf.MemtraceProgTouchRawTracepoint, bpf.MemtraceProgTouchKernelRawTracepoint:
			l, err = link.AttachTracing(link.TracingOptions{Program: prog})
		case bpf.MemtraceProgFaultKprobe, bpf.MemtraceProgTouchKprobe:
			l, err = link.Kprobe("handle_mm_fault", prog, nil)
		case bpf.MemtraceProgFaultKretprobe, bpf.MemtraceProgTouchKretprobe:
			l, err = link.Kretprobe("handle_mm_fault", prog, nil)
		case bpf.MemtraceProgFaultTracepoint, bpf.MemtraceProgTouchTracepoint:
			l, err = link.Tracepoint("exceptions", "page_fault_user", prog, nil)
		case bpf.MemtraceProgTouchKernelTracepoint:
			l, err = link.Tracepoint("exceptions", "page_fault_kernel", prog, nil)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, explain(err))
		}
		t.links = append(t.links, l)
	}
	return nil
}
