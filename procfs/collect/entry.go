package collect

import (
	"errors"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// entry is a process from one pass to the next.
type entry struct {
	p     Process
	dir   *procfs.Process // held open, or nil between passes
	alive bool
	// seldom is when the fields that seldom change were last read.
	seldom    time.Time
	stat      footprint // by stat, in the last pass
	wantsWalk bool
	due       bool // in this pass, to have read what seldom changes
	// wantsShared says that Shared is to be had from the walk of this pass: it is
	// what is not anonymous of the RSS.
	wantsShared bool
	fresh       bool // first seen in this pass
	walk        walkState
}

// read reads one process; it reports whether there is one.
func (c *Collector) read(e *entry, want Fields, at time.Time) bool {
	e.wantsWalk = false
	for range 2 { // again where the PID was given to another process meanwhile
		if e.dir == nil && c.hold(e) != nil {
			return false
		}
		st, err := e.dir.Stat()
		if err != nil {
			again := errors.Is(err, procfs.ErrGone) && e.p.StartTime != 0
			_ = c.drop(e)
			e.forget()
			if again {
				continue
			}
			return false
		}
		if e.fresh = e.p.StartTime != st.StartTime; e.fresh {
			e.forget()
			e.fresh = true
		}
		c.fields(e, &st, want, at)
		return true
	}
	return false
}

// descriptors is how many a process may take that is held.
const descriptors = 1 + int64(procfs.KeptDescriptors)

// hold opens the process's directory.
func (c *Collector) hold(e *entry) (err error) {
	e.dir, err = c.dir.Process(e.p.PID)
	if err != nil {
		e.dir = nil
		if !errors.Is(err, procfs.ErrGone) {
			c.failed.CompareAndSwap(nil, &err)
		}
		return err
	}
	e.dir.KeepOpen()
	c.held.Add(descriptors)
	return nil
}

// holdAgain opens the directory of a process that this pass has read already,
// if it was let go; it reports whether that is still the same process.
func (c *Collector) holdAgain(e *entry) bool {
	if e.dir != nil {
		return true
	}
	if c.hold(e) != nil {
		return false
	}
	st, err := e.dir.Stat()
	return err == nil && st.StartTime == e.p.StartTime
}

// release lets go of the directory where too many are held.
func (c *Collector) release(e *entry) {
	if c.held.Load() > int64(c.maxHeld) {
		_ = c.drop(e)
	}
}

// drop lets go of the process's directory.
func (c *Collector) drop(e *entry) error {
	if e.dir == nil {
		return nil
	}
	c.held.Add(-descriptors)
	err := e.dir.Close()
	e.dir = nil
	return err
}

// forget makes the entry that of a process of which only the PID is known.
func (e *entry) forget() {
	*e = entry{p: Process{Identity: Identity{PID: e.p.PID}}, dir: e.dir}
}

// fields takes what stat says and reads the rest as wanted.
func (c *Collector) fields(e *entry, st *procfs.Stat, want Fields, at time.Time) {
	renamed := st.Comm != e.p.Comm
	e.setStat(st)
	if st.KernelThread() || st.Zombie() && st.NumThreads < 2 {
		e.noMemory(want)
		want &^= Memory | Shared | Cmdline
	}
	due := renamed || c.opts.RefreshEvery < 0 || at.Sub(e.seldom) >= c.opts.RefreshEvery
	if e.due = due; due {
		e.refreshed(at, c.opts.RefreshEvery)
	}
	for f := User; f <= OOMScore; f <<= 1 { // those that seldom change
		if want&f != 0 && (due || e.p.Outcome(f) == procfs.NotRead) {
			e.set(f, e.readSeldom(f))
		}
	}
	if want&InnerPIDs != 0 && e.p.Outcome(InnerPIDs) == procfs.NotRead { // they never change
		e.set(InnerPIDs, e.readInnerPIDs())
	}
	c.sizes(e, st, want, due)
	if want&Memory != 0 && (due || e.p.Outcome(Memory) != procfs.NoPermission) {
		e.wantsWalk = true
	}
}

// refreshed notes that what seldom changes is read now. Those that are new come
// to their next turns at different times, not all in one pass.
func (e *entry) refreshed(at time.Time, every time.Duration) {
	if e.seldom.IsZero() {
		at = at.Add(jittered(every, e.p.PID) - every)
	}
	e.seldom = at
}

func (e *entry) set(f Fields, err error) { e.p.outcomes[f.index()] = procfs.OutcomeOf(err) }

// noMemory marks the wanted fields about memory as truly zero.
func (e *entry) noMemory(want Fields) {
	for _, f := range [...]Fields{Memory, Shared, Cmdline} {
		if want&f != 0 {
			e.p.outcomes[f.index()] = procfs.NoMemory
		}
	}
	e.p.Memory, e.p.Shared, e.p.RSS = procfs.Rollup{}, 0, 0
}

func (e *entry) setStat(st *procfs.Stat) {
	p := &e.p
	p.StartTime, p.PPID, p.Comm, p.State = st.StartTime, st.PPID, st.Comm, st.State
	p.KernelThread, p.Priority, p.Nice = st.KernelThread(), st.Priority, st.Nice
	p.Threads, p.VSize = st.NumThreads, st.VSize
	p.User, p.System = time.Duration(st.UTime)*procfs.ClockTick, time.Duration(st.STime)*procfs.ClockTick
	p.MinFlt, p.MajFlt = st.MinFlt, st.MajFlt
}

// readSeldom reads one of the fields that seldom change.
func (e *entry) readSeldom(f Fields) (err error) {
	switch f {
	case User:
		e.p.UID, err = e.dir.UID()
	case Cmdline:
		e.p.Cmdline, err = e.dir.CommandLine()
	case Cgroup:
		e.p.Cgroup, err = e.dir.Cgroup()
	case OOMScore:
		e.p.OOMScore, err = e.dir.OOMScore()
	}
	return err
}

func (e *entry) readInnerPIDs() error {
	s, err := e.dir.Status()
	if len(s.NSpid) > 1 {
		e.p.InnerPIDs = s.NSpid[1:]
	}
	return err
}

// readSwaps reads the swap of those whose Memory cannot be read.
func (c *Collector) readSwaps() {
	c.lacking = c.lacking[:0]
	for _, e := range c.order {
		if e.alive && !e.p.Outcome(Memory).Ok() && (e.due || e.p.vmSwap == procfs.NotRead) {
			c.lacking = append(c.lacking, e)
		}
	}
	if len(c.lacking) > 0 {
		c.each(c.lacking, chunk, c.readSwap)
	}
}

func (c *Collector) readSwap(e *entry) {
	defer c.release(e)
	if !c.holdAgain(e) {
		e.alive = false
		return
	}
	s, err := e.dir.Status()
	e.p.VmSwap, e.p.vmSwap = s.VmSwap, procfs.OutcomeOf(err)
}

// sizes reads statm, unless nothing depends on its being newer than stat's own
// counters say, or a walk is going to tell the same. It is exact since Linux
// 6.16, where stat's may lag.
func (c *Collector) sizes(e *entry, st *procfs.Stat, want Fields, due bool) {
	now := footprint{rss: st.RSS(), size: st.VSize, minor: st.MinFlt, major: st.MajFlt}
	decides := want&Memory != 0 && c.opts.Budget.MaxAge > 0
	needed := want&Shared != 0 && (due || now != e.stat || e.p.Outcome(Shared) == procfs.NotRead)
	if now != e.stat {
		e.p.RSS = now.rss
	}
	e.stat = now
	e.wantsShared = needed && want&Memory != 0 && !c.opts.Budget.bounds() && !st.Zombie()
	if decides || needed && !e.wantsShared {
		if s, ok := e.readShared(); ok {
			now.rss, now.shared = s.Resident, s.Shared
		}
	}
	e.walk.seen = now
}

// readShared takes sizes from statm.
func (e *entry) readShared() (procfs.Statm, bool) {
	s, err := e.dir.Statm()
	e.set(Shared, err)
	if err == nil {
		e.p.Shared, e.p.RSS, e.p.VSize = s.Shared, s.Resident, s.Size // stat has none where the first thread ended
	}
	return s, err == nil
}

// readMemory walks the process's page tables. Where the memory is gone, it was
// replaced by exec, and the second try finds the new one; or the process is
// about to end and has none, or has ended.
func (e *entry) readMemory() {
	m, err := e.dir.SmapsRollup()
	if errors.Is(err, procfs.ErrGone) {
		m, err = e.dir.SmapsRollup()
	}
	if errors.Is(err, procfs.ErrGone) {
		if _, err := e.dir.Stat(); err != nil {
			e.alive = false
			return
		}
		e.noMemory(Memory)
		return
	}
	if err == nil {
		e.p.Memory, e.p.RSS = m, m.Rss
	}
	e.set(Memory, err)
}
