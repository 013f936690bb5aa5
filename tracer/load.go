package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
)

// Config says how to trace. The zero value takes the best that the kernel has.
type Config struct {
	Mechanism  Mechanism   // "" or "auto": the best
	Faults     FaultSource // "" or "auto": the first that the kernel has
	StackDepth int         // frames, at most MaxStackDepth; 0 takes no stacks
	Unwind     Unwinder    // "" or "auto": by .eh_frame
	NoFollow   bool        // leave children of fork alone
	NoPython   bool        // native frames alone: no interpreter is looked for
	Touch      bool        // no probe on any allocator: faults have stacks, and Attach takes no objects
	Everywhere bool        // put probes into files, whoever maps them, not into processes
	RingBytes  int         // per CPU, a power of two from 64 KiB on; 0 chooses by the number of CPUs
	TableCache FileCache   // of unwinding tables; nil: none
	// Relaxed costs less, for a trace of weeks in which little happens. Events may wait in the rings for half a
	// second. Code that a process maps is noticed only once a stack leads through it; that first stack is cut there.
	Relaxed bool

	// Mapped is told when a process has mapped code, ns of CLOCK_MONOTONIC; loaded says
	// that its loader did (WatchLoader), in a thread that was not stopped. It is called from
	// goroutines that it must not hold up. Nil: nobody is told.
	Mapped func(pid int, at uint64, loaded bool)

	// Sampling allows SetInterval, at the price of a counter for each block.
	// Interval is what it begins with: the mean number of bytes between hits;
	// 0: every block is recorded.
	Sampling bool
	Interval uint32
	// TouchInTurns allows TakeTouches, where the kernel can and the rest of the Config doesn't forbid it; it is false in
	// Tracer.Config else. It is for Sampling alone.
	TouchInTurns bool
	// Pressure has blocks sampled, one hit every so many bytes, while a ring is half full or the
	// reader is far behind; 0: events are lost then.
	Pressure uint32
	Seed     uint64 // of every thread's random numbers, for tests; 0: none
}

// MaxStackDepth is the largest number of frames of a stack.
const MaxStackDepth = 127

// maxThreads bounds the per-thread state on kernels without task storage (before 5.12).
const maxThreads = 32768

// programs are the BPF programs that a configuration needs.
func (c Config) programs() []string {
	names := []string{bpf.MemtraceProgProcessFork, bpf.MemtraceProgProcessExec, bpf.MemtraceProgProcessExit}
	switch c.Mechanism {
	case Session:
		names = append(names, bpf.MemtraceProgSessionAlloc, bpf.MemtraceProgMultiFree)
	case Multi:
		names = append(names, bpf.MemtraceProgMultiAlloc, bpf.MemtraceProgMultiReturn, bpf.MemtraceProgMultiFree)
	case PerfCookie:
		names = append(names, perfPrograms...)
	case Perf:
		names = append(names, bpf.MemtraceProgPerfReturn) // which needs no cookie; the others are loaded by the probe
	}
	if c.Touch || c.TouchInTurns {
		return append(names, touchPrograms[c.Faults]...)
	}
	return append(names, faultPrograms[c.Faults]...)
}

// perfPrograms are those for perf events.
var perfPrograms = []string{bpf.MemtraceProgPerfAlloc, bpf.MemtraceProgPerfReturn, bpf.MemtraceProgPerfFree}

var faultPrograms = map[FaultSource][]string{
	FaultKprobe:        {bpf.MemtraceProgFaultKprobe, bpf.MemtraceProgFaultKretprobe},
	FaultFexit:         {bpf.MemtraceProgFaultFexit},
	FaultRawTracepoint: {bpf.MemtraceProgFaultRawTracepoint},
	FaultTracepoint:    {bpf.MemtraceProgFaultTracepoint},
}

// touchPrograms are those that take stacks, for Config.Touch and TouchInTurns.
var touchPrograms = map[FaultSource][]string{
	FaultKprobe:        {bpf.MemtraceProgTouchKprobe, bpf.MemtraceProgTouchKretprobe},
	FaultFexit:         {bpf.MemtraceProgTouchFexit},
	FaultRawTracepoint: {bpf.MemtraceProgTouchRawTracepoint, bpf.MemtraceProgTouchKernelRawTracepoint},
	FaultTracepoint:    {bpf.MemtraceProgTouchTracepoint, bpf.MemtraceProgTouchKernelTracepoint},
}

// kernelHalf is the loaded BPF object.
type kernelHalf struct {
	spec  *ebpf.CollectionSpec
	sizes ringSizes
	coll  *ebpf.Collection

	mu sync.Mutex // of coll.Programs
}

// load loads the programs that c needs. c's mechanisms must have been chosen.
func load(c Config) (*kernelHalf, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(bpf.Object()))
	if err != nil {
		return nil, fmt.Errorf("read the BPF object: %w", err)
	}
	k := &kernelHalf{spec: spec}
	if err := k.configure(c); err != nil {
		return nil, err
	}
	k.coll, err = k.loadPrograms(c.programs(), nil)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// configure sets the object's constants and shapes its maps for this kernel.
func (k *kernelHalf) configure(c Config) error {
	spec := k.spec
	atomics, err := supported(haveAtomics)
	if err != nil {
		return err
	}
	storage, err := supported(haveTaskStorage)
	if err != nil {
		return err
	}
	if err := k.shapeRings(c.RingBytes, atomics); err != nil {
		return err
	}
	if !atomics {
		withoutAtomics(spec)
	}
	if !storage {
		withoutTaskStorage(spec)
	}
	if c.Touch {
		withoutSlots(spec)
	}
	if err := shapeHits(spec, c.Sampling); err != nil {
		return err
	}
	plainTables(spec)
	if !c.Sampling {
		withoutFilter(spec)
	}
	if c.Sampling || c.Pressure == 0 {
		withoutLeft(spec)
	}
	if c.Unwind != UnwindDwarf {
		withoutTables(spec)
	}
	for name, value := range map[string]any{
		bpf.MemtraceVarHasTaskStorage: storage,
		bpf.MemtraceVarHasAtomics:     atomics,
		bpf.MemtraceVarRingLines:      uint32(max(k.sizes.records, 1)),
		bpf.MemtraceVarRingBits:       uint32(bits.TrailingZeros(uint(max(k.sizes.records, 1)))),
		bpf.MemtraceVarWakeLines:      uint32(max(wakeAt(k.sizes.records*lineSize)/lineSize, 1)),
		bpf.MemtraceVarWakeBytes:      uint32(k.sizes.wake),
		bpf.MemtraceVarPressLines:     uint32(max(k.sizes.records/2, 1)),
		bpf.MemtraceVarPressBytes:     uint32(k.sizes.buffer / 2),
		bpf.MemtraceVarPressInterval:  pressedInterval(c),
		bpf.MemtraceVarStackDepth:     uint32(min(c.StackDepth, MaxStackDepth)),
		bpf.MemtraceVarFollow:         !c.NoFollow,
		bpf.MemtraceVarByTables:       c.Unwind == UnwindDwarf,
		bpf.MemtraceVarCanSample:      c.Sampling,
		bpf.MemtraceVarTouchInTurns:   c.TouchInTurns,
		bpf.MemtraceVarSampleSeed:     c.Seed,
		bpf.MemtraceVarLog2Table:      log2Table(),
		bpf.MemtraceVarAllMemory:      allMemory(),
		bpf.MemtraceVarTracerTgid:     uint32(os.Getpid()),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s in the BPF object: %w", name, err)
		}
	}
	return nil
}

// allMemory is RAM and swap in bytes: the kernel refuses most requests for more (Documentation/mm/overcommit-accounting.rst).
func allMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return math.MaxUint64 // it takes no arguments and always works
	}
	return (info.Totalram + info.Totalswap) * uint64(info.Unit)
}

// withoutTaskStorage keeps the threads' state in a hash.
func withoutTaskStorage(spec *ebpf.CollectionSpec) {
	spec.Maps[bpf.MemtraceMapThreads] = &ebpf.MapSpec{
		Name: bpf.MemtraceMapThreads, Type: ebpf.Hash, KeySize: 8,
		ValueSize: uint32(unsafe.Sizeof(bpf.MemtraceThread{})), MaxEntries: maxThreads,
	}
}

// loadPrograms loads the named programs; shared maps are those of an earlier load.
func (k *kernelHalf) loadPrograms(names []string, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	return k.loadSpec(k.only(names), shared)
}

// only is a copy of the object with the named programs alone: a copy of all takes longer than to load most of them.
func (k *kernelHalf) only(names []string) *ebpf.CollectionSpec {
	part := *k.spec
	part.Programs = make(map[string]*ebpf.ProgramSpec, len(names))
	for _, name := range names {
		part.Programs[name] = k.spec.Programs[name]
	}
	return part.Copy()
}

func (k *kernelHalf) loadSpec(spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: shared, Cache: kernelTypes,
	})
	if err != nil {
		return nil, fmt.Errorf("load the BPF programs %s: %w", strings.Join(slices.Sorted(maps.Keys(spec.Programs)), ", "), explain(err))
	}
	return coll, nil
}

// explain turns the kernel's refusal into something a person can act on.
func explain(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: %w (memtrace doctor says what to do)", ErrNotPermitted, refused{err})
	}
	return err
}

// loadWithCookie loads one program for one probe, its cookie built in; for
// kernels whose uprobes carry no cookies.
func (k *kernelHalf) loadWithCookie(name string, cookie uint64) (*ebpf.Program, error) {
	spec := k.only([]string{name})
	if err := spec.Variables[bpf.MemtraceVarFixedCookie].Set(cookie); err != nil {
		return nil, fmt.Errorf("set the cookie of %s: %w", name, err)
	}
	coll, err := k.loadSpec(spec, k.sharedMaps())
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// sharedMaps are the maps that all programs work on.
func (k *kernelHalf) sharedMaps() map[string]*ebpf.Map {
	shared := make(map[string]*ebpf.Map)
	for n, m := range k.coll.Maps {
		if !strings.HasPrefix(n, ".") || n == ".bss" { // what programs tell each other, not what is set for each
			shared[n] = m
		}
	}
	return shared
}

// more loads those of the named programs that are not loaded yet.
func (k *kernelHalf) more(names []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return k.coll.Programs[name] != nil })
	if len(names) == 0 {
		return nil
	}
	coll, err := k.loadPrograms(names, k.sharedMaps())
	if err != nil {
		return err
	}
	defer coll.Close()
	for _, name := range names {
		k.coll.Programs[name] = coll.DetachProgram(name)
	}
	return nil
}

func (k *kernelHalf) program(name string) *ebpf.Program {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.coll.Programs[name]
}

func (k *kernelHalf) close() { k.coll.Close() }

// ringBytes is the default size of one CPU's event ring: together at most 512 MiB,
// each enough for about 100 ms of the fastest allocator loop there is.
func ringBytes(cpus int) int {
	size := 16 << 20
	for size > 1<<20 && size*cpus > 512<<20 {
		size /= 2
	}
	return size
}

// onlineCPUs parses a CPU list such as "0-3,8".
func onlineCPUs() ([]int, error) {
	const path = "/sys/devices/system/cpu/online"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("list the online CPUs: %w", err)
	}
	return parseCPUList(strings.TrimSpace(string(text)))
}

func parseCPUList(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		low, err := strconv.Atoi(from)
		high := low
		if err == nil && ranged {
			high, err = strconv.Atoi(to)
		}
		if err != nil || low < 0 || high < low || high >= 1<<16 {
			return nil, fmt.Errorf("parse the CPU list %q: bad part %q", list, part)
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// withoutSlots shrinks the table of threads by their IDs, 22 MB, where no call of an allocator leaves anything for its
// return: threads then have their state in the task storage.
func withoutSlots(spec *ebpf.CollectionSpec) {
	spec.Maps[bpf.MemtraceMapThreadSlots].MaxEntries = 1
}
