package tracer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/anchor"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// Tracer traces processes. Make one with New.
type Tracer struct {
	config  Config
	kernel  *kernelHalf
	links   []link.Link // of the kernel's own probes
	drain   *drain
	updater *tableUpdater // nil unless stacks are taken by .eh_frame
	filter  *filter       // nil unless blocks are sampled
	hits    *hitCounts    // likewise
	valve   *valve        // nil unless blocks are sampled under pressure
	pythons *pythons

	cookies cookies

	mu         sync.Mutex
	attached   map[int]*attachment
	loaders    map[int]*loaderProbe
	functions  functionPlaces
	everywhere everywhere
	closing    *closeQueue
	paused     bool // no process has probes

	unprobed atomic.Uint64 // see event.Loss
}

// New chooses the mechanisms, loads the BPF programs and begins to drain the
// rings. Nothing is probed until Attach. The error wraps ErrNotSupported or
// ErrNotPermitted where the kernel or the privileges are the cause.
func New(c Config) (*Tracer, error) {
	c, err := c.resolve()
	if err != nil {
		return nil, err
	}
	kernel, err := load(c)
	if err != nil {
		return nil, err
	}
	go func() { _ = anchor.Start() }() // no program is to stand still for it
	t := &Tracer{config: c, kernel: kernel, cookies: newCookies(), attached: make(map[int]*attachment), loaders: make(map[int]*loaderProbe), closing: newCloseQueue()}
	t.pythons = newPythons(kernel, c, t.closing)
	if err := errors.Join(t.startSampling(), t.attachKernel()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if c.Unwind == UnwindDwarf {
		spaces, err := newSpaces(kernel.coll.Maps, c.TableCache)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.updater = startTableUpdater(spaces, t.notifyMapped, !c.Relaxed)
	}
	if t.valve, err = openValve(kernel.coll.Maps, c); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.drain, err = startDrain(kernel, c, t.newCode, t.valve, t.pythons); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// resolve replaces "auto" by what the kernel has.
func (c Config) resolve() (Config, error) {
	for _, need := range Basics() {
		if err := need.Probe(); err != nil {
			return c, err
		}
	}
	if c.Touch {
		return c.resolveTouch()
	}
	mechanism, err := ChooseMechanism(c.Mechanism)
	if err != nil {
		return c, err
	}
	faults, err := ChooseFaultSource(c.Faults)
	forced := c.Faults != "" && c.Faults != "auto"
	if err != nil && (forced || !errors.Is(err, ErrNotSupported)) {
		return c, err
	}
	c.Mechanism, c.Faults = mechanism, faults
	if c, err = c.resolveUnwind(); err != nil {
		return c, err
	}
	return c.resolveTouchInTurns()
}

// resolveTouch is resolve for a trace without probes, which is nothing without faults and their stacks.
func (c Config) resolveTouch() (_ Config, err error) {
	if err := haveTaskRegs.Probe(); err != nil {
		return c, err
	}
	if c.Faults, err = ChooseFaultSource(c.Faults); err != nil {
		return c, err
	}
	c.Mechanism, c.Pressure = NoProbes, 0 // there are no blocks to sample
	return c.resolveUnwind()
}

// Config returns the configuration with the mechanisms that were chosen.
func (t *Tracer) Config() Config { return t.config }

// Attach probes the functions of objects in the process pid, a thread group
// leader in the caller's PID namespace. A process that is attached already
// gets the new objects' probes too, and keeps its own.
func (t *Tracer) Attach(pid int, objects []probe.Object) error {
	if err := t.Watch(pid); err != nil {
		return err
	}
	listed, err := t.reloadMaps(pid)
	if err != nil {
		return fmt.Errorf("attach to process %d: %w", pid, err)
	}
	t.pythons.lookIn(pid, listed)
	if t.config.Everywhere {
		if err := t.everywhere.attach(t, objects); err != nil {
			return fmt.Errorf("attach to the files of process %d: %w", pid, err)
		}
		return nil
	}
	a, err := t.attachNow(pid, objects)
	if err != nil {
		return fmt.Errorf("attach to process %d: %w", pid, err)
	}
	defer t.mu.Unlock()
	if t.paused {
		err = a.close() // its probes come at Resume
	}
	if old := t.attached[pid]; old != nil {
		old.allocs = append(old.allocs, a.allocs...)
		old.frees = append(old.frees, a.frees...)
		old.progs = append(old.progs, a.progs...)
		old.objects = append(old.objects, a.objects...)
		return err
	}
	t.attached[pid] = a
	return err
}

// Watch reports the page faults and the life of process pid, without probes.
func (t *Tracer) Watch(pid int) error {
	if err := t.kernel.coll.Maps[bpf.MemtraceMapTargets].Put(uint32(pid), uint32(1)); err != nil {
		return fmt.Errorf("register process %d with the BPF programs: %w", pid, err)
	}
	return nil
}

// Detach takes the probes off process pid and keeps watching it.
func (t *Tracer) Detach(pid int) (err error) {
	if p := t.takeLoader(pid); p != nil {
		err = p.close()
	}
	if a := t.take(pid); a != nil {
		err = errors.Join(err, a.close())
	}
	t.pythons.unwatch(pid)
	return err
}

// Reattach attaches again to process pid if the thread that its probes were
// tied to has ended and others run on. It reports whether it did. What the
// process did meanwhile may not have been seen, which counts as a loss.
func (t *Tracer) Reattach(pid int, objects []probe.Object) (bool, error) {
	t.mu.Lock()
	a := t.attached[pid]
	t.mu.Unlock()
	if a == nil || t.config.Everywhere || !probe.ThreadEnded("/proc", pid, a.thread) {
		return false, nil
	}
	if next := probe.LivingThread("/proc", pid); probe.ThreadEnded("/proc", pid, next) {
		return false, nil // all have ended
	}
	stops := t.stopsOf(pid)
	if err := t.DetachLost(pid); err != nil {
		return false, err
	}
	if err := t.Attach(pid, objects); err != nil {
		return false, err
	}
	return true, t.stopAgain(pid, stops)
}

// DetachLost is Detach for a process that runs on without its probes, as the thread that they were
// tied to has ended. What it does until it is attached to again is not seen, which counts as a loss.
func (t *Tracer) DetachLost(pid int) error {
	t.unprobed.Add(1)
	return t.Detach(pid)
}

// Forget detaches from process pid, which has ended, and stops watching it.
// Its probes are removed in the background.
func (t *Tracer) Forget(pid int) error {
	err := t.kernel.coll.Maps[bpf.MemtraceMapTargets].Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	err = errors.Join(err, t.pythons.forget(pid))
	if t.updater != nil {
		err = errors.Join(err, t.updater.spaces.forget(pid))
	}
	a := t.take(pid)
	if p := t.takeLoader(pid); p != nil {
		if a == nil {
			a = &attachment{}
		}
		a.frees = append(a.frees, p.links...)
	}
	if a != nil {
		t.closing.take(a)
	}
	return err
}

// take gives up the attachment of process pid, nil where there is none.
func (t *Tracer) take(pid int) *attachment {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attached[pid]
	delete(t.attached, pid)
	return a
}

// Read returns the next batch of events, waiting for one. After Stop it
// returns what came before the Stop, then ErrClosed. The batch is the caller's
// until it calls Release on it.
func (t *Tracer) Read() (*Batch, error) { return t.drain.read() }

// Batches is the channel that Read reads from, for callers that select.
func (t *Tracer) Batches() <-chan *Batch { return t.drain.out }

// Stop ends the trace at this instant and removes all probes from the
// targets. Events until now can still be Read.
func (t *Tracer) Stop() error {
	t.drain.stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, len(t.attached)+2)
	wg.Go(func() { errs <- t.everywhere.close() })
	wg.Go(func() { errs <- t.closeLoaders() })
	for pid, a := range t.attached {
		wg.Go(func() { errs <- a.close() })
		delete(t.attached, pid)
	}
	wg.Wait()
	t.pythons.unwatchAll()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return errors.Join(all, t.closing.wait())
}

// Loss returns what was lost since New, per cause.
func (t *Tracer) Loss() (event.Loss, error) {
	l, err := t.kernel.losses()
	if t.drain != nil {
		l.Truncated = t.drain.malformed.Load()
	}
	l.Unprobed = t.unprobed.Load()
	return l, err
}

// Close removes all probes and frees everything. Events not yet read are gone.
func (t *Tracer) Close() error {
	var errs []error
	if t.drain != nil {
		errs = append(errs, t.Stop())
		t.drain.close()
	}
	if t.updater != nil {
		errs = append(errs, t.updater.stop())
	}
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	t.links = nil
	t.filter.close()
	t.hits.close()
	t.valve.close()
	t.valve = nil
	t.filter, t.hits = nil, nil
	t.kernel.close()
	return errors.Join(errs...)
}
