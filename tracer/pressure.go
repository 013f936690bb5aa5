package tracer

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
)

// A Phase is a time in which blocks were sampled because events came faster
// than they could be taken in.
type Phase struct {
	From, To uint64 // ns, CLOCK_MONOTONIC; To is 0 while it lasts
	Interval uint32 // mean number of bytes between hits
}

// Pressure is what was done about events that came too fast.
type Pressure struct {
	Count  int     // of phases
	Phases []Phase // the latest ones, in order
	// LeftOut are the calls that were not recorded then, exactly; none are
	// counted by a tracer made for Sampling.
	LeftOut LeftOut
}

// LeftOut are calls that were seen and not recorded.
type LeftOut struct{ Alloc, Free, Realloc uint64 }

const (
	// ringsFull is how full a ring is as sampling begins: with a sample, the other
	// half takes seconds to fill. The kernel's half sees to it (bpf/headers/pressure.h).
	ringsFull = 0.5
	// backlogFull is the same of the batches that wait for a busy reader.
	backlogFull = 0.75
	// ringsLow and backlogLow are the levels below which sampling may end. They are above
	// what wakes the drain; otherwise they would not be seen.
	ringsLow, backlogLow = 0.33, 0.125

	minLowTime = 1_000_000_000  // ns for which the levels must be low
	maxLowTime = 30_000_000_000 // at most, if pressure comes back
	forgetTime = 10_000_000_000 // after a phase: later pressure is new, and waits for minLowTime again

	maxPhases = 256
)

// A gauge decides when a phase begins and when it ends. Whenever pressure comes back
// soon after a phase, it doubles the time for which the levels must be low. So a
// target that is always too fast does not alternate between full tracing and sampling.
type gauge struct {
	lowSince uint64 // since when the levels have been low; 0: they are not
	hold     uint64 // for which it must be, of the phase under way
	ended    uint64 // when the last phase did; 0: there was none
}

// step takes in how full the fullest ring is and how many of the batches
// wait, at now (ns), and says whether a phase is to begin or to end. pressed
// says that one is under way, which the kernel's half may have begun.
func (g *gauge) step(now uint64, pressed bool, rings, backlog float64) (begin, end bool) {
	if !pressed {
		return rings >= ringsFull || backlog >= backlogFull, false
	}
	if g.hold == 0 {
		g.hold = minLowTime
	}
	if rings > ringsLow || backlog > backlogLow {
		g.lowSince = 0
		return false, false
	}
	if g.lowSince == 0 {
		g.lowSince = now
	}
	if now-g.lowSince < g.hold {
		return false, false
	}
	g.lowSince, g.ended = 0, now
	return false, true
}

// began says when the phase under way began.
func (g *gauge) began(at uint64) {
	g.lowSince = 0
	switch {
	case g.ended == 0 || at > g.ended+forgetTime:
		g.hold = minLowTime
	default:
		g.hold = min(2*g.hold, maxLowTime)
	}
}

// valve is the state that the kernel's half samples by, and what has been known of it.
type valve struct {
	word     *uint64 // see bpf/headers/pressure.h
	start    *uint64 // ns: when the kernel's half began the latest phase
	left     []byte  // its table of blocks that were left out; nil for a tracer made for Sampling
	mem      []byte
	interval uint32

	mu     sync.Mutex // of what follows: the drain looks, others ask
	gauge  gauge
	count  int
	phases []Phase
}

// openValve maps the state; nil where there is to be no sampling under pressure.
func openValve(maps map[string]*ebpf.Map, c Config) (*valve, error) {
	if c.Pressure == 0 {
		return nil, nil
	}
	mem, err := unix.Mmap(maps[bpf.MemtraceMapPressures].FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the state of pressure: %w", err)
	}
	v := newValve(mem, pressedInterval(c))
	if c.Sampling {
		return v, nil
	}
	left := maps[bpf.MemtraceMapLeft]
	if v.left, err = unix.Mmap(left.FD(), 0, slotSize*int(left.MaxEntries()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		v.close()
		return nil, fmt.Errorf("map the table of blocks that are left out: %w", err)
	}
	return v, nil
}

func newValve(mem []byte, interval uint32) *valve {
	state := (*bpf.MemtracePressure)(unsafe.Pointer(&mem[0]))
	return &valve{word: &state.State, start: &state.Began, mem: mem, interval: interval}
}

// pressedInterval is that of samples under pressure: what is a sample anyway must become sparser.
func pressedInterval(c Config) uint32 {
	const sparser = 16
	if c.Pressure == 0 {
		return 0
	}
	return uint32(min(max(uint64(c.Pressure), uint64(c.Interval)*sparser), 1<<32-1))
}

// withoutLeft shrinks the table where it is not used.
func withoutLeft(spec *ebpf.CollectionSpec) {
	spec.Maps[bpf.MemtraceMapLeft].MaxEntries = 1
}

// look begins or ends a phase, by how full the rings and the batches are.
func (v *valve) look(rings, backlog float64) {
	if v != nil {
		v.lookAt(monotonic(), rings, backlog)
	}
}

func (v *valve) lookAt(now uint64, rings, backlog float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := atomic.LoadUint64(v.word)
	pressed := uint32(state) != 0
	if pressed {
		v.notice(now, state>>32)
	}
	switch begin, end := v.gauge.step(now, pressed, rings, backlog); {
	case begin:
		v.begin(now, state)
	case end:
		v.end(now, state)
	}
}

// notice takes in a phase that the kernel's half began.
func (v *valve) notice(now, number uint64) {
	if uint64(v.count) == number {
		return
	}
	from := atomic.LoadUint64(v.start)
	if n := len(v.phases); from == 0 || from > now || n > 0 && from < v.phases[n-1].To {
		from = now // it is about to be written
	}
	v.enter(from)
}

func (v *valve) enter(from uint64) {
	v.count++
	if len(v.phases) == maxPhases {
		v.phases = slices.Delete(v.phases, 0, 1)
	}
	v.phases = append(v.phases, Phase{From: from, Interval: v.interval})
	v.gauge.began(from)
}

func (v *valve) begin(now, state uint64) {
	if !atomic.CompareAndSwapUint64(v.word, state, (state>>32+1)<<32|uint64(v.interval)) {
		return // the kernel's half was first, which the next look notices
	}
	v.enter(now)
}

func (v *valve) end(now, state uint64) {
	atomic.StoreUint64(v.word, state>>32<<32)
	clear(v.left)
	v.phases[len(v.phases)-1].To = now
}

// past are the phases so far.
func (v *valve) past() (count int, phases []Phase) {
	if v == nil {
		return 0, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if state := atomic.LoadUint64(v.word); uint32(state) != 0 {
		v.notice(monotonic(), state>>32)
	}
	return v.count, slices.Clone(v.phases)
}

func (v *valve) close() {
	if v == nil {
		return
	}
	if v.left != nil {
		_ = unix.Munmap(v.left)
	}
	_ = unix.Munmap(v.mem)
}

// Pressure returns what was done so far about events that came too fast.
func (t *Tracer) Pressure() (p Pressure, err error) {
	p.Count, p.Phases = t.valve.past()
	for kind, to := range map[bpf.MemtraceLoss]*uint64{
		bpf.MemtraceLossLEFT_OUT_ALLOC:   &p.LeftOut.Alloc,
		bpf.MemtraceLossLEFT_OUT_FREE:    &p.LeftOut.Free,
		bpf.MemtraceLossLEFT_OUT_REALLOC: &p.LeftOut.Realloc,
	} {
		if *to, err = t.kernel.counted(kind); err != nil {
			return p, err
		}
	}
	return p, nil
}
