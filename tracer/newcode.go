package tracer

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/probe"
)

// loaderProbe is the probe in a process's dynamic loader that reports the code that it loads.
type loaderProbe struct {
	file  fileID
	links []link.Link
}

func (p *loaderProbe) close() error { return closeAll(p.links) }

// WatchLoader has the threads of a process that load code stop before any of it runs,
// where the caller has them under ptrace, and be told of otherwise (Config.Mapped). It
// reports whether it does so from now on: a static program has no loader. After an exec
// it is to be called again, as the loader may be another.
func (t *Tracer) WatchLoader(pid int) (bool, error) {
	f, err := probe.Loader("/proc", pid)
	if err != nil || f == nil {
		return false, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	id := fileID{st.Dev, st.Ino}
	t.mu.Lock()
	old := t.loaders[pid]
	t.mu.Unlock()
	if old != nil && old.file == id {
		return true, nil
	}
	offsets, err := t.loaderHook(f)
	if err != nil {
		return false, err
	}
	links, err := t.probeLoader(pid, f, offsets)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old = t.loaders[pid]; old != nil {
		t.closing.take(&attachment{frees: old.links})
	}
	t.loaders[pid] = &loaderProbe{id, links}
	return true, nil
}

// WatchesLoader reports whether WatchLoader has seen to a process.
func (t *Tracer) WatchesLoader(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loaders[pid] != nil
}

// loaderHook finds the hook in a loader.
func (t *Tracer) loaderHook(f *os.File) ([]uint64, error) {
	offsets, err := t.functions.of(f, []string{probe.LoaderHook})
	if err == nil && len(offsets) == 0 {
		err = fmt.Errorf("it has no function %s", probe.LoaderHook)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the hook of the loader %s: %w", f.Name(), err)
	}
	return offsets, nil
}

// probeLoader puts a program on the hook of a process's loader.
func (t *Tracer) probeLoader(pid int, f *os.File, offsets []uint64) ([]link.Link, error) {
	thread := probe.LivingThread("/proc", pid)
	name, multi := bpf.MemtraceProgPerfNewCode, false
	if (t.config.Mechanism == Session || t.config.Mechanism == Multi) && thread == pid {
		name, multi = bpf.MemtraceProgMultiNewCode, true
	}
	if err := t.kernel.more([]string{name}); err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	anchored(path, offsets[0])
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return nil, fmt.Errorf("open %s to attach: %w", f.Name(), err)
	}
	var l link.Link
	if multi {
		l, err = ex.UprobeMulti(nil, t.kernel.program(name), &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(pid)})
	} else {
		l, err = ex.Uprobe("", t.kernel.program(name), &link.UprobeOptions{Address: offsets[0], PID: thread})
	}
	if err != nil {
		return nil, fmt.Errorf("attach to the loader of process %d: %w", pid, err)
	}
	return []link.Link{l}, nil
}

// takeLoader gives up the probe in the loader of process pid, nil where there is none.
func (t *Tracer) takeLoader(pid int) *loaderProbe {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.loaders[pid]
	delete(t.loaders, pid)
	return p
}

// closeLoaders takes the probes off all loaders. The lock is held.
func (t *Tracer) closeLoaders() error {
	var links []link.Link
	for pid, p := range t.loaders {
		links = slices.Concat(links, p.links)
		delete(t.loaders, pid)
	}
	return closeAll(links)
}

// notifyMapped reports that processes have mapped code, by whatever means.
func (t *Tracer) notifyMapped(pids map[int]uint64) {
	for pid := range pids {
		t.pythons.look(pid)
	}
	if t.config.Mapped == nil {
		return
	}
	for pid, at := range pids {
		t.config.Mapped(pid, at, false)
	}
}

// newCode handles a process that has loaded code, or runs code that is not known.
func (t *Tracer) newCode(pid int, at uint64, loaded bool) {
	if t.updater != nil {
		t.updater.report(pid)
	}
	if loaded {
		t.pythons.look(pid)
	}
	if loaded && t.config.Mapped != nil {
		t.config.Mapped(pid, at, true)
	}
}

// A Stop is why a thread got UnknownSignal.
type Stop struct {
	PID    int
	Loaded bool // it has loaded code, which nobody has run yet; else it ran some that was not known
}

// Stopped tells whether a thread got UnknownSignal from us, and why, and forgets
// that it did. The caller, which sees the signal first, drops it and lets the thread
// stand still while it calls Learn and whatever else is to be known before the code
// runs on.
func (t *Tracer) Stopped(tid int) (stop Stop, ok bool) {
	var why uint32
	stopped := t.kernel.coll.Maps[bpf.MemtraceMapStopped]
	if stopped.Lookup(uint32(tid), &why) != nil || stopped.Delete(uint32(tid)) != nil {
		return Stop{}, false
	}
	return Stop{PID: int(why &^ stoppedLoading), Loaded: why&stoppedLoading != 0}, true
}

// stoppedLoading is STOPPED_LOADING of bpf/headers/unwind_maps.h.
const stoppedLoading = 1 << 31

// Learn makes the unwinder know all code of a process that stands still, before it
// returns. What fails is tried again when it is met.
func (t *Tracer) Learn(pid int) {
	t.pythons.look(pid)
	if t.updater == nil {
		return
	}
	s := t.updater.spaces
	_, err := s.reload(pid)
	if !errors.Is(err, os.ErrProcessDone) {
		s.tables.awaitVisible()
	}
}
