package tracer

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

const (
	// pollInterval is how long an event waits at most in a ring that does not
	// fill up to the wake-up threshold.
	pollInterval = 50 * time.Millisecond
	// relaxedInterval is that of Config.Relaxed.
	relaxedInterval = 500 * time.Millisecond
	// watermarkMargin covers the difference between the kernel's fast clock
	// and CLOCK_MONOTONIC (kernel/time/timekeeping.c, ktime_get_mono_fast_ns).
	watermarkMargin = 20_000
)

// source is one ring of one CPU.
type source interface {
	drain(visit func(record []byte)) bool
	fill() float64    // how full it is, from 0 to 1
	progress() uint64 // of what was read, in steps of releaseEvery; of any goroutine
	bpfMap() *ebpf.Map
	close()
}

// codeNews is called for a process that runs code that the unwinder does not know
// or, where mapped is set, has mapped some.
type codeNews func(pid int, at uint64, mapped bool)

// drain moves events from the rings to batches, in a goroutine of its own.
type drain struct {
	rings  []source // the i-th fills the i-th queue of the merger
	merger *merger
	epoll  int
	wake   int // eventfd

	out       chan *Batch
	batches   batches
	current   *Batch
	stacks    []event.Stack
	life      []event.Event
	malformed atomic.Uint64
	depth     int // most frames of a stack
	poll      time.Duration
	code      codeNews
	pythons   *pythons
	valve     *valve        // nil: nothing is done about rings that fill up
	through   atomic.Uint64 // all events before this time have been handed out

	stopAt atomic.Uint64 // time of Stop, 0 before
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once
}

// startDrain makes the rings for every online CPU and starts to read them.
func startDrain(k *kernelHalf, c Config, code codeNews, v *valve, p *pythons) (*drain, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	d := &drain{
		merger: &merger{}, epoll: -1, wake: -1,
		out: make(chan *Batch, maxBatches), batches: newBatches(),
		quit: make(chan struct{}), done: make(chan struct{}), code: code, depth: c.StackDepth, poll: pollInterval, valve: v, pythons: p,
	}
	if c.Relaxed {
		d.poll = relaxedInterval
	}
	for _, cpu := range cpus {
		err = errors.Join(err, d.open(k, cpu))
	}
	if err == nil {
		err = d.listen()
	}
	if err != nil {
		d.free()
		return nil, err
	}
	go d.run()
	return d, nil
}

// open makes a CPU's rings and lets the kernel's half find them.
func (d *drain) open(k *kernelHalf, cpu int) error {
	plain, err := openRing(k.sizes.buffer)
	if err != nil {
		return err
	}
	if err := d.add(k, bpf.MemtraceMapRings, cpu, plain); err != nil || k.sizes.records == 0 {
		return err
	}
	lines, err := openLineRing(k.spec.Maps[bpf.MemtraceMapEventRings].InnerMap)
	if err != nil {
		return err
	}
	return d.add(k, bpf.MemtraceMapEventRings, cpu, lines)
}

func (d *drain) add(k *kernelHalf, to string, cpu int, r source) error {
	d.rings = append(d.rings, r)
	d.merger.queues = append(d.merger.queues, queue{cpu: uint16(cpu)})
	if err := k.coll.Maps[to].Put(uint32(cpu), r.bpfMap()); err != nil {
		return fmt.Errorf("install a ring of CPU %d: %w", cpu, err)
	}
	return nil
}

// listen prepares to sleep until a ring wakes us.
func (d *drain) listen() (err error) {
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create an epoll instance: %w", err)
	}
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create an eventfd: %w", err)
	}
	fds := []int{d.wake}
	for _, r := range d.rings {
		if r, ok := r.(*ring); ok {
			fds = append(fds, r.m.FD())
		}
	}
	for _, fd := range fds {
		// Edge-triggered: a ring that is not empty must not keep us awake.
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("watch a ring buffer: %w", err)
		}
	}
	return nil
}

func (d *drain) run() {
	defer close(d.done)
	defer close(d.out)
	runtime.LockOSThread() // the merge stays in one core's cache
	defer runtime.UnlockOSThread()
	events := make([]unix.EpollEvent, len(d.rings)+1)
	for {
		end := d.stopAt.Load()
		if !d.round(end) {
			return
		}
		if end != 0 && d.merger.watermark() > end {
			d.flush()
			return
		}
		// An error is EINTR or nothing that waiting less could not mend.
		_, _ = unix.EpollWait(d.epoll, events, int(d.poll/time.Millisecond))
	}
}

// round reads all rings once and hands out what is in order; false means quit.
func (d *drain) round(end uint64) bool {
	d.valve.look(d.fullest(), d.backlog())
	for i, r := range d.rings {
		q := &d.merger.queues[i]
		before := monotonic()
		if r.drain(func(record []byte) { d.take(q, record) }) {
			q.watermark = before - watermarkMargin
		}
	}
	limit := d.merger.watermark()
	if end != 0 {
		limit = min(limit, end)
	}
	if !d.hand(limit) {
		return false
	}
	d.flush()
	d.through.Store(limit)
	return true
}

// fullest is how full the fullest ring is.
func (d *drain) fullest() (fill float64) {
	for _, r := range d.rings {
		fill = max(fill, r.fill())
	}
	return fill
}

// progress grows while rings are being read.
func (d *drain) progress() (sum uint64) {
	for _, r := range d.rings {
		sum += r.progress()
	}
	return sum
}

// backlog is how many of the batches wait for the reader.
func (d *drain) backlog() float64 { return float64(len(d.out)) / maxBatches }

// hand puts all events before limit into batches; false means quit.
func (d *drain) hand(limit uint64) bool {
	ok := true
	last := d.merger.release(limit, nil, func(full []event.Event) []event.Event {
		if d.current != nil {
			d.current.Events = full
			d.flush()
		}
		if ok = d.fresh(); !ok {
			return nil
		}
		return d.current.Events
	})
	if ok && d.current != nil {
		d.current.Events = last
	}
	return ok
}

// take decodes one record.
func (d *drain) take(q *queue, record []byte) {
	if e := q.slot(); decode(record, e) { // nearly all are events
		e.CPU = q.cpu
		if e.Kind >= event.Fork && e.Kind <= event.Exit {
			d.life = append(d.life, *e)
			d.pythons.life(e)
		}
		q.sortIn()
		return
	}
	q.drop()
	if isStack(record) {
		if s, ok := decodeStack(record, d.depth); ok {
			d.pythons.weave(&s)
			d.stacks = append(d.stacks, s)
			return
		}
	} else if pid, at, kind := decodeCode(record); kind == recordStale || kind == recordMapped {
		d.code(pid, at, kind == recordMapped)
		return
	} else if d.pythons.take(record) {
		return
	}
	d.malformed.Add(1)
}

// fresh gets an empty batch, waiting for the reader if all are in use.
func (d *drain) fresh() bool {
	if d.current = d.batches.take(d.quit); d.current == nil {
		return false
	}
	d.current.Stacks, d.stacks = d.stacks, nil
	d.current.Life, d.life = d.life, nil
	return true
}

// flush hands the current batch to the reader. There are no more batches than
// the channel holds, so it never blocks.
func (d *drain) flush() {
	if d.current == nil && (len(d.stacks)+len(d.life) == 0 || !d.fresh()) {
		return
	}
	d.out <- d.current
	d.current = nil
	if len(d.out) == backlogFull*maxBatches { // within a round, as many rings hold more than all batches
		d.valve.look(0, d.backlog())
	}
}

func (d *drain) read() (*Batch, error) {
	b, ok := <-d.out
	if !ok {
		return nil, ErrClosed
	}
	return b, nil
}

// stop ends the trace at this instant.
func (d *drain) stop() {
	if d.stopAt.CompareAndSwap(0, monotonic()) {
		d.kick()
	}
}

func (d *drain) kick() {
	one := [8]byte{1}
	if _, err := unix.Write(d.wake, one[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
		panic("write to an eventfd: " + err.Error()) // our own descriptor, open until free
	}
}

func (d *drain) close() {
	d.once.Do(func() {
		d.stop()
		close(d.quit)
		<-d.done
		d.free()
	})
}

func (d *drain) free() {
	for _, r := range d.rings {
		r.close()
	}
	for _, fd := range []int{d.epoll, d.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// monotonic is CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error()) // it always exists
	}
	return uint64(ts.Nano())
}
